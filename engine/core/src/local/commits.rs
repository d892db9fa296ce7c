//! What the machine commits, in the form of the store.

use rondo_protocol::digest::Kind;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::{LAYOUT, Record, Start};
use rondo_protocol::workflow::{Policy, Workflow};
use rondo_protocol::{Digest, Value, canonical};

use crate::store::{self, LaneRow, NewStep, Row, VisitIndex, VisitKey};
use crate::thread::{self, Commit, NewEpoch, Object};

/// The start of a definition, and its objects: workflow, policy and start.
pub(super) fn definition(
    workflow: &Workflow,
    policy: &Policy,
    input: Value,
) -> Result<(Start, [Object; 3]), canonical::Error> {
    let (workflow, workflow_bytes) = Digest::of(Kind::Workflow, workflow)?;
    let (policy, policy_bytes) = Digest::of(Kind::Policy, policy)?;
    let start = Start { input, layout: LAYOUT, workflow };
    let (digest, bytes) = Digest::of(Kind::Start, &start)?;
    let start_object = (Kind::Start, digest, bytes);
    Ok((start, [(Kind::Workflow, workflow, workflow_bytes), (Kind::Policy, policy, policy_bytes), start_object]))
}

/// A commit of the machine. `row` has everything that the machine does not decide.
pub(super) fn stored(thread: ThreadId, commit: Commit, row: Row, record: Option<NewStep>) -> store::Commit {
    let Commit { version, seq, head, checkpoint, lanes, closed, lists, closed_list, objects, .. } = commit;
    let rows = closed.into_iter().map(|lane| (lane, None)).chain(lanes.into_iter().map(|(path, state)| {
        let row = LaneRow {
            frontier: state.frontier,
            fold: state.fold,
            opened_by: state.opened_by,
            index: u64::from(state.index),
        };
        (path, Some(row))
    }));
    let opened = lists.into_iter().map(|(opened_by, list)| (opened_by, Some(list.to_text().into_bytes())));
    store::Commit {
        thread,
        expected: version.saturating_sub(1),
        row: Row { version, seq, head, checkpoint, ..row },
        lanes: rows.collect(),
        lists: closed_list.map(|opened_by| (opened_by, None)).into_iter().chain(opened).collect(),
        clear_journal: commit.clear_journal,
        objects,
        step: record,
    }
}

pub(super) fn step(new: thread::NewStep) -> NewStep {
    let thread::NewStep { seq, digest, bytes, episode, visit, note, .. } = new;
    let (lane, role) = (episode.lane.clone(), episode.role.clone());
    let found_by = VisitKey { index: VisitIndex::Steps, lane, role, visit };
    NewStep { seq, digest, bytes, found_by: Some(found_by), note }
}

/// A compaction or a rebind.
pub(super) fn epoch(new: NewEpoch) -> NewStep {
    let NewEpoch { seq, digest, bytes, record, note, .. } = new;
    let through_visit = if let Record::Compaction(compaction) = &record { compaction.through_visit } else { 0 };
    NewStep { seq, digest, bytes, found_by: VisitKey::of(&record, through_visit), note }
}

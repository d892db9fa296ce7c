//! What the machine commits, as the store takes it.

use std::sync::Arc;

use futures_util::future;
use rondo_agent_kit::conversation::PastStep;
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{self, What};
use rondo_protocol::id::RoleName;
use rondo_protocol::object::{Entry, Followed, Record, Transcript};

use super::super::commits;
use super::ending::status;
use super::{Driver, PendingCommit};
use crate::store::{self, NewStep};
use crate::thread::{Commit, Ending, NewEpoch, Notice, Object};

impl<'a> Driver<'a> {
    /// Passes a commit to the store.
    pub(super) fn commit(&'a self, mut commit: Commit) -> PendingCommit<'a> {
        let Commit { version, seq, .. } = commit;
        let now_ms = self.parts.env.now_ms();
        let row = {
            let mut stored = self.stored.lock();
            if let Some(ending) = commit.ending.take() {
                stored.row.status = status(ending.outcome);
                stored.origin.ending = Some(Ending { at_ms: now_ms, ..ending });
                stored.origin.stop = None;
                match stored.origin.to_bytes() {
                    Ok(origin) => stored.row.origin = origin,
                    Err(error) => {
                        let error = store::Error::Malformed { what: error.to_string() };
                        return Box::pin(future::ready((version, seq, Err(error))));
                    }
                }
            } else {
                stored.row.status = store::Status::Running;
            }
            let row = &mut stored.row;
            (row.version, row.seq, row.head) = (version, seq, commit.head);
            row.checkpoint.clone_from(&commit.checkpoint);
            row.clone()
        };
        let heads = commit.objects.iter().filter(|(kind, ..)| *kind == Kind::Head).map(|(_, head, _)| *head);
        self.stored_heads.lock().extend(heads);
        let step = commit.step.take().map(|step| self.made(step));
        let record = step.or_else(|| commit.epoch.take().map(|epoch| self.opened(epoch)));
        let commit = commits::stored(self.parts.thread.clone(), commit, row, record);
        let committed = self.parts.store.commit(commit);
        Box::pin(async move { (version, seq, committed.await) })
    }

    /// Records a new step, which conversations continue from.
    fn made(&self, new: crate::thread::NewStep) -> NewStep {
        let crate::thread::NewStep { digest, prev, transcript, episode, .. } = &new;
        let said = self.transcripts.lock().remove(&episode.lane);
        let mut conversations = self.conversations.lock();
        match self.parts.resolved_roles.model_roles.get(&episode.role).filter(|_| transcript.is_some()) {
            Some(_) => {
                conversations.close(&episode.role, episode.place(), &episode.answer, said.as_ref());
            }
            None => conversations.forget(&episode.role, &episode.lane),
        }
        drop(conversations);
        if let Some(lanes) = &mut *self.journaled.lock() {
            lanes.insert(episode.lane.clone());
        }
        let (place, prev) = (episode.place(), prev.as_slice().into());
        self.steps.add(PastStep { place, episode: Some(Arc::clone(episode)), digest: *digest, prev });
        commits::step(new)
    }

    /// Records a compaction: the conversation is built again when its visit opens.
    fn opened(&self, new: NewEpoch) -> NewStep {
        let NewEpoch { digest, record, place, .. } = &new;
        if let Record::Compaction(compaction) = record {
            self.conversations.lock().forget(&compaction.role, &compaction.lane);
            if let Some(lanes) = &mut *self.journaled.lock() {
                lanes.insert(compaction.lane.clone());
            }
        }
        let (place, prev) = (place.clone(), record.prev().into());
        self.steps.add(PastStep { place, episode: None, digest: *digest, prev });
        commits::epoch(new)
    }

    /// The heads that a role's transcript names and this run has not stored yet.
    pub(super) fn new_heads(&self, role: &RoleName, transcript: &Transcript) -> Vec<Object> {
        let Some(runtime) = self.parts.resolved_roles.model_roles.get(role) else { return Vec::new() };
        let stored = self.stored_heads.lock();
        let is_new = |head: &Digest| {
            let is_named = |entry: &Entry| matches!(entry, Entry::Model { head: named, .. } if named == head);
            !stored.contains(head) && transcript.entries.iter().any(is_named)
        };
        let heads = runtime.heads.iter().filter(|head| is_new(&head.digest));
        heads.map(|head| (Kind::Head, head.digest, head.bytes.to_vec())).collect()
    }

    pub(super) fn tell(&self, told: Notice) {
        let sink = &self.parts.sink;
        match told {
            Notice::Committed { site, seq, step, prev, status, at_ms } => {
                sink.committed(seq, at_ms, || What::committed(site, (seq, step, prev), status));
            }
            Notice::After { visit, status, followed } => {
                if let Followed::LaneEnded { visit, .. } = &followed {
                    self.conversations.lock().forget_lane(&visit.lane);
                    self.lanes.lock().remove(&visit.lane);
                }
                let visit = visit.unwrap_or_else(event::Visit::beginning);
                sink.followed(|| What::followed(&self.parts.thread, &visit, status.as_ref(), followed));
            }
        }
    }
}

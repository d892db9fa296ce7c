//! What the steps of a store used, in one sum or by workflow, role, model or day.
//!
//! Laws: each call is counted once. A fork counts only the steps after its base, which has the others. A child's calls
//! are counted in the child's thread, not again in the step that it is to its parent. What is not known is never
//! counted as zero. Steps are read one at a time, so memory grows with the groups and not with the threads.

mod sums;

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::conversation::rebuild;
use rondo_core::local::origin;
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{RoleName, ThreadId};
use rondo_protocol::object::{Note, Observation, Record};
use rondo_protocol::workflow::{RoleKind, Workflow};
use rondo_store::{Error, Read, Row, StoredRecord, rows_after};

use super::since::day;
use super::spending::Spending;

pub use sums::{Sums, UsageLine, cached_share};

/// What a sum is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Workflow,
    Role,
    Model,
    Day,
}

impl By {
    pub const ALL: [Self; 4] = [Self::Workflow, Self::Role, Self::Model, Self::Day];

    pub fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Role => "role",
            Self::Model => "model",
            Self::Day => "day",
        }
    }
}

/// By key; a key is `None` for steps that have none.
pub type Groups = BTreeMap<Option<String>, Sums>;

/// The sums over no steps.
pub fn none(by: Option<By>) -> Groups {
    Tally::new(by).groups()
}

/// The sums over all steps that ended at `from_ms` or later: those of a store, or of some of its threads and their
/// children.
pub fn sums(
    store: &dyn Read,
    mut of: Option<BTreeSet<ThreadId>>,
    by: Option<By>,
    from_ms: u64,
) -> Result<Groups, Error> {
    let mut tally = Tally::new(by);
    let mut child_roles = ChildRoles { store, known: None };
    for row in rows_after(store, None) {
        let (thread, row) = row?;
        if let Some(of) = &mut of {
            // A child is younger than its parent.
            let is_below = row.parent.as_ref().is_some_and(|parent| of.contains(&parent.thread));
            if !of.contains(&thread) && !is_below {
                continue;
            }
            of.insert(thread.clone());
        }
        add_thread(&mut tally, &mut child_roles, (&thread, &row), from_ms)?;
    }
    Ok(tally.groups())
}

/// The sums over the steps that a thread has of its own.
pub fn of_thread(store: &dyn Read, thread: (&ThreadId, &Row), by: Option<By>) -> Result<Groups, Error> {
    let mut tally = Tally::new(by);
    add_thread(&mut tally, &mut ChildRoles { store, known: None }, thread, 0)?;
    Ok(tally.groups())
}

fn add_thread(
    tally: &mut Tally,
    child_roles: &mut ChildRoles<'_>,
    (thread, row): (&ThreadId, &Row),
    from_ms: u64,
) -> Result<(), Error> {
    let origin = origin(thread, row)?;
    // What was imported cost somebody else.
    let imported = origin.imported.map_or(0, |past| past.seq);
    let first = row.shared().max(imported).saturating_add(1);
    tally.begin(origin.name);
    let mut outcome = Ok(());
    child_roles.store.scan(thread, first..=row.seq, &mut |stored, note| {
        if note.ended_at_ms >= from_ms {
            outcome = of_record(tally, child_roles, row.workflow, &stored, &note);
        }
        outcome.is_ok()
    })?;
    outcome
}

fn of_record(
    tally: &mut Tally,
    child_roles: &mut ChildRoles<'_>,
    workflow: Digest,
    stored: &StoredRecord,
    note: &Note,
) -> Result<(), Error> {
    let (role, is_step, is_child) = match &stored.record {
        Record::Step(step) => {
            let is_child = |observation: &Observation| matches!(observation, Observation::Child { .. });
            (&step.role, true, step.observations.iter().any(is_child))
        }
        Record::Compaction(compaction) => (&compaction.role, false, false),
        Record::Rebind(_) => return Ok(()),
    };
    let sums = tally.group(role, note.model.as_deref(), note.ended_at_ms);
    sums.steps += u64::from(is_step);
    note.hooks.iter().flat_map(|hook| &hook.answered).for_each(|answer| sums.save(answer));
    if !is_child {
        sums.add(Spending { usage: note.usage, cost: note.cost() }, note.model_calls, note.tool_calls);
    }
    for lost in &note.cancelled {
        if !child_roles.contains(workflow, &lost.role)? {
            // The note of a cancelled visit names no model.
            let sums = tally.group(&lost.role, None, note.ended_at_ms);
            sums.add(Spending::from(lost), lost.model_calls, lost.tool_calls);
        }
    }
    Ok(())
}

/// The roles of a workflow that run child workflows. It is read where a lane was cancelled, and the last one is kept.
struct ChildRoles<'a> {
    store: &'a dyn Read,
    known: Option<(Digest, BTreeSet<RoleName>)>,
}

impl ChildRoles<'_> {
    fn contains(&mut self, digest: Digest, role: &RoleName) -> Result<bool, Error> {
        if let Some((known, roles)) = &self.known
            && *known == digest
        {
            return Ok(roles.contains(role));
        }
        let workflow: Workflow = rebuild::object(self.store, Kind::Workflow, digest)?;
        let children = workflow.roles.into_iter().filter(|(_, role)| matches!(role.kind, RoleKind::Workflow(_)));
        let (_, roles) = self.known.insert((digest, children.map(|(name, _)| name).collect()));
        Ok(roles.contains(role))
    }
}

/// The groups, and the thread that is being read.
struct Tally {
    by: Option<By>,
    /// Each with the last thread that it counted.
    groups: BTreeMap<Option<String>, (u64, Sums)>,
    /// The number of the thread, from 1.
    thread: u64,
    workflow: String,
}

impl Tally {
    fn new(by: Option<By>) -> Self {
        // One sum exists without a step too.
        let groups = by.is_none().then(|| (None, (0, Sums::default()))).into_iter().collect();
        Self { by, groups, thread: 0, workflow: String::new() }
    }

    fn begin(&mut self, workflow: String) {
        self.thread += 1;
        self.workflow = workflow;
    }

    /// The sums to which something of the thread belongs.
    fn group(&mut self, role: &RoleName, model: Option<&str>, at_ms: u64) -> &mut Sums {
        let key = match self.by {
            None => None,
            Some(By::Workflow) => Some(self.workflow.clone()),
            Some(By::Role) => Some(role.to_string()),
            Some(By::Model) => model.map(str::to_owned),
            Some(By::Day) => Some(day(at_ms)),
        };
        let (last, sums) = self.groups.entry(key).or_default();
        if *last != self.thread {
            *last = self.thread;
            sums.threads += 1;
        }
        sums
    }

    fn groups(self) -> Groups {
        self.groups.into_iter().map(|(key, (_, sums))| (key, sums)).collect()
    }
}

//! The machine's access to earlier steps, which it does not hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::conversation::Episode;
use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::BoundedEdge;

use super::lane::{EdgeCount, OwnVisits};
use super::message::NewStep;
use crate::graph::EdgeId;

/// Looks up earlier steps of the thread. Results are deterministic, so that the machine stays a pure function. Every
/// method fails if what it looks up is missing or damaged.
pub trait StepLookup {
    /// The step with a number, in the form for templates.
    fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault>;

    /// The state from earlier rounds of a lane; `None` if none of its steps was committed.
    fn past(&self, lane: &LanePath) -> Result<Option<PastLane>, Fault>;

    /// The steps of a role's visits in the trunk, oldest first.
    fn visits(&self, role: &RoleName) -> Result<Vec<u64>, Fault>;

    /// The list of the `each` in the fan-out that step `opened_by` opened, if it is stored.
    fn list(&self, opened_by: u64) -> Result<Option<Arc<Value>>, Fault>;
}

/// The state from earlier rounds of a lane.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PastLane {
    /// By role: its visits in the lane.
    pub own: BTreeMap<RoleName, OwnVisits>,
    /// Bounded edges that were taken in the lane.
    pub taken: BTreeMap<EdgeId, EdgeCount>,
    /// The steps that first opened the lane and its enclosing lanes, outermost first.
    pub first_opened_by: Vec<u64>,
}

/// A step whose commit is not synced yet, so that the store may lack it.
#[derive(Debug, Clone)]
pub(super) struct Unstored {
    /// The row's version after its commit.
    pub(super) version: u64,
    episode: Arc<Episode>,
    attempts: u64,
    left_by: Option<BoundedEdge>,
    first_opened_by: Vec<u64>,
}

impl Unstored {
    /// A step of a new commit.
    pub(super) fn of(version: u64, step: &NewStep) -> Self {
        let note = &step.note;
        let first = if note.first_opened_by.is_empty() { &note.opened_by } else { &note.first_opened_by };
        Self {
            version,
            episode: Arc::clone(&step.episode),
            attempts: note.attempts,
            left_by: note.left_by,
            first_opened_by: first.clone(),
        }
    }
}

/// A lookup that includes the steps not synced yet.
pub(super) struct Unsynced<'a> {
    /// The lookup for all other steps.
    pub(super) recall: &'a dyn StepLookup,
    /// The steps not synced yet, oldest first.
    pub(super) steps: Vec<Unstored>,
}

impl StepLookup for Unsynced<'_> {
    fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault> {
        let at = self.steps.binary_search_by_key(&seq, |step| step.episode.seq).ok();
        match at.and_then(|at| self.steps.get(at)) {
            Some(step) => Ok(Arc::clone(&step.episode)),
            None => self.recall.episode(seq),
        }
    }

    fn past(&self, lane: &LanePath) -> Result<Option<PastLane>, Fault> {
        let mut past = self.recall.past(lane)?.unwrap_or_default();
        let known = past.own.values().map(|own| own.latest).max().unwrap_or(0);
        for step in self.steps.iter().filter(|step| step.episode.lane == *lane && step.episode.seq > known) {
            if past.own.is_empty() {
                past.first_opened_by.clone_from(&step.first_opened_by);
            }
            let own = past.own.entry(step.episode.role.clone()).or_default();
            own.visits += 1;
            own.attempts += step.attempts;
            own.latest = step.episode.seq;
            if let Some(left_by) = step.left_by {
                past.taken.insert(EdgeId(left_by.edge), EdgeCount { count: left_by.count, mark: left_by.mark });
            }
        }
        Ok(Some(past).filter(|past| !past.own.is_empty()))
    }

    fn visits(&self, role: &RoleName) -> Result<Vec<u64>, Fault> {
        self.recall.visits(role)
    }

    fn list(&self, opened_by: u64) -> Result<Option<Arc<Value>>, Fault> {
        self.recall.list(opened_by)
    }
}

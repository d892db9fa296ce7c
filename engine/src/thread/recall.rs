//! What the machine looks up and does not hold: earlier steps.

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

/// Earlier steps of the thread. The same thread gives the same answers, so that the machine stays a pure function.
pub trait StepLookup {
    /// The step of that number as templates see it.
    ///
    /// # Errors
    /// When it is missing or damaged.
    fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault>;

    /// What earlier rounds of a lane left behind; `None` where no step of it was committed.
    ///
    /// # Errors
    /// When it is damaged.
    fn past(&self, lane: &LanePath) -> Result<Option<PastLane>, Fault>;

    /// The steps of a role's visits in the trunk, oldest first.
    ///
    /// # Errors
    /// When the index is damaged.
    fn visits(&self, role: &RoleName) -> Result<Vec<u64>, Fault>;

    /// The list that the `each` of the fan-out opened by step `opened_by` went over, if it is stored.
    ///
    /// # Errors
    /// When it is damaged.
    fn list(&self, opened_by: u64) -> Result<Option<Arc<Value>>, Fault>;
}

/// What earlier rounds of a lane left behind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PastLane {
    /// Of each role: its visits in the lane.
    pub own: BTreeMap<RoleName, OwnVisits>,
    /// Bounded edges that were taken in the lane.
    pub taken: BTreeMap<EdgeId, EdgeCount>,
    /// The steps that opened the lane and those around it for the first time, outermost first.
    pub first_opened_by: Vec<u64>,
}

/// A step whose commit is not synced yet, so that a store may have it or not.
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
    /// A step that is committed now.
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

/// What can be recalled, with the steps that are not synced yet.
pub(super) struct Unsynced<'a> {
    /// The rest.
    pub(super) recall: &'a dyn StepLookup,
    /// These steps, oldest first.
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

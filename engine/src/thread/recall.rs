//! What the machine looks up and does not hold: earlier steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::conversation::Episode;
use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::id::{LanePath, RoleName};

use super::lane::{Own, Taken};
use crate::graph::EdgeId;

/// Earlier steps of the thread. The same thread gives the same answers, so that the machine stays a pure function.
pub trait Recall {
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
    pub own: BTreeMap<RoleName, Own>,
    /// Bounded edges that were taken in the lane.
    pub taken: BTreeMap<EdgeId, Taken>,
    /// The steps that opened the lane and those around it for the first time, outermost first.
    pub first_opened_by: Vec<u64>,
}

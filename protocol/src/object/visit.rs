//! The parts shared by notes and events: visits, the targets of edges, and how lanes and threads end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::id::{LanePath, RoleName};

/// The visit that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Visit {
    /// The role.
    pub role: RoleName,
    /// The n-th visit of the role in the lane, from 1.
    pub visit: u64,
    /// The lane.
    pub lane: LanePath,
}

/// A target of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// The role.
    pub role: RoleName,
    /// The lane of the visit.
    pub lane: LanePath,
}

/// How a lane ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LaneEnd {
    /// It arrived at its join.
    Arrived,
    /// It failed with a fault.
    Failed,
    /// It was cancelled, because its join no longer needed it.
    Cancelled,
}

impl Visit {
    /// The visit that represents the start of a thread in events.
    pub fn beginning() -> Self {
        Self { role: RoleName::start(), visit: 0, lane: LanePath::trunk() }
    }
}

/// How a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    /// At `end`.
    Done,
    /// At `fail`.
    Failed,
    /// By `rondo cancel`.
    Cancelled,
}

impl Outcome {
    /// The word in events.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

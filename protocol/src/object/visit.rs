//! Where a visit is, where an edge leads, and how lanes and threads end: what notes and events have in common.

use serde::{Deserialize, Serialize};

use crate::id::{LanePath, RoleName};

/// Whose visit an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// The role.
    pub role: RoleName,
    /// Its n-th visit in the lane, from 1.
    pub visit: u64,
    /// The lane.
    pub lane: LanePath,
}

/// Where an edge leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The role.
    pub role: RoleName,
    /// The lane in which it is visited.
    pub lane: LanePath,
}

/// How a lane came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneEnd {
    /// At its join.
    Arrived,
    /// With a fault.
    Failed,
    /// Because its join needed it no longer.
    Cancelled,
}

impl Visit {
    /// The visit that stands for the beginning of a thread in events.
    pub fn beginning() -> Option<Self> {
        let role = RoleName::new("start").ok()?;
        Some(Self { role, visit: 0, lane: LanePath::trunk() })
    }
}

/// How a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

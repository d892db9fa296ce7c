//! The states of a walk that can be told apart, and the ways between them.
//!
//! Two states are one *spot* when no condition, bound or limit of the graph can tell them apart: the same role is next,
//! entered from the same one where an edge leads back, the bounded edges were taken as often, the same roles have run,
//! and what conditions read of them is the same, in every lane. What texts say is not kept apart, so that the space is finite and
//! small; it is exact for routing because routing reads nothing else.

use std::collections::BTreeMap;

use rondo_protocol::event::Outcome;
use rondo_protocol::id::{LanePath, RoleName, Status};

use crate::graph::EdgeId;

/// What tells a spot from others.
pub type Key = Vec<u64>;

/// A place in [`Space::spots`].
pub type SpotId = usize;

/// Every spot that was reached.
#[derive(Debug, Default)]
pub struct Space {
    index: BTreeMap<Key, SpotId>,
    /// In the order in which they were found.
    pub spots: Vec<Spot>,
}

/// A role about to be visited.
#[derive(Debug)]
pub struct Spot {
    /// Whose visit.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// What may come of it.
    pub ways: Vec<Way>,
}

/// One outcome of a visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// The step; `None` where a limit lets none be made.
    pub step: Option<EdgeCount>,
    /// Where it leads.
    pub goal: Goal,
}

/// A step of a way.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeCount {
    /// The status.
    pub status: Status,
    /// Which answer of that status, the first that leads this way.
    pub answer: usize,
    /// The edge that follows.
    pub edge: EdgeId,
    /// Steps that follow without anybody being asked, such as that of a fan-out that failed.
    pub given: Vec<Given>,
}

/// A step that nobody was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Whose.
    pub role: RoleName,
    /// In which lane.
    pub lane: LanePath,
    /// Its status.
    pub status: Status,
}

impl Way {
    /// How many steps it makes.
    pub fn made(&self) -> u64 {
        self.step.as_ref().map_or(0, |step| 1 + u64::try_from(step.given.len()).unwrap_or(u64::MAX))
    }

    /// How many of them are visits of `name`, on a way from a spot of `role`.
    pub fn visits(&self, role: &RoleName, name: &RoleName) -> u64 {
        let Some(step) = &self.step else { return 0 };
        let given = step.given.iter().filter(|given| given.role == *name).count();
        u64::from(role == name) + u64::try_from(given).unwrap_or(u64::MAX)
    }
}

/// Where a way leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// To another visit.
    Spot(SpotId),
    /// To an end.
    End(End),
}

/// How a route ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// At `end`.
    Done,
    /// At `fail`.
    Fail,
    /// At a limit that no edge routes.
    Limit,
}

impl End {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Fail => "fail",
            Self::Limit => "limit",
        }
    }

    /// What stands at the end of a route: the target of its last edge, or the limit.
    pub fn leads_to(self) -> &'static str {
        match self {
            Self::Done => "end",
            Self::Fail | Self::Limit => self.as_str(),
        }
    }

    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Failed | Outcome::Cancelled => Self::Fail,
        }
    }
}

impl Space {
    /// The spot of that key, which is new if there was none.
    pub fn spot(&mut self, key: Key, role: &RoleName, lane: LanePath) -> SpotId {
        let next = self.spots.len();
        let id = *self.index.entry(key).or_insert(next);
        if id == next {
            self.spots.push(Spot { role: role.clone(), lane, ways: Vec::new() });
        }
        id
    }

    /// Adds a way from a spot, unless another answer leads the same way already.
    pub fn add(&mut self, spot: SpotId, way: Way) {
        let Some(spot) = self.spots.get_mut(spot) else { return };
        let same = |known: &Way| {
            let step = |way: &Way| way.step.as_ref().map(|step| (step.status.clone(), step.edge));
            known.goal == way.goal && step(known) == step(&way)
        };
        if !spot.ways.iter().any(same) {
            spot.ways.push(way);
        }
    }

    /// The ways from a spot.
    pub fn ways(&self, spot: SpotId) -> &[Way] {
        self.spots.get(spot).map(|spot| spot.ways.as_slice()).unwrap_or_default()
    }
}

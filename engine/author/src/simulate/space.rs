//! The distinct states of a walk, and the transitions between them.
//!
//! Two moments of a walk are one *state* if no condition, bound or limit of the graph distinguishes them: the same
//! role is next, entered from the same one where an edge leads back, the bounded edges were taken as often, the same
//! roles have run, and what conditions read of them is the same, in every lane. Other text is ignored, so the space is
//! finite and small; it is exact for routing because routing reads nothing else.

use std::collections::BTreeMap;

use rondo_core::graph::EdgeId;
use rondo_protocol::event::Outcome;
use rondo_protocol::id::{LanePath, RoleName, Status};
use strum::IntoStaticStr;

pub type StateKey = Vec<u64>;

pub type StateId = usize;

#[derive(Debug, Default)]
pub struct StateSpace {
    index: BTreeMap<StateKey, StateId>,
    pub states: Vec<State>,
}

/// A role about to be visited.
#[derive(Debug)]
pub struct State {
    pub role: RoleName,
    pub lane: LanePath,
    pub ways: Vec<Transition>,
}

/// One outcome of a visit: a transition.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The step; `None` if a limit prevents it.
    pub step: Option<Taken>,
    pub target: Target,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    pub status: Status,
    /// The index of the first answer of that status that leads this way.
    pub answer: usize,
    pub edge: EdgeId,
    /// Steps that follow without a visit, such as that of a failed fan-out.
    pub given: Vec<ImpliedStep>,
}

/// A step without a visit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImpliedStep {
    pub role: RoleName,
    pub lane: LanePath,
    pub status: Status,
}

impl Transition {
    pub fn made(&self) -> u64 {
        self.step.as_ref().map_or(0, |step| 1 + u64::try_from(step.given.len()).unwrap_or(u64::MAX))
    }

    /// How many of its steps are visits of `name`, if it leaves a state of `role`.
    pub fn visits(&self, role: &RoleName, name: &RoleName) -> u64 {
        let Some(step) = &self.step else { return 0 };
        let given = step.given.iter().filter(|given| given.role == *name).count();
        u64::from(role == name) + u64::try_from(given).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    State(StateId),
    End(End),
}

/// How a route ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum End {
    Done,
    Fail,
    /// At a limit without a routing edge.
    Limit,
    /// Where what follows its last step cannot be decided, which is reported.
    Stop,
}

impl End {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn leads_to(self) -> &'static str {
        match self {
            Self::Done => "end",
            Self::Fail | Self::Limit | Self::Stop => self.as_str(),
        }
    }

    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Failed | Outcome::Cancelled => Self::Fail,
        }
    }
}

impl StateSpace {
    /// The state with a key, created if it is new.
    pub fn state(&mut self, key: StateKey, role: &RoleName, lane: LanePath) -> StateId {
        let next = self.states.len();
        let id = *self.index.entry(key).or_insert(next);
        if id == next {
            self.states.push(State { role: role.clone(), lane, ways: Vec::new() });
        }
        id
    }

    /// Adds a transition, unless one with the same step and target exists.
    pub fn add(&mut self, state: StateId, way: Transition) {
        let Some(state) = self.states.get_mut(state) else { return };
        let same = |known: &Transition| {
            let step =
                |way: &Transition| way.step.as_ref().map(|step| (step.status.clone(), step.edge, step.given.clone()));
            known.target == way.target && step(known) == step(&way)
        };
        if !state.ways.iter().any(same) {
            state.ways.push(way);
        }
    }

    pub fn ways(&self, state: StateId) -> &[Transition] {
        self.states.get(state).map(|state| state.ways.as_slice()).unwrap_or_default()
    }
}

//! One lane of a thread: what routing and prompts in it can ask for, and what it is doing.
//!
//! A lane holds counts and numbers of steps, never texts: these are recalled. The trunk is the lane of the empty path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_protocol::id::{FieldName, LanePath, RoleName, Status};
use rondo_protocol::object::Step;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

use super::fan::Fan;
use super::route::Dispatch;
use crate::graph::{Edge, EdgeId};

/// One lane.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Which.
    pub path: LanePath,
    /// For each part of the path the step that opened this round; 0 = `start`.
    pub opened_by: Vec<u64>,
    /// The same of the first round.
    pub first_opened_by: Vec<u64>,
    /// Of each role: its visits in this lane, of all rounds.
    pub own: BTreeMap<RoleName, OwnVisits>,
    /// What its parent saw when this round was opened.
    pub base: Arc<VisibleRoles>,
    /// What was seen since: its own steps of this round, and those of lanes that were joined in it.
    pub seen: VisibleRoles,
    /// How often bounded edges were taken.
    pub taken: BTreeMap<EdgeId, EdgeCount>,
    /// First roles of lanes that were joined in it: such a lane may have a past.
    pub fanned: BTreeSet<RoleName>,
    /// Its last step of this round.
    pub last: Option<Last>,
    /// The elements that its prompts see.
    pub item: Option<Arc<Item>>,
    /// The fan-out whose join role took the last step: its branches are in scope on that role's edges.
    pub joined: Option<Box<Fan>>,
    /// What it is doing.
    pub doing: LanePhase,
}

/// What a lane sees of each role.
pub type VisibleRoles = BTreeMap<RoleName, VisibleVisits>;

/// A role's visits in one lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnVisits {
    /// How many.
    pub visits: u64,
    /// Attempts at a port, failed ones too.
    pub attempts: u64,
    /// The step of the latest.
    pub latest: u64,
}

/// A role's visits as far as a lane sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisibleVisits {
    /// How many.
    pub visits: u64,
    /// The step of the latest.
    pub latest: u64,
    /// All of them, oldest first, if a template asks for them.
    pub all: Vec<u64>,
}

impl VisibleVisits {
    /// Adds what was seen later.
    pub fn extend(&mut self, later: &Self) {
        self.visits += later.visits;
        self.latest = later.latest;
        self.all.extend(&later.all);
    }
}

/// How often a bounded edge was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EdgeCount {
    /// This often since `mark`.
    pub count: u64,
    /// The visits of the edge's `per` role when counting began.
    pub mark: u64,
}

/// The last step of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// Its number.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// Who spoke.
    pub role: RoleName,
    /// The status that was chosen.
    pub status: Status,
    /// The role that its own was entered from, or `start`.
    pub entered_from: String,
}

/// An element of a list that lanes are made for.
#[derive(Debug, Clone)]
pub struct Item {
    /// The name of the element; `None` where the lanes are branches.
    pub name: Option<FieldName>,
    /// The list; `null` where the lanes are branches.
    pub list: Arc<Value>,
    /// The position.
    pub index: u32,
    /// That of the lane around it.
    pub outer: Option<Arc<Item>>,
}

impl Item {
    /// The element.
    pub fn value(&self) -> &Value {
        match &*self.list {
            Value::List(items) => usize::try_from(self.index).ok().and_then(|at| items.get(at)).unwrap_or(&Value::Null),
            _ => &Value::Null,
        }
    }
}

/// What a lane is doing.
#[derive(Debug, Clone)]
pub enum LanePhase {
    /// What follows its last step is not decided yet.
    Deciding,
    /// A role is being visited.
    Visiting(Box<Dispatch>),
    /// The visit is being cancelled because the lane is no longer needed.
    Leaving(Box<Dispatch>),
    /// Lanes are open in it.
    Fanned(Box<Fan>),
    /// It came to its join by this edge.
    Arrived(Arc<Edge>),
    /// It failed.
    Failed(LaneError),
    /// It is not needed any more.
    Cancelled,
    /// Of the trunk: the thread has ended.
    Over,
}

/// Why a lane failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneError {
    /// The code of the fault, or `fail` after an edge to `fail`.
    pub code: String,
    /// Its words, or the reason.
    pub message: String,
}

impl LanePhase {
    /// A number that tells what it is apart.
    pub fn number(&self) -> u64 {
        match self {
            Self::Deciding => 0,
            Self::Visiting(_) => 1,
            Self::Leaving(_) => 2,
            Self::Fanned(_) => 3,
            Self::Arrived(edge) => 8 + u64::from(edge.id.0),
            Self::Failed(_) => 4,
            Self::Cancelled => 5,
            Self::Over => 6,
        }
    }
}

impl LaneError {
    /// As templates see it.
    pub fn to_value(&self) -> Value {
        Value::from_iter([("code", Value::from(self.code.as_str())), ("message", Value::from(self.message.as_str()))])
    }
}

impl Lane {
    /// The trunk of a new thread.
    pub fn trunk() -> Self {
        Self {
            path: LanePath::trunk(),
            opened_by: Vec::new(),
            first_opened_by: Vec::new(),
            own: BTreeMap::new(),
            base: Arc::default(),
            seen: VisibleRoles::new(),
            taken: BTreeMap::new(),
            fanned: BTreeSet::new(),
            last: None,
            item: None,
            joined: None,
            doing: LanePhase::Deciding,
        }
    }

    /// How often a role was visited in this lane.
    pub fn visits(&self, role: &RoleName) -> u64 {
        self.own.get(role).map_or(0, |own| own.visits)
    }

    /// What this lane sees of a role; `None` = it has not run.
    pub fn view(&self, role: &str) -> Option<VisibleVisits> {
        match (self.base.get(role), self.seen.get(role)) {
            (Some(before), Some(since)) => {
                let mut both = before.clone();
                both.extend(since);
                Some(both)
            }
            (one, other) => one.or(other).cloned(),
        }
    }

    /// Whether this lane sees a visit of a role.
    pub fn sees(&self, role: &str) -> bool {
        self.base.contains_key(role) || self.seen.contains_key(role)
    }

    /// What lanes that are opened now see.
    pub fn views(&self) -> Arc<VisibleRoles> {
        let mut views = VisibleRoles::clone(&self.base);
        for (role, since) in &self.seen {
            views.entry(role.clone()).or_default().extend(since);
        }
        Arc::new(views)
    }

    /// How often a bounded edge was taken since `per` last stepped.
    pub fn times_taken(&self, edge: EdgeId, per: Option<&RoleName>) -> u64 {
        let Some(taken) = self.taken.get(&edge) else { return 0 };
        match per {
            Some(role) if self.mark(role) != taken.mark => 0,
            _ => taken.count,
        }
    }

    /// Counts a bounded edge that is taken.
    pub fn take(&mut self, edge: EdgeId, per: Option<&RoleName>) -> EdgeCount {
        let count = self.times_taken(edge, per) + 1;
        let taken = EdgeCount { count, mark: per.map_or(0, |role| self.mark(role)) };
        self.taken.insert(edge, taken);
        taken
    }

    fn mark(&self, role: &RoleName) -> u64 {
        let visits = |views: &VisibleRoles| views.get(role).map_or(0, |seen| seen.visits);
        visits(&self.base) + visits(&self.seen)
    }

    /// Adds a step of this lane. `keeps` says whether a template asks for all visits of its role.
    pub fn add(&mut self, seq: u64, digest: Digest, step: &Step, attempts: u64, keeps: bool) {
        let own = self.own.entry(step.role.clone()).or_default();
        own.visits += 1;
        own.attempts += attempts;
        own.latest = seq;
        let all = if keeps { vec![seq] } else { Vec::new() };
        self.seen.entry(step.role.clone()).or_default().extend(&VisibleVisits { visits: 1, latest: seq, all });
        self.last = Some(Last {
            seq,
            digest,
            role: step.role.clone(),
            status: step.status.clone(),
            entered_from: step.edge.from.clone(),
        });
    }

    /// The lanes that it has opened: those that are open, or those of the last round.
    pub fn lanes(&self) -> Option<&Fan> {
        match &self.doing {
            LanePhase::Fanned(fan) => Some(fan),
            _ => self.joined.as_deref(),
        }
    }

    /// The same.
    pub fn lanes_mut(&mut self) -> Option<&mut Fan> {
        match &mut self.doing {
            LanePhase::Fanned(fan) => Some(fan),
            _ => self.joined.as_deref_mut(),
        }
    }

    /// Ends it. The lanes of a fan-out that ends with it stay at hand: one of them may be what ended it.
    pub fn end(&mut self, how: LanePhase) {
        if let LanePhase::Fanned(fan) = std::mem::replace(&mut self.doing, how) {
            self.joined = Some(fan);
        }
    }

    /// Sees what was said in the lanes of a fan-out that was joined.
    pub fn see_lanes(&mut self, fan: &Fan) {
        for (role, seen) in fan.seen() {
            self.seen.entry(role).or_default().extend(&seen);
        }
    }

    /// The visit that is under way in it.
    pub fn visiting(&self) -> Option<&Dispatch> {
        match &self.doing {
            LanePhase::Visiting(dispatch) => Some(dispatch),
            _ => None,
        }
    }

    /// The join that is being visited, if one is.
    pub fn joining(&self) -> Option<&Fan> {
        match &self.doing {
            LanePhase::Visiting(dispatch) if dispatch.joins.is_some() => self.joined.as_deref(),
            _ => None,
        }
    }

    /// Whether anything can still happen in it.
    pub fn is_open(&self) -> bool {
        matches!(
            self.doing,
            LanePhase::Deciding | LanePhase::Visiting(_) | LanePhase::Leaving(_) | LanePhase::Fanned(_)
        )
    }
}

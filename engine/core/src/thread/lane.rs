//! One lane of a thread: what its routing and prompts can read, and its current phase.
//!
//! A lane holds counts and step numbers, never texts, which are recalled. The trunk is the lane of the empty path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_protocol::id::{FieldName, LanePath, RoleName, Status};
use rondo_protocol::object::{Note, Step};
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

use super::fan::Fan;
use super::route::Dispatch;
use crate::graph::{Edge, EdgeId};

/// One lane.
#[derive(Debug, Clone)]
pub struct Lane {
    /// Its path.
    pub path: LanePath,
    /// For each part of the path the step that opened this round; 0 means `start`.
    pub opened_by: Vec<u64>,
    /// For each part of the path the step that opened the first round.
    pub first_opened_by: Vec<u64>,
    /// For each role its visits in this lane, in all rounds.
    pub own: BTreeMap<RoleName, OwnVisits>,
    /// What its parent saw when this round opened.
    pub base: Arc<VisibleRoles>,
    /// What it has seen since: its own steps of this round, and those of lanes joined in it.
    pub seen: VisibleRoles,
    /// How often bounded edges were taken.
    pub taken: BTreeMap<EdgeId, EdgeCount>,
    /// First roles of lanes joined in it: such a lane may have earlier rounds.
    pub fanned: BTreeSet<RoleName>,
    /// Its last step of this round.
    pub last: Option<Last>,
    /// The elements visible to its prompts.
    pub item: Option<Arc<Item>>,
    /// The fan-out whose join role took the last step: that role's edges can read its branches.
    pub joined: Option<Box<Fan>>,
    /// Its current phase.
    pub phase: LanePhase,
}

/// The visits of each role that a lane sees.
pub type VisibleRoles = BTreeMap<RoleName, VisibleVisits>;

fn see(views: &mut VisibleRoles, later: &VisibleRoles) {
    for (role, seen) in later {
        views.entry(role.clone()).or_default().extend(seen);
    }
}

/// A role's visits in one lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnVisits {
    /// The number of visits.
    pub visits: u64,
    /// Attempts at a port, including failed ones.
    pub attempts: u64,
    /// The step of the latest visit.
    pub latest: u64,
    /// The visits that a compaction covers.
    pub covered: u64,
}

/// A role's visits that a lane sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibleVisits {
    /// The number of visits.
    pub visits: u64,
    /// The step of the latest visit.
    pub latest: u64,
    /// All of them, oldest first, if a template reads them. They are not stored with the lane.
    #[serde(skip)]
    pub all: Vec<u64>,
}

impl VisibleVisits {
    /// Adds later visits.
    pub fn extend(&mut self, later: &Self) {
        self.visits += later.visits;
        self.latest = later.latest;
        self.all.extend(&later.all);
    }
}

/// How often a bounded edge was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeCount {
    /// The count since `mark`.
    pub count: u64,
    /// The visits of the edge's `per` role when counting started.
    pub mark: u64,
}

/// The last step of a lane, with the compactions and the rebind that followed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// The number of the last record.
    pub seq: u64,
    /// Its digest.
    pub digest: Digest,
    /// The number of the step.
    pub step: u64,
    /// The role.
    pub role: RoleName,
    /// Its status.
    pub status: Status,
    /// The role that its role was entered from, or `start`.
    pub entered_from: String,
    /// When it ended, in Unix milliseconds.
    pub ended_at_ms: u64,
}

/// An element of a list that creates lanes.
#[derive(Debug, Clone)]
pub struct Item {
    /// The name of the element; `None` for branches.
    pub name: Option<FieldName>,
    /// The list; `null` for branches.
    pub list: Arc<Value>,
    /// The position.
    pub index: u32,
    /// The item of the enclosing lane.
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

/// The phase of a lane.
#[derive(Debug, Clone)]
pub enum LanePhase {
    /// The transition after its last step is not decided yet.
    Deciding,
    /// A role is being visited.
    Visiting(Box<Dispatch>),
    /// The visit is being cancelled because the lane is no longer needed.
    Leaving(Box<Dispatch>),
    /// Lanes are open in it.
    Fanned(Box<Fan>),
    /// It reached its join by this edge.
    Arrived(Arc<Edge>),
    /// It failed.
    Failed(LaneError),
    /// It is no longer needed.
    Cancelled,
    /// Trunk only: the thread has ended.
    Over,
}

/// Why a lane failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneError {
    /// The code of the fault, or `fail` after an edge to `fail`.
    pub code: String,
    /// The message of the fault, or the reason.
    pub message: String,
}

impl LanePhase {
    /// The number of the variant.
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
    /// The value for templates.
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
            phase: LanePhase::Deciding,
        }
    }

    /// A lane without a past that `fan`, which is open in this one, opens at a position.
    #[must_use]
    pub fn child(&self, fan: &Fan, path: LanePath, index: u32) -> Self {
        let item = Item {
            name: fan.out.each.as_ref().map(|each| each.name.clone()),
            list: Arc::clone(&fan.list),
            index,
            outer: self.item.clone(),
        };
        let and_by_fan = |opened_by: &[u64]| opened_by.iter().copied().chain([fan.opened_by()]).collect();
        Self {
            path,
            opened_by: and_by_fan(&self.opened_by),
            first_opened_by: and_by_fan(&self.first_opened_by),
            base: Arc::clone(&fan.base),
            item: Some(Arc::new(item)),
            ..Self::trunk()
        }
    }

    /// The number of visits of a role in this lane.
    pub fn visits(&self, role: &RoleName) -> u64 {
        self.own.get(role).map_or(0, |own| own.visits)
    }

    /// The visits of a role that this lane sees; `None` if there are none.
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

    /// What lanes opened now will see.
    pub fn views(&self) -> Arc<VisibleRoles> {
        let mut views = VisibleRoles::clone(&self.base);
        see(&mut views, &self.seen);
        Arc::new(views)
    }

    /// How often a bounded edge was taken since the last step of `per`.
    pub fn times_taken(&self, edge: EdgeId, per: Option<&RoleName>) -> u64 {
        let Some(taken) = self.taken.get(&edge) else { return 0 };
        match per {
            Some(role) if self.mark(role) != taken.mark => 0,
            _ => taken.count,
        }
    }

    /// The count of a bounded edge once it is taken.
    pub fn count_with(&self, edge: EdgeId, per: Option<&RoleName>) -> EdgeCount {
        EdgeCount { count: self.times_taken(edge, per) + 1, mark: per.map_or(0, |role| self.mark(role)) }
    }

    /// Counts a bounded edge as taken.
    pub fn take(&mut self, edge: EdgeId, per: Option<&RoleName>) {
        let taken = self.count_with(edge, per);
        self.taken.insert(edge, taken);
    }

    fn mark(&self, role: &RoleName) -> u64 {
        let visits = |views: &VisibleRoles| views.get(role).map_or(0, |seen| seen.visits);
        visits(&self.base) + visits(&self.seen)
    }

    /// Adds a step of this lane. `keeps` says whether a template reads all visits of its role.
    pub fn add(&mut self, seq: u64, digest: Digest, step: &Step, note: &Note, keeps: bool) {
        let own = self.own.entry(step.role.clone()).or_default();
        own.visits += 1;
        own.attempts += note.attempts;
        own.latest = seq;
        let all = if keeps { vec![seq] } else { Vec::new() };
        self.seen.entry(step.role.clone()).or_default().extend(&VisibleVisits { visits: 1, latest: seq, all });
        self.last = Some(Last {
            seq,
            digest,
            step: seq,
            role: step.role.clone(),
            status: step.status.clone(),
            entered_from: step.edge.from.clone(),
            ended_at_ms: note.ended_at_ms,
        });
    }

    /// Adds a compaction or a rebind, which the next record follows.
    pub fn follow_record(&mut self, seq: u64, digest: Digest) {
        if let Some(last) = &mut self.last {
            (last.seq, last.digest) = (seq, digest);
        }
    }

    /// The fan-out open in it, if any.
    pub fn fan(&self) -> Option<&Fan> {
        match &self.phase {
            LanePhase::Fanned(fan) => Some(fan),
            _ => None,
        }
    }

    /// Its fan-out: the open one, or that of the last round.
    pub fn lanes(&self) -> Option<&Fan> {
        self.fan().or(self.joined.as_deref())
    }

    /// Like [`lanes`](Self::lanes), mutable.
    pub fn lanes_mut(&mut self) -> Option<&mut Fan> {
        match &mut self.phase {
            LanePhase::Fanned(fan) => Some(fan),
            _ => self.joined.as_deref_mut(),
        }
    }

    /// Ends it. The lanes of a fan-out that ends with it stay available: one of them may have ended it.
    pub fn end(&mut self, how: LanePhase) {
        if let LanePhase::Fanned(fan) = std::mem::replace(&mut self.phase, how) {
            self.joined = Some(fan);
        }
    }

    /// Adds what was seen in the lanes of a joined fan-out, in declared order.
    pub fn see_lanes(&mut self, fan: &Fan) {
        fan.lanes.values().for_each(|lane| see(&mut self.seen, &lane.seen));
    }

    /// Its current visit.
    pub fn visiting(&self) -> Option<&Dispatch> {
        match &self.phase {
            LanePhase::Visiting(dispatch) => Some(dispatch),
            _ => None,
        }
    }

    /// The fan-out whose join is being visited, if any.
    pub fn joining(&self) -> Option<&Fan> {
        match &self.phase {
            LanePhase::Visiting(dispatch) if dispatch.joins.is_some() => self.joined.as_deref(),
            _ => None,
        }
    }

    /// The fan-out whose lanes have rows. Until its step is committed, a join is decided again from them.
    pub fn stored_fan(&self) -> Option<&Fan> {
        self.fan().or_else(|| self.joining())
    }

    /// The number of its last record of this round; 0 if there is none.
    pub fn last_seq(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.seq)
    }

    /// Whether it has not ended yet.
    pub fn is_open(&self) -> bool {
        matches!(
            self.phase,
            LanePhase::Deciding | LanePhase::Visiting(_) | LanePhase::Leaving(_) | LanePhase::Fanned(_)
        )
    }
}

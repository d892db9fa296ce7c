//! An open fan-out: its lanes, and the data for its join.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_protocol::call::Fault;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{CancelledLane, EdgeTaken, Observation, Step};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::template::Cause;
use rondo_protocol::workflow::{FailedLanes, Need};
use rondo_protocol::{Digest, Value};

use super::lane::{Lane, LaneError, LanePhase, Last, VisibleRoles};
use super::lanes::last_visit;
use super::route::{self, Decided, Dispatch, EdgeTexts, Joins, MAX_RENDERED_BYTES, Undecided};
use super::scope::{DecisionInput, LaneScope};
use super::task::Task;
use crate::graph::{Edge, FanOut};

/// The code of a fan-out that fails because it has too few lanes.
const UNMET: &str = "need";

/// An open fan-out.
#[derive(Debug, Clone)]
pub struct Fan {
    pub edge: Arc<Edge>,
    /// The targets of the edge.
    pub out: Arc<FanOut>,
    /// The step that it left; `None` means `start`.
    pub source: Option<Last>,
    /// The elements that lanes are created for; `null` for branches.
    pub list: Arc<Value>,
    /// What its lanes see of earlier steps.
    pub base: Arc<VisibleRoles>,
    /// Positions of lanes that are not open yet.
    pub to_open: BTreeSet<u32>,
    /// The lanes, by position.
    pub lanes: BTreeMap<u32, Lane>,
    /// What follows once every lane has ended; `None` while lanes continue.
    pub then: Option<FanOutcome>,
    /// The usage of cancelled lanes.
    pub lost: Vec<CancelledLane>,
    /// The number of open lanes, updated as they change: a fan-out of ten thousand lanes needs it at each of their
    /// ends.
    pub open: usize,
    /// The number of arrived lanes.
    pub arrived: usize,
}

/// What follows a fan-out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FanOutcome {
    /// Its join role is visited.
    Join,
    /// It failed, because of the lane at this position.
    Fail(u32),
    /// It failed, because as many lanes as its `need` promises cannot arrive any more.
    Unmet,
    /// The enclosing lane is no longer needed.
    Cancel,
}

impl Fan {
    /// The fan-out of an edge that a lane took after its last step.
    pub fn new(edge: Arc<Edge>, out: Arc<FanOut>, lane: &Lane, list: Arc<Value>, to_open: BTreeSet<u32>) -> Self {
        Self {
            edge,
            out,
            source: lane.last.clone(),
            list,
            base: lane.views(),
            to_open,
            lanes: BTreeMap::new(),
            then: None,
            lost: Vec::new(),
            open: 0,
            arrived: 0,
        }
    }

    /// The step that opened it; 0 means `start`.
    pub fn opened_by(&self) -> u64 {
        self.source.as_ref().map_or(0, |last| last.seq)
    }

    /// The source of its edge: a role, or `start`.
    pub fn from(&self) -> &str {
        self.source.as_ref().map_or("start", |last| last.role.as_str())
    }

    /// The status that chose it.
    pub fn status(&self) -> Option<Status> {
        self.source.as_ref().map(|last| last.status.clone())
    }

    /// The branch of the lane at a position.
    pub fn branch(&self, index: u32) -> Option<&crate::graph::Branch> {
        let at = if self.out.each.is_some() { 0 } else { usize::try_from(index).ok()? };
        self.out.branches.get(at)
    }

    /// How many lanes may be open at the same time.
    pub fn parallel(&self) -> usize {
        let most = self.out.each.as_ref().map(|each| usize::try_from(each.parallel).unwrap_or(usize::MAX));
        most.unwrap_or(usize::MAX)
    }

    /// Whether a step is the visit of its join role, and not that it failed.
    pub fn is_joined_by(&self, step: &Step) -> bool {
        let is_unmet = |seen: &Observation| matches!(seen, Observation::Error { code } if code == UNMET);
        (&step.role, step.edge.from.as_str(), &step.edge.status) == (&self.out.join.to, self.from(), &self.status())
            && !step.observations.iter().any(is_unmet)
    }

    pub fn add(&mut self, index: u32, lane: Lane) {
        self.open += usize::from(lane.is_open());
        self.arrived += usize::from(matches!(lane.phase, LanePhase::Arrived(_)));
        self.lanes.insert(index, lane);
    }

    /// Ends the open lane at a position.
    pub fn end(&mut self, index: u32, how: LanePhase) {
        let Some(lane) = self.lanes.get_mut(&index).filter(|lane| lane.is_open()) else { return };
        self.arrived += usize::from(matches!(how, LanePhase::Arrived(_)));
        self.open -= 1;
        lane.end(how);
    }

    /// Takes back the lanes that steps were replayed with if there are too few of them: then none is opened.
    pub fn take_back_too_few(&mut self) {
        if self.counted() == Some(FanOutcome::Unmet) && self.lanes.values().all(|lane| lane.last.is_none()) {
            self.to_open.extend(std::mem::take(&mut self.lanes).into_keys());
            self.count();
        }
    }

    /// Recomputes the number of open lanes.
    pub fn count(&mut self) {
        self.open = self.lanes.values().filter(|lane| lane.is_open()).count();
        self.arrived = self.lanes.values().filter(|lane| matches!(lane.phase, LanePhase::Arrived(_))).count();
    }

    /// What follows when the lane at a position has ended.
    pub fn follows(&self, ended: u32) -> Option<FanOutcome> {
        let lane = self.lanes.get(&ended)?;
        if matches!(lane.phase, LanePhase::Failed(_)) && self.out.join.failed == FailedLanes::Fail {
            return Some(FanOutcome::Fail(ended));
        }
        self.counted()
    }

    /// What follows from the numbers of its lanes.
    fn counted(&self) -> Option<FanOutcome> {
        match self.needed() {
            Some(needed) if self.arrived >= needed => Some(FanOutcome::Join),
            Some(needed) if self.arrived + self.open + self.to_open.len() < needed => Some(FanOutcome::Unmet),
            Some(_) => None,
            None => self.have_all_ended().then_some(FanOutcome::Join),
        }
    }

    /// How many lanes must arrive; `None` if all that do not fail.
    fn needed(&self) -> Option<usize> {
        match self.out.join.need {
            Need::All => None,
            Need::Any => Some(1),
            Need::Count(needed) => Some(usize::try_from(needed).unwrap_or(usize::MAX)),
        }
    }

    /// The error of a fan-out whose `need` cannot be met, and the position of the lane that it is of: the first that
    /// failed, by its last step. Without one there were too few lanes.
    pub fn unmet(&self) -> (LaneError, Option<u32>) {
        let failed = self.lanes.iter().filter_map(|(index, lane)| match (&lane.phase, &lane.last) {
            (LanePhase::Failed(error), Some(last)) => Some((last.seq, *index, error)),
            _ => None,
        });
        if let Some((_, index, error)) = failed.min_by_key(|(seq, ..)| *seq) {
            return (error.clone(), Some(index));
        }
        let (needed, lanes) = (self.needed().unwrap_or_default(), self.lanes.len() + self.to_open.len());
        let message = format!("the fan-out from {} needs {needed} lanes to arrive, and has {lanes}", self.from());
        (LaneError { code: UNMET.to_owned(), message }, None)
    }

    /// What follows according to the state of all lanes, in a process that did not see them end.
    pub fn decided(&self) -> Option<FanOutcome> {
        let failed = |(_, lane): &(&u32, &Lane)| matches!(lane.phase, LanePhase::Failed(_));
        // It is the only one: the others were no longer needed.
        if let Some((index, _)) = self.lanes.iter().find(failed).filter(|_| self.out.join.failed == FailedLanes::Fail) {
            return Some(FanOutcome::Fail(*index));
        }
        self.counted()
    }

    /// Whether no lane is open or still to open.
    pub fn have_all_ended(&self) -> bool {
        (self.to_open.is_empty() || self.then.is_some()) && self.open == 0
    }

    /// The visit that ends it: of its join role, or of its source role after it failed.
    pub fn ending_visit(&self, role: RoleName, edge: EdgeTaken, task: Task) -> Dispatch {
        let of = |is: fn(&LanePhase) -> bool| {
            self.lanes.values().filter(|lane| is(&lane.phase)).map(|lane| lane.path.clone()).collect()
        };
        let arrived = of(|phase| matches!(phase, LanePhase::Arrived(_)));
        let cancelled = of(|phase| matches!(phase, LanePhase::Cancelled));
        let part = Arc::from(key(&self.edge.part, "join"));
        Dispatch {
            bounded: route::bounded(&self.edge),
            observations: vec![Observation::Join { arrived, cancelled }],
            joins: Some(self.joins()),
            ..Dispatch::new(role, edge, part, task, self.last_steps())
        }
    }

    /// The last steps of all lanes in declared order; if there are none, the step that the fan-out left.
    fn last_steps(&self) -> Vec<Digest> {
        let last: Vec<Digest> = self.lanes.values().filter_map(|lane| Some(lane.last.as_ref()?.digest)).collect();
        if last.is_empty() { self.source.iter().map(|last| last.digest).collect() } else { last }
    }

    /// Every lane that may have a row, including nested ones.
    fn paths(&self) -> Vec<LanePath> {
        let mut paths = Vec::new();
        for lane in self.lanes.values() {
            paths.push(lane.path.clone());
            // The lanes of a fan-out are closed by the step of its join role.
            let within = lane.lanes().filter(|fan| fan.opened_by() == lane.last_seq());
            paths.extend(within.into_iter().flat_map(Self::paths));
        }
        paths
    }

    /// The lanes that a step ends when it ends this fan-out.
    fn joins(&self) -> Joins {
        let cancelled = self.lanes.values().filter(|lane| matches!(lane.phase, LanePhase::Cancelled));
        Joins {
            opened_by: self.opened_by(),
            lanes: self.paths(),
            cancelled: cancelled.filter_map(last_visit).collect(),
        }
    }

    /// The part of an arrived lane.
    fn part(lane: &Lane, context: DecisionInput<'_>) -> Decided<String> {
        let (LanePhase::Arrived(edge), Some(last)) = (&lane.phase, &lane.last) else { return Ok(String::new()) };
        if edge.prompt.is_empty() {
            return Ok(context.episode(last.step)?.body.clone());
        }
        let scope = LaneScope::after_last_step(context, lane)?;
        EdgeTexts { scope: &scope, from: last.role.as_str(), part: &edge.part }.text("prompt", &edge.prompt)
    }

    /// The parts in declared order, separated by a blank line.
    ///
    /// # Errors
    /// If a part cannot be rendered, or all together are too long.
    pub fn parts(&self, context: DecisionInput<'_>) -> Decided<String> {
        let mut text = String::new();
        for lane in self.lanes.values().filter(|lane| matches!(lane.phase, LanePhase::Arrived(_))) {
            let part = Self::part(lane, context)?;
            if text.len() + part.len() > MAX_RENDERED_BYTES {
                return Err(Undecided::Unrendered {
                    what: format!("the parts of the lanes from {}", self.from()),
                    part: self.edge.part.to_string(),
                    error: rondo_protocol::workflow::template::RenderError {
                        range: 0..0,
                        cause: Cause::TooLarge { max_bytes: MAX_RENDERED_BYTES },
                    },
                });
            }
            if !text.is_empty() && !part.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&part);
        }
        Ok(text)
    }

    /// The `branches` of templates: the arrived lanes and, if the fan-out collects them, the failed ones.
    pub fn branches(&self) -> Branches<'_> {
        let is_told = |lane: &&Lane| match &lane.phase {
            LanePhase::Arrived(_) => true,
            LanePhase::Failed(_) => self.out.join.failed == FailedLanes::Collect,
            _ => false,
        };
        Branches { lanes: self.lanes.values().filter(is_told).collect() }
    }
}

/// The lanes of a fan-out for templates, in declared order. Values are read on demand.
#[derive(Clone)]
pub struct Branches<'a> {
    lanes: Vec<&'a Lane>,
}

impl Branches<'_> {
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// The value at the beginning of `path` in the lane at `at`, and the number of names it consumed.
    pub fn find(&self, at: usize, path: &[&str], context: DecisionInput<'_>) -> Result<(Value, usize), Fault> {
        let Some(lane) = self.lanes.get(at) else { return Ok((Value::Null, 0)) };
        let Some(name) = path.first() else {
            let member = |name: &&str| Ok(((*name).to_owned(), member(lane, name, context)?));
            let members = MEMBERS.iter().map(member).collect::<Result<_, Fault>>()?;
            return Ok((Value::Object(members), 0));
        };
        Ok((member(lane, name, context)?, 1))
    }
}

fn member(lane: &Lane, name: &str, context: DecisionInput<'_>) -> Result<Value, Fault> {
    let last = lane.last.as_ref();
    let episode = || last.map(|last| context.episode(last.step)).transpose();
    Ok(match name {
        "role" => Value::from(last.map_or("", |last| last.role.as_str())),
        "index" => Value::from(lane.path.last_index().map_or(0, u64::from)),
        "item" => lane.item.as_ref().map_or(Value::Null, |item| item.value().clone()),
        "status" => Value::from(last.map_or("", |last| last.status.as_str())),
        "output" => episode()?.map_or_else(Value::empty_object, |episode| episode.output.clone()),
        "body" => Value::from(episode()?.map(|episode| episode.body.clone()).unwrap_or_default()),
        "part" => Value::from(Fan::part(lane, context)?),
        "error" => match &lane.phase {
            LanePhase::Failed(error) => error.to_value(),
            _ => Value::Null,
        },
        _ => Value::Null,
    })
}

const MEMBERS: [&str; 8] = ["role", "index", "item", "status", "output", "body", "part", "error"];

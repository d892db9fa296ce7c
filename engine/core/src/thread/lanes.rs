//! Fan-outs: opens, ends and cancels lanes, and visits their join.

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{self, LaneEnd, Outcome};
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::{CancelledLane, EdgeTaken, Followed, Observation};
use rondo_protocol::workflow::{self, source_map::key};

use super::decide::{Next, attached};
use super::fan::FanOutcome;
use super::lane::{Lane, LaneError, LanePhase};
use super::machine::{self, Machine, no_lane};
use super::message::{Action, Answered, InFlight};
use super::route::{Decided, Dispatch, EdgeTexts};
use super::scope::{DecisionInput, LaneScope};
use super::task::Task;
use crate::graph::{FanOut, Graph};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl EdgeTexts<'_> {
    /// The lanes of a fan-out of the edge.
    pub(super) fn fan_out(&self, out: &Arc<FanOut>) -> Decided<Next> {
        let items = out.each.as_ref().map(|each| self.list(&each.over)).transpose()?;
        let count = items.as_ref().map_or(out.branches.len(), Vec::len);
        let most = workflow::FanOut::MAX_LANES;
        if count > most {
            let message = format!("the fan-out from {} would have {count} lanes, and may have {most}", self.from);
            return Ok(Next::TooManyLanes(Fault::new(Code::ThreadLimit, FaultClass::Limit, message)));
        }
        let mut open: BTreeSet<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
        if items.is_none() {
            for (index, branch) in (0..).zip(&out.branches) {
                let speaking = EdgeTexts { part: &branch.part, ..*self };
                if !speaking.holds(branch.when.as_ref())? {
                    open.remove(&index);
                }
            }
        }
        let list = items.map_or_else(Arc::default, |items| Arc::new(Value::List(items)));
        Ok(Next::Fan { out: Arc::clone(out), list, open })
    }
}

impl Machine {
    /// Opens as many lanes as `parallel` allows.
    pub(super) fn open_lanes(&mut self, path: &LanePath, context: DecisionInput<'_>) -> Decided {
        let most = self.fan_mut(path)?.parallel();
        self.open_up_to(path, most, context)
    }

    pub(super) fn open_up_to(&mut self, path: &LanePath, most: usize, context: DecisionInput<'_>) -> Decided {
        loop {
            let fan = self.fan_mut(path)?;
            if fan.then.is_some() || fan.open >= most {
                return Ok(());
            }
            let Some(index) = fan.to_open.pop_first() else { return Ok(()) };
            let opened = self.open_lane(path, index, context);
            if opened.is_err() {
                let fan = self.fan_mut(path)?;
                if !fan.lanes.contains_key(&index) {
                    fan.to_open.insert(index);
                }
                return opened;
            }
        }
    }

    fn open_lane(&mut self, parent: &LanePath, index: u32, context: DecisionInput<'_>) -> Decided {
        let graph = &self.definition.graph;
        let around = self.lane(parent).ok_or_else(|| no_lane(parent))?;
        let fan = around.fan().ok_or_else(|| no_lane(parent))?;
        let branch = fan.branch(index).ok_or_else(|| no_lane(parent))?;
        let role = branch.to.clone();
        let path = parent.child(&role, index);
        let mut lane = around.child(fan, path.clone(), index);
        if around.fanned.contains(&role)
            && let Some(past) = context.recall.past(&path)?
        {
            // The lanes opened in its earlier rounds are not stored.
            lane.fanned = first_roles(graph);
            (lane.own, lane.taken) = (past.own, past.taken);
            if !past.first_opened_by.is_empty() {
                lane.first_opened_by = past.first_opened_by;
            }
        }
        let scope = LaneScope::new(context, &lane, fan.source.as_ref(), around.joined.as_deref())?;
        let speaking = EdgeTexts { scope: &scope, from: fan.from(), part: &branch.part };
        let edge = EdgeTaken {
            files: attached(&self.definition.input, &branch.attach),
            from: fan.from().to_owned(),
            prompt: speaking.text("prompt", &branch.prompt)?,
            status: fan.status(),
        };
        let task = speaking.task(graph, &role)?;
        let prev = fan.source.iter().map(|last| last.digest).collect();
        let dispatch = Dispatch::new(role, edge, Arc::clone(&branch.part), task, prev);
        self.fan_mut(parent)?.add(index, lane);
        self.dispatch(&path, dispatch)
    }

    /// Ends a lane, and decides what follows for the fan-out that opened it.
    pub(super) fn end_lane(&mut self, path: &LanePath, how: LanePhase, context: DecisionInput<'_>) -> Decided {
        let parent = path.parent().ok_or_else(|| no_lane(path))?;
        self.close_lane(path, how)?;
        let ended = self.lane(path).and_then(lane_ended);
        self.after.notices.extend(ended);
        let fan = self.fan_mut(&parent)?;
        if fan.then.is_none() {
            let then = fan.follows(path.last_index().unwrap_or(0));
            let then = then.filter(|then| self.decides(then));
            self.follow_with(&parent, then)?;
        }
        self.open_lanes(&parent, context)?;
        self.complete_if_ended(&parent, context)
    }

    pub(super) fn close_lane(&mut self, path: &LanePath, how: LanePhase) -> Decided {
        let parent = path.parent().ok_or_else(|| no_lane(path))?;
        let fan = self.lane_mut(&parent)?.lanes_mut().ok_or_else(|| no_lane(path))?;
        fan.end(path.last_index().unwrap_or(0), how);
        Ok(())
    }

    /// Handles the end of a cancelled lane's visit.
    pub(super) fn lane_left(&mut self, path: &LanePath, lost: CancelledLane, context: DecisionInput<'_>) -> Decided {
        // A fan-out within a cancelled lane ends with it; its usage counts if a join follows.
        let mut parent = path.parent().ok_or_else(|| no_lane(path))?;
        loop {
            let fan = self.fan_mut(&parent)?;
            if fan.then != Some(FanOutcome::Cancel) {
                fan.lost.push(lost);
                return self.complete_if_ended(&parent, context);
            }
            if fan.have_all_ended() {
                self.close_lane(&parent, LanePhase::Cancelled)?;
            }
            parent = parent.parent().ok_or_else(|| no_lane(path))?;
        }
    }

    /// Whether an outcome is decided here. That a need cannot be met any more is not while steps are replayed: an earlier
    /// version of rondo went on to the join, and the next step tells.
    pub(super) fn decides(&self, then: &FanOutcome) -> bool {
        !(self.is_replaying && *then == FanOutcome::Unmet)
    }

    /// Cancels every open lane of a fan-out if its outcome is decided: they are no longer needed.
    pub(super) fn follow_with(&mut self, path: &LanePath, then: Option<FanOutcome>) -> Decided {
        let Some(then) = then else { return Ok(()) };
        let recovered = std::mem::take(&mut self.recovered);
        let fan = self.fan_mut(path)?;
        fan.then = Some(then);
        let (mut lost, mut given, mut actions) = (Vec::new(), Vec::new(), Vec::new());
        for lane in fan.lanes.values_mut() {
            cancel(lane, &recovered, &mut lost, &mut given, &mut actions);
        }
        fan.count();
        fan.lost.extend(lost);
        self.recovered = recovered;
        self.after.actions.extend(actions);
        self.given.retain(|path| !given.contains(path));
        Ok(())
    }

    pub(super) fn complete_if_ended(&mut self, path: &LanePath, context: DecisionInput<'_>) -> Decided {
        let Some(fan) = self.fan(path).filter(|fan| fan.have_all_ended()) else { return Ok(()) };
        match fan.then.clone() {
            None | Some(FanOutcome::Cancel) => Ok(()),
            Some(FanOutcome::Join) => self.join(path, context),
            Some(FanOutcome::Fail(index)) => {
                let failed = fan.lanes.get(&index).ok_or_else(|| no_lane(path))?;
                let LanePhase::Failed(error) = &failed.phase else { return Err(no_lane(path).into()) };
                self.fail_fan(path, (error.clone(), Some(index)), context)
            }
            Some(FanOutcome::Unmet) => self.fail_fan(path, fan.unmet(), context),
        }
    }

    /// Visits the join role after every lane has ended.
    fn join(&mut self, path: &LanePath, context: DecisionInput<'_>) -> Decided {
        self.lane_mut(path)?.end(LanePhase::Deciding);
        let joining = self.joining(path, context);
        let done = joining.and_then(|dispatch| self.dispatch(path, dispatch));
        if done.is_err() {
            // The lanes stay for the resumed run.
            let lane = self.lane_mut(path)?;
            lane.phase = lane.joined.take().map_or(LanePhase::Deciding, LanePhase::Fanned);
        }
        done
    }

    /// The visit of a join role.
    fn joining(&self, path: &LanePath, context: DecisionInput<'_>) -> Decided<Dispatch> {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let fan = lane.joined.as_deref().ok_or_else(|| no_lane(path))?;
        // The lane itself sees its lanes' steps only after the step of the join role.
        let mut joined = Lane { joined: None, ..lane.clone() };
        joined.see_lanes(fan);
        let scope = LaneScope::new(context, &joined, fan.source.as_ref(), Some(fan))?;
        let join = &fan.out.join;
        let speaking = EdgeTexts { scope: &scope, from: fan.from(), part: &key(&fan.edge.part, "join") };
        let prompt = match &join.prompt {
            Some(prompt) => speaking.text("prompt", prompt)?,
            None => fan.parts(context)?,
        };
        let edge = EdgeTaken { files: Vec::new(), from: fan.from().to_owned(), prompt, status: fan.status() };
        let task = speaking.task(&self.definition.graph, &join.to)?;
        Ok(fan.ending_visit(join.to.clone(), edge, task))
    }

    /// Fails a fan-out after its lanes have ended, with the error of the failed lane at a position, if it is one's: the
    /// source role takes its `on_error`, or the enclosing lane or thread fails.
    fn fail_fan(
        &mut self,
        path: &LanePath,
        (error, failed): (LaneError, Option<u32>),
        context: DecisionInput<'_>,
    ) -> Decided {
        let fan = self.fan(path).ok_or_else(|| no_lane(path))?;
        let (from, status) = match failed.and_then(|index| fan.lanes.get(&index)?.last.as_ref()) {
            Some(last) => (last.role.to_string(), Some(last.status.clone())),
            None => (fan.from().to_owned(), fan.status()),
        };
        let edge = EdgeTaken { from, status, ..EdgeTaken::default() };
        let (Some(status), Some(source)) = (self.error_route(fan), &fan.source) else {
            if !path.is_trunk() {
                return self.end_lane(path, LanePhase::Failed(error), context);
            }
            let part = Arc::clone(&fan.edge.part);
            self.over(&part, Outcome::Failed, Some(error.message), Value::Null);
            return Ok(());
        };
        let answered = Answered {
            observations: vec![Observation::Error { code: error.code.clone() }],
            ..Answered::uncalled(status, error.to_value())
        };
        let dispatch =
            Dispatch { given: Some(Box::new(answered)), ..fan.ending_visit(source.role.clone(), edge, Task::Model) };
        self.lane_mut(path)?.end(LanePhase::Deciding);
        self.dispatch(path, dispatch)
    }
}

/// The first roles of lanes.
fn first_roles(graph: &Graph) -> BTreeSet<RoleName> {
    graph.fans().flat_map(|out| &out.branches).map(|branch| branch.to.clone()).collect()
}

/// Whether a lane waits for lanes in it that are no longer needed.
pub(super) fn is_ending(lane: &Lane) -> bool {
    let LanePhase::Fanned(fan) = &lane.phase else { return false };
    match &fan.then {
        Some(FanOutcome::Cancel) => false,
        Some(FanOutcome::Join | FanOutcome::Fail(_) | FanOutcome::Unmet) => true,
        None => fan.decided() == Some(FanOutcome::Unmet),
    }
}

/// Ends every cancelled lane.
pub(super) fn end_leaving(lane: &mut Lane) {
    match &mut lane.phase {
        LanePhase::Leaving(_) => lane.phase = LanePhase::Cancelled,
        LanePhase::Fanned(fan) => {
            fan.lanes.values_mut().for_each(end_leaving);
            fan.count();
            lane.end(LanePhase::Cancelled);
        }
        _ => {}
    }
}

/// Restores a lane that was leaving, so that it is cancelled again: only then is the usage by an earlier process
/// known.
pub(super) fn stay(lane: &mut Lane) {
    match &mut lane.phase {
        LanePhase::Leaving(_) => {
            if let LanePhase::Leaving(dispatch) = std::mem::replace(&mut lane.phase, LanePhase::Deciding) {
                lane.phase = LanePhase::Visiting(dispatch);
            }
        }
        LanePhase::Fanned(fan) => {
            fan.then = None;
            fan.take_back_too_few();
            fan.lanes.values_mut().for_each(stay);
        }
        _ => {}
    }
}

/// Cancels a lane and all lanes within it.
fn cancel(
    lane: &mut Lane,
    recovered: &BTreeMap<LanePath, InFlight>,
    lost: &mut Vec<CancelledLane>,
    given: &mut Vec<LanePath>,
    actions: &mut Vec<Action>,
) {
    if !lane.is_open() {
        return;
    }
    if let (LanePhase::Deciding, Some(recovered), Some(visit)) =
        (&lane.phase, recovered.get(&lane.path), last_visit(lane))
    {
        lost.push(machine::lost(&visit.lane, &visit.role, &recovered.used, None));
    }
    lane.phase = match std::mem::replace(&mut lane.phase, LanePhase::Cancelled) {
        LanePhase::Visiting(dispatch) if dispatch.given.is_some() => {
            given.push(lane.path.clone());
            LanePhase::Cancelled
        }
        LanePhase::Visiting(dispatch) => {
            actions.push(Action::CancelLane(lane.path.clone()));
            LanePhase::Leaving(dispatch)
        }
        LanePhase::Fanned(mut fan) => {
            lost.append(&mut fan.lost);
            fan.lanes.values_mut().for_each(|lane| cancel(lane, recovered, lost, given, actions));
            fan.count();
            if fan.open > 0 {
                fan.then = Some(FanOutcome::Cancel);
                LanePhase::Fanned(fan)
            } else {
                lane.joined = Some(fan);
                LanePhase::Cancelled
            }
        }
        leaving @ LanePhase::Leaving(_) => leaving,
        _ => LanePhase::Cancelled,
    };
}

fn lane_ended(lane: &Lane) -> Option<Followed> {
    let how = match lane.phase {
        LanePhase::Arrived(_) => LaneEnd::Arrived,
        LanePhase::Failed(_) => LaneEnd::Failed,
        _ => return None,
    };
    Some(Followed::LaneEnded { visit: last_visit(lane)?, how })
}

/// The last visit of a lane, or its first if it has none.
pub(super) fn last_visit(lane: &Lane) -> Option<event::Visit> {
    let last = lane.last.as_ref().map(|last| last.role.clone());
    let role = last.or_else(|| RoleName::new(lane.path.parts().last()?.0).ok())?;
    Some(event::Visit { visit: lane.visits(&role), role, lane: lane.path.clone() })
}

/// Whether the edges of a fan-out's join role read `branches`.
pub(super) fn reads_branches(graph: &Graph, role: &RoleName) -> bool {
    let mut edges = graph.leaving(role);
    edges.any(|edge| edge.uses().iter().any(|found| !found.path.is_local() && found.path.root() == "branches"))
}

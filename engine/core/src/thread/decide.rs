//! Decides what follows a lane's last step: the edge taken, the role visited, and the route of a fault.

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, ReachedLimit};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{self, Outcome, Target};
use rondo_protocol::id::{FieldName, LanePath, RoleName, Status};
use rondo_protocol::message::FileRef;
use rondo_protocol::object::{BoundedEdge, EdgeTaken, FaultKind, Followed, Observation};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::{FailedLanes, types};

use super::fan::Fan;
use super::form::{self, OpenForm};
use super::lane::{LaneError, LanePhase};
use super::machine::{Machine, no_lane};
use super::message::{Action, Answered, Visit};
use super::route::{self, Compacting, Decided, Dispatch, EdgeTexts, Undecided};
use super::scope::{DecisionInput, LaneScope};
use super::task::Task;
use crate::graph::{Edge, FanOut, To};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Machine {
    /// Decides what follows a lane's last step.
    pub(super) fn decide(&mut self, path: &LanePath, context: DecisionInput<'_>) -> Decided {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let scope = LaneScope::after_last_step(context, lane)?;
        let chosen = route::choose(&self.definition.graph, &scope)?;
        let Some(edge) = chosen else { return self.unrouted(path, context) };
        let taken = self.take(&edge, &scope);
        self.chosen.push(edge.id);
        let (said, next) = taken?;
        let target = |role: &RoleName, lane: &LanePath| Target { role: role.clone(), lane: lane.clone() };
        match next {
            Next::Visit(dispatch) => {
                self.after.edge(vec![target(&dispatch.role, path)], said);
                self.dispatch(path, *dispatch)
            }
            Next::Arrive(join) => {
                let parent = path.parent().ok_or_else(|| no_lane(path))?;
                self.after.edge(vec![target(&join, &parent)], said);
                self.end_lane(path, LanePhase::Arrived(edge), context)
            }
            Next::End { result } => {
                self.after.edge(Vec::new(), said);
                self.over(&edge.part, Outcome::Done, None, result);
                Ok(())
            }
            Next::Fail { reason, result } => {
                self.after.edge(Vec::new(), said);
                if path.is_trunk() {
                    self.over(&edge.part, Outcome::Failed, reason, result);
                    return Ok(());
                }
                let error = LaneError { code: "fail".to_owned(), message: reason.unwrap_or_default() };
                self.end_lane(path, LanePhase::Failed(error), context)
            }
            Next::Fan { out, list, open } => {
                let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
                let fan = Fan::new(edge, Arc::clone(&out), lane, Arc::clone(&list), open);
                // It may have no lanes, or fewer than it needs.
                let then = fan.decided().filter(|then| self.decides(then));
                let to = fan.to_open.iter().filter(|_| then.is_none());
                let to = to.filter_map(|index| {
                    let role = &fan.branch(*index)?.to;
                    Some(target(role, &path.child(role, *index)))
                });
                let to = to.collect();
                self.after.edge(to, said);
                if out.each.is_some() {
                    self.pending.list = Some((fan.opened_by(), list));
                }
                self.lane_mut(path)?.phase = LanePhase::Fanned(Box::new(Fan { then, ..fan }));
                self.open_lanes(path, context)?;
                self.complete_if_ended(path, context)
            }
            Next::TooManyLanes(fault) => {
                let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
                let source = lane.last.as_ref().ok_or_else(|| fault.clone())?;
                let answered = self.reserved(path, &source.role, fault)?;
                let (from, status) = (source.role.to_string(), Some(source.status.clone()));
                let taken = EdgeTaken { from, status, ..EdgeTaken::default() };
                let (part, prev) = (Arc::clone(&edge.part), vec![source.digest]);
                let dispatch = Dispatch {
                    given: Some(Box::new(answered)),
                    ..Dispatch::new(source.role.clone(), taken, part, Task::Model, prev)
                };
                self.dispatch(path, dispatch)
            }
        }
    }

    /// What is said when `edge` is taken, and the consequences.
    fn take(&self, edge: &Edge, scope: &LaneScope<'_>) -> Decided<(Option<Followed>, Next)> {
        let from = scope.lane().last.as_ref().map_or("start", |last| last.role.as_str());
        let speaking = EdgeTexts { scope, from, part: &edge.part };
        let say = edge.say.as_ref().map(|say| speaking.text("say", say)).transpose()?;
        Ok((say.map(|text| Followed::Said { text }), self.next(edge, &speaking)?))
    }

    fn next(&self, edge: &Edge, speaking: &EdgeTexts<'_>) -> Decided<Next> {
        let graph = &self.definition.graph;
        let EdgeTexts { scope, from, .. } = *speaking;
        let lane = scope.lane();
        let in_part = |name: &str| key(&edge.part, name);
        let role = match &edge.to {
            To::Role(role) => role.clone(),
            To::Back => route::back(lane)?,
            To::End if !lane.path.is_trunk() => {
                return Err(Undecided::NoEdge { place: format!("a lane that reaches `end` from {from}") });
            }
            To::End => {
                let result = match (&edge.result, graph.result()) {
                    (Some(own), _) => speaking.value(&in_part("result"), own)?,
                    (None, Some(of_workflow)) => speaking.value("result", of_workflow)?,
                    (None, None) => last_said(scope),
                };
                return Ok(Next::End { result });
            }
            To::Fail => {
                let reason = edge.reason.as_ref().map(|reason| speaking.text("reason", reason)).transpose()?;
                let result = edge.result.as_ref();
                let result = result.map_or(Ok(Value::Null), |own| speaking.value(&in_part("result"), own))?;
                return Ok(Next::Fail { reason, result });
            }
            To::Fan(out) => return speaking.fan_out(out),
        };
        if let Some(parent) = lane.path.parent()
            && self.fan(&parent).is_some_and(|fan| fan.out.join.to == role)
        {
            // The part is rendered on demand, and once now, so that a rendering error stops the thread here.
            if !edge.prompt.is_empty() {
                speaking.text("prompt", &edge.prompt)?;
            }
            return Ok(Next::Arrive(role));
        }
        let taken = EdgeTaken {
            files: attached(&self.definition.input, &edge.attach),
            from: from.to_owned(),
            prompt: speaking.text("prompt", &edge.prompt)?,
            status: lane.last.as_ref().map(|last| last.status.clone()),
        };
        let task = speaking.task(graph, &role)?;
        let prev = lane.last.iter().map(|last| last.digest).collect();
        let dispatch = Dispatch {
            bounded: route::bounded(edge),
            ..Dispatch::new(role, taken, Arc::clone(&edge.part), task, prev)
        };
        Ok(Next::Visit(Box::new(dispatch)))
    }

    /// Starts the visit of a role, unless a limit is reached.
    pub(super) fn dispatch(&mut self, path: &LanePath, mut dispatch: Dispatch) -> Decided {
        if dispatch.given.is_none()
            && !self.is_replaying
            && !self.ignores_limits
            && let Some(fault) = self.broken(path, &dispatch.role)
        {
            if let Some(in_doubt) = self.recovered.get(path).and_then(|recovered| recovered.in_doubt.clone()) {
                // A step committed now would forget the call.
                return Err(in_doubt.into());
            }
            dispatch.given = Some(Box::new(self.reserved(path, &dispatch.role, fault)?));
        }
        if dispatch.given.is_none()
            && !self.is_replaying
            && let Task::Computed(decided) = &mut dispatch.task
        {
            let decided = std::mem::replace(decided, Err(no_lane(path)));
            dispatch.given = Some(match decided {
                Ok(answered) => answered,
                Err(fault) => Box::new(self.reserved(path, &dispatch.role, fault).map_err(|halt| match halt {
                    Undecided::Fault(fault) => Undecided::NoChoice { role: dispatch.role.clone(), fault },
                    other => other,
                })?),
            });
        }
        if dispatch.given.is_some() {
            self.given.push_back(path.clone());
        } else if !self.is_replaying {
            if dispatch.task == Task::Form {
                let form = self.form(path, &dispatch)?;
                self.after.notices.push(Followed::Waiting { visit: form.visit, form: form.form });
                self.clock.waiting += 1;
            } else if !self.ignores_limits {
                self.clock.working += 1;
            }
            let visit = Action::Visit(Box::new(self.visit(path, &dispatch)?));
            self.after.actions.push(visit);
        }
        self.lane_mut(path)?.phase = LanePhase::Visiting(Box::new(dispatch));
        Ok(())
    }

    /// The open form of a lane.
    pub fn open_form(&self, path: &LanePath) -> Option<OpenForm> {
        let dispatch = self.lane(path)?.visiting().filter(|dispatch| dispatch.task == Task::Form)?;
        self.form(path, dispatch).ok()
    }

    /// The form of a visit that a person answers.
    pub(super) fn form(&self, path: &LanePath, dispatch: &Dispatch) -> Decided<OpenForm> {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let (role, policy) = self.definition.graph.role(&dispatch.role).ok_or_else(|| no_lane(path))?;
        let visit =
            event::Visit { role: dispatch.role.clone(), visit: lane.visits(&dispatch.role) + 1, lane: path.clone() };
        // A lane's first form is asked for when the lane opens.
        let asked_at_ms = lane.last.as_ref().map_or(self.clock.latest_ms, |last| last.ended_at_ms);
        let expires_at_ms = policy.timeout_ms.map(|timeout| asked_at_ms.saturating_add(timeout));
        Ok(OpenForm { thread: None, visit, form: form::form(role, &dispatch.edge.prompt, expires_at_ms) })
    }

    pub(super) fn visit(&self, path: &LanePath, dispatch: &Dispatch) -> Decided<Visit> {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let own = lane.own.get(&dispatch.role).copied().unwrap_or_default();
        let limit = self.definition.limits.wall_time_ms;
        Ok(Visit {
            lane: path.clone(),
            opened_by: lane.opened_by.clone(),
            first_opened_by: lane.first_opened_by.clone(),
            prev: dispatch.prev.clone(),
            role: dispatch.role.clone(),
            visit: own.visits + 1,
            attempts: own.attempts,
            prompt: dispatch.edge.prompt.clone(),
            files: dispatch.edge.files.clone(),
            task: dispatch.task.clone(),
            compact: self.compact_offer(path, dispatch),
            is_uncompacted: matches!(dispatch.compacting, Compacting::Refused(_)),
            wall_time_left_ms: limit.map(|most| most.saturating_sub(self.clock.active_ms)),
            wall_time_limit_ms: limit,
        })
    }

    /// The limit that a visit would break.
    pub fn broken(&self, path: &LanePath, role: &RoleName) -> Option<Fault> {
        let limits = &self.definition.limits;
        let own = self.limits_of(role);
        #[expect(clippy::cast_precision_loss, reason = "limits are far below what a float cannot hold")]
        let reached = |code, key: &'static str, role: Option<&RoleName>, used: u64, what: String| {
            let needed = used.saturating_add(1) as f64;
            let who = role.map_or_else(|| "the thread".to_owned(), |role| format!("the role {role}"));
            let limit = ReachedLimit { key, role: role.cloned(), is_of_thread: true, needed };
            Some(Fault::of_limit(code, limit, format!("{who} reached its limit of {what}")))
        };
        let steps = self.seq.saturating_add(self.clock.working).saturating_add(self.clock.waiting);
        if steps >= limits.steps {
            return reached(Code::ThreadLimit, "steps", None, steps, format!("{} steps", limits.steps));
        }
        let visits = limits.visits.into_iter().chain(own.visits).min();
        if let Some(most) = visits.filter(|most| self.lane(path).is_some_and(|lane| lane.visits(role) >= *most)) {
            return reached(Code::VisitLimit, "visits", Some(role), most, format!("{most} visits"));
        }
        if let Some(most) = limits.wall_time_ms.filter(|most| self.clock.active_ms >= *most) {
            let what = format!("{most} ms wall time");
            return reached(Code::ThreadLimit, "wall_time", None, self.clock.active_ms, what);
        }
        self.budget.broken(role, None, limits, &own)
    }

    /// Handles a last step whose status has no edge: a fault that the lane's fan-out tolerates.
    fn unrouted(&mut self, path: &LanePath, context: DecisionInput<'_>) -> Decided {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let Some(last) = lane.last.clone() else { return Err(no_lane(path).into()) };
        let is_reserved = [FaultKind::Error, FaultKind::Limit, FaultKind::Timeout]
            .iter()
            .any(|kind| kind.status() == last.status.as_str());
        if path.is_trunk() || !is_reserved {
            return Err(Undecided::NoEdge { place: format!("{}.{}", last.role, last.status) });
        }
        let output = context.episode(last.step)?.output.clone();
        let text = |name: &str| output.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let error = LaneError { code: text("code"), message: text("message") };
        self.end_lane(path, LanePhase::Failed(error), context)
    }

    /// The step for a fault that the graph routes, or that the lane's fan-out tolerates.
    pub(super) fn reserved(&self, path: &LanePath, role: &RoleName, fault: Fault) -> Decided<Answered> {
        let Some(kind) = fault.routed_by() else { return Err(fault.into()) };
        let routed = route::routed(&self.definition.graph, role, &fault);
        let absorbed = || Status::new(kind.status()).ok().filter(|_| self.absorbs(path));
        let Some(status) = routed.or_else(absorbed) else { return Err(fault.into()) };
        let code = fault.code.to_string();
        let observation = match kind {
            FaultKind::Error => Observation::Error { code: code.clone() },
            FaultKind::Limit => Observation::Limit { code: code.clone() },
            FaultKind::Timeout => Observation::Timeout { code: code.clone() },
        };
        let output = LaneError { code, message: fault.message }.to_value();
        Ok(Answered { observations: vec![observation], ..Answered::uncalled(status, output) })
    }

    /// Whether the enclosing fan-outs continue when a lane fails with an unrouted fault.
    fn absorbs(&self, path: &LanePath) -> bool {
        let Some(parent) = path.parent() else { return false };
        let Some(fan) = self.fan(&parent) else { return false };
        if fan.out.join.failed != FailedLanes::Fail {
            return true;
        }
        self.error_route(fan).is_some() || self.absorbs(&parent)
    }

    /// The status that routes a failed fan-out, if its source has an edge for it.
    pub(super) fn error_route(&self, fan: &Fan) -> Option<Status> {
        let status = Status::new(FaultKind::Error.status()).ok()?;
        let source = fan.source.as_ref()?;
        self.definition.graph.routes(&source.role, &status).map(|_| status)
    }

    /// The count of the bounded edge from a lane's last step, once that edge is chosen.
    pub(super) fn left_by(&self, path: &LanePath) -> Option<BoundedEdge> {
        let lane = self.lane(path)?;
        let (edge, per) = match &lane.phase {
            LanePhase::Visiting(dispatch) => dispatch.bounded.clone()?,
            LanePhase::Fanned(fan) => route::bounded(&fan.edge)?,
            LanePhase::Arrived(edge) => route::bounded(edge)?,
            _ => return None,
        };
        let taken = lane.count_with(edge, per.as_ref());
        Some(BoundedEdge { edge: edge.0, count: taken.count, mark: taken.mark })
    }
}

/// What follows from a decision.
#[derive(Debug, Clone, Default)]
pub(super) struct Consequences {
    pub(super) notices: Vec<Followed>,
    pub(super) actions: Vec<Action>,
}

impl Consequences {
    pub(super) fn edge(&mut self, to: Vec<Target>, said: Option<Followed>) {
        self.notices.push(Followed::Edge { to });
        self.notices.extend(said);
    }
}

/// The files of a thread's input that go with a prompt, in the order of their names.
pub(super) fn attached(input: &Value, names: &[FieldName]) -> Vec<FileRef> {
    names.iter().filter_map(|name| input.get(name.as_str())).flat_map(types::files_of).collect()
}

pub(super) enum Next {
    Visit(Box<Dispatch>),
    Arrive(RoleName),
    End { result: Value },
    Fail { reason: Option<String>, result: Value },
    Fan { out: Arc<FanOut>, list: Arc<Value>, open: BTreeSet<u32> },
    TooManyLanes(Fault),
}

/// The result of a workflow that declares none.
fn last_said(scope: &LaneScope<'_>) -> Value {
    scope.last().map_or(Value::Null, |last| {
        Value::from_iter([
            ("status", Value::from(last.status.as_str())),
            ("output", last.output.clone()),
            ("body", Value::from(last.body.as_str())),
        ])
    })
}

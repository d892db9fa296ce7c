//! Runs one scenario on an in-memory store with a stopped clock, and reads back what the run committed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rondo_agent_kit::conversation::{self, Position};
use rondo_agent_kit::model::Model;
use rondo_agent_kit::model::scripted::Scripted;
use rondo_agent_kit::prefix;
use rondo_core::conversation::Steps;
use rondo_core::conversation::rebuild::{self, RebuildEvent};
use rondo_core::env::SeededEnv;
use rondo_core::exit::Exit;
use rondo_core::grant::Grants;
use rondo_core::hook::{HookResources, Registry};
use rondo_core::local::Ended;
use rondo_core::models::{Models, ResolvedModel, ServedBy};
use rondo_core::resolved_roles;
use rondo_core::store::{MemoryStore, Read, Row, StoredRecord};
use rondo_core::thread::{self, Input, Machine, PastStep};
use rondo_core::{Engine, NewThread, RunConfig};
use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::event::{Visit, What};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::{Message, Speaker};
use rondo_protocol::object::{self, EdgeTaken, Head, KnownCost, Note, Record};
use rondo_protocol::workflow::{Checked, History, HookUse, Policy, RoleKind, Workflow};

use super::definition::Definition;
use super::scenario::{AnswerSource, Scenario};
use super::snapshot::{Request, Requests, RouteStep, RunTrace};
use super::tools::ToolFixtures;

/// The hook kinds that calls bypass: one starts programs, the other waits.
const PASSED_THROUGH: [&str; 2] = ["command", "rate_limit"];
/// The id of a model that neither the workflow nor a recording names.
const SCRIPTED: &str = "scripted";
/// The seed for ids, so that they are the same in each run.
const SEED: u64 = 5;
/// The most steps of a scenario, with those of children, so that every test ends.
const MAX_STEPS: usize = 10_000;

#[derive(Debug)]
pub struct RunResult {
    pub trace: RunTrace,
    /// Its steps, oldest first; lanes in declared order.
    pub steps: Vec<Step>,
    pub requests: BTreeMap<RoleName, Requests>,
    pub fault: Option<Fault>,
    pub exit: u8,
    pub tool_calls: BTreeMap<String, u64>,
    /// As far as a recording has it.
    pub cost: KnownCost,
    pub input: Value,
    /// Tool calls that the scenario does not answer.
    pub unanswered: Vec<String>,
    pub notices: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Step {
    seq: u64,
    /// For each part of the lane's path the step that opened its first round.
    first_opened_by: Vec<u64>,
    /// The number of the role's visit in the lane, from 1.
    pub visit: u64,
    pub body: String,
    pub committed: Box<object::Step>,
}

pub struct RunSetup {
    models: Models,
    script: Option<Arc<Scripted>>,
    pub fixtures: ToolFixtures,
}

impl RunSetup {
    pub fn new(definition: &Definition, scenario: &Scenario, folder: &Path) -> Result<Self, String> {
        let fixtures = ToolFixtures::new(definition, scenario, folder)?;
        let workflow = &definition.checked.workflow;
        let script = match &scenario.answers {
            AnswerSource::Script(script) => {
                Some(Arc::new(Scripted::new(Arc::new(script.clone()), Arc::new(definition.script_roles.clone()))))
            }
            AnswerSource::Recorded(_) => None,
        };
        let models = models(workflow, &scenario.answers, script.as_ref());
        Ok(Self { models, script, fixtures })
    }

    /// The possible heads of each role's requests, without a run: for its model, then for each fallback.
    pub fn heads(&self, definition: &Definition) -> Result<BTreeMap<RoleName, Vec<Arc<Head>>>, resolved_roles::Error> {
        let workflow = &definition.checked.workflow;
        let policy = &definition.checked.policy;
        let toolboxes = resolved_roles::toolboxes(workflow, &self.fixtures.set, &Grants::everything());
        let resolved_roles =
            resolved_roles::resolve(workflow, &policy.roles, &policy.limits, &self.models, toolboxes, None)?;
        let heads = |(role, runtime): (RoleName, resolved_roles::RoleRuntime)| {
            (role, runtime.heads.into_iter().map(|runtime| runtime.head).collect())
        };
        Ok(resolved_roles.model_roles.into_iter().map(heads).collect())
    }

    fn run_config(&self, workflow: &Workflow, answers: &AnswerSource, script: Option<Arc<Scripted>>) -> RunConfig {
        let children = workflow.roles.iter().filter_map(|(name, role)| match &role.kind {
            RoleKind::Workflow(child) => {
                Some((name.clone(), self.run_config(&child.workflow, answers, script.clone())))
            }
            _ => None,
        });
        RunConfig {
            children: children.collect(),
            models: models(workflow, answers, script.as_ref()),
            tools: self.fixtures.set.clone(),
            grants: Grants::everything(),
            script,
            hook_resources: HookResources { files: self.fixtures.files.clone(), ..HookResources::default() },
            ..RunConfig::default()
        }
    }

    pub async fn play(self, definition: &Definition, scenario: &Scenario) -> Result<RunResult, String> {
        let checked = Checked { policy: without_waiting(&definition.checked.policy), ..definition.checked.clone() };
        let Checked { workflow, policy, .. } = &checked;
        let store = Arc::new(MemoryStore::new());
        // Kinds keep state between runs, so each scenario has its own.
        let registry = rondo_hooks::registry();
        let kinds = registry.kinds().filter(|kind| !PASSED_THROUGH.contains(&kind.name())).cloned();
        let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SeededEnv::new(0, SEED)), Registry::new(kinds));
        let graph = engine.graph(workflow, policy, &[]).map_err(|error| error.to_string())?;
        let notices = notices(workflow, policy);
        let run_config = self.run_config(workflow, &scenario.answers, self.script.clone());
        let new = NewThread::of(checked, scenario.input.clone());
        let mut handle = engine.start(new, run_config).await.map_err(|error| error.to_string())?;
        let thread = handle.thread.clone();
        let (mut said, mut step_count) = (Vec::new(), 0_usize);
        while let Some(event) = handle.events.recv().await {
            step_count += usize::from(matches!(event.what, What::StepCommitted { .. } | What::EpochOpened(_)));
            if step_count > MAX_STEPS {
                handle.stopper.stop_at_once();
                let what = format!("the scenario took more than {MAX_STEPS} steps, those of children included");
                return Err(format!("{what}, which is the most in a test, whatever `limits` says"));
            }
            // A child's lines are its own.
            if let (What::Said { visit, text }, None) = (event.what, event.parent) {
                said.push((visit, text));
            }
        }
        let ended = handle.ended().await;
        let damaged = |error: rondo_core::store::Error| error.to_string();
        let row = store.row(&thread).map_err(damaged)?.ok_or("the run left no thread")?;
        let beginning = rebuild::beginning(&*store, &row).map_err(|error| error.to_string())?;
        let committed = Committed { store: &store, thread: &thread, row: &row, beginning };
        let Course { steps, route, end, tool_calls, cost } = committed.course(&graph)?;
        let requests = committed.requests(&steps)?;
        // Lines are in the order of the steps that they follow.
        let place = |visit: &Visit| {
            let is_its = |step: &Step| {
                let object::Step { role, lane, .. } = &*step.committed;
                (role, lane, step.visit) == (&visit.role, &visit.lane, visit.visit)
            };
            steps.iter().position(is_its).map_or(0, |at| at + 1)
        };
        said.sort_by_key(|(visit, _)| place(visit));
        let said = said.into_iter().map(|(_, text)| text).collect();
        let exit = Exit::of_ended(&ended).code();
        let mut trace = RunTrace { route, said, ..RunTrace::default() };
        let (outcome, fault) = match ended {
            Ended::Finished(thread::Ending { outcome, reason, result, .. }) => {
                (trace.end, trace.reason, trace.result) = (end, reason, Arc::unwrap_or_clone(result));
                (outcome.name(), None)
            }
            Ended::Stopped(fault) => ("stopped", Some(fault)),
            Ended::Waiting(_) => ("waiting", None),
        };
        outcome.clone_into(&mut trace.outcome);
        trace.code = fault.as_ref().map(|fault| fault.code.to_string());
        Ok(RunResult {
            trace,
            steps,
            requests,
            fault,
            exit,
            tool_calls,
            cost,
            input: committed.beginning.start.input,
            unanswered: self.fixtures.unanswered(),
            notices: notices.into_iter().chain(self.fixtures.left_over()).collect(),
        })
    }
}

/// The models of a workflow's roles, answered by the script or the recording of a scenario.
fn models(workflow: &Workflow, answers: &AnswerSource, script: Option<&Arc<Scripted>>) -> Models {
    let cassette = match answers {
        AnswerSource::Recorded(cassette) => Some(cassette),
        AnswerSource::Script(_) => None,
    };
    let used = resolved_roles::model_roles(workflow).map(|(_, _, role)| role.model.as_str());
    let names: BTreeSet<&str> = workflow.models.keys().map(String::as_str).chain(used).collect();
    let resolved = names.into_iter().filter_map(|name| {
        let written = workflow.models.get(name).and_then(|model| model.model.clone());
        let recorded = cassette.and_then(|cassette| cassette.model(name)).map(str::to_owned);
        let provider: Arc<dyn Model> = match (cassette, script) {
            (Some(cassette), _) => Arc::clone(cassette) as _,
            (None, script) => Arc::new(Scripted::clone(script?)),
        };
        let model = ResolvedModel {
            id: recorded.or(written).unwrap_or_else(|| SCRIPTED.to_owned()),
            provider,
            price: None,
            is_price_claimed: false,
            served_by: ServedBy::default(),
            response_format: cassette.and_then(|cassette| cassette.response_format(name)).unwrap_or_default(),
        };
        Some((name.to_owned(), model))
    });
    Models(resolved.collect())
}

/// The policy without waits and time limits.
fn without_waiting(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.limits.wall_time_ms = None;
    for role in policy.roles.values_mut() {
        role.timeout_ms = None;
        role.retry.backoff_ms = 0;
    }
    policy
}

/// A note for each skipped hook.
fn notices(workflow: &Workflow, policy: &Policy) -> Vec<String> {
    let uses = policy.hooks.iter().chain(&workflow.hooks).filter(|hook| hook.kind == "command");
    let name = |hook: &HookUse| hook.settings.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    uses.map(|hook| format!("calls pass the program of the hook command ({}), which is not run in a test", name(hook)))
        .collect()
}

struct Committed<'s> {
    store: &'s MemoryStore,
    thread: &'s ThreadId,
    row: &'s Row,
    beginning: rebuild::Beginning,
}

#[derive(Default)]
struct Course {
    steps: Vec<Step>,
    route: Vec<RouteStep>,
    end: Option<String>,
    tool_calls: BTreeMap<String, u64>,
    cost: KnownCost,
}

impl Committed<'_> {
    /// Reads the steps, and follows them with a machine to find the edge that entered each.
    fn course(&self, graph: &Arc<rondo_core::graph::Graph>) -> Result<Course, String> {
        let past = Steps::new(self.store, self.thread.clone(), self.row.start, &self.beginning.workflow);
        let past = past.map_err(|error| error.to_string())?;
        let input = Arc::new(self.beginning.start.input.clone());
        let limits = graph.policy().limits.clone();
        let definition = thread::Definition { graph: Arc::clone(graph), start: self.row.start, input, limits };
        let mut machine = Machine::new(definition, self.row.version);
        let mut course = Course::default();
        let Course { tool_calls, cost, .. } = &mut course;
        let mut unread = None;
        let mut positioned: Vec<(Position, Step, RouteStep)> = Vec::new();
        let mut each = |stored: StoredRecord, note: Note| {
            let known = match past.keep(&stored, &note) {
                Ok(known) => known,
                Err(error) => {
                    unread = Some(error.to_string());
                    return false;
                }
            };
            let body = known.episode.map(|episode| episode.body.clone()).unwrap_or_default();
            let followed = PastStep { seq: stored.seq, digest: stored.digest, body: body.clone(), note: note.clone() };
            let StoredRecord { seq, visit, record, .. } = stored;
            let Record::Step(step) = record else {
                *cost += note.cost();
                return machine.follow_record(&record, followed, &thread::Definitions::new(), &past).is_ok();
            };
            // A step always follows from those before it; the store verified that they are what was committed.
            let reached = machine.follow(&step, followed, &past).ok().flatten();
            // Steps are in causal order and lanes in declared order, not in order of arrival.
            let turn = known.place.position();
            let first_opened_by = reached.as_ref().map(|reached| reached.first_opened_by.clone()).unwrap_or_default();
            let edge = reached.map_or_else(String::new, |reached| reached.part.to_string());
            for tool in &note.tools {
                *tool_calls.entry(tool.tool.clone()).or_default() += 1;
            }
            *cost += note.cost();
            note.cancelled.iter().for_each(|lost| *cost += lost.cost());
            let place = RouteStep { step: format!("{}.{}", step.lane.role_in_lane(&step.role), step.status), edge };
            positioned.push((turn, Step { seq, first_opened_by, visit, body, committed: step }, place));
            true
        };
        if self.row.seq > 0 {
            self.store.scan(self.thread, 1..=self.row.seq, &mut each).map_err(|error| error.to_string())?;
        } else {
            machine.on(Input::Begin { at_ms: 0 }, 0, &past);
        }
        if let Some(error) = unread {
            return Err(error);
        }
        positioned.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        (course.steps, course.route) = positioned.into_iter().map(|(_, step, place)| (step, place)).unzip();
        course.end = machine.end().map(ToString::to_string);
        Ok(course)
    }

    fn requests(&self, steps: &[Step]) -> Result<BTreeMap<RoleName, Requests>, String> {
        let mut by_role: BTreeMap<RoleName, Vec<(usize, Request)>> = BTreeMap::new();
        let places: BTreeMap<u64, usize> = steps.iter().enumerate().map(|(at, step)| (step.seq, at)).collect();
        let mut unproven = None;
        let labels = Labels::of(&self.beginning.workflow, steps);
        let mut each = |met: RebuildEvent<'_>| {
            let RebuildEvent::Request(sent) = met else { return true };
            if !sent.is_proven() {
                let (role, visit) = (sent.lane.role_in_lane(&sent.role), sent.visit);
                unproven = Some(format!("a request of {role}, visit {visit}, cannot be rebuilt as it was sent"));
                return false;
            }
            let (labels, messages) = (labels.tell(&sent), sent.messages().clone());
            let rebuild::Request { seq, visit, role, lane, head, .. } = *sent;
            let place = places.get(&seq).copied().unwrap_or(usize::MAX);
            by_role.entry(role).or_default().push((place, Request { lane, visit, head, messages, labels }));
            true
        };
        rebuild::walk(self.store, self.thread, self.row, &|_| true, &mut each).map_err(|error| error.to_string())?;
        let in_order = |(role, mut sent): (RoleName, Vec<(usize, Request)>)| {
            sent.sort_by_key(|(place, _)| *place);
            (role, Requests { sent: sent.into_iter().map(|(_, request)| request).collect() })
        };
        unproven.map_or_else(|| Ok(by_role.into_iter().map(in_order).collect()), Err)
    }
}

pub const REPAIR: &str = "repair";

/// Labels user messages with the edge of their prompt, and with whether a summary follows.
struct Labels<'s> {
    steps: &'s [Step],
    fresh: BTreeSet<&'s RoleName>,
}

impl<'s> Labels<'s> {
    fn of(workflow: &'s Workflow, steps: &'s [Step]) -> Self {
        let is_fresh = |kind: &RoleKind| kind.model().is_some_and(|model| model.history == History::None);
        let fresh = workflow.roles.iter().filter(|(_, role)| is_fresh(&role.kind)).map(|(name, _)| name).collect();
        Self { steps, fresh }
    }

    /// The edges that entered the visits a request may hold: those of the enclosing lanes from before its lane first
    /// opened, then its own.
    fn openings(&self, request: &rebuild::Request) -> Vec<&'s EdgeTaken> {
        let of_lane = |lane: &LanePath| {
            let lane = lane.clone();
            self.steps.iter().filter(move |step| step.committed.role == request.role && step.committed.lane == lane)
        };
        let mut around: Vec<LanePath> = request.lane.outward().skip(1).collect();
        around.reverse();
        let own: Vec<&Step> = of_lane(&request.lane).filter(|step| step.visit <= request.visit).collect();
        let opened_by = own.first().map(|step| step.first_opened_by.as_slice()).unwrap_or_default();
        let before = around.iter().zip(opened_by);
        let before = before.flat_map(|(lane, until)| of_lane(lane).filter(|step| step.seq <= *until));
        before.chain(own.iter().copied()).map(|step| &step.committed.edge).collect()
    }

    fn tell(&self, sent: &rebuild::Request) -> Vec<String> {
        let all = self.openings(sent);
        let first = if self.fresh.contains(&sent.role) { all.len().saturating_sub(1) } else { 0 };
        let mut openings = all.get(first..).unwrap_or_default().iter().copied().peekable();
        let label = |message: &Message| match message.role() {
            Speaker::Assistant | Speaker::Tool => String::new(),
            Speaker::User => {
                let label = openings.peek().and_then(|edge| opening(edge, &message.text()));
                openings.next_if(|_| label.is_some());
                label.unwrap_or_else(|| REPAIR.to_owned())
            }
        };
        sent.messages().messages().into_iter().map(label).collect()
    }
}

/// The label of `text`, if it opens a visit by that edge.
fn opening(edge: &EdgeTaken, text: &str) -> Option<String> {
    let name = match &edge.status {
        Some(status) => format!("{}.{status}", edge.from),
        None => edge.from.clone(),
    };
    if conversation::opening(&edge.prompt, "", &[]).text() == text {
        return Some(name);
    }
    let with_summary = conversation::opening(&edge.prompt, "x", &[]);
    let with_summary = with_summary.text();
    let before = with_summary.strip_suffix('x').unwrap_or(&with_summary);
    (text.len() > before.len() && text.starts_with(before)).then(|| format!("{name}, then what happened"))
}

impl RunResult {
    /// The values that assertions can read.
    pub fn facts(&self) -> Value {
        let RunTrace { route, outcome, reason, result, said, .. } = &self.trace;
        let texts = |texts: &mut dyn Iterator<Item = &str>| Value::List(texts.map(Value::from).collect());
        Value::from_iter([
            ("outcome", Value::from(outcome.as_str())),
            ("exit", Value::from(u64::from(self.exit))),
            ("reason", reason.as_deref().map_or(Value::Null, Value::from)),
            ("result", result.clone()),
            ("route", texts(&mut route.iter().map(|stop| stop.step.as_str()))),
            ("said", texts(&mut said.iter().map(String::as_str))),
            ("input", self.input.clone()),
            ("steps", self.visited()),
        ])
    }

    fn visited(&self) -> Value {
        let mut roles: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for Step { body, committed, .. } in &self.steps {
            let object::Step { role, lane, status, output, edge, .. } = &**committed;
            let step = Value::from_iter([
                ("status", Value::from(status.as_str())),
                ("output", output.clone()),
                ("body", Value::from(body.as_str())),
                ("prompt", Value::from(edge.prompt.as_str())),
            ]);
            if !lane.is_trunk() {
                roles.entry(lane.role_in_lane(role)).or_default().push(step.clone());
            }
            roles.entry(role.to_string()).or_default().push(step);
        }
        let role = |(role, all): (String, Vec<Value>)| {
            let visits = u64::try_from(all.len()).unwrap_or(u64::MAX);
            let mut members = match all.last() {
                Some(Value::Object(latest)) => latest.clone(),
                _ => BTreeMap::new(),
            };
            members.insert("visits".to_owned(), visits.into());
            members.insert("all".to_owned(), Value::List(all));
            (role, Value::Object(members))
        };
        roles.into_iter().map(role).collect()
    }

    pub fn prompt_tokens(&self) -> u64 {
        let sent = self.requests.values().flat_map(|requests| &requests.sent);
        let bytes = sent.map(|request| prefix::bytes_of_head(&request.head) + request.messages.canonical_size_bytes());
        prefix::tokens(bytes.sum())
    }

    /// The visited roles, and the places where an edge was chosen.
    pub fn reached(&self) -> (BTreeSet<RoleName>, BTreeSet<String>) {
        let steps = || self.steps.iter().map(|step| &step.committed);
        let visited = steps().map(|step| step.role.clone()).collect();
        let left = steps().map(|step| format!("graph.{}.{}", step.role, step.status));
        (visited, left.chain(["graph.start".to_owned()]).collect())
    }
}

#[cfg(test)]
mod tests;

//! The JSON lines of two threads' comparison: where they part, and how their steps and totals differ after that.

use std::collections::{BTreeMap, BTreeSet};

use rondo_author::thread_diff::{NotedStep, Pair, Parting, Side, pairs, parting};
use rondo_core::conversation::rebuild::{self, Beginning};
use rondo_core::resolved_roles;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Entry, KnownCost, Usage};
use rondo_protocol::workflow::Workflow;
use rondo_protocol::{Digest, Value};
use rondo_store::{Read, Row, StoredStep};
use schemars::JsonSchema;
use serde::Serialize;

use super::event;
use super::lines::{EdgeLine, StepLine, ThreadLine, Totals, step_line, thread_line};
use crate::failure::Failure;
use crate::host::store_access::DrivenThreads;

/// The most places of two definitions that are told.
const MAX_PLACES: usize = 100;

/// Two threads that are compared.
pub struct Comparison<'s> {
    store: &'s dyn Read,
    a: Thread,
    b: Thread,
    parting: Parting,
}

/// A step that one of the threads has, or that both have.
pub struct StepPair {
    pub a: Option<StepLine>,
    pub b: Option<StepLine>,
    /// What differs, if both have the step.
    pub changed: Vec<String>,
}

impl StepPair {
    /// The line of the pair; `None` if neither thread has the step.
    pub fn line(&self) -> Option<DiffStepLine<'_>> {
        let (a, b) = (self.a.as_ref(), self.b.as_ref());
        let any = a.or(b)?;
        let (role, lane, visit, changed) = (&any.role, &any.lane, any.visit, self.changed.clone());
        Some(DiffStepLine { role, lane, visit, a: a.map(step_side), b: b.map(step_side), changed })
    }
}

impl<'s> Comparison<'s> {
    /// Finds where the threads part.
    pub fn new(
        store: &'s dyn Read,
        driven: &DrivenThreads,
        (a, a_row): (&ThreadId, &Row),
        (b, b_row): (&ThreadId, &Row),
    ) -> Result<Self, Failure> {
        let (a, b) = (Thread::read(store, driven, a, a_row)?, Thread::read(store, driven, b, b_row)?);
        let parting = parting(store, a.side(), b.side())?;
        Ok(Self { store, a, b, parting })
    }

    pub fn threads(&self) -> Sides<&ThreadLine> {
        Sides { a: &self.a.line, b: &self.b.line }
    }

    /// The first line.
    pub fn head(&self) -> DiffLine<'_> {
        let (a, b) = (&self.a, &self.b);
        DiffLine {
            a: &a.line.thread,
            b: &b.line.thread,
            common: self.parting.common.map(|(seq, step)| CommonLine { seq, step }),
            workflow: Sides { a: a.workflow(), b: b.workflow() },
            definition: changed_places(&a.beginning.workflow, &b.beginning.workflow),
            inputs: changed_inputs(&a.beginning.start.input, &b.beginning.start.input),
        }
    }

    /// The last step that both threads have.
    pub fn last_common(&self) -> Result<Option<StoredStep>, Failure> {
        let Some((seq, _)) = self.parting.common else { return Ok(None) };
        Ok(self.store.step(&self.a.line.thread, seq)?.map(|(stored, _)| stored))
    }

    /// Passes the steps after that to `each`, in pairs, until it returns `false`.
    pub fn pairs(&self, each: &mut dyn FnMut(StepPair) -> Result<bool, Failure>) -> Result<(), Failure> {
        let mut outcome = Ok(true);
        pairs(self.store, self.a.side(), self.b.side(), &self.parting, &mut |pair| {
            outcome = self.read(pair).and_then(&mut *each);
            matches!(outcome, Ok(true))
        })?;
        outcome.map(|_| ())
    }

    fn read(&self, pair: Pair) -> Result<StepPair, Failure> {
        let (a, b) = match pair {
            Pair::A(step) => (Some(self.a.step(self.store, step)?), None),
            Pair::B(step) => (None, Some(self.b.step(self.store, step)?)),
            Pair::Both(a, b) => (Some(self.a.step(self.store, a)?), Some(self.b.step(self.store, b)?)),
        };
        let changed = a.as_ref().zip(b.as_ref()).map(|(a, b)| changed(a, b)).unwrap_or_default();
        Ok(StepPair { a, b, changed })
    }

    /// The last line.
    pub fn totals(&self) -> TotalsLine {
        TotalsLine { a: KnownTotals::of(&self.a.line.totals), b: KnownTotals::of(&self.b.line.totals) }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "diff")]
#[schemars(rename = "DiffLine", transform = event("diff"))]
pub struct DiffLine<'a> {
    pub a: &'a ThreadId,
    pub b: &'a ThreadId,
    pub common: Option<CommonLine>,
    pub workflow: Sides<WorkflowLine<'a>>,
    pub definition: Vec<PlaceLine>,
    pub inputs: Vec<InputLine<'a>>,
}

/// The last common step, with its number in the first thread.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct CommonLine {
    pub seq: u64,
    pub step: Digest,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Sides<T> {
    pub a: T,
    pub b: T,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkflowLine<'a> {
    pub name: &'a str,
    pub workflow: Digest,
}

/// A place where the definitions differ, such as `roles.editor.system`; `None` where a definition has nothing there.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlaceLine {
    pub path: String,
    pub a: Option<serde_json::Value>,
    pub b: Option<serde_json::Value>,
}

/// An input that differs; `None` where a thread has none of that name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InputLine<'a> {
    pub name: &'a str,
    pub a: Option<&'a Value>,
    pub b: Option<&'a Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "diff_step")]
#[schemars(rename = "DiffStepLine", transform = event("diff_step"))]
pub struct DiffStepLine<'a> {
    pub role: &'a RoleName,
    pub lane: &'a LanePath,
    pub visit: u64,
    pub a: Option<StepSide<'a>>,
    pub b: Option<StepSide<'a>>,
    /// What differs, if both have the step.
    pub changed: Vec<String>,
}

/// A step in one of the threads.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StepSide<'a> {
    pub seq: u64,
    pub step: Digest,
    pub edge: &'a EdgeLine,
    pub status: &'a str,
    #[schemars(with = "BTreeMap<String, Value>")]
    pub output: &'a Value,
    pub answer: &'a str,
    pub usage: Option<Usage>,
    #[serde(flatten)]
    pub cost: KnownCost,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "diff_totals")]
#[schemars(rename = "DiffTotalsLine", transform = event("diff_totals"))]
pub struct TotalsLine {
    pub a: KnownTotals,
    pub b: KnownTotals,
}

/// Totals of a thread; `None` for what was not counted.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct KnownTotals {
    pub steps: u64,
    pub model_calls: u64,
    pub tool_calls: u64,
    pub prompt_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    #[serde(flatten)]
    pub cost: KnownCost,
}

impl KnownTotals {
    fn of(totals: &Totals) -> Self {
        // No request has no tokens, so calls without tokens were not counted.
        let is_counted = totals.model_calls == 0 || totals.usage() != Usage::default();
        let known = |tokens: u64| is_counted.then_some(tokens);
        Self {
            steps: totals.steps,
            model_calls: totals.model_calls,
            tool_calls: totals.tool_calls,
            prompt_tokens: known(totals.prompt_tokens),
            cached_tokens: known(totals.cached_tokens),
            output_tokens: known(totals.output_tokens),
            cost: totals.cost,
        }
    }
}

/// A thread with the data to show its steps.
struct Thread {
    line: ThreadLine,
    beginning: Beginning,
    body_readers: BodyReaders,
}

type BodyReaders = BTreeMap<RoleName, resolved_roles::BodyReader>;

impl Thread {
    fn read(store: &dyn Read, driven: &DrivenThreads, thread: &ThreadId, row: &Row) -> Result<Self, Failure> {
        let beginning = rebuild::beginning(store, row)?;
        // A definition of another version may have no body readers here; its steps can still be shown.
        let body_readers = resolved_roles::body_readers(&beginning.workflow).unwrap_or_default();
        Ok(Self { line: thread_line(store, driven, thread, row)?, beginning, body_readers })
    }

    fn side(&self) -> Side<'_> {
        Side { thread: &self.line.thread, seq: self.line.totals.steps }
    }

    fn step(&self, store: &dyn Read, step: NotedStep) -> Result<StepLine, Failure> {
        let (stored, note) = *step;
        let reader = self.body_readers.get(&stored.step.role);
        let body = reader.map(|reader| reader.body(&stored.step.answer)).unwrap_or_default();
        step_line(store, stored, note, body)
    }

    fn workflow(&self) -> WorkflowLine<'_> {
        WorkflowLine { name: &self.line.name, workflow: self.line.workflow }
    }
}

/// The first places at which two definitions are not the same, in the order of their paths.
fn changed_places(a: &Workflow, b: &Workflow) -> Vec<PlaceLine> {
    let mut found = Vec::new();
    if a != b {
        let (a, b) = (serde_json::to_value(a).ok(), serde_json::to_value(b).ok());
        add_places(&mut Vec::new(), (a.as_ref(), b.as_ref()), &mut found);
    }
    found
}

fn add_places<'a>(
    path: &mut Vec<&'a str>,
    (a, b): (Option<&'a serde_json::Value>, Option<&'a serde_json::Value>),
    found: &mut Vec<PlaceLine>,
) {
    if a == b || found.len() == MAX_PLACES {
        return;
    }
    let (Some(of_a), Some(of_b)) = (a.and_then(named), b.and_then(named)) else {
        // The kind of a role is told by its settings.
        let words = match path.as_slice() {
            ["roles", role, "kind", _, rest @ ..] => [&["roles", *role], rest].concat(),
            words => words.to_vec(),
        };
        found.push(PlaceLine { path: words.join("."), a: a.cloned(), b: b.cloned() });
        return;
    };
    let names: BTreeSet<&str> = of_a.keys().chain(of_b.keys()).copied().collect();
    for name in names {
        path.push(name);
        add_places(path, (of_a.get(name).copied(), of_b.get(name).copied()), found);
        path.pop();
    }
}

/// The members of an object, or of a list of names with values.
fn named<'v>(value: &'v serde_json::Value) -> Option<BTreeMap<&'v str, &'v serde_json::Value>> {
    match value {
        serde_json::Value::Object(members) => {
            Some(members.iter().map(|(name, value)| (name.as_str(), value)).collect())
        }
        serde_json::Value::Array(items) if !items.is_empty() => {
            let member = |item: &'v serde_json::Value| match item.as_array()?.as_slice() {
                [name, value] => Some((name.as_str()?, value)),
                _ => None,
            };
            items.iter().map(member).collect()
        }
        _ => None,
    }
}

/// The members of two inputs that are not the same, in the order of their names.
fn changed_inputs<'a>(a: &'a Value, b: &'a Value) -> Vec<InputLine<'a>> {
    let lines = names(a, b).into_iter().map(|name| InputLine { name, a: a.get(name), b: b.get(name) });
    lines.filter(|line| line.a != line.b).collect()
}

/// The names of the members of two objects.
pub fn names<'a>(a: &'a Value, b: &'a Value) -> BTreeSet<&'a str> {
    let members = |value: &'a Value| match value {
        Value::Object(members) => Some(members.keys().map(String::as_str)),
        _ => None,
    };
    [a, b].into_iter().filter_map(members).flatten().collect()
}

fn step_side(step: &StepLine) -> StepSide<'_> {
    StepSide {
        seq: step.seq,
        step: step.step,
        edge: &step.edge,
        status: step.status.as_str(),
        output: &step.output,
        answer: &step.answer,
        usage: step.note.usage,
        cost: step.note.cost,
    }
}

/// The names of what differs: `edge`, `prompt`, `status`, `output.NAME`, `answer`, `transcript`, `observations`. Nothing
/// if only an earlier step does.
fn changed(a: &StepLine, b: &StepLine) -> Vec<String> {
    let fields = names(&a.output, &b.output);
    let fields = fields.into_iter().map(|name| (format!("output.{name}"), a.output.get(name) != b.output.get(name)));
    let before = [
        ("edge", (&a.edge.from, &a.edge.status) != (&b.edge.from, &b.edge.status)),
        ("prompt", a.edge.prompt != b.edge.prompt),
        ("status", a.status != b.status),
    ];
    let after = [
        ("answer", a.answer != b.answer),
        ("transcript", tools_and_repairs(a).ne(tools_and_repairs(b))),
        ("observations", a.observations != b.observations),
    ];
    let named = |(name, differs): (&str, bool)| (name.to_owned(), differs);
    let all = before.map(named).into_iter().chain(fields).chain(after.map(named));
    all.filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// The entries of a transcript without the model's: their requests differ as soon as an earlier step does, and the last
/// reply is the answer.
pub fn tools_and_repairs(step: &StepLine) -> impl Iterator<Item = &Entry> {
    let entries = step.transcript.iter().flat_map(|transcript| &transcript.entries);
    entries.filter(|entry| !matches!(entry, Entry::Model { .. }))
}

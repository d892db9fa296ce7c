//! `rondo diff`: where two threads part, and how their texts and costs differ after that.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Entry, KnownCost, Usage};
use rondo_protocol::{Digest, Value};
use serde::Serialize;

use super::exit::Exit;
use super::failure::Failure;
use super::find_thread::{find_thread, find_thread_in};
use super::output::{Output, Style};
use super::{JsonArgs, StoreArgs};
use crate::author::thread_diff::{NotedStep, Pair, Parting, Side, pairs, parting};
use crate::conversation::rebuild::{self, Beginning};
use crate::resolved_roles;
use crate::store::Read;
use crate::views::lines::{EdgeLine, StepLine, ThreadLine, Totals, step_line, thread_line};

mod text;

use text::DiffText;

/// Show where two threads part, and how their steps and costs differ after that
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// A thread's id, the beginning of one, or `last`
    a: String,
    /// The thread to compare it with
    b: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "diff")]
struct DiffLine<'a> {
    a: &'a ThreadId,
    b: &'a ThreadId,
    common: Option<CommonLine>,
    workflow: Sides<WorkflowLine<'a>>,
    inputs: Vec<InputLine<'a>>,
}

/// The last common step, with its number in the first thread.
#[derive(Debug, Clone, Copy, Serialize)]
struct CommonLine {
    seq: u64,
    step: Digest,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Sides<T> {
    a: T,
    b: T,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct WorkflowLine<'a> {
    name: &'a str,
    workflow: Digest,
}

/// An input that differs; `None` where a thread has none of that name.
#[derive(Debug, Serialize)]
struct InputLine<'a> {
    name: &'a str,
    a: Option<&'a Value>,
    b: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "diff_step")]
struct DiffStepLine<'a> {
    role: &'a RoleName,
    lane: &'a LanePath,
    visit: u64,
    a: Option<StepSide<'a>>,
    b: Option<StepSide<'a>>,
    /// What differs, if both have the step.
    changed: Vec<String>,
}

/// A step in one of the threads.
#[derive(Debug, Serialize)]
struct StepSide<'a> {
    seq: u64,
    step: Digest,
    edge: &'a EdgeLine,
    status: &'a str,
    output: &'a Value,
    answer: &'a str,
    usage: Option<Usage>,
    #[serde(flatten)]
    cost: KnownCost,
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "diff_totals")]
struct TotalsLine {
    a: KnownTotals,
    b: KnownTotals,
}

/// Totals of a thread; `None` for what was not counted.
#[derive(Debug, Clone, Copy, Serialize)]
struct KnownTotals {
    steps: u64,
    model_calls: u64,
    tool_calls: u64,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(flatten)]
    cost: KnownCost,
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
    fn side(&self) -> Side<'_> {
        Side { thread: &self.line.thread, seq: self.line.totals.steps }
    }

    fn step(&self, store: &dyn Read, step: NotedStep) -> Result<StepLine, Failure> {
        let (stored, note) = *step;
        let body = rebuild::body(&self.body_readers, &stored.step.role, &stored.step.answer);
        step_line(store, stored, note, body)
    }

    fn workflow(&self) -> WorkflowLine<'_> {
        WorkflowLine { name: &self.line.name, workflow: self.line.workflow }
    }
}

pub fn diff(args: &DiffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(args.store.view()?, &args.a)?;
    let store = view.store.as_ref();
    let (other, other_row) = find_thread(store, &args.b)?;
    let [a, b] = [(thread, row), (other, other_row)].map(|(thread, row)| {
        let beginning = rebuild::beginning(store, &row)?;
        // A definition of another version may have no body readers here; its steps can still be shown.
        let body_readers = resolved_roles::body_readers(&beginning.workflow).unwrap_or_default();
        Ok::<_, Failure>(Thread { line: thread_line(store, &view.driven, &thread, &row)?, beginning, body_readers })
    });
    let (a, b) = (a?, b?);
    let parting = parting(store, a.side(), b.side())?;
    let mut report = DiffText::new(Style::stdout());
    head(store, &a, &b, &parting, &mut report, output)?;
    let mut outcome = Ok(());
    pairs(store, a.side(), b.side(), &parting, &mut |pair| {
        outcome = tell(store, &a, &b, pair, &mut report, output);
        outcome.is_ok() && !output.is_closed()
    })?;
    outcome?;
    let totals = TotalsLine { a: KnownTotals::of(&a.line.totals), b: KnownTotals::of(&b.line.totals) };
    if output.is_json() {
        output.line(&totals)?;
    } else {
        output.write(report.end(&totals).as_bytes())?;
    }
    Ok(Exit::Done)
}

fn head(
    store: &dyn Read,
    a: &Thread,
    b: &Thread,
    parting: &Parting,
    report: &mut DiffText,
    output: &mut Output,
) -> Result<(), Failure> {
    let line = DiffLine {
        a: &a.line.thread,
        b: &b.line.thread,
        common: parting.common.map(|(seq, step)| CommonLine { seq, step }),
        workflow: Sides { a: a.workflow(), b: b.workflow() },
        inputs: changed_inputs(&a.beginning.start.input, &b.beginning.start.input),
    };
    if output.is_json() {
        return output.line(&line);
    }
    let last = match parting.common {
        Some((seq, _)) => store.step(&a.line.thread, seq)?.map(|(stored, _)| stored),
        None => None,
    };
    output.write(report.head(&line, last.as_ref(), Sides { a: &a.line, b: &b.line }).as_bytes())
}

/// The members of two inputs that are not the same, in the order of their names.
fn changed_inputs<'a>(a: &'a Value, b: &'a Value) -> Vec<InputLine<'a>> {
    names(a, b)
        .into_iter()
        .map(|name| InputLine { name, a: a.get(name), b: b.get(name) })
        .filter(|line| line.a != line.b)
        .collect()
}

/// The names of the members of two objects.
fn names<'a>(a: &'a Value, b: &'a Value) -> BTreeSet<&'a str> {
    let members = |value: &'a Value| match value {
        Value::Object(members) => Some(members.keys().map(String::as_str)),
        _ => None,
    };
    members(a).into_iter().flatten().chain(members(b).into_iter().flatten()).collect()
}

fn tell(
    store: &dyn Read,
    a: &Thread,
    b: &Thread,
    pair: Pair,
    report: &mut DiffText,
    output: &mut Output,
) -> Result<(), Failure> {
    let (old, new) = match pair {
        Pair::A(step) => (Some(a.step(store, step)?), None),
        Pair::B(step) => (None, Some(b.step(store, step)?)),
        Pair::Both(old, new) => (Some(a.step(store, old)?), Some(b.step(store, new)?)),
    };
    let (old, new) = (old.as_ref(), new.as_ref());
    let Some(any) = old.or(new) else { return Ok(()) };
    let changed = old.zip(new).map(|(old, new)| changed(old, new)).unwrap_or_default();
    if !output.is_json() {
        return output.write(report.pair(old, new, &changed).as_bytes());
    }
    let (role, lane, visit) = (&any.role, &any.lane, any.visit);
    output.line(&DiffStepLine { role, lane, visit, a: old.map(step_side), b: new.map(step_side), changed })
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
fn tools_and_repairs(step: &StepLine) -> impl Iterator<Item = &Entry> {
    let entries = step.transcript.iter().flat_map(|transcript| &transcript.entries);
    entries.filter(|entry| !matches!(entry, Entry::Model { .. }))
}

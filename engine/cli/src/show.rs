use std::collections::BTreeMap;
use std::fmt::Write as _;

use rondo::core::conversation::rebuild;
use rondo::core::local::VisitInFlight;
use rondo::core::shown_call::{self, ShownCall};
use rondo::host::answering::answer_to;
use rondo::protocol::Value;
use rondo::protocol::id::LanePath;
use rondo::protocol::message::FileRef;
use rondo::protocol::object::{AnsweredBy, Entry, HookNote, KnownCost, Observation, ToolNote};
use rondo::store::{Row, Status};
use rondo::tell::{command, plural, word};
use rondo::views::form::FormLine;
use rondo::views::in_flight::visits;
use rondo::views::lines::{CompactionLine, RecordLine, StepLine, ThreadLine, thread_line_with, who};
use rondo::views::records::records;
use rondo::views::spending::Spending;

use super::find_thread::find_thread_in;
use super::follow::Follower;
use super::in_flight::{self, totals_text};
use super::named_command::{completed, hinted};
use super::spending::spending_text;
use super::step_filter::{FilterArgs, StepFilter};
use super::store_access::{StoreView, existing_store_at};
use super::thread_row::origin;
use super::{Exit, Failure, Output, PlaceArgs, json, some};

/// Show the steps of a thread
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct ShowArgs {
    /// A thread's id, a prefix of one, or `last`; followed by `:3` or `:2..5` only these steps
    #[arg(default_value = "last")]
    thread: String,
    #[command(flatten)]
    filter: FilterArgs,
    /// Keep printing new steps while another process drives the thread, until it has ended or stopped
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit, Failure> {
    let folder = args.store.copied()?.folder()?;
    let (word, wanted) = args.filter.of_word(&args.thread);
    let (view, thread, row) = find_thread_in(existing_store_at(&folder)?, word)?;
    let store = view.store.as_ref();
    let filter = wanted.read(&thread, &rebuild::beginning(store, &row)?.workflow)?;
    let follower = args.follow.then(|| Follower::new(folder, thread.clone())).transpose()?;
    let mut uncommitted = visits(store, &thread, &row)?;
    let line = thread_line_with((store, &view.driven), &thread, &row, &uncommitted)?;
    output.show(&line, || thread_text(&line))?;
    let next = *filter.seqs(store, &thread, row.seq, &|_| Ok(true))?.start();
    let (follower, hooks) = (follower.as_ref(), HookFigures::default());
    let mut shown = ShownSteps { filter, follower, next, has_any: false, hooks };
    shown.print(&view, &line, &row, output)?;
    // A reader keeps files of the store open that its holder may have replaced.
    drop(view);
    let (line, row) = match follower {
        Some(follower) => followed(follower, &mut shown, line, row, &mut uncommitted, output)?,
        None => (line, row),
    };
    if let Some(exit) = follower.and_then(Follower::exit) {
        return Ok(exit);
    }
    uncommitted.retain(|visit| shown.filter.wants_in_flight(visit));
    in_flight::show(uncommitted.iter(), output)?;
    shown.has_any |= !uncommitted.is_empty();
    if output.is_json() && line.status == Status::Waiting {
        for open in origin(&row).iter().flat_map(|origin| &origin.forms) {
            output.line(&FormLine::new(&line.thread, open))?;
        }
    }
    if !shown.has_any && !wanted.is_empty() {
        output.aside("\nno step is like that\n")?;
    }
    output.aside(&ending_text(&line, &row))?;
    // The figures are those of the thread, so they are shown only with all of its steps.
    if wanted.is_empty() {
        output.aside(&shown.hooks.text())?;
    }
    Ok(Exit::Done)
}

/// Prints what is committed until the thread has ended or stopped, and each change of its status. Returns the thread
/// as it stands then, and keeps in `uncommitted` what its last look found.
fn followed(
    follower: &Follower,
    shown: &mut ShownSteps<'_>,
    mut line: ThreadLine,
    mut row: Row,
    uncommitted: &mut Vec<VisitInFlight>,
    output: &mut Output,
) -> Result<(ThreadLine, Row), Failure> {
    if line.status == Status::Waiting {
        output.aside(&ending_text(&line, &row))?;
    }
    let (mut told, mut is_over) = (line.status, is_ended(row.status));
    while !is_over && !output.is_closed() {
        let Some((view, newer)) = follower.next()? else { break };
        *uncommitted = visits(view.store.as_ref(), &line.thread, &newer)?;
        line = thread_line_with((view.store.as_ref(), &view.driven), &line.thread, &newer, uncommitted)?;
        shown.print(&view, &line, &newer, output)?;
        let is_unchanged = newer.version == row.version;
        if line.status == Status::Stopped && !is_unchanged && !is_ended(newer.status) {
            // A run that began and ended during this look is not among the driven threads, though it may not have been
            // killed: the next look tells.
            line.status = Status::Running;
        }
        is_over = is_ended(line.status);
        // Between two looks a form can be answered and another one opened.
        if line.status != told || line.status == Status::Waiting && !is_unchanged {
            output.show(&line, || match line.status {
                Status::Running => String::new(),
                Status::Waiting => ending_text(&line, &newer),
                _ => format!("\n{}", thread_text(&line)),
            })?;
        }
        (told, row) = (line.status, newer);
    }
    Ok((line, row))
}

/// Whether nothing follows without `rondo resume`. A person may answer, so a waiting thread is not at its end.
fn is_ended(status: Status) -> bool {
    !matches!(status, Status::Running | Status::Waiting)
}

struct ShownSteps<'a> {
    filter: StepFilter,
    follower: Option<&'a Follower>,
    /// The number of the first step that has not been looked at.
    next: u64,
    has_any: bool,
    hooks: HookFigures,
}

impl ShownSteps<'_> {
    fn print(&mut self, view: &StoreView, line: &ThreadLine, row: &Row, output: &mut Output) -> Result<(), Failure> {
        let Self { filter, follower, next, has_any, hooks } = self;
        let seqs = *next..=row.seq;
        *next = row.seq.saturating_add(1).max(*next);
        records(view.store.as_ref(), (&line.thread, row), seqs, &|stored| filter.wants(stored), &mut |record| {
            *has_any = true;
            let note = match &record {
                RecordLine::Step(step) => Some(&step.note),
                RecordLine::Compaction(compaction) => Some(&compaction.note),
                RecordLine::Rebind(_) => None,
            };
            note.into_iter().flat_map(|note| &note.hooks).for_each(|note| hooks.add(note));
            output.show(&record, || record_text(&record))?;
            Ok(!output.is_closed() && follower.is_none_or(|follower| follower.exit().is_none()))
        })
    }
}

/// How many lanes of a join are listed; `--json` has them all.
const SHOWN_LANES: usize = 8;

/// Hook metrics that measure a current amount instead of counting events.
const GAUGES: [&str; 2] = ["bytes", "entries"];

#[derive(Debug, Default)]
pub(super) struct HookFigures {
    by_node: BTreeMap<String, OfNode>,
}

#[derive(Debug, Default)]
struct OfNode {
    answered: u64,
    saved: KnownCost,
    saved_tokens: u64,
    /// The numbers among the node's own metrics, by name.
    metrics: BTreeMap<String, i128>,
}

impl HookFigures {
    pub(super) fn add(&mut self, note: &HookNote) {
        let of_node = self.by_node.entry(note.node.clone()).or_default();
        for answer in &note.answered {
            of_node.answered += 1;
            of_node.saved += answer.saved_cost();
            let saved = answer.saved.unwrap_or_default();
            of_node.saved_tokens += saved.prompt_tokens.saturating_add(saved.output_tokens);
        }
        let Value::Object(metrics) = &note.metrics else { return };
        for (name, value) in metrics {
            if let Value::Int(number) = value {
                let sum = of_node.metrics.entry(name.clone()).or_default();
                // A current amount is not summed.
                *sum = if GAUGES.contains(&name.as_str()) { *number } else { sum.saturating_add(*number) };
            }
        }
    }

    /// A line for each node with activity: `NODE: answered 4 calls, saved $0.0120; hits 4, lookups 4`.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (node, of_node) in &self.by_node {
            let mut said = Vec::new();
            if of_node.answered > 0 {
                let mut answered = format!("answered {}", plural(of_node.answered, "call"));
                if of_node.saved.usd().is_some_and(|usd| usd > 0.0) {
                    let _ = write!(answered, ", saved {}", of_node.saved);
                }
                if of_node.saved_tokens > 0 {
                    let _ = write!(answered, ", {} tokens", of_node.saved_tokens);
                }
                said.push(answered);
            }
            let metrics = of_node.metrics.iter().filter(|(_, number)| **number != 0);
            let metrics: Vec<String> = metrics.map(|(name, number)| format!("{name} {number}")).collect();
            if !metrics.is_empty() {
                said.push(metrics.join(", "));
            }
            if !said.is_empty() {
                let _ = writeln!(text, "\n{node}: {}", said.join("; "));
            }
        }
        text
    }
}

fn record_text(line: &RecordLine) -> String {
    match line {
        RecordLine::Step(step) => step_text(step),
        RecordLine::Rebind(rebind) => {
            format!("\n{:>3}. the thread continues under another definition\n", rebind.seq)
        }
        RecordLine::Compaction(compaction) => {
            let CompactionLine { seq, role, lane, text, through_visit, note, .. } = &**compaction;
            let (who, spent) = (who(role, lane), spending_text(&Spending::from(note)));
            let head = format!("\n{seq:>3}. history of {who} up to visit {through_visit} put into one text{spent}\n");
            let indented = |line: &str| format!("       {line}\n");
            head + &text.lines().map(indented).collect::<String>()
        }
    }
}

pub(super) fn thread_text(line: &ThreadLine) -> String {
    let ThreadLine { thread, name, tags, totals, .. } = line;
    let label = line.label.as_ref().map_or_else(String::new, |label| format!("  {label}"));
    let tags = if tags.is_empty() { String::new() } else { format!("  ({})", tags.join(", ")) };
    let (status, steps, spent) =
        (word(&line.status), plural(totals.steps, "step"), spending_text(&Spending::from(totals)));
    let mut text = format!("{thread}  {name}  {status}{label}{tags}  {steps}{spent}\n");
    if let Some(in_flight) = &line.in_flight {
        let _ = writeln!(text, "  not committed: {}", totals_text(in_flight));
    }
    if line.imported {
        text.push_str("  imported: its steps are consistent, and nothing shows who made them\n");
    }
    if let Some(head) = line.head {
        let _ = writeln!(text, "head {head}");
    }
    text
}

pub(super) fn step_text(step: &StepLine) -> String {
    let StepLine { seq, visit, status, note, .. } = step;
    let (who_made, spent) = (who(&step.role, &step.lane), spending_text(&Spending::from(note)));
    let took = seconds(note.ended_at_ms.saturating_sub(note.started_at_ms));
    let by = note.answered_by.as_ref().map_or_else(String::new, by);
    let person = note.person.as_ref().map_or_else(String::new, |person| format!("  by {person}"));
    let client = note.client.as_ref().map_or_else(String::new, |of| format!(" {of}, which is no person"));
    let mut text = format!("\n{seq:>3}. {who_made}, visit {visit}: {status}{spent}  {took}{by}{person}{client}\n");
    if let Some(child) = &step.child {
        let _ = writeln!(text, "     thread {child}");
    }
    step.observations.iter().for_each(|observation| lanes_text(&mut text, observation));
    for lost in &note.cancelled {
        let (who, spent) = (who(&lost.role, &lost.lane), spending_text(&Spending::from(lost)));
        if !spent.is_empty() {
            let _ = writeln!(text, "     {who} had used{spent}");
        }
        if let Some(tool) = &lost.effect_unknown {
            let _ = writeln!(text, "     {who}: whether {tool} had its effect is not known");
        }
    }
    let by_status = step.edge.status.as_ref().map_or_else(String::new, |status| format!(" {status}"));
    block(&mut text, &format!("{}{by_status} >", step.edge.from), &step.edge.prompt);
    files_text(&mut text, &step.edge.files);
    let mut notes = note.tools.iter();
    for entry in step.transcript.iter().flat_map(|transcript| &transcript.entries) {
        match entry {
            Entry::Tool { name, arguments, text: result, failed, files, .. } => {
                let mark = if *failed { ", failed" } else { "" };
                let call = notes.next().map(call_text).unwrap_or_default();
                // A tool role's result is its answer, which is shown below.
                let result = if *result == step.body { "" } else { &beginning(result) };
                let words = format!("{}\n{result}", shown_call::arguments(arguments));
                block(&mut text, &format!("tool {name}{mark}{call} >"), &words);
                files_text(&mut text, files);
            }
            Entry::Repair { text: words } => block(&mut text, "repair >", words),
            Entry::Model { .. } => {}
        }
    }
    if let Value::Object(fields) = &step.output {
        for (name, value) in fields {
            let shown = value.as_str().map_or_else(|| value.to_text(), str::to_owned);
            block(&mut text, &format!("{name} ="), &shown);
        }
    }
    block(&mut text, "", &step.body);
    text
}

/// The lanes that a join ends; lanes of the same fan-out are grouped.
fn lanes_text(text: &mut String, observation: &Observation) {
    let Observation::Join { arrived, cancelled } = observation else { return };
    for (how, lanes) in [("joins", arrived), ("cancelled", cancelled)] {
        if lanes.is_empty() {
            continue;
        }
        let _ = writeln!(text, "     {how} {}", some(lanes.iter().map(LanePath::as_str), SHOWN_LANES));
    }
}

fn files_text(text: &mut String, files: &[FileRef]) {
    for file in files {
        let _ = writeln!(text, "     with {file} {}", file.digest);
    }
}

/// The details of a tool call: `, external, 512 bytes, 1.2s`.
fn call_text(note: &ToolNote) -> String {
    let by = match &note.answered_by {
        AnsweredBy::Port | AnsweredBy::Person => String::new(),
        AnsweredBy::Loop => return ", not called".to_owned(),
        by => format!(", by {}", by.as_str()),
    };
    format!(", {}, {} bytes, {}{by}", note.effect, note.bytes, seconds(note.duration_ms))
}

/// How many lines of a tool's result are shown; `--json` has them all.
const RESULT_LINES: usize = 12;

pub(super) fn beginning(result: &str) -> String {
    let lines = result.lines().count();
    if lines <= RESULT_LINES + 1 {
        return result.to_owned();
    }
    let shown: Vec<&str> = result.lines().take(RESULT_LINES).collect();
    format!("{}\n[{} more lines; --json shows them]", shown.join("\n"), lines - RESULT_LINES)
}

/// Writes indented text under a label; nothing if the text is empty.
pub(super) fn block(text: &mut String, mark: &str, words: &str) {
    let words = words.trim_end();
    if words.is_empty() {
        return;
    }
    let mut lines = words.lines();
    if !mark.is_empty() {
        let first = if words.contains('\n') { None } else { lines.next() };
        let _ = writeln!(text, "     {}", format!("{mark} {}", first.unwrap_or_default()).trim_end());
    }
    for line in lines {
        let _ = writeln!(text, "{}", format!("       {line}").trim_end());
    }
}

pub(super) fn ending_text(line: &ThreadLine, row: &Row) -> String {
    let mut text = String::new();
    for raised in &row.raised {
        let old = raised.old.as_deref().unwrap_or("none");
        let _ = writeln!(text, "\nlimit {} raised from {old} to {}", raised.key, raised.new);
    }
    let Some(origin) = origin(row) else { return text };
    if let Some(ending) = origin.ending {
        // The reason of a cancel is that one word.
        let status = word(&line.status);
        if let Some(reason) = ending.reason.filter(|reason| *reason != status) {
            let _ = writeln!(text, "\n{status}: {reason}");
        }
        if !ending.result.is_null() {
            let _ = write!(text, "\n{}", pretty(&ending.result));
        }
    } else if let Some(stop) = origin.stop {
        let _ = writeln!(text, "\nstopped: {}: {}", stop.code, stop.message);
        if let Some(hint) = stop.hint {
            let _ = writeln!(text, "  {}", hinted(&hint));
        }
    } else if line.status == Status::Waiting {
        for open in &origin.forms {
            let who = who(&open.visit.role, &open.visit.lane);
            let _ = writeln!(text, "\n{who}, visit {}, waits for a person:", open.visit.visit);
            let prompt = open.form.get("prompt").and_then(Value::as_str).unwrap_or_default().to_owned();
            block(&mut text, "", &ShownCall::of_form(&open.form).map_or(prompt, |call| call.question()));
            let how = if open.is_approval() { " or `--refuse`" } else { "" };
            let answer = format!("`{}`", command(&answer_to(&line.thread, open)));
            let _ = writeln!(text, "  {}{how} answers", completed(&answer));
        }
    }
    text
}

pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).map_or_else(|_| value.to_text(), |text| text + "\n")
}

/// What answered in place of a provider or a tool, after two blanks; else empty.
pub(super) fn by(answered_by: &AnsweredBy) -> String {
    match answered_by {
        AnsweredBy::Port | AnsweredBy::Person => String::new(),
        by => format!("  by {}", by.as_str()),
    }
}

pub(super) fn seconds(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds}ms"),
        1_000..60_000 => format!("{}.{}s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        _ => format!("{}m{:02}s", milliseconds / 60_000, milliseconds % 60_000 / 1_000),
    }
}

//! The state of a run, according to its events so far.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::spending::spending_text;

use rondo::agent_kit::answer::StreamedAnswer;
use rondo::core::hook::WARNING;
use rondo::protocol::Value;
use rondo::protocol::event::{EpochOpened, Event, LaneEnd, Outcome, Visit, What};
use rondo::protocol::id::{LanePath, ThreadId};
use rondo::protocol::object::{AnsweredBy, Dollars, Usage};
use rondo::tell::{plural, printable, word};
use rondo::views::lines::who as who_in;
use rondo::views::spending::Spending;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::super::named_command::{completed, hinted};
use super::super::show::{by, seconds};
use super::line::{Line, Tone};

/// How much of an answer in progress is kept for a live line, and of a provider's or a contract's words is shown.
const MAX_TAIL_BYTES: usize = 1024;
const MAX_REASON_CHARS: usize = 200;

/// The longest line that is held back until its end when texts are shown in full.
const MAX_HELD_BYTES: usize = 4096;

/// Columns of a live line besides its text: the spinner, the time and the blanks between.
const MARGIN: usize = 9;

#[derive(Debug, Default)]
pub struct ProgressState {
    is_verbose: bool,
    threads: BTreeMap<ThreadId, RunState>,
}

/// A lane with a role that is answering. The lanes of a thread are in their declared order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActiveLane {
    thread: ThreadId,
    place: Vec<u32>,
    /// One role at a time answers in a lane.
    pub lane: LanePath,
}

#[derive(Debug, Default)]
struct RunState {
    last_shown: Option<Visit>,
    begun_ms: u64,
    visits: BTreeMap<LanePath, ActiveVisit>,
    spent: Spending,
    /// By node: calls it answered, and what they had cost in US dollars.
    hooks: BTreeMap<String, (u64, f64)>,
}

/// A line that changes while a role answers: the role, then the time, then its latest words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLine {
    pub who: String,
    pub words: String,
}

#[derive(Debug)]
struct ActiveVisit {
    visit: Visit,
    begun_ms: u64,
    answer: StreamedAnswer,
    /// The end of the words written so far.
    tail: String,
    /// Of an answer shown in full: whether it has begun, and the line that has no end yet.
    is_begun: bool,
    unfinished: String,
    /// By id: tool calls under way, each with a preview of its arguments.
    calls: BTreeMap<String, String>,
    refused: u32,
    spent: Spending,
    /// The hook that answered the last model call.
    hook: Option<String>,
}

impl ProgressState {
    pub fn new(is_verbose: bool) -> Self {
        Self { is_verbose, ..Self::default() }
    }

    /// Applies an event; returns the lines to print for it.
    pub fn event(&mut self, event: &Event) -> Vec<Line> {
        let run = self.threads.entry(event.thread.clone()).or_default();
        let mut lines = run.answer_lines(event, self.is_verbose);
        lines.extend(run.event(event));
        if matches!(event.what, What::ThreadFinished { .. } | What::Error { .. }) {
            self.threads.remove(&event.thread);
        }
        // What happens in a child thread is indented under its parent.
        let indent = if event.parent.is_some() { "    " } else { "" };
        lines.into_iter().map(|line| line.after(indent).and(Tone::Plain, "\n")).collect()
    }

    /// What each lane writes, one line of `width` columns each: at most `most`, first those for which `has_line`
    /// returns true. Then the number of others, and their lanes.
    pub fn live(
        &self,
        width: usize,
        most: usize,
        has_line: impl Fn(&ActiveLane) -> bool,
    ) -> (BTreeMap<ActiveLane, LiveLine>, Option<String>) {
        let all = self.threads.iter().flat_map(|(thread, run)| {
            run.visits.iter().map(|(lane, active)| {
                let place = lane.parts().map(|(_, index)| index).collect();
                (ActiveLane { thread: thread.clone(), place, lane: lane.clone() }, active)
            })
        });
        let mut all: Vec<(ActiveLane, &ActiveVisit)> = all.collect();
        all.sort_by(|(a, _), (b, _)| (!has_line(a), a).cmp(&(!has_line(b), b)));
        let (shown, more) = all.split_at_checked(most).unwrap_or((&all, &[]));
        let line = |(lane, active): &(ActiveLane, &ActiveVisit)| (lane.clone(), active.line(width));
        let names: Vec<String> = more.iter().map(|(_, active)| who(&active.visit)).collect();
        let more = beginning(&format!("and {} more: {}", names.len(), names.join(", ")), width);
        (shown.iter().map(line).collect(), (!names.is_empty()).then_some(more))
    }
}

/// The beginning of a line that takes at most `columns`.
fn beginning(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut fits = room(columns.saturating_sub(1));
    line.chars().take_while(|c| fits(*c)).chain(['…']).collect()
}

/// The end of a line that takes at most `columns`.
fn end(line: &str, columns: usize) -> &str {
    let mut fits = room(columns);
    let at = line.char_indices().rev().take_while(|(_, c)| fits(*c)).last().map_or(line.len(), |(at, _)| at);
    line.get(at..).unwrap_or_default()
}

/// Whether a further character fits into so many columns.
fn room(mut columns: usize) -> impl FnMut(char) -> bool {
    move |c| {
        let left = columns.checked_sub(c.width().unwrap_or(0));
        columns = left.unwrap_or(0);
        left.is_some()
    }
}

/// The beginning of somebody's words, on one line.
fn reason(words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REASON_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

impl ActiveVisit {
    fn new(visit: &Visit, begun_ms: u64) -> Self {
        Self {
            visit: visit.clone(),
            begun_ms,
            answer: StreamedAnswer::default(),
            tail: String::new(),
            is_begun: false,
            unfinished: String::new(),
            calls: BTreeMap::new(),
            refused: 0,
            spent: Spending::default(),
            hook: None,
        }
    }

    fn push(&mut self, part: &str) {
        let words = self.answer.push(part);
        self.tail.push_str(&words);
        let excess = self.tail.len().saturating_sub(MAX_TAIL_BYTES);
        self.tail.drain(..self.tail.ceil_char_boundary(excess));
        self.unfinished.push_str(&words);
    }

    /// Forgets an answer, which is complete or was lost.
    fn clear_answer(&mut self) {
        self.answer = StreamedAnswer::default();
        self.tail.clear();
    }

    /// The role and its visit, and the figures so far with the tool calls under way or the end of the words in progress.
    fn line(&self, width: usize) -> LiveLine {
        // A name leaves room for what is said.
        let who = beginning(&format!("{}, visit {}", who(&self.visit), self.visit.visit), width / 2);
        let usage = self.spent.usage.filter(|usage| *usage != Usage::default());
        let figures = [
            usage.map(|usage| format!("{} in, {} out  ", usage.prompt_tokens, usage.output_tokens)),
            self.spent.cost.usd().map(|_| format!("{}  ", self.spent.cost)),
            (self.refused > 0).then(|| format!("{} refused  ", plural(self.refused.into(), "answer"))),
        ];
        let mut words: String = figures.into_iter().flatten().collect();
        let room = width.saturating_sub(MARGIN + who.width());
        if self.calls.is_empty() {
            let flat = self.tail.split_whitespace().collect::<Vec<_>>().join(" ");
            let flat = printable(&flat);
            words.push_str(end(&flat, room.saturating_sub(words.width())));
        } else {
            words.push_str(&printable(&self.calls.values().map(String::as_str).collect::<Vec<_>>().join("; ")));
        }
        LiveLine { who, words: beginning(words.trim_end(), room) }
    }
}

impl RunState {
    /// Takes in the part of an answer that an event has. Returns the complete lines, if answers are shown in full,
    /// those of each lane under its name.
    fn answer_lines(&mut self, event: &Event, is_verbose: bool) -> Vec<Line> {
        let (visit, is_end) = match &event.what {
            What::ModelDelta { visit, .. } => (visit, false),
            What::CallSettled { visit, .. } | What::CallRetried { visit, .. } => (visit, true),
            _ => return Vec::new(),
        };
        let is_other = self.last_shown.as_ref() != Some(visit);
        let Some(active) = self.visits.get_mut(&visit.lane) else { return Vec::new() };
        // The part itself is taken in here, so that its lines stand before what follows.
        if let What::ModelDelta { text, .. } = &event.what {
            active.push(text);
        }
        if !is_verbose {
            active.unfinished.clear();
            return Vec::new();
        }
        let length = active.unfinished.len();
        let until = match active.unfinished.rfind('\n') {
            _ if is_end => length,
            Some(at) => at + 1,
            None if length > MAX_HELD_BYTES => length,
            None => 0,
        };
        let text: String = active.unfinished.drain(..until).collect();
        if text.trim().is_empty() {
            return Vec::new();
        }
        let head = (is_other || !active.is_begun)
            .then(|| of_visit(visit, Tone::Faint, format!(", visit {}, writes", visit.visit)));
        active.is_begun = !is_end;
        self.last_shown = Some(visit.clone());
        let lines = text.trim_end_matches('\n').split('\n').map(|line| Line::of(format!("       {line}")));
        head.into_iter().chain(lines).collect()
    }

    fn event(&mut self, event: &Event) -> Option<Line> {
        if self.begun_ms == 0 {
            self.begun_ms = event.at_ms;
        }
        match &event.what {
            What::ThreadStarted { .. } => Some(Line::faint(format!("thread {}", event.thread))),
            What::ThreadResumed { seq } => {
                Some(Line::of(format!("thread {} continues after step {seq}", event.thread)))
            }
            What::StepStarted { visit } => {
                self.visits.insert(visit.lane.clone(), ActiveVisit::new(visit, event.at_ms));
                None
            }
            What::ModelDelta { .. } => None,
            What::CallRetried { visit, model, message, wait_ms, .. } => {
                if let Some(active) = self.visits.get_mut(&visit.lane) {
                    active.clear_answer();
                }
                let when = if *wait_ms == 0 { "now".to_owned() } else { format!("in {}", seconds(*wait_ms)) };
                let told = format!(": {model}: {}; again {when}", reason(message));
                Some(of_visit(visit, Tone::Warning, told))
            }
            What::ToolStarted { visit, tool, call, argument_preview, .. } => {
                let active = self.visits.get_mut(&visit.lane)?;
                active.clear_answer();
                let blank = if argument_preview.is_empty() { "" } else { " " };
                active.calls.insert(call.clone(), format!("{tool}{blank}{argument_preview}"));
                None
            }
            What::ToolFinished { .. } => self.tool_finished(&event.what),
            What::CallSettled { .. } => self.call_settled(&event.what),
            What::StepCommitted { role, lane, seq, status, .. } => {
                Some(self.committed(event.at_ms, *seq, lane, who_in(role, lane), format!(": {status}")))
            }
            What::EpochOpened(EpochOpened { role, lane: Some(lane), seq, .. }) => {
                let who = lane.role_in_lane(role.as_ref()?);
                Some(self.committed(event.at_ms, *seq, lane, who, ": history compacted".to_owned()))
            }
            What::EpochOpened(EpochOpened { seq, .. }) => Some(Line::of(format!("{seq:>3}. the workflow was changed"))),
            What::Said { text, .. } => Some(Line::of(format!("     {text}"))),
            What::ThreadWaiting { visit, .. } => {
                let told = format!(" waits for a person: `rondo answer {}`", event.thread);
                Some(of_visit(visit, Tone::Warning, completed(&told)))
            }
            What::EdgeTaken { visit, to, .. } => {
                let opened = to.iter().filter(|target| target.lane != visit.lane).count();
                (opened > 1).then(|| Line::faint(format!("     {opened} lanes")))
            }
            What::LaneEnded { visit, how } => Some(Line::faint(self.lane_ended(&visit.lane, *how))),
            What::ThreadFinished { outcome, reason, .. } => {
                Some(self.finished(*outcome, reason.as_deref(), event.at_ms))
            }
            What::Error { code, message, hint, .. } => {
                let hint = hint.as_ref().map_or_else(String::new, |hint| format!("\n  {}", hinted(hint)));
                let told = format!(": {code}: {message}{hint}");
                Some(Line::default().and(Tone::Bad, "stopped").and(Tone::Plain, told))
            }
            What::HookAnswered { visit, node, saved_usd, .. } => {
                let of_node = self.hooks.entry(node.clone()).or_default();
                of_node.0 += 1;
                of_node.1 += saved_usd.unwrap_or_default();
                if let Some(active) = self.visits.get_mut(&visit.lane) {
                    active.hook = Some(node.clone());
                }
                None
            }
            What::HookReport { visit, node, metrics } => {
                let warning = metrics.get(WARNING).and_then(Value::as_str)?;
                Some(of_visit(visit, Tone::Warning, format!(": {node}: {warning}")))
            }
        }
    }

    /// Says what was committed in a lane, and what its visit used.
    fn committed(&mut self, at_ms: u64, seq: u64, lane: &LanePath, who: String, what: String) -> Line {
        let ended = self.visits.remove(lane);
        let spent = ended.as_ref().map(|ended| ended.spent).unwrap_or_default();
        let took = seconds(ended.as_ref().map_or(0, |ended| at_ms.saturating_sub(ended.begun_ms)));
        let by = ended.and_then(|ended| ended.hook).map_or_else(String::new, |node| format!("  by {node}"));
        let told = Line::faint(format!("{seq:>3}. ")).and(Tone::Name, who).and(Tone::Plain, what);
        told.and(Tone::Faint, format!("{}  {took}{by}", spending_text(&spent)))
    }

    fn tool_finished(&mut self, what: &What) -> Option<Line> {
        let What::ToolFinished { visit, tool, call, duration_ms, failed, answered_by, .. } = what else { return None };
        let told = self.visits.get_mut(&visit.lane).and_then(|active| {
            // The hook answered this call, which is reported here.
            active.hook = None;
            active.calls.remove(call)
        });
        let told = told.unwrap_or_else(|| tool.clone());
        let line = of_visit(visit, Tone::Plain, format!(": {told}"));
        let line = if *failed { line.and(Tone::Warning, "  failed") } else { line };
        Some(line.and(Tone::Faint, format!("  {}{}", seconds(*duration_ms), by(answered_by))))
    }

    /// Counts an answer; tells of one that was refused, which was paid for like any other.
    fn call_settled(&mut self, what: &What) -> Option<Line> {
        let What::CallSettled { visit, usage, cost_usd, answered_by, refused, .. } = what else { return None };
        let spent = Spending::of_call(*usage, *cost_usd);
        self.spent += spent;
        let active = self.visits.get_mut(&visit.lane)?;
        if *answered_by == AnsweredBy::Port {
            active.hook = None;
        }
        active.clear_answer();
        active.spent += spent;
        let told = format!(": answer refused: {}", reason(refused.as_ref()?));
        active.refused = active.refused.saturating_add(1);
        Some(of_visit(visit, Tone::Warning, told).and(Tone::Faint, spending_text(&spent)))
    }

    /// Removes a lane that has ended, and the lanes within it.
    fn lane_ended(&mut self, lane: &LanePath, how: LaneEnd) -> String {
        let within = format!("{lane}/");
        self.visits.retain(|other, _| other != lane && !other.as_str().starts_with(&within));
        format!("     lane {lane} {}", word(&how))
    }

    fn finished(&self, outcome: Outcome, reason: Option<&str>, at_ms: u64) -> Line {
        let tone = if outcome == Outcome::Done { Tone::Good } else { Tone::Bad };
        let reason = reason.filter(|reason| *reason != outcome.name());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let took = seconds(at_ms.saturating_sub(self.begun_ms));
        let mut figures = format!("{}  {took}", spending_text(&self.spent));
        for (node, (calls, saved_usd)) in &self.hooks {
            let _ = write!(figures, "\n     {node} answered {}", plural(*calls, "call"));
            if *saved_usd > 0.0 {
                let _ = write!(figures, ", {} saved", Dollars(*saved_usd));
            }
        }
        Line::default().and(tone, outcome.name()).and(Tone::Plain, reason).and(Tone::Faint, figures)
    }
}

fn of_visit(visit: &Visit, tone: Tone, told: impl Into<String>) -> Line {
    Line::of("     ").and(Tone::Name, who(visit)).and(tone, told)
}

fn who(visit: &Visit) -> String {
    who_in(&visit.role, &visit.lane)
}

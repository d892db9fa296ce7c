//! The state of a run, according to its events so far.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::spending::spending_text;

use rondo::agent_kit::answer::StreamedAnswer;
use rondo::core::local::WARNING;
use rondo::protocol::Value;
use rondo::protocol::event::{EpochOpened, Event, LaneEnd, Outcome, Visit, What};
use rondo::protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo::protocol::object::{AnsweredBy, Dollars, Usage};
use rondo::tell::{plural, printable, word};
use rondo::views::lines::who as who_in;
use rondo::views::spending::Spending;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::super::named_command::{completed, hinted};
use super::super::show::{by, seconds};
use super::line::{Line, Tone};

/// How many bytes of an answer in progress are kept for a live line.
const MAX_TAIL_BYTES: usize = 1024;

/// How many characters of a provider's or a contract's words are shown.
const MAX_REASON_CHARS: usize = 200;

/// The longest line that is held back until its end when texts are shown in full.
const MAX_HELD_BYTES: usize = 4096;

/// Columns of a live line besides its text: the spinner, the time and the blanks between.
const MARGIN: usize = 9;

/// The state of running threads, built from their events.
#[derive(Debug, Default)]
pub struct ProgressState {
    /// Whether answers are shown in full.
    is_verbose: bool,
    threads: BTreeMap<ThreadId, RunState>,
}

/// A role that is answering. The speakers of a thread are in the declared order of their lanes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speaker {
    thread: ThreadId,
    place: Vec<u32>,
    /// Its lane; one role at a time answers in a lane.
    pub lane: LanePath,
}

#[derive(Debug, Default)]
struct RunState {
    /// Whether answers are shown in full.
    is_verbose: bool,
    /// Who was last shown to write.
    voice: Option<Visit>,
    begun_ms: u64,
    speaking: BTreeMap<LanePath, ActiveVisit>,
    spent: Spending,
    /// By node: calls it answered, and what they had cost in US dollars.
    hooks: BTreeMap<String, (u64, f64)>,
}

/// A live line: who speaks, and what; the time stands between them.
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
    has_spoken: bool,
    unfinished: String,
    /// By id: tool calls under way, each with a preview of its arguments.
    calls: BTreeMap<String, String>,
    /// How many answers were refused.
    refused: u32,
    spent: Spending,
    /// The hook that answered the last model call.
    hook: Option<String>,
}

impl ProgressState {
    /// An empty state. With `is_verbose` answers are shown in full.
    pub fn new(is_verbose: bool) -> Self {
        Self { is_verbose, ..Self::default() }
    }

    /// Applies an event; returns the lines to print for it.
    pub fn event(&mut self, event: &Event) -> Vec<Line> {
        let going = self.threads.entry(event.thread.clone()).or_default();
        going.is_verbose = self.is_verbose;
        let mut lines = if self.is_verbose { going.spoken(event) } else { Vec::new() };
        lines.extend(going.event(event));
        if matches!(event.what, What::ThreadFinished { .. } | What::Error { .. }) {
            self.threads.remove(&event.thread);
        }
        // What happens in a child thread is indented under its parent.
        let indent = if event.parent.is_some() { "    " } else { "" };
        lines.into_iter().map(|line| line.after(indent).and(Tone::Plain, "\n")).collect()
    }

    /// What each speaker is saying, one line of `width` columns each: at most `most`, first those for which `has_line`
    /// returns true. Then the number of others, and their lanes.
    pub fn live(
        &self,
        width: usize,
        most: usize,
        has_line: impl Fn(&Speaker) -> bool,
    ) -> (BTreeMap<Speaker, LiveLine>, Option<String>) {
        let all = self.threads.iter().flat_map(|(thread, going)| {
            going.speaking.iter().map(|(lane, speaking)| {
                let place = lane.parts().map(|(_, index)| index).collect();
                (Speaker { thread: thread.clone(), place, lane: lane.clone() }, speaking)
            })
        });
        let mut all: Vec<(Speaker, &ActiveVisit)> = all.collect();
        all.sort_by(|(a, _), (b, _)| (!has_line(a), a).cmp(&(!has_line(b), b)));
        let (shown, more) = all.split_at_checked(most).unwrap_or((&all, &[]));
        let line = |(speaker, speaking): &(Speaker, &ActiveVisit)| (speaker.clone(), speaking.line(width));
        let names: Vec<String> = more.iter().map(|(_, speaking)| who(&speaking.visit)).collect();
        let more = beginning(&format!("and {} more: {}", names.len(), names.join(", ")), width);
        (shown.iter().map(line).collect(), (!names.is_empty()).then_some(more))
    }
}

/// The beginning of a line that takes at most `columns`.
fn beginning(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let wide = c.width().unwrap_or(0);
        let is_room = wide <= left;
        left = left.saturating_sub(wide);
        is_room
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

/// The end of a line that takes at most `columns`.
fn end(line: &str, columns: usize) -> &str {
    let mut left = columns;
    let fits = |(_, c): &(usize, char)| {
        let wide = c.width().unwrap_or(0);
        let is_room = wide <= left;
        left = left.saturating_sub(wide);
        is_room
    };
    let at = line.char_indices().rev().take_while(fits).last().map_or(line.len(), |(at, _)| at);
    line.get(at..).unwrap_or_default()
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
            has_spoken: false,
            unfinished: String::new(),
            calls: BTreeMap::new(),
            refused: 0,
            spent: Spending::default(),
            hook: None,
        }
    }

    /// Takes in a part of an answer.
    fn hears(&mut self, part: &str) {
        let words = self.answer.push(part);
        self.tail.push_str(&words);
        let excess = self.tail.len().saturating_sub(MAX_TAIL_BYTES);
        self.tail.drain(..self.tail.ceil_char_boundary(excess));
        self.unfinished.push_str(&words);
    }

    /// Forgets an answer, which is complete or was lost.
    fn is_silent(&mut self) {
        self.answer = StreamedAnswer::default();
        self.tail.clear();
    }

    /// Who speaks, and the figures so far with the tool calls under way or the end of the words in progress.
    fn line(&self, width: usize) -> LiveLine {
        // A name leaves room for what is said.
        let who = beginning(&format!("{}, visit {}", who(&self.visit), self.visit.visit), width / 2);
        let mut words = String::new();
        if let Some(usage) = self.spent.usage.filter(|usage| *usage != Usage::default()) {
            let _ = write!(words, "{} in, {} out  ", usage.prompt_tokens, usage.output_tokens);
        }
        if self.spent.cost.usd().is_some() {
            let _ = write!(words, "{}  ", self.spent.cost);
        }
        if self.refused > 0 {
            let _ = write!(words, "{} refused  ", plural(u64::from(self.refused), "answer"));
        }
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
    /// The complete lines of answers that an event adds to, each speaker's under its name.
    fn spoken(&mut self, event: &Event) -> Vec<Line> {
        let (visit, is_end) = match &event.what {
            What::ModelDelta { visit, .. } => (visit, false),
            What::CallSettled { visit, .. } | What::CallRetried { visit, .. } => (visit, true),
            _ => return Vec::new(),
        };
        let is_other = self.voice.as_ref() != Some(visit);
        let Some(speaking) = self.speaking.get_mut(&visit.lane) else { return Vec::new() };
        // The part itself is taken in here, so that its lines stand before what follows.
        if let What::ModelDelta { text, .. } = &event.what {
            speaking.hears(text);
        }
        let length = speaking.unfinished.len();
        let until = match speaking.unfinished.rfind('\n') {
            _ if is_end => length,
            Some(at) => at + 1,
            None if length > MAX_HELD_BYTES => length,
            None => 0,
        };
        let text: String = speaking.unfinished.drain(..until).collect();
        if text.trim().is_empty() {
            return Vec::new();
        }
        let head = (is_other || !speaking.has_spoken).then(|| {
            let said = format!(", visit {}, writes", visit.visit);
            Line::of("     ").and(Tone::Name, who(visit)).and(Tone::Faint, said)
        });
        speaking.has_spoken = !is_end;
        self.voice = Some(visit.clone());
        let lines = text.trim_end_matches('\n').split('\n').map(|line| Line::of(format!("       {line}")));
        head.into_iter().chain(lines).collect()
    }

    fn event(&mut self, event: &Event) -> Option<Line> {
        if self.begun_ms == 0 {
            self.begun_ms = event.at_ms;
        }
        match &event.what {
            What::ThreadStarted { .. } => Some(Line::default().and(Tone::Faint, format!("thread {}", event.thread))),
            What::ThreadResumed { seq } => Some(Line::of(format!("thread {} goes on after step {seq}", event.thread))),
            What::StepStarted { visit } => {
                self.speaking.insert(visit.lane.clone(), ActiveVisit::new(visit, event.at_ms));
                None
            }
            What::ModelDelta { visit, text, .. } => {
                if !self.is_verbose
                    && let Some(speaking) = self.speaking.get_mut(&visit.lane)
                {
                    speaking.hears(text);
                    speaking.unfinished.clear();
                }
                None
            }
            What::CallRetried { visit, model, message, wait_ms, .. } => {
                if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
                    speaking.is_silent();
                }
                let when = if *wait_ms == 0 { "now".to_owned() } else { format!("in {}", seconds(*wait_ms)) };
                let told = format!(": {model}: {}; again {when}", reason(message));
                Some(Line::of("     ").and(Tone::Name, who(visit)).and(Tone::Warning, told))
            }
            What::ToolStarted { visit, tool, call, argument_preview, .. } => {
                let speaking = self.speaking.get_mut(&visit.lane)?;
                speaking.is_silent();
                let blank = if argument_preview.is_empty() { "" } else { " " };
                speaking.calls.insert(call.clone(), format!("{tool}{blank}{argument_preview}"));
                None
            }
            What::ToolFinished { .. } => self.tool_finished(&event.what),
            What::CallSettled { .. } => self.call_settled(&event.what),
            What::StepCommitted { .. } | What::EpochOpened(EpochOpened { lane: Some(_), .. }) => {
                let (role, visit, lane, seq, status) = match &event.what {
                    What::StepCommitted { role, visit, lane, seq, status, .. } => {
                        (role, Some(*visit), lane, seq, Some(status))
                    }
                    What::EpochOpened(EpochOpened { role, lane, seq, .. }) => {
                        (role.as_ref()?, None, lane.as_ref()?, seq, None)
                    }
                    _ => return None,
                };
                let (spent, begun_ms, hook) =
                    self.speaking.remove(lane).map_or((Spending::default(), event.at_ms, None), |speaking| {
                        (speaking.spent, speaking.begun_ms, speaking.hook)
                    });
                let by = hook.map_or_else(String::new, |node| format!("  by {node}"));
                let took = seconds(event.at_ms.saturating_sub(begun_ms));
                let told = committed(*seq, role, visit, lane, status);
                Some(told.and(Tone::Faint, format!("{}  {took}{by}", spending_text(&spent))))
            }
            What::EpochOpened(EpochOpened { seq, .. }) => Some(Line::of(format!("{seq:>3}. the workflow was changed"))),
            What::Said { text, .. } => Some(Line::of(format!("     {text}"))),
            What::ThreadWaiting { visit, .. } => {
                let told = format!(" waits for a person: `rondo answer {}`", event.thread);
                let told = completed(&told).into_owned();
                Some(Line::of("     ").and(Tone::Name, who(visit)).and(Tone::Warning, told))
            }
            What::EdgeTaken { visit, to, .. } => {
                let opened = to.iter().filter(|target| target.lane != visit.lane).count();
                (opened > 1).then(|| Line::default().and(Tone::Faint, format!("     {opened} lanes")))
            }
            What::LaneEnded { visit, how } => {
                Some(Line::default().and(Tone::Faint, self.lane_ended(&visit.lane, *how)))
            }
            What::ThreadFinished { outcome, reason, .. } => {
                Some(self.finished(*outcome, reason.as_deref(), event.at_ms))
            }
            What::Error { code, message, hint, .. } => {
                let mut line = format!(": {code}: {message}");
                if let Some(hint) = hint {
                    let _ = write!(line, "\n  {}", hinted(hint));
                }
                Some(Line::default().and(Tone::Bad, "stopped").and(Tone::Plain, line))
            }
            What::HookAnswered { visit, node, saved_usd, .. } => {
                let of_node = self.hooks.entry(node.clone()).or_default();
                of_node.0 += 1;
                of_node.1 += saved_usd.unwrap_or_default();
                if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
                    speaking.hook = Some(node.clone());
                }
                None
            }
            What::HookReport { visit, node, metrics } => {
                let warning = metrics.get(WARNING).and_then(Value::as_str)?;
                Some(Line::of("     ").and(Tone::Name, who(visit)).and(Tone::Warning, format!(": {node}: {warning}")))
            }
        }
    }

    fn tool_finished(&mut self, what: &What) -> Option<Line> {
        let What::ToolFinished { visit, tool, call, duration_ms, failed, answered_by, .. } = what else { return None };
        let mut told = None;
        if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
            // The hook answered this call, which is reported here.
            speaking.hook = None;
            told = speaking.calls.remove(call);
        }
        let told = told.unwrap_or_else(|| tool.clone());
        let line = Line::of("     ").and(Tone::Name, who(visit)).and(Tone::Plain, format!(": {told}"));
        let line = if *failed { line.and(Tone::Warning, "  failed") } else { line };
        Some(line.and(Tone::Faint, format!("  {}{}", seconds(*duration_ms), by(answered_by))))
    }

    /// Counts an answer; tells of one that was refused, which was paid for like any other.
    fn call_settled(&mut self, what: &What) -> Option<Line> {
        let What::CallSettled { visit, usage, cost_usd, answered_by, refused, .. } = what else { return None };
        let spent = Spending::of_call(*usage, *cost_usd);
        self.spent += spent;
        let speaking = self.speaking.get_mut(&visit.lane)?;
        if *answered_by == AnsweredBy::Port {
            speaking.hook = None;
        }
        speaking.is_silent();
        speaking.spent += spent;
        let refused = refused.as_ref()?;
        speaking.refused = speaking.refused.saturating_add(1);
        let told = format!(": answer refused: {}", reason(refused));
        let told = Line::of("     ").and(Tone::Name, who(visit)).and(Tone::Warning, told);
        Some(told.and(Tone::Faint, spending_text(&spent)))
    }

    /// A lane has ended: removes its speakers and those of lanes within it.
    fn lane_ended(&mut self, lane: &LanePath, how: LaneEnd) -> String {
        let within = format!("{lane}/");
        self.speaking.retain(|other, _| other != lane && !other.as_str().starts_with(&within));
        format!("     lane {lane} {}", word(&how))
    }

    fn finished(&self, outcome: Outcome, reason: Option<&str>, at_ms: u64) -> Line {
        let tone = if outcome == Outcome::Done { Tone::Good } else { Tone::Bad };
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

/// Says what was committed: the status of a visit, or a compaction.
fn committed(seq: u64, role: &RoleName, visit: Option<u64>, lane: &LanePath, status: Option<&Status>) -> Line {
    let head = Line::default().and(Tone::Faint, format!("{seq:>3}. "));
    match visit.zip(status) {
        Some((visit, status)) => {
            let who = who(&Visit { role: role.clone(), visit, lane: lane.clone() });
            head.and(Tone::Name, who).and(Tone::Plain, format!(": {status}"))
        }
        None => head.and(Tone::Name, lane.role_in_lane(role)).and(Tone::Plain, ": history compacted"),
    }
}

fn who(visit: &Visit) -> String {
    who_in(&visit.role, &visit.lane)
}

//! What a person sees of a run, rendered from its events alone: a line for each step, and on a terminal what is being
//! said right now.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, Outcome, Visit, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::{AnsweredBy, Usage};

use super::output::{Style, printable, tell};
use super::show::{seconds, spending};
use crate::scheduler::WARNING;

/// How often the live line is drawn anew while nothing happens.
const TICK: Duration = Duration::from_millis(120);

/// How much of what is being said is kept for the live line, in characters.
const TAIL: usize = 200;

/// How much of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Lines, and what is being said.
    Live,
    /// Lines.
    Lines,
    /// Nothing.
    Silent,
}

impl Mode {
    /// The mode for a stderr of that style. With `--json` only a terminal is shown anything.
    pub fn of(style: Style, is_json: bool, is_quiet: bool) -> Self {
        match (is_quiet, style.is_terminal) {
            (true, _) => Self::Silent,
            (false, true) => Self::Live,
            (false, false) if is_json => Self::Silent,
            (false, false) => Self::Lines,
        }
    }
}

/// The live line of this process, for whoever has to ask a question meanwhile.
static LIVE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Takes the live line away while `ask` asks a person something.
pub fn suspended<T>(ask: impl FnOnce() -> T) -> T {
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match live {
        Some(bar) => bar.suspend(ask),
        None => ask(),
    }
}

/// What a person sees of one or more runs.
pub struct Progress {
    mode: Mode,
    width: usize,
    bar: Option<ProgressBar>,
    scene: Scene,
}

impl Progress {
    /// Shows runs on stderr. With `has_many` each line names its thread.
    pub fn new(mode: Mode, style: Style, has_many: bool) -> Self {
        let bar = (mode == Mode::Live).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let template = "{spinner} {wide_msg} {elapsed}";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            *LIVE.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
            bar
        });
        Self { mode, width: style.width, bar, scene: Scene { has_many, threads: BTreeMap::new() } }
    }

    /// Shows an event.
    pub fn event(&mut self, event: &Event) {
        if self.mode == Mode::Silent {
            return;
        }
        let line = self.scene.event(event);
        match &self.bar {
            Some(bar) => {
                if let Some(line) = line {
                    bar.suspend(|| tell(&line));
                }
                bar.set_message(self.scene.status(self.width.saturating_sub(16)));
            }
            None => {
                if let Some(line) = line {
                    tell(&line);
                }
            }
        }
    }

    /// Takes the live line away while `say` says something else.
    pub fn suspend<T>(&self, say: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is going on, as far as events have told.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) has_many: bool,
    threads: BTreeMap<ThreadId, Going>,
}

#[derive(Debug, Default)]
struct Going {
    begun_ms: u64,
    speaking: Option<Speaking>,
    spent: Spent,
    /// By node: calls that it answered, and US dollars that they had cost.
    hooks: BTreeMap<String, (u64, f64)>,
}

#[derive(Debug)]
struct Speaking {
    visit: Visit,
    begun_ms: u64,
    tail: String,
    spent: Spent,
    /// The hook that gave what this visit says.
    hook: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    usage: Option<Usage>,
    cost_usd: Option<f64>,
}

impl Spent {
    fn add(&mut self, other: Self) {
        if let Some(usage) = other.usage {
            *self.usage.get_or_insert_default() += usage;
        }
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
    }

    fn text(self) -> String {
        spending(self.usage, self.cost_usd)
    }
}

impl Scene {
    /// Takes an event in; gives the line that it is worth, if any.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        let prefix = if self.has_many { format!("{}  ", event.thread) } else { String::new() };
        let going = self.threads.entry(event.thread.clone()).or_default();
        let line = going.event(event)?;
        if matches!(event.what, What::ThreadFinished { .. } | What::ThreadWaiting { .. } | What::Error { .. }) {
            self.threads.remove(&event.thread);
        }
        Some(format!("{prefix}{line}\n"))
    }

    /// What is being said right now, in one line.
    pub(super) fn status(&self, width: usize) -> String {
        let speaking: Vec<&Speaking> = self.threads.values().filter_map(|going| going.speaking.as_ref()).collect();
        match speaking.as_slice() {
            [] => String::new(),
            [one] => {
                let who = format!("{}, visit {}:", one.visit.role, one.visit.visit);
                let room = width.saturating_sub(who.chars().count() + 1);
                let flat = one.tail.split_whitespace().collect::<Vec<_>>().join(" ");
                let skipped = flat.chars().count().saturating_sub(room);
                format!("{who} {}", printable(&flat.chars().skip(skipped).collect::<String>()))
            }
            many => {
                let names: Vec<&str> = many.iter().map(|speaking| speaking.visit.role.as_str()).collect();
                format!("{} speak: {}", many.len(), names.join(", ")).chars().take(width).collect()
            }
        }
    }
}

impl Going {
    fn event(&mut self, event: &Event) -> Option<String> {
        if self.begun_ms == 0 {
            self.begun_ms = event.at_ms;
        }
        match &event.what {
            What::ThreadStarted { .. } => Some(format!("thread {}", event.thread)),
            What::ThreadResumed { seq } => Some(format!("thread {} goes on after step {seq}", event.thread)),
            What::StepStarted { visit } => {
                let visit = visit.clone();
                let (tail, spent) = (String::new(), Spent::default());
                self.speaking = Some(Speaking { visit, begun_ms: event.at_ms, tail, spent, hook: None });
                None
            }
            What::ModelDelta { text, .. } => {
                if let Some(speaking) = &mut self.speaking {
                    speaking.tail.push_str(text);
                    let skipped = speaking.tail.chars().count().saturating_sub(TAIL);
                    speaking.tail = speaking.tail.chars().skip(skipped).collect();
                }
                None
            }
            What::CallRetried { visit, attempt, model, code, wait_ms } => {
                if let Some(speaking) = &mut self.speaking {
                    speaking.tail.clear();
                }
                let wait = seconds(*wait_ms);
                Some(format!(
                    "     {}: attempt {} of {model} failed ({code}), again in {wait}",
                    visit.role,
                    attempt + 1
                ))
            }
            What::ToolFinished { visit, tool, duration_ms, failed, answered_by, .. } => {
                if let Some(speaking) = &mut self.speaking {
                    // What it answered was this call, which is told here.
                    speaking.hook = None;
                }
                let mark = if *failed { " failed" } else { "" };
                let by = by(Some(answered_by));
                Some(format!("     {}: {tool}{mark}  {}{by}", visit.role, seconds(*duration_ms)))
            }
            What::CallSettled { usage, cost_usd, answered_by, .. } => {
                if let (Some(speaking), AnsweredBy::Port) = (&mut self.speaking, answered_by) {
                    speaking.hook = None;
                }
                let spent = Spent { usage: *usage, cost_usd: *cost_usd };
                self.spent.add(spent);
                if let Some(speaking) = &mut self.speaking {
                    speaking.spent.add(spent);
                }
                None
            }
            What::StepCommitted { visit, seq, status, .. } => {
                let (spent, begun_ms, hook) =
                    self.speaking.take().map_or((Spent::default(), event.at_ms, None), |speaking| {
                        (speaking.spent, speaking.begun_ms, speaking.hook)
                    });
                let by = hook.map_or_else(String::new, |node| format!("  by {node}"));
                let lane = if visit.lane.is_trunk() { String::new() } else { format!(" in {}", visit.lane) };
                let took = seconds(event.at_ms.saturating_sub(begun_ms));
                Some(format!("{seq:>3}. {}{lane}: {status}{}  {took}{by}", visit.role, spent.text()))
            }
            What::Said { text, .. } => Some(format!("     {text}")),
            What::ThreadWaiting { .. } => Some("waiting for a person".to_owned()),
            What::ThreadFinished { outcome, reason, .. } => {
                Some(self.finished(*outcome, reason.as_deref(), event.at_ms))
            }
            What::Error { code, message, .. } => {
                let mut line = format!("stopped: {code}: {message}");
                // Where a person has to decide something, the message says how.
                if code != Code::ToolInDoubt.as_str() {
                    let _ = write!(line, "\n  `rondo resume {}` goes on", event.thread);
                }
                Some(line)
            }
            What::HookAnswered { node, saved_usd, .. } => {
                let of_node = self.hooks.entry(node.clone()).or_default();
                of_node.0 += 1;
                of_node.1 += saved_usd.unwrap_or_default();
                if let Some(speaking) = &mut self.speaking {
                    speaking.hook = Some(node.clone());
                }
                None
            }
            What::HookReport { visit, node, metrics } => {
                let warning = metrics.get(WARNING).and_then(Value::as_str)?;
                Some(format!("     {}: {node}: {}", visit.role, printable(warning)))
            }
            What::ToolStarted { .. } | What::EdgeTaken { .. } | What::LaneEnded { .. } => None,
        }
    }

    fn finished(&self, outcome: Outcome, reason: Option<&str>, at_ms: u64) -> String {
        let word = match outcome {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        };
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let mut line = format!("{word}{reason}{}  {}", self.spent.text(), seconds(at_ms.saturating_sub(self.begun_ms)));
        for (node, (calls, saved_usd)) in &self.hooks {
            let noun = if *calls == 1 { "call" } else { "calls" };
            let _ = write!(line, "\n     {node} answered {calls} {noun}");
            if *saved_usd > 0.0 {
                let _ = write!(line, ", ${saved_usd:.4} saved");
            }
        }
        line
    }
}

fn by(answered_by: Option<&AnsweredBy>) -> String {
    match answered_by {
        Some(by @ (AnsweredBy::Hook(_) | AnsweredBy::Journal | AnsweredBy::Loop)) => format!("  by {}", by.as_str()),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use rondo_protocol::Digest;
    use rondo_protocol::digest::Kind;
    use rondo_protocol::event::Durability;
    use rondo_protocol::id::{LanePath, RoleName, Status};

    use super::*;

    fn events() -> Vec<Event> {
        let digest = Digest::of_bytes(Kind::Step, b"");
        let visit = Visit { role: RoleName::new("writer").unwrap(), visit: 2, lane: LanePath::trunk() };
        let status = Status::new("drafted").unwrap();
        let usage = Some(Usage { prompt_tokens: 1000, cached_tokens: 750, output_tokens: 120, ..Usage::default() });
        let delta = |text: &str| What::ModelDelta { visit: visit.clone(), attempt: 0, text: text.to_owned() };
        let what = [
            What::ThreadStarted { workflow: digest, start: digest },
            What::StepStarted { visit: visit.clone() },
            delta("Twice a day\nthe sea "),
            What::CallRetried {
                visit: visit.clone(),
                attempt: 0,
                model: "default".to_owned(),
                code: "RN1003".to_owned(),
                wait_ms: 1500,
            },
            delta("Twice a day\nthe sea \u{1b}[2Jleaves."),
            What::CallSettled {
                visit: visit.clone(),
                attempt: 0,
                model: "m".to_owned(),
                provider: Some("openai".to_owned()),
                finish: "stop".to_owned(),
                usage,
                cached_tokens: Some(750),
                cost_usd: Some(0.0042),
                duration_ms: 900,
                answered_by: AnsweredBy::Port,
            },
            What::StepCommitted {
                visit: visit.clone(),
                seq: 3,
                step: digest,
                prev: Vec::new(),
                status: status.clone(),
            },
            What::Said { visit, text: "one more round".to_owned() },
            What::ThreadFinished {
                outcome: Outcome::Failed,
                head: Some(digest),
                status: Some(status),
                reason: Some("three rounds were not enough".to_owned()),
                result: rondo_protocol::Value::Null,
            },
        ];
        let thread = ThreadId::from_parts(0, 0);
        what.into_iter()
            .zip(1_u64..)
            .map(|(what, at)| Event {
                id: None,
                thread: thread.clone(),
                parent: None,
                durability: Durability::Sync,
                at_ms: at * 1000,
                what,
            })
            .collect()
    }

    #[test]
    fn a_run_reads_as_a_line_for_each_step_and_what_is_being_said() {
        let mut scene = Scene::default();
        let mut text = String::new();
        for event in events() {
            if let Some(line) = scene.event(&event) {
                text.push_str(&line);
            }
            let status = scene.status(40);
            if !status.is_empty() {
                let _ = writeln!(text, "~ {status}");
            }
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn json_on_a_pipe_shows_no_progress() {
        assert_eq!(Mode::of(Style::PLAIN, true, false), Mode::Silent);
        assert_eq!(Mode::of(Style::PLAIN, false, false), Mode::Lines);
        let terminal = Style { is_terminal: true, ..Style::PLAIN };
        assert_eq!(Mode::of(terminal, true, false), Mode::Live);
        assert_eq!(Mode::of(terminal, false, true), Mode::Silent);
    }
}

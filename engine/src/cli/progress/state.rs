//! The state of a run, according to its events so far.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{CommittedSite, Event, LaneEnd, Outcome, Visit, What};
use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo_protocol::object::{AnsweredBy, Usage};

use super::super::lines::who as who_in;
use super::super::output::{plural, printable, word};
use super::super::show::{by, seconds, spending};
use crate::local::WARNING;

/// How many characters of an answer in progress are kept for a live line.
const TAIL: usize = 200;

/// The state of running threads, built from their events.
#[derive(Debug, Default)]
pub struct ProgressState {
    has_many: bool,
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
    begun_ms: u64,
    speaking: BTreeMap<LanePath, ActiveVisit>,
    spent: Spent,
    /// By node: calls it answered, and what they had cost in US dollars.
    hooks: BTreeMap<String, (u64, f64)>,
}

#[derive(Debug)]
struct ActiveVisit {
    visit: Visit,
    begun_ms: u64,
    tail: String,
    spent: Spent,
    /// The hook that answered the last model call.
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

impl ProgressState {
    /// An empty state. With `has_many` each line names its thread.
    pub fn new(has_many: bool) -> Self {
        Self { has_many, ..Self::default() }
    }

    /// Applies an event; returns the line to print for it, if any.
    pub fn event(&mut self, event: &Event) -> Option<String> {
        let prefix = if self.has_many { format!("{}  ", event.thread) } else { String::new() };
        let going = self.threads.entry(event.thread.clone()).or_default();
        let line = going.event(event)?;
        if matches!(event.what, What::ThreadFinished { .. } | What::Error { .. }) {
            self.threads.remove(&event.thread);
        }
        // What happens in a child thread is indented under its parent.
        let indent = if event.parent.is_some() { "    " } else { "" };
        Some(format!("{prefix}{indent}{line}\n"))
    }

    /// What each speaker is saying, one line of `width` columns each: at most `most`, first those for which `has_line`
    /// returns true. Then the number of others, and their lanes.
    pub fn live(
        &self,
        width: usize,
        most: usize,
        has_line: impl Fn(&Speaker) -> bool,
    ) -> (BTreeMap<Speaker, String>, Option<String>) {
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
        let more = format!("and {} more: {}", names.len(), names.join(", ")).chars().take(width).collect();
        (shown.iter().map(line).collect(), (!names.is_empty()).then_some(more))
    }
}

impl ActiveVisit {
    /// The end of the text in progress, after the name of its speaker.
    fn line(&self, width: usize) -> String {
        let who = format!("{}, visit {}:", who(&self.visit), self.visit.visit);
        let room = width.saturating_sub(who.chars().count() + 1);
        let flat = self.tail.split_whitespace().collect::<Vec<_>>().join(" ");
        let skipped = flat.chars().count().saturating_sub(room);
        format!("{who} {}", printable(&flat.chars().skip(skipped).collect::<String>()))
    }
}

impl RunState {
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
                let lane = visit.lane.clone();
                self.speaking.insert(lane, ActiveVisit { visit, begun_ms: event.at_ms, tail, spent, hook: None });
                None
            }
            What::ModelDelta { visit, text, .. } => {
                if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
                    speaking.tail.push_str(text);
                    let skipped = speaking.tail.chars().count().saturating_sub(TAIL);
                    speaking.tail = speaking.tail.chars().skip(skipped).collect();
                }
                None
            }
            What::CallRetried { visit, attempt, model, code, wait_ms } => {
                if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
                    speaking.tail.clear();
                }
                let wait = seconds(*wait_ms);
                Some(format!(
                    "     {}: attempt {} of {model} failed ({code}), again in {wait}",
                    who(visit),
                    attempt + 1
                ))
            }
            What::ToolFinished { visit, tool, duration_ms, failed, answered_by, .. } => {
                if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
                    // The hook answered this call, which is reported here.
                    speaking.hook = None;
                }
                let mark = if *failed { " failed" } else { "" };
                let took = seconds(*duration_ms);
                Some(format!("     {}: {tool}{mark}  {took}{}", who(visit), by(answered_by)))
            }
            What::CallSettled { visit, usage, cost_usd, answered_by, .. } => {
                if let (Some(speaking), AnsweredBy::Port) = (self.speaking.get_mut(&visit.lane), answered_by) {
                    speaking.hook = None;
                }
                let spent = Spent { usage: *usage, cost_usd: *cost_usd };
                self.spent.add(spent);
                if let Some(speaking) = self.speaking.get_mut(&visit.lane) {
                    speaking.spent.add(spent);
                }
                None
            }
            What::StepCommitted { site: CommittedSite { role, visit, lane: Some(lane) }, seq, status, .. } => {
                let (spent, begun_ms, hook) =
                    self.speaking.remove(lane).map_or((Spent::default(), event.at_ms, None), |speaking| {
                        (speaking.spent, speaking.begun_ms, speaking.hook)
                    });
                let by = hook.map_or_else(String::new, |node| format!("  by {node}"));
                let took = seconds(event.at_ms.saturating_sub(begun_ms));
                let said = committed(role.as_ref()?, *visit, lane, status.as_ref());
                Some(format!("{seq:>3}. {said}{}  {took}{by}", spent.text()))
            }
            What::StepCommitted { seq, .. } => Some(format!("{seq:>3}. the workflow was changed")),
            What::Said { text, .. } => Some(format!("     {text}")),
            What::ThreadWaiting { visit, .. } => {
                Some(format!("     {} waits for a person: `rondo answer {}`", who(visit), event.thread))
            }
            What::EdgeTaken { visit, to, .. } => {
                let opened = to.iter().filter(|target| target.lane != visit.lane).count();
                (opened > 1).then(|| format!("     {opened} lanes"))
            }
            What::LaneEnded { visit, how } => Some(self.lane_ended(&visit.lane, *how)),
            What::ThreadFinished { outcome, reason, .. } => {
                Some(self.finished(*outcome, reason.as_deref(), event.at_ms))
            }
            What::Error { code, message, .. } => {
                let mut line = format!("stopped: {code}: {message}");
                // Where a person has to decide something, the message explains how.
                if code != Code::ToolInDoubt.as_str() {
                    let _ = write!(line, "\n  `rondo resume {}` goes on", event.thread);
                }
                Some(line)
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
                Some(format!("     {}: {node}: {}", who(visit), printable(warning)))
            }
            What::ToolStarted { .. } => None,
        }
    }

    /// A lane has ended: removes its speakers and those of lanes within it.
    fn lane_ended(&mut self, lane: &LanePath, how: LaneEnd) -> String {
        let within = format!("{lane}/");
        self.speaking.retain(|other, _| other != lane && !other.as_str().starts_with(&within));
        format!("     lane {lane} {}", word(&how))
    }

    fn finished(&self, outcome: Outcome, reason: Option<&str>, at_ms: u64) -> String {
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let (outcome, took) = (outcome.name(), seconds(at_ms.saturating_sub(self.begun_ms)));
        let mut line = format!("{outcome}{reason}{}  {took}", self.spent.text());
        for (node, (calls, saved_usd)) in &self.hooks {
            let _ = write!(line, "\n     {node} answered {}", plural(*calls, "call"));
            if *saved_usd > 0.0 {
                let _ = write!(line, ", ${saved_usd:.4} saved");
            }
        }
        line
    }
}

/// Says what was committed: the status of a visit, or a compaction.
fn committed(role: &RoleName, visit: Option<u64>, lane: &LanePath, status: Option<&Status>) -> String {
    match visit.zip(status) {
        Some((visit, status)) => {
            format!("{}: {status}", who(&Visit { role: role.clone(), visit, lane: lane.clone() }))
        }
        None => format!("{}: history compacted", lane.role_in_lane(role)),
    }
}

fn who(visit: &Visit) -> String {
    who_in(&visit.role, &visit.lane)
}

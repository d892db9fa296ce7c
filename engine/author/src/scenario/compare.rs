//! Compares two runs of one scenario: the first difference in each snapshot, its cause, and its cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::prefix::{self, Block};
use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::{Message, Speaker};
use rondo_protocol::object::Head;
use similar::{ChangeTag, TextDiff};

use super::definition::Definition;
use super::explain::At;
use super::play::REPAIR;
use super::report::{Change, DefinitionPart, Lines};
use super::scenario::Scenario;
use super::snapshot::{Request, Requests, RunTrace};
use crate::cut;

/// The most lines of either side that a change shows.
const MAX_LINES: usize = 6;
/// How many lines after the first difference are compared.
const MAX_COMPARED: usize = 200;
/// The longest line that it shows, in characters.
const MAX_LINE: usize = 160;

/// Two runs of one scenario.
pub struct Comparer<'a> {
    /// The changed parts; `None` if no course was accepted, so that they are unknown.
    pub changed: Option<BTreeSet<String>>,
    pub old: Option<&'a RunTrace>,
    pub new: &'a RunTrace,
    pub definition: &'a Definition,
    pub scenario: &'a Scenario,
    pub file: &'a str,
}

/// The first difference of two lists of requests, with the data to explain it.
struct Difference {
    change: Change,
    at: At,
    broke: Option<prefix::Cause>,
}

impl Comparer<'_> {
    pub fn requests(&self, snapshot: &str, role: &RoleName, old: &Requests, new: &Requests) -> Option<Change> {
        let Difference { change, at, broke } = first(&old.sent, &new.sent)?;
        let visited = change.lane.as_ref().zip(change.visit).map(|(lane, visit)| (role, lane, visit));
        let (cause, part) = self.explain(visited, &at, broke);
        let lost_bytes = lost(&old.sent, &new.sent);
        Some(Change {
            snapshot: snapshot.to_owned(),
            role: Some(role.clone()),
            cause,
            part: part.map(|part| self.part(&part)),
            lost_bytes,
            lost_tokens: prefix::tokens(lost_bytes),
            share_before: share(&old.sent),
            share_after: share(&new.sent),
            ..change
        })
    }

    /// The change of a role's first head alone, if the scenario cannot be run. `heads` are the possible ones: for its
    /// model, then for each fallback.
    pub fn head(&self, snapshot: &str, role: &RoleName, old: &Requests, heads: &[Arc<Head>]) -> Option<Change> {
        let asked = old.sent.first()?;
        let head = heads.iter().find(|head| head.model == asked.head.model).or(heads.first())?;
        let now = Request { head: Arc::clone(head), ..asked.clone() };
        let (old, new) = (Requests { sent: vec![asked.clone()] }, Requests { sent: vec![now] });
        self.requests(snapshot, role, &old, &new)
    }

    pub fn trace(&self, snapshot: &str, old: &RunTrace) -> Option<Change> {
        type Text = fn(&RunTrace) -> String;
        let steps = |trace: &RunTrace| trace.route.iter().map(|stop| stop.step.clone()).collect::<Vec<_>>().join("\n");
        let places: [(&str, At, Text); 5] = [
            ("route", At::Route, steps),
            ("outcome", At::Outcome, RunTrace::end_words),
            ("reason", At::Reason, |trace| trace.reason.clone().unwrap_or_default()),
            ("result", At::Result, |trace| trace.result.to_text()),
            ("said", At::Said, |trace| trace.said.join("\n")),
        ];
        let texts = places.map(|(block, at, text)| (block, at, text(old), text(self.new)));
        let (block, at, old, new) = texts.into_iter().find(|(_, _, old, new)| old != new)?;
        let (cause, part) = self.explain(None, &at, None);
        Some(self.unsent(snapshot, block, cause, part.as_deref(), lines(&old, &new)))
    }

    /// A changed part, if nothing could be run that would show its effect.
    pub fn part_alone(&self, snapshot: &str) -> Option<Change> {
        let (cause, path) = self.unplayed()?;
        Some(self.unsent(snapshot, "definition", cause, Some(path), Lines::default()))
    }

    fn unsent(&self, snapshot: &str, block: &str, cause: &'static str, part: Option<&str>, lines: Lines) -> Change {
        let (snapshot, block) = (snapshot.to_owned(), block.to_owned());
        Change { snapshot, block, cause, part: part.map(|part| self.part(part)), lines, ..Change::default() }
    }

    /// A part with its place, in the workflow or in the scenario.
    fn part(&self, path: &str) -> DefinitionPart {
        let Some(key) = path.strip_prefix("scenario.") else { return self.definition.part(path) };
        let place = self.scenario.location(key.split('.').next().unwrap_or(key));
        DefinitionPart { path: path.to_owned(), file: self.file.to_owned(), line: place.line, column: place.column }
    }
}

/// Bytes of the accepted requests after the first byte in which each differs from the new one.
fn lost(old: &[Request], new: &[Request]) -> u64 {
    let lost = old.iter().zip(new).map(|(old, new)| {
        let was = as_sent(old);
        was.bytes().saturating_sub(prefix::compare(&was, &as_sent(new)).shared_bytes)
    });
    lost.sum()
}

/// The share of all request bytes that each request has in common with the one before it in its lane.
fn share(sent: &[Request]) -> f64 {
    let (mut shared, mut whole) = (0_u64, 0_u64);
    let mut of_lanes: BTreeMap<&LanePath, prefix::Request> = BTreeMap::new();
    for request in sent {
        let is = as_sent(request);
        if let Some(before) = of_lanes.get(&request.lane) {
            shared = shared.saturating_add(prefix::compare(before, &is).shared_bytes);
        }
        whole = whole.saturating_add(is.bytes());
        of_lanes.insert(&request.lane, is);
    }
    prefix::share(shared, whole).unwrap_or_default()
}

fn as_sent(request: &Request) -> prefix::Request {
    prefix::Request::new(&request.head, request.messages.clone())
}

fn first(old: &[Request], new: &[Request]) -> Option<Difference> {
    let mut pairs = old.iter().zip(new).enumerate();
    if let Some((at, (old, new))) = pairs.find(|(_, (old, new))| old != new) {
        return Some(of_pair(at, old, new));
    }
    if old.len() == new.len() {
        return None;
    }
    let at = old.len().min(new.len());
    let extra = old.get(at).or_else(|| new.get(at))?;
    let change = Change {
        detail: format!("{} requests became {}", old.len(), new.len()),
        block: "requests".to_owned(),
        ..change_at(at, extra)
    };
    Some(Difference { change, at: At::Requests, broke: None })
}

fn change_at(at: usize, request: &Request) -> Change {
    let (lane, visit) = (Some(request.lane.clone()), Some(request.visit));
    Change { lane, visit, request: u64::try_from(at + 1).ok(), ..Change::default() }
}

fn of_pair(at: usize, old: &Request, new: &Request) -> Difference {
    let mut change = change_at(at, new);
    let Some(broke) = prefix::difference(&as_sent(old), &as_sent(new)) else {
        if old.head.parameters != new.head.parameters {
            "parameters".clone_into(&mut change.block);
            change.lines = lines(&parameters(&old.head), &parameters(&new.head));
            return Difference { change, at: At::Parameters, broke: None };
        }
        // The same bytes at another place of the run.
        let at = old.labels.iter().zip(&new.labels).position(|(old, new)| old != new).unwrap_or(0);
        let label = |request: &Request| request.labels.get(at).cloned().unwrap_or_default();
        let (was, is) = (label(old), label(new));
        change.detail = format!("{was:?} became {is:?}");
        change.block = Block::Message(at + 1).to_string();
        change.message = u64::try_from(at + 1).ok();
        change.lines = lines(&was, &is);
        return Difference { change, at: At::Requests, broke: None };
    };
    let prefix::Break { block, cause, detail, .. } = broke;
    change.block = block.to_string();
    change.detail = detail;
    change.lines = lines(&text_of(old, &block), &text_of(new, &block));
    let at = match block {
        Block::Model => At::Model,
        Block::Tool(name) => At::Tool(name),
        Block::ResponseFormat => At::ResponseFormat,
        Block::System => At::System,
        Block::Message(number) => {
            change.message = u64::try_from(number).ok();
            let speaker = |request: &Request| message(request, number).map(Message::role);
            let speaker = speaker(new).or_else(|| speaker(old)).unwrap_or(Speaker::User);
            At::Message { speaker, opens: opens(new, number - 1) }
        }
    };
    Difference { change, at, broke: Some(cause) }
}

/// The visit that the message at `at` opens, if any.
fn opens(request: &Request, at: usize) -> Option<u64> {
    let is_opening = |(message, label): &(&Message, &String)| message.role() == Speaker::User && *label != REPAIR;
    let mut labelled = request.messages.messages().into_iter().zip(&request.labels).skip(at);
    labelled.next().filter(is_opening)?;
    // A fresh conversation starts with the latest visit.
    request.visit.checked_sub(u64::try_from(labelled.filter(is_opening).count()).ok()?)
}

fn parameters(head: &Head) -> String {
    pretty(&Value::Object(head.parameters.0.clone()).to_text())
}

fn pretty(json: &str) -> String {
    super::snapshot::pretty(json).unwrap_or_else(|| json.to_owned())
}

fn text_of(request: &Request, block: &Block) -> String {
    match block {
        Block::Model => request.head.model.clone(),
        Block::Tool(name) => {
            let tool = request.head.tools.iter().find(|tool| tool.name == *name);
            tool.map(|tool| format!("{}\n{}", tool.description, pretty(&tool.parameters))).unwrap_or_default()
        }
        Block::ResponseFormat => request.head.response_format.as_deref().map(pretty).unwrap_or_default(),
        Block::System => request.head.system.clone(),
        Block::Message(number) => message(request, *number).map(said).unwrap_or_default(),
    }
}

/// The message of that number, from 1.
fn message(request: &Request, number: usize) -> Option<&Message> {
    request.messages.messages().get(number.checked_sub(1)?).copied()
}

fn said(message: &Message) -> String {
    let calls = message.tool_calls().map(|call| format!("\n{} {}", call.name, call.arguments));
    format!("{}{}", message.text(), calls.collect::<String>())
}

/// The first differing lines of two texts.
fn lines(old: &str, new: &str) -> Lines {
    let same = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count();
    let behind = |text: &str| text.lines().skip(same).take(MAX_COMPARED).collect::<Vec<_>>().join("\n");
    let (old, new) = (behind(old), behind(new));
    let diff = TextDiff::from_lines(&old, &new);
    let mut lines = Lines::default();
    for change in diff.iter_all_changes() {
        let side = match change.tag() {
            ChangeTag::Delete => &mut lines.old,
            ChangeTag::Insert => &mut lines.new,
            ChangeTag::Equal if lines.old.is_empty() && lines.new.is_empty() => continue,
            ChangeTag::Equal => break,
        };
        let line = change.value().trim_end_matches('\n');
        match side.len() {
            MAX_LINES => side.push("...".to_owned()),
            count if count < MAX_LINES => side.push(cut(line, MAX_LINE, "...")),
            _ => {}
        }
    }
    lines
}

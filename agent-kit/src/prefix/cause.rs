//! Explains in the author's words why a prefix broke. People script against the phrases.

use std::fmt;

use rondo_protocol::canonical;
use rondo_protocol::message::{Message, Speaker};
use rondo_protocol::object::{Head, ToolSpec};

use super::blocks::Content;
use super::text::Difference;
use super::volatile::Volatile;
use crate::answer;
use crate::conversation::{self, Summary};

/// Why a request does not begin with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Another model: a provider's cache is separate for each model.
    ModelChanged,
    ToolAdded,
    ToolRemoved,
    /// The description or the parameters of a tool changed.
    ToolChanged,
    /// The required answer changed: the response format, or the contract at the end of the system text.
    SchemaChanged,
    SystemTextChanged,
    /// The system text contains something that changes from run to run.
    VolatileInSystem(Volatile),
    /// A user message contains something that changes from run to run.
    VolatileInPrompt(Volatile),
    PromptChanged,
    /// The summary of the steps of others changed.
    SummaryChanged,
    /// The summary has the same steps in another order.
    SummaryOrderChanged,
    /// The summary is cut at another position.
    SummaryCutChanged,
    /// The role's answer is sent in a different form.
    AnswerRewritten,
    ToolResultChanged,
    ToolCallsChanged,
    HistoryShortened,
    /// The author chose a fresh conversation for each visit.
    HistoryNone,
    /// A text replaced older visits.
    Compacted,
}

impl Cause {
    pub fn phrase(self) -> &'static str {
        match self {
            Self::ModelChanged => "model changed",
            Self::ToolAdded => "tool added",
            Self::ToolRemoved => "tool removed",
            Self::ToolChanged => "tool changed",
            Self::SchemaChanged => "schema changed",
            Self::SystemTextChanged => "system text changed",
            Self::VolatileInSystem(Volatile::Clock) => "clock in the system text",
            Self::VolatileInSystem(Volatile::Id) => "id in the system text",
            Self::VolatileInSystem(Volatile::Path) => "path in the system text",
            Self::VolatileInSystem(Volatile::Environment) => "environment in the system text",
            Self::VolatileInPrompt(Volatile::Clock) => "clock in the prompt",
            Self::VolatileInPrompt(Volatile::Id) => "id in the prompt",
            Self::VolatileInPrompt(Volatile::Path) => "path in the prompt",
            Self::VolatileInPrompt(Volatile::Environment) => "environment in the prompt",
            Self::PromptChanged => "prompt changed",
            Self::SummaryChanged => "summary changed",
            Self::SummaryOrderChanged => "summary order changed",
            Self::SummaryCutChanged => "summary cut changed",
            Self::AnswerRewritten => "answer rewritten",
            Self::ToolResultChanged => "tool result changed",
            Self::ToolCallsChanged => "tool calls changed",
            Self::HistoryShortened => "history shortened",
            Self::HistoryNone => "history: none",
            Self::Compacted => "history compacted",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phrase())
    }
}

pub(super) type Explanation = (Cause, String);

/// Explains why two heads differ in these blocks, the first that are not equal. `None` = that head ends before.
pub(super) fn of_heads(old: (&Head, Option<Content<'_>>), new: (&Head, Option<Content<'_>>)) -> Explanation {
    let has = |head: &Head, tool: &ToolSpec| head.tools.iter().any(|known| known.name == tool.name);
    match (old.1, new.1) {
        (Some(Content::Tool(was)), Some(Content::Tool(is))) if was.name == is.name => of_tools(was, is),
        (_, Some(Content::Tool(tool))) if !has(old.0, tool) => (Cause::ToolAdded, tool.name.clone()),
        (Some(Content::Tool(tool)), _) => (Cause::ToolRemoved, tool.name.clone()),
        // The same name twice in one head: only a hook can cause that.
        (_, Some(Content::Tool(tool))) => (Cause::ToolChanged, tool.name.clone()),
        (Some(Content::ResponseFormat(was)), Some(Content::ResponseFormat(is))) => {
            (Cause::SchemaChanged, detail(was, is))
        }
        (_, Some(Content::ResponseFormat(_))) => (Cause::SchemaChanged, "a response format was added".to_owned()),
        (Some(Content::ResponseFormat(_)), _) => (Cause::SchemaChanged, "the response format was left out".to_owned()),
        _ => of_systems(&old.0.system, &new.0.system),
    }
}

fn of_tools(was: &ToolSpec, is: &ToolSpec) -> Explanation {
    let (what, old, new) = if was.description == is.description {
        ("its parameters", &was.parameters, &is.parameters)
    } else {
        ("its description", &was.description, &is.description)
    };
    (Cause::ToolChanged, format!("{}: {what}: {}", is.name, detail(old, new)))
}

fn of_systems(old: &str, new: &str) -> Explanation {
    let difference = Difference::of(old, new);
    let cause = match difference.volatile() {
        Some(kind) => Cause::VolatileInSystem(kind),
        None if is_in_contract(&difference) => Cause::SchemaChanged,
        None => Cause::SystemTextChanged,
    };
    (cause, difference.detail())
}

/// Whether two system texts differ only in the contract at their end.
fn is_in_contract(difference: &Difference<'_>) -> bool {
    let (Some(old), Some(new)) = (answer::contract_within(difference.old), answer::contract_within(difference.new))
    else {
        return false;
    };
    let at = difference.at;
    at >= old.start && at >= new.start && (at < old.end || at < new.end)
}

/// Explains why two lists of messages differ, which differ in their first. `number` is that message's, from 1.
pub(super) fn of_messages(old: &[&Message], new: &[&Message], number: usize) -> Explanation {
    match (old.first(), new.first()) {
        (Some(was), Some(is)) => {
            if let Some(missing) = skipped(old, new) {
                let left = old.get(..missing).unwrap_or_default();
                // Messages that come later are not missing.
                return if left.iter().all(|message| new.contains(message)) {
                    (of_speaker(was.role()), "the messages are in another order".to_owned())
                } else {
                    shortened(missing, number)
                };
            }
            if let Some(more) = skipped(new, old) {
                let added = new.get(..more).unwrap_or_default();
                return of_added(added);
            }
            match (was.role(), is.role()) {
                (Speaker::User, Speaker::User) => of_prompts(&was.text(), &is.text()),
                (Speaker::Assistant, Speaker::Assistant) => of_answers(was, is),
                (Speaker::Tool, Speaker::Tool) => (Cause::ToolResultChanged, of_results(was, is)),
                _ if new.len() < old.len() => shortened(old.len() - new.len(), number),
                // The next edge prompt is where the role's own messages are missing.
                (Speaker::Assistant | Speaker::Tool, Speaker::User) => {
                    shortened(old.iter().take_while(|message| message.role() != Speaker::User).count(), number)
                }
                (speaker, _) => (of_speaker(speaker), detail(&was.text(), &is.text())),
            }
        }
        (Some(_), None) => shortened(old.len(), number),
        (None, _) => of_added(new),
    }
}

/// The maximum number of messages that may be skipped to find one list of messages within another.
const MAX_SKIPPED: usize = 4_096;

/// How many messages at the beginning of `old` are missing in `new`, which continues with the others.
fn skipped(old: &[&Message], new: &[&Message]) -> Option<usize> {
    let first = new.first()?;
    let starts = old.iter().take(MAX_SKIPPED).enumerate().skip(1).filter(|(_, message)| *message == first);
    starts.map(|(at, _)| at).find(|at| old.iter().skip(*at).zip(new).all(|(was, is)| was == is))
}

fn shortened(missing: usize, number: usize) -> Explanation {
    let detail = match missing {
        1 => format!("message {number} is missing"),
        _ => format!("{missing} messages from message {number} on are missing"),
    };
    (Cause::HistoryShortened, detail)
}

fn of_added(added: &[&Message]) -> Explanation {
    let Some(first) = added.first() else { return (Cause::PromptChanged, String::new()) };
    let text = first.text();
    let difference = Difference::of("", &text);
    let cause = match (first.role(), difference.volatile()) {
        (Speaker::User, Some(kind)) => Cause::VolatileInPrompt(kind),
        _ if first.tool_calls().next().is_some() => Cause::ToolCallsChanged,
        (speaker, _) => of_speaker(speaker),
    };
    (cause, difference.detail())
}

fn of_speaker(speaker: Speaker) -> Cause {
    match speaker {
        Speaker::User => Cause::PromptChanged,
        Speaker::Assistant => Cause::AnswerRewritten,
        Speaker::Tool => Cause::ToolResultChanged,
    }
}

fn of_prompts(old: &str, new: &str) -> Explanation {
    let difference = Difference::of(old, new);
    let (was, is) = (Summary::within(old), Summary::within(new));
    let is_told = [&was, &is].iter().any(|summary| summary.leaves_out || !summary.entries.is_empty());
    let is_same_prompt = was.prompt == is.prompt && is_told;
    let cause = if is_same_prompt && was.is_reordered(&is) {
        Cause::SummaryOrderChanged
    } else if is_same_prompt && is_cut_elsewhere(&difference, &was, &is) {
        Cause::SummaryCutChanged
    } else if let Some(kind) = difference.volatile() {
        Cause::VolatileInPrompt(kind)
    } else if is_same_prompt {
        Cause::SummaryChanged
    } else {
        Cause::PromptChanged
    };
    (cause, difference.detail())
}

/// Whether two summaries differ where one of them was cut, or because one leaves out more of the oldest steps.
fn is_cut_elsewhere(difference: &Difference<'_>, was: &Summary<'_>, is: &Summary<'_>) -> bool {
    let is_cut_at = |text: &str| {
        let rest = text.get(difference.at..).unwrap_or_default().trim_start_matches('\n');
        rest.starts_with(conversation::CUT)
    };
    if is_cut_at(difference.old) || is_cut_at(difference.new) {
        return true;
    }
    let (longer, shorter) =
        if was.entries.len() >= is.entries.len() { (&was.entries, &is.entries) } else { (&is.entries, &was.entries) };
    (was.leaves_out || is.leaves_out) && !shorter.is_empty() && longer.ends_with(shorter)
}

fn of_answers(was: &Message, is: &Message) -> Explanation {
    let (old_text, new_text) = (was.text(), is.text());
    if old_text != new_text {
        let words = detail(&old_text, &new_text);
        let same = |text: &str| canonical::parse(text.as_bytes()).ok();
        let is_same_json = same(&old_text).is_some_and(|old| same(&new_text) == Some(old));
        let words = if is_same_json { format!("the same JSON, written in another way: {words}") } else { words };
        return (Cause::AnswerRewritten, words);
    }
    let calls = |message: &Message| message.tool_calls().cloned().collect::<Vec<_>>();
    let (old_calls, new_calls) = (calls(was), calls(is));
    if old_calls != new_calls {
        let parted = old_calls.iter().zip(&new_calls).find(|(old, new)| old != new);
        let detail = match parted {
            Some((old, new)) if old.name != new.name => detail(&old.name, &new.name),
            Some((old, new)) if old.arguments != new.arguments => {
                format!("{}: {}", new.name, detail(&old.arguments, &new.arguments))
            }
            Some((old, new)) => format!("{}: its id: {}", new.name, detail(&old.id, &new.id)),
            None => format!("{} calls became {}", old_calls.len(), new_calls.len()),
        };
        return (Cause::ToolCallsChanged, detail);
    }
    let (old, new) = (was.reasoning().unwrap_or_default(), is.reasoning().unwrap_or_default());
    if old != new {
        return (Cause::AnswerRewritten, format!("its reasoning: {}", detail(&old, &new)));
    }
    let written = |message: &Message| String::from_utf8_lossy(&message.canonical_bytes()).into_owned();
    (Cause::AnswerRewritten, format!("its parts: {}", detail(&written(was), &written(is))))
}

fn of_results(was: &Message, is: &Message) -> String {
    let (old, new) = (was.text(), is.text());
    if old != new {
        return detail(&old, &new);
    }
    let id = |message: &Message| message.answers().unwrap_or_default().to_owned();
    let (old, new) = (id(was), id(is));
    if old == new { "whether it failed".to_owned() } else { format!("its id: {}", detail(&old, &new)) }
}

fn detail(old: &str, new: &str) -> String {
    Difference::of(old, new).detail()
}

//! Assembles a reply from the chunks of a stream, or reads it as a whole.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::call::Fault;
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::Finish;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::attached::Attached;
use super::request::REASONING_CONTENT;
use super::think::{self, Shown};
use crate::model::bounded::{Items, MAX_ITEMS, Progress, each_member, items, number, text, word};
use crate::model::http::refusal;
use crate::model::opaque::{self, Kept as _, Members};
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::model::usage;
use crate::redact::Redactor;

const MAX_CONTENT_DEPTH: usize = 4;

/// A chunk of a stream, or a whole completion. Every field may be missing, unknown fields are ignored, and what is not of
/// the type that it should be is read as far as it can be.
#[derive(Default)]
struct Chunk<'a> {
    choices: Option<Items<Choice<'a>>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// Some servers write a member twice: the last that is not `null` counts.
impl<'de: 'a, 'a> Deserialize<'de> for Chunk<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut chunk = Self::default();
        each_member(deserializer, format_args!("an object"), |name, value: &'de RawValue| {
            match name.as_str() {
                _ if value.get() == "null" => {}
                "choices" => {
                    chunk.choices = Some(serde_json::from_str(value.get()).map_err(|error| error.to_string())?);
                }
                "usage" => chunk.usage = Some(value),
                "error" => chunk.error = Some(value),
                _ => {}
            }
            Ok(())
        })?;
        Ok(chunk)
    }
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    delta: Option<Delta<'a>>,
    /// Of a whole completion. Perplexity sends it beside each delta, with the text so far
    /// (<https://docs.perplexity.ai/api-reference/chat-completions-post>).
    message: Option<Delta<'a>>,
    finish_reason: Option<&'a RawValue>,
    /// Moonshot counts here (<https://platform.moonshot.ai/docs/api/chat>).
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    /// A text, or a list of parts with text or thoughts.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    reasoning_content: Option<&'a RawValue>,
    reasoning: Option<&'a RawValue>,
    reasoning_details: Option<&'a RawValue>,
    extra_content: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    tool_calls: Option<Items<ToolDelta<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentPart<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    function: Option<FunctionDelta<'a>>,
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
}

/// The maximum members of one of OpenRouter's `reasoning_details`.
const MAX_MEMBERS: usize = 64;

/// The members of a detail whose pieces are joined.
const JOINED: [&str; 3] = ["data", "summary", "text"];

/// An object of at most [`MAX_MEMBERS`] members, as they came.
#[derive(Debug, Default)]
struct Detail {
    members: Members,
    /// The texts that further pieces are joined to.
    texts: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Detail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut detail = Self::default();
        let what = format_args!("an object of at most {MAX_MEMBERS} members");
        each_member(deserializer, what, |name, value: Box<RawValue>| {
            if detail.members.len() >= MAX_MEMBERS {
                return Err(format!("an object has more than {MAX_MEMBERS} members"));
            }
            match text(Some(&value)).filter(|_| JOINED.contains(&name.as_str())) {
                Some(text) => drop(detail.texts.insert(name, text)),
                None if value.get() == "null" => {}
                None => drop(detail.members.insert(name, value)),
            }
            Ok(())
        })?;
        Ok(detail)
    }
}

impl Detail {
    fn member(&self, name: &str) -> Option<&str> {
        self.members.get(name).map(|value| value.get())
    }

    /// Adds the next piece: texts are joined, and other members are those of the last piece that has them.
    fn join(&mut self, piece: Self) {
        self.members.extend(piece.members);
        for (name, text) in piece.texts {
            self.texts.entry(name).or_default().push_str(&text);
        }
    }

    fn whole(self) -> Members {
        let texts = self.texts.into_iter();
        let texts = texts.filter_map(|(name, text)| Some((name, serde_json::value::to_raw_value(&text).ok()?)));
        texts.chain(self.members).collect()
    }
}

/// A tool call so far, and what the server attached to it.
#[derive(Debug, Default)]
struct Asked {
    id: String,
    name: String,
    arguments: String,
    extra_content: Option<Box<RawValue>>,
}

impl Asked {
    /// Whether a piece belongs to this call. Some servers give every call the same index, or none, and no id: a different
    /// id then means a different call, and so does a name where one is expected no more. Others repeat the name with each
    /// piece. `is_of_list` tells whether the call began in the piece's own list.
    fn is_continued(&self, id: &str, name: &str, added: &str, is_of_list: bool) -> bool {
        let is_same = id.is_empty() || self.id.is_empty() || self.id == id;
        if !is_same || name.is_empty() || self.name.is_empty() {
            return is_same;
        }
        let is_whole = || !added.is_empty() && id.is_empty() && is_object(&self.arguments);
        let is_another = if self.name == name { is_whole() } else { !self.arguments.is_empty() };
        !is_another && !is_of_list
    }
}

fn is_object(json: &str) -> bool {
    let is_closed = json.trim_start().starts_with('{') && json.trim_end().ends_with('}');
    is_closed && serde_json::from_str::<&RawValue>(json).is_ok()
}

#[derive(Debug, Default)]
pub(super) struct Reply {
    progress: Progress,
    text: String,
    shown: Shown,
    reasoning: String,
    /// The member that the reasoning came in; `None` if it came within the content.
    reasoning_member: Option<&'static str>,
    has_empty_reasoning: bool,
    details: Vec<Detail>,
    extra_content: Option<Box<RawValue>>,
    tool_calls: Vec<(u64, Asked)>,
    /// Whether a delta said something: messages then repeat it.
    has_deltas: bool,
}

impl Reply {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { progress: Progress::new(max_bytes), ..Self::default() }
    }

    fn take_delta(&mut self, delta: Delta<'_>, is_whole: bool) -> Result<(), Fault> {
        self.take_content(delta.content, false, 0)?;
        // A refusal arrives instead of an answer and counts as the role's answer.
        self.take_content(delta.refusal, false, 0)?;
        self.has_empty_reasoning |= delta.reasoning_content.is_some_and(|reasoning| reasoning.get() == "\"\"");
        self.take_reasoning(REASONING_CONTENT, delta.reasoning_content)?;
        self.take_reasoning("reasoning", delta.reasoning)?;
        self.take_details(delta.reasoning_details)?;
        if let Some(extra) = delta.extra_content {
            self.progress.take(extra.get().len())?;
            self.extra_content = Some(extra.to_owned());
        }
        delta.tool_calls.map_or(Ok(()), |calls| self.take_tools(calls, is_whole))
    }

    /// Adds a text, a part or a list of parts.
    fn take_content(&mut self, content: Option<&RawValue>, is_thought: bool, depth: usize) -> Result<(), Fault> {
        let Some(json) = content.map(RawValue::get).filter(|_| depth <= MAX_CONTENT_DEPTH) else { return Ok(()) };
        if json.starts_with('[') {
            return items(json)?.into_iter().try_for_each(|part| self.take_content(Some(part), is_thought, depth + 1));
        }
        if json.starts_with('{') {
            let Ok(part) = serde_json::from_str::<ContentPart<'_>>(json) else { return Ok(()) };
            let is_thought = is_thought || part.r#type.contains("think") || part.r#type.contains("reason");
            self.take_content(part.thinking, true, depth + 1)?;
            self.take_content(part.text, is_thought, depth + 1)?;
            return self.take_content(part.refusal, is_thought, depth + 1);
        }
        let Some(text) = text(content) else { return Ok(()) };
        self.progress.take(text.len())?;
        if is_thought { &mut self.reasoning } else { &mut self.text }.push_str(&text);
        Ok(())
    }

    /// Some servers send the same reasoning in two members: the first that has any counts.
    fn take_reasoning(&mut self, member: &'static str, reasoning: Option<&RawValue>) -> Result<(), Fault> {
        let is_said = reasoning.is_some_and(|reasoning| !matches!(reasoning.get(), "null" | "\"\"" | "[]" | "{}"));
        if !is_said || self.reasoning_member.is_some_and(|first| first != member) {
            return Ok(());
        }
        self.reasoning_member = Some(member);
        self.take_content(reasoning, true, 0)
    }

    /// Adds details of the reasoning. A detail comes in pieces, one behind the other; a piece has the type and index of
    /// the one that it continues, and its texts are added.
    fn take_details(&mut self, details: Option<&RawValue>) -> Result<(), Fault> {
        let Some(details) = details.filter(|details| details.get().starts_with('[')) else { return Ok(()) };
        self.progress.take(details.get().len())?;
        for piece in items(details.get())?.into_iter().filter(|piece| piece.get().starts_with('{')) {
            let piece: Detail = serde_json::from_str(piece.get()).map_err(|error| too_large(error.to_string()))?;
            let is_whole = piece.member("type") == Some("\"reasoning.encrypted\"");
            let is_same = |last: &Detail, key| last.member(key) == piece.member(key);
            let continues = |last: &&mut Detail| !is_whole && is_same(last, "type") && is_same(last, "index");
            let has_room = self.details.len() < MAX_ITEMS;
            match self.details.last_mut().filter(continues) {
                Some(last) => last.join(piece),
                None if has_room => self.details.push(piece),
                None => return Err(too_large("the reasoning has too many details".to_owned())),
            }
        }
        Ok(())
    }

    /// Takes the calls of one list, which are different ones where each has a name. In a whole message each is another.
    fn take_tools(&mut self, calls: Items<ToolDelta<'_>>, is_whole: bool) -> Result<(), Fault> {
        let before = self.tool_calls.len();
        calls.0.into_iter().try_for_each(|call| self.take_tool(call, before, is_whole))
    }

    /// Adds to a call, or begins one. `before` is the number of calls in front of its list.
    fn take_tool(&mut self, delta: ToolDelta<'_>, before: usize, is_whole: bool) -> Result<(), Fault> {
        let id = word(delta.id).unwrap_or_default();
        let (name, added) = match delta.function {
            Some(function) => (word(function.name).unwrap_or_default(), arguments(function.arguments)?),
            None => (String::new(), Cow::Borrowed("")),
        };
        let extra = delta.extra_content;
        self.progress.take([id.as_str(), &name, &added, extra.map_or("", RawValue::get)].map(str::len).iter().sum())?;
        let last = self.tool_calls.last().map(|(index, _)| *index);
        let index = number(delta.index).filter(|_| !is_whole).or(last).unwrap_or(0);
        let last = self.tool_calls.iter().rposition(|(at, _)| *at == index).filter(|_| !is_whole);
        let continues = |at: &usize| {
            let is_of_list = *at >= before;
            self.tool_calls.get(*at).is_some_and(|(_, asked)| asked.is_continued(&id, &name, &added, is_of_list))
        };
        let known = last.filter(continues);
        if known.is_none() {
            self.progress.take_call()?;
            self.tool_calls.push((index, Asked::default()));
        }
        let place = known.unwrap_or(self.tool_calls.len() - 1);
        let Some((_, asked)) = self.tool_calls.get_mut(place) else { return Ok(()) };
        if asked.id.is_empty() {
            asked.id = id;
        }
        if asked.name.is_empty() {
            asked.name = name;
        }
        asked.arguments.push_str(&added);
        if let Some(extra) = extra {
            asked.extra_content = Some(extra.to_owned());
        }
        Ok(())
    }
}

impl Assembly for Reply {
    fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        let chunk: Chunk<'_> = refusal::event(json, redactor)?;
        // Some servers repeat the figures as they grow.
        self.progress.count(chunk.usage.and_then(|counted| usage::read(counted.get())));
        // Some servers name no error instead of leaving it out.
        let is_error = |error: &&RawValue| !matches!(error.get(), r#""""# | "{}" | "[]" | "false");
        if let Some(error) = chunk.error.filter(is_error) {
            return Err(refusal::of_error(error.get(), redactor));
        }
        let before = self.text.len();
        // Only one choice was requested.
        let is_first = |choice: &Choice<'_>| number(choice.index).unwrap_or(0) == 0;
        for choice in chunk.choices.into_iter().flat_map(|choices| choices.0).filter(is_first) {
            if let Some(reason) = word(choice.finish_reason).filter(|reason| !reason.is_empty()) {
                self.progress.end(known_finish(&reason), "finish reason", &reason, redactor);
            }
            self.progress.count(choice.usage.and_then(|counted| usage::read(counted.get())));
            if let Some(delta) = choice.delta {
                let said_bytes = self.progress.said_bytes;
                self.take_delta(delta, false)?;
                self.has_deltas |= self.progress.said_bytes > said_bytes;
            }
            if let Some(message) = choice.message.filter(|_| !self.has_deltas) {
                let is_whole = self.tool_calls.is_empty();
                self.take_delta(message, is_whole)?;
            }
        }
        Ok(self.shown.added(&self.text, before).to_owned())
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn parts(self: Box<Self>, request: &Outgoing<'_>) -> Parts {
        let origin = &opaque::origin(request.provider, &request.call.head.model);
        let extra = |extra: Box<RawValue>| Members::from([("extra_content".to_owned(), extra)]);
        let (mut parts, has_details) = (Parts::default(), !self.details.is_empty());
        // The API has one field for each of these and does not define their order.
        let (thoughts, text) = think::split(&self.text).unwrap_or(("", &self.text));
        for (text, member) in [(self.reasoning.as_str(), self.reasoning_member), (thoughts, None)] {
            match member.filter(|_| !has_details) {
                _ if text.is_empty() => {}
                Some(member) => parts.push(Attached::Text(member.to_owned()).part(origin, text.to_owned())),
                None => parts.push(Part::Reasoning { opaque: None, text: text.to_owned() }),
            }
        }
        let is_empty = self.has_empty_reasoning && self.reasoning.is_empty() && !self.tool_calls.is_empty();
        if is_empty && request.dialect.keeps_empty_reasoning {
            parts.push(Attached::Text(REASONING_CONTENT.to_owned()).part(origin, String::new()));
        }
        let mut attached = self.extra_content.map(extra).unwrap_or_default();
        let details: Vec<Members> = self.details.into_iter().map(Detail::whole).collect();
        if let Some(details) = serde_json::value::to_raw_value(&details).ok().filter(|_| !details.is_empty()) {
            attached.insert("reasoning_details".to_owned(), details);
        }
        if !attached.is_empty() {
            parts.push(Attached::Message(attached).part(origin, String::new()));
        }
        parts.push(Part::Text { text: text.to_owned() });
        let mut tool_calls = self.tool_calls;
        tool_calls.sort_by_key(|(index, _)| *index);
        let mut ids = BTreeSet::new();
        for (at, (_, Asked { id, name, arguments, extra_content })) in tool_calls.into_iter().enumerate() {
            // With one id for two calls, nobody could tell their results apart.
            let id = if ids.insert(id.clone()) { id } else { String::new() };
            if let Some(attached) = extra_content.map(extra) {
                parts.push(Attached::Call(attached).part(origin, String::new()));
            }
            parts.push(Part::ToolCall(ToolUse { arguments, id: request.call_id(id, at), name }));
        }
        parts
    }
}

/// The text of a call's arguments. The API sends it as a JSON string; some servers send the object itself.
pub(in crate::model) fn arguments(raw: Option<&RawValue>) -> Result<Cow<'_, str>, Fault> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(Cow::Borrowed("")),
        Some(string) if string.starts_with('"') => serde_json::from_str::<String>(string)
            .map(Cow::Owned)
            .map_err(|error| unreadable(format!("the arguments of a tool cannot be read: {error}"))),
        Some(object) => Ok(Cow::Borrowed(object)),
    }
}

/// Translates a finish reason: that of the API, or of a server that uses its own: Anthropic's
/// (<https://platform.claude.com/docs/en/api/handling-stop-reasons>), Mistral's
/// (<https://docs.mistral.ai/api/endpoint/chat>) and text-generation-inference's
/// (<https://huggingface.co/docs/text-generation-inference/reference/api_reference>). `None` for any other: whether
/// such a reply is complete is unknown.
fn known_finish(word: &str) -> Option<Finish> {
    match word {
        "stop" | "end_turn" | "stop_sequence" | "eos_token" | "eos" => Some(Finish::Stop),
        "length" | "max_tokens" | "model_length" => Some(Finish::Length),
        "tool_calls" | "function_call" | "tool_use" => Some(Finish::ToolCalls),
        "content_filter" | "refusal" => Some(Finish::ContentFilter),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

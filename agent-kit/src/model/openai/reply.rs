//! Assembles a reply from the chunks of a stream, or reads it as a whole.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use rondo_protocol::call::{Fault, FaultClass, ModelAnswer};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::{Finish, ModelReply, Usage};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::refusal;
use super::usage;
use crate::redact::Redactor;

const MAX_TOOL_CALLS: usize = 128;

/// The maximum items of a list in one chunk. An item may be a hundred times as large in memory as on the wire.
const MAX_ITEMS: usize = 1024;

/// A chunk of a stream, or a whole completion. Every field may be missing, and unknown fields are ignored.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Option<Items<Choice<'a>>>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, alias = "message")]
    delta: Option<Delta<'a>>,
    finish_reason: Option<String>,
    /// Moonshot counts here (<https://platform.moonshot.ai/docs/api/chat>).
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    content: Option<String>,
    #[serde(alias = "reasoning")]
    reasoning_content: Option<String>,
    refusal: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Items<ToolDelta<'a>>>,
}

#[derive(Deserialize)]
struct ToolDelta<'a> {
    index: Option<u64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// A list of at most [`MAX_ITEMS`] items; a longer one is refused before it takes up memory.
struct Items<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor(PhantomData))
    }
}

struct ItemsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
    type Value = Items<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_ITEMS} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() >= MAX_ITEMS {
                return Err(A::Error::custom(format_args!("a list has more than {MAX_ITEMS} items")));
            }
            items.push(item);
        }
        Ok(Items(items))
    }
}

#[derive(Debug)]
pub(super) struct Assembly {
    max_bytes: usize,
    /// Bytes of text, reasoning and tool calls.
    said_bytes: usize,
    text: String,
    reasoning: String,
    tool_calls: Vec<(u64, ToolUse)>,
    finish: Option<Finish>,
    /// The fault of a finish reason that is not known; what it cost may follow.
    unknown_finish: Option<Fault>,
    usage: Option<Usage>,
}

impl Assembly {
    /// Starts a reply with at most `max_bytes` of text, reasoning and tool calls together.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            said_bytes: 0,
            text: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            finish: None,
            unknown_finish: None,
            usage: None,
        }
    }

    /// Adds a chunk, or a whole completion, as JSON. Returns the text that it adds.
    ///
    /// # Errors
    /// When the chunk is unreadable, reports an error, or makes the reply too large. A provider's words are redacted
    /// before they are cut.
    pub(super) fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        let chunk: Chunk<'_> = serde_json::from_str(json).map_err(|error| {
            // The error quotes the unexpected text.
            unreadable(format!("an event cannot be read: {}", refusal::words(&error.to_string(), redactor)))
        })?;
        self.take_usage(chunk.usage);
        if let Some(error) = chunk.error.filter(|error| error.get() != "null") {
            return Err(refusal::of_error(error.get(), redactor));
        }
        let mut added = String::new();
        // Only one choice was requested.
        for choice in chunk.choices.into_iter().flat_map(|choices| choices.0).filter(|choice| choice.index == 0) {
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = known_finish(&reason);
                self.unknown_finish = self.finish.is_none().then(|| {
                    let reason = refusal::words(&reason, redactor);
                    unreadable(format!("the provider ended the reply with `{reason}`, which is no known finish reason"))
                });
            }
            self.take_usage(choice.usage);
            let Some(delta) = choice.delta else { continue };
            // A refusal arrives instead of an answer and counts as the role's answer.
            for text in [delta.content, delta.refusal].into_iter().flatten() {
                self.count(text.len())?;
                added.push_str(&text);
            }
            let reasoning = delta.reasoning_content.unwrap_or_default();
            self.count(reasoning.len())?;
            self.reasoning.push_str(&reasoning);
            for tool in delta.tool_calls.into_iter().flat_map(|calls| calls.0) {
                self.take_tool(tool)?;
            }
        }
        self.text.push_str(&added);
        Ok(added)
    }

    /// The last figures count: some servers repeat them as they grow.
    fn take_usage(&mut self, counted: Option<&RawValue>) {
        if let Some(usage) = counted.and_then(|counted| usage::read(counted.get())) {
            self.usage = Some(usage);
        }
    }

    /// Counts bytes before they are kept.
    fn count(&mut self, bytes: usize) -> Result<(), Fault> {
        self.said_bytes = self.said_bytes.saturating_add(bytes);
        if self.said_bytes > self.max_bytes {
            return Err(too_large(format!("the reply is longer than {} bytes", self.max_bytes)));
        }
        Ok(())
    }

    fn take_tool(&mut self, delta: ToolDelta<'_>) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let (name, added) = match delta.function {
            Some(function) => (function.name.unwrap_or_default(), arguments(function.arguments)?),
            None => (String::new(), Cow::Borrowed("")),
        };
        self.count(id.len().saturating_add(name.len()).saturating_add(added.len()))?;
        let last = self.tool_calls.last().map(|(index, _)| *index);
        let index = delta.index.or(last).unwrap_or(0);
        // Some servers give every call the same index, or none; a different id then means a different call.
        let continues =
            |(at, tool): &(u64, ToolUse)| *at == index && (id.is_empty() || tool.id.is_empty() || tool.id == id);
        let last = self.tool_calls.iter().rposition(|(at, _)| *at == index);
        let known = last.filter(|at| self.tool_calls.get(*at).is_some_and(continues));
        if known.is_none() {
            if self.tool_calls.len() >= MAX_TOOL_CALLS {
                return Err(too_large(format!("the reply asks for more than {MAX_TOOL_CALLS} tools")));
            }
            let empty = ToolUse { arguments: String::new(), id: String::new(), name: String::new() };
            self.tool_calls.push((index, empty));
        }
        let place = known.unwrap_or(self.tool_calls.len() - 1);
        let Some((_, tool)) = self.tool_calls.get_mut(place) else { return Ok(()) };
        if tool.id.is_empty() {
            tool.id = id;
        }
        if tool.name.is_empty() {
            tool.name = name;
        }
        tool.arguments.push_str(&added);
        Ok(())
    }

    /// The bytes of text, reasoning and tool calls so far.
    pub(super) fn said_bytes(&self) -> usize {
        self.said_bytes
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some() || self.unknown_finish.is_some()
    }

    /// The usage so far.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Returns the reply. `ordinal` names tool calls without an id.
    ///
    /// # Errors
    /// That of an unknown finish reason, or `incomplete()` if there is none.
    pub(super) fn complete(self, ordinal: u64, incomplete: impl FnOnce() -> Fault) -> Result<ModelAnswer, Fault> {
        let Some(finish) = self.finish else { return Err(self.unknown_finish.unwrap_or_else(incomplete)) };
        let name = |(at, (_, tool)): (usize, (u64, ToolUse))| {
            if tool.id.is_empty() { ToolUse { id: format!("call_{ordinal}_{at}"), ..tool } } else { tool }
        };
        let mut tool_calls = self.tool_calls;
        tool_calls.sort_by_key(|(index, _)| *index);
        // The API has one field for each of these and does not define their order.
        let reasoning = Some(self.reasoning).filter(|text| !text.is_empty());
        let reasoning = reasoning.map(|text| Part::Reasoning { opaque: None, text });
        let tool_calls = tool_calls.into_iter().enumerate().map(name).map(Part::ToolCall);
        let parts: Parts = reasoning.into_iter().chain([Part::Text { text: self.text }]).chain(tool_calls).collect();
        let reply = ModelReply { finish, parts };
        Ok(ModelAnswer { reply, usage: self.usage, cost_usd: None })
    }
}

/// The text of a call's arguments. The API sends it as a JSON string; some servers send the object itself.
fn arguments(raw: Option<&RawValue>) -> Result<Cow<'_, str>, Fault> {
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

/// The fault for a reply that breaks the protocol.
pub(super) fn unreadable(message: String) -> Fault {
    Fault::new(Code::ReplyUnreadable, FaultClass::Server, message)
}

/// The fault for a reply beyond a bound. It is not retried: another attempt would cost again and be as large.
pub(super) fn too_large(message: String) -> Fault {
    Fault::new(Code::ReplyTooLarge, FaultClass::Refused, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(chunks: &[&str]) -> Result<ModelAnswer, Fault> {
        let mut assembly = Assembly::new(1 << 20);
        for chunk in chunks {
            assembly.take(chunk, &Redactor::default())?;
        }
        assembly.complete(7, || unreadable("incomplete".to_owned()))
    }

    #[test]
    fn tool_calls_are_put_together_by_index() {
        let answer = assembled(&[
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":"é"}}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"another choice"}},{"delta":{"tool_calls":[{"index":2,"function":{"name":"h","arguments":{"y": 2}}}]},"finish_reason":"tool_calls"}]}"#,
        ])
        .unwrap();
        let tool = |id: &str, name: &str, arguments: &str| ToolUse {
            arguments: arguments.to_owned(),
            id: id.to_owned(),
            name: name.to_owned(),
        };
        let wanted = vec![tool("a", "f", "{\"x\":1}"), tool("b", "g", "é"), tool("call_7_2", "h", "{\"y\": 2}")];
        assert_eq!(answer.reply.parts.tool_calls().cloned().collect::<Vec<_>>(), wanted);
        assert_eq!((answer.reply.finish, answer.reply.parts.text().as_ref()), (Finish::ToolCalls, ""));
    }

    #[test]
    fn odd_figures_cost_no_answer() {
        for usage in
            [r#""many""#, "[1]", "true", r#"{"prompt_tokens":-5,"completion_tokens":2}"#, "1180591620717411303424"]
        {
            let chunk =
                format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":"stop"}}],"usage":{usage}}}"#);
            let answer = assembled(&[&chunk]).unwrap();
            assert_eq!((&*answer.reply.parts.text(), answer.usage), ("a", None), "{usage}");
        }
    }

    #[test]
    fn only_a_known_finish_reason_ends_a_reply() {
        let ended = |reason: &str| {
            assembled(&[&format!(r#"{{"choices":[{{"delta":{{"content":"a"}},"finish_reason":"{reason}"}}]}}"#)])
        };
        for (reason, finish) in [
            ("stop", Finish::Stop),
            ("end_turn", Finish::Stop),
            ("length", Finish::Length),
            ("max_tokens", Finish::Length),
            ("tool_calls", Finish::ToolCalls),
            ("function_call", Finish::ToolCalls),
            ("content_filter", Finish::ContentFilter),
        ] {
            assert_eq!(ended(reason).unwrap().reply.finish, finish, "{reason}");
        }
        for reason in ["anything", "error", "STOP", "network_error", " "] {
            let fault = ended(reason).unwrap_err();
            assert_eq!((fault.code, fault.class), (Code::ReplyUnreadable, FaultClass::Server), "{reason}");
        }
    }

    #[test]
    fn text_reasoning_and_tool_calls_are_counted_together_and_nothing_else_is() {
        let mut assembly = Assembly::new(20);
        let mut take = |delta: &str| {
            let chunk = format!(r#"{{"id":"{}","choices":[{{"delta":{delta}}}]}}"#, "x".repeat(100));
            assembly.take(&chunk, &Redactor::default())
        };
        take(r#"{"content":"12345"}"#).unwrap();
        take(r#"{"reasoning_content":"12345"}"#).unwrap();
        take(r#"{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"12345678"}}]}"#).unwrap();
        let fault = take(r#"{"content":"1"}"#).unwrap_err();
        assert_eq!((fault.code, fault.class), (Code::ReplyTooLarge, FaultClass::Refused));
        assert_eq!(fault.message, "the reply is longer than 20 bytes");
    }

    #[test]
    fn one_index_with_two_ids_is_two_calls() {
        let answer = assembled(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
        ])
        .unwrap();
        assert_eq!(answer.reply.parts.tool_calls().map(|tool| tool.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn the_number_of_tool_calls_is_bounded() {
        let calls: Vec<String> = (0..=MAX_TOOL_CALLS).map(|n| format!(r#"{{"index":{n},"id":"{n}"}}"#)).collect();
        let chunk = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#, calls.join(","));
        assert_eq!(assembled(&[&chunk]).unwrap_err().code, Code::ReplyTooLarge);
    }

    #[test]
    fn reasoning_and_usage_are_kept() {
        let answer = assembled(&[
            r#"{"choices":[{"delta":{"role":"assistant","reasoning_content":"hm","unknown":[1]}}],"object":"x"}"#,
            r#"{"choices":[{"delta":{"content":"yes","reasoning_content":null},"finish_reason":"end_turn"}],"usage":null}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":29}}}"#,
        ])
        .unwrap();
        assert_eq!(
            answer.usage,
            Some(Usage { prompt_tokens: 30, cached_tokens: 29, output_tokens: 2, ..Usage::default() })
        );
        assert_eq!(answer.reply.parts.reasoning().as_deref(), Some("hm"));
    }
}

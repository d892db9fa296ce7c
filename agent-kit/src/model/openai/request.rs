//! The bytes of a request.
//!
//! They are written from our own structs: a schema must be sent key for key as the head holds it, and a conversation
//! must result in the same bytes with every version of every crate.
//!
//! The API has one field each for an assistant's text, its reasoning and its tool calls, so the texts of a message are
//! joined and the order between the three is lost. Reasoning in other providers' formats
//! ([`Opaque`](rondo_protocol::message::Opaque)) is never sent.
//!
//! Law: asking a provider to cache a prefix ([`super::keep_prefix`]) changes no content. A request with a key equals
//! the request without one plus two fields at its end; a request with marks wraps at most three texts in content parts.

use std::borrow::Cow;

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, ModelCall};
use rondo_protocol::canonical;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::{Message, Part as MessagePart, ToolUse};
use rondo_protocol::object::ToolSpec;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::keep_prefix::{CacheControl, CacheRequest, KeepFor};
use super::response_format::ANY_OBJECT;
use crate::answer::is_strict;

/// The exact bytes sent for `call`: the same for equal heads and messages.
///
/// The system text comes first, then the messages; tools are sorted by name; the schemas of tools and of the response
/// format are sent byte for byte as in the head; the schema of any object is sent as `json_object`. The parameter
/// `max_output_tokens` is sent as `max_completion_tokens`, which OpenAI requires for its newer models and llama.cpp
/// accepts too; the others keep their names.
///
/// # Errors
/// A refused request when a schema of the head is not JSON.
pub fn request_body(call: &ModelCall) -> Result<Vec<u8>, Fault> {
    body_keeping(call, &CacheRequest::default())
}

/// The bytes sent for `call`, with the fields that ask its provider to cache the prefix.
pub(super) fn body_keeping(call: &ModelCall, keeping: &CacheRequest) -> Result<Vec<u8>, Fault> {
    let head = &call.head;
    let mut tools = head.tools.iter().map(WireTool::new).collect::<Result<Vec<_>, _>>()?;
    tools.sort_by_key(|tool| tool.function.name);
    let mut messages = Vec::with_capacity(call.conversation.messages().len() + 1);
    if !head.system.is_empty() {
        let content = Some(Content::Text(Cow::Borrowed(&head.system)));
        messages.push(WireMessage { content, ..WireMessage::of("system") });
    }
    for message in call.conversation.messages() {
        messages.push(WireMessage::new(message)?);
    }
    if let Some(mark) = keeping.mark {
        mark_blocks(&mut messages, mark);
    }
    let body = Body {
        model: &head.model,
        messages,
        tools,
        response_format: head.response_format.as_deref().map(WireFormat::new).transpose()?,
        parameters: Parameters(&head.parameters.0),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        prompt_cache_key: keeping.key.as_deref(),
        prompt_cache_retention: keeping.retention.map(KeepFor::word),
    };
    serde_json::to_vec(&body).map_err(|error| refused(format!("the request cannot be written: {error}")))
}

/// Marks the blocks up to which a prefix is cached: at most three, where Anthropic's models accept four
/// (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>).
///
/// - The system text, with the tools that a provider puts before it: shared by all threads of the workflow.
/// - The end of the previous request, which is everything before the last answer. A provider also finds its own earlier
///   marks, but looks back no further than 20 blocks, and one answer may use more tools.
/// - The end of this request, for the next one, which begins with it. This holds even when a later visit leaves out the
///   tools of this one, because the first request of a visit ends with its prompt.
fn mark_blocks(messages: &mut [WireMessage<'_>], mark: CacheControl) {
    let last = messages.len().checked_sub(1);
    let before_answer =
        messages.iter().rposition(|message| message.role == "assistant").and_then(|at| at.checked_sub(1));
    let system = messages.first().is_some_and(|message| message.role == "system").then_some(0);
    for at in [system, before_answer, last].into_iter().flatten() {
        let Some(message) = messages.get_mut(at) else { continue };
        // An empty block cannot be marked.
        message.content = match message.content.take() {
            Some(Content::Text(text)) if !text.is_empty() => {
                Some(Content::Marked([Part { r#type: "text", text, cache_control: mark }]))
            }
            other => other,
        };
    }
}

fn refused(message: String) -> Fault {
    Fault::new(Code::RequestRefused, FaultClass::Refused, message)
}

fn raw(what: &str, json: &str) -> Result<Box<RawValue>, Fault> {
    RawValue::from_string(json.to_owned()).map_err(|error| refused(format!("{what} is not JSON: {error}")))
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<WireFormat>,
    #[serde(flatten)]
    parameters: Parameters<'a>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

struct Parameters<'a>(&'a std::collections::BTreeMap<String, Value>);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            let name = if name == "max_output_tokens" { "max_completion_tokens" } else { name };
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireToolUse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> WireMessage<'a> {
    fn of(role: &'static str) -> Self {
        Self { role, content: None, reasoning_content: None, tool_calls: Vec::new(), tool_call_id: None }
    }

    fn new(message: &'a Message) -> Result<Self, Fault> {
        if message.parts().iter().any(|part| matches!(part, MessagePart::File { .. })) {
            return Err(refused("a message holds a file, which this provider is not sent".to_owned()));
        }
        let text = message.text();
        let tool_calls: Vec<_> = message.tool_calls().map(WireToolUse::new).collect();
        // A message with only tool calls has no content: some servers refuse an empty one.
        let is_silent = text.is_empty() && !tool_calls.is_empty();
        Ok(Self {
            role: message.role().as_str(),
            content: (!is_silent).then_some(Content::Text(text)),
            // Reasoning without text is nothing that this API could take back.
            reasoning_content: message.reasoning().filter(|text| !text.is_empty()),
            tool_calls,
            tool_call_id: message.answers(),
        })
    }
}

/// A text, or the same text in a part that can be marked.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Marked([Part<'a>; 1]),
}

#[derive(Serialize)]
struct Part<'a> {
    r#type: &'static str,
    text: Cow<'a, str>,
    cache_control: CacheControl,
}

#[derive(Serialize)]
struct WireToolUse<'a> {
    id: &'a str,
    r#type: &'static str,
    function: UsedFunction<'a>,
}

#[derive(Serialize)]
struct UsedFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> WireToolUse<'a> {
    fn new(tool: &'a ToolUse) -> Self {
        let function = UsedFunction { name: &tool.name, arguments: &tool.arguments };
        Self { id: &tool.id, r#type: "function", function }
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Box<RawValue>,
}

impl<'a> WireTool<'a> {
    fn new(tool: &'a ToolSpec) -> Result<Self, Fault> {
        let parameters = raw(&format!("the schema of tool `{}`", tool.name), &tool.parameters)?;
        let function = Function { name: &tool.name, description: &tool.description, parameters };
        Ok(Self { r#type: "function", function })
    }
}

#[derive(Serialize)]
struct WireFormat {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<NamedSchema>,
}

#[derive(Serialize)]
struct NamedSchema {
    name: &'static str,
    strict: bool,
    schema: Box<RawValue>,
}

impl WireFormat {
    fn new(schema: &str) -> Result<Self, Fault> {
        if schema == ANY_OBJECT {
            return Ok(Self { r#type: "json_object", json_schema: None });
        }
        // A provider with a strict mode refuses schemas that its mode does not support, so strict mode is requested
        // only for supported schemas.
        let strict = canonical::parse(schema.as_bytes()).is_ok_and(|schema| is_strict(&schema));
        let schema = raw("the schema of the answer", schema)?;
        Ok(Self { r#type: "json_schema", json_schema: Some(NamedSchema { name: "answer", strict, schema }) })
    }
}

#[cfg(test)]
mod tests;

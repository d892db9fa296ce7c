//! The bytes of a request.
//!
//! They are written from our own structs: a schema must be sent key for key as the head holds it, and a conversation
//! must result in the same bytes with every version of every crate.
//!
//! The API has one field each for an assistant's text, its reasoning and its tool calls, so the texts of a message are
//! joined and the order between the three is lost. What the provider attached goes back to it, and to no other
//! ([`super::attached`]). Two messages of a user, or two of an assistant, are sent as one: chat templates that want turns
//! to alternate refuse anything else. A tool's message has a text only, so the files of the results of one reply are sent
//! in a message of the user behind them.
//!
//! Law: asking a provider to cache a prefix ([`prompt_cache`](crate::model::prompt_cache)) changes no content. A request with a key equals
//! the request without one plus two fields at its end; a request with marks wraps at most three texts in content parts.

use std::borrow::Cow;

use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::message::{FileRef, Message, Part, Speaker};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::{RawValue, to_raw_value};

use super::OpenAiChat;
use super::attached::Attached;
use crate::model::dialects::Dialect;
use crate::model::opaque::{self, Kept as _, Members};
use crate::model::prompt_cache::{CacheControl, CacheRequest, CacheRetention};
use crate::model::protocol::{
    NO_ANSWER, Outgoing, base64, data_url, fit_name, object_text, raw_json, refused, tools_by_name, written,
};
use crate::model::response_format::NamedSchema;

/// Stands in front of the files of tools' results.
const OF_TOOLS: &str = "These files are part of the results of the tools above, in their order.";

/// The member with the reasoning of DeepSeek and others.
pub(super) const REASONING_CONTENT: &str = "reasoning_content";

pub(super) fn has_calls(message: &Message) -> bool {
    message.parts().iter().any(|part| matches!(part, Part::ToolCall(_)))
}

/// The dialect of a request in its form.
pub(super) fn dialect(request: &Outgoing<'_>) -> Dialect {
    let Outgoing { dialect, form, .. } = request;
    if form.has_other_ceiling { dialect.with_other_ceiling() } else { **dialect }
}

/// The exact bytes sent: the same for equal heads and messages, with the fields that ask the provider to cache the prefix.
///
/// The system text comes first, then the messages; tools are sorted by name; the schemas of tools and of the response
/// format are sent byte for byte as in the head; the schema of any object is sent as `json_object`. The parameter
/// `max_output_tokens` is sent as `max_completion_tokens`, which OpenAI requires for its newer models and llama.cpp
/// accepts too; the others keep their names but where a [`Dialect`] has another.
pub(super) fn body(request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
    let Outgoing { call, provider, .. } = request;
    let dialect = &dialect(request);
    let cache = CacheRequest::of(request);
    let head = &call.head;
    let tools = tools_by_name(head)?.into_iter().map(|(tool, parameters)| {
        let function = Function { name: &tool.name, description: &tool.description, parameters };
        WireTool { r#type: "function", function }
    });
    let mut messages: Vec<WireMessage<'_>> = Vec::with_capacity(call.conversation.messages().len() + 1);
    if !head.system.is_empty() {
        messages.push(WireMessage::said("system", &head.system));
    }
    let origin = opaque::origin(provider, &head.model);
    let (mut before, mut of_tools) = (None, Vec::new());
    for message in call.conversation.messages() {
        let speakers = (before.replace(message.role()), message.role());
        let mut message = WireMessage::new(message, &origin, request, dialect)?;
        if speakers.1 == Speaker::Tool {
            of_tools.append(&mut message.of_tool);
        } else {
            messages.extend(WireMessage::of_files(std::mem::take(&mut of_tools)));
        }
        match messages.last_mut() {
            Some(last) if last.may_take(&message) => last.take(message),
            // An empty answer to a tool's result is no message; what follows it is no answer either.
            Some(_) if speakers == (Some(Speaker::Tool), Speaker::User) => {
                messages.extend([WireMessage::said("assistant", NO_ANSWER), message]);
            }
            _ => messages.push(message),
        }
    }
    messages.extend(WireMessage::of_files(of_tools));
    if let Some(mark) = cache.mark {
        mark_blocks(&mut messages, mark);
    }
    let body = Body {
        model: &head.model,
        messages,
        tools: tools.collect(),
        response_format: head.response_format.as_deref().map(WireFormat::of).transpose()?,
        parameters: Parameters { given: &head.parameters.0, dialect },
        stream: true,
        stream_options: dialect.takes_stream_options.then_some(StreamOptions { include_usage: true }),
        prompt_cache_key: cache.key.as_deref(),
        prompt_cache_retention: cache.retention.map(CacheRetention::word),
    };
    written(&body)
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
                Some(Content::Parts(vec![ContentPart::Text { text, cache_control: Some(mark) }]))
            }
            Some(Content::Parts(mut parts)) => {
                // The text stands in front of the files: they are behind the mark, and in front of the next one.
                if let Some(ContentPart::Text { cache_control, .. }) = parts.first_mut() {
                    *cache_control = Some(mark);
                }
                Some(Content::Parts(parts))
            }
            other => other,
        };
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<WireFormat<'a>>,
    #[serde(flatten)]
    parameters: Parameters<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

struct Parameters<'a> {
    given: &'a std::collections::BTreeMap<String, Value>,
    dialect: &'a Dialect,
}

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.given.iter().map(|(name, value)| match name.as_str() {
            "max_output_tokens" => (self.dialect.output_ceiling, value),
            "seed" => (self.dialect.seed, value),
            name => (name, value),
        }))
    }
}

#[derive(Default, Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Option<Content<'a>>,
    #[serde(flatten)]
    attached: Members,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireToolUse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    /// The files of a tool's result, which are sent behind it.
    #[serde(skip)]
    of_tool: Vec<ContentPart<'a>>,
}

impl<'a> WireMessage<'a> {
    fn said(role: &'static str, text: &'a str) -> Self {
        Self { role, content: Some(Content::Text(Cow::Borrowed(text))), ..Self::default() }
    }

    /// The message with the files of tools' results, if there are any.
    fn of_files(files: Vec<ContentPart<'a>>) -> Option<Self> {
        let content = |files| Some(Content::new(Cow::Borrowed(OF_TOOLS), files));
        (!files.is_empty()).then(|| Self { role: "user", content: content(files), ..Self::default() })
    }

    fn new(message: &'a Message, origin: &str, request: &Outgoing<'_>, dialect: &Dialect) -> Result<Self, Fault> {
        let (mut attached, mut tool_calls, mut files) = (Members::new(), Vec::new(), Vec::new());
        let mut of_call = Members::new();
        for part in message.parts() {
            match part {
                Part::File(file) if !request.carries(&OpenAiChat, message, &file.media_type) => {}
                Part::File(FileRef { digest, media_type, name }) => {
                    files.push(ContentPart::file(request.file(*digest, name)?, media_type, name)?);
                }
                Part::Reasoning { opaque, text } => match Attached::of(opaque.as_ref(), origin) {
                    Some(Attached::Text(member)) => {
                        attached.insert(member, to_raw_value(text).map_err(|error| refused(error.to_string()))?);
                    }
                    Some(Attached::Message(members)) => attached.extend(members),
                    Some(Attached::Call(members)) => of_call = members,
                    None => {}
                },
                Part::ToolCall(tool) => {
                    let own = std::mem::take(&mut of_call);
                    // Of the calls of one message only the first has a signature.
                    let foreign = dialect.foreign_call.filter(|_| own.is_empty() && tool_calls.is_empty());
                    let foreign = foreign.and_then(|json| RawValue::from_string(json.to_owned()).ok());
                    let attached = foreign.map(|extra| [("extra_content".to_owned(), extra)].into()).unwrap_or(own);
                    let function =
                        UsedFunction { name: fit_name(&tool.name), arguments: object_text(&tool.arguments)? };
                    let id = dialect.call_ids.fit(&tool.id);
                    tool_calls.push(WireToolUse { id, r#type: "function", function, attached });
                }
                Part::Text { .. } | Part::ToolResult { .. } => {}
            }
        }
        if request.form.has_empty_reasoning && !tool_calls.is_empty() && !attached.contains_key(REASONING_CONTENT) {
            attached.insert(REASONING_CONTENT.to_owned(), raw_json("reasoning", "\"\"")?.to_owned());
        }
        let text = request.result_text(&OpenAiChat, message);
        let of_tool = if message.role() == Speaker::Tool { std::mem::take(&mut files) } else { Vec::new() };
        // A message with only tool calls has no content: some servers refuse an empty one.
        let is_silent = text.is_empty() && !tool_calls.is_empty();
        let content = (!is_silent).then(|| Content::new(text, files));
        let tool_call_id = message.answers().map(|id| dialect.call_ids.fit(id));
        Ok(Self { role: message.role().as_str(), content, attached, tool_calls, tool_call_id, of_tool })
    }

    fn may_take(&self, next: &Self) -> bool {
        let is_plain = |message: &Self| {
            let is_text = matches!(message.content, None | Some(Content::Text(_)));
            is_text && message.tool_calls.is_empty() && message.attached.is_empty()
        };
        self.role == next.role && matches!(self.role, "user" | "assistant") && is_plain(self) && is_plain(next)
    }

    fn take(&mut self, next: Self) {
        if let (Some(Content::Text(text)), Some(Content::Text(more))) = (&mut self.content, next.content) {
            let text = text.to_mut();
            if !text.is_empty() && !more.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&more);
        }
    }
}

/// A text, or the same text in a part that can be marked, with files behind it.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

impl<'a> Content<'a> {
    fn new(text: Cow<'a, str>, files: Vec<ContentPart<'a>>) -> Self {
        if files.is_empty() {
            return Self::Text(text);
        }
        let said = (!text.is_empty()).then_some(ContentPart::Text { text, cache_control: None });
        Self::Parts(said.into_iter().chain(files).collect())
    }
}

/// <https://platform.openai.com/docs/guides/images-vision>,
/// <https://platform.openai.com/docs/guides/pdf-files>.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    InputAudio {
        input_audio: InputAudio,
    },
    File {
        file: FileData<'a>,
    },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct InputAudio {
    data: String,
    format: &'static str,
}

#[derive(Serialize)]
struct FileData<'a> {
    filename: &'a str,
    file_data: String,
}

impl<'a> ContentPart<'a> {
    fn file(bytes: &[u8], media_type: &str, name: &'a str) -> Result<Self, Fault> {
        let data_url = || data_url(media_type, bytes);
        Ok(match media_type {
            image if image.starts_with("image/") => Self::ImageUrl { image_url: ImageUrl { url: data_url() } },
            "audio/wav" | "audio/mpeg" => {
                let format = if media_type == "audio/wav" { "wav" } else { "mp3" };
                Self::InputAudio { input_audio: InputAudio { data: base64(bytes), format } }
            }
            "application/pdf" => Self::File { file: FileData { filename: name, file_data: data_url() } },
            text if text.starts_with("text/") || text == "application/json" => {
                let said = String::from_utf8_lossy(bytes);
                Self::Text { text: format!("{name}:\n\n{said}").into(), cache_control: None }
            }
            other => return Err(refused(format!("the provider takes no file of type {other}: {name}"))),
        })
    }
}

#[derive(Serialize)]
struct WireToolUse<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: UsedFunction<'a>,
    #[serde(flatten)]
    attached: Members,
}

#[derive(Serialize)]
struct UsedFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
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
    parameters: &'a RawValue,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireFormat<'a> {
    JsonObject,
    JsonSchema { json_schema: NamedSchema<'a> },
}

impl<'a> WireFormat<'a> {
    fn of(schema: &'a str) -> Result<Self, Fault> {
        Ok(NamedSchema::of(schema)?.map_or(Self::JsonObject, |json_schema| Self::JsonSchema { json_schema }))
    }
}

#[cfg(test)]
mod tests;

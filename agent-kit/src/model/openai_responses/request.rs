//! The bytes of a request.
//!
//! They are written from our own structs, as those of chat completions are. What does not change within a thread stands
//! in front of the items, so that a longer conversation begins with the bytes of a shorter one.
//!
//! The system text is the first item and not `instructions`: OpenAI caches a prefix up to the end of its first developer
//! message, which all threads share, and `instructions` have no such end
//! (<https://platform.openai.com/docs/guides/prompt-caching>). The request is the same at every visit either way.
//!
//! `include` is sent only where a server wants it: OpenAI encrypts reasoning by default, and refuses the wish for it with
//! models that do not reason.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::message::{FileRef, Message, Part, Speaker};
use serde::Serialize;
use serde::ser::Serializer;
use serde_json::value::RawValue;

use super::OpenAiResponses;
use super::attached::Attached;
use crate::model::opaque::{self, Members};
use crate::model::prompt_cache::{CacheRequest, CacheRetention};
use crate::model::protocol::{Outgoing, data_url, fit_name, object_text, refused, tools_by_name, written};
use crate::model::response_format::{NamedSchema, takes_strict};

/// The parameters that the API does not have.
pub(super) const IGNORED: [&str; 4] = ["frequency_penalty", "presence_penalty", "seed", "stop"];

/// The bytes sent, with the fields that ask the provider to cache the prefix.
pub(super) fn body(request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
    let Outgoing { call, dialect, .. } = *request;
    let cache = CacheRequest::of(request);
    let head = &call.head;
    let tools = tools_by_name(head)?.into_iter().map(|(tool, parameters)| {
        let (name, description, strict) = (&tool.name, &tool.description, takes_strict(&tool.parameters));
        WireTool { r#type: "function", name, description, parameters, strict }
    });
    let mut input = Vec::with_capacity(call.conversation.len() + 1);
    if !head.system.is_empty() {
        input.push(Item::message(dialect.system_role, vec![Content::InputText { text: Cow::Borrowed(&head.system) }]));
    }
    for message in call.conversation.messages() {
        match message.role() {
            Speaker::User => input.push(Item::message("user", contents(request, message)?)),
            Speaker::Assistant => push_answer(&mut input, request, message)?,
            Speaker::Tool => input.push(result(request, message)?),
        }
    }
    let body = Body {
        model: &head.model,
        store: false,
        stream: true,
        include: dialect.asks_for_reasoning.then_some(["reasoning.encrypted_content"]),
        parameters: Parameters(&head.parameters.0),
        text: head.response_format.as_deref().map(WireText::of).transpose()?,
        tools: tools.collect(),
        input,
        prompt_cache_key: cache.key.as_deref(),
        prompt_cache_retention: cache.retention.map(CacheRetention::word),
    };
    written(&body)
}

/// The texts and files of a message.
fn contents<'a>(request: &'a Outgoing<'_>, message: &'a Message) -> Result<Vec<Content<'a>>, Fault> {
    let content = |part: &'a Part| match part {
        Part::Text { text } => Ok(Some(Content::InputText { text: text.into() })),
        Part::ToolResult { .. } => {
            Ok(Some(Content::InputText { text: request.result_text(&OpenAiResponses, message) }))
        }
        Part::File(file) if !request.carries(&OpenAiResponses, message, &file.media_type) => Ok(None),
        Part::File(FileRef { digest, media_type, name }) => {
            let data_url = data_url(media_type, request.file(*digest, name)?);
            Ok(Some(if media_type.starts_with("image/") {
                Content::InputImage { detail: "auto", image_url: data_url }
            } else {
                Content::InputFile { filename: name, file_data: data_url }
            }))
        }
        Part::Reasoning { .. } | Part::ToolCall(_) => Ok(None),
    };
    message.parts().iter().filter_map(|part| content(part).transpose()).collect()
}

/// The items of an answer in the order of its parts.
///
/// Reasoning is sent with the text or the call that it led to: the API refuses reasoning that nothing follows.
fn push_answer<'a>(input: &mut Vec<Item<'a>>, request: &Outgoing<'_>, message: &'a Message) -> Result<(), Fault> {
    let origin = &opaque::origin(request.provider, &request.call.head.model);
    let (mut reasoning, mut of_message, mut of_call) = (Vec::new(), Members::new(), Members::new());
    for part in message.parts() {
        match part {
            Part::Reasoning { opaque, .. } => {
                let opaque = opaque.as_ref().filter(|_| !request.form.is_without_reasoning);
                match Attached::of(opaque, origin) {
                    Some(Attached::Reasoning(item)) => reasoning.push(Item::Reasoning(item)),
                    Some(Attached::Message(members)) => of_message = members,
                    Some(Attached::Call(members)) => of_call = members,
                    None => {}
                }
                continue;
            }
            Part::Text { text } => {
                input.append(&mut reasoning);
                input.push(Item::answer(text, std::mem::take(&mut of_message)));
            }
            Part::ToolCall(tool) => {
                input.append(&mut reasoning);
                let attached = std::mem::take(&mut of_call);
                let (call_id, name, arguments) = (&tool.id, fit_name(&tool.name), object_text(&tool.arguments)?);
                input.push(Item::FunctionCall { call_id, name, arguments, attached });
            }
            Part::File(FileRef { name, .. }) => return Err(refused(format!("an answer holds the file {name}"))),
            Part::ToolResult { .. } => {}
        }
        (of_message, of_call) = (Members::new(), Members::new());
    }
    Ok(())
}

/// The result of a tool call. The API has no word for a failed one: its text says so.
fn result<'a>(request: &'a Outgoing<'_>, message: &'a Message) -> Result<Item<'a>, Fault> {
    let output = match message.parts() {
        [Part::ToolResult { text, .. }] => TextOrContents::Text(text),
        _ => TextOrContents::Contents(contents(request, message)?),
    };
    Ok(Item::FunctionCallOutput { call_id: message.answers().unwrap_or_default(), output })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(flatten)]
    parameters: Parameters<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<WireText<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'static str>,
}

struct Parameters<'a>(&'a BTreeMap<String, Value>);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sent = self.0.iter().filter(|(name, _)| !IGNORED.contains(&name.as_str()));
        serializer.collect_map(sent.map(|(name, value)| match name.as_str() {
            "reasoning_effort" => {
                let effort = BTreeMap::from([("effort".to_owned(), value.clone())]);
                ("reasoning", Cow::Owned(Value::Object(effort)))
            }
            name => (name, Cow::Borrowed(value)),
        }))
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: TextOrContents<'a>,
        #[serde(flatten)]
        attached: Members,
    },
    FunctionCall {
        call_id: &'a str,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
        #[serde(flatten)]
        attached: Members,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: TextOrContents<'a>,
    },
    #[serde(untagged)]
    Reasoning(Box<RawValue>),
}

impl<'a> Item<'a> {
    fn message(role: &'static str, content: Vec<Content<'a>>) -> Self {
        Self::Message { role, content: TextOrContents::Contents(content), attached: Members::new() }
    }

    /// The text of an answer: an item as the server sent it if its id is known, else a message that is only a text. The
    /// API has no other form, and vLLM refuses one.
    fn answer(text: &'a str, mut attached: Members) -> Self {
        let is_item = ["id", "status"].iter().all(|name| attached.contains_key(*name));
        let content = if is_item {
            TextOrContents::Contents(vec![Content::OutputText { text, annotations: [] }])
        } else {
            attached.retain(|name, _| name == "phase");
            TextOrContents::Text(text)
        };
        Self::Message { role: "assistant", content, attached }
    }
}

/// A text, or a list of contents.
#[derive(Serialize)]
#[serde(untagged)]
enum TextOrContents<'a> {
    Text(&'a str),
    Contents(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str, annotations: [(); 0] },
    InputImage { detail: &'static str, image_url: String },
    InputFile { filename: &'a str, file_data: String },
}

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

#[derive(Serialize)]
struct WireText<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonObject,
    JsonSchema(NamedSchema<'a>),
}

impl<'a> WireText<'a> {
    fn of(schema: &'a str) -> Result<Self, Fault> {
        Ok(Self { format: NamedSchema::of(schema)?.map_or(Format::JsonObject, Format::JsonSchema) })
    }
}

#[cfg(test)]
mod tests;

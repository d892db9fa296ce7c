//! The bytes of a request: parameters, tools and system text in front, the messages last, so that a longer conversation
//! begins with the bytes of a shorter one.
//!
//! The prefix is cached by a mark on the system text, which all threads of a workflow share, and by the automatic mark
//! of a request, which the API moves to its last block
//! (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching#automatic-caching>). No mark stands within the
//! messages, where it would change the bytes of an earlier request.

use std::borrow::Cow;

use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::message::{FileRef, Message, Part, Speaker};
use rondo_protocol::object::Head;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Anthropic;
use super::models::{Model, Thinking};
use super::schema;
use super::thoughts::{Proof, Thought, misplaced};
use crate::model::opaque::Kept as _;
use crate::model::prompt_cache::{CacheControl, CacheRequest};
use crate::model::protocol::{
    NO_ANSWER, Outgoing, base64, fit_name, object_of, raw_json, refused, tools_by_name, written,
};
use crate::model::response_format::ANY_OBJECT;

/// Stands where a prompt was empty: a message must have a text that is not blank.
const NO_PROMPT: &str = "(no prompt)";

/// The least tokens that a model can be given to think.
const MIN_BUDGET_TOKENS: u64 = 1_024;

pub(super) fn body(request: &Outgoing<'_>) -> Result<Vec<u8>, Fault> {
    let head = &request.call.head;
    let model = Model::of(&head.model);
    let mark = CacheRequest::of(request).mark;
    let tools = tools_by_name(head)?.into_iter().map(|(tool, input_schema)| {
        let (name, description) = (&tool.name, &tool.description);
        WireTool { name, description, input_schema, cache_control: None }
    });
    let mut tools: Vec<_> = tools.collect();
    let has_system = !head.system.trim().is_empty();
    if let Some(last) = tools.last_mut().filter(|_| !has_system) {
        last.cache_control = mark;
    }
    let system = has_system.then(|| match mark {
        Some(_) => System::Blocks([TextBlock { r#type: "text", text: &head.system, cache_control: mark }]),
        None => System::Text(&head.system),
    });
    let (messages, open_turn) = messages(request, &model)?;
    let parameters = &head.parameters.0;
    let max_tokens = parameters.get("max_output_tokens").cloned().unwrap_or(Value::from(model.max_output_tokens));
    let effort = parameters.get("reasoning_effort").and_then(Value::as_str);
    let thinking = WireThinking::of(&model, effort, &max_tokens, open_turn);
    // A model that thinks with a budget takes no temperature.
    let takes_sampling = model.takes_sampling && !matches!(thinking, Some(WireThinking::Enabled { .. }));
    let sampling = |name: &str| parameters.get(name).filter(|_| takes_sampling);
    let body = Body {
        model: &head.model,
        max_tokens: &max_tokens,
        stream: true,
        thinking,
        output_config: OutputConfig::of(head, &model, effort)?,
        temperature: sampling("temperature"),
        top_p: sampling("top_p"),
        stop_sequences: parameters.get("stop"),
        cache_control: mark,
        tools,
        system,
        messages,
    };
    written(&body)
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: &'a Value,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<WireThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequences: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<System<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum System<'a> {
    Text(&'a str),
    Blocks([TextBlock<'a>; 1]),
}

#[derive(Serialize)]
struct TextBlock<'a> {
    r#type: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

/// Whether and how the model thinks; `None` leaves it to the model.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireThinking {
    Adaptive,
    Enabled { budget_tokens: u64 },
    Disabled,
}

impl WireThinking {
    fn of(model: &Model, effort: Option<&str>, max_tokens: &Value, open_turn: OpenTurn) -> Option<Self> {
        let effort = effort?;
        match (model.thinking, effort) {
            (Thinking::ByDefault | Thinking::OnRequest | Thinking::WithBudget, "none") => Some(Self::Disabled),
            (Thinking::Always | Thinking::ByDefault | Thinking::Never, _) => None,
            (Thinking::OnRequest, _) => Some(Self::Adaptive),
            // With a budget, a turn that has begun without a thought cannot be continued with one.
            (Thinking::WithBudget, _) if open_turn == OpenTurn::WithoutThought => None,
            (Thinking::WithBudget, _) => {
                let wanted = match effort {
                    "minimal" => MIN_BUDGET_TOKENS,
                    "low" => 4_096,
                    "medium" => 10_240,
                    _ => 24_576,
                };
                let Value::Int(max_tokens) = max_tokens else { return None };
                let max_tokens = u64::try_from(*max_tokens).unwrap_or_default();
                // The ceiling covers the thoughts, and what is left is the answer's.
                let budget_tokens = wanted.min(max_tokens / 2);
                (budget_tokens >= MIN_BUDGET_TOKENS).then_some(Self::Enabled { budget_tokens })
            }
        }
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    r#type: &'static str,
    schema: &'a RawValue,
}

impl<'a> OutputConfig<'a> {
    fn of(head: &'a Head, model: &Model, effort: Option<&'a str>) -> Result<Option<Self>, Fault> {
        let takes_effort = !matches!(model.thinking, Thinking::WithBudget | Thinking::Never);
        let effort = effort.filter(|_| takes_effort).and_then(|effort| match effort {
            // A model that always thinks is asked to think least.
            "none" => (model.thinking == Thinking::Always).then_some("low"),
            "minimal" => Some("low"),
            effort => Some(effort),
        });
        let schema = head.response_format.as_deref().filter(|_| model.takes_schema);
        let schema = schema.filter(|schema| *schema != ANY_OBJECT && schema::is_supported(schema));
        let schema = schema.map(|schema| raw_json("the schema of the answer", schema)).transpose()?;
        let format = schema.map(|schema| OutputFormat { r#type: "json_schema", schema });
        Ok((effort.is_some() || format.is_some()).then_some(Self { effort, format }))
    }
}

/// How the answer to the last prompt has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenTurn {
    NotYet,
    WithThought,
    WithoutThought,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Thinking {
        thinking: &'a str,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: FileSource<'a>,
    },
    Document {
        source: FileSource<'a>,
        title: &'a str,
    },
}

#[derive(Serialize)]
struct FileSource<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: String,
}

/// The messages as sent, neighbours of one role in one.
fn messages<'a>(request: &Outgoing<'a>, model: &Model) -> Result<(Vec<WireMessage<'a>>, OpenTurn), Fault> {
    let writer = Writer { request, keeps_thoughts: keeps_thoughts(request, model) };
    let mut all: Vec<WireMessage<'_>> = Vec::with_capacity(request.call.conversation.len());
    let mut open_turn = OpenTurn::NotYet;
    for message in request.call.conversation.messages() {
        let (role, content) = writer.message(message)?;
        open_turn = match (message.role(), open_turn) {
            (Speaker::User, _) => OpenTurn::NotYet,
            (Speaker::Assistant, OpenTurn::NotYet) => match content.first() {
                Some(Block::Thinking { .. } | Block::RedactedThinking { .. }) => OpenTurn::WithThought,
                _ => OpenTurn::WithoutThought,
            },
            (Speaker::Assistant | Speaker::Tool, turn) => turn,
        };
        match all.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => all.push(WireMessage { role, content }),
        }
    }
    Ok((all, open_turn))
}

/// Whether the conversation's thoughts hold where they stand now.
fn keeps_thoughts(request: &Outgoing<'_>, model: &Model) -> bool {
    if request.form.is_without_reasoning || !model.binds_thoughts {
        return !request.form.is_without_reasoning;
    }
    let call = request.call;
    misplaced(&call.head, &call.conversation, |provider| provider == request.provider).is_none()
}

struct Writer<'r, 'a> {
    request: &'r Outgoing<'a>,
    keeps_thoughts: bool,
}

impl<'a> Writer<'_, 'a> {
    /// A message's role and its blocks, of which there is at least one.
    fn message(&self, message: &'a Message) -> Result<(&'static str, Vec<Block<'a>>), Fault> {
        let (role, instead) = match message.role() {
            Speaker::User => ("user", NO_PROMPT),
            Speaker::Tool => ("user", NO_ANSWER),
            Speaker::Assistant => ("assistant", NO_ANSWER),
        };
        let mut content = Vec::with_capacity(message.parts().len());
        for part in message.parts() {
            let block = self.block(message, part)?;
            match (content.last_mut(), block) {
                // The files that a tool returned belong to its result.
                (Some(Block::ToolResult { content: result, .. }), Some(file)) => result.push(file),
                (_, block) => content.extend(block),
            }
        }
        // Thoughts alone are no message.
        let is_said =
            content.iter().any(|block| !matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. }));
        if !is_said {
            content.push(Block::Text { text: Cow::Borrowed(instead) });
        }
        Ok((role, content))
    }

    fn block(&self, message: &'a Message, part: &'a Part) -> Result<Option<Block<'a>>, Fault> {
        Ok(match part {
            Part::Text { text } => (!text.trim().is_empty()).then_some(Block::Text { text: Cow::Borrowed(text) }),
            Part::Reasoning { opaque, text } => {
                let thought = Thought::of(opaque.as_ref(), self.request.provider).filter(|_| self.keeps_thoughts);
                thought.map(|thought| match thought.proof {
                    Proof::Signature(signature) => Block::Thinking { thinking: text, signature },
                    Proof::Redacted(data) => Block::RedactedThinking { data },
                })
            }
            Part::ToolCall(tool) => Some(Block::ToolUse {
                id: self.request.dialect.call_ids.fit(&tool.id),
                name: fit_name(&tool.name),
                input: object_of(&tool.arguments)?,
            }),
            Part::ToolResult { failed, id, .. } => {
                let text = self.request.result_text(&Anthropic, message);
                let said = (!text.trim().is_empty()).then_some(Block::Text { text });
                let content = said.into_iter().collect();
                Some(Block::ToolResult {
                    tool_use_id: self.request.dialect.call_ids.fit(id),
                    content,
                    is_error: *failed,
                })
            }
            Part::File(file) if !self.request.carries(&Anthropic, message, &file.media_type) => None,
            Part::File(FileRef { digest, media_type, name }) => {
                let bytes = self.request.file(*digest, name)?;
                let source = FileSource { r#type: "base64", media_type, data: base64(bytes) };
                Some(match media_type.as_str() {
                    "image/jpeg" | "image/png" | "image/gif" | "image/webp" => Block::Image { source },
                    "application/pdf" => Block::Document { source, title: name },
                    other if other.starts_with("text/") => {
                        let data = String::from_utf8_lossy(bytes).into_owned();
                        let source = FileSource { r#type: "text", media_type: "text/plain", data };
                        Block::Document { source, title: name }
                    }
                    other => return Err(refused(format!("the provider takes no file of type {other}: {name}"))),
                })
            }
        })
    }
}

#[cfg(test)]
mod tests;

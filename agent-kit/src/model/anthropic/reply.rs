//! Assembles a reply from the events of a stream, or reads it as a whole
//! (<https://platform.claude.com/docs/en/build-with-claude/streaming>).
//!
//! Blocks are told apart by their index, because some servers have several open at once. Only `message_stop` ends a
//! stream: whatever is cut before it is no reply.

use rondo_protocol::call::{Fault, ModelAnswer};
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::{Finish, ModelReply, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::thoughts::{Beginning, Proof, Thought};
use super::usage::Counts;
use crate::model::bounded::{Budget, Items, MAX_ITEMS, MAX_TOOL_CALLS};
use crate::model::http::refusal;
use crate::model::openai_chat::text;
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::redact::Redactor;

/// An event of a stream, or a whole message. Unknown events and members are ignored, whatever they hold: a member is read
/// where its event is known.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    /// Of a whole message.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Counted<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    partial_json: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
}

/// A member of a known event; a missing one and `null` are its default.
fn member<'a, T: Deserialize<'a> + Default>(json: Option<&'a RawValue>, redactor: &Redactor) -> Result<T, Fault> {
    let json = json.filter(|json| json.get() != "null");
    json.map_or_else(|| Ok(T::default()), |json| refusal::event(json.get(), redactor))
}

/// The figures of a message or a delta. They never cost an answer, nor does what should hold them.
fn counted(json: Option<&RawValue>) -> Option<&RawValue> {
    serde_json::from_str::<Counted<'_>>(json?.get()).ok()?.usage
}

/// A block of the reply so far.
#[derive(Debug)]
enum Said {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    ToolUse {
        id: String,
        name: String,
        input: String,
        arguments: String,
    },
    /// Of a kind that is not known.
    Other,
}

impl Said {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Text(said) | Self::Redacted(said) => said.len(),
            Self::Thinking { text, signature } => text.len() + signature.len(),
            Self::ToolUse { id, name, input, arguments } => id.len() + name.len() + input.len() + arguments.len(),
            Self::Other => 0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Reply {
    budget: Budget,
    blocks: Vec<(u64, Said)>,
    finish: Option<Finish>,
    /// The fault of a stop reason that is not known; what it cost may follow.
    unknown_finish: Option<Fault>,
    has_stopped: bool,
    counts: Counts,
}

impl Reply {
    /// Starts a reply with at most `max_bytes` of text, reasoning and tool calls together.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            budget: Budget::new(max_bytes),
            blocks: Vec::new(),
            finish: None,
            unknown_finish: None,
            has_stopped: false,
            counts: Counts::default(),
        }
    }

    /// Begins a block. Returns the text that it has from its start.
    fn begin(&mut self, index: u64, block: &Block<'_>, redactor: &Redactor) -> Result<String, Fault> {
        let said = |json: Option<&RawValue>| member::<String>(json, redactor);
        let said = match text(block.r#type).unwrap_or_default().as_str() {
            "text" => Said::Text(said(block.text)?),
            "thinking" => Said::Thinking { text: said(block.thinking)?, signature: said(block.signature)? },
            "redacted_thinking" => Said::Redacted(said(block.data)?),
            "tool_use" => Said::ToolUse {
                id: said(block.id)?,
                name: said(block.name)?,
                input: block.input.map_or("", RawValue::get).to_owned(),
                arguments: String::new(),
            },
            _ => Said::Other,
        };
        self.budget.take(said.size_bytes())?;
        if self.blocks.len() >= MAX_ITEMS {
            return Err(too_large(format!("the reply has more than {MAX_ITEMS} blocks")));
        }
        let calls = self.blocks.iter().filter(|(_, said)| matches!(said, Said::ToolUse { .. })).count();
        if matches!(said, Said::ToolUse { .. }) && calls >= MAX_TOOL_CALLS {
            return Err(too_large(format!("the reply asks for more than {MAX_TOOL_CALLS} tools")));
        }
        if self.blocks.iter().any(|(known, _)| *known == index) {
            return Err(unreadable(format!("the provider began block {index} of the reply twice")));
        }
        let shown = if let Said::Text(text) = &said { text.clone() } else { String::new() };
        self.blocks.push((index, said));
        Ok(shown)
    }

    /// Adds to a block. Returns the text that it adds to what is shown.
    fn add(&mut self, index: u64, delta: &Delta<'_>, redactor: &Redactor) -> Result<String, Fault> {
        let kind = text(delta.r#type).unwrap_or_default();
        let piece = match kind.as_str() {
            "text_delta" => delta.text,
            "thinking_delta" => delta.thinking,
            "signature_delta" => delta.signature,
            "input_json_delta" => delta.partial_json,
            _ => return Ok(String::new()),
        };
        let piece: String = member(piece, redactor)?;
        self.budget.take(piece.len())?;
        let place = self.blocks.iter_mut().rev().find(|(known, _)| *known == index);
        match (place.map(|(_, said)| said), kind.as_str()) {
            (Some(Said::Text(so_far)), "text_delta") => {
                so_far.push_str(&piece);
                return Ok(piece);
            }
            (Some(Said::Thinking { text, .. }), "thinking_delta") => text.push_str(&piece),
            (Some(Said::Thinking { signature, .. }), "signature_delta") => signature.push_str(&piece),
            (Some(Said::ToolUse { arguments, .. }), "input_json_delta") => arguments.push_str(&piece),
            (Some(_), kind) => {
                return Err(unreadable(format!(
                    "the provider added a {kind} to block {index}, which is of another kind"
                )));
            }
            (None, _) => {
                return Err(unreadable(format!("the provider added to block {index} of the reply before it began")));
            }
        }
        Ok(String::new())
    }

    fn stop(&mut self, reason: Option<String>, redactor: &Redactor) {
        let Some(reason) = reason else { return };
        self.finish = known_finish(&reason);
        self.unknown_finish = self.finish.is_none().then(|| {
            let reason = refusal::words(&reason, redactor);
            unreadable(format!("the provider ended the reply with `{reason}`, which is no known stop reason"))
        });
    }
}

impl Assembly for Reply {
    fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        let event: Event<'_> = refusal::event(json, redactor)?;
        for usage in [counted(event.message), counted(event.delta), event.usage].into_iter().flatten() {
            self.counts.take(usage.get());
        }
        let index = || member::<u64>(event.index, redactor);
        match text(event.r#type).unwrap_or_default().as_str() {
            "content_block_start" => self.begin(index()?, &member(event.content_block, redactor)?, redactor),
            "content_block_delta" => self.add(index()?, &member(event.delta, redactor)?, redactor),
            "message_delta" => {
                let delta: Delta<'_> = member(event.delta, redactor)?;
                self.stop(member(delta.stop_reason, redactor)?, redactor);
                Ok(String::new())
            }
            "message_stop" => {
                self.has_stopped = true;
                Ok(String::new())
            }
            "error" => Err(refusal::of_error(event.error.map_or("null", RawValue::get), redactor)),
            "message" => {
                let mut shown = String::new();
                let content: Option<Items<Block<'_>>> = member(event.content, redactor)?;
                for (index, block) in (0..).zip(content.into_iter().flat_map(|content| content.0)) {
                    shown.push_str(&self.begin(index, &block, redactor)?);
                }
                self.stop(member(event.stop_reason, redactor)?, redactor);
                self.has_stopped = true;
                Ok(shown)
            }
            "" => match event.error.filter(|error| error.get() != "null") {
                Some(error) => Err(refusal::of_error(error.get(), redactor)),
                None => Ok(String::new()),
            },
            _ => Ok(String::new()),
        }
    }

    fn said_bytes(&self) -> usize {
        self.budget.said_bytes()
    }

    fn is_finished(&self) -> bool {
        self.has_stopped
    }

    fn is_closed(&self) -> bool {
        self.has_stopped
    }

    fn usage(&self) -> Option<Usage> {
        self.counts.usage()
    }

    fn complete(self: Box<Self>, request: &Outgoing<'_>, incomplete: Fault) -> Result<ModelAnswer, Fault> {
        let usage = self.usage();
        if !self.has_stopped {
            return Err(incomplete);
        }
        let Some(finish) = self.finish else { return Err(self.unknown_finish.unwrap_or(incomplete)) };
        // What was said before a refusal is not to be used
        // (<https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals>).
        let blocks = if finish == Finish::ContentFilter { Vec::new() } else { in_order(self.blocks) };
        let place = Beginning::of(&request.call.head).before(request.call.conversation.chain());
        let mut parts = Parts::default();
        for (at, said) in blocks.into_iter().enumerate() {
            match said {
                Said::Text(text) => parts.push(Part::Text { text }),
                Said::Thinking { text, signature } if signature.is_empty() => {
                    parts.push(Part::Reasoning { opaque: None, text });
                }
                Said::Thinking { text, signature } => {
                    parts.push(Thought::new(Proof::Signature(signature), &place).part(request.provider, text));
                }
                Said::Redacted(data) => {
                    parts.push(Thought::new(Proof::Redacted(data), &place).part(request.provider, String::new()));
                }
                Said::ToolUse { id, name, input, arguments } => {
                    let id = if id.is_empty() { format!("call_{}_{at}", request.call.ordinal) } else { id };
                    let arguments = if arguments.is_empty() { input } else { arguments };
                    parts.push(Part::ToolCall(ToolUse { arguments, id, name }));
                }
                Said::Other => {}
            }
        }
        Ok(ModelAnswer { reply: ModelReply { finish, parts }, usage, cost_usd: None })
    }
}

fn in_order(mut blocks: Vec<(u64, Said)>) -> Vec<Said> {
    blocks.sort_by_key(|(index, _)| *index);
    blocks.into_iter().map(|(_, said)| said).collect()
}

/// <https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons>. `pause_turn` is of tools that the
/// provider runs itself, which are not offered.
fn known_finish(reason: &str) -> Option<Finish> {
    match reason {
        "end_turn" | "stop_sequence" => Some(Finish::Stop),
        "max_tokens" | "model_context_window_exceeded" => Some(Finish::Length),
        "tool_use" => Some(Finish::ToolCalls),
        "refusal" => Some(Finish::ContentFilter),
        _ => None,
    }
}
#[cfg(test)]
mod tests;

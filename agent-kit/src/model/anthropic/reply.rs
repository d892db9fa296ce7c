//! Assembles a reply from the events of a stream, or reads it as a whole
//! (<https://platform.claude.com/docs/en/build-with-claude/streaming>).
//!
//! Blocks are told apart by their index, because some servers have several open at once. Only `message_stop` ends a
//! stream: whatever is cut before it is no reply.

use rondo_protocol::call::Fault;
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::Finish;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::thoughts::{Proof, Thought, beginning, place};
use super::usage::Counts;
use crate::model::bounded::{Items, MAX_ITEMS, Progress, text};
use crate::model::http::refusal;
use crate::model::opaque::Kept as _;
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::redact::Redactor;

/// The members that are read of an event, a message, a block, and what is added to one. Unknown events and members are
/// ignored, whatever they hold: a member is read where its event is known.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Incoming<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    // Of an event.
    index: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    content_block: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    // Of a message.
    content: Option<&'a RawValue>,
    stop_reason: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    // Of a block.
    text: Option<&'a RawValue>,
    thinking: Option<&'a RawValue>,
    signature: Option<&'a RawValue>,
    data: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
    partial_json: Option<&'a RawValue>,
}

/// A member of a known event; a missing one and `null` are its default.
fn member<'a, T: Deserialize<'a> + Default>(json: Option<&'a RawValue>, redactor: &Redactor) -> Result<T, Fault> {
    json.map_or_else(|| Ok(T::default()), |json| refusal::event(json.get(), redactor))
}

/// The figures of a message or a delta. They never cost an answer, nor does what should hold them.
fn counted(json: Option<&RawValue>) -> Option<&RawValue> {
    serde_json::from_str::<Incoming<'_>>(json?.get()).ok()?.usage
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

#[derive(Debug, Default)]
pub(super) struct Reply {
    progress: Progress,
    blocks: Vec<(u64, Said)>,
    has_stopped: bool,
    counts: Counts,
}

impl Reply {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { progress: Progress::new(max_bytes), ..Self::default() }
    }

    /// Begins a block. Returns the text that it has from its start.
    fn begin(&mut self, index: u64, block: &Incoming<'_>, redactor: &Redactor) -> Result<String, Fault> {
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
        self.progress.take(said.size_bytes())?;
        if self.blocks.len() >= MAX_ITEMS {
            return Err(too_large(format!("the reply has more than {MAX_ITEMS} blocks")));
        }
        if matches!(said, Said::ToolUse { .. }) {
            self.progress.take_call()?;
        }
        if self.blocks.iter().any(|(known, _)| *known == index) {
            return Err(unreadable(format!("the provider began block {index} of the reply twice")));
        }
        let shown = if let Said::Text(text) = &said { text.clone() } else { String::new() };
        self.blocks.push((index, said));
        Ok(shown)
    }

    /// Adds to a block. Returns the text that it adds to what is shown.
    fn add(&mut self, index: u64, delta: &Incoming<'_>, redactor: &Redactor) -> Result<String, Fault> {
        let kind = text(delta.r#type).unwrap_or_default();
        let piece = match kind.as_str() {
            "text_delta" => delta.text,
            "thinking_delta" => delta.thinking,
            "signature_delta" => delta.signature,
            "input_json_delta" => delta.partial_json,
            _ => return Ok(String::new()),
        };
        let piece: String = member(piece, redactor)?;
        self.progress.take(piece.len())?;
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
        if let Some(reason) = reason {
            self.progress.end(known_finish(&reason), "stop reason", &reason, redactor);
        }
    }
}

impl Assembly for Reply {
    fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        let event: Incoming<'_> = refusal::event(json, redactor)?;
        for usage in [counted(event.message), counted(event.delta), event.usage].into_iter().flatten() {
            self.counts.take(usage.get());
        }
        self.progress.usage = self.counts.usage();
        let index = || member::<u64>(event.index, redactor);
        match text(event.r#type).unwrap_or_default().as_str() {
            "content_block_start" => self.begin(index()?, &member(event.content_block, redactor)?, redactor),
            "content_block_delta" => self.add(index()?, &member(event.delta, redactor)?, redactor),
            "message_delta" => {
                let delta: Incoming<'_> = member(event.delta, redactor)?;
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
                let content: Option<Items<Incoming<'_>>> = member(event.content, redactor)?;
                for (index, block) in (0..).zip(content.into_iter().flat_map(|content| content.0)) {
                    shown.push_str(&self.begin(index, &block, redactor)?);
                }
                self.stop(member(event.stop_reason, redactor)?, redactor);
                self.has_stopped = true;
                Ok(shown)
            }
            "" => match event.error {
                Some(error) => Err(refusal::of_error(error.get(), redactor)),
                None => Ok(String::new()),
            },
            _ => Ok(String::new()),
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn finish(&self) -> Option<Result<Finish, Fault>> {
        self.progress.end.clone().filter(|_| self.has_stopped)
    }

    fn is_closed(&self) -> bool {
        self.has_stopped
    }

    fn parts(self: Box<Self>, request: &Outgoing<'_>) -> Parts {
        // What was said before a refusal is not to be used
        // (<https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals>).
        let is_refused = matches!(self.progress.end, Some(Ok(Finish::ContentFilter)));
        let mut blocks = if is_refused { Vec::new() } else { self.blocks };
        blocks.sort_by_key(|(index, _)| *index);
        let place = place(&beginning(&request.call.head), request.call.conversation.chain());
        let mut parts = Parts::default();
        for (at, (_, said)) in blocks.into_iter().enumerate() {
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
                    let arguments = if arguments.is_empty() { input } else { arguments };
                    parts.push(Part::ToolCall(ToolUse { arguments, id: request.call_id(id, at), name }));
                }
                Said::Other => {}
            }
        }
        parts
    }
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

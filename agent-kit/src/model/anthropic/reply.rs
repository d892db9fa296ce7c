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
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::redact::Redactor;

/// An event of a stream, or a whole message. Unknown events and members are ignored.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    index: u64,
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
    #[serde(default, borrow)]
    content_block: Option<Block<'a>>,
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    /// Of a whole message.
    #[serde(default, borrow)]
    content: Option<Items<Block<'a>>>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    signature: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default, borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    signature: String,
    #[serde(default)]
    partial_json: String,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default, borrow)]
    usage: Option<&'a RawValue>,
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
    fn begin(&mut self, index: u64, block: Block<'_>) -> Result<String, Fault> {
        let Block { r#type, text, thinking, signature, data, id, name, input } = block;
        let input = input.map_or("", RawValue::get);
        let sizes = [&text, &thinking, &signature, &data, &id, &name].map(String::len);
        self.budget.take(sizes.into_iter().sum::<usize>().saturating_add(input.len()))?;
        let said = match r#type.as_str() {
            "text" => Said::Text(text.clone()),
            "thinking" => Said::Thinking { text: thinking, signature },
            "redacted_thinking" => Said::Redacted(data),
            "tool_use" => Said::ToolUse { id, name, input: input.to_owned(), arguments: String::new() },
            _ => Said::Other,
        };
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
        self.blocks.push((index, said));
        Ok(if r#type == "text" { text } else { String::new() })
    }

    /// Adds to a block. Returns the text that it adds to what is shown.
    fn add(&mut self, index: u64, delta: Delta<'_>) -> Result<String, Fault> {
        let Delta { text, thinking, signature, partial_json, .. } = delta;
        let sizes = [&text, &thinking, &signature, &partial_json].map(String::len);
        self.budget.take(sizes.into_iter().sum())?;
        let place = self.blocks.iter_mut().rev().find(|(known, _)| *known == index);
        match (place.map(|(_, said)| said), delta.r#type.as_str()) {
            (Some(Said::Text(so_far)), "text_delta") => {
                so_far.push_str(&text);
                return Ok(text);
            }
            (Some(Said::Thinking { text, .. }), "thinking_delta") => text.push_str(&thinking),
            (Some(Said::Thinking { signature: so_far, .. }), "signature_delta") => so_far.push_str(&signature),
            (Some(Said::ToolUse { arguments, .. }), "input_json_delta") => arguments.push_str(&partial_json),
            (Some(_), "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") => {
                return Err(unreadable(format!(
                    "the provider added a {} to block {index}, which is of another kind",
                    delta.r#type
                )));
            }
            (None, "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") => {
                return Err(unreadable(format!("the provider added to block {index} of the reply before it began")));
            }
            (_, _) => {}
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
        let of_message = event.message.and_then(|message| message.usage);
        let of_delta = event.delta.as_ref().and_then(|delta| delta.usage);
        for usage in [of_message, of_delta, event.usage].into_iter().flatten() {
            self.counts.take(usage.get());
        }
        match (event.r#type.as_str(), event.content_block, event.delta) {
            ("content_block_start", Some(block), _) => self.begin(event.index, block),
            ("content_block_delta", _, Some(delta)) => self.add(event.index, delta),
            ("message_delta", _, Some(delta)) => {
                self.stop(delta.stop_reason, redactor);
                Ok(String::new())
            }
            ("message_stop", ..) => {
                self.has_stopped = true;
                Ok(String::new())
            }
            ("error", ..) => Err(refusal::of_error(event.error.map_or("null", RawValue::get), redactor)),
            ("message", ..) => {
                let mut shown = String::new();
                for (index, block) in (0..).zip(event.content.into_iter().flat_map(|content| content.0)) {
                    shown.push_str(&self.begin(index, block)?);
                }
                self.stop(event.stop_reason, redactor);
                self.has_stopped = true;
                Ok(shown)
            }
            _ => match event.error.filter(|error| error.get() != "null") {
                Some(error) => Err(refusal::of_error(error.get(), redactor)),
                None => Ok(String::new()),
            },
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

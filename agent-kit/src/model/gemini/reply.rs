//! Assembles a reply from the answers of a stream, or reads it as a whole.
//!
//! Each event is a whole answer with the next parts (<https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse>).
//! A server that was not asked for events sends them as one list.

use std::fmt;

use rondo_protocol::call::{Fault, ModelAnswer};
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::{Finish, ModelReply, Usage};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use super::attached::{Attached, Signature};
use super::usage;
use crate::model::bounded::{Budget, Items, MAX_ITEMS, MAX_TOOL_CALLS};
use crate::model::http::refusal;
use crate::model::opaque;
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::redact::Redactor;

/// An answer, or an error. Every field may be missing, unknown fields are ignored, and what is not of the type that it
/// should be is read as far as it can be.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(default, borrow)]
    candidates: Option<Items<Candidate<'a>>>,
    #[serde(default, borrow)]
    prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(default, borrow)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default, borrow)]
    index: Option<&'a RawValue>,
    #[serde(default, borrow)]
    content: Option<Content<'a>>,
    #[serde(default, borrow)]
    finish_reason: Option<&'a RawValue>,
    #[serde(default, borrow)]
    finish_message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(default, borrow)]
    block_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(default, borrow)]
    parts: Option<Items<ReadPart<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadPart<'a> {
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    thought: Option<&'a RawValue>,
    #[serde(default, borrow)]
    thought_signature: Option<&'a RawValue>,
    #[serde(default, borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    name: Option<&'a RawValue>,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
}

/// A part so far. Texts are joined where none of them has a signature.
#[derive(Debug)]
enum Said {
    Text { text: String, signature: Option<Signature> },
    Thought { text: String, signature: Option<Signature> },
    Call { id: String, name: String, arguments: String, signature: Option<Signature> },
}

#[derive(Debug)]
pub(super) struct Reply {
    budget: Budget,
    said: Vec<Said>,
    calls: usize,
    has_candidate: bool,
    /// Whether the prompt was refused.
    is_blocked: bool,
    finish: Option<Finish>,
    /// The fault of a finish reason with which no reply is complete; what it cost may follow.
    broken: Option<Fault>,
    usage: Option<Usage>,
}

impl Reply {
    /// Starts a reply with at most `max_bytes` of text, thoughts, signatures and tool calls together.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            budget: Budget::new(max_bytes),
            said: Vec::new(),
            calls: 0,
            has_candidate: false,
            is_blocked: false,
            finish: None,
            broken: None,
            usage: None,
        }
    }

    fn take_answer(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        let answer: Answer<'_> = refusal::event(json, redactor)?;
        // The figures grow, and the last ones count.
        if let Some(usage) = answer.usage_metadata.and_then(|counted| usage::read(counted.get())) {
            self.usage = Some(usage);
        }
        if let Some(error) = answer.error.filter(|error| error.get() != "null") {
            return Err(refusal::of_error(error.get(), redactor));
        }
        let mut shown = String::new();
        // Only one candidate was requested.
        let is_first = |candidate: &Candidate<'_>| number(candidate.index).unwrap_or(0) == 0;
        if let Some(candidate) = answer.candidates.into_iter().flat_map(|all| all.0).find(is_first) {
            self.has_candidate = true;
            let parts = candidate.content.and_then(|content| content.parts);
            for part in parts.into_iter().flat_map(|parts| parts.0) {
                self.take_part(part, &mut shown)?;
            }
            if let Some(reason) = text(candidate.finish_reason).filter(|reason| !reason.is_empty()) {
                self.finish = known_finish(&reason);
                self.broken = self.finish.is_none().then(|| broken(&reason, candidate.finish_message, redactor));
            }
        }
        let block_reason = answer.prompt_feedback.and_then(|feedback| text(feedback.block_reason));
        self.is_blocked |=
            block_reason.is_some_and(|reason| !matches!(reason.as_str(), "" | "BLOCKED_REASON_UNSPECIFIED"));
        Ok(shown)
    }

    fn take_part(&mut self, part: ReadPart<'_>, shown: &mut String) -> Result<(), Fault> {
        let signature = part.thought_signature.filter(|signature| {
            let is_text = signature.get().starts_with('"');
            is_text && signature.get() != "\"\""
        });
        self.budget.take(signature.map_or(0, |signature| signature.get().len()))?;
        let signature = signature.map(ToOwned::to_owned);
        if let Some(call) = part.function_call {
            return self.take_call(&call, signature);
        }
        // A part of another kind holds nothing that was asked for.
        let Some(text) = text(part.text) else { return Ok(()) };
        self.budget.take(text.len())?;
        let is_thought = part.thought.is_some_and(|thought| thought.get() == "true");
        if !is_thought {
            shown.push_str(&text);
        }
        match self.said.last_mut() {
            Some(Said::Text { text: before, signature: None }) if !is_thought && signature.is_none() => {
                before.push_str(&text);
            }
            Some(Said::Thought { text: before, signature: None }) if is_thought && signature.is_none() => {
                before.push_str(&text);
            }
            _ if text.is_empty() && signature.is_none() => {}
            _ if is_thought => self.push(Said::Thought { text, signature })?,
            _ => self.push(Said::Text { text, signature })?,
        }
        Ok(())
    }

    fn take_call(&mut self, call: &FunctionCall<'_>, signature: Option<Signature>) -> Result<(), Fault> {
        let (id, name) = (text(call.id).unwrap_or_default(), text(call.name).unwrap_or_default());
        // A call without arguments may leave them out.
        let arguments = call.args.map(RawValue::get).filter(|args| *args != "null").unwrap_or("{}");
        self.budget.take(id.len().saturating_add(name.len()).saturating_add(arguments.len()))?;
        if self.calls >= MAX_TOOL_CALLS {
            return Err(too_large(format!("the reply asks for more than {MAX_TOOL_CALLS} tools")));
        }
        self.calls += 1;
        self.push(Said::Call { id, name, arguments: arguments.to_owned(), signature })
    }

    fn push(&mut self, said: Said) -> Result<(), Fault> {
        if self.said.len() >= MAX_ITEMS {
            return Err(too_large(format!("the reply has more than {MAX_ITEMS} parts")));
        }
        self.said.push(said);
        Ok(())
    }

    /// The finish reason. A refused prompt has no candidate.
    fn finish(&self) -> Option<Finish> {
        match &self.finish {
            Some(Finish::Stop) if self.calls > 0 => Some(Finish::ToolCalls),
            None if self.is_blocked && !self.has_candidate => Some(Finish::ContentFilter),
            finish => finish.clone(),
        }
    }

    fn parts(self, origin: &str, ordinal: u64) -> Parts {
        let (mut parts, mut at) = (Parts::default(), 0);
        for said in self.said {
            match said {
                Said::Thought { text, signature: None } => parts.push(Part::Reasoning { opaque: None, text }),
                Said::Thought { text, signature: Some(signature) } => {
                    parts.push(Attached::Thought(signature).part(origin, text));
                }
                Said::Text { text, signature: None } => {
                    if matches!(parts.as_slice().last(), Some(Part::Text { .. })) {
                        parts.push(Attached::PlainText.part(origin, String::new()));
                    }
                    parts.push(Part::Text { text });
                }
                Said::Text { text, signature: Some(signature) } => {
                    let is_empty = text.is_empty();
                    let attached = if is_empty { Attached::EmptyText(signature) } else { Attached::Text(signature) };
                    parts.push(attached.part(origin, String::new()));
                    parts.push(Part::Text { text });
                }
                Said::Call { id, name, arguments, signature } => {
                    let has_id = !id.is_empty();
                    if has_id || signature.is_some() {
                        parts.push(Attached::Call { has_id, signature }.part(origin, String::new()));
                    }
                    let id = if has_id { id } else { format!("call_{ordinal}_{at}") };
                    parts.push(Part::ToolCall(ToolUse { arguments, id, name }));
                    at += 1;
                }
            }
        }
        parts
    }
}

impl Assembly for Reply {
    fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        if !json.trim_start().starts_with('[') {
            return self.take_answer(json, redactor);
        }
        let (mut shown, mut fault) = (String::new(), None);
        let take = |answer: &RawValue| match self.take_answer(answer.get(), redactor) {
            Ok(added) => {
                shown.push_str(&added);
                true
            }
            Err(its) => {
                fault = Some(its);
                false
            }
        };
        let mut list = serde_json::Deserializer::from_str(json);
        let read = list.deserialize_seq(Each(take)).and_then(|()| list.end());
        match (fault, read) {
            (Some(fault), _) => Err(fault),
            (None, Ok(())) => Ok(shown),
            (None, Err(error)) => Err(refusal::unread(&error, redactor)),
        }
    }

    fn said_bytes(&self) -> usize {
        self.budget.said_bytes()
    }

    fn is_finished(&self) -> bool {
        self.finish().is_some() || self.broken.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn complete(self: Box<Self>, request: &Outgoing<'_>, incomplete: Fault) -> Result<ModelAnswer, Fault> {
        let usage = self.usage;
        let Some(finish) = self.finish() else { return Err(self.broken.unwrap_or(incomplete)) };
        let origin = opaque::origin(request.provider, &request.call.head.model);
        let parts = self.parts(&origin, request.call.ordinal);
        Ok(ModelAnswer { reply: ModelReply { finish, parts }, usage, cost_usd: None })
    }
}

/// Takes the items of a list one by one, until one is not taken.
struct Each<F>(F);

impl<'de, F: FnMut(&'de RawValue) -> bool> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of answers")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            if !(self.0)(item) {
                return Err(A::Error::custom("an answer cannot be taken"));
            }
        }
        Ok(())
    }
}

/// A text, if it is one.
fn text(json: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(json?.get()).ok()
}

/// A number that may be written as a text.
fn number(json: Option<&RawValue>) -> Option<u64> {
    json?.get().trim_matches('"').parse().ok()
}

/// Translates a finish reason (<https://ai.google.dev/api/generate-content#FinishReason>). `None` for one with which a
/// reply is broken, and for one that is not known.
fn known_finish(word: &str) -> Option<Finish> {
    match word {
        "STOP" => Some(Finish::Stop),
        "MAX_TOKENS" => Some(Finish::Length),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "ESCALATION"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Some(Finish::ContentFilter),
        _ => None,
    }
}

/// The fault for a reply that its finish reason calls broken, such as `MALFORMED_FUNCTION_CALL`: another attempt may
/// succeed.
fn broken(reason: &str, message: Option<&RawValue>, redactor: &Redactor) -> Fault {
    let reason = refusal::words(reason, redactor);
    let message = text(message).map(|message| refusal::words(&message, redactor)).filter(|words| !words.is_empty());
    let words = message.map(|words| format!(": {words}")).unwrap_or_default();
    unreadable(format!("the provider ended the reply with `{reason}`{words}"))
}

#[cfg(test)]
mod tests;

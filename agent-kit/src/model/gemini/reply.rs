//! Assembles a reply from the answers of a stream, or reads it as a whole.
//!
//! Each event is a whole answer with the next parts (<https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse>).
//! A server that was not asked for events sends them as one list.

use rondo_protocol::call::Fault;
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::Finish;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::attached::{Attached, Signature};
use super::usage;
use crate::model::bounded::{Items, MAX_ITEMS, Progress, each, number, text};
use crate::model::http::refusal;
use crate::model::opaque::{self, Kept as _};
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::redact::Redactor;

/// An answer, or an error. Every field may be missing, unknown fields are ignored, and what is not of the type that it
/// should be is read as far as it can be.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow)]
    candidates: Option<Items<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedback<'a>>,
    usage_metadata: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    content: Option<Content<'a>>,
    finish_reason: Option<&'a RawValue>,
    finish_message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow)]
    block_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Items<ReadPart<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadPart<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    thought: Option<&'a RawValue>,
    thought_signature: Option<&'a RawValue>,
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    args: Option<&'a RawValue>,
}

/// A part so far. Texts are joined where none of them has a signature.
#[derive(Debug)]
enum Said {
    Text { is_thought: bool, text: String, signature: Option<Signature> },
    Call { id: String, name: String, arguments: String, signature: Option<Signature> },
}

#[derive(Debug, Default)]
pub(super) struct Reply {
    progress: Progress,
    said: Vec<Said>,
    has_candidate: bool,
    /// Whether the prompt was refused.
    is_blocked: bool,
}

impl Reply {
    /// Begins a reply, whose signatures count too.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { progress: Progress::new(max_bytes), ..Self::default() }
    }

    fn take_answer(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        let answer: Answer<'_> = refusal::event(json, redactor)?;
        // The figures grow.
        self.progress.count(answer.usage_metadata.and_then(|counted| usage::read(counted.get())));
        if let Some(error) = answer.error {
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
                let broken = || broken(&reason, candidate.finish_message, redactor);
                self.progress.end = Some(known_finish(&reason).ok_or_else(broken));
            }
        }
        let block_reason = answer.prompt_feedback.and_then(|feedback| text(feedback.block_reason));
        self.is_blocked |=
            block_reason.is_some_and(|reason| !matches!(reason.as_str(), "" | "BLOCKED_REASON_UNSPECIFIED"));
        Ok(shown)
    }

    fn take_part(&mut self, part: ReadPart<'_>, shown: &mut String) -> Result<(), Fault> {
        let is_some = |text: &&RawValue| text.get().starts_with('"') && text.get() != "\"\"";
        let signature = part.thought_signature.filter(is_some);
        self.progress.take(signature.map_or(0, |signature| signature.get().len()))?;
        let signature = signature.map(ToOwned::to_owned);
        if let Some(call) = part.function_call {
            return self.take_call(&call, signature);
        }
        // A part of another kind holds nothing that was asked for.
        let Some(text) = text(part.text) else { return Ok(()) };
        self.progress.take(text.len())?;
        let is_thought = part.thought.is_some_and(|thought| thought.get() == "true");
        if !is_thought {
            shown.push_str(&text);
        }
        match self.said.last_mut() {
            Some(Said::Text { is_thought: before, text: said, signature: None })
                if *before == is_thought && signature.is_none() =>
            {
                said.push_str(&text);
            }
            _ if text.is_empty() && signature.is_none() => {}
            _ => self.push(Said::Text { is_thought, text, signature })?,
        }
        Ok(())
    }

    fn take_call(&mut self, call: &FunctionCall<'_>, signature: Option<Signature>) -> Result<(), Fault> {
        let (id, name) = (text(call.id).unwrap_or_default(), text(call.name).unwrap_or_default());
        // A call without arguments may leave them out.
        let arguments = call.args.map_or("{}", RawValue::get);
        self.progress.take(id.len() + name.len() + arguments.len())?;
        self.progress.take_call()?;
        self.push(Said::Call { id, name, arguments: arguments.to_owned(), signature })
    }

    fn push(&mut self, said: Said) -> Result<(), Fault> {
        if self.said.len() >= MAX_ITEMS {
            return Err(too_large(format!("the reply has more than {MAX_ITEMS} parts")));
        }
        self.said.push(said);
        Ok(())
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
                Ok(())
            }
            Err(its) => {
                fault = Some(its);
                Err(String::new())
            }
        };
        let mut list = serde_json::Deserializer::from_str(json);
        let read = each(&mut list, format_args!("a list of answers"), take).and_then(|()| list.end());
        match (fault, read) {
            (Some(fault), _) => Err(fault),
            (None, Ok(())) => Ok(shown),
            (None, Err(error)) => Err(refusal::unread(&error, redactor)),
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    /// A refused prompt has no candidate.
    fn finish(&self) -> Option<Result<Finish, Fault>> {
        match &self.progress.end {
            Some(Ok(Finish::Stop)) if self.progress.has_calls() => Some(Ok(Finish::ToolCalls)),
            None if self.is_blocked && !self.has_candidate => Some(Ok(Finish::ContentFilter)),
            end => end.clone(),
        }
    }

    fn parts(self: Box<Self>, request: &Outgoing<'_>) -> Parts {
        let origin = &opaque::origin(request.provider, &request.call.head.model);
        let (mut parts, mut at) = (Parts::default(), 0);
        for said in self.said {
            match said {
                Said::Text { is_thought: true, text, signature } => parts.push(match signature {
                    Some(signature) => Attached::Thought(signature).part(origin, text),
                    None => Part::Reasoning { opaque: None, text },
                }),
                Said::Text { text, signature: None, .. } => {
                    if matches!(parts.as_slice().last(), Some(Part::Text { .. })) {
                        parts.push(Attached::PlainText.part(origin, String::new()));
                    }
                    parts.push(Part::Text { text });
                }
                Said::Text { text, signature: Some(signature), .. } => {
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
                    parts.push(Part::ToolCall(ToolUse { arguments, id: request.call_id(id, at), name }));
                    at += 1;
                }
            }
        }
        parts
    }
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

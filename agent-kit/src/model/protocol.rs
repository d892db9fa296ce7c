//! What a provider's protocol is: a pure pair, the bytes of a request and the reply from what arrives.
//!
//! A protocol knows no connection, no clock and no retry, and it sees a key only to name the headers that carry it. All
//! of that is [`super::http`]'s.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::HeaderMap;
use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::{Conversation, Message, Parts, Speaker};
use rondo_protocol::object::{Finish, Head, ModelReply, ToolSpec};
use serde::Serialize;
use serde_json::value::RawValue;

use super::bounded::Progress;
use super::dialects::Dialect;
use super::http::{Refusal, SettingsError};
use super::prompt_cache::{CacheRetention, PromptCache};
use super::{anthropic, gemini, openai_chat, openai_responses};
use crate::redact::{Redactor, Secret};

pub static ALL: &[&dyn Protocol] =
    &[&openai_chat::OpenAiChat, &openai_responses::OpenAiResponses, &anthropic::Anthropic, &gemini::Gemini];

/// The protocol of that name in settings.
#[cfg(test)]
pub(super) fn named(name: &str) -> Option<&'static dyn Protocol> {
    ALL.iter().copied().find(|protocol| protocol.name() == name)
}

/// The protocol that the server at that address is known to speak.
pub fn at(base_url: &str) -> Option<&'static dyn Protocol> {
    ALL.iter().copied().find(|protocol| protocol.is_at(base_url))
}

/// The protocol that a server speaks of which nothing is known.
pub const COMMON: &dyn Protocol = &openai_chat::OpenAiChat;

/// The number, from 1, of the first message whose reasoning no longer holds where it stands, whoever sent it.
pub fn misplaced_reasoning(head: &Head, conversation: &Conversation) -> Option<usize> {
    ALL.iter().find_map(|protocol| protocol.misplaced_reasoning(head, conversation))
}

/// A protocol between this program and a provider.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Its name in settings.
    fn name(&self) -> &'static str;

    /// The service that is asked where the settings name no address.
    fn service(&self) -> Service;

    /// Whether the server at that address is known to speak it.
    fn is_at(&self, base_url: &str) -> bool;

    /// The address of a request with this head; `base` has no slash at its end.
    fn url(&self, base: &str, head: &Head) -> String;

    /// The address of the list of models; `base` has no slash at its end.
    fn models_url(&self, base: &str) -> String {
        format!("{base}/models")
    }

    /// Headers of every request, with the key if there is one.
    ///
    /// # Errors
    /// [`SettingsError::Key`] for a key that no header can carry.
    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, SettingsError>;

    /// The bytes of a request: the same for equal heads and messages.
    ///
    /// # Errors
    /// A refused request when the protocol cannot carry something of it.
    fn body(&self, request: &Outgoing<'_>) -> Result<Vec<u8>, Fault>;

    /// Begins a reply with at most `max_bytes` of text, reasoning and tool calls.
    fn assembly(&self, max_bytes: usize) -> Box<dyn Assembly>;

    /// Another form of a request that was refused, if the server said that it takes that one. Nothing was billed.
    fn amendment(&self, _request: &Outgoing<'_>, _refusal: &Refusal) -> Option<Form> {
        None
    }

    /// Whether a refusal is for want of money, although its status is that of a limit on rate.
    fn is_out_of_funds(&self, _refusal: &Refusal) -> bool {
        false
    }

    /// The parameters of a workflow file that requests to this model cannot carry.
    fn ignores(&self, _model: &str) -> &'static [&'static str] {
        &[]
    }

    /// The media types of the files that a message can hold, such as `image/png` or `image/*`.
    fn media_types(&self) -> &'static [&'static str];

    /// The parameters of a workflow file with which this model refuses a request, unless they have its default.
    fn refuses(&self, _model: &str) -> &'static [&'static str] {
        &[]
    }

    /// Why answers of this model cannot be held to that schema as a whole, in a few words; `None` if they can. The check
    /// of the answer and its repairs hold either way.
    fn open_schema(&self, _model: &str, _schema: &str, _has_tools: bool) -> Option<&'static str> {
        None
    }

    /// The number, from 1, of the first message with reasoning of this protocol that no longer holds behind that head and
    /// the messages in front of it, so that a request leaves all of it out.
    fn misplaced_reasoning(&self, _head: &Head, _conversation: &Conversation) -> Option<usize> {
        None
    }

    /// The reply of a model whose slip the server reports as a refusal.
    fn slip(&self, _refusal: &Refusal) -> Option<ModelAnswer> {
        None
    }

    /// What the server at that address does in a way of its own.
    fn dialect(&self, base_url: &str) -> Dialect {
        Dialect::at(base_url)
    }
}

impl dyn Protocol {
    /// Whether a message can hold a file of that media type.
    pub fn takes_file(&self, media_type: &str) -> bool {
        self.media_types().iter().any(|known| match known.strip_suffix('*') {
            Some(kind) => media_type.starts_with(kind),
            None => *known == media_type,
        })
    }

    /// The form of a request after it was refused in this one, if another may be taken. Nothing was billed.
    ///
    /// Whether a model takes pictures is known to its server alone, and a request with the picture of a tool comes after
    /// calls that were paid for. So it is sent again without the files of tools, whatever the server says of it.
    pub(super) fn amended(&self, request: &Outgoing<'_>, refusal: &Refusal) -> Option<Form> {
        let is_another = |form: &Form| *form != request.form;
        self.amendment(request, refusal).filter(is_another).or_else(|| {
            let is_of_files = match refusal.status {
                400 | 413 | 415 | 422 => true,
                // OpenRouter has no model of that name with eyes; llama.cpp has no projector.
                404 | 500 | 501 => {
                    let body = refusal.body.to_lowercase();
                    ["image", "audio", "video", "file", "multimodal"].iter().any(|word| body.contains(word))
                }
                _ => false,
            };
            let holds_some = || {
                let is_of_tool = |message: &&Message| message.role() == Speaker::Tool;
                let messages = request.call.conversation.messages();
                messages.into_iter().filter(is_of_tool).any(|message| message.files().next().is_some())
            };
            let without = Form { is_without_tool_files: true, ..request.form };
            (is_of_files && holds_some()).then_some(without).filter(is_another)
        })
    }
}

impl PartialEq for dyn Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Protocol {}

/// A provider's public service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The name of the provider that has it.
    pub provider: &'static str,
    pub base_url: &'static str,
    /// The variable with another address for it.
    pub base_url_env: &'static str,
    /// The variable with its key.
    pub key_env: &'static str,
}

/// The protocol of the public service with that provider name.
pub fn of_service(provider: &str) -> Option<&'static dyn Protocol> {
    ALL.iter().copied().find(|protocol| protocol.service().provider == provider)
}

/// One request to be written.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub call: &'a ModelCall,
    pub provider: &'a str,
    pub dialect: &'a Dialect,
    pub prompt_cache: PromptCache,
    pub prompt_cache_retention: Option<CacheRetention>,
    pub form: Form,
}

impl Outgoing<'_> {
    /// The contents of a file of the conversation.
    pub fn file(&self, digest: Digest, name: &str) -> Result<&[u8], Fault> {
        self.call.files.get(digest).ok_or_else(|| refused(format!("the file {name} is not at hand")))
    }

    /// The id of a call, the `at`-th of its reply: the server's, or one of our own.
    pub(super) fn call_id(&self, id: String, at: usize) -> String {
        if id.is_empty() { format!("call_{}_{at}", self.call.ordinal) } else { id }
    }

    /// Whether the request carries a file of a message. A file of a prompt is always carried; one of a tool's result is not
    /// if the protocol does not take its type, or the server has refused the files.
    pub(super) fn carries(&self, protocol: &'static dyn Protocol, message: &Message, media_type: &str) -> bool {
        message.role() != Speaker::Tool || !self.form.is_without_tool_files && protocol.takes_file(media_type)
    }

    /// The text of a tool's result, with a line for each of its files that the request does not carry.
    pub(super) fn result_text<'m>(&self, protocol: &'static dyn Protocol, message: &'m Message) -> Cow<'m, str> {
        let mut text = message.text();
        for file in message.files().filter(|file| !self.carries(protocol, message, &file.media_type)) {
            let line = format!("\n[the file {file} is not sent: the provider does not take it]");
            text.to_mut().push_str(&line);
        }
        text
    }
}

/// The changes to a request that a server asked for by refusing another form of it.
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Form {
    /// With the other name for the ceiling on output tokens.
    pub has_other_ceiling: bool,
    /// Without reasoning that is bound to what stood in front of it.
    pub is_without_reasoning: bool,
    /// With empty reasoning where a message with calls has none.
    pub has_empty_reasoning: bool,
    /// Without the files that tools returned.
    pub is_without_tool_files: bool,
}

/// A reply while it arrives.
///
/// Laws: what it keeps is bounded by the bytes that it was begun with; a reply without a known finish reason is never
/// complete; usage figures never cost an answer.
pub trait Assembly: Send {
    /// Adds an event of a stream, or a whole reply, as JSON. Returns the text that it adds to what is shown.
    ///
    /// # Errors
    /// When it is unreadable, reports an error, or makes the reply too large. A provider's words are redacted before
    /// they are cut.
    fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault>;

    fn progress(&self) -> &Progress;

    /// How the reply ended: then it is whole, however its connection ends.
    fn finish(&self) -> Option<Result<Finish, Fault>> {
        self.progress().end.clone()
    }

    /// Whether nothing more is awaited.
    fn is_closed(&self) -> bool {
        false
    }

    fn parts(self: Box<Self>, request: &Outgoing<'_>) -> Parts;
}

impl dyn Assembly {
    /// The reply.
    ///
    /// # Errors
    /// That of an unknown finish reason, or `incomplete` if there is none.
    pub(super) fn complete(self: Box<Self>, request: &Outgoing<'_>, incomplete: Fault) -> Result<ModelAnswer, Fault> {
        let finish = self.finish().unwrap_or(Err(incomplete))?;
        let usage = self.progress().usage;
        Ok(ModelAnswer { reply: ModelReply { finish, parts: self.parts(request) }, usage, cost_usd: None })
    }
}

/// Stands where an answer was empty, in protocols whose messages must not be.
pub(super) const NO_ANSWER: &str = "(no answer)";

/// Stands where a call named no tool.
const NO_NAME: &str = "no_name";

/// The longest name of a tool at OpenAI (<https://platform.openai.com/docs/api-reference/chat/create>).
const MAX_NAME: usize = 64;

/// A schema of the head, to be sent as it is.
pub(super) fn raw_json<'a>(what: &str, json: &'a str) -> Result<&'a RawValue, Fault> {
    serde_json::from_str(json).map_err(|error| refused(format!("{what} is not JSON: {error}")))
}

/// The tools of a head by name, each with its schema.
pub(super) fn tools_by_name(head: &Head) -> Result<Vec<(&ToolSpec, &RawValue)>, Fault> {
    let schema = |tool: &ToolSpec| format!("the schema of tool `{}`", tool.name);
    let tools = head.tools.iter().map(|tool| Ok((tool, raw_json(&schema(tool), &tool.parameters)?)));
    let mut tools: Vec<_> = tools.collect::<Result<_, Fault>>()?;
    tools.sort_by_key(|(tool, _)| tool.name.as_str());
    Ok(tools)
}

pub(super) fn written(body: &impl Serialize) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(body).map_err(|error| refused(format!("the request cannot be written: {error}")))
}

/// The arguments of a call where they must be an object: as they were written, or an object that holds what is none.
pub(super) fn object_of(arguments: &str) -> Result<Cow<'_, RawValue>, Fault> {
    let written = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
    if let Some(object) = serde_json::from_str::<&RawValue>(written).ok().filter(|json| json.get().starts_with('{')) {
        return Ok(Cow::Borrowed(object));
    }
    let held = serde_json::json!({ "arguments": arguments });
    serde_json::value::to_raw_value(&held).map(Cow::Owned).map_err(|error| refused(error.to_string()))
}

/// The arguments of a call where they are a text, which some servers refuse if it is no object: as [`object_of`] has them.
pub(super) fn object_text(arguments: &str) -> Result<Cow<'_, str>, Fault> {
    Ok(match object_of(arguments)? {
        Cow::Borrowed(_) if !arguments.trim().is_empty() => Cow::Borrowed(arguments),
        object => Cow::Owned(object.get().to_owned()),
    })
}

/// The name of a call as every server takes it. A model may have called a tool that no offer of ours is named like.
pub(super) fn fit_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match name {
        "" => Cow::Borrowed(NO_NAME),
        name if name.len() <= MAX_NAME && name.chars().all(is_plain) => Cow::Borrowed(name),
        name => name.chars().take(MAX_NAME).map(|c| if is_plain(c) { c } else { '_' }).collect(),
    }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The contents of a file as a data URL (RFC 2397).
pub(super) fn data_url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", base64(bytes))
}

/// The fault for a request that a protocol cannot carry.
pub(super) fn refused(message: String) -> Fault {
    Fault::new(Code::RequestRefused, FaultClass::Refused, message)
}

/// The fault for a reply that breaks its protocol.
pub(super) fn unreadable(message: String) -> Fault {
    Fault::new(Code::ReplyUnreadable, FaultClass::Server, message)
}

/// The fault for a reply beyond a bound. It is not retried: another attempt would cost again and be as large.
pub(super) fn too_large(message: String) -> Fault {
    Fault::new(Code::ReplyTooLarge, FaultClass::Refused, message)
}

#[cfg(test)]
mod tests;

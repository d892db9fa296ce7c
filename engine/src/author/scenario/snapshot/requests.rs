//! Every request that one role was sent in one run.
//!
//! The head stands first, and again wherever it changes. Then each request: its number, visit and digest, how much of the
//! request before it goes on in it, and the messages that are new. So a text that moves a prefix shows in a diff as the
//! line `does not continue`. Lanes stand in declared order, each request is compared with the one before it in its lane,
//! and the first of a lane stands whole. The last line has the digest of all of it, so that what was taken away or put in another visit
//! is seen too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::LanePath;
use rondo_protocol::message::{Conversation, Message, Opaque, Part, Speaker, ToolUse};
use rondo_protocol::object::{Head, Parameters, ToolSpec};
use rondo_protocol::{Digest, Value, canonical};

use super::text::{Reading, block, heading, read_word, word};
use super::{Fault, digest_of, json, short};

/// The most messages of all requests of one snapshot, what they share counted again in each: so many references are held.
pub const MAX_MESSAGES: usize = 1 << 22;

/// What stands before the digest of the whole body.
const END: &str = "end · digest ";

/// What stands before the id of the call that a tool's message answers.
const ANSWERS: &str = "answers";
/// The same where the call failed.
const FAILS: &str = "fails";

/// The requests of one role.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requests {
    /// Oldest first, and those of lanes in declared order.
    pub sent: Vec<Request>,
}

/// A message with what it is. Requests that share it share its text.
pub type Labelled = (Arc<Message>, String);

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// In which lane.
    pub lane: LanePath,
    /// In which visit of the role in the lane, from 1.
    pub visit: u64,
    /// What it holds besides messages.
    pub head: Arc<Head>,
    /// The messages, each with what it is.
    pub messages: Vec<Labelled>,
}

impl Request {
    /// How many messages at its beginning are those of `other`.
    fn shared(&self, other: &Self) -> usize {
        self.messages.iter().zip(&other.messages).take_while(|(own, its)| own == its).count()
    }
}

impl Requests {
    /// How many messages all requests come to, what they share counted again in each.
    pub fn messages(&self) -> usize {
        self.sent.iter().map(|request| request.messages.len()).sum()
    }

    /// The body of a snapshot.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let mut before: Option<&Request> = None;
        let mut of_lanes: BTreeMap<&LanePath, (u64, &Request)> = BTreeMap::new();
        let mut conversations: BTreeMap<&LanePath, Conversation> = BTreeMap::new();
        let mut head_digest = None;
        for (request, number) in self.sent.iter().zip(1_u64..) {
            let digest = match head_digest.filter(|_| before.is_some_and(|before| before.head == request.head)) {
                Some(digest) => digest,
                None => write_head(&mut out, &request.head),
            };
            head_digest = Some(digest);
            let last = of_lanes.get(&request.lane).copied();
            let shared = last.map_or(0, |(_, last)| request.shared(last));
            let conversation = conversations.entry(&request.lane).or_default();
            conversation.truncate(shared);
            let new = request.messages.get(shared..).unwrap_or_default();
            conversation.extend(new.iter().map(|(message, _)| Message::clone(message)));
            let (visit, digest) = (request.visit, short(conversation.request(digest)));
            let lane = if request.lane.is_trunk() { String::new() } else { format!("lane {} · ", request.lane) };
            heading(&mut out, &format!("request {number} · {lane}visit {visit} · digest {digest}"));
            if let Some((last, before)) = last {
                let all = before.messages.len();
                heading(
                    &mut out,
                    &if shared == all {
                        format!("continues request {last} · {all} messages")
                    } else {
                        format!("does not continue request {last} · {shared} of {all} messages are shared")
                    },
                );
            }
            out.push('\n');
            for ((message, label), number) in new.iter().zip(shared + 1..) {
                write_message(&mut out, number, message, label);
            }
            before = Some(request);
            of_lanes.insert(&request.lane, (number, request));
        }
        let digest = digest_of(&out);
        heading(&mut out, &format!("{END}{digest}"));
        out
    }

    /// What the body says that begins at byte `from` of `text`.
    ///
    /// # Errors
    /// The first place that [`to_text`](Self::to_text) would not have written.
    pub fn read(text: &str, from: usize) -> Result<Self, Fault> {
        let mut reading = Reading::new(text, from);
        let mut sent: Vec<Request> = Vec::new();
        let mut head: Option<(Arc<Head>, Digest)> = None;
        let mut conversations: BTreeMap<LanePath, Conversation> = BTreeMap::new();
        let mut left = MAX_MESSAGES;
        let begin = reading.place().start;
        while reading.peek().is_some() {
            let place = reading.place();
            if let Some(stated) = reading.heading(END) {
                if text.get(begin..place.start).is_none_or(|body| digest_of(body) != stated) {
                    let message = "the snapshot is not the one of this digest: it was edited";
                    return Err(Fault::new(Code::SnapshotEdited, place, message));
                }
                return match reading.peek() {
                    None => Ok(Self { sent }),
                    Some(_) => Err(Fault::new(Code::SnapshotEdited, reading.place(), "here the snapshot has ended")),
                };
            }
            if let Some(read) = read_head(&mut reading)? {
                head = Some(read);
                continue;
            }
            let place = reading.place();
            let (Some((head, head_digest)), Some(rest)) = (&head, reading.heading("request ")) else {
                return Err(Fault::new(Code::SnapshotSyntax, place, "here a head or a request is wanted"));
            };
            let number = sent.len() + 1;
            let stated = rest.strip_prefix(&format!("{number} · ")).and_then(lane_visit_and_digest);
            let Some((lane, visit, digest)) = stated else {
                let message = format!("here `request {number} · [lane .. ·] visit .. · digest ..` is wanted");
                return Err(Fault::new(Code::SnapshotSyntax, place, message));
            };
            let before = sent.iter().enumerate().rev().find(|(_, before)| before.lane == lane);
            let mut messages = match before {
                Some((at, before)) => continued(&mut reading, before, at + 1)?,
                None => Vec::new(),
            };
            let conversation = conversations.entry(lane.clone()).or_default();
            conversation.truncate(messages.len());
            while let Some(new) = read_message(&mut reading, messages.len() + 1)? {
                conversation.push(Message::clone(&new.0));
                messages.push(new);
            }
            left = left.checked_sub(messages.len()).ok_or_else(|| {
                let message = format!("the requests of the snapshot come to more than {MAX_MESSAGES} messages in all");
                Fault::new(Code::TooLarge, place.clone(), message)
            })?;
            if short(conversation.request(*head_digest)) != digest {
                let message = format!("request {number} is not the one of this digest: it was edited");
                return Err(Fault::new(Code::SnapshotEdited, place, message));
            }
            sent.push(Request { lane, visit, head: Arc::clone(head), messages });
        }
        let place = reading.place();
        let message = if place.is_empty() {
            "the snapshot does not end with its digest: it was cut"
        } else {
            "here a heading is wanted, which begins in the first column"
        };
        Err(Fault::new(Code::SnapshotSyntax, place, message))
    }
}

/// Reads what stands behind the number of a request.
fn lane_visit_and_digest(rest: &str) -> Option<(LanePath, u64, &str)> {
    let (lane, rest) = match rest.strip_prefix("lane ") {
        Some(rest) => {
            let (lane, rest) = rest.split_once(" · ")?;
            (LanePath::new(lane).ok().filter(|lane| !lane.is_trunk())?, rest)
        }
        None => (LanePath::trunk(), rest),
    };
    let (visit, digest) = rest.strip_prefix("visit ")?.split_once(" · digest ")?;
    Some((lane, visit.parse().ok()?, digest))
}

/// The messages of the request before that go on in this one.
fn continued(reading: &mut Reading<'_>, before: &Request, last: usize) -> Result<Vec<Labelled>, Fault> {
    let all = before.messages.len();
    let place = reading.place();
    let shared = if reading.heading(&format!("continues request {last} · {all} messages")) == Some("") {
        Some(all)
    } else {
        let rest = reading.heading(&format!("does not continue request {last} · "));
        let shared = rest.and_then(|rest| rest.strip_suffix(&format!(" of {all} messages are shared")));
        shared.and_then(|shared| shared.parse().ok()).filter(|shared| *shared < all)
    };
    let message = || format!("here is wanted how the request continues request {last}, which has {all} messages");
    let shared = shared.ok_or_else(|| Fault::new(Code::SnapshotSyntax, place, message()))?;
    Ok(before.messages.get(..shared).unwrap_or_default().to_vec())
}

fn write_head(out: &mut String, head: &Head) -> Digest {
    // A head is made of texts and of parameters that came from a checked workflow.
    let digest = Digest::of(Kind::Head, head).map_or_else(|_| Digest::of_bytes(Kind::Head, &[]), |(digest, _)| digest);
    heading(out, &format!("head · digest {}", short(digest)));
    heading(out, &format!("model {}", word(&head.model)));
    if !head.parameters.0.is_empty() {
        heading(out, "parameters");
        let parameters = Value::Object(head.parameters.0.clone()).to_text();
        block(out, &json::pretty(&parameters).unwrap_or(parameters));
    }
    out.push('\n');
    heading(out, "system");
    block(out, &head.system);
    out.push('\n');
    for tool in &head.tools {
        heading(out, &format!("tool {}", word(&tool.name)));
        block(out, &tool.description);
        write_schema(out, "takes", &tool.parameters);
        out.push('\n');
    }
    if let Some(schema) = &head.response_format {
        write_schema(out, "response format", schema);
        out.push('\n');
    }
    digest
}

/// What is said of a JSON text that has no blanks to be taken away; else it stands there as it is.
const AS_SENT: &str = " · as sent";

fn write_schema(out: &mut String, words: &str, schema: &str) {
    if let Some(pretty) = json::pretty(schema) {
        heading(out, words);
        block(out, &pretty);
    } else {
        heading(out, &format!("{words}{AS_SENT}"));
        block(out, schema);
    }
}

fn read_schema(reading: &mut Reading<'_>, words: &str) -> Result<Option<String>, Fault> {
    let place = reading.place();
    match reading.heading(words) {
        None => Ok(None),
        Some("") => Ok(Some(json::compact(&reading.block()?))),
        Some(AS_SENT) => Ok(Some(reading.block()?)),
        Some(_) => {
            Err(Fault::new(Code::SnapshotSyntax, place, format!("here `{words}` is wanted and nothing behind it")))
        }
    }
}

fn read_head(reading: &mut Reading<'_>) -> Result<Option<(Arc<Head>, Digest)>, Fault> {
    let place = reading.place();
    let Some(stated) = reading.heading("head · digest ") else { return Ok(None) };
    let wanted = |reading: &mut Reading<'_>, words: &str| {
        Fault::new(Code::SnapshotSyntax, reading.place(), format!("here `{words}` is wanted"))
    };
    let model = reading.heading("model ").and_then(read_word).filter(|(_, behind)| behind.is_empty());
    let Some((model, _)) = model else { return Err(wanted(reading, "model NAME")) };
    let mut parameters = Parameters::default();
    let at = reading.place();
    if reading.heading("parameters").is_some() {
        let text = reading.block()?;
        let Ok(Value::Object(read)) = canonical::parse(text.as_bytes()) else {
            return Err(Fault::new(Code::SnapshotSyntax, at, "the parameters are no JSON object"));
        };
        parameters = Parameters(read);
    }
    if reading.heading("system") != Some("") {
        return Err(wanted(reading, "system"));
    }
    let system = reading.block()?;
    let mut tools = Vec::new();
    while let Some(rest) = reading.heading("tool ") {
        let Some((name, "")) = read_word(rest) else { return Err(wanted(reading, "tool NAME")) };
        let description = reading.block()?;
        let Some(parameters) = read_schema(reading, "takes")? else { return Err(wanted(reading, "takes")) };
        tools.push(ToolSpec { description, name, parameters });
    }
    let response_format = read_schema(reading, "response format")?;
    let head = Head { model, parameters, response_format, system, tools };
    let unfit = |error: canonical::Error| Fault::new(Code::SnapshotSyntax, place.clone(), error.to_string());
    let (digest, _) = Digest::of(Kind::Head, &head).map_err(unfit)?;
    if short(digest) != stated {
        return Err(Fault::new(Code::SnapshotEdited, place, "the head is not the one of this digest: it was edited"));
    }
    Ok(Some((Arc::new(head), digest)))
}

/// Writes a message: what it begins to say stands below its heading, and each further part below one of its own.
fn write_message(out: &mut String, number: usize, message: &Message, label: &str) {
    let mut words = format!("message {number} · {}", message.role().as_str());
    let (text, parts) = match message.parts() {
        [Part::ToolResult { failed, id, text }] => {
            let _ = write!(words, " · {} {}", if *failed { FAILS } else { ANSWERS }, word(id));
            (text.as_str(), [].as_slice())
        }
        [Part::Text { text }, parts @ ..] => (text.as_str(), parts),
        parts => ("", parts),
    };
    if !label.is_empty() {
        let _ = write!(words, " · {}", word_of_label(label));
    }
    heading(out, &words);
    block(out, text);
    for part in parts {
        write_part(out, part);
    }
    out.push('\n');
}

fn write_part(out: &mut String, part: &Part) {
    match part {
        Part::Text { text } => {
            heading(out, "text");
            block(out, text);
        }
        Part::Reasoning { opaque, text } => {
            heading(out, "reasoning");
            block(out, text);
            if let Some(Opaque { data, provider }) = opaque {
                heading(out, &format!("taken back by {}", word(provider)));
                block(out, data);
            }
        }
        Part::ToolCall(ToolUse { arguments, id, name }) => {
            heading(out, &format!("calls {} · {}", word(name), word(id)));
            block(out, arguments);
        }
        Part::File { digest, media_type, name } => {
            heading(out, &format!("file {} · {}", word(name), word(media_type)));
            block(out, &digest.to_string());
        }
        // It is the one part of its message.
        Part::ToolResult { text, .. } => block(out, text),
    }
}

/// A label ends its line, so it may hold blanks; one that could be taken for something else is a JSON string.
fn word_of_label(label: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | ',' | '.' | '_' | '-' | '[' | ']');
    let is_safe = label.chars().all(is_plain)
        && label.trim() == label
        && ![ANSWERS, FAILS].iter().any(|word| label.starts_with(word));
    if is_safe { label.to_owned() } else { serde_json::to_string(label).unwrap_or_default() }
}

fn read_message(reading: &mut Reading<'_>, number: usize) -> Result<Option<Labelled>, Fault> {
    let place = reading.place();
    let Some(rest) = reading.heading("message ") else { return Ok(None) };
    let unfit = |what: &str| Fault::new(Code::SnapshotSyntax, place.clone(), what);
    let rest = rest.strip_prefix(&format!("{number} · ")).ok_or_else(|| unfit("the message has another number"))?;
    let all = [Speaker::User, Speaker::Assistant, Speaker::Tool];
    let found = all.into_iter().find_map(|role| Some((role, rest.strip_prefix(role.as_str())?)));
    let (role, mut rest) = found.ok_or_else(|| unfit("a message is from `user`, `assistant` or `tool`"))?;
    let mut result = None;
    for (words, failed) in [(ANSWERS, false), (FAILS, true)] {
        if let Some(answers) = rest.strip_prefix(&format!(" · {words} ")) {
            let (id, behind) = read_word(answers).ok_or_else(|| unfit("the id of a call is wanted"))?;
            (result, rest) = (Some((id, failed)), behind);
            break;
        }
    }
    let label = match rest.strip_prefix(" · ") {
        Some(quoted) if quoted.starts_with('"') => {
            read_word(quoted).filter(|(_, behind)| behind.is_empty()).map(|(l, _)| l)
        }
        Some(label) => Some(label.to_owned()),
        None => rest.is_empty().then(String::new),
    };
    let label = label.ok_or_else(|| unfit("what the message is cannot be read"))?;
    let text = reading.block()?;
    let mut parts = Vec::new();
    while let Some(part) = read_part(reading)? {
        parts.push(part);
    }
    // Of an assistant an empty text is no part; a user has one text, which may stand further below.
    let has_text = parts.iter().any(|part| matches!(part, Part::Text { .. }));
    if let Some((id, failed)) = result {
        parts.insert(0, Part::ToolResult { failed, id, text });
    } else if !text.is_empty() || role == Speaker::User && !has_text {
        parts.insert(0, Part::Text { text });
    }
    let message = Message::new(role, parts).map_err(unfit)?;
    Ok(Some((Arc::new(message), label)))
}

fn read_part(reading: &mut Reading<'_>) -> Result<Option<Part>, Fault> {
    let place = reading.place();
    let unfit = |what: &str| Fault::new(Code::SnapshotSyntax, place.clone(), what);
    let two = |rest: &str| {
        let (first, behind) = read_word(rest)?;
        read_word(behind.strip_prefix(" · ")?)
            .filter(|(_, behind)| behind.is_empty())
            .map(|(second, _)| (first, second))
    };
    if reading.peek() == Some("text") {
        reading.heading("text");
        return Ok(Some(Part::Text { text: reading.block()? }));
    }
    if reading.peek() == Some("reasoning") {
        reading.heading("reasoning");
        let text = reading.block()?;
        let opaque = match reading.heading("taken back by ").map(read_word) {
            None => None,
            Some(Some((provider, ""))) => Some(Opaque { data: reading.block()?, provider }),
            Some(_) => return Err(unfit("`taken back by` is followed by a provider")),
        };
        return Ok(Some(Part::Reasoning { opaque, text }));
    }
    if let Some(rest) = reading.heading("calls ") {
        let (name, id) = two(rest).ok_or_else(|| unfit("here `calls NAME · ID` is wanted"))?;
        return Ok(Some(Part::ToolCall(ToolUse { arguments: reading.block()?, id, name })));
    }
    if let Some(rest) = reading.heading("file ") {
        let (name, media_type) = two(rest).ok_or_else(|| unfit("here `file NAME · TYPE` is wanted"))?;
        let digest = Digest::from_hex(&reading.block()?).ok_or_else(|| unfit("below a file stands its digest"))?;
        return Ok(Some(Part::File { digest, media_type, name }));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

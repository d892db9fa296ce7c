//! Every request sent to one role in one run.
//!
//! The head is first, and again wherever it changes. Each request follows: its number and visit, how much of the
//! previous request it continues, and its new messages. A text that moves a prefix shows in a diff as the line
//! `does not continue`. Lanes are in declared order. Each request is compared with the one before it in its lane; the
//! first of a lane is complete. The last line holds the digests of the heads and requests in the order of their
//! headings, so that a diff has one such line however many of them change, and that of the whole body, which also
//! reveals text that was removed or moved to another visit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::LanePath;
use rondo_protocol::message::{Conversation, FileRef, Message, Opaque, Part, Speaker, ToolUse};
use rondo_protocol::object::{Head, Parameters, ToolSpec};
use rondo_protocol::{Digest, Value, canonical};

use super::text::{Parser, block, heading, read_word, section, word};
use super::{EDITED, Error, check_unedited, digest_of, json, short};

/// The most messages of all requests of one snapshot, shared ones counted in each: this bounds the references held.
pub const MAX_MESSAGES: usize = 1 << 22;

/// The text before the digests of the heads and requests.
const END: &str = "digests ";
/// The text before the digest of the whole body.
const WHOLE: &str = " · whole ";

/// The text before the id of the call that a tool message answers.
const ANSWERS: &str = "answers";
/// The text before the id of a call that failed.
const FAILS: &str = "fails";

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requests {
    /// Oldest first; lanes in declared order.
    pub sent: Vec<Request>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub lane: LanePath,
    pub visit: u64,
    /// What it holds besides messages.
    pub head: Arc<Head>,
    /// Requests that begin alike share the messages of their beginning.
    pub messages: Conversation,
    /// What each message is.
    pub labels: Vec<String>,
}

impl Request {
    /// The length of the common prefix with `other`, in messages.
    fn shared(&self, other: &Self) -> usize {
        let labels = self.labels.iter().zip(&other.labels).take_while(|(own, its)| own == its).count();
        self.messages.common(&other.messages).len().min(labels)
    }
}

impl Requests {
    /// The number of messages of all requests, shared ones counted in each.
    pub fn messages(&self) -> usize {
        self.sent.iter().map(|request| request.messages.len()).sum()
    }

    pub fn to_text(&self) -> String {
        let mut out = String::new();
        // The last request of each lane, with its number.
        let mut of_lanes: BTreeMap<&LanePath, (u64, &Request)> = BTreeMap::new();
        let mut head: Option<(&Arc<Head>, Digest)> = None;
        let mut digests: Vec<String> = Vec::new();
        for (request, number) in self.sent.iter().zip(1_u64..) {
            let same = head.filter(|(head, _)| **head == request.head);
            let (_, digest) = *head.insert(same.unwrap_or_else(|| {
                let digest = write_head(&mut out, &request.head);
                digests.push(short(digest));
                (&request.head, digest)
            }));
            let last = of_lanes.insert(&request.lane, (number, request));
            let shared = last.map_or(0, |(_, last)| request.shared(last));
            digests.push(short(request.messages.request(digest)));
            let lane = if request.lane.is_trunk() { String::new() } else { format!("lane {} · ", request.lane) };
            heading(&mut out, &format!("request {number} · {lane}visit {}", request.visit));
            if let Some((last, before)) = last {
                let all = before.messages.len();
                let words = if shared == all {
                    format!("continues request {last} · {all} messages")
                } else {
                    format!("does not continue request {last} · {shared} of {all} messages are shared")
                };
                heading(&mut out, &words);
            }
            out.push('\n');
            let new = request.messages.after(shared).into_iter().zip(request.labels.iter().skip(shared));
            for ((message, label), number) in new.zip(shared + 1..) {
                write_message(&mut out, number, message, label);
            }
        }
        let whole = digest_of(&out);
        heading(&mut out, &format!("{END}{}{WHOLE}{whole}", digests.join(" ")));
        out
    }

    /// Reads the body that starts at byte `from` of `text`.
    pub fn read(text: &str, from: usize) -> Result<Self, Error> {
        let mut parser = Parser::new(text, from);
        let mut sent: Vec<Request> = Vec::new();
        let mut head: Option<Arc<Head>> = None;
        let mut left = MAX_MESSAGES;
        // The places of the headings of heads and requests.
        let mut places: Vec<Range<usize>> = Vec::new();
        let digests = loop {
            if let Some(digests) = parser.heading(END) {
                break digests;
            }
            let place = parser.place();
            if place.is_empty() {
                let message = "the snapshot does not end with its digests: it was cut";
                return Err(Error::syntax(place, message));
            }
            places.push(place.clone());
            if let Some(read) = read_head(&mut parser)? {
                head = Some(Arc::new(read));
                continue;
            }
            let (Some(head), Some(rest)) = (&head, parser.heading("request ")) else {
                return Err(Error::syntax(place, "expected a head or a request"));
            };
            let number = sent.len() + 1;
            let Some((lane, visit)) = rest.strip_prefix(&format!("{number} · ")).and_then(lane_and_visit) else {
                let message = format!("expected `request {number} · [lane .. ·] visit ..`");
                return Err(Error::syntax(place, message));
            };
            let before = sent.iter().enumerate().rev().find(|(_, before)| before.lane == lane);
            let (mut messages, mut labels) = match before {
                Some((at, before)) => continued(&mut parser, before, at + 1)?,
                None => (Conversation::default(), Vec::new()),
            };
            while let Some((message, label)) = read_message(&mut parser, messages.len() + 1)? {
                messages.push(message);
                labels.push(label);
            }
            left = left.checked_sub(messages.len()).ok_or_else(|| {
                let message = format!("the requests of the snapshot come to more than {MAX_MESSAGES} messages in all");
                Error::new(Code::TooLarge, place.clone(), message)
            })?;
            sent.push(Request { lane, visit, head: Arc::clone(head), messages, labels });
        };
        let requests = Self { sent };
        let written = requests.to_text();
        let last = written.trim_end().rsplit_once('\n').map_or(written.as_str(), |(_, last)| last).strip_prefix(END);
        let pairs = digests_of(digests).zip(digests_of(last.unwrap_or_default()));
        if let Some((place, _)) = places.into_iter().zip(pairs).find(|(_, (stated, real))| stated != real) {
            return Err(Error::new(Code::SnapshotEdited, place, EDITED));
        }
        check_unedited(text, from, &written)?;
        Ok(requests)
    }
}

/// The digests of heads and requests in the last line.
fn digests_of(line: &str) -> impl Iterator<Item = &str> {
    line.split_once(WHOLE).map_or(line, |(digests, _)| digests).split(' ')
}

fn lane_and_visit(rest: &str) -> Option<(LanePath, u64)> {
    let (lane, rest) = match rest.strip_prefix("lane ") {
        Some(rest) => {
            let (lane, rest) = rest.split_once(" · ")?;
            (LanePath::new(lane).ok().filter(|lane| !lane.is_trunk())?, rest)
        }
        None => (LanePath::trunk(), rest),
    };
    Some((lane, rest.strip_prefix("visit ")?.parse().ok()?))
}

/// The messages of the previous request that this one continues, with their labels.
fn continued(parser: &mut Parser<'_>, before: &Request, last: usize) -> Result<(Conversation, Vec<String>), Error> {
    let all = before.messages.len();
    let place = parser.place();
    let shared = if parser.heading(&format!("continues request {last} · {all} messages")) == Some("") {
        Some(all)
    } else {
        let rest = parser.heading(&format!("does not continue request {last} · "));
        let shared = rest.and_then(|rest| rest.strip_suffix(&format!(" of {all} messages are shared")));
        shared.and_then(|shared| shared.parse().ok()).filter(|shared| *shared < all)
    };
    let message = || format!("expected how the request continues request {last}, which has {all} messages");
    let shared = shared.ok_or_else(|| Error::syntax(place, message()))?;
    let mut messages = before.messages.clone();
    messages.truncate(shared);
    Ok((messages, before.labels.iter().take(shared).cloned().collect()))
}

fn write_head(out: &mut String, head: &Head) -> Digest {
    // A head consists of texts and of parameters from a checked workflow.
    let digest = Digest::of(Kind::Head, head).map_or_else(|_| Digest::of_bytes(Kind::Head, &[]), |(digest, _)| digest);
    heading(out, "head");
    heading(out, &format!("model {}", word(&head.model)));
    if !head.parameters.0.is_empty() {
        let parameters = Value::Object(head.parameters.0.clone()).to_text();
        section(out, "parameters", &json::pretty(&parameters).unwrap_or(parameters));
    }
    out.push('\n');
    section(out, "system", &head.system);
    out.push('\n');
    for tool in &head.tools {
        section(out, &format!("tool {}", word(&tool.name)), &tool.description);
        write_schema(out, "takes", &tool.parameters);
        out.push('\n');
    }
    if let Some(schema) = &head.response_format {
        write_schema(out, "response format", schema);
        out.push('\n');
    }
    digest
}

/// Marks a JSON text without blanks to remove; any other is written unchanged.
const AS_SENT: &str = " · as sent";

fn write_schema(out: &mut String, words: &str, schema: &str) {
    match json::pretty(schema) {
        Some(pretty) => section(out, words, &pretty),
        None => section(out, &format!("{words}{AS_SENT}"), schema),
    }
}

fn read_schema(parser: &mut Parser<'_>, words: &str) -> Result<Option<String>, Error> {
    let place = parser.place();
    match parser.heading(words) {
        None => Ok(None),
        Some("") => Ok(Some(json::compact(&parser.block()?))),
        Some(AS_SENT) => Ok(Some(parser.block()?)),
        Some(_) => Err(Error::syntax(place, format!("expected `{words}` and nothing after it"))),
    }
}

fn read_head(parser: &mut Parser<'_>) -> Result<Option<Head>, Error> {
    if !parser.line_is("head") {
        return Ok(None);
    }
    let model = parser.heading("model ").and_then(last_word).ok_or_else(|| parser.expected("model NAME"))?;
    let mut parameters = Parameters::default();
    let at = parser.place();
    if parser.heading("parameters").is_some() {
        let text = parser.block()?;
        let Ok(Value::Object(read)) = canonical::parse(text.as_bytes()) else {
            return Err(Error::syntax(at, "the parameters are no JSON object"));
        };
        parameters = Parameters(read);
    }
    parser.expect_line("system")?;
    let system = parser.block()?;
    let mut tools = Vec::new();
    while let Some(rest) = parser.heading("tool ") {
        let name = last_word(rest).ok_or_else(|| parser.expected("tool NAME"))?;
        let description = parser.block()?;
        let parameters = read_schema(parser, "takes")?.ok_or_else(|| parser.expected("takes"))?;
        tools.push(ToolSpec { description, name, parameters });
    }
    let response_format = read_schema(parser, "response format")?;
    Ok(Some(Head { model, parameters, response_format, system, tools }))
}

/// Writes a message: its first part below its heading, and each further part below its own.
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
    section(out, &words, text);
    for part in parts {
        write_part(out, part);
    }
    out.push('\n');
}

fn write_part(out: &mut String, part: &Part) {
    match part {
        Part::Text { text } => section(out, "text", text),
        Part::Reasoning { opaque, text } => {
            section(out, "reasoning", text);
            if let Some(Opaque { data, provider }) = opaque {
                section(out, &format!("taken back by {}", word(provider)), data);
            }
        }
        Part::ToolCall(ToolUse { arguments, id, name }) => {
            section(out, &format!("calls {} · {}", word(name), word(id)), arguments);
        }
        Part::File(FileRef { digest, media_type, name }) => {
            section(out, &format!("file {} · {}", word(name), word(media_type)), &digest.to_string());
        }
        // It is the only part of its message.
        Part::ToolResult { text, .. } => block(out, text),
    }
}

/// A label ends its line, so it may contain blanks; an ambiguous one is a JSON string.
fn word_of_label(label: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | ',' | '.' | '_' | '-' | '[' | ']');
    let is_safe = label.chars().all(is_plain)
        && label.trim() == label
        && ![ANSWERS, FAILS].iter().any(|word| label.starts_with(word));
    if is_safe { label.to_owned() } else { serde_json::to_string(label).unwrap_or_default() }
}

/// A message with its label.
fn read_message(parser: &mut Parser<'_>, number: usize) -> Result<Option<(Message, String)>, Error> {
    let place = parser.place();
    let Some(rest) = parser.heading("message ") else { return Ok(None) };
    let unfit = |what: &str| Error::syntax(place.clone(), what);
    let rest = rest.strip_prefix(&format!("{number} · ")).ok_or_else(|| unfit("the message has another number"))?;
    let all = [Speaker::User, Speaker::Assistant, Speaker::Tool];
    let found = all.into_iter().find_map(|role| Some((role, rest.strip_prefix(role.as_str())?)));
    let (role, mut rest) = found.ok_or_else(|| unfit("a message is from `user`, `assistant` or `tool`"))?;
    let mut result = None;
    for (words, failed) in [(ANSWERS, false), (FAILS, true)] {
        if let Some(answers) = rest.strip_prefix(&format!(" · {words} ")) {
            let (id, behind) = read_word(answers).ok_or_else(|| unfit("expected the id of a call"))?;
            (result, rest) = (Some((id, failed)), behind);
            break;
        }
    }
    let label = match rest.strip_prefix(" · ") {
        Some(quoted) if quoted.starts_with('"') => last_word(quoted),
        Some(label) => Some(label.to_owned()),
        None => rest.is_empty().then(String::new),
    };
    let label = label.ok_or_else(|| unfit("what the message is cannot be read"))?;
    let text = parser.block()?;
    let mut parts = Vec::new();
    while let Some(part) = read_part(parser)? {
        parts.push(part);
    }
    // An assistant's empty text is not a part; a user has one text, which may be further below.
    let has_text = parts.iter().any(|part| matches!(part, Part::Text { .. }));
    if let Some((id, failed)) = result {
        parts.insert(0, Part::ToolResult { failed, id, text });
    } else if !text.is_empty() || role == Speaker::User && !has_text {
        parts.insert(0, Part::Text { text });
    }
    Ok(Some((Message::new(role, parts).map_err(unfit)?, label)))
}

/// A name that ends its heading.
fn last_word(rest: &str) -> Option<String> {
    read_word(rest).filter(|(_, behind)| behind.is_empty()).map(|(name, _)| name)
}

fn read_part(parser: &mut Parser<'_>) -> Result<Option<Part>, Error> {
    let place = parser.place();
    let unfit = |what: &str| Error::syntax(place.clone(), what);
    let two = |rest: &str| {
        let (first, behind) = read_word(rest)?;
        Some((first, last_word(behind.strip_prefix(" · ")?)?))
    };
    if parser.line_is("text") {
        return Ok(Some(Part::Text { text: parser.block()? }));
    }
    if parser.line_is("reasoning") {
        let text = parser.block()?;
        let opaque = match parser.heading("taken back by ").map(read_word) {
            None => None,
            Some(Some((provider, ""))) => Some(Opaque { data: parser.block()?, provider }),
            Some(_) => return Err(unfit("`taken back by` is followed by a provider")),
        };
        return Ok(Some(Part::Reasoning { opaque, text }));
    }
    if let Some(rest) = parser.heading("calls ") {
        let (name, id) = two(rest).ok_or_else(|| unfit("expected `calls NAME · ID`"))?;
        return Ok(Some(Part::ToolCall(ToolUse { arguments: parser.block()?, id, name })));
    }
    if let Some(rest) = parser.heading("file ") {
        let (name, media_type) = two(rest).ok_or_else(|| unfit("expected `file NAME · TYPE`"))?;
        let digest =
            Digest::from_hex(&parser.block()?).ok_or_else(|| unfit("a file must be followed by its digest"))?;
        return Ok(Some(Part::File(FileRef { digest, media_type, name })));
    }
    Ok(None)
}

#[cfg(test)]
mod tests;

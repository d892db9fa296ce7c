//! Describes a request that is not in a cassette: the nearest recorded one, and the first difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::Message;
use rondo_protocol::object::{Head, ToolSpec};

use super::cassette::{Cassette, Take};

const SHOWN_LINES: usize = 3;

const SHOWN_CHARS: usize = 120;

/// How many characters of a long line are shown before the difference.
const SHOWN_BEFORE: usize = 30;

pub(super) fn missing(cassette: &Cassette, call: &ModelCall) -> Fault {
    let site = &call.site;
    let lane = if site.lane.is_trunk() { String::new() } else { format!(", lane {}", site.lane) };
    let mut message = format!("the recording {} has no ", cassette.name());
    let who = format!("role `{}`, visit {}{lane}", site.role, site.visit);
    if let Some(last) = cassette.by_request.get(&call.request()).and_then(|all| cassette.takes.get(*all.last()?)) {
        let _ = write!(message, "attempt {} at this request of {who}: it ends with line {}", call.attempt, last.line);
    } else if let Some((nearest, shared)) = nearest(cassette, call) {
        let _ = write!(
            message,
            "such request of {who}; the nearest is on line {} (role `{}`, visit {}), first difference: ",
            nearest.line, nearest.attempt.role, nearest.attempt.visit
        );
        message.push_str(&difference(cassette, nearest, call, shared));
    } else {
        let _ = write!(message, "request at all, and so none of {who}");
    }
    message.push_str("\ntake the change back, or record again with `rondo record`");
    Fault::new(Code::NotRecorded, FaultClass::ScriptEnd, message)
}

/// The attempt with the nearest request, and how many messages it shares with the call: prefers the same role and
/// visit, then the longest shared beginning.
fn nearest<'a>(cassette: &'a Cassette, call: &ModelCall) -> Option<(&'a Take, usize)> {
    let of_call: BTreeMap<Digest, usize> = call.conversation.links().into_iter().zip(1..).collect();
    // A chain comes after the chain that it extends, so one pass is enough.
    let mut shared: BTreeMap<&Digest, usize> = BTreeMap::new();
    for chain in &cassette.order {
        let before = cassette.messages.get(chain).and_then(|link| link.after.as_ref());
        let count = of_call.get(chain).or_else(|| shared.get(before?)).copied().unwrap_or(0);
        shared.insert(chain, count);
    }
    let count = |take: &Take| take.attempt.chain.as_ref().and_then(|chain| shared.get(chain)).copied().unwrap_or(0);
    let site = &call.site;
    let nearness = |take: &Take| {
        let is_of_role = take.attempt.role == site.role;
        let is_of_visit = is_of_role && take.attempt.visit == site.visit && take.attempt.lane == site.lane;
        (is_of_visit, count(take), is_of_role, take.is_at(site), take.attempt.head == call.head_digest)
    };
    // The first of the nearest: `max_by_key` returns the last.
    let nearest = cassette.takes.iter().rev().max_by_key(|take| nearness(take))?;
    Some((nearest, count(nearest)))
}

fn difference(cassette: &Cassette, take: &Take, call: &ModelCall, shared: usize) -> String {
    let recorded = cassette.heads.get(&take.attempt.head).filter(|_| take.attempt.head != call.head_digest);
    if let Some(words) = recorded.and_then(|recorded| of_heads(recorded, &call.head)) {
        return words;
    }
    let (was, now) = (message_of(cassette, take, shared), call.conversation.after(shared).first().copied());
    let number = shared + 1;
    match (was, now) {
        (Some(was), Some(now)) => of_messages(number, was, now),
        (Some(was), None) => only(&format!("message {number} ({})", speaker(was)), "recorded", &said(was)),
        (None, Some(now)) => only(&format!("message {number} ({})", speaker(now)), "now", &said(now)),
        (None, None) => "nothing that can be shown: what differs was taken out of the recording".to_owned(),
    }
}

fn message_of<'a>(cassette: &'a Cassette, take: &Take, index: usize) -> Option<&'a Message> {
    let mut messages = Vec::new();
    let mut chain = take.attempt.chain;
    while let Some(link) = chain.and_then(|chain| cassette.messages.get(&chain)) {
        messages.push(&link.message);
        chain = link.after;
    }
    messages.into_iter().rev().nth(index)
}

fn of_heads(was: &Head, now: &Head) -> Option<String> {
    let value = |head: &Head, name: &str| {
        head.parameters.0.get(name).map_or_else(|| "not given".to_owned(), rondo_protocol::Value::to_text)
    };
    let of_parameter = |name: &String| parted(&format!("the parameter `{name}`"), &value(was, name), &value(now, name));
    let format = |head: &Head| head.response_format.clone().unwrap_or_else(|| "none".to_owned());
    parted("the model", &was.model, &now.model)
        .or_else(|| was.parameters.0.keys().chain(now.parameters.0.keys()).find_map(of_parameter))
        .or_else(|| parted("the system text", &was.system, &now.system))
        .or_else(|| of_tools(&was.tools, &now.tools))
        .or_else(|| parted("the response format", &format(was), &format(now)))
}

fn of_tools(was: &[ToolSpec], now: &[ToolSpec]) -> Option<String> {
    let alone = |tools: &[ToolSpec], others: &[ToolSpec]| {
        let alone = tools.iter().find(|tool| others.iter().all(|other| other.name != tool.name));
        alone.map(|tool| shown(&tool.name, 0))
    };
    if let Some(gone) = alone(was, now) {
        return Some(format!("the tool `{gone}` was offered and is not any more"));
    }
    if let Some(new) = alone(now, was) {
        return Some(format!("the tool `{new}` is offered and was not"));
    }
    let of_tool = |(was, now): (&ToolSpec, &ToolSpec)| {
        let tool = shown(&was.name, 0);
        parted(&format!("the description of the tool `{tool}`"), &was.description, &now.description)
            .or_else(|| parted(&format!("the schema of the tool `{tool}`"), &was.parameters, &now.parameters))
    };
    let is_another = was != now;
    was.iter().zip(now).find_map(of_tool).or_else(|| is_another.then(|| "the order of the tools".to_owned()))
}

/// How two texts differ, if they do.
fn parted(what: &str, was: &str, now: &str) -> Option<String> {
    (was != now).then(|| of_texts(what, was, now))
}

fn of_messages(number: usize, was: &Message, now: &Message) -> String {
    let what = format!("message {number} ({})", speaker(now));
    if was.role() != now.role() {
        return of_texts(&format!("who speaks in message {number}"), speaker(was), speaker(now));
    }
    let answers = |message: &Message| message.answers().unwrap_or_default().to_owned();
    let canonical = |message: &Message| String::from_utf8_lossy(&message.canonical_bytes()).into_owned();
    let parts = [
        ("", was.text(), now.text()),
        (", its reasoning", was.reasoning().unwrap_or_default(), now.reasoning().unwrap_or_default()),
        (", the tools it asks for", asks(was).into(), asks(now).into()),
        (", the tool call it answers", answers(was).into(), answers(now).into()),
        (", its parts", canonical(was).into(), canonical(now).into()),
    ];
    let difference = parts.into_iter().find_map(|(part, was, now)| parted(&format!("{what}{part}"), &was, &now));
    difference.unwrap_or_else(|| format!("{what}, where something was taken out of the recording"))
}

fn speaker(message: &Message) -> &'static str {
    message.role().as_str()
}

fn asks(message: &Message) -> String {
    let line = |call: &rondo_protocol::message::ToolUse| format!("{} {} ({})", call.name, call.arguments, call.id);
    message.tool_calls().map(line).collect::<Vec<_>>().join("\n")
}

fn said(message: &Message) -> String {
    if message.text().is_empty() { asks(message) } else { message.text().into_owned() }
}

/// Describes something that only one side has.
fn only(what: &str, side: &str, text: &str) -> String {
    let mut words = format!("{what}, which is {side} alone");
    side_of(&mut words, side, text.lines().take(SHOWN_LINES), 0);
    words
}

/// Describes how two texts differ: the lines between their shared beginning and end.
fn of_texts(what: &str, was: &str, now: &str) -> String {
    let (was, now): (Vec<&str>, Vec<&str>) = (was.split('\n').collect(), now.split('\n').collect());
    let before = was.iter().zip(&now).take_while(|(was, now)| was == now).count();
    let (was_rest, now_rest) = (was.get(before..).unwrap_or_default(), now.get(before..).unwrap_or_default());
    let behind = was_rest.iter().rev().zip(now_rest.iter().rev()).take_while(|(was, now)| was == now).count();
    let middle = |rest: &[&str]| rest.len().saturating_sub(behind).min(SHOWN_LINES);
    let mut words = what.to_owned();
    if was.len() > 1 || now.len() > 1 {
        let _ = write!(words, ", line {}", before + 1);
    }
    let same = match (was_rest.first(), now_rest.first()) {
        (Some(was), Some(now)) => was.chars().zip(now.chars()).take_while(|(was, now)| was == now).count(),
        _ => 0,
    };
    side_of(&mut words, "recorded", was_rest.iter().copied().take(middle(was_rest)), same);
    side_of(&mut words, "now", now_rest.iter().copied().take(middle(now_rest)), same);
    words
}

/// Adds the lines of one side; the first `same` characters of the first line are shared.
fn side_of<'a>(words: &mut String, side: &str, lines: impl Iterator<Item = &'a str>, same: usize) {
    let label = format!("{side}:");
    let mut label = label.as_str();
    let mut from = same;
    for line in lines {
        let line = if line.is_empty() { "(empty)".to_owned() } else { shown(line, from) };
        let _ = write!(words, "\n  {label:<9} {line}");
        (label, from) = ("", 0);
    }
    if !label.is_empty() {
        let _ = write!(words, "\n  {label:<9} (nothing)");
    }
}

/// As much of a line as fits, starting shortly before the character `from`.
fn shown(line: &str, from: usize) -> String {
    let skipped = if line.chars().nth(SHOWN_CHARS).is_some() { from.saturating_sub(SHOWN_BEFORE) } else { 0 };
    let mut text = if skipped > 0 { "…".to_owned() } else { String::new() };
    let printed = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.extend(line.chars().skip(skipped).take(SHOWN_CHARS).map(printed));
    if line.chars().nth(skipped + SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}

//! Assembles a reply from the events of a stream, or reads it as a whole
//! (<https://platform.openai.com/docs/api-reference/responses-streaming>).
//!
//! Events are told by their `type`; unknown ones are ignored. Deltas are shown while they arrive; a whole item takes the
//! place of what its deltas said, and the items of the last event take the place of all if they are more. Only that
//! event ends a reply: `[DONE]`, which vLLM sends, does not.

use rondo_protocol::call::Fault;
use rondo_protocol::message::{Opaque, Part, Parts, ToolUse};
use rondo_protocol::object::Finish;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::model::bounded::{MAX_ITEMS, Progress, items, number, text, word};
use crate::model::http::refusal;
use crate::model::opaque::{self, Members};
use crate::model::openai_chat::arguments;
use crate::model::protocol::{Assembly, Outgoing, too_large, unreadable};
use crate::model::usage;
use crate::redact::Redactor;

/// The members that are read of an event, a response, an item and a part of its content, as they came.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Incoming<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    // Of an event.
    output_index: Option<&'a RawValue>,
    item_id: Option<&'a RawValue>,
    delta: Option<&'a RawValue>,
    item: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    // Of a response.
    status: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    incomplete_details: Option<&'a RawValue>,
    reason: Option<&'a RawValue>,
    // Of an item.
    id: Option<&'a RawValue>,
    phase: Option<&'a RawValue>,
    call_id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    content: Option<&'a RawValue>,
    summary: Option<&'a RawValue>,
    encrypted_content: Option<&'a RawValue>,
    // Of a part.
    text: Option<&'a RawValue>,
    /// It arrives instead of an answer and counts as the role's answer.
    refusal: Option<&'a RawValue>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Call,
    /// One that was not asked for, such as a search of the server.
    #[default]
    Other,
}

/// An item of a reply, as far as it has arrived.
#[derive(Debug, Default)]
struct Item {
    /// Its place; llama.cpp leaves it out.
    index: Option<u64>,
    id: String,
    is_whole: bool,
    /// The bytes of it that the budget knows of.
    counted_bytes: usize,
    kind: Kind,
    /// The text of a message, or what is readable of reasoning.
    text: String,
    call_id: String,
    name: String,
    arguments: String,
    /// The members of a message or a call that go back.
    members: Members,
    /// Reasoning as it came, if it can go back.
    reasoning: Option<String>,
}

impl Item {
    fn read(raw: &RawValue, index: Option<u64>, redactor: &Redactor) -> Result<Self, Fault> {
        let wire: Incoming<'_> = refusal::event(raw.get(), redactor)?;
        let mut item = match text(wire.r#type).as_deref() {
            Some("message") => Self { kind: Kind::Message, text: texts(wire.content, "")?, ..Self::default() },
            Some("function_call") => {
                let (call_id, name) = (word(wire.call_id).unwrap_or_default(), word(wire.name).unwrap_or_default());
                let arguments = arguments(wire.arguments)?.into_owned();
                Self { kind: Kind::Call, call_id, name, arguments, ..Self::default() }
            }
            Some("reasoning") => {
                let (summary, content) = (texts(wire.summary, "\n\n")?, texts(wire.content, "\n\n")?);
                let is_encrypted = text(wire.encrypted_content).is_some_and(|encrypted| !encrypted.is_empty());
                // Without its content it is a reference to something stored, and nothing is.
                let reasoning = (is_encrypted || !content.is_empty()).then(|| raw.get().to_owned());
                let text = if summary.is_empty() { content } else { summary };
                Self { kind: Kind::Reasoning, text, reasoning, ..Self::default() }
            }
            _ => Self::default(),
        };
        if matches!(item.kind, Kind::Message | Kind::Call) {
            let members = [("id", wire.id), ("phase", wire.phase), ("status", wire.status)];
            let is_text = |value: &&RawValue| value.get().starts_with('"');
            let kept =
                |(name, value): (&str, Option<&RawValue>)| Some((name.to_owned(), value.filter(is_text)?.to_owned()));
            item.members = members.into_iter().filter_map(kept).collect();
        }
        (item.index, item.id) = (index, word(wire.id).unwrap_or_default());
        item.counted_bytes = item.size_bytes();
        Ok(item)
    }

    fn size_bytes(&self) -> usize {
        let texts = [&self.text, &self.call_id, &self.name, &self.arguments];
        let members = self.members.values().map(|value| value.get().len()).sum::<usize>();
        texts.map(String::len).iter().sum::<usize>() + members + self.reasoning.as_ref().map_or(0, String::len)
    }

    /// What goes back of a message or a call, as an item; `None` if nothing does.
    fn attached(&mut self, r#type: &str) -> Option<String> {
        let is_known = self.members.contains_key("id") || self.members.contains_key("phase");
        let mut members = std::mem::take(&mut self.members);
        members.insert("type".to_owned(), to_raw_value(r#type).ok().filter(|_| is_known)?);
        serde_json::to_string(&members).ok()
    }
}

#[derive(Debug, Default)]
pub(super) struct Reply {
    progress: Progress,
    items: Vec<Item>,
}

impl Reply {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { progress: Progress::new(max_bytes), ..Self::default() }
    }

    /// The item that an event belongs to, if it has begun: by its place, else by its id, else the last of its kind. Some
    /// servers give every event of an item another id.
    fn begun(&self, index: Option<u64>, id: &str, kind: Kind) -> Option<usize> {
        let at = |is_it: &dyn Fn(&Item) -> bool| self.items.iter().rposition(|item| !item.is_whole && is_it(item));
        let by_index = at(&|item| index.is_some() && item.index == index);
        let by_id = || at(&|item| !id.is_empty() && item.id == id);
        let by_kind = || at(&|item| item.kind == kind && (index.is_none() || item.index.is_none()));
        by_index.or_else(by_id).or_else(by_kind)
    }

    fn push(&mut self, item: Item) -> Result<(), Fault> {
        if self.items.len() >= MAX_ITEMS {
            return Err(too_large(format!("the reply has more than {MAX_ITEMS} items")));
        }
        if item.kind == Kind::Call {
            self.progress.take_call()?;
        }
        self.items.push(item);
        Ok(())
    }

    /// Begins an item. What it says follows.
    fn begin(&mut self, event: &Incoming<'_>, redactor: &Redactor) -> Result<(), Fault> {
        let Some(raw) = event.item else { return Ok(()) };
        let mut item = Item::read(raw, number(event.output_index), redactor)?;
        (item.text, item.arguments, item.reasoning) = Default::default();
        item.counted_bytes = item.size_bytes();
        self.progress.take(item.counted_bytes)?;
        self.push(item)
    }

    /// Adds to the text of a message or to the arguments of a call.
    fn add(&mut self, event: &Incoming<'_>, kind: Kind) -> Result<String, Fault> {
        let Some(delta) = text(event.delta) else { return Ok(String::new()) };
        self.progress.take(delta.len())?;
        let (index, id) = (number(event.output_index), word(event.item_id).unwrap_or_default());
        let place = self.begun(index, &id, kind);
        if place.is_none() {
            self.push(Item { index, id, kind, ..Item::default() })?;
        }
        let place = place.unwrap_or(self.items.len() - 1);
        let Some(item) = self.items.get_mut(place) else { return Ok(String::new()) };
        item.counted_bytes = item.counted_bytes.saturating_add(delta.len());
        if kind == Kind::Call {
            item.arguments.push_str(&delta);
            return Ok(String::new());
        }
        item.text.push_str(&delta);
        Ok(delta)
    }

    /// Takes a whole item in place of what its deltas said. Returns the text that they did not show.
    fn take_item(&mut self, raw: &RawValue, index: Option<u64>, redactor: &Redactor) -> Result<String, Fault> {
        let mut item = Item { is_whole: true, ..Item::read(raw, index, redactor)? };
        let place = self.begun(index, &item.id, item.kind);
        let begun = place.and_then(|place| self.items.get_mut(place));
        let (said, counted_bytes) = begun.as_ref().map_or(("", 0), |begun| (&begun.text, begun.counted_bytes));
        self.progress.take(item.counted_bytes.saturating_sub(counted_bytes))?;
        let is_message = item.kind == Kind::Message;
        let unshown = item.text.strip_prefix(said).filter(|_| is_message).unwrap_or_default().to_owned();
        match begun {
            Some(begun) => {
                item.index = index.or(begun.index);
                *begun = item;
            }
            None => self.push(item)?,
        }
        Ok(unshown)
    }

    /// Takes the end of a reply: the response as it stands then. Returns the text that was not shown.
    fn take_end(&mut self, json: &str, event: Option<&str>, redactor: &Redactor) -> Result<String, Fault> {
        let response: Incoming<'_> = refusal::event(json, redactor)?;
        self.progress.count(response.usage.and_then(|usage| usage::read_response(usage.get())));
        let status = text(response.status);
        let status = match (event, status.as_deref()) {
            (None | Some("completed"), Some(status @ ("completed" | "incomplete" | "failed" | "cancelled"))) => status,
            (Some(event), _) => event,
            // It goes on elsewhere.
            (None, _) => return Ok(String::new()),
        };
        let end = match status {
            "completed" => Finish::Stop,
            "incomplete" => incomplete(response.incomplete_details, redactor)?,
            "failed" => return Err(refusal::of_error(response.error.map_or("null", RawValue::get), redactor)),
            _ => return Err(unreadable("the provider cancelled the reply".to_owned())),
        };
        let output = response.output.map(RawValue::get).filter(|output| output.starts_with('[')).unwrap_or("[]");
        let output = items(output)?;
        let shown = self.text();
        if output.len() > self.items.iter().filter(|item| item.is_whole).count() {
            self.items.clear();
            self.progress.restart();
            for raw in output {
                self.take_item(raw, None, redactor)?;
            }
        }
        self.progress.end = Some(Ok(end));
        Ok(self.text().strip_prefix(&shown).unwrap_or_default().to_owned())
    }

    fn text(&self) -> String {
        let messages = self.items.iter().filter(|item| item.kind == Kind::Message);
        messages.map(|item| item.text.as_str()).collect()
    }
}

impl Assembly for Reply {
    fn take(&mut self, json: &str, redactor: &Redactor) -> Result<String, Fault> {
        if self.is_closed() {
            return Ok(String::new());
        }
        let event: Incoming<'_> = refusal::event(json, redactor)?;
        let error = event.error;
        let response = || event.response.map_or("{}", RawValue::get);
        let none = || Ok(String::new());
        match text(event.r#type).unwrap_or_default().as_str() {
            "response.output_text.delta" | "response.refusal.delta" => self.add(&event, Kind::Message),
            "response.function_call_arguments.delta" => self.add(&event, Kind::Call),
            "response.output_item.added" => self.begin(&event, redactor).and_then(|()| none()),
            "response.output_item.done" => match event.item {
                Some(item) => self.take_item(item, number(event.output_index), redactor),
                None => none(),
            },
            "response.completed" => self.take_end(response(), Some("completed"), redactor),
            "response.incomplete" => self.take_end(response(), Some("incomplete"), redactor),
            "response.failed" => self.take_end(response(), Some("failed"), redactor),
            // The members of the error, or an object with them.
            "error" => Err(refusal::of_error(error.map_or(json, RawValue::get), redactor)),
            "" if event.status.is_some() => self.take_end(json, None, redactor),
            "" => error.map_or_else(none, |error| Err(refusal::of_error(error.get(), redactor))),
            _ => none(),
        }
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn finish(&self) -> Option<Result<Finish, Fault>> {
        let has_calls = self.items.iter().any(|item| item.kind == Kind::Call);
        match &self.progress.end {
            Some(Ok(Finish::Stop)) if has_calls => Some(Ok(Finish::ToolCalls)),
            end => end.clone(),
        }
    }

    /// The last event holds what the reply cost, and nothing follows it.
    fn is_closed(&self) -> bool {
        self.progress.end.is_some()
    }

    fn parts(self: Box<Self>, request: &Outgoing<'_>) -> Parts {
        let origin = opaque::origin(request.provider, &request.call.head.model);
        let opaque = |data: String| Opaque { data, provider: origin.clone() };
        let mut items = self.items;
        if items.iter().all(|item| item.index.is_some()) {
            items.sort_by_key(|item| item.index);
        }
        let is_lost = |item: &Item| item.kind == Kind::Reasoning && item.reasoning.is_none();
        let keeps_ids = !items.iter().any(is_lost);
        let (mut parts, mut calls) = (Parts::default(), 0);
        for mut item in items {
            if !keeps_ids {
                // By its id the server would miss the reasoning that led to it.
                item.members.remove("id");
            }
            match item.kind {
                Kind::Reasoning => {
                    let opaque = item.reasoning.map(opaque);
                    if opaque.is_some() || !item.text.is_empty() {
                        parts.push(Part::Reasoning { opaque, text: item.text });
                    }
                }
                Kind::Message if item.text.is_empty() => {}
                Kind::Message => {
                    if let Some(data) = item.attached("message") {
                        parts.push(Part::Reasoning { opaque: Some(opaque(data)), text: String::new() });
                    }
                    parts.push(Part::Text { text: item.text });
                }
                Kind::Call => {
                    if let Some(data) = item.attached("function_call") {
                        parts.push(Part::Reasoning { opaque: Some(opaque(data)), text: String::new() });
                    }
                    let Item { call_id, name, arguments, .. } = item;
                    parts.push(Part::ToolCall(ToolUse { arguments, id: request.call_id(call_id, calls), name }));
                    calls += 1;
                }
                Kind::Other => {}
            }
        }
        parts
    }
}

/// Why a response is incomplete. Whether one with any other reason can be used is not known.
fn incomplete(details: Option<&RawValue>, redactor: &Redactor) -> Result<Finish, Fault> {
    let details = details.and_then(|details| serde_json::from_str::<Incoming<'_>>(details.get()).ok());
    let reason = details.and_then(|details| word(details.reason)).unwrap_or_default();
    match reason.as_str() {
        "max_output_tokens" => Ok(Finish::Length),
        "content_filter" => Ok(Finish::ContentFilter),
        _ => {
            let reason = refusal::words(&reason, redactor);
            Err(unreadable(format!("the provider left the reply incomplete for `{reason}`, which is no known reason")))
        }
    }
}

/// The texts of a list of parts; a text itself.
fn texts(json: Option<&RawValue>, between: &str) -> Result<String, Fault> {
    let Some(list) = json.map(RawValue::get).filter(|list| list.starts_with('[')) else {
        return Ok(text(json).unwrap_or_default());
    };
    let said = |part: &RawValue| {
        let part: Incoming<'_> = serde_json::from_str(part.get()).ok()?;
        text(part.text).or_else(|| text(part.refusal))
    };
    Ok(items(list)?.into_iter().filter_map(said).collect::<Vec<_>>().join(between))
}

#[cfg(test)]
mod tests;

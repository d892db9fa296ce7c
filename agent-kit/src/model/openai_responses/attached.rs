//! What a server wants back of its items: reasoning as a whole; of messages and calls their ids and phases.
//!
//! It is kept as an item as JSON. Reasoning is that item byte for byte
//! (<https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context>). The item of a message or a
//! call holds [`MEMBERS`] only, and stands in front of the text or the call that it belongs to.

use std::borrow::Cow;

use rondo_protocol::message::Opaque;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::opaque::Members;

/// What is kept of a message or a call. The API wants the status of an item that has an id.
pub(super) const MEMBERS: [&str; 3] = ["id", "phase", "status"];

#[derive(Debug)]
pub(super) enum Attached {
    Reasoning(Box<RawValue>),
    /// Of the text behind it.
    Message(Members),
    /// Of the call behind it.
    Call(Members),
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

impl Attached {
    pub(super) fn of(opaque: Option<&Opaque>, origin: &str) -> Option<Self> {
        let data = &opaque.filter(|opaque| opaque.provider == origin)?.data;
        let members = || {
            let mut members: Members = serde_json::from_str(data).ok()?;
            members.retain(|name, _| MEMBERS.contains(&name.as_str()));
            Some(members)
        };
        match &*serde_json::from_str::<Typed<'_>>(data).ok()?.r#type {
            "reasoning" => RawValue::from_string(data.clone()).ok().map(Self::Reasoning),
            "message" => members().map(Self::Message),
            "function_call" => members().map(Self::Call),
            _ => None,
        }
    }
}

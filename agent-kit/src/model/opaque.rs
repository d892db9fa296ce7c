//! What a provider attaches to its replies and wants back: it is kept as the [`Opaque`] of a part, in front of what it
//! belongs to, and goes back only to whom it came from: signatures and encrypted reasoning hold for no other.

use std::collections::BTreeMap;

use rondo_protocol::message::{Opaque, Part};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The members that belong to a message or a call, as they came.
pub(super) type Members = BTreeMap<String, Box<RawValue>>;

/// Who may have it back where it holds for one model: a model of a provider.
pub(super) fn origin(provider: &str, model: &str) -> String {
    format!("{provider}/{model}")
}

/// A value that a part keeps for `origin`.
pub(super) trait Kept: Serialize + DeserializeOwned {
    /// The part that keeps it, with a text to read.
    fn part(&self, origin: &str, text: String) -> Part {
        let opaque = serde_json::to_string(self).ok().map(|data| Opaque { data, provider: origin.to_owned() });
        Part::Reasoning { opaque, text }
    }

    /// What a part keeps.
    fn of(opaque: Option<&Opaque>, origin: &str) -> Option<Self> {
        let opaque = opaque.filter(|opaque| opaque.provider == origin)?;
        serde_json::from_str(&opaque.data).ok()
    }
}

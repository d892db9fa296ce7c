//! What a provider attaches to its replies and wants back: it is kept as the [`Opaque`] of a part, and goes back only to
//! whom it came from.

use rondo_protocol::message::{Opaque, Part};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Who may have it back where it holds for one model: a model of a provider.
pub(super) fn origin(provider: &str, model: &str) -> String {
    format!("{provider}/{model}")
}

/// The part that keeps a value for `origin`, with a text to read.
pub(super) fn keep(value: &impl Serialize, origin: &str, text: String) -> Part {
    let opaque = serde_json::to_string(value).ok().map(|data| Opaque { data, provider: origin.to_owned() });
    Part::Reasoning { opaque, text }
}

/// The value that a part keeps for `origin`.
pub(super) fn kept<T: DeserializeOwned>(opaque: Option<&Opaque>, origin: &str) -> Option<T> {
    let opaque = opaque.filter(|opaque| opaque.provider == origin)?;
    serde_json::from_str(&opaque.data).ok()
}

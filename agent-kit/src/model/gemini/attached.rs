//! What belongs to a part of a reply and must come back beside it: its signature, and whether a call had an id
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::opaque::Kept;

/// A signature, as the JSON text that came.
pub(super) type Signature = Box<RawValue>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Attached {
    /// The signature of the text behind it.
    Text(Signature),
    /// The signature of an empty text.
    EmptyText(Signature),
    /// The text behind it is a part of its own, without a signature: without this it would be joined with the one before.
    PlainText,
    /// The signature of the thought that is the text of the part itself.
    Thought(Signature),
    /// Belongs to the call behind it.
    Call {
        /// Whether the id of the call is the provider's.
        has_id: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Signature>,
    },
}

impl Kept for Attached {}

//! Metadata of a thread that is not hashed: where it came from and how it ended.

use std::sync::Arc;

use rondo_protocol::call::FaultClass;
use rondo_protocol::canonical;
use rondo_protocol::event::Outcome;
use rondo_protocol::hint::Hint;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::Followed;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

use super::form::OpenForm;

/// Metadata of a thread that is not hashed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The workflow's name.
    pub name: String,
    /// The workflow's file, as an absolute path, if it came from a file.
    pub file: Option<String>,
    /// The script that answers in place of models, as an absolute path, if any.
    pub script: Option<String>,
    /// The recording that answers in place of models, as an absolute path, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The folder that its tools work in, as an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Unix milliseconds.
    pub started_at_ms: u64,
    /// How it ended.
    pub ending: Option<Ending>,
    /// Why it stopped without an end.
    pub stop: Option<Stop>,
    /// The forms that it waits for; at most [`MAX_FORMS`] are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<OpenForm>,
    /// The past that came with somebody else's export, if any: of this thread, or of one that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedPast>,
    /// What followed from the start, in the order of its events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Followed>,
}

/// The most forms that a thread's row lists.
pub const MAX_FORMS: usize = 1000;

/// A past that nobody of this machine saw: its steps are consistent, and may be invented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedPast {
    /// The thread that was imported.
    pub thread: ThreadId,
    /// How many steps it had; 0 if a repair made its row again, and it is not known whether it was imported.
    pub seq: u64,
    /// The last of these.
    pub step: Option<Digest>,
}

/// How a thread ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, for `fail`.
    pub reason: Option<String>,
    /// The result of the run. It may be large, and several places need it at once.
    #[serde(with = "shared")]
    pub result: Arc<Value>,
    /// Unix milliseconds.
    pub at_ms: u64,
}

impl Ending {
    /// That of a cancelled thread.
    pub fn cancelled(at_ms: u64) -> Self {
        let reason = Some("cancelled".to_owned());
        Self { outcome: Outcome::Cancelled, reason, result: Arc::new(Value::Null), at_ms }
    }
}

mod shared {
    use std::sync::Arc;

    use rondo_protocol::Value;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Arc<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        (**value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Value>, D::Error> {
        Value::deserialize(deserializer).map(Arc::new)
    }
}

/// Why a thread stopped without an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// The code of the fault.
    pub code: String,
    /// Its class.
    pub class: FaultClass,
    /// Its message.
    pub message: String,
    /// How the thread continues, if known when it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "hint_parts", alias = "hint")]
    pub hint: Option<Hint>,
}

impl Origin {
    /// Encodes it for a row.
    ///
    /// # Errors
    /// If the result has no canonical form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, canonical::Error> {
        canonical::to_bytes(self)
    }

    /// Reads it from a row.
    ///
    /// # Errors
    /// If the bytes are not in the form of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, canonical::Error> {
        canonical::from_slice(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_with(result: Value) -> Origin {
        Origin {
            name: "w".to_owned(),
            started_at_ms: 1,
            ending: Some(Ending { outcome: Outcome::Done, reason: None, result: Arc::new(result), at_ms: 2 }),
            ..Origin::default()
        }
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |value, _| Value::List(vec![value]))
    }

    #[test]
    fn a_row_that_could_not_be_read_again_is_not_written() {
        let deepest = ended_with(nested(canonical::MAX_VALUE_DEPTH));
        assert_eq!(Origin::from_bytes(&deepest.to_bytes().unwrap()), Ok(deepest));
        for result in [nested(canonical::MAX_DEPTH), Value::Float(f64::NAN)] {
            assert!(ended_with(result).to_bytes().is_err());
        }
    }
}

//! Scripts: answers without a model.
//!
//! A script holds a list of attempts for each role, and optionally for a role in the lane of one index. It keeps no
//! position: the caller passes how many attempts were made before, so that a resumed run continues where it stopped
//! and another process can play the same script.
//!
//! An entry with `tools` and `then` makes two attempts: the reply that asks for the tools, and the reply to their
//! results. It is flattened when the script is read.

mod check;
mod read;

use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::{Code, Span};
use rondo_protocol::id::Status;
use serde::{Deserialize, Serialize};

use super::status;
use crate::answer::Contract;

/// The maximum pause before a scripted answer.
pub const MAX_DELAY_MS: u64 = 600_000;

/// The answers of each role, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The lists, by role as written in the file: `writer`, `reviewer[2]`, `section/writer`.
    lists: BTreeMap<String, List>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The position of its key in the file.
    #[serde(with = "StoredSpan")]
    place: Span,
    attempts: Vec<Attempt>,
}

/// The stored form of a [`Span`] of the script's file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Span", deny_unknown_fields)]
struct StoredSpan {
    offset: usize,
    length: usize,
}

/// The answer to one attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The pause before it in milliseconds, at most [`MAX_DELAY_MS`].
    pub delay_ms: u64,
    /// The answer.
    pub said: Said,
    #[serde(with = "StoredSpan")]
    place: Span,
}

/// An answer, in one of the forms that a script can contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// Rendered in the role's format.
    Structured {
        /// The status; `None` for the role's only status.
        status: Option<String>,
        /// An object.
        fields: Value,
        /// The body.
        body: String,
    },
    /// These exact bytes.
    Raw(String),
    /// The model asks for tools.
    Tools(Vec<ToolRequest>),
    /// The attempt fails.
    Error(Failure),
}

/// A tool call of a scripted model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    /// The tool.
    pub name: String,
    /// Its arguments as the model writes them: canonical JSON, or any text that the script gives.
    pub arguments: String,
}

/// How a scripted attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The cause.
    pub cause: Cause,
    /// The provider's `Retry-After`, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

/// The cause of a scripted failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The provider answers with this HTTP status.
    Http(u16),
    /// The provider cannot be reached.
    Network,
    /// The reply ends before its finish reason.
    Cut,
    /// The provider sends nothing for too long.
    Timeout,
}

impl Failure {
    /// The fault that such a failure of a provider results in.
    pub fn fault(&self) -> Fault {
        let fault = match self.cause {
            Cause::Http(code) => status::fault(code, "so says the script"),
            Cause::Network => {
                let words = "the provider cannot be reached: so says the script";
                Fault::new(Code::ProviderUnreachable, FaultClass::Network, words)
            }
            Cause::Cut => {
                let words = "the reply was cut before its finish reason: so says the script";
                Fault::new(Code::ReplyCut, FaultClass::Network, words)
            }
            Cause::Timeout => {
                let words = "the provider was silent for too long: so says the script";
                Fault::new(Code::ProviderSilent, FaultClass::Timeout, words)
            }
        };
        Fault { retry_after_ms: self.retry_after_ms, ..fault }
    }
}

/// How a role of the workflow uses a script's entries.
#[derive(Debug, Clone)]
pub enum Part {
    /// A model: an entry is a reply in the contract's format.
    Model(Contract),
    /// A person: an entry is a completed form, as canonical JSON of status, fields and body.
    Human(Contract),
    /// A tool: an entry is its text.
    Tool,
}

/// Every role that a script may answer for, by its name in scripts: `writer`, `section/writer`.
pub type Roles = BTreeMap<String, Part>;

impl Part {
    /// The text of a structured answer of this part.
    pub(super) fn text(&self, status: Option<&str>, fields: &Value, body: &str) -> String {
        match self {
            Self::Tool => fields.to_text(),
            Self::Model(contract) => contract.render(self.status(status), fields, body),
            Self::Human(_) => {
                let mut form = if let Value::Object(members) = fields { members.clone() } else { BTreeMap::new() };
                form.insert("status".to_owned(), self.status(status).into());
                form.insert("body".to_owned(), body.into());
                Value::Object(form).to_text()
            }
        }
    }

    /// The status of an entry: its own, or the only one of the role.
    fn status<'a>(&'a self, given: Option<&'a str>) -> &'a str {
        let only = match self {
            Self::Model(contract) | Self::Human(contract) => contract.only_status().map(Status::as_str),
            Self::Tool => None,
        };
        given.or(only).unwrap_or_default()
    }
}

impl Script {
    /// The answer to attempt `ordinal` (from 0) of `role` in the lane of that index. A list for `role[lane]` replaces
    /// the one for `role`.
    pub fn attempt(&self, role: &str, lane: Option<u32>, ordinal: u64) -> Option<&Attempt> {
        self.list(role, lane)?.attempts.get(usize::try_from(ordinal).ok()?)
    }

    /// Whether it has answers for `role`.
    pub fn speaks_for(&self, role: &str, lane: Option<u32>) -> bool {
        self.list(role, lane).is_some()
    }

    /// Removes the pauses, for tests of the answers that do not depend on timing.
    #[must_use]
    pub fn without_pauses(mut self) -> Self {
        for attempt in self.lists.values_mut().flat_map(|list| &mut list.attempts) {
            attempt.delay_ms = 0;
            if let Said::Error(failure) = &mut attempt.said {
                failure.retry_after_ms = None;
            }
        }
        self
    }

    fn list(&self, role: &str, lane: Option<u32>) -> Option<&List> {
        let of_lane = lane.and_then(|index| self.lists.get(&format!("{role}[{index}]")));
        of_lane.or_else(|| self.lists.get(role))
    }
}

/// The role and the lane index of a script's key.
fn role_of(key: &str) -> (&str, Option<u32>) {
    let lane = key.strip_suffix(']').and_then(|key| key.rsplit_once('['));
    match lane.and_then(|(role, index)| Some((role, index, index.parse::<u32>().ok()?))) {
        // Each lane has exactly one spelling.
        Some((role, written, index)) if index.to_string() == written => (role, Some(index)),
        _ => (key, None),
    }
}

#[cfg(test)]
mod tests;

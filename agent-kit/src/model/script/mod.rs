//! Scripts: answers that are given without a model.
//!
//! A script holds a list of attempts for each role, and for a role in the lane of one index. It has no position of its
//! own: the caller says how many attempts were made before, so that a resumed run goes on where it stopped and
//! another process can play the same script.
//!
//! An entry with `tools` and `then` stands for two attempts: the reply that asks for the tools, and the reply to their
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

/// The longest pause before a scripted answer.
pub const MAX_DELAY_MS: u64 = 600_000;

/// For each role what it answers, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The lists, by role as the file writes it: `writer`, `reviewer[2]`, `section/writer`.
    lists: BTreeMap<String, List>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Where its key stands in the file.
    #[serde(with = "StoredSpan")]
    place: Span,
    attempts: Vec<Attempt>,
}

/// How a [`Span`] of the script's file is stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Span", deny_unknown_fields)]
struct StoredSpan {
    offset: usize,
    length: usize,
}

/// What one attempt is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Milliseconds before it, at most [`MAX_DELAY_MS`].
    pub delay_ms: u64,
    /// The answer.
    pub said: Said,
    #[serde(with = "StoredSpan")]
    place: Span,
}

/// An answer, in one of the ways in which a script can write it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// It becomes the bytes of the role's format.
    Structured {
        /// The status; `None` for the only one that the role has.
        status: Option<String>,
        /// An object.
        fields: Value,
        /// The body.
        body: String,
    },
    /// These bytes.
    Raw(String),
    /// The model asks for tools.
    Tools(Vec<ToolRequest>),
    /// The attempt fails.
    Error(Failure),
}

/// A tool that a scripted model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    /// The tool.
    pub name: String,
    /// Its arguments as the model writes them: canonical JSON, or whatever text the script gives.
    pub arguments: String,
}

/// How a scripted attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// In which way.
    pub cause: Cause,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<u64>,
}

/// In which way a scripted attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The provider answers with this status.
    Http(u16),
    /// The provider cannot be reached.
    Network,
    /// The reply ends before its finish reason.
    Cut,
    /// The provider is silent for too long.
    Timeout,
}

impl Failure {
    /// The fault that a provider's failure of this kind comes to.
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

/// What a role of the workflow does with a script's entries.
#[derive(Debug, Clone)]
pub enum Part {
    /// A model plays it: an entry is a reply in the contract's format.
    Model(Contract),
    /// A person plays it: an entry is a form filled in, as canonical JSON of status, fields and body.
    Human(Contract),
    /// A tool plays it: an entry is its text.
    Tool,
}

/// Every role that a script may answer for, by the name under which it would stand there: `writer`, `section/writer`.
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

    /// The status that an entry means: its own, or the only one there is.
    fn status<'a>(&'a self, given: Option<&'a str>) -> &'a str {
        let only = match self {
            Self::Model(contract) | Self::Human(contract) => contract.only_status().map(Status::as_str),
            Self::Tool => None,
        };
        given.or(only).unwrap_or_default()
    }
}

impl Script {
    /// What the attempt number `ordinal` (from 0) of `role` is answered with, in the lane of that index. A list for
    /// `role[lane]` stands in place of the one for `role`.
    pub fn attempt(&self, role: &str, lane: Option<u32>, ordinal: u64) -> Option<&Attempt> {
        self.list(role, lane)?.attempts.get(usize::try_from(ordinal).ok()?)
    }

    /// Whether it answers for `role` at all.
    pub fn speaks_for(&self, role: &str, lane: Option<u32>) -> bool {
        self.list(role, lane).is_some()
    }

    /// The same answers without the pauses before them, for whoever tests what is said and not when.
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

/// The role and the lane index that a key of a script means.
fn role_of(key: &str) -> (&str, Option<u32>) {
    let lane = key.strip_suffix(']').and_then(|key| key.rsplit_once('['));
    match lane.and_then(|(role, index)| Some((role, index, index.parse::<u32>().ok()?))) {
        // One lane has one spelling.
        Some((role, written, index)) if index.to_string() == written => (role, Some(index)),
        _ => (key, None),
    }
}

#[cfg(test)]
mod tests;

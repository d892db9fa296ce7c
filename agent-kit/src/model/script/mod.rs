//! Scripts: answers without a model.
//!
//! A script holds a list of attempts for each role, and optionally for a role in the lane of one index, in one nested
//! lane, or in the child thread of one lane. It keeps no position: the caller passes how many attempts were made before,
//! so that a resumed run continues where it stopped and another process can play the same script.
//!
//! An entry with `tools` and `then` makes two attempts: the reply that asks for the tools, and the reply to their
//! results. It is flattened when the script is read.

mod check;
mod key;
mod read;

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::{Code, Span};
use rondo_protocol::id::Status;
use serde::{Deserialize, Serialize};

use super::status;
use crate::answer::Contract;

pub use key::Place;

/// The maximum pause before a scripted answer.
pub const MAX_DELAY_MS: u64 = 600_000;

/// The answers of each role, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The lists, by role as written in the file: `writer`, `reviewer[2]`, `lead[0]/reviewer[2]`,
    /// `section/writer`, `section[1]/writer`.
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The pause before it in milliseconds, at most [`MAX_DELAY_MS`].
    pub delay_ms: u64,
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
        body: String,
    },
    /// These exact bytes.
    Raw(String),
    Tools(Vec<ToolRequest>),
    Error(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    pub name: String,
    /// Its arguments as the model writes them: canonical JSON, or any text that the script gives.
    pub arguments: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub cause: Cause,
    /// The message of the fault; `None` for one that names the script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The provider's `Retry-After`, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The fault of this code, such as `RN1108`.
    Code(String),
}

impl Failure {
    pub fn fault(&self) -> Fault {
        const SCRIPT: &str = "so says the script";
        let of = |code, what: &str| Fault::new(code, class_of(code), format!("{what}: {SCRIPT}"));
        let fault = match &self.cause {
            Cause::Http(code) => status::fault(*code, SCRIPT),
            Cause::Network => of(Code::ProviderUnreachable, "the provider cannot be reached"),
            Cause::Cut => of(Code::ReplyCut, "the reply was cut before its finish reason"),
            Cause::Timeout => of(Code::ProviderSilent, "the provider was silent for too long"),
            Cause::Code(code) => {
                // Only known codes are read.
                let code = Code::find(code).unwrap_or(Code::ProviderFailed);
                of(code, code.title())
            }
        };
        let message = self.message.clone().unwrap_or(fault.message);
        Fault { message, retry_after_ms: self.retry_after_ms, ..fault }
    }
}

/// The class of a fault of a visit: it decides whether another attempt may help, and which status routes it.
fn class_of(code: Code) -> FaultClass {
    match code {
        Code::ProviderBusy => FaultClass::RateLimit,
        Code::ProviderFailed | Code::ReplyUnreadable => FaultClass::Server,
        Code::ProviderSilent | Code::StepTimeout | Code::FormExpired => FaultClass::Timeout,
        Code::ProviderUnreachable | Code::ReplyCut => FaultClass::Network,
        Code::ContractBroken => FaultClass::Contract,
        Code::StepLimit | Code::ThreadLimit | Code::VisitLimit => FaultClass::Limit,
        _ => FaultClass::Refused,
    }
}

/// How a role of the workflow uses a script's entries.
#[derive(Debug, Clone)]
pub enum ScriptRole {
    /// A model: an entry is a reply in the contract's format.
    Model(Contract),
    /// A person: an entry is a completed form, as canonical JSON of status, fields and body.
    Human(Contract),
    /// A tool: an entry is its text.
    Tool,
}

/// Every role that a script may answer for.
#[derive(Debug, Clone, Default)]
pub struct ScriptRoles {
    /// By its name in scripts without lanes: `writer`, `section/writer`.
    pub roles: BTreeMap<String, ScriptRole>,
    /// In how many lanes each of them runs, one within the other, and each role that runs a child; 0 in the trunk. A
    /// role that is left out may run anywhere.
    pub depths: BTreeMap<String, BTreeSet<usize>>,
}

impl ScriptRole {
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
    /// The answer to attempt `ordinal` (from 0) of the last place of `path`, whose thread the places before it run.
    pub fn attempt(&self, roles: &ScriptRoles, path: &[Place], ordinal: u64) -> Option<&Attempt> {
        self.list(roles, path)?.attempts.get(usize::try_from(ordinal).ok()?)
    }

    /// Whether it has answers for the last place of `path`.
    pub fn speaks_for(&self, roles: &ScriptRoles, path: &[Place]) -> bool {
        self.list(roles, path).is_some()
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

    /// The list of the narrowest key. One that names both a child's role and a role in a nested lane is the child's.
    fn list(&self, roles: &ScriptRoles, path: &[Place]) -> Option<&List> {
        let role = path.iter().map(|(role, _)| role.as_str()).collect::<Vec<_>>().join("/");
        let is_meant = |key: &str| roles.role_of(key).is_none_or(|named| named == role);
        key::keys(path).iter().find_map(|key| self.lists.get(key).filter(|_| is_meant(key)))
    }
}

#[cfg(test)]
mod tests;

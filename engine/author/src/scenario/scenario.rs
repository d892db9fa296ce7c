//! A scenario.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::recorded::Cassette;
use rondo_agent_kit::model::script::Script;
use rondo_protocol::Value;

use super::expect::{Expectations, Location};
use super::parts::PartDigests;

/// A scenario. If its file has faults, the readable parts.
#[derive(Debug, Default)]
pub struct Scenario {
    pub description: String,
    /// The checked input: an object, defaults filled in.
    pub input: Value,
    pub answers: AnswerSource,
    /// The folder whose copy its tools work in, relative to the workflow's folder.
    pub workspace: Option<String>,
    pub tools: BTreeMap<String, Canned>,
    pub expect: Expectations,
    /// The digests' beginnings of those of its parts that affect requests.
    pub parts: PartDigests,
    pub locations: BTreeMap<String, Location>,
}

#[derive(Debug, Clone)]
pub enum AnswerSource {
    /// A script; it also answers for tool roles.
    Script(Script),
    Recorded(Arc<Cassette>),
}

impl Default for AnswerSource {
    fn default() -> Self {
        Self::Script(Script::default())
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Canned {
    /// The description for models, if there is no other.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, if there is no other.
    pub parameters: Option<String>,
    pub results: Vec<CannedResult>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CannedResult {
    /// The arguments that it applies to; `None` means any.
    pub args: Option<Value>,
    pub text: String,
    pub failed: bool,
}

impl Scenario {
    /// The location of a key, or the beginning of the file.
    pub fn location(&self, key: &str) -> Location {
        self.locations.get(key).copied().unwrap_or(Location { line: 1, column: 1 })
    }
}

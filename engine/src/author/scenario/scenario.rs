//! One scenario as it was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::recorded::Cassette;
use rondo_agent_kit::model::script::Script;
use rondo_protocol::Value;

use super::expect::{Expectations, Location};
use super::parts::Parts;

/// One scenario. Where its file has faults, what could be read.
#[derive(Debug, Default)]
pub struct Scenario {
    /// What it shows, for a person.
    pub description: String,
    /// The checked input: an object, defaults filled in.
    pub input: Value,
    /// Who answers in place of models.
    pub answers: AnswerSource,
    /// The folder whose copy its tools work in, from the workflow's folder.
    pub workspace: Option<String>,
    /// What tools answer in place of what they would do, by name.
    pub tools: BTreeMap<String, Canned>,
    /// What must come of it.
    pub expect: Expectations,
    /// Of its own parts that decide what is sent, the beginnings of their digests.
    pub parts: Parts,
    /// The location of each of its keys.
    pub locations: BTreeMap<String, Location>,
}

/// Who answers in place of models.
#[derive(Debug, Clone)]
pub enum AnswerSource {
    /// A script; it also answers for tool roles.
    Script(Script),
    /// A recording.
    Recorded(Arc<Cassette>),
}

impl Default for AnswerSource {
    fn default() -> Self {
        Self::Script(Script::default())
    }
}

/// What a tool answers in a scenario.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Canned {
    /// What models are told that it does, where nothing else says so.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, in the same case.
    pub parameters: Option<String>,
    /// The results of its calls, in order.
    pub results: Vec<CannedResult>,
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CannedResult {
    /// The arguments that it answers; `None` = any.
    pub args: Option<Value>,
    /// What the model is shown.
    pub text: String,
    /// Whether the call failed.
    pub failed: bool,
}

impl Scenario {
    /// The location of a key, or the beginning of the file.
    pub fn location(&self, key: &str) -> Location {
        self.locations.get(key).copied().unwrap_or(Location { line: 1, column: 1 })
    }
}

//! Why a snapshot differs from the accepted one, in an author's words.

use std::fmt;

use rondo_agent_kit::prefix;
use serde::{Serialize, Serializer};

/// Why a snapshot differs from the accepted one. People script against the phrases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// What also breaks a prefix, as `rondo prefix` names it.
    Prefix(prefix::Cause),
    /// Parameters of the model, such as its temperature.
    ParametersChanged,
    /// A role writes its answers in another format.
    FormatChanged,
    /// What a role is told of its own earlier visits.
    HistoryChanged,
    /// The graph leads elsewhere.
    EdgeMoved,
    /// A limit, or how often an attempt is repeated.
    LimitChanged,
    /// The models that are asked in place of one that fails.
    FallbackChanged,
    /// A hook that changes what is said.
    HookChanged,
    /// An input of the workflow, or what the scenario gives for it.
    InputChanged,
    /// The scenario's answers in place of models.
    ScriptChanged,
    /// The scenario's recording.
    RecordingChanged,
    /// The scenario's results in place of tools.
    ResultsChanged,
    /// The files that the scenario's tools work on.
    WorkspaceChanged,
    /// What the run gives back.
    ResultChanged,
    /// Why the run fails.
    ReasonChanged,
    /// A line for the user.
    LineChanged,
    /// Nothing in the workflow and in the scenario changed: rondo itself writes the same in another way.
    #[default]
    MessageLayout,
}

impl Cause {
    /// The phrase.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Prefix(cause) => cause.phrase(),
            Self::ParametersChanged => "parameters changed",
            Self::FormatChanged => "answer format changed",
            Self::HistoryChanged => "history changed",
            Self::EdgeMoved => "edge moved",
            Self::LimitChanged => "limit changed",
            Self::FallbackChanged => "fallback changed",
            Self::HookChanged => "hook changed",
            Self::InputChanged => "input changed",
            Self::ScriptChanged => "script changed",
            Self::RecordingChanged => "recording changed",
            Self::ResultsChanged => "canned results changed",
            Self::WorkspaceChanged => "workspace changed",
            Self::ResultChanged => "result changed",
            Self::ReasonChanged => "reason changed",
            Self::LineChanged => "line for the user changed",
            Self::MessageLayout => "message layout",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phrase())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.phrase())
    }
}

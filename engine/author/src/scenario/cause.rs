//! Why a snapshot differs from the accepted one, in an author's words.

use std::fmt;

use rondo_agent_kit::prefix;
use serde::{Serialize, Serializer};

/// Why a snapshot differs from the accepted one. Scripts may rely on the phrases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A cause that also breaks a prefix, as named by `rondo prefix`.
    Prefix(prefix::Cause),
    /// Parameters of the model, such as its temperature.
    ParametersChanged,
    /// The format of a role's answers.
    FormatChanged,
    /// A role's history of its own earlier visits.
    HistoryChanged,
    /// The route through the graph.
    EdgeMoved,
    /// A limit, or the number of attempts.
    LimitChanged,
    /// The fallback models.
    FallbackChanged,
    /// A hook that changes requests or answers.
    HookChanged,
    /// An input of the workflow, or the scenario's value for it.
    InputChanged,
    /// The scenario's answers in place of models.
    ScriptChanged,
    /// The scenario's recording.
    RecordingChanged,
    /// The scenario's results in place of tools.
    ResultsChanged,
    /// The files that the scenario's tools work on.
    WorkspaceChanged,
    /// The result of the run.
    ResultChanged,
    /// The reason for a failure.
    ReasonChanged,
    /// A line for the user.
    LineChanged,
    /// Nothing in the workflow and the scenario changed: rondo's own message layout did.
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

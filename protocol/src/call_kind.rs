//! The three kinds of calls, apart from the calls themselves: workflow files and notes name them.

use serde::{Deserialize, Serialize};

/// Which of the three a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// A whole visit of a role.
    Turn,
    /// One request to a model.
    Model,
    /// One invocation of a tool.
    Tool,
}

impl CallKind {
    /// Every kind, outermost first.
    pub const ALL: [Self; 3] = [Self::Turn, Self::Model, Self::Tool];

    /// The word in files and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Model => "model",
            Self::Tool => "tool",
        }
    }
}

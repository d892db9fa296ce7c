//! The three kinds of calls, in a separate module because workflow files and notes name them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The kind of a call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CallKind {
    /// A whole visit of a role.
    Turn,
    /// One request to a model.
    Model,
    /// One invocation of a tool.
    Tool,
}

impl CallKind {
    /// All kinds, outermost first.
    pub const ALL: [Self; 3] = [Self::Turn, Self::Model, Self::Tool];

    pub fn name(self) -> &'static str {
        self.into()
    }
}

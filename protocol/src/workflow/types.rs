//! What a declared input or field may hold.

use serde::{Deserialize, Serialize};

use crate::canonical::Value;

/// A declared input or field of a status: shorthands are expanded, so that only JSON Schema is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Whether it may be absent: its name ended in `?`.
    pub optional: bool,
    /// JSON Schema 2020-12; an input's default stands in it as `default`.
    pub schema: Value,
}

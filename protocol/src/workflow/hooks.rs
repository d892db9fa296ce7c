//! The hook kinds that a file may name, and the split of what it uses by whether it changes what is said.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::CallKind;
use crate::canonical::Value;
use crate::id::RoleName;

/// One use of a hook kind in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookUse {
    /// At which calls it stands.
    pub at: CallKind,
    /// What happens when the hook itself fails.
    pub on_error: OnHookError,
    /// In front of whom; `None` = every role.
    pub roles: Option<Vec<RoleName>>,
    /// The kind's own settings.
    pub settings: BTreeMap<String, Value>,
    /// The kind.
    #[serde(rename = "use")]
    pub kind: String,
}

/// What happens to a call when a hook in front of it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnHookError {
    /// It goes on as if the hook were not there.
    Bypass,
    /// It fails.
    Fail,
}

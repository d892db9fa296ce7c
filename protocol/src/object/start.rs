use serde::{Deserialize, Serialize};

use crate::canonical::Value;
use crate::digest::Digest;

/// The layout version that a new thread pins.
pub const LAYOUT: u32 = 1;

/// The start of a thread, object kind `start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The input after defaults and redaction: an object with one member for each declared input that has a value.
    pub input: Value,
    pub layout: u32,
    pub workflow: Digest,
}

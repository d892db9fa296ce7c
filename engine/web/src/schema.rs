//! Shapes of values that are written elsewhere, for the `OpenAPI` document.
#![expect(dead_code, reason = "only the schemas of these types are used")]

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// A line of the command line with `--json`. Its other members are those that its page of `rondo explain lines` lists
/// for this `event`.
#[derive(JsonSchema)]
pub struct Line {
    event: String,
    #[serde(flatten)]
    members: BTreeMap<String, serde_json::Value>,
}

/// A request that a model was sent, as `rondo messages --json` prints it.
#[derive(JsonSchema)]
pub struct RequestObject {
    seq: u64,
    role: String,
    lane: String,
    visit: u64,
    digest: String,
    /// The request before a hook rewrote it.
    asked: Option<BTreeMap<String, serde_json::Value>>,
    /// Everything but the messages: model, parameters, tools, form of the answer.
    head: BTreeMap<String, serde_json::Value>,
    messages: Vec<BTreeMap<String, serde_json::Value>>,
}

/// A fault of a file.
#[derive(JsonSchema)]
pub struct FileFault {
    code: String,
    severity: String,
    file: String,
    line: u32,
    column: u32,
    span: BTreeMap<String, u64>,
    message: String,
    hint: Option<String>,
}

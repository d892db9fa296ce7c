//! The JSON Schema of workflow files, for editors: `rondo schema` prints it.
//!
//! The types here mirror what the reader takes and are used for nothing else. A schema says less than the reader: names
//! that exist, templates, durations within range are for `rondo validate`. A test holds both to the same files.

#![expect(dead_code, reason = "the types are only described, never made")]

mod edge;
mod hook;
mod role;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use edge::graph;
use hook::hooks;
use role::roles;

/// The JSON Schema 2020-12 of a workflow file, as text with a newline at its end.
pub fn schema() -> String {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Workflow>();
    // The mirror's defaults only say that a key may be left out; they are not the format's.
    RecursiveTransform(|schema: &mut Schema| drop(schema.remove("default"))).transform(&mut schema);
    // What begins with `x-` is ignored, at the top only.
    schema.insert("patternProperties".to_owned(), json!({ "^x-": true }));
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// A workflow of roles and a graph of prompts between them.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Workflow {
    /// Version of the format.
    #[schemars(range(min = 1, max = 1))]
    rondo: u32,
    /// The name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), length(max = 100))]
    name: String,
    /// What it is for.
    #[serde(default)]
    description: String,
    /// What a thread is given: types by name; a name that ends in `?` is optional.
    #[serde(default)]
    #[schemars(schema_with = "fields")]
    input: (),
    /// Logical models by name.
    #[serde(default)]
    models: BTreeMap<String, Model>,
    /// Who speaks.
    #[schemars(schema_with = "roles")]
    roles: (),
    /// Where `start` and each role's statuses lead.
    #[schemars(schema_with = "graph")]
    graph: (),
    /// What the run gives back: templates at the leaves.
    #[serde(default)]
    #[schemars(schema_with = "templates")]
    result: (),
    /// Hooks in front of calls, in order.
    #[serde(default)]
    #[schemars(schema_with = "hooks")]
    hooks: (),
    /// Limits of a thread.
    #[serde(default)]
    limits: Limits,
}

/// A logical model and its parameters.
#[expect(clippy::struct_field_names, reason = "the key is called so in files")]
#[derive(JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct Model {
    /// The provider's id.
    model: String,
    #[schemars(range(min = 0, max = 2))]
    temperature: f64,
    #[schemars(range(min = 0, max = 1))]
    top_p: f64,
    #[schemars(range(min = 1))]
    max_output_tokens: u64,
    seed: i64,
    /// Texts at which an answer ends.
    stop: OneOrMany,
    #[schemars(range(min = -2, max = 2))]
    presence_penalty: f64,
    #[schemars(range(min = -2, max = 2))]
    frequency_penalty: f64,
    reasoning_effort: String,
}

/// A text or a list of texts.
#[derive(JsonSchema)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::One(String::new())
    }
}

/// Limits of a thread.
#[derive(Default, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    #[schemars(range(min = 1))]
    steps: u64,
    #[schemars(range(min = 1))]
    visits: u64,
    #[schemars(range(min = 1))]
    model_calls: u64,
    #[schemars(range(min = 1))]
    tool_calls: u64,
    #[schemars(range(min = 1))]
    tokens: u64,
    /// US dollars.
    cost_usd: f64,
    wall_time: Duration,
    #[schemars(range(min = 1))]
    depth: u64,
}

/// Limits of a role.
#[derive(Default, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RoleLimits {
    #[schemars(range(min = 1))]
    visits: u64,
    #[schemars(range(min = 1))]
    model_calls: u64,
    #[schemars(range(min = 1))]
    tool_calls: u64,
    #[schemars(range(min = 1))]
    tokens: u64,
    /// US dollars.
    cost_usd: f64,
}

/// Digits and one unit: `250ms 30s 10m 2h 3d`.
#[derive(Default, JsonSchema)]
#[serde(transparent)]
struct Duration(#[schemars(regex(pattern = r"^[0-9]+(ms|s|m|h|d)$"))] String);

/// Bytes, or digits and a unit: `32KiB 8MiB`.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Size {
    Bytes(#[schemars(range(min = 1))] u64),
    Units(#[schemars(regex(pattern = r"^[0-9]+(B|KiB|MiB|GiB)$"))] String),
}

impl Default for Size {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// A map from names that follow `pattern` to `value`.
fn named(pattern: &str, value: &Schema) -> Schema {
    json_schema!({ "type": "object", "patternProperties": { pattern: value }, "additionalProperties": false })
}

/// Fields or inputs: a shorthand or JSON Schema for each name.
fn fields(_: &mut SchemaGenerator) -> Schema {
    named("^[A-Za-z_][A-Za-z0-9_]*[?]?$", &json_schema!({ "type": ["string", "object"] }))
}

/// Any value but nothing; its texts are templates.
fn templates(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "number", "boolean", "array", "object"] })
}

#[cfg(test)]
mod tests;

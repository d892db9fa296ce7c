//! The graph: edges, fan-outs and joins.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::json;

use super::{named, templates};
use crate::workflow::FailedLanes;

pub(super) fn graph(generator: &mut SchemaGenerator) -> Schema {
    let edges = generator.subschema_for::<Edges>();
    let statuses = named("^[a-z][a-z0-9_-]*$", &edges);
    let mut graph = named("^(?!start$)[a-z][a-z0-9_]*$", &statuses);
    graph.insert("properties".to_owned(), json!({ "start": edges }));
    graph
}

fn edge(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Edge>()
}

/// An edge, or a list of edges that is tried in order.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Edges {
    One(Box<Edge>),
    Many(#[schemars(length(min = 1))] Vec<ListedEdge>),
}

/// An edge of a list: with `when`, or as the last one under `else`.
#[derive(JsonSchema)]
#[serde(untagged)]
enum ListedEdge {
    When(Box<Edge>),
    Else(ElseEdge),
}

/// Where to go when no condition holds.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct ElseEdge {
    r#else: Box<Edge>,
}

/// From a status to the next role, with the prompt that it is given.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edge {
    /// A role, `end`, `fail`, `back`, or a list of branches.
    to: To,
    /// A template.
    #[serde(default)]
    prompt: Prompt,
    /// A condition.
    #[serde(default)]
    when: Expression,
    /// How often it may be taken in a thread.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max: u32,
    /// The role whose every step counts anew.
    #[serde(default)]
    per: String,
    /// Where it leads once it has been taken `max` times.
    #[serde(default)]
    #[schemars(schema_with = "edge")]
    on_max: (),
    /// A line for the user: a template.
    #[serde(default)]
    say: String,
    /// Why, at `fail`: a template.
    #[serde(default)]
    reason: String,
    /// What the run gives back: templates at the leaves.
    #[serde(default)]
    #[schemars(schema_with = "templates")]
    result: (),
    /// An expression that yields a list: a lane for each element.
    #[serde(default)]
    each: String,
    /// The name of the element in the lane's prompts.
    #[serde(default)]
    r#as: String,
    /// How many lanes run at once.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    parallel: u32,
    /// Where the lanes meet.
    #[serde(default)]
    join: Join,
}

/// Where an edge leads.
#[derive(JsonSchema)]
#[serde(untagged)]
enum To {
    One(String),
    Many(#[schemars(length(min = 1))] Vec<Branch>),
}

/// A branch of a fan-out.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Branch {
    Role(String),
    Full(FullBranch),
}

/// A branch with a prompt of its own.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct FullBranch {
    to: String,
    #[serde(default)]
    prompt: Prompt,
    #[serde(default)]
    when: Expression,
}

/// A template, or a file that holds one.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    File(PromptFile),
}

impl Default for Prompt {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// A file in the workflow's folder.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct PromptFile {
    file: String,
}

/// An expression without braces.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Expression {
    Text(String),
    Boolean(bool),
}

impl Default for Expression {
    fn default() -> Self {
        Self::Boolean(true)
    }
}

/// Where lanes meet.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Join {
    Role(String),
    Full(FullJoin),
}

impl Default for Join {
    fn default() -> Self {
        Self::Role(String::new())
    }
}

/// Where lanes meet, and how.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct FullJoin {
    to: String,
    #[serde(default)]
    prompt: Prompt,
    #[serde(default)]
    need: Need,
    #[serde(default)]
    failed: FailedLanes,
}

/// How many lanes must arrive.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Need {
    Word(NeedWord),
    Count(#[schemars(range(min = 1))] u32),
}

impl Default for Need {
    fn default() -> Self {
        Self::Word(NeedWord::All)
    }
}

/// How many lanes must arrive.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NeedWord {
    All,
    Any,
}

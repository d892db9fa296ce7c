//! Roles, by kind.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::hook::with;
use super::{Duration, RoleLimits, Size, fields, named};
use crate::workflow::{AnswerFormat, ContextWhat, History, RetryFault};

fn status_fields(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [fields(generator), { "type": "null" }] })
}

fn output(generator: &mut SchemaGenerator) -> Schema {
    let mut output = named("^[a-z][a-z0-9_-]*$", &status_fields(generator));
    output.insert("minProperties".to_owned(), json!(1));
    output
}

fn rules(_: &mut SchemaGenerator) -> Schema {
    let expression = json_schema!({ "type": ["string", "boolean", "number"] });
    let rule = named("^[A-Za-z_][A-Za-z0-9_]*$", &expression);
    let mut rules = named("^[a-z][a-z0-9_-]*$", &json_schema!({ "anyOf": [rule, { "type": "null" }] }));
    rules.insert("minProperties".to_owned(), json!(1));
    rules
}

pub(super) fn roles(generator: &mut SchemaGenerator) -> Schema {
    let mut roles = named("^[a-z][a-z0-9_]*$", &generator.subschema_for::<Role>());
    roles.insert("minProperties".to_owned(), json!(1));
    roles
}

fn compact(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Compact>()
}

/// A role; without `kind` a model plays it.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Role {
    Model(Box<ModelRole>),
    Selector(Box<SelectorRole>),
    Human(HumanRole),
    Tool(ToolRole),
    Rule(RuleRole),
    Workflow(WorkflowRole),
}

macro_rules! kind_words {
    ($($name:ident $word:ident),* $(,)?) => {
        $(
            /// The word under `kind`.
            #[derive(JsonSchema)]
            #[serde(rename_all = "lowercase")]
            enum $name {
                $word,
            }
        )*
    };
}

kind_words!(KindSelector Selector, KindHuman Human, KindTool Tool, KindRule Rule, KindWorkflow Workflow);

/// The word under `kind`.
#[derive(Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum KindModel {
    #[default]
    Model,
}

/// A role that a model plays.
#[derive(Default, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ModelRole {
    kind: KindModel,
    description: String,
    /// A name under `models`.
    model: String,
    system: System,
    /// The statuses it may answer with, each with its fields.
    #[schemars(schema_with = "output")]
    output: (),
    format: AnswerFormat,
    tools: Vec<String>,
    history: History,
    context: Context,
    limits: RoleLimits,
    retry: Retry,
    fallback: Vec<String>,
    timeout: Duration,
    #[schemars(schema_with = "compact")]
    compact: (),
    #[schemars(schema_with = "with")]
    with: (),
}

/// A model role whose statuses are those of its edges.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct SelectorRole {
    kind: KindSelector,
    #[serde(default)]
    description: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    system: System,
    #[serde(default)]
    by: SelectBy,
    #[serde(default)]
    format: AnswerFormat,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    history: History,
    #[serde(default)]
    context: Context,
    #[serde(default)]
    limits: RoleLimits,
    #[serde(default)]
    retry: Retry,
    #[serde(default)]
    fallback: Vec<String>,
    #[serde(default)]
    timeout: Duration,
    #[serde(default)]
    #[schemars(schema_with = "compact")]
    compact: (),
    #[serde(default)]
    #[schemars(schema_with = "with")]
    with: (),
}

/// A person answers.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct HumanRole {
    kind: KindHuman,
    #[serde(default)]
    description: String,
    /// The form: the person picks a status.
    #[schemars(schema_with = "output")]
    output: (),
    #[serde(default)]
    timeout: Duration,
}

/// One tool is run.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolRole {
    kind: KindTool,
    #[serde(default)]
    description: String,
    tool: String,
    /// Templates.
    #[serde(default)]
    args: BTreeMap<String, Value>,
    #[serde(default)]
    output: ToolOutput,
}

/// The fields that are read from a tool's text.
#[derive(Default, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ToolOutput {
    #[schemars(schema_with = "status_fields")]
    ok: (),
}

/// Expressions decide.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleRole {
    kind: KindRule,
    #[serde(default)]
    description: String,
    /// Tried in order; the last without `when`.
    #[schemars(schema_with = "rules")]
    output: (),
}

/// Another workflow runs.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct WorkflowRole {
    kind: KindWorkflow,
    #[serde(default)]
    description: String,
    /// A file in this folder.
    workflow: String,
    /// Templates.
    #[serde(default)]
    input: BTreeMap<String, Value>,
    /// From the child's last status to a status of this role.
    #[serde(default)]
    statuses: BTreeMap<String, String>,
}

/// A system text: a text, a file, or a list of both.
#[derive(JsonSchema)]
#[serde(untagged)]
enum System {
    One(SystemPiece),
    Many(Vec<SystemPiece>),
}

impl Default for System {
    fn default() -> Self {
        Self::One(SystemPiece::Text(String::new()))
    }
}

/// A piece of a system text.
#[derive(JsonSchema)]
#[serde(untagged)]
enum SystemPiece {
    Text(String),
    File(SystemFile),
    Raw(SystemText),
}

/// A file in the workflow's folder.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct SystemFile {
    file: String,
    /// Whether `{{` in it is text.
    #[serde(default)]
    raw: bool,
}

/// A text.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct SystemText {
    text: String,
    /// Whether `{{` in it is text.
    #[serde(default)]
    raw: bool,
}

/// What of the other roles' steps is told.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Context {
    What(ContextWhat),
    Chosen(ChosenContext),
}

impl Default for Context {
    fn default() -> Self {
        Self::What(ContextWhat::Outputs)
    }
}

/// How much, of whom.
#[derive(Default, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ChosenContext {
    from: Vec<String>,
    what: ContextWhat,
    max_bytes: Size,
}

/// How an attempt that failed is repeated.
#[derive(Default, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Retry {
    #[schemars(range(min = 1, max = 100))]
    attempts: u32,
    backoff: Duration,
    faults: Vec<RetryFault>,
}

/// Older visits are put into one text.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Compact {
    /// Estimated tokens.
    #[schemars(range(min = 1))]
    at: u64,
    /// Visits that stay.
    keep: u64,
    /// The role that writes the text.
    by: String,
}

/// Who chooses for a selector.
#[derive(JsonSchema)]
#[serde(untagged)]
enum SelectBy {
    Word(SelectWord),
    Expression(SelectExpression),
}

impl Default for SelectBy {
    fn default() -> Self {
        Self::Word(SelectWord::Model)
    }
}

/// Who chooses for a selector.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SelectWord {
    Model,
    RoundRobin,
    LeastRecent,
    Human,
}

/// An expression that yields a status.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct SelectExpression {
    expression: String,
}

//! The workflow as it is checked: what a file means once everything is resolved.
//!
//! A file becomes a spanned tree ([`crate::source`]), then a definition ([`read`](self::read())) whose every fault has
//! a place, then, when the checker has nothing against it, a [`Checked`]: the hashed [`Workflow`] and the [`Policy`]
//! that may change between runs. A running workflow knows nothing of files.
//!
//! Order is data where it has a meaning: `input`, `roles`, the statuses of an output, the fields of a status and
//! `graph` are lists of `[name, value]` in file order.

pub mod check;
mod format;
pub mod hooks;
pub mod limits;
pub mod read;
pub mod schema;
pub mod source_map;
pub mod template;
pub mod types;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::canonical::Value;
use crate::diagnostic::Diagnostic;
use crate::id::{FieldName, RoleName, Status};
use crate::object::Parameters;

pub use hooks::{HookNode, HookUse, OnHookError};
pub use limits::{Limits, RoleLimits};
pub use read::{Files, read, read_hook};
pub use source_map::SourceMap;
pub use types::Field;

/// A list of names with values, in file order.
pub type Ordered<N, V> = Vec<(N, V)>;

/// The result of reading a file without faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// What is hashed.
    pub workflow: Workflow,
    /// What may change between runs.
    pub policy: Policy,
    /// What is odd but not wrong, in source order.
    pub warnings: Vec<Diagnostic>,
    /// What is valid but cannot be run by this version, in source order: `validate` prints it, `run` refuses it.
    pub not_yet: Vec<Diagnostic>,
    /// Where each part stands, for what is found out about the workflow later.
    pub places: SourceMap,
}

/// The checked definition, object kind `workflow`: files inlined, shorthands expanded, defaults written out,
/// templates as source text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    /// The graph: for `start` and for each role, where it leads.
    pub graph: Ordered<String, Outgoing>,
    /// Altering hooks, in file order.
    pub hooks: Vec<HookUse>,
    /// What a thread is given.
    pub input: Ordered<FieldName, Field>,
    /// Logical models.
    pub models: BTreeMap<String, ModelSpec>,
    /// The name.
    pub name: String,
    /// What the run gives back at an `end` without a result of its own.
    pub result: Option<Template>,
    /// Who speaks.
    pub roles: Ordered<RoleName, Role>,
    /// Version of the format: 1.
    pub rondo: u32,
}

/// What of a workflow may change between runs without changing its threads, object kind `policy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What the workflow is for.
    pub description: String,
    /// Transparent hooks, in file order.
    pub hooks: Vec<HookUse>,
    /// Limits of a thread.
    pub limits: Limits,
    /// For each role what may change; a child workflow's roles stand under `role/child_role`.
    pub roles: BTreeMap<String, RolePolicy>,
}

/// What of a role may change between runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolePolicy {
    /// Logical models that are asked when the first cannot be had.
    pub fallback: Vec<String>,
    /// Limits of the role.
    pub limits: RoleLimits,
    /// How an attempt that failed is repeated.
    pub retry: Retry,
    /// Milliseconds that a step may take; of a human role, until `on_timeout`.
    pub timeout_ms: Option<u64>,
    /// Settings for transparent hook kinds, by kind.
    pub with: BTreeMap<String, Value>,
}

/// How an attempt that failed is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first one included.
    pub attempts: u32,
    /// Milliseconds before the second attempt; doubled for each further one, with jitter.
    pub backoff_ms: u64,
    /// Which faults are worth another attempt.
    pub faults: Vec<RetryFault>,
}

/// A fault that another attempt may cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryFault {
    /// The provider asks for fewer requests.
    RateLimit,
    /// The provider has a fault of its own.
    Server,
    /// The provider was silent for too long.
    Timeout,
    /// The provider could not be reached, or the connection broke.
    Network,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 5,
            backoff_ms: 1_000,
            faults: vec![RetryFault::RateLimit, RetryFault::Server, RetryFault::Timeout, RetryFault::Network],
        }
    }
}

/// A logical model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The provider's id, where the file names one; the operator may name another.
    pub model: Option<String>,
    /// The parameters that were given.
    pub parameters: Parameters,
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// What it is for.
    pub description: String,
    /// What it does, by kind.
    pub kind: RoleKind,
    /// The statuses it may answer with, each with its fields.
    pub output: Ordered<Status, Ordered<FieldName, Field>>,
    /// Settings for altering hook kinds, by kind.
    pub with: BTreeMap<String, Value>,
}

/// What a role does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoleKind {
    /// A model answers.
    Model(ModelRole),
    /// The next edge is chosen among those of this role.
    Selector(SelectorRole),
    /// A person answers.
    Human,
    /// One tool is run.
    Tool(ToolRole),
    /// Expressions decide.
    Rule(RuleRole),
    /// Another workflow runs.
    Workflow(Box<WorkflowRole>),
}

impl RoleKind {
    /// The word in a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Model(_) => "model",
            Self::Selector(_) => "selector",
            Self::Human => "human",
            Self::Tool(_) => "tool",
            Self::Rule(_) => "rule",
            Self::Workflow(_) => "workflow",
        }
    }
}

/// A role that a model plays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRole {
    /// Older visits are put into one text.
    pub compact: Option<Compact>,
    /// How much of the other roles' steps it sees.
    pub context: Context,
    /// How answers are written.
    pub format: AnswerFormat,
    /// How much of its own earlier visits it sees.
    pub history: History,
    /// The logical model.
    pub model: String,
    /// The system text, files inlined; not a template.
    pub system: String,
    /// Tools that it may use, as written.
    pub tools: Vec<String>,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    /// YAML front matter, then the body in Markdown.
    #[default]
    Frontmatter,
    /// One JSON object, held to a schema by the provider.
    Json,
}

/// How much of its own earlier visits a role sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// Prompt and conclusion of each visit.
    #[default]
    Condensed,
    /// Everything, tool traffic and repairs too.
    Exact,
    /// Nothing: each visit is a fresh conversation.
    None,
}

/// How much of the other roles' steps since its last visit a role sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Of which roles; `None` = all.
    pub from: Option<Vec<RoleName>>,
    /// The most bytes of it.
    pub max_bytes: u64,
    /// How much.
    pub what: ContextWhat,
}

impl Default for Context {
    fn default() -> Self {
        Self { from: None, max_bytes: 16 * 1024, what: ContextWhat::Outputs }
    }
}

/// How much of a step another role sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextWhat {
    /// Nothing.
    None,
    /// Role, status and fields.
    #[default]
    Outputs,
    /// Those and the body.
    Bodies,
}

/// When and how a role's older visits are put into one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compact {
    /// Estimated tokens (bytes / 4) of a request above which it happens.
    pub at: u64,
    /// The role that writes the text.
    pub by: RoleName,
    /// Visits that stay as they are.
    pub keep: u64,
}

/// A role that chooses among its edges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorRole {
    /// Who chooses.
    pub by: SelectBy,
    /// The status taken after two choices that break the contract, if the graph has an `else`.
    pub fallback_route: Option<Vec<Edge>>,
    /// The model that chooses, when one does.
    pub model: ModelRole,
}

/// Who chooses for a selector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectBy {
    /// A model.
    Model,
    /// Each in turn.
    RoundRobin,
    /// The role that spoke least recently.
    LeastRecent,
    /// A person.
    Human,
    /// An expression that yields a status.
    Expression(String),
}

/// A role that runs one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRole {
    /// Its arguments, as templates.
    pub args: Template,
    /// The tool.
    pub tool: String,
}

/// A role that expressions decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRole {
    /// Tried in order; the last has no condition.
    pub rules: Ordered<Status, Rule>,
}

/// One status of a rule role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// An expression for each field.
    pub fields: Ordered<FieldName, String>,
    /// When it applies.
    pub when: Option<String>,
}

/// A role that another workflow plays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRole {
    /// Its input, as templates.
    pub input: Template,
    /// From the child's last status to this role's status; empty for `done` and `failed`.
    pub statuses: BTreeMap<String, Status>,
    /// The child, whole.
    pub workflow: Workflow,
}

/// Templates at the leaves of a JSON value: every text in it is template source. A text that is exactly one
/// `{{ expr }}` keeps the type of what it yields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Value);

/// Where `start` or a role leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outgoing {
    /// From `start`: edges tried in order, the last one without a condition.
    Start(Vec<Edge>),
    /// From a role: for each status, edges tried in order, the last one without a condition. Reserved statuses stand
    /// here as `error`, `limit`, `timeout` for `on_error`, `on_limit`, `on_timeout`.
    Role(Ordered<Status, Vec<Edge>>),
}

/// From a status to the next role, with the prompt that it is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// How often it may be taken in a thread.
    pub max: Option<u32>,
    /// Where it leads once it has been.
    pub on_max: Option<Box<Edge>>,
    /// The role whose every step counts anew.
    pub per: Option<RoleName>,
    /// Template source; `""` when the file gives none.
    pub prompt: String,
    /// Why, at `fail`: template source.
    pub reason: Option<String>,
    /// What the run gives back, at `end`.
    pub result: Option<Template>,
    /// A line for the user: template source.
    pub say: Option<String>,
    /// Where to.
    pub to: Target,
    /// The condition, an expression; `None` = always.
    pub when: Option<String>,
}

/// Where an edge leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// To a role.
    Role(RoleName),
    /// To the end, exit code 0.
    End,
    /// To the end, exit code 1.
    Fail,
    /// To the role from which this one was entered.
    Back,
    /// To several roles at once.
    Fan(Box<FanOut>),
}

/// Several lanes at once, and where they meet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// A lane for each branch, or one branch whose lanes are made by `each`.
    pub branches: Vec<Branch>,
    /// A lane for each element.
    pub each: Option<Each>,
    /// Where the lanes meet.
    pub join: Join,
}

impl FanOut {
    /// The most lanes of a fan-out, and elements of an `each` list.
    pub const MAX_LANES: usize = crate::id::MAX_LANES;
    /// How many fan-outs may stand one within the other.
    pub const MAX_NESTING: usize = 8;
}

/// One branch of a fan-out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// Template source.
    pub prompt: String,
    /// Its first role.
    pub to: RoleName,
    /// Whether it is opened at all.
    pub when: Option<String>,
}

/// A lane for each element of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// The name of the element in the lane's prompts.
    pub name: FieldName,
    /// An expression that yields the list.
    pub over: String,
    /// How many lanes run at once.
    pub parallel: u32,
}

/// Where lanes meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// What a failed lane does.
    pub failed: FailedLanes,
    /// How many must arrive.
    pub need: Need,
    /// Template source; `None` = the parts with a blank line between.
    pub prompt: Option<String>,
    /// The role that runs next.
    pub to: RoleName,
}

/// What a failed lane does to its fan-out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailedLanes {
    /// It fails the fan-out.
    #[default]
    Fail,
    /// It stays in `branches` with its error.
    Collect,
    /// It is left out.
    Skip,
}

/// How many lanes must arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// Each.
    #[default]
    All,
    /// One.
    Any,
    /// This many.
    Count(u32),
}

impl Workflow {
    /// The role of that name.
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|(role, _)| role.as_str() == name).map(|(_, role)| role)
    }

    /// Whether its threads can have lanes.
    pub fn has_fan_outs(&self) -> bool {
        self.edges().any(Edge::fans_out)
    }

    /// Its edges, without those that are taken in the place of others.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.graph.iter().flat_map(|(_, outgoing)| match outgoing {
            Outgoing::Start(edges) => edges.iter().collect::<Vec<_>>(),
            Outgoing::Role(routes) => routes.iter().flat_map(|(_, edges)| edges).collect(),
        })
    }
}

impl Edge {
    /// Whether it leads to several roles at once, or does once it has been taken often enough.
    pub fn fans_out(&self) -> bool {
        self.with_on_max().any(|edge| matches!(edge.to, Target::Fan(_)))
    }

    /// This edge, then those that are taken in its place.
    pub(crate) fn with_on_max(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |edge| edge.on_max.as_deref())
    }
}

impl Role {
    /// The fields of a status that the role may answer with.
    pub fn fields(&self, status: &str) -> Option<&Ordered<FieldName, Field>> {
        self.output.iter().find(|(name, _)| name.as_str() == status).map(|(_, fields)| fields)
    }
}

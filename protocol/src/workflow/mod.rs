//! The checked workflow: the meaning of a file after everything is resolved.
//!
//! A file becomes a spanned tree ([`crate::source`]), then a definition ([`read`](self::read())) whose every fault has
//! a location, then, if the checker finds no faults, a [`Checked`]: the hashed [`Workflow`] and the [`Policy`] that may
//! change between runs. A running workflow knows nothing of files.
//!
//! Where order has a meaning it is part of the data: `input`, `roles`, the statuses of an output, the fields of a
//! status and `graph` are lists of `[name, value]` in file order.

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

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::call::FaultClass;
use crate::canonical::Value;
use crate::diagnostic::Diagnostic;
use crate::id::{FieldName, RoleName, Status};
use crate::object::Parameters;

pub use hooks::{HookNode, HookUse, OnHookError};
pub use limits::{Limits, RoleLimits};
pub use read::{Files, MAX_CHILD_DEPTH, read, read_hook};
pub use source_map::SourceMap;
pub use types::Field;

/// A list of names with values, in file order.
pub type Ordered<N, V> = Vec<(N, V)>;

#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub workflow: Workflow,
    pub policy: Policy,
    pub warnings: Vec<Diagnostic>,
    /// The location of each part, for later diagnostics.
    pub places: SourceMap,
}

/// The checked definition, object kind `workflow`: files inlined, shorthands expanded, defaults written out,
/// templates as source text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    /// The graph: the edges of `start` and of each role.
    pub graph: Ordered<String, Outgoing>,
    /// Altering hooks, in file order.
    pub hooks: Vec<HookUse>,
    pub input: Ordered<FieldName, Field>,
    pub models: BTreeMap<String, ModelSpec>,
    pub name: String,
    /// The result of a run at an `end` without a specific result.
    pub result: Option<Template>,
    pub roles: Ordered<RoleName, Role>,
    pub rondo: u32,
}

/// The part of a workflow that may change between runs without changing its threads, object kind `policy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The policies of child workflows, by the role that runs them.
    pub children: BTreeMap<String, Policy>,
    pub description: String,
    /// Transparent hooks, in file order.
    pub hooks: Vec<HookUse>,
    pub limits: Limits,
    pub roles: BTreeMap<String, RolePolicy>,
    /// How a chat client uses it as a model; absent if the file says nothing of it.
    #[serde(default, skip_serializing_if = "Serve::is_default")]
    pub serve: Serve,
}

/// How a chat client uses a workflow as a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The key of the result that answers a message.
    pub answer: Option<String>,
    /// The input that a message fills.
    pub message: Option<String>,
}

impl Serve {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The part of a role that may change between runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolePolicy {
    /// Logical models to ask when the first is unavailable.
    pub fallback: Vec<String>,
    pub limits: RoleLimits,
    pub retry: Retry,
    /// The time limit of a step in milliseconds; for a human role, the time until `on_timeout`.
    pub timeout_ms: Option<u64>,
    /// Settings for transparent hook kinds, by kind.
    pub with: BTreeMap<String, Value>,
}

impl Default for RolePolicy {
    fn default() -> Self {
        Self {
            fallback: Vec::new(),
            limits: RoleLimits::default(),
            retry: Retry::default(),
            timeout_ms: Some(limits::DEFAULT_STEP_TIMEOUT_MS),
            with: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The total number of attempts, including the first.
    pub attempts: u32,
    /// Milliseconds before the second attempt; doubled for each further one, with jitter.
    pub backoff_ms: u64,
    /// Those that another attempt may fix.
    pub faults: Vec<FaultClass>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 5,
            backoff_ms: 1_000,
            faults: vec![FaultClass::RateLimit, FaultClass::Server, FaultClass::Timeout, FaultClass::Network],
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The provider's model id, if the file names one; the operator may name another.
    pub model: Option<String>,
    pub parameters: Parameters,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    pub description: String,
    pub kind: RoleKind,
    pub output: Ordered<Status, Ordered<FieldName, Field>>,
    /// Settings for altering hook kinds, by kind.
    pub with: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RoleKind {
    Model(ModelRole),
    Selector(SelectorRole),
    Human,
    Tool(ToolRole),
    Rule(RuleRole),
    Workflow(Box<WorkflowRole>),
}

impl RoleKind {
    pub fn name(&self) -> &'static str {
        self.into()
    }

    pub fn tools(&self) -> &[String] {
        match self {
            Self::Tool(role) => std::slice::from_ref(&role.tool),
            kind => kind.model().map_or(&[], |model| &model.tools),
        }
    }

    /// The settings of the model that answers, if a model does.
    pub fn model(&self) -> Option<&ModelRole> {
        match self {
            Self::Model(model) | Self::Selector(SelectorRole { by: SelectBy::Model, model, .. }) => Some(model),
            _ => None,
        }
    }

    pub fn model_mut(&mut self) -> Option<&mut ModelRole> {
        match self {
            Self::Model(model) | Self::Selector(SelectorRole { by: SelectBy::Model, model, .. }) => Some(model),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRole {
    pub compact: Option<Compact>,
    pub context: Context,
    pub format: AnswerFormat,
    pub history: History,
    pub model: String,
    /// The system text, files inlined; not a template.
    pub system: String,
    pub tools: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    #[default]
    Frontmatter,
    Json,
}

/// How much of its own earlier visits a role sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// The prompt and the answer of each visit.
    #[default]
    Condensed,
    /// Everything, including tool calls and repairs.
    Exact,
    /// Nothing: each visit is a fresh conversation.
    None,
}

/// How much of the other roles' steps since its last visit a role sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// The roles to see; `None` = all.
    pub from: Option<Vec<RoleName>>,
    pub max_bytes: u64,
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
    None,
    #[default]
    Outputs,
    Bodies,
}

/// When and how a role's older visits are condensed into one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compact {
    /// The estimated tokens (bytes / 4) of a request that trigger it.
    pub at: u64,
    pub by: RoleName,
    pub keep: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorRole {
    pub by: SelectBy,
    /// The edges taken after two choices that break the contract, if the graph has an `else`.
    pub fallback_route: Option<Vec<Edge>>,
    pub model: ModelRole,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelectBy {
    Model,
    RoundRobin,
    LeastRecent,
    Human,
    Expression(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRole {
    pub args: Template,
    pub tool: String,
}

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
    pub fields: Ordered<FieldName, String>,
    pub when: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRole {
    pub input: Template,
    /// Maps the child's last status to this role's status; empty for `done` and `failed`.
    pub statuses: BTreeMap<String, Status>,
    pub workflow: Workflow,
}

/// Templates at the leaves of a JSON value: every text in it is template source. A text that is exactly one
/// `{{ expr }}` keeps the type of its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Value);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outgoing {
    /// From `start`: edges tried in order, the last one without a condition.
    Start(Vec<Edge>),
    /// From a role: for each status, edges tried in order, the last one without a condition. The reserved statuses
    /// `error`, `limit` and `timeout` hold the edges of `on_error`, `on_limit` and `on_timeout`.
    Role(Ordered<Status, Vec<Edge>>),
}

/// Leads from a status to the next role, with the prompt for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The inputs whose files go with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<FieldName>,
    pub max: Option<u32>,
    pub on_max: Option<Box<Edge>>,
    /// The role whose every step resets the count.
    pub per: Option<RoleName>,
    /// Template source; `""` if the file has none.
    pub prompt: String,
    pub reason: Option<String>,
    pub result: Option<Template>,
    pub say: Option<String>,
    pub to: Target,
    /// The condition, an expression; `None` = always.
    pub when: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    Role(RoleName),
    /// The end, exit code 0.
    End,
    /// The end, exit code 1.
    Fail,
    /// The role from which this one was entered.
    Back,
    Fan(Box<FanOut>),
}

/// Several concurrent lanes and their join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// One branch per lane, or one branch whose lanes come from `each`.
    pub branches: Vec<Branch>,
    pub each: Option<Each>,
    pub join: Join,
}

impl FanOut {
    /// The maximum number of lanes of a fan-out, and of elements of an `each` list.
    pub const MAX_LANES: usize = crate::id::MAX_LANES;
    pub const MAX_NESTING: usize = 8;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// The inputs whose files go with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attach: Vec<FieldName>,
    /// Template source.
    pub prompt: String,
    pub to: RoleName,
    /// The condition for opening it; `None` = always.
    pub when: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    pub name: FieldName,
    pub over: String,
    pub parallel: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    pub failed: FailedLanes,
    pub need: Need,
    /// Template source; `None` = the parts with a blank line between.
    pub prompt: Option<String>,
    pub to: RoleName,
}

/// The effect of a failed lane on its fan-out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailedLanes {
    #[default]
    Fail,
    Collect,
    Skip,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    #[default]
    All,
    Any,
    Count(u32),
}

impl Workflow {
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|(role, _)| role.as_str() == name).map(|(_, role)| role)
    }

    /// This workflow and those that its roles run, each with the roles that lead to it: empty for itself, `section/` for
    /// a child.
    pub fn tree(&self) -> Vec<(String, &Self)> {
        let mut found = vec![(String::new(), self)];
        let mut next = 0;
        while let Some((path, workflow)) = found.get(next).cloned() {
            found.extend(workflow.roles.iter().filter_map(|(name, role)| match &role.kind {
                RoleKind::Workflow(child) => Some((format!("{path}{name}/"), &child.workflow)),
                _ => None,
            }));
            next += 1;
        }
        found
    }

    pub fn has_fan_outs(&self) -> bool {
        self.edges().flat_map(Edge::with_on_max).any(|edge| matches!(edge.to, Target::Fan(_)))
    }

    /// Its edges, without the `on_max` edges.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.graph.iter().flat_map(|(_, outgoing)| match outgoing {
            Outgoing::Start(edges) => edges.iter().collect::<Vec<_>>(),
            Outgoing::Role(routes) => routes.iter().flat_map(|(_, edges)| edges).collect(),
        })
    }
}

impl Edge {
    /// The edge, then its `on_max` edges.
    pub fn with_on_max(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |edge| edge.on_max.as_deref())
    }
}

impl Policy {
    /// Transparent hooks of this workflow and of its children.
    pub fn all_hooks(&self) -> Vec<&HookUse> {
        self.hooks.iter().chain(self.children.values().flat_map(Self::all_hooks)).collect()
    }
}

impl Role {
    pub fn fields(&self, status: &str) -> Option<&Ordered<FieldName, Field>> {
        self.output.iter().find(|(name, _)| name.as_str() == status).map(|(_, fields)| fields)
    }
}

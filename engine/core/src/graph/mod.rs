//! The graph that a workflow is lowered to: roles, hooks and ports as nodes, and edges with parsed templates.
//!
//! The interface uses names and hides petgraph: the only index that leaves this module is [`EdgeId`], which numbers
//! edges in the order of the file and so is the same in every process.

mod entry;
mod lower;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petgraph::stable_graph::StableDiGraph;
use petgraph::visit::{EdgeRef, IntoEdgeReferences};
use rondo_protocol::call::CallKind;
use rondo_protocol::id::{FieldName, RoleName, Status};
use rondo_protocol::workflow::template::{Expr, Template, Use, ValueTemplate};
use rondo_protocol::workflow::{FailedLanes, HookNode, Need, Policy, Role, RolePolicy, Workflow};
use serde::{Deserialize, Serialize};

pub use entry::{Entry, Rule};
pub use lower::Error;

/// The number of an edge, in the order of the file; an `on_max` edge follows the edge that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EdgeId(pub u32);

/// A lowered workflow.
#[derive(Debug)]
pub struct Graph {
    inner: StableDiGraph<Node, Link>,
    first: Vec<Arc<Edge>>,
    roles: BTreeMap<RoleName, RoleNode>,
    hooks: Vec<HookNode>,
    told_whole: Arc<[RoleName]>,
    result: Option<ValueTemplate>,
    name: String,
    policy: Policy,
}

/// A node of a lowered workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Where a thread begins.
    Start,
    /// A role.
    Role(RoleName),
    /// A hook, by its index in [`Graph::hooks`].
    Hook(usize),
    /// What answers calls of a kind.
    Port(CallKind),
    /// Where a thread ends well.
    End,
    /// Where it fails.
    Fail,
}

/// What joins two nodes.
#[derive(Debug)]
pub enum Link {
    /// An edge of the file, and when it is tried.
    Route {
        /// When it is tried.
        way: Way,
        /// The edge.
        edge: Arc<Edge>,
    },
    /// A segment of a call path.
    Calls(CallKind),
}

/// When an edge is tried.
#[derive(Debug, Clone)]
pub struct Way {
    /// After which status; none at `start`, and where a selector's choice breaks the contract.
    pub status: Option<Status>,
    /// Whether the file says `else`: it is the last of a list, or belongs to a selector's way out.
    pub is_else: bool,
    /// The bound of the edge that it replaces.
    pub after: Option<u32>,
}

impl Way {
    /// The only edge of `start`.
    const START: Self = Self { status: None, is_else: false, after: None };
}

/// A role and its static data.
#[derive(Debug)]
struct RoleNode {
    role: Role,
    policy: RolePolicy,
    /// What an edge to it evaluates besides its prompt.
    entry: Entry,
    /// The edges of each status in declared order.
    routes: BTreeMap<Status, Vec<Arc<Edge>>>,
    /// For a selector, the edges taken after choices that break the contract.
    otherwise: Option<Vec<Arc<Edge>>>,
    /// The nodes that calls of each kind pass, outermost first.
    paths: BTreeMap<CallKind, Vec<usize>>,
}

impl RoleNode {
    fn edges(&self) -> impl Iterator<Item = &Arc<Edge>> {
        self.routes.values().flatten().chain(self.otherwise.iter().flatten())
    }
}

/// An edge with parsed templates.
#[derive(Debug)]
pub struct Edge {
    /// Its number.
    pub id: EdgeId,
    /// Its path in the workflow, such as `graph.writer.drafted[0].on_max`, in the form of
    /// [`places`](rondo_protocol::workflow::places).
    pub part: Arc<str>,
    /// The condition, if any.
    pub when: Option<Condition>,
    /// The target.
    pub to: To,
    /// The prompt for the next role.
    pub prompt: Template,
    /// The inputs whose files go with it.
    pub attach: Vec<FieldName>,
    /// A line for the user.
    pub say: Option<Template>,
    /// The reason, for an edge to `fail`.
    pub reason: Option<Template>,
    /// The result of the run, for an edge to `end`.
    pub result: Option<ValueTemplate>,
    /// How often it may be taken, and the edge taken after that.
    pub bound: Option<Bound>,
}

/// The condition of an edge.
#[derive(Debug)]
pub struct Condition {
    /// The expression.
    pub expr: Expr,
    /// Its source text.
    pub source: String,
}

/// How often an edge may be taken.
#[derive(Debug)]
pub struct Bound {
    /// The maximum.
    pub max: u32,
    /// The count restarts at each step of this role.
    pub per: Option<RoleName>,
    /// The edge taken once the maximum is reached.
    pub on_max: Arc<Edge>,
}

/// Where an edge leads.
#[derive(Debug, Clone)]
pub enum To {
    /// A role.
    Role(RoleName),
    /// The end.
    End,
    /// The end, as a failure.
    Fail,
    /// The role from which this one was entered.
    Back,
    /// Several lanes at once.
    Fan(Arc<FanOut>),
}

/// Several lanes at once, and where they meet.
#[derive(Debug)]
pub struct FanOut {
    /// One lane per branch, or one branch whose lanes `each` creates.
    pub branches: Vec<Branch>,
    /// One lane per element of a list, if set.
    pub each: Option<Each>,
    /// Where the lanes meet.
    pub join: Join,
}

/// One branch of a fan-out.
#[derive(Debug)]
pub struct Branch {
    /// Its path in the workflow.
    pub part: Arc<str>,
    /// Its first role.
    pub to: RoleName,
    /// The prompt for that role.
    pub prompt: Template,
    /// The inputs whose files go with it.
    pub attach: Vec<FieldName>,
    /// The condition for opening it, if any.
    pub when: Option<Condition>,
}

/// One lane per element of a list.
#[derive(Debug)]
pub struct Each {
    /// The name of the element in the lane's prompts.
    pub name: FieldName,
    /// The list.
    pub over: Expr,
    /// The source text of the list expression.
    pub source: String,
    /// How many lanes run at the same time.
    pub parallel: u32,
}

/// Where lanes meet.
#[derive(Debug)]
pub struct Join {
    /// The role that continues.
    pub to: RoleName,
    /// Its prompt; without one it gets the parts with a blank line between them.
    pub prompt: Option<Template>,
    /// How many lanes must arrive.
    pub need: Need,
    /// The effect of a failed lane.
    pub failed: FailedLanes,
}

impl Edge {
    /// This edge, and those that are taken in its place once it was taken as often as it may be.
    pub fn in_turn(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |edge| edge.bound.as_ref().map(|bound| &bound.on_max))
    }

    /// The fan-out that it opens, if any.
    pub fn fan(&self) -> Option<&Arc<FanOut>> {
        match &self.to {
            To::Fan(fan) => Some(fan),
            _ => None,
        }
    }

    /// The paths that it reads when it is taken, and for its lanes when they open. The prompt of a join is not among
    /// them: it is rendered when the lanes have met.
    pub fn uses(&self) -> Vec<Use<'_>> {
        let fan = self.fan();
        let branches = fan.into_iter().flat_map(|fan| &fan.branches);
        let texts = [Some(&self.prompt), self.say.as_ref(), self.reason.as_ref()].into_iter().flatten();
        let texts = texts.chain(branches.clone().map(|branch| &branch.prompt));
        let conditions = self.when.iter().chain(branches.filter_map(|branch| branch.when.as_ref()));
        let lists = fan.and_then(|fan| fan.each.as_ref()).map(|each| &each.over);
        let exprs = conditions.map(|when| &when.expr).chain(lists);
        let values = self.result.iter().flat_map(entry::uses_of);
        texts.flat_map(Template::uses).chain(exprs.flat_map(Expr::uses)).chain(values).collect()
    }
}

impl To {
    /// The roles that it leads to directly.
    pub fn roles(&self) -> Vec<&RoleName> {
        match self {
            Self::Role(role) => vec![role],
            Self::Fan(fan) => fan.branches.iter().map(|branch| &branch.to).collect(),
            Self::End | Self::Fail | Self::Back => Vec::new(),
        }
    }
}

impl Graph {
    /// Lowers a checked workflow with the hooks before its roles, outermost first.
    ///
    /// # Errors
    /// If a template cannot be parsed, which a workflow stored by another version may cause.
    pub fn new(workflow: &Workflow, policy: &Policy, hooks: Vec<HookNode>) -> Result<Self, Error> {
        lower::lower(workflow, policy, hooks)
    }

    /// The workflow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policy, which may change between runs.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The result at an `end` without its own.
    pub fn result(&self) -> Option<&ValueTemplate> {
        self.result.as_ref()
    }

    /// The edges of `start`, in declared order.
    pub fn start(&self) -> &[Arc<Edge>] {
        &self.first
    }

    /// The edges of a role's status in declared order, or `None` if it has none.
    pub fn routes(&self, role: &RoleName, status: &Status) -> Option<&[Arc<Edge>]> {
        self.roles.get(role)?.routes.get(status).map(Vec::as_slice)
    }

    /// Every edge by its number, including `on_max` edges.
    pub fn edges(&self) -> BTreeMap<EdgeId, &Arc<Edge>> {
        self.sources().map(|(_, edge)| (edge.id, edge)).collect()
    }

    /// Every role by name.
    pub fn roles(&self) -> impl Iterator<Item = (&RoleName, &Role)> {
        self.roles.iter().map(|(name, node)| (name, &node.role))
    }

    /// Roles in lanes whose fan-out continues without a failed lane: an unrouted fault of theirs ends the lane and not
    /// the thread.
    pub fn absorbed(&self) -> BTreeSet<&RoleName> {
        let mut found = BTreeSet::new();
        for (source, edge) in self.sources() {
            let Some(fan) = edge.fan() else { continue };
            let on_error = source.is_some_and(|source| source.routes.keys().any(|status| status.as_str() == "error"));
            if fan.join.failed == FailedLanes::Fail && !on_error {
                continue;
            }
            found.extend(self.lane_roles(fan));
        }
        found
    }

    /// Every fan-out.
    pub fn fans(&self) -> impl Iterator<Item = &FanOut> {
        self.sources().filter_map(|(_, edge)| Some(&**edge.fan()?))
    }

    /// The roles that run in the lanes of a fan-out.
    pub fn lane_roles<'a>(&'a self, fan: &'a FanOut) -> BTreeSet<&'a RoleName> {
        let mut found = BTreeSet::new();
        let mut next: Vec<&RoleName> = fan.branches.iter().map(|branch| &branch.to).collect();
        while let Some(role) = next.pop() {
            if *role == fan.join.to || !found.insert(role) {
                continue;
            }
            for edge in self.leaving(role) {
                next.extend(edge.to.roles());
                next.extend(edge.fan().map(|fan| &fan.join.to));
            }
        }
        found
    }

    /// Every edge that leaves a role, including `on_max` edges.
    pub(crate) fn leaving(&self, role: &RoleName) -> impl Iterator<Item = &Arc<Edge>> {
        self.roles.get(role).into_iter().flat_map(RoleNode::edges).flat_map(Edge::in_turn)
    }

    /// Every edge with the role that it leaves; `None` means `start`.
    fn sources(&self) -> impl Iterator<Item = (Option<&RoleNode>, &Arc<Edge>)> {
        let of_roles = self.roles.values().flat_map(|node| node.edges().map(move |edge| (Some(node), edge)));
        let first = self.first.iter().map(|edge| (None, edge)).chain(of_roles);
        first.flat_map(|(source, edge)| edge.in_turn().map(move |edge| (source, edge)))
    }

    /// The role and its policy.
    pub fn role(&self, name: &RoleName) -> Option<(&Role, &RolePolicy)> {
        self.roles.get(name).map(|node| (&node.role, &node.policy))
    }

    /// What an edge to a role evaluates besides its prompt.
    pub fn entry(&self, name: &RoleName) -> &Entry {
        self.roles.get(name).map_or(&Entry::Prompt, |node| &node.entry)
    }

    /// The edges of a selector after choices that break the contract.
    pub fn otherwise(&self, role: &RoleName) -> Option<&[Arc<Edge>]> {
        self.roles.get(role)?.otherwise.as_deref()
    }

    /// Roles for which a template reads every visit (`steps.ROLE.all`).
    pub(crate) fn roles_told_whole(&self) -> Arc<[RoleName]> {
        Arc::clone(&self.told_whole)
    }

    /// The hooks, outermost first.
    pub fn hooks(&self) -> &[HookNode] {
        &self.hooks
    }

    /// The hooks on a role's calls of one kind, outermost first, as indexes into [`hooks`](Self::hooks).
    pub fn call_path(&self, role: &RoleName, kind: CallKind) -> &[usize] {
        self.roles.get(role).and_then(|node| node.paths.get(&kind)).map_or(&[], Vec::as_slice)
    }

    /// Every node.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.inner.node_weights()
    }

    /// What joins two nodes, with the nodes.
    pub fn links(&self) -> impl Iterator<Item = (&Node, &Link, &Node)> {
        self.inner.edge_references().filter_map(|link| {
            Some((self.inner.node_weight(link.source())?, link.weight(), self.inner.node_weight(link.target())?))
        })
    }
}

#[cfg(test)]
mod tests;

//! The graph that a workflow is lowered to: roles, hooks and ports as nodes, edges with their templates parsed.
//!
//! Names stand outside, petgraph inside: no index leaves this module but [`EdgeId`], which counts edges in the order
//! of the file and so means the same in every process.
//!
//! This module decides nothing: `thread` chooses the edge that is taken.

mod lower;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::{EdgeRef, IntoEdgeReferences};
use rondo_protocol::call::CallKind;
use rondo_protocol::id::{FieldName, RoleName, Status};
use rondo_protocol::workflow::template::{Expr, Template, ValueTemplate};
use rondo_protocol::workflow::{FailedLanes, HookNode, Need, Policy, Role, RolePolicy, Workflow};

pub use lower::Error;

/// The number of an edge, in the order of the file; an `on_max` edge follows the edge that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub u32);

/// A lowered workflow.
#[derive(Debug)]
pub struct Graph {
    inner: StableDiGraph<Node, Link>,
    start: NodeIndex,
    roles: BTreeMap<RoleName, RoleNode>,
    hooks: Vec<HookNode>,
    told_whole: Arc<[RoleName]>,
    result: Option<ValueTemplate>,
    name: String,
    policy: Policy,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Start,
    Role(RoleName),
    Hook(usize),
    Port(CallKind),
    End,
    Fail,
}

/// What joins two nodes.
#[derive(Debug)]
enum Link {
    /// An edge of the file. `order` is its place among those of its status; `after` is the bound of the edge in whose
    /// place it is taken.
    Route { status: Option<Status>, order: u32, after: Option<u32>, edge: Arc<Edge> },
    /// A stretch of a call path.
    Calls(CallKind),
}

/// A role and what was known of it before anything ran.
#[derive(Debug)]
struct RoleNode {
    role: Role,
    policy: RolePolicy,
    /// Of a tool role: what its tool is given.
    args: Option<ValueTemplate>,
    /// For each status its edges in declared order.
    routes: BTreeMap<Status, Vec<Arc<Edge>>>,
    /// For each call kind the nodes that a call passes, outermost first.
    paths: BTreeMap<CallKind, Vec<usize>>,
}

/// An edge with its templates parsed.
#[derive(Debug)]
pub struct Edge {
    /// Its number.
    pub id: EdgeId,
    /// Which part of the workflow it is, such as `graph.writer.drafted[0].on_max`; a path as in
    /// [`places`](rondo_protocol::workflow::places).
    pub part: Arc<str>,
    /// The condition; `None` = always.
    pub when: Option<Condition>,
    /// Where to.
    pub to: To,
    /// What the next role is given.
    pub prompt: Template,
    /// A line for the user.
    pub say: Option<Template>,
    /// Why, at `fail`.
    pub reason: Option<Template>,
    /// What the run gives back, at `end`.
    pub result: Option<ValueTemplate>,
    /// How often it may be taken, and where it leads then.
    pub bound: Option<Bound>,
}

/// When an edge is taken.
#[derive(Debug)]
pub struct Condition {
    /// The expression.
    pub expr: Expr,
    /// As it was written.
    pub source: String,
}

/// How often an edge may be taken.
#[derive(Debug)]
pub struct Bound {
    /// This often.
    pub max: u32,
    /// Counted anew at each step of this role.
    pub per: Option<RoleName>,
    /// Where it leads after that.
    pub on_max: Arc<Edge>,
}

/// Where an edge leads.
#[derive(Debug, Clone)]
pub enum To {
    /// To a role.
    Role(RoleName),
    /// To the end.
    End,
    /// To the end, as a failure.
    Fail,
    /// To the role from which this one was entered.
    Back,
    /// Into several lanes at once.
    Fan(Arc<FanOut>),
}

/// Several lanes at once, and where they meet.
#[derive(Debug)]
pub struct FanOut {
    /// A lane for each branch, or one branch whose lanes are made by `each`.
    pub branches: Vec<Branch>,
    /// A lane for each element of a list.
    pub each: Option<Each>,
    /// Where the lanes meet.
    pub join: Join,
}

/// One branch of a fan-out.
#[derive(Debug)]
pub struct Branch {
    /// Which part of the workflow it is.
    pub part: Arc<str>,
    /// Its first role.
    pub to: RoleName,
    /// What that role is given.
    pub prompt: Template,
    /// Whether it is opened at all; `None` = always.
    pub when: Option<Condition>,
}

/// A lane for each element of a list.
#[derive(Debug)]
pub struct Each {
    /// The name of the element in the lane's prompts.
    pub name: FieldName,
    /// The list.
    pub over: Expr,
    /// As it was written.
    pub source: String,
    /// How many lanes run at once.
    pub parallel: u32,
}

/// Where lanes meet.
#[derive(Debug)]
pub struct Join {
    /// The role that goes on.
    pub to: RoleName,
    /// What it is given; `None` = the parts with a blank line between.
    pub prompt: Option<Template>,
    /// How many lanes must arrive.
    pub need: Need,
    /// What a failed lane does.
    pub failed: FailedLanes,
}

impl To {
    /// The roles that it leads to at once.
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
    /// When a template that was checked cannot be parsed, which a stored workflow of another version may cause.
    pub fn new(workflow: &Workflow, policy: &Policy, hooks: Vec<HookNode>) -> Result<Self, Error> {
        lower::lower(workflow, policy, hooks)
    }

    /// The workflow's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What may change between runs.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the run gives back at an `end` without a result of its own.
    pub fn result(&self) -> Option<&ValueTemplate> {
        self.result.as_ref()
    }

    /// The edges of `start`, in declared order.
    pub fn start(&self) -> Vec<&Arc<Edge>> {
        self.routes_from(self.start)
    }

    /// The edges of a role's status in declared order, or `None` when the status leads nowhere.
    pub fn routes(&self, role: &RoleName, status: &Status) -> Option<&[Arc<Edge>]> {
        self.roles.get(role)?.routes.get(status).map(Vec::as_slice)
    }

    /// Every edge by its number, also those that are taken in the place of a bounded one.
    pub fn edges(&self) -> BTreeMap<EdgeId, &Arc<Edge>> {
        self.sources().map(|(_, edge)| (edge.id, edge)).collect()
    }

    /// Every role by name.
    pub fn roles(&self) -> impl Iterator<Item = (&RoleName, &Role)> {
        self.roles.iter().map(|(name, node)| (name, &node.role))
    }

    /// Roles that may speak in a lane whose fan-out goes on without it: a fault of theirs that nothing routes is the end
    /// of the lane and not of the thread.
    pub fn absorbed(&self) -> BTreeSet<&RoleName> {
        let mut found = BTreeSet::new();
        for (source, edge) in self.sources() {
            let To::Fan(fan) = &edge.to else { continue };
            let on_error = source.is_some_and(|source| source.routes.keys().any(|status| status.as_str() == "error"));
            if fan.join.failed == FailedLanes::Fail && !on_error {
                continue;
            }
            let mut next: Vec<&RoleName> = fan.branches.iter().map(|branch| &branch.to).collect();
            while let Some(role) = next.pop() {
                if *role == fan.join.to || !found.insert(role) {
                    continue;
                }
                let edges = self.roles.get(role).into_iter().flat_map(|node| node.routes.values().flatten());
                for edge in edges.flat_map(chain) {
                    next.extend(edge.to.roles());
                    if let To::Fan(fan) = &edge.to {
                        next.push(&fan.join.to);
                    }
                }
            }
        }
        found
    }

    /// Every edge with the role that it leaves; `None` = `start`.
    fn sources(&self) -> impl Iterator<Item = (Option<&RoleNode>, &Arc<Edge>)> {
        let of_roles =
            self.roles.values().flat_map(|node| node.routes.values().flatten().map(move |edge| (Some(node), edge)));
        let first = self.start().into_iter().map(|edge| (None, edge)).chain(of_roles);
        first.flat_map(|(source, edge)| chain(edge).map(move |edge| (source, edge)))
    }

    /// A role.
    pub fn role(&self, name: &RoleName) -> Option<(&Role, &RolePolicy)> {
        self.roles.get(name).map(|node| (&node.role, &node.policy))
    }

    /// Of a tool role: what its tool is given.
    pub fn args(&self, name: &RoleName) -> Option<&ValueTemplate> {
        self.roles.get(name).and_then(|node| node.args.as_ref())
    }

    /// Roles whose every visit a template asks for (`steps.ROLE.all`).
    pub fn roles_told_whole(&self) -> Arc<[RoleName]> {
        Arc::clone(&self.told_whole)
    }

    /// The hooks, outermost first.
    pub fn hooks(&self) -> &[HookNode] {
        &self.hooks
    }

    /// The hooks that a role's calls of one kind pass, outermost first, as places in [`hooks`](Self::hooks).
    pub fn call_path(&self, role: &RoleName, kind: CallKind) -> &[usize] {
        self.roles.get(role).and_then(|node| node.paths.get(&kind)).map_or(&[], Vec::as_slice)
    }

    fn routes_from(&self, node: NodeIndex) -> Vec<&Arc<Edge>> {
        // petgraph gives edges newest first, so the declared order is stored with each.
        let mut routes: Vec<_> = self
            .inner
            .edges(node)
            .filter_map(|link| match link.weight() {
                Link::Route { order, edge, .. } => Some((*order, edge)),
                Link::Calls(_) => None,
            })
            .collect();
        routes.sort_by_key(|(order, edge)| (*order, edge.id));
        // A fan-out has a link to each of its branches.
        routes.dedup_by_key(|(_, edge)| edge.id);
        routes.into_iter().map(|(_, edge)| edge).collect()
    }

    fn links(&self) -> impl Iterator<Item = (&Node, &Link, &Node)> {
        self.inner.edge_references().filter_map(|link| {
            Some((self.inner.node_weight(link.source())?, link.weight(), self.inner.node_weight(link.target())?))
        })
    }
}

/// An edge, and those that are taken in its place once it was taken as often as it may be.
fn chain(edge: &Arc<Edge>) -> impl Iterator<Item = &Arc<Edge>> {
    std::iter::successors(Some(edge), |edge| edge.bound.as_ref().map(|bound| &bound.on_max))
}

#[cfg(test)]
mod tests;

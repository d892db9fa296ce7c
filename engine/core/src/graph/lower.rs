//! Lowers the checked definition to the graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use rondo_protocol::call::CallKind;
use rondo_protocol::id::{RoleName, Status};
use rondo_protocol::workflow::source_map::{item, key};
use rondo_protocol::workflow::template::{Expr, Segment, Template, Use, ValueTemplate};
use rondo_protocol::workflow::{self, HookNode, Outgoing, Policy, RoleKind, Target, Workflow};

use super::entry::uses_of;
use super::{Bound, Branch, Condition, Each, Edge, EdgeId, Entry, FanOut, Graph, Join, Link, Node, RoleNode, To, Way};

/// Why a definition cannot be lowered. A file that passed the checker always can be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A template or expression cannot be parsed.
    #[error("the workflow holds a template that this version cannot read: {source_text:?}")]
    Template {
        /// Its source.
        source_text: String,
    },
    /// An edge leads to a role that does not exist, or a role is not declared.
    #[error("the workflow's graph names {role:?}, which is not a role")]
    UnknownRole {
        /// The name.
        role: String,
    },
}

pub(super) fn lower(workflow: &Workflow, policy: &Policy, hooks: Vec<HookNode>) -> Result<Graph, Error> {
    let mut inner = StableDiGraph::new();
    let mut lowering = Lowering {
        start: inner.add_node(Node::Start),
        end: inner.add_node(Node::End),
        fail: inner.add_node(Node::Fail),
        roles: workflow
            .roles
            .iter()
            .map(|(name, _)| (name.clone(), inner.add_node(Node::Role(name.clone()))))
            .collect(),
        inner,
        edges: 0,
        sources: BTreeMap::new(),
        back: Vec::new(),
    };
    let mut routes: BTreeMap<RoleName, BTreeMap<Status, Vec<Arc<Edge>>>> = BTreeMap::new();
    let mut first = Vec::new();
    let mut otherwise: BTreeMap<RoleName, Vec<Arc<Edge>>> = BTreeMap::new();
    for (name, outgoing) in &workflow.graph {
        match outgoing {
            Outgoing::Start(edges) => {
                first = lowering.routes(lowering.start, &Way::START, &key("graph", name), edges)?;
            }
            Outgoing::Role(statuses) => {
                let (role, index) = lowering
                    .roles
                    .get_key_value(name.as_str())
                    .map(|(role, index)| (role.clone(), *index))
                    .ok_or_else(|| Error::UnknownRole { role: name.clone() })?;
                for (status, edges) in statuses {
                    let part = key(&key("graph", name), status.as_str());
                    let way = Way { status: Some(status.clone()), ..Way::START };
                    let lowered = lowering.routes(index, &way, &part, edges)?;
                    routes.entry(role.clone()).or_default().insert(status.clone(), lowered);
                }
                if let Some(RoleKind::Selector(selector)) = workflow.role(name).map(|role| &role.kind)
                    && let Some(edges) = &selector.fallback_route
                {
                    let part = key(&key("graph", name), "else");
                    let way = Way { is_else: true, ..Way::START };
                    otherwise.insert(role, lowering.routes(index, &way, &part, edges)?);
                }
            }
        }
    }
    lowering.draw_back_edges();

    let hook_nodes: Vec<NodeIndex> = (0..hooks.len()).map(|index| lowering.inner.add_node(Node::Hook(index))).collect();
    let mut ports: BTreeMap<CallKind, NodeIndex> = BTreeMap::new();
    let mut roles = BTreeMap::new();
    for (name, role) in &workflow.roles {
        let index = lowering.roles.get(name).copied().unwrap_or(lowering.start);
        let mut paths = BTreeMap::new();
        for kind in call_kinds(&role.kind) {
            let path: Vec<usize> = (0..hooks.len())
                .filter(|at| hooks.get(*at).is_some_and(|hook| hook.is_passed_by(name, *kind)))
                .collect();
            let port = *ports.entry(*kind).or_insert_with(|| lowering.inner.add_node(Node::Port(*kind)));
            let mut from = index;
            for next in path.iter().filter_map(|at| hook_nodes.get(*at).copied()).chain([port]) {
                lowering.inner.add_edge(from, next, Link::Calls(*kind));
                from = next;
            }
            paths.insert(*kind, path);
        }
        let node = RoleNode {
            role: role.clone(),
            entry: Entry::lower(&role.kind, || rotation(role, routes.get(name)))?,
            otherwise: otherwise.remove(name),
            policy: policy.roles.get(name.as_str()).cloned().unwrap_or_default(),
            routes: routes.remove(name).unwrap_or_default(),
            paths,
        };
        roles.insert(name.clone(), node);
    }
    let mut graph = Graph {
        result: workflow.result.as_ref().map(value_template).transpose()?,
        told_whole: Arc::default(),
        name: workflow.name.clone(),
        policy: policy.clone(),
        first,
        inner: lowering.inner,
        roles,
        hooks,
    };
    graph.told_whole = told_whole(&graph);
    Ok(graph)
}

/// The statuses of a selector whose edges do not all end the thread, in declared order.
fn rotation(role: &workflow::Role, routes: Option<&BTreeMap<Status, Vec<Arc<Edge>>>>) -> Vec<Status> {
    let goes_on = |status: &Status| {
        let edges = routes.and_then(|routes| routes.get(status));
        edges.is_some_and(|edges| edges.iter().any(|edge| !matches!(edge.to, To::End | To::Fail)))
    };
    role.output.iter().map(|(status, _)| status).filter(|status| goes_on(status)).cloned().collect()
}

fn call_kinds(kind: &RoleKind) -> &'static [CallKind] {
    match kind {
        kind if kind.model().is_some() => &CallKind::ALL,
        RoleKind::Tool(_) => &[CallKind::Tool],
        _ => &[],
    }
}

/// Roles for which a template reads every visit.
fn told_whole<'g>(graph: &'g Graph) -> Arc<[RoleName]> {
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    let mut look = |uses: Vec<Use<'g>>| {
        for path in uses.iter().map(|found| found.path).filter(|path| !path.is_local() && path.root() == "steps") {
            match path.segments() {
                // A step read as a whole includes all its visits.
                [Segment::Name(role)] => asked.insert(role),
                [Segment::Name(role), Segment::Name(field), ..] if &**field == "all" => asked.insert(role),
                _ => false,
            };
        }
    };
    for (_, edge) in graph.sources() {
        look(edge.uses());
        if let Some(prompt) = edge.fan().and_then(|fan| fan.join.prompt.as_ref()) {
            look(prompt.uses());
        }
    }
    graph.result.iter().for_each(|result| look(uses_of(result)));
    graph.roles.values().for_each(|role| look(role.entry.uses()));
    graph.roles.keys().filter(|role| asked.contains(role.as_str())).cloned().collect()
}

struct Lowering {
    inner: StableDiGraph<Node, Link>,
    start: NodeIndex,
    end: NodeIndex,
    fail: NodeIndex,
    roles: BTreeMap<RoleName, NodeIndex>,
    edges: u32,
    /// For each node those with an edge to it: the possible targets of `back`.
    sources: BTreeMap<NodeIndex, BTreeSet<NodeIndex>>,
    /// The `back` edges, with the node that each leaves.
    back: Vec<(NodeIndex, Way, Arc<Edge>)>,
}

impl Lowering {
    fn routes(
        &mut self,
        from: NodeIndex,
        way: &Way,
        part: &str,
        edges: &[workflow::Edge],
    ) -> Result<Vec<Arc<Edge>>, Error> {
        let numbered = edges.iter().enumerate();
        let lowered = numbered.map(|(position, edge)| {
            let is_else = way.is_else || (edges.len() > 1 && edge.when.is_none());
            self.route(from, &Way { is_else, ..way.clone() }, item(part, position), edge)
        });
        lowered.collect()
    }

    fn route(&mut self, from: NodeIndex, way: &Way, part: String, edge: &workflow::Edge) -> Result<Arc<Edge>, Error> {
        let id = EdgeId(self.edges);
        self.edges += 1;
        // The parser of workflow files limits the nesting of `on_max` edges.
        let on_max = edge.on_max.as_ref();
        let on_max =
            on_max.map(|next| self.route(from, &Way { after: edge.max, ..way.clone() }, key(&part, "on_max"), next));
        let on_max = on_max.transpose()?;
        let lowered = Arc::new(Edge {
            id,
            when: edge.when.as_deref().map(condition).transpose()?,
            to: match &edge.to {
                Target::Role(role) => To::Role(role.clone()),
                Target::End => To::End,
                Target::Fail => To::Fail,
                Target::Back => To::Back,
                Target::Fan(fan) => To::Fan(Arc::new(fan_out(&part, fan)?)),
            },
            prompt: template(&edge.prompt)?,
            attach: edge.attach.clone(),
            say: edge.say.as_deref().map(template).transpose()?,
            reason: edge.reason.as_deref().map(template).transpose()?,
            result: edge.result.as_ref().map(value_template).transpose()?,
            bound: edge.max.zip(on_max).map(|(max, on_max)| Bound { max, per: edge.per.clone(), on_max }),
            part: Arc::from(part),
        });
        let targets = match &lowered.to {
            To::Role(role) => vec![self.role(role)?],
            To::End => vec![self.end],
            To::Fail => vec![self.fail],
            To::Back => {
                self.back.push((from, way.clone(), Arc::clone(&lowered)));
                Vec::new()
            }
            To::Fan(fan) => {
                self.role(&fan.join.to)?;
                fan.branches.iter().map(|branch| self.role(&branch.to)).collect::<Result<_, _>>()?
            }
        };
        for target in targets {
            self.sources.entry(target).or_default().insert(from);
            self.inner.add_edge(from, target, Link::Route { way: way.clone(), edge: Arc::clone(&lowered) });
        }
        Ok(lowered)
    }

    fn role(&self, role: &RoleName) -> Result<NodeIndex, Error> {
        self.roles.get(role).copied().ok_or_else(|| Error::UnknownRole { role: role.to_string() })
    }

    /// A `back` edge may lead to each role with an edge to its own.
    fn draw_back_edges(&mut self) {
        for (from, way, edge) in std::mem::take(&mut self.back) {
            for source in self.sources.get(&from).into_iter().flatten() {
                self.inner.add_edge(from, *source, Link::Route { way: way.clone(), edge: Arc::clone(&edge) });
            }
        }
    }
}

fn fan_out(part: &str, fan: &workflow::FanOut) -> Result<FanOut, Error> {
    let branch = |(at, branch): (usize, &workflow::Branch)| {
        Ok(Branch {
            part: Arc::from(item(&key(part, "to"), at)),
            to: branch.to.clone(),
            attach: branch.attach.clone(),
            prompt: template(&branch.prompt)?,
            when: branch.when.as_deref().map(condition).transpose()?,
        })
    };
    let each = |each: &workflow::Each| {
        let Condition { expr: over, source } = condition(&each.over)?;
        Ok(Each { name: each.name.clone(), over, source, parallel: each.parallel.max(1) })
    };
    Ok(FanOut {
        branches: fan.branches.iter().enumerate().map(branch).collect::<Result<_, _>>()?,
        each: fan.each.as_ref().map(each).transpose()?,
        join: Join {
            to: fan.join.to.clone(),
            prompt: fan.join.prompt.as_deref().map(template).transpose()?,
            need: fan.join.need,
            failed: fan.join.failed,
        },
    })
}

fn template(source: &str) -> Result<Template, Error> {
    Template::parse(source).map_err(|_| Error::Template { source_text: source.to_owned() })
}

pub(super) fn condition(source: &str) -> Result<Condition, Error> {
    let expr = Expr::parse(source).map_err(|_| Error::Template { source_text: source.to_owned() })?;
    Ok(Condition { expr, source: source.to_owned() })
}

pub(super) fn value_template(source: &workflow::Template) -> Result<ValueTemplate, Error> {
    ValueTemplate::parse(&source.0).map_err(|_| Error::Template { source_text: source.0.to_text() })
}

//! The graph of a file with numbers instead of names, for all rules.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::id::Status;
use crate::object::FaultKind;
use crate::workflow::source_map::{SourceMap, item, key};
use crate::workflow::{
    Branch, Edge, FailedLanes, FanOut, Need, Outgoing, Role, RoleKind, SelectorRole, Target, Workflow,
};

pub(super) struct IndexedGraph<'w> {
    pub(super) workflow: &'w Workflow,
    pub(super) roles: Vec<Node<'w>>,
    /// Every edge, including `on_max` edges, in file order.
    pub(super) edges: Vec<GraphEdge<'w>>,
    /// Every fan-out, in the order of their edges.
    pub(super) fans: Vec<Fan>,
    /// The roles that the file declares and that could not be read.
    pub(super) unread: BTreeSet<String>,
    /// Whether every input could be read.
    pub(super) has_whole_input: bool,
    numbers: BTreeMap<&'w str, usize>,
}

pub(super) struct Node<'w> {
    pub(super) name: &'w str,
    pub(super) role: &'w Role,
    /// Its declared statuses, then the reserved ones.
    pub(super) statuses: Vec<&'w str>,
    pub(super) edges: Vec<usize>,
    pub(super) in_graph: bool,
    /// Whether its statuses and their fields could be read.
    pub(super) is_whole: bool,
}

pub(super) struct GraphEdge<'w> {
    pub(super) path: String,
    pub(super) edge: &'w Edge,
    /// The role and its status that it starts from; `None` = `start`.
    pub(super) from: Option<(usize, usize)>,
    /// The edge whose `on_max` this is.
    pub(super) spent: Option<usize>,
    pub(super) to: EdgeTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeTarget {
    Role(usize),
    End,
    Fail,
    Back,
    Fan(usize),
    Unknown,
}

pub(super) struct Fan {
    pub(super) way: usize,
    /// The first role of each branch, and whether its lane always opens.
    pub(super) branches: Vec<(usize, bool)>,
    pub(super) join: usize,
    /// Whether the join waits until every open lane has arrived.
    pub(super) waits_for_all: bool,
    /// Whether it may continue without any arrived lane.
    pub(super) may_be_empty: bool,
}

impl<'w> IndexedGraph<'w> {
    pub(super) fn new(workflow: &'w Workflow, places: &SourceMap) -> Self {
        let numbers: BTreeMap<&str, usize> =
            workflow.roles.iter().enumerate().map(|(number, (name, _))| (name.as_str(), number)).collect();
        let roles = workflow.roles.iter().map(|(name, role)| Node {
            name: name.as_str(),
            role,
            statuses: role
                .output
                .iter()
                .map(|(status, _)| status.as_str())
                .chain(FaultKind::STATUSES.iter().copied())
                .collect(),
            edges: Vec::new(),
            in_graph: false,
            is_whole: !places.is_incomplete(&key(&key("roles", name.as_str()), "output")),
        });
        let mut indexed = Self {
            workflow,
            roles: roles.collect(),
            edges: Vec::new(),
            fans: Vec::new(),
            unread: places.members("roles").filter(|name| !numbers.contains_key(name)).map(str::to_owned).collect(),
            has_whole_input: !places.is_incomplete("input"),
            numbers,
        };
        for (name, outgoing) in &workflow.graph {
            let path = key("graph", name);
            match outgoing {
                Outgoing::Start(edges) => indexed.add_edges(&path, None, edges),
                Outgoing::Role(statuses) => indexed.add_role(name, &path, statuses),
            }
        }
        indexed
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    pub(super) fn name(&self, number: usize) -> &'w str {
        self.roles.get(number).map_or("", |role| role.name)
    }

    pub(super) fn status(&self, role: usize, number: usize) -> Option<&'w str> {
        self.roles.get(role)?.statuses.get(number).copied()
    }

    /// The numbers of a role's reserved statuses.
    pub(super) fn reserved(&self, role: usize) -> Range<usize> {
        self.roles.get(role).map_or(0..0, |role| role.role.output.len()..role.statuses.len())
    }

    pub(super) fn is_join(&self, role: usize) -> bool {
        self.fans.iter().any(|fan| fan.join == role)
    }

    /// The roles that an edge leads to, the join of a fan-out last; of branches only those whose lane always opens, if so
    /// wanted.
    pub(super) fn targets(&self, to: EdgeTarget, only_sure: bool) -> Vec<usize> {
        match to {
            EdgeTarget::Role(role) => vec![role],
            EdgeTarget::Fan(fan) => self.fans.get(fan).map_or_else(Vec::new, |fan| {
                let branches = fan.branches.iter().filter(|(_, is_sure)| *is_sure || !only_sure);
                branches.map(|(role, _)| *role).chain([fan.join]).collect()
            }),
            EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Back | EdgeTarget::Unknown => Vec::new(),
        }
    }

    pub(super) fn edges_of(&self, role: usize) -> impl Iterator<Item = (usize, &GraphEdge<'w>)> {
        let numbers = self.roles.get(role).into_iter().flat_map(|role| &role.edges);
        numbers.filter_map(|number| Some((*number, self.edges.get(*number)?)))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'w str> + use<'_, 'w> {
        self.roles.iter().map(|role| role.name)
    }

    pub(super) fn fan_of(&self, way: &GraphEdge<'w>) -> Option<(&Fan, &'w FanOut)> {
        match (way.to, &way.edge.to) {
            (EdgeTarget::Fan(number), Target::Fan(fan)) => Some((self.fans.get(number)?, fan)),
            _ => None,
        }
    }

    fn add_role(&mut self, name: &str, path: &str, statuses: &'w [(Status, Vec<Edge>)]) {
        let Some(number) = self.number(name) else { return };
        if let Some(role) = self.roles.get_mut(number) {
            role.in_graph = true;
        }
        let Some((_, role)) = self.workflow.roles.get(number) else { return };
        for (status, edges) in statuses {
            let known = self
                .roles
                .get(number)
                .and_then(|role| role.statuses.iter().position(|known| status.as_str() == *known));
            if let Some(status_number) = known {
                self.add_edges(&key(path, status.as_str()), Some((number, status_number)), edges);
            }
        }
        // After two choices that break the contract the selector's step has the status `error`.
        if let RoleKind::Selector(SelectorRole { fallback_route: Some(edges), .. }) = &role.kind {
            self.add_edges(&key(path, "else"), Some((number, role.output.len())), edges);
        }
    }

    fn add_edges(&mut self, path: &str, from: Option<(usize, usize)>, edges: &'w [Edge]) {
        for (position, edge) in edges.iter().enumerate() {
            let mut path = item(path, position);
            let mut spent = None;
            for edge in edge.with_on_max() {
                let number = self.edges.len();
                let to = self.target(&edge.to, number);
                self.edges.push(GraphEdge { path: path.clone(), edge, from, spent, to });
                if let Some(role) = from.and_then(|(role, _)| self.roles.get_mut(role)) {
                    role.edges.push(number);
                }
                path = key(&path, "on_max");
                spent = Some(number);
            }
        }
    }

    fn target(&mut self, target: &Target, way: usize) -> EdgeTarget {
        match target {
            Target::Role(name) => self.number(name.as_str()).map_or(EdgeTarget::Unknown, EdgeTarget::Role),
            Target::End => EdgeTarget::End,
            Target::Fail => EdgeTarget::Fail,
            Target::Back => EdgeTarget::Back,
            Target::Fan(fan) => self.fan(fan, way).map_or(EdgeTarget::Unknown, |fan| {
                self.fans.push(fan);
                EdgeTarget::Fan(self.fans.len() - 1)
            }),
        }
    }

    fn fan(&self, fan: &FanOut, way: usize) -> Option<Fan> {
        let join = self.number(fan.join.to.as_str())?;
        // A failing lane may fail before its first step, unless that fails the fan-out.
        let survives = fan.join.failed == FailedLanes::Fail;
        let branch = |branch: &Branch| {
            let is_sure = branch.when.is_none() && fan.each.is_none() && survives;
            Some((self.number(branch.to.as_str())?, is_sure))
        };
        let branches: Vec<(usize, bool)> = fan.branches.iter().map(branch).collect::<Option<_>>()?;
        let waits_for_all = fan.join.need == Need::All;
        // Where some lanes must arrive, there is no join without them.
        let may_be_empty = waits_for_all && branches.iter().all(|(_, is_sure)| !is_sure);
        Some(Fan { way, branches, join, waits_for_all, may_be_empty })
    }
}

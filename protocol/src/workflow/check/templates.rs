//! Checks every template of a workflow where it is used.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::flow::{Flow, State};
use super::indexed_graph::{EdgeTarget, GraphEdge, IndexedGraph};
use super::lanes::Lanes;
use super::types::{Known, Type};
use super::typing::{TypeEnv, Typing};
use crate::canonical::Value;
use crate::source::SourceError;
use crate::workflow::source_map::{item, key};
use crate::workflow::template::{Expr, Template, ValueTemplate};
use crate::workflow::{FailedLanes, FanOut, Need, Role, RoleKind, SelectBy};

const AT_START: &str = "nothing has run yet";
const AT_JOIN: &str = "several lanes lead here";

/// The names that lanes define, with their types.
type Names<'w> = Vec<(&'w str, Known<'w>)>;

pub(super) fn check(indexed: &IndexedGraph<'_>, lanes: &Lanes, findings: &mut Findings<'_>) {
    let flow = Flow::new(indexed, lanes);
    let mut templates = Templates { indexed, lanes, flow: &flow, given: BTreeMap::new(), findings };
    templates.name_lanes();
    for (number, way) in indexed.edges.iter().enumerate() {
        templates.edge(number, way);
    }
    for (number, role) in indexed.roles.iter().enumerate() {
        templates.role(number, role.role);
    }
    templates.result();
}

struct Templates<'t, 'p, 'w, 'f> {
    indexed: &'p IndexedGraph<'w>,
    lanes: &'p Lanes,
    flow: &'p Flow<'p, 'w>,
    /// For each fan-out the names that its lanes see.
    given: BTreeMap<usize, Names<'w>>,
    findings: &'t mut Findings<'f>,
}

impl<'p, 'w> Templates<'_, 'p, 'w, '_> {
    /// Determines the names that the lanes of each fan-out see. A fan-out within a lane comes after that of the lane,
    /// unless they depend on each other.
    fn name_lanes(&mut self) {
        let mut open: Vec<usize> = (0..self.indexed.fans.len()).collect();
        loop {
            let before = open.len();
            open.retain(|number| !self.name_lane(*number, false));
            if open.len() == before {
                break;
            }
        }
        for number in open {
            self.name_lane(number, true);
        }
    }

    /// Whether the names of this fan-out could be determined, or were because `must` is set.
    fn name_lane(&mut self, number: usize, must: bool) -> bool {
        let Some(way) = self.indexed.fans.get(number).and_then(|fan| self.indexed.edges.get(fan.way)) else {
            return true;
        };
        let outer = way.from.map_or(&[][..], |(role, _)| self.lanes.contexts_of(role));
        if !must && !outer.iter().all(|fan| self.given.contains_key(fan)) {
            return false;
        }
        let mut names = way.from.map_or_else(Vec::new, |(role, _)| self.names_at(role));
        names.retain(|(name, _)| *name != "index");
        if let Some((fan, fan_out)) = self.indexed.fan_of(way)
            && let Some(each) = &fan_out.each
        {
            let element = self.element(fan.way, &each.over);
            names.retain(|(name, _)| *name != each.name.as_str());
            names.push((each.name.as_str(), element));
        }
        names.push(("index", Type::Number.into()));
        self.given.insert(number, names);
        true
    }

    fn element(&self, way: usize, over: &str) -> Known<'w> {
        match (Expr::parse(over), self.env_on(way)) {
            (Ok(expr), Some(env)) => Typing::new(&env).element(&expr),
            _ => Type::Any.into(),
        }
    }

    /// The names in scope on the edges of a role: those that all its contexts define.
    fn names_at(&self, role: usize) -> Names<'w> {
        if self.lanes.trunk.contains(&role) {
            return Vec::new();
        }
        let mut contexts = self.lanes.contexts_of(role).iter().filter_map(|fan| self.given.get(fan));
        let first = contexts.next().cloned().unwrap_or_default();
        contexts.fold(first, |names, other| {
            names
                .into_iter()
                .filter_map(|(name, known)| {
                    let (_, found) = other.iter().find(|(given, _)| *given == name)?;
                    Some((name, if *found == known { known } else { Type::Any.into() }))
                })
                .collect()
        })
    }

    fn env_on(&self, way: usize) -> Option<TypeEnv<'p, 'w>> {
        let from = self.indexed.edges.get(way)?.from;
        Some(TypeEnv {
            branches: from.and_then(|(role, _)| self.branches_at(role)),
            names: from.map_or_else(Vec::new, |(role, _)| self.names_at(role)),
            ..self.env(self.flow.on(way)?, &[from])
        })
    }

    /// The environment behind any of these steps; `None` = `start`.
    fn env(&self, state: State, from: &[Option<(usize, usize)>]) -> TypeEnv<'p, 'w> {
        let steps = from.iter().flatten().copied().collect();
        let without_step = from.contains(&None).then_some(AT_START);
        let (indexed, flow) = (self.indexed, self.flow);
        TypeEnv { indexed, flow, state, steps, without_step, branches: None, names: Vec::new() }
    }

    /// Whether an edge leads to a role other than through a join.
    fn enters(&self, way: &GraphEdge<'_>, role: usize) -> bool {
        match way.to {
            EdgeTarget::Role(to) => to == role,
            EdgeTarget::Fan(fan) => {
                self.indexed.fans.get(fan).is_some_and(|fan| fan.branches.iter().any(|(to, _)| *to == role))
            }
            EdgeTarget::Back => way
                .from
                .is_some_and(|(from, _)| self.lanes.callers.get(from).is_some_and(|callers| callers.contains(&role))),
            EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Unknown => false,
        }
    }

    /// The minimum number of branches whenever a role runs; `None` unless only joins lead to it.
    fn branches_at(&self, role: usize) -> Option<usize> {
        let enters = |(number, way): (usize, &GraphEdge<'_>)| {
            self.enters(way, role) && (!matches!(way.to, EdgeTarget::Role(_)) || self.flow.leads_on(number, role))
        };
        if self.indexed.edges.iter().enumerate().any(enters) {
            return None;
        }
        let fans = self.indexed.edges.iter().filter_map(|way| self.indexed.fan_of(way));
        fans.filter(|(fan, _)| fan.join == role).map(|(_, fan)| least_branches(fan)).min()
    }

    fn edge(&mut self, number: usize, way: &GraphEdge<'w>) {
        let env = self.env_on(number);
        let path = &way.path;
        if let Some(when) = &way.edge.when {
            self.condition(&key(path, "when"), when, env.as_ref());
        }
        if !matches!(way.to, EdgeTarget::Fan(_)) {
            self.text(&key(path, "prompt"), &way.edge.prompt, env.as_ref());
        }
        for (name, source) in [("say", &way.edge.say), ("reason", &way.edge.reason)] {
            if let Some(source) = source {
                self.text(&key(path, name), source, env.as_ref());
            }
        }
        if let Some(result) = &way.edge.result {
            self.value(&key(path, "result"), &result.0, env.as_ref());
        }
        if let Some((_, fan)) = self.indexed.fan_of(way) {
            self.fan_out(path, way.to, fan, env);
        }
    }

    fn fan_out(&mut self, path: &str, to: EdgeTarget, fan: &'w FanOut, env: Option<TypeEnv<'p, 'w>>) {
        let EdgeTarget::Fan(number) = to else { return };
        if let Some(each) = &fan.each {
            self.list(&key(path, "each"), &each.over, env.as_ref());
        }
        let lane = env.map(|env| TypeEnv { names: self.given.get(&number).cloned().unwrap_or_default(), ..env });
        for (position, branch) in fan.branches.iter().enumerate() {
            let path = item(&key(path, "to"), position);
            if let Some(when) = &branch.when {
                self.condition(&key(&path, "when"), when, lane.as_ref());
            }
            // A prompt that all branches inherit from their edge is checked once.
            let is_repeated = fan
                .branches
                .get(..position)
                .is_some_and(|before| before.iter().any(|other| other.prompt == branch.prompt));
            if !is_repeated {
                self.text(&key(&path, "prompt"), &branch.prompt, lane.as_ref());
            }
        }
        if let Some(prompt) = &fan.join.prompt {
            let joined = self.flow.joined(number).zip(lane).map(|(state, lane)| TypeEnv {
                state,
                steps: Vec::new(),
                without_step: Some(AT_JOIN),
                branches: Some(least_branches(fan)),
                names: self.outer_names(number),
                ..lane
            });
            self.text(&key(&key(path, "join"), "prompt"), prompt, joined.as_ref());
        }
    }

    fn outer_names(&self, fan: usize) -> Names<'w> {
        let from = self.indexed.fans.get(fan).and_then(|fan| self.indexed.edges.get(fan.way)).and_then(|way| way.from);
        from.map_or_else(Vec::new, |(role, _)| self.names_at(role))
    }

    /// The environment of a prompt to a role, for any edge that leads to it.
    fn env_before(&self, role: usize) -> Option<TypeEnv<'p, 'w>> {
        let entering = self.indexed.edges.iter().filter(|way| self.enters(way, role));
        let mut entering: Vec<_> = entering.map(|way| way.from).collect();
        entering.sort_unstable();
        entering.dedup();
        let env = self.env(self.flow.before(role)?.clone(), &entering);
        let without_step = if self.indexed.is_join(role) { Some(AT_JOIN) } else { env.without_step };
        Some(TypeEnv { without_step, branches: self.branches_at(role), names: self.names_at(role), ..env })
    }

    fn role(&mut self, number: usize, role: &'w Role) {
        let env = || self.env_before(number);
        let path = key("roles", self.indexed.name(number));
        match &role.kind {
            RoleKind::Tool(tool) => self.value(&key(&path, "args"), &tool.args.0, env().as_ref()),
            RoleKind::Workflow(child) => self.value(&key(&path, "input"), &child.input.0, env().as_ref()),
            RoleKind::Rule(decision) => {
                let env = env();
                for (status, rule) in &decision.rules {
                    let path = key(&key(&path, "output"), status.as_str());
                    if let Some(when) = &rule.when {
                        self.condition(&key(&path, "when"), when, env.as_ref());
                    }
                    for (field, source) in &rule.fields {
                        self.expression(&key(&path, field.as_str()), source, env.as_ref());
                    }
                }
            }
            RoleKind::Selector(selector) => {
                if let SelectBy::Expression(source) = &selector.by {
                    self.expression(&key(&key(&path, "by"), "expression"), source, env().as_ref());
                }
            }
            RoleKind::Model(_) | RoleKind::Human => {}
        }
    }

    /// Checks the workflow's result for every edge to `end` without a specific result.
    fn result(&mut self) {
        let Some(result) = &self.indexed.workflow.result else { return };
        let ends: Vec<(usize, &GraphEdge<'w>)> = self
            .indexed
            .edges
            .iter()
            .enumerate()
            .filter(|(_, way)| way.to == EdgeTarget::End && way.edge.result.is_none())
            .collect();
        let state = Flow::union(ends.iter().filter_map(|(number, _)| self.flow.on(*number)));
        let from: Vec<_> = ends.iter().map(|(_, way)| way.from).collect();
        let env = state.map(|state| self.env(state, &from));
        self.value("result", &result.0, env.as_ref());
    }

    fn text(&mut self, path: &str, source: &str, env: Option<&TypeEnv<'p, 'w>>) {
        match Template::parse(source) {
            Ok(template) => self.walk(path, env, |typing| typing.text(template.statements())),
            Err(faults) => self.report(path, faults),
        }
    }

    fn value(&mut self, path: &str, source: &Value, env: Option<&TypeEnv<'p, 'w>>) {
        match ValueTemplate::parse(source) {
            Ok(template) => {
                for leaf in template.leaves() {
                    self.walk(&format!("{path}{}", leaf.place), env, |typing| match leaf.template.single() {
                        Some(expr) => {
                            typing.value(expr);
                        }
                        None => typing.text(leaf.template.statements()),
                    });
                }
            }
            Err(found) => {
                for (way, faults) in found {
                    self.report(&format!("{path}{way}"), faults);
                }
            }
        }
    }

    fn condition(&mut self, path: &str, source: &str, env: Option<&TypeEnv<'p, 'w>>) {
        self.parsed(path, source, env, |typing, expr| {
            typing.condition(expr);
        });
    }

    fn expression(&mut self, path: &str, source: &str, env: Option<&TypeEnv<'p, 'w>>) {
        self.parsed(path, source, env, |typing, expr| {
            typing.value(expr);
        });
    }

    fn list(&mut self, path: &str, source: &str, env: Option<&TypeEnv<'p, 'w>>) {
        self.parsed(path, source, env, |typing, expr| {
            typing.element(expr);
        });
    }

    fn parsed(
        &mut self,
        path: &str,
        source: &str,
        env: Option<&TypeEnv<'p, 'w>>,
        walk: impl FnOnce(&mut Typing<'_, 'w>, &Expr),
    ) {
        match Expr::parse(source) {
            Ok(expr) => self.walk(path, env, |typing| walk(typing, &expr)),
            Err(faults) => self.report(path, faults),
        }
    }

    /// Without an environment nothing leads here, which is another fault.
    fn walk(&mut self, path: &str, env: Option<&TypeEnv<'p, 'w>>, walk: impl FnOnce(&mut Typing<'_, 'w>)) {
        let Some(env) = env else { return };
        let mut typing = Typing::new(env);
        walk(&mut typing);
        self.report(path, typing.finish());
    }

    fn report(&mut self, path: &str, faults: Vec<SourceError>) {
        let mut said = BTreeSet::new();
        for SourceError { span, code, message, hint } in faults {
            // What a template says of the same name twice is one fault.
            if !said.insert((code, message.clone())) {
                continue;
            }
            let mut diagnostic = self.findings.places.fault(code, path, Some(span.range()), message);
            diagnostic.hint = hint;
            self.findings.found.push(diagnostic);
        }
    }
}

/// The minimum number of branches that the join of a fan-out sees.
fn least_branches(fan: &FanOut) -> usize {
    let sure = if fan.each.is_some() { 0 } else { fan.branches.iter().filter(|branch| branch.when.is_none()).count() };
    match (fan.join.failed, fan.join.need) {
        (FailedLanes::Fail | FailedLanes::Collect, Need::All) => sure,
        // Failed lanes are left out.
        (FailedLanes::Skip, Need::All) => 0,
        // What is needed has arrived, or there is no join.
        (_, Need::Any) => 1,
        (_, Need::Count(count)) => usize::try_from(count).unwrap_or(usize::MAX),
    }
}

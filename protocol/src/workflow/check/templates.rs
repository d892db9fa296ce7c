//! Checks every template of a workflow where it is used.

mod branches;
mod child;

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::flow::{Flow, State};
use super::indexed_graph::{EdgeTarget, GraphEdge, IndexedGraph};
use super::lanes::Lanes;
use super::types::{Known, Type};
use super::typing::{Branches, TypeEnv, Typing};
use crate::canonical::Value;
use crate::diagnostic::Diagnostic;
use crate::source::SourceError;
use crate::workflow::source_map::{item, key};
use crate::workflow::template::{Expr, Template, ValueTemplate};
use crate::workflow::{FanOut, Role, RoleKind, SelectBy, SelectorRole};

const AT_START: &str = "nothing has run yet";
const AT_JOIN: &str = "several lanes lead here";

/// The names that lanes define, with their types.
type Names<'w> = Vec<(&'w str, Known<'w>)>;

pub(super) fn check(findings: &mut Findings<'_, '_>) {
    let (indexed, lanes) = (findings.indexed, findings.lanes);
    let flow = Flow::new(indexed, lanes);
    let (given, joined) = (BTreeMap::new(), BTreeMap::new());
    let mut templates = Templates { indexed, lanes, flow: &flow, given, joined, findings };
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
    /// For each join role what `branches` is on its edges, unless something else leads to it as well.
    joined: BTreeMap<usize, Branches<'w>>,
    findings: &'t mut Findings<'f, 'w>,
}

impl<'p, 'w> Templates<'_, 'p, 'w, '_> {
    /// Determines the names that the lanes of each fan-out see. A fan-out within a lane comes after that of the lane,
    /// unless they depend on each other.
    fn name_lanes(&mut self) {
        let mut fans: Vec<usize> = (0..self.indexed.fans.len()).collect();
        fans.sort_by_key(|number| self.lanes.nesting(*number).unwrap_or(usize::MAX));
        // A list of lanes may itself be gone over by lanes.
        self.join_lanes();
        for number in fans {
            self.name_lane(number);
        }
        self.join_lanes();
    }

    fn name_lane(&mut self, number: usize) {
        let Some(way) = self.indexed.fans.get(number).and_then(|fan| self.indexed.edges.get(fan.way)) else { return };
        let mut names = way.from.map_or_else(Vec::new, |(role, _)| self.names_at(role));
        names.retain(|(name, _)| *name != "index");
        if let Some((fan, FanOut { each: Some(each), .. })) = self.indexed.fan_of(way) {
            let element = match (Expr::parse(&each.over), self.env_on(fan.way)) {
                (Ok(expr), Some(env)) => Typing::new(&env).element(&expr),
                _ => Type::Any.into(),
            };
            names.retain(|(name, _)| *name != each.name.as_str());
            names.push((each.name.as_str(), element));
        }
        names.push(("index", Type::Number.into()));
        self.given.insert(number, names);
    }

    /// The names in scope on the edges of a role: those that all its contexts define.
    fn names_at(&self, role: usize) -> Names<'w> {
        if self.lanes.trunk.contains(&role) {
            return Vec::new();
        }
        let mut contexts = self.lanes.contexts_of(role).iter().filter_map(|fan| self.given.get(fan));
        let mut names = contexts.next().cloned().unwrap_or_default();
        for other in contexts {
            let both = names.into_iter().filter_map(|(name, known)| {
                let (_, found) = other.iter().find(|(given, _)| *given == name)?;
                Some((name, if *found == known { known } else { Type::Any.into() }))
            });
            names = both.collect();
        }
        names
    }

    fn env_on(&self, way: usize) -> Option<TypeEnv<'p, 'w>> {
        let from = self.indexed.edges.get(way)?.from;
        Some(TypeEnv {
            branches: from.and_then(|(role, _)| self.joined.get(&role).cloned()),
            names: from.map_or_else(Vec::new, |(role, _)| self.names_at(role)),
            ..self.env(self.flow.on(way)?, [from])
        })
    }

    /// The environment behind any of these steps; `None` = `start`.
    fn env(&self, state: State, from: impl IntoIterator<Item = Option<(usize, usize)>>) -> TypeEnv<'p, 'w> {
        let from: Vec<_> = from.into_iter().collect();
        let without_step = from.contains(&None).then_some(AT_START);
        let steps = from.into_iter().flatten().collect();
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
            EdgeTarget::Back => {
                let callers = way.from.and_then(|(from, _)| self.lanes.callers.get(from));
                callers.is_some_and(|callers| callers.contains(&role))
            }
            EdgeTarget::End | EdgeTarget::Fail | EdgeTarget::Unknown => false,
        }
    }

    fn edge(&mut self, number: usize, way: &GraphEdge<'w>) {
        let env = self.env_on(number);
        let path = &way.path;
        self.condition(path, way.edge.when.as_ref(), env.as_ref());
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
            let walk = |typing: &mut Typing<'_, 'w>, over: Expr| drop(typing.element(&over));
            self.walk(&key(path, "each"), Expr::parse(&each.over), env.as_ref(), walk);
        }
        let outer_names = env.as_ref().map_or_else(Vec::new, |env| env.names.clone());
        let lane = env.map(|env| TypeEnv { names: self.given.get(&number).cloned().unwrap_or_default(), ..env });
        for (position, branch) in fan.branches.iter().enumerate() {
            let path = item(&key(path, "to"), position);
            self.condition(&path, branch.when.as_ref(), lane.as_ref());
            // A prompt that all branches inherit from their edge is checked once.
            if !fan.branches.iter().take(position).any(|before| before.prompt == branch.prompt) {
                self.text(&key(&path, "prompt"), &branch.prompt, lane.as_ref());
            }
        }
        if let Some(prompt) = &fan.join.prompt {
            let joined = self.flow.joined(number).zip(lane).map(|(state, lane)| TypeEnv {
                state,
                steps: Vec::new(),
                without_step: Some(AT_JOIN),
                branches: self.branches_of(&[number]),
                names: outer_names,
                ..lane
            });
            self.text(&key(&key(path, "join"), "prompt"), prompt, joined.as_ref());
        }
    }

    /// The environment of a prompt to a role, for any edge that leads to it.
    fn env_before(&self, role: usize) -> Option<TypeEnv<'p, 'w>> {
        let entering = self.indexed.edges.iter().filter(|way| self.enters(way, role));
        let entering: BTreeSet<_> = entering.map(|way| way.from).collect();
        let env = self.env(self.flow.before(role)?.clone(), entering);
        let without_step = if self.indexed.is_join(role) { Some(AT_JOIN) } else { env.without_step };
        Some(TypeEnv { without_step, branches: self.joined.get(&role).cloned(), names: self.names_at(role), ..env })
    }

    fn role(&mut self, number: usize, role: &'w Role) {
        let env = || self.env_before(number);
        let path = key("roles", self.indexed.name(number));
        match &role.kind {
            RoleKind::Tool(tool) => self.value(&key(&path, "args"), &tool.args.0, env().as_ref()),
            RoleKind::Workflow(child) => {
                let (path, env) = (key(&path, "input"), env());
                self.value(&path, &child.input.0, env.as_ref());
                self.child_input(&path, child, env.as_ref());
            }
            RoleKind::Rule(decision) => {
                let env = env();
                for (status, rule) in &decision.rules {
                    let path = key(&key(&path, "output"), status.as_str());
                    self.condition(&path, rule.when.as_ref(), env.as_ref());
                    for (field, source) in &rule.fields {
                        self.expression(&key(&path, field.as_str()), source, env.as_ref());
                    }
                }
            }
            RoleKind::Selector(SelectorRole { by: SelectBy::Expression(source), .. }) => {
                self.expression(&key(&key(&path, "by"), "expression"), source, env().as_ref());
            }
            RoleKind::Model(_) | RoleKind::Selector(_) | RoleKind::Human => {}
        }
    }

    /// Checks the workflow's result for every edge to `end` without a specific result.
    fn result(&mut self) {
        let Some(result) = &self.indexed.workflow.result else { return };
        let edges = self.indexed.edges.iter().enumerate();
        let ends = edges.filter(|(_, way)| way.to == EdgeTarget::End && way.edge.result.is_none());
        let state = Flow::union(ends.clone().filter_map(|(number, _)| self.flow.on(number)));
        let env = state.map(|state| self.env(state, ends.map(|(_, way)| way.from)));
        self.value("result", &result.0, env.as_ref());
    }

    fn text(&mut self, path: &str, source: &str, env: Option<&TypeEnv<'p, 'w>>) {
        self.walk(path, Template::parse(source), env, |typing, template| typing.text(template.statements()));
    }

    fn value(&mut self, path: &str, source: &Value, env: Option<&TypeEnv<'p, 'w>>) {
        match ValueTemplate::parse(source) {
            Ok(template) => {
                for leaf in template.leaves() {
                    let path = format!("{path}{}", leaf.place);
                    self.walk(&path, Ok(&leaf.template), env, |typing, template| match template.single() {
                        Some(expr) => drop(typing.value(expr)),
                        None => typing.text(template.statements()),
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

    /// Checks the condition of the part at `path`.
    fn condition(&mut self, path: &str, when: Option<&String>, env: Option<&TypeEnv<'p, 'w>>) {
        if let Some(when) = when {
            self.walk(&key(path, "when"), Expr::parse(when), env, |typing, expr| typing.condition(&expr));
        }
    }

    fn expression(&mut self, path: &str, source: &str, env: Option<&TypeEnv<'p, 'w>>) {
        self.walk(path, Expr::parse(source), env, |typing, expr| drop(typing.value(&expr)));
    }

    /// Without an environment nothing leads here, which is another fault.
    fn walk<T>(
        &mut self,
        path: &str,
        parsed: Result<T, Vec<SourceError>>,
        env: Option<&TypeEnv<'p, 'w>>,
        walk: impl FnOnce(&mut Typing<'_, 'w>, T),
    ) {
        let faults = parsed.and_then(|parsed| {
            let Some(mut typing) = env.map(Typing::new) else { return Ok(()) };
            walk(&mut typing, parsed);
            Err(typing.finish())
        });
        self.report(path, faults.err().unwrap_or_default());
    }

    fn report(&mut self, path: &str, faults: Vec<SourceError>) {
        let mut said = BTreeSet::new();
        for SourceError { span, code, message, hint } in faults {
            // What a template says of the same name twice is one fault.
            if said.insert((code, message.clone())) {
                let diagnostic = self.findings.places.fault(code, path, Some(span.range()), message);
                self.findings.found.push(Diagnostic { hint, ..diagnostic });
            }
        }
    }
}

//! What the conditions and templates of a graph read of earlier steps: what a walk has to distinguish.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::Value;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::template::{Expr, Segment, Template, Use, ValueTemplate};

use rondo_core::graph::{Entry, Graph, To};

/// The most constants of conditions that are tried as field values.
const MAX_CONSTANTS: usize = 64;

#[derive(Debug, Default)]
pub struct Reads {
    pub constants: Vec<Value>,
    pub input: bool,
    pub told_input: bool,
    /// The inputs that conditions of edges and templates read.
    pub inputs: BTreeSet<String>,
    /// Roles whose latest answer a condition on another role's edge reads.
    pub answers: BTreeSet<RoleName>,
    /// Roles whose latest step a template or a condition outside their own edges reads.
    pub steps: BTreeSet<RoleName>,
    /// Roles whose number of visits a condition reads.
    pub visits: BTreeSet<RoleName>,
    /// Whether an edge leads back to the role that entered its role.
    pub back: bool,
    /// For each role the fields that conditions of edges and templates read.
    fields: BTreeMap<RoleName, BTreeSet<String>>,
    /// Roles whose body such a condition reads.
    bodies: BTreeSet<RoleName>,
    roles: BTreeSet<RoleName>,
}

impl Reads {
    pub fn of(graph: &Graph) -> Self {
        let mut reads = Self { roles: graph.roles().map(|(name, _)| name.clone()).collect(), ..Self::default() };
        for edge in graph.edges().values() {
            // A part is `graph.ROLE.STATUS[..]`; that of `start` belongs to no role.
            let from = edge.part.split('.').nth(1).and_then(|name| reads.roles.get(name)).cloned();
            let from = from.as_ref();
            reads.back |= matches!(edge.to, To::Back);
            if let Some(condition) = &edge.when {
                reads.condition(&condition.expr, from, true);
            }
            for template in [Some(&edge.prompt), edge.say.as_ref(), edge.reason.as_ref()].into_iter().flatten() {
                reads.template(template, from);
            }
            if let Some(result) = &edge.result {
                reads.value(result, from);
            }
            let To::Fan(fan) = &edge.to else { continue };
            if let Some(each) = &fan.each {
                // The number of lanes makes a route different.
                reads.condition(&each.over, from, true);
            }
            for branch in &fan.branches {
                reads.template(&branch.prompt, from);
                if let Some(condition) = &branch.when {
                    reads.condition(&condition.expr, from, true);
                }
            }
            if let Some(prompt) = &fan.join.prompt {
                reads.template(prompt, from);
            }
        }
        graph.result().into_iter().for_each(|result| reads.value(result, None));
        for (name, _) in graph.roles() {
            reads.entry(graph.entry(name));
            if graph.otherwise(name).is_some() {
                reads.answer(name, "output", Some("code"));
            }
        }
        reads
    }

    /// Reads what an edge to a role evaluates besides its prompt.
    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Args(value) | Entry::Input(value) => self.value(value, None),
            Entry::Rules(statuses) => {
                let whens = statuses.iter().filter_map(|rule| rule.when.as_ref()).map(|when| &when.expr);
                let fields = statuses.iter().flat_map(|rule| &rule.fields).map(|(_, field)| field);
                whens.chain(fields).for_each(|expr| self.choice(expr));
            }
            Entry::Choice(choice) => self.choice(&choice.expr),
            Entry::Prompt | Entry::Form | Entry::RoundRobin(_) | Entry::LeastRecent(_) => {}
        }
    }

    /// Reads an expression of a role, which may be entered from any other.
    fn choice(&mut self, expr: &Expr) {
        for from in self.roles.clone() {
            self.condition(expr, Some(&from), true);
        }
    }

    pub fn fields_of(&self, role: &RoleName) -> &BTreeSet<String> {
        static NOTHING: BTreeSet<String> = BTreeSet::new();
        self.fields.get(role).unwrap_or(&NOTHING)
    }

    /// The texts to try as a role's body.
    pub fn bodies_of(&self, role: &RoleName) -> &[Value] {
        if self.bodies.contains(role) { &self.constants } else { &[] }
    }

    /// A condition of an edge, which decides on routes, or of a template, which does not and distinguishes no states.
    fn condition(&mut self, expr: &Expr, from: Option<&RoleName>, is_of_edge: bool) {
        for constant in expr.constants() {
            if self.constants.len() < MAX_CONSTANTS && !self.constants.contains(constant) {
                self.constants.push(constant.clone());
            }
        }
        for found in expr.uses() {
            let names = names(&found);
            match names.as_slice() {
                ["input", rest @ ..] => {
                    self.input |= is_of_edge;
                    self.inputs.extend(rest.first().map(|name| (*name).to_owned()));
                }
                [root @ ("output" | "body"), rest @ ..] => {
                    if let Some(from) = from {
                        self.answer(from, root, rest.first().copied());
                    }
                }
                // Any role may have answered in a lane.
                ["branches", ..] if is_of_edge => {
                    self.answers.extend(self.roles.iter().filter(|role| from != Some(role)).cloned());
                }
                ["steps", role, rest @ ..] => {
                    let Some(role) = self.roles.get(*role).cloned() else { continue };
                    let is_far = is_of_edge && from != Some(&role);
                    let is_counted = is_of_edge && matches!(rest.first(), Some(&("visits" | "all")));
                    self.visits.extend(is_counted.then(|| role.clone()));
                    match rest {
                        [] => self.steps.extend(is_far.then(|| role.clone())),
                        ["visits", ..] => {}
                        [part, rest @ ..] => {
                            if is_far {
                                self.steps.insert(role.clone());
                                self.answers.extend((*part != "status").then(|| role.clone()));
                            }
                            self.answer(&role, part, rest.first().copied());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, role: &RoleName, part: &str, field: Option<&str>) {
        match part {
            "output" => self.fields.entry(role.clone()).or_default().extend(field.map(str::to_owned)),
            "body" => drop(self.bodies.insert(role.clone())),
            _ => {}
        }
    }

    fn value(&mut self, value: &ValueTemplate, from: Option<&RoleName>) {
        for leaf in value.leaves() {
            self.template(&leaf.template, from);
        }
    }

    fn template(&mut self, template: &Template, from: Option<&RoleName>) {
        for test in template.conditions() {
            self.condition(test, from, false);
        }
        for found in template.uses() {
            let names = names(&found);
            self.told_input |= names.first() == Some(&"input");
            if let ["steps", role, rest @ ..] = names.as_slice()
                && let Some(role) = self.roles.get(*role)
                && from != Some(role)
                && rest.first() != Some(&"visits")
            {
                self.steps.insert(role.clone());
            }
        }
    }
}

/// The leading names of a path.
fn names<'t>(found: &Use<'t>) -> Vec<&'t str> {
    let rest = found.path.segments().iter().map_while(|segment| match segment {
        Segment::Name(name) => Some(&**name),
        Segment::Index(_) => None,
    });
    std::iter::once(found.path.root()).chain(rest).collect()
}

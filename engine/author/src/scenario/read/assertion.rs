//! Reads the `assert` section.

use std::collections::BTreeMap;

use rondo_protocol::diagnostic::{Code, Span};
use rondo_protocol::id::RoleName;
use rondo_protocol::source::{Key, Kind, Node, excerpt, locate};

use super::Reader;
use crate::role_of;
use crate::scenario::expect::{Direction, Expectation, Predicate, RoleSelector};
use crate::scenario::path::Path;

pub(super) const KEYS: [&str; 14] = [
    "path",
    "equals",
    "contains",
    "role",
    "visit",
    "request_contains",
    "answer_contains",
    "calls",
    "model_calls",
    "tool_calls",
    "cost_usd_under",
    "prompt_tokens_under",
    "said",
    "reason",
];

/// Those that say what is looked at, in the order in which one of several is chosen.
const SUBJECTS: [&str; 9] =
    ["path", "role", "said", "reason", "calls", "model_calls", "tool_calls", "cost_usd_under", "prompt_tokens_under"];

/// The first names of a path.
pub(super) const FACTS: [&str; 8] = ["outcome", "exit", "reason", "result", "route", "said", "input", "steps"];

/// The keys of one assertion that are not read yet.
type Given<'n> = BTreeMap<&'n str, (&'n Key, &'n Node)>;

impl Reader<'_> {
    pub(super) fn assertions(&mut self, key: &Key, node: &Node) {
        for item in self.list(key, node) {
            let place = item.place(key.span);
            let Kind::Map(members) = &item.kind else {
                self.shape(place, "an assertion is a map such as `{ path: $.result, equals: 1 }`");
                continue;
            };
            let mut given = Given::default();
            for (key, node) in members {
                if KEYS.contains(&key.name.as_str()) {
                    given.insert(key.name.as_str(), (key, node));
                } else {
                    self.unknown(key, &KEYS);
                }
            }
            if given.is_empty() {
                if members.is_empty() {
                    self.shape(place, "the assertion says nothing");
                }
                continue;
            }
            let before = self.faults.len();
            let expectation = self.assertion(&mut given);
            if expectation.is_none() && self.faults.len() == before {
                let what = "the assertion looks at nothing: give it `path`, `role`, `calls`, `said` or another key";
                self.shape(place, what);
            }
            for (key, _) in given.into_values() {
                let what = format!("`{}` does not belong to this assertion; make it one of its own", key.name);
                self.shape(key.span, what);
            }
            self.keep(expectation, place);
        }
    }

    fn assertion(&mut self, given: &mut Given<'_>) -> Option<Expectation> {
        let (key, node) = SUBJECTS.iter().find_map(|subject| given.remove(subject))?;
        match key.name.as_str() {
            "path" => self.at(key, node, given),
            "role" => self.text_contains(key, node, given),
            "said" => self.string(key, node).map(Expectation::Said),
            "reason" => self.string(key, node).map(Expectation::Reason),
            "calls" => Some(Expectation::Calls(self.calls(key, node))),
            "model_calls" => self.count(key, node).map(Expectation::ModelCalls),
            "tool_calls" => Some(Expectation::ToolCalls(self.tool_calls(key, node))),
            "cost_usd_under" => self.money(key, node).map(Expectation::CostUnder),
            _ => self.count(key, node).map(Expectation::PromptTokensUnder),
        }
    }

    /// The one of two alternative keys that `owner` requires.
    fn one_of<'n>(&mut self, owner: &Key, given: &mut Given<'n>, names: [&str; 2]) -> Option<(&'n Key, &'n Node)> {
        let [first, second] = names;
        match (given.remove(first), given.remove(second)) {
            (Some(_), Some((key, _))) => self.shape(key.span, format!("`{first}` and `{second}` are two assertions")),
            (None, None) => self.shape(owner.span, format!("`{}` needs `{first}` or `{second}`", owner.name)),
            (one, other) => return one.or(other),
        }
        None
    }

    fn at(&mut self, key: &Key, node: &Node, given: &mut Given<'_>) -> Option<Expectation> {
        let path = self.path(key, node);
        let (key, node) = self.one_of(key, given, ["equals", "contains"])?;
        let test = match key.name.as_str() {
            "equals" => Predicate::Equals(node.to_value()),
            _ => Predicate::Contains(self.string(key, node)?),
        };
        Some(Expectation::At(path?, test))
    }

    fn path(&mut self, key: &Key, node: &Node) -> Option<Path> {
        let text = self.string(key, node)?;
        let path = match Path::parse(&text) {
            Ok(path) => path,
            Err(fault) => {
                let span = locate(self.file.text(), node.span, &text, &fault.at);
                self.fault(Code::ScenarioPath, span, fault.message);
                return None;
            }
        };
        let names: Vec<&str> = path.names().collect();
        match names.as_slice() {
            ["steps", role, ..] => {
                self.role(role, node.place(key.span));
            }
            [first, ..] if !FACTS.contains(first) => {
                let message = format!("a run has no `{}`", excerpt(first));
                self.not_among(Code::ScenarioPath, node.place(key.span), message, first, FACTS.into_iter());
            }
            _ => {}
        }
        Some(path)
    }

    fn text_contains(&mut self, key: &Key, node: &Node, given: &mut Given<'_>) -> Option<Expectation> {
        let name = self.string(key, node)?;
        let selector = self.selector(&name, node.place(key.span));
        let visit = given.remove("visit").and_then(|(key, node)| {
            let visit = self.count(key, node)?;
            if visit == 0 {
                self.shape(node.place(key.span), "visits count from 1");
            }
            Some(visit)
        });
        let (key, node) = self.one_of(key, given, ["request_contains", "answer_contains"])?;
        let direction = if key.name == "request_contains" { Direction::Request } else { Direction::Answer };
        let contains = self.string(key, node)?;
        Some(Expectation::TextContains { selector: selector?, visit, direction, contains })
    }

    fn selector(&mut self, name: &str, place: Span) -> Option<RoleSelector> {
        if !self.role(name, place) {
            return None;
        }
        let role = RoleName::new(role_of(name)).ok()?;
        Some(RoleSelector { lane: (role.as_str() != name).then(|| name.to_owned()), role })
    }

    fn calls(&mut self, key: &Key, node: &Node) -> BTreeMap<RoleSelector, u64> {
        let mut calls = BTreeMap::new();
        for (key, node) in self.map(key, node) {
            let count = self.count(key, node);
            if let (Some(selector), Some(count)) = (self.selector(&key.name, key.span), count) {
                calls.insert(selector, count);
            }
        }
        calls
    }

    fn tool_calls(&mut self, key: &Key, node: &Node) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for (key, node) in self.map(key, node) {
            self.tool(key);
            calls.extend(self.count(key, node).map(|count| (key.name.clone(), count)));
        }
        calls
    }

    fn money(&mut self, key: &Key, node: &Node) -> Option<f64> {
        self.typed(key, node, "an amount of US dollars", |kind| match kind {
            Kind::Int(amount) => u32::try_from(*amount).ok().map(f64::from),
            Kind::Float(amount) if *amount >= 0.0 => Some(*amount),
            _ => None,
        })
    }
}

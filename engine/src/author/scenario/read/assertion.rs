//! Reading what stands under `assert`.

use std::collections::BTreeMap;

use rondo_agent_kit::tool::means;
use rondo_protocol::diagnostic::{Code, Span};
use rondo_protocol::id::RoleName;
use rondo_protocol::source::{Key, Kind, Node, excerpt, locate};

use super::{Reader, role_of, tools_of};
use crate::author::scenario::expect::{Direction, Expectation, Seat, Test};
use crate::author::scenario::path::Path;

const KEYS: [&str; 14] = [
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

/// What a path may begin with.
const FACTS: [&str; 8] = ["outcome", "exit", "reason", "result", "route", "said", "input", "steps"];

/// The keys of one assertion, as they stand in the file.
#[derive(Default)]
struct Given<'n> {
    all: BTreeMap<&'n str, (&'n Key, &'n Node)>,
}

impl<'n> Given<'n> {
    fn take(&mut self, name: &str) -> Option<(&'n Key, &'n Node)> {
        self.all.remove(name)
    }
}

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
                    given.all.insert(key.name.as_str(), (key, node));
                } else {
                    self.unknown(key, &KEYS);
                }
            }
            if given.all.is_empty() {
                if members.is_empty() {
                    self.shape(place, "the assertion says nothing");
                }
                continue;
            }
            let before = self.faults.len();
            let expectation = self.assertion(&mut given);
            if expectation.is_none() && self.faults.len() == before {
                self.shape(
                    place,
                    "the assertion looks at nothing: give it `path`, `role`, `calls`, `said` or another key",
                );
            }
            for (key, _) in given.all.into_values() {
                self.shape(
                    key.span,
                    format!("`{}` does not belong to this assertion; make it one of its own", key.name),
                );
            }
            self.keep(expectation, place);
        }
    }

    fn assertion(&mut self, given: &mut Given<'_>) -> Option<Expectation> {
        if let Some((key, node)) = given.take("path") {
            return self.at(key, node, given);
        }
        if let Some((key, node)) = given.take("role") {
            return self.told(key, node, given);
        }
        if let Some((key, node)) = given.take("said") {
            return self.string(key, node).map(Expectation::Said);
        }
        if let Some((key, node)) = given.take("reason") {
            return self.string(key, node).map(Expectation::Reason);
        }
        if let Some((key, node)) = given.take("calls") {
            return Some(Expectation::Calls(self.calls(key, node)));
        }
        if let Some((key, node)) = given.take("model_calls") {
            return self.count(key, node).map(Expectation::ModelCalls);
        }
        if let Some((key, node)) = given.take("tool_calls") {
            return Some(Expectation::ToolCalls(self.tool_calls(key, node)));
        }
        if let Some((key, node)) = given.take("cost_usd_under") {
            return self.money(key, node).map(Expectation::CostUnder);
        }
        let (key, node) = given.take("prompt_tokens_under")?;
        self.count(key, node).map(Expectation::PromptTokensUnder)
    }

    fn at(&mut self, key: &Key, node: &Node, given: &mut Given<'_>) -> Option<Expectation> {
        let path = self.path(key, node);
        let test = match (given.take("equals"), given.take("contains")) {
            (Some((_, value)), None) => Some(Test::Equals(value.to_value())),
            (None, Some((key, node))) => self.string(key, node).map(Test::Contains),
            (Some(_), Some((key, _))) => {
                self.shape(key.span, "`equals` and `contains` are two assertions");
                None
            }
            (None, None) => {
                self.shape(key.span, "beside `path` stands `equals` or `contains`");
                None
            }
        };
        Some(Expectation::At(path?, test?))
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

    fn told(&mut self, key: &Key, node: &Node, given: &mut Given<'_>) -> Option<Expectation> {
        let name = self.string(key, node)?;
        let seat = self.seat(&name, node.place(key.span));
        let visit = given.take("visit").and_then(|(key, node)| {
            let visit = self.count(key, node)?;
            if visit == 0 {
                self.shape(node.place(key.span), "visits count from 1");
            }
            Some(visit)
        });
        let text = match (given.take("request_contains"), given.take("answer_contains")) {
            (Some((key, node)), None) => self.string(key, node).map(|text| (Direction::Request, text)),
            (None, Some((key, node))) => self.string(key, node).map(|text| (Direction::Answer, text)),
            (Some(_), Some((key, _))) => {
                self.shape(key.span, "`request_contains` and `answer_contains` are two assertions");
                None
            }
            (None, None) => {
                self.shape(key.span, "beside `role` stands `request_contains` or `answer_contains`");
                None
            }
        };
        let (direction, contains) = text?;
        Some(Expectation::Told { seat: seat?, visit, direction, contains })
    }

    fn seat(&mut self, name: &str, place: Span) -> Option<Seat> {
        if !self.role(name, place) {
            return None;
        }
        let role = RoleName::new(role_of(name)).ok()?;
        Some(Seat { lane: (role.as_str() != name).then(|| name.to_owned()), role })
    }

    fn calls(&mut self, key: &Key, node: &Node) -> BTreeMap<Seat, u64> {
        let mut calls = BTreeMap::new();
        for (key, node) in self.map(key, node) {
            let count = self.count(key, node);
            if let (Some(seat), Some(count)) = (self.seat(&key.name, key.span), count) {
                calls.insert(seat, count);
            }
        }
        calls
    }

    fn tool_calls(&mut self, key: &Key, node: &Node) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for (key, node) in self.map(key, node) {
            let named: Vec<&str> = tools_of(self.definition).collect();
            if !named.iter().any(|pattern| means(pattern, &key.name)) {
                let message = format!("no role of the workflow has the tool `{}`", excerpt(&key.name));
                self.not_among(Code::ScenarioRole, key.span, message, &key.name, named.into_iter());
            }
            calls.extend(self.count(key, node).map(|count| (key.name.clone(), count)));
        }
        calls
    }

    fn money(&mut self, key: &Key, node: &Node) -> Option<f64> {
        let amount = match node.kind {
            Kind::Int(amount) => u32::try_from(amount).ok().map(f64::from),
            Kind::Float(amount) if amount >= 0.0 => Some(amount),
            _ => None,
        };
        if amount.is_none() {
            self.shape(node.place(key.span), format!("`{}` must be an amount of US dollars", key.name));
        }
        amount
    }
}

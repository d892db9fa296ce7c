//! The expectations of a scenario, checked against a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Message;
use rondo_protocol::object::KnownCost;

use super::path::{self, Path};
use super::play::{RunResult, Step};
use super::report::Failure;

/// How many characters of a value a report shows.
const SHOWN: usize = 400;
/// How many differences of one expectation a report shows.
const MAX_DIFFERENCES: usize = 50;

/// A location in the scenario's file, both from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Location {
    pub line: u32,
    pub column: u32,
}

/// The expectations of a scenario, each with its location, in file order.
pub type Expectations = Vec<(Expectation, Location)>;

#[derive(Debug, Clone, PartialEq)]
pub enum Expectation {
    /// The steps, as `role.status`, or `role[0].status` in a lane.
    Route(Vec<String>),
    /// `done`, `failed` or `stopped`.
    Outcome(String),
    Exit(u8),
    Result(Value),
    Reason(String),
    /// A value of the run.
    At(Path, Predicate),
    Said(String),
    /// A text in a role's requests or answers, in one visit or in any.
    TextContains {
        selector: RoleSelector,
        visit: Option<u64>,
        direction: Direction,
        contains: String,
    },
    Calls(BTreeMap<RoleSelector, u64>),
    ModelCalls(u64),
    ToolCalls(BTreeMap<String, u64>),
    /// US dollars.
    CostUnder(f64),
    PromptTokensUnder(u64),
}

/// A role, in all lanes or in one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleSelector {
    pub role: RoleName,
    /// As written if it selects a lane: `role[2]` is each lane of that index, `a[0]/role[2]` a single lane.
    pub lane: Option<String>,
}

impl RoleSelector {
    pub fn is(&self, role: &RoleName, lane: &LanePath) -> bool {
        let is_index = |written: &str| lane.last_index().is_some_and(|index| written == format!("{role}[{index}]"));
        let is_lane = |written: &String| lane.role_in_lane(role) == *written || is_index(written);
        self.role == *role && self.lane.as_ref().is_none_or(is_lane)
    }
}

impl fmt::Display for RoleSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.lane.as_deref().unwrap_or(self.role.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    Equals(Value),
    /// It is a text that contains this, or a list with this item.
    Contains(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Request,
    Answer,
}

/// The expectations that `run` does not meet, in file order. `file` is the scenario's.
pub fn failures(expectations: &Expectations, file: &str, run: &RunResult) -> Vec<Failure> {
    let facts = run.facts();
    let failed = expectations.iter().flat_map(|(expectation, location)| {
        expectation.mismatches(run, &facts).into_iter().map(|failure| failure.at(file, *location))
    });
    failed.collect()
}

impl Failure {
    pub(super) fn new(what: impl Into<String>, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        let (what, expected, actual) = (what.into(), expected.into(), actual.into());
        Self { what, expected, actual, ..Self::default() }
    }

    pub(super) fn at(self, file: &str, Location { line, column }: Location) -> Self {
        Self { file: file.to_owned(), line, column, ..self }
    }
}

impl Expectation {
    /// Whether it is about how the run ends, so that a stopped run may be expected.
    pub fn is_about_end(&self) -> bool {
        matches!(self, Self::Outcome(_) | Self::Exit(_))
    }

    /// Every way in which the run does not meet it.
    fn mismatches(&self, played: &RunResult, facts: &Value) -> Vec<Failure> {
        let single = match self {
            Self::Result(result) => return differences("$.result", Some(result), Some(&played.trace.result)),
            Self::At(path, test) => return test.mismatches(path, path.find(facts)),
            Self::Calls(seats) => {
                let of_seat = |(selector, count): (&RoleSelector, &u64)| {
                    let sent = played.requests.get(&selector.role).into_iter().flat_map(|requests| &requests.sent);
                    let made = sent.filter(|request| selector.is(&selector.role, &request.lane)).count();
                    unequal(&format!("model calls of {selector}"), &count.to_string(), &made.to_string())
                };
                return seats.iter().filter_map(of_seat).collect();
            }
            Self::ToolCalls(tools) => {
                let of_tool = |(tool, count): (&String, &u64)| {
                    let made = played.tool_calls.get(tool).copied().unwrap_or(0);
                    unequal(&format!("calls of {tool}"), &count.to_string(), &made.to_string())
                };
                return tools.iter().filter_map(of_tool).collect();
            }
            Self::Route(route) => {
                let actual: Vec<String> = played.trace.route.iter().map(|stop| stop.step.clone()).collect();
                unequal("route", &route.join(", "), &actual.join(", "))
            }
            Self::Outcome(outcome) => {
                let stopped = played.fault.as_ref().map(|fault| format!(": {}: {}", fault.code, fault.message));
                unequal("outcome", outcome, &played.trace.outcome).map(|failure| Failure {
                    actual: cut(&format!("{}{}", failure.actual, stopped.unwrap_or_default())),
                    ..failure
                })
            }
            Self::Exit(exit) => unequal("exit", &exit.to_string(), &played.exit.to_string()),
            Self::Reason(reason) => unequal("reason", reason, played.trace.reason.as_deref().unwrap_or_default()),
            Self::Said(words) => {
                let is_said = played.trace.said.iter().any(|line| line.contains(words.as_str()));
                let said = || cut(&format!("{:?}", played.trace.said));
                (!is_said).then(|| Failure::new("said", format!("a line with {words:?}"), said()))
            }
            Self::TextContains { selector, visit, direction, contains } => {
                text_contains(played, selector, *visit, *direction, contains)
            }
            Self::ModelCalls(count) => {
                let made: usize = played.requests.values().map(|requests| requests.sent.len()).sum();
                unequal("model calls", &count.to_string(), &made.to_string())
            }
            Self::CostUnder(most) => cost_under(*most, played.cost),
            Self::PromptTokensUnder(most) => {
                let tokens = played.prompt_tokens();
                (tokens >= *most)
                    .then(|| Failure::new("prompt tokens, estimated", format!("under {most}"), tokens.to_string()))
            }
        };
        single.into_iter().collect()
    }
}

/// A bound on the cost is not met while the price of a call is unknown.
fn cost_under(most: f64, cost: KnownCost) -> Option<Failure> {
    let actual = match (cost.usd(), cost.unpriced_calls()) {
        (Some(usd), 0) if usd < most => return None,
        (Some(usd), 0) => format!("{usd} USD"),
        (Some(usd), unpriced) => format!("at least {usd} USD; calls without a known price: {unpriced}"),
        (None, _) => "no cost is known; a recording with prices tells it, a script does not".to_owned(),
    };
    Some(Failure::new("cost", format!("under {most} USD"), actual))
}

fn unequal(what: &str, expected: &str, actual: &str) -> Option<Failure> {
    (expected != actual).then(|| Failure::new(what, cut(expected), cut(actual)))
}

impl Predicate {
    fn mismatches(&self, path: &Path, found: Option<&Value>) -> Vec<Failure> {
        match self {
            Self::Equals(value) => differences(&path.to_string(), Some(value), found),
            Self::Contains(words) => {
                let holds = match found {
                    Some(Value::Str(text)) => text.contains(words.as_str()),
                    Some(Value::List(items)) => items.iter().any(|item| item.as_str() == Some(words)),
                    _ => false,
                };
                let expected = cut(&format!("something with {words:?}"));
                let failure = || Failure::new(path.to_string(), expected, shown(found, "nothing"));
                (!holds).then(failure).into_iter().collect()
            }
        }
    }
}

fn text_contains(
    played: &RunResult,
    of: &RoleSelector,
    visit: Option<u64>,
    direction: Direction,
    contains: &str,
) -> Option<Failure> {
    let is_meant = |made: u64| visit.is_none_or(|visit| visit == made);
    let says = |message: &Message| message.text().contains(contains);
    let (holds, count) = match direction {
        Direction::Request => {
            let sent = played.requests.get(&of.role).map(|requests| requests.sent.as_slice()).unwrap_or_default();
            let mut sent = sent.iter().filter(|request| of.is(&of.role, &request.lane) && is_meant(request.visit));
            let count = sent.clone().count();
            let holds = sent.any(|request| {
                request.head.system.contains(contains) || request.messages.messages().into_iter().any(says)
            });
            (holds, count)
        }
        Direction::Answer => {
            let is_its = |step: &&Step| of.is(&step.committed.role, &step.committed.lane) && is_meant(step.visit);
            let steps = played.steps.iter().filter(is_its);
            (steps.clone().any(|step| step.committed.answer.contains(contains)), steps.count())
        }
    };
    let word = match direction {
        Direction::Request => "request",
        Direction::Answer => "answer",
    };
    let of_visit = visit.map_or_else(String::new, |visit| format!(" in visit {visit}"));
    let actual = match count {
        0 => format!("no {word}"),
        1 => format!("1 {word} without it"),
        count => format!("{count} {word}s without it"),
    };
    let (what, expected) = (format!("{word} of {of}{of_visit}"), format!("something with {:?}", cut(contains)));
    (!holds).then(|| Failure::new(what, expected, actual))
}

/// Every place where two values differ, with both values there; `at` is the path of the whole values. Of very many,
/// the last one says how many are not shown.
fn differences(at: &str, expected: Option<&Value>, actual: Option<&Value>) -> Vec<Failure> {
    let mut found = Vec::new();
    collect_differences(&mut found, at.to_owned(), expected, actual);
    let unshown = found.len().saturating_sub(MAX_DIFFERENCES);
    if unshown > 0 {
        found.truncate(MAX_DIFFERENCES);
        let what = format!("{unshown} more differences in {at}");
        found.push(Failure::new(what, shown(expected, ""), shown(actual, "")));
    }
    found
}

fn collect_differences(found: &mut Vec<Failure>, at: String, expected: Option<&Value>, actual: Option<&Value>) {
    match (expected, actual) {
        (expected, actual) if expected == actual => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                collect_differences(found, path::member(&at, name), old.get(name), new.get(name));
            }
        }
        (Some(Value::List(old)), Some(Value::List(new))) => {
            for index in 0..old.len().max(new.len()) {
                collect_differences(found, format!("{at}[{index}]"), old.get(index), new.get(index));
            }
        }
        (expected, actual) => {
            found.push(Failure::new(at, shown(expected, "nothing here"), shown(actual, "it is missing")));
        }
    }
}

fn shown(value: Option<&Value>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), |value| cut(&value.to_text()))
}

fn cut(text: &str) -> String {
    crate::cut(text, SHOWN, " ...")
}

#[cfg(test)]
mod tests {
    use rondo_protocol::canonical;

    use super::*;

    fn told(expected: &Value, actual: &Value) -> Vec<String> {
        let all = differences("$.result", Some(expected), Some(actual));
        all.into_iter().map(|Failure { what, expected, actual, .. }| format!("{what}: {expected} | {actual}")).collect()
    }

    #[test]
    fn every_difference_of_a_value_is_told_at_its_path() {
        let expected = canonical::parse(br#"{"title":"A","count":1,"gone":true,"list":[1,2,3],"deep":{"b c":null}}"#);
        let actual = canonical::parse(br#"{"title":"B","count":1,"new":[],"list":[1,5],"deep":{"b c":0}}"#);
        assert_eq!(
            told(&expected.unwrap(), &actual.unwrap()),
            [
                "$.result.deep['b c']: null | 0",
                "$.result.gone: true | it is missing",
                "$.result.list[1]: 2 | 5",
                "$.result.list[2]: 3 | it is missing",
                "$.result.new: nothing here | []",
                "$.result.title: \"A\" | \"B\"",
            ]
        );
    }

    #[test]
    fn very_many_differences_are_counted() {
        let list = |item: i64| Value::List(vec![Value::Int(item.into()); MAX_DIFFERENCES + 7]);
        let told = told(&list(1), &list(2));
        assert_eq!(told.len(), MAX_DIFFERENCES + 1);
        assert!(told.last().unwrap().starts_with("7 more differences in $.result: [1,1,"), "{:?}", told.last());
    }

    #[test]
    fn a_cost_that_lacks_calls_is_under_no_bound() {
        let told = |sum, unpriced| cost_under(0.5, KnownCost::new(sum, unpriced)).map(|failure| failure.actual);
        assert_eq!(told(Some(0.25), 0), None);
        assert_eq!(told(Some(0.5), 0).unwrap(), "0.5 USD");
        assert_eq!(told(Some(0.25), 2).unwrap(), "at least 0.25 USD; calls without a known price: 2");
        // A hook's free answers alone.
        for nothing_known in [told(None, 1), told(Some(0.0), 1)] {
            assert!(nothing_known.unwrap().starts_with("no cost is known"));
        }
    }
}

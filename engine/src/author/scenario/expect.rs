//! The expectations of a scenario, checked against a run.

use std::collections::BTreeMap;
use std::fmt;

use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Message;

use super::path::Path;
use super::play::{RunResult, Step};
use super::report::Failure;

/// How many characters of a value a report shows.
const SHOWN: usize = 400;

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
    /// The exit code that `rondo run` would have.
    Exit(u8),
    Result(Value),
    Reason(String),
    /// A value of the run.
    At(Path, Predicate),
    /// A line for the user contains this text.
    Said(String),
    /// A text in a role's requests or answers, in one visit or in any.
    TextContains {
        selector: RoleSelector,
        visit: Option<u64>,
        direction: Direction,
        contains: String,
    },
    /// The number of model replies to each of these roles.
    Calls(BTreeMap<RoleSelector, u64>),
    ModelCalls(u64),
    /// The number of calls of each of these tools.
    ToolCalls(BTreeMap<String, u64>),
    /// US dollars.
    CostUnder(f64),
    /// Estimated tokens of all requests.
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
    /// Whether it matches a role in a lane.
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
    /// To the model.
    Request,
    /// From the model.
    Answer,
}

/// The expectations that `run` does not meet, in file order. `file` is the scenario's.
pub fn failures(expectations: &Expectations, file: &str, run: &RunResult) -> Vec<Failure> {
    let facts = run.facts();
    let failed = expectations.iter().filter_map(|(expectation, Location { line, column })| {
        let Mismatch { what, expected, actual } = expectation.mismatch(run, &facts)?;
        Some(Failure { file: file.to_owned(), line: *line, column: *column, what, expected, actual })
    });
    failed.collect()
}

struct Mismatch {
    what: String,
    expected: String,
    actual: String,
}

impl Expectation {
    /// Whether it is about how the run ends, so that a stopped run may be expected.
    pub fn is_about_end(&self) -> bool {
        matches!(self, Self::Outcome(_) | Self::Exit(_))
    }

    fn mismatch(&self, played: &RunResult, facts: &Value) -> Option<Mismatch> {
        let differ = |what: &str, expected: String, actual: String| {
            (expected != actual).then(|| Mismatch {
                what: what.to_owned(),
                expected: cut(&expected),
                actual: cut(&actual),
            })
        };
        match self {
            Self::Route(route) => {
                let actual: Vec<String> = played.trace.route.iter().map(|stop| stop.step.clone()).collect();
                differ("route", route.join(", "), actual.join(", "))
            }
            Self::Outcome(outcome) => {
                let stopped = played.fault.as_ref().map(|fault| format!(": {}: {}", fault.code, fault.message));
                let mismatch = differ("outcome", outcome.clone(), played.trace.outcome.clone())?;
                Some(Mismatch {
                    actual: cut(&format!("{}{}", mismatch.actual, stopped.unwrap_or_default())),
                    ..mismatch
                })
            }
            Self::Exit(exit) => differ("exit", exit.to_string(), played.exit.to_string()),
            Self::Result(result) => {
                let (at, expected, actual) = parted("$.result".to_owned(), Some(result), Some(&played.trace.result))?;
                differ(&at, expected, actual)
            }
            Self::Reason(reason) => differ("reason", reason.clone(), played.trace.reason.clone().unwrap_or_default()),
            Self::At(path, test) => test.mismatch(path, path.find(facts)),
            Self::Said(words) => {
                let is_said = played.trace.said.iter().any(|line| line.contains(words.as_str()));
                (!is_said).then(|| Mismatch {
                    what: "said".to_owned(),
                    expected: format!("a line with {words:?}"),
                    actual: cut(&format!("{:?}", played.trace.said)),
                })
            }
            Self::TextContains { selector, visit, direction, contains } => {
                text_contains(played, selector, *visit, *direction, contains)
            }
            Self::Calls(seats) => seats.iter().find_map(|(selector, count)| {
                let sent = played.requests.get(&selector.role).into_iter().flat_map(|requests| &requests.sent);
                let made = sent.filter(|request| selector.is(&selector.role, &request.lane)).count();
                differ(&format!("model calls of {selector}"), count.to_string(), made.to_string())
            }),
            Self::ModelCalls(count) => {
                let made: usize = played.requests.values().map(|requests| requests.sent.len()).sum();
                differ("model calls", count.to_string(), made.to_string())
            }
            Self::ToolCalls(tools) => tools.iter().find_map(|(tool, count)| {
                let made = played.tool_calls.get(tool).copied().unwrap_or(0);
                differ(&format!("calls of {tool}"), count.to_string(), made.to_string())
            }),
            Self::CostUnder(most) => {
                let actual = match played.cost_usd {
                    Some(cost) if cost < *most => return None,
                    Some(cost) => format!("{cost} USD"),
                    None => "no cost is known; a recording with prices tells it, a script does not".to_owned(),
                };
                Some(Mismatch { what: "cost".to_owned(), expected: format!("under {most} USD"), actual })
            }
            Self::PromptTokensUnder(most) => {
                let tokens = played.prompt_tokens();
                (tokens >= *most).then(|| Mismatch {
                    what: "prompt tokens, estimated".to_owned(),
                    expected: format!("under {most}"),
                    actual: tokens.to_string(),
                })
            }
        }
    }
}

impl Predicate {
    fn mismatch(&self, path: &Path, found: Option<&Value>) -> Option<Mismatch> {
        let actual = || found.map_or_else(|| "nothing".to_owned(), Value::to_text);
        let (holds, expected) = match self {
            Self::Equals(value) => (found == Some(value), value.to_text()),
            Self::Contains(words) => {
                let holds = match found {
                    Some(Value::Str(text)) => text.contains(words.as_str()),
                    Some(Value::List(items)) => items.iter().any(|item| item.as_str() == Some(words)),
                    _ => false,
                };
                (holds, format!("something with {words:?}"))
            }
        };
        (!holds).then(|| Mismatch { what: path.to_string(), expected: cut(&expected), actual: cut(&actual()) })
    }
}

fn text_contains(
    played: &RunResult,
    of: &RoleSelector,
    visit: Option<u64>,
    direction: Direction,
    contains: &str,
) -> Option<Mismatch> {
    let is_meant = |made: u64| visit.is_none_or(|visit| visit == made);
    let says = |message: &Message| message.text().contains(contains);
    let (holds, count) = match direction {
        Direction::Request => {
            let sent = played.requests.get(&of.role).map(|requests| requests.sent.as_slice()).unwrap_or_default();
            let mut sent = sent.iter().filter(|request| of.is(&of.role, &request.lane) && is_meant(request.visit));
            let count = sent.clone().count();
            let holds = sent.any(|request| {
                request.head.system.contains(contains) || request.messages.iter().any(|(message, _)| says(message))
            });
            (holds, count)
        }
        Direction::Answer => {
            let is_its = |step: &&Step| of.is(&step.role, &step.lane) && is_meant(step.visit);
            let steps = played.steps.iter().filter(is_its);
            (steps.clone().any(|step| step.answer.contains(contains)), steps.count())
        }
    };
    let word = match direction {
        Direction::Request => "request",
        Direction::Answer => "answer",
    };
    let of_visit = visit.map_or_else(String::new, |visit| format!(" in visit {visit}"));
    (!holds).then(|| Mismatch {
        what: format!("{word} of {of}{of_visit}"),
        expected: format!("something with {:?}", cut(contains)),
        actual: match count {
            0 => format!("no {word}"),
            1 => format!("1 {word} without it"),
            count => format!("{count} {word}s without it"),
        },
    })
}

/// The first place where two values differ, with both values there.
fn parted(at: String, expected: Option<&Value>, actual: Option<&Value>) -> Option<(String, String, String)> {
    match (expected, actual) {
        (expected, actual) if expected == actual => None,
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.into_iter().find_map(|name| parted(format!("{at}.{name}"), old.get(name), new.get(name)))
        }
        (Some(Value::List(old)), Some(Value::List(new))) => (0..old.len().max(new.len()))
            .find_map(|index| parted(format!("{at}[{index}]"), old.get(index), new.get(index))),
        (expected, actual) => {
            let text = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_text);
            Some((at, text(expected), text(actual)))
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{} ...", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

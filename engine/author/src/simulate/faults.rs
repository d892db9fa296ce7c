//! Reports the findings of a simulation with their places in the file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::id::{FieldName, RoleName, Status};
use rondo_protocol::workflow::Checked;
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::template::Cause;

use super::answers::AnswerSet;
use super::walk::{Exploration, Failure, FailureCause};
use super::{Coverage, Worst};
use crate::cut;

const SHOWN_TEXT: usize = 24;
const SHOWN_ITEMS: usize = 3;
const SHOWN_ANSWER: usize = 160;
const SHOWN_STEPS: usize = 12;
/// For how many steps before the last the fields are shown.
const SHOWN_FIELDS: usize = 2;

/// Faults and warnings, in source order.
pub(super) fn diagnostics(
    checked: &Checked,
    found: &Exploration,
    answer_set: &AnswerSet,
    unmade_inputs: &[FieldName],
    unweighed: &BTreeSet<String>,
    (coverage, worst): (&Coverage, &Worst),
) -> Vec<Diagnostic> {
    let places = &checked.places;
    let mut diagnostics: Vec<Diagnostic> = found.faults.values().map(|fault| failed(checked, fault)).collect();
    // If the walk was cut, unreached parts mean nothing.
    let never = if coverage.is_whole { coverage.never.as_slice() } else { &[] };
    for part in never {
        let hint = "its condition never holds, an entry before it always does, or what leads to it fails or is cut";
        let message = format!("no answer that was tried leads to `{part}`");
        diagnostics.push(places.key_fault(Code::EdgeNeverTaken, part, message).with_hint(hint));
    }
    let output = |role: &RoleName, status: &Status| key(&key(&key("roles", role.as_str()), "output"), status.as_str());
    let outputs = answer_set.unmade.iter();
    let outputs = outputs.map(|(role, status, field)| (key(&output(role, status), field.as_str()), field));
    let inputs = unmade_inputs.iter().map(|field| (key("input", field.as_str()), field));
    for (part, field) in outputs.chain(inputs) {
        let message = format!("no value could be made for `{field}`: what depends on it is not simulated");
        let hint = "check its bounds and its pattern, or list examples by `enum`";
        diagnostics.push(places.key_fault(Code::FieldWithoutValue, &part, message).with_hint(hint));
    }
    for (role, status) in &answer_set.cut {
        let message = format!("`{role}.{status}` has more combinations of values than are tried");
        diagnostics.push(places.key_fault(Code::WalkCut, &output(role, status), message));
    }
    for what in &found.cut {
        let message = format!("the walk was cut at {what}: routes and faults beyond are not known");
        let hint = "a smaller `max`, or an input given by `-i`, makes the walk smaller";
        diagnostics.push(places.key_fault(Code::WalkCut, "graph", message).with_hint(hint));
    }
    for what in unweighed {
        let message = format!("the routes were cut at {what}: those beyond are not weighed");
        let hint = "a smaller `max` makes fewer of them";
        diagnostics.push(places.key_fault(Code::WalkCut, "graph", message).with_hint(hint));
    }
    diagnostics.extend(limits(checked, found, worst));
    places.sort(&mut diagnostics);
    diagnostics.dedup();
    diagnostics
}

fn failed(checked: &Checked, found: &Failure) -> Diagnostic {
    let Failure { part, range, why, route, input } = found;
    let mut message = match why {
        FailureCause::Template(cause) => format!("`{part}` fails: {cause}"),
        FailureCause::NotAList(found) => format!("`{part}` fails: it is a {found}, not a list"),
        FailureCause::NoChoice(found) => format!("`{part}` fails: {found}"),
    };
    // Writing to a `String` cannot fail.
    let _ = match route.split_last() {
        None => write!(message, ", with the input {}", shown(input)),
        Some(((last, given), before)) => {
            let left_out = before.len().saturating_sub(SHOWN_STEPS);
            // The newest steps may contain what the template cannot handle; earlier ones only lead there.
            let bare = before.len().saturating_sub(SHOWN_FIELDS);
            let step_text = |(at, (step, given)): (usize, &(Arc<str>, Value))| {
                if at < bare { step.to_string() } else { format!("{step} {}", shown(given)) }
            };
            let steps = before.iter().enumerate().skip(left_out).map(step_text);
            let steps: Vec<String> = (left_out > 0).then(|| "..".to_owned()).into_iter().chain(steps).collect();
            let behind = if steps.is_empty() { String::new() } else { format!(", after {}", steps.join(" -> ")) };
            write!(message, ", when {last} comes with {}{behind}", shown(given))
        }
    };
    let cause = match why {
        FailureCause::Template(cause) => cause,
        FailureCause::NotAList(_) => {
            let hint = "declare it as a list, or give it a `default([])`";
            return checked.places.fault(Code::RouteFails, part, None, message).with_hint(hint);
        }
        FailureCause::NoChoice(_) => {
            let hint = "let it choose in every case, by a status without `when` or an `else`, or lead on by `on_error`";
            return checked.places.key_fault(Code::RouteFails, part, message).with_hint(hint);
        }
    };
    let hint = match cause {
        Cause::DivisionByZero => "ask for the number first by `if`, or give its field a `minimum`",
        Cause::NumberRange => "give the numbers a `minimum` and a `maximum`",
        Cause::NonePrinted(_) | Cause::BreaksOff(_) => {
            "`default` says what stands for it, `if` asks whether it is there; `minItems: 1` forbids an empty list"
        }
        Cause::TooDeep => "take a part of it, or make a text of it by `tojson`",
        Cause::TooLarge { .. } | Cause::TooLargeBy { .. } | Cause::TooMuchWork => {
            "`truncate` it, or give the field a `maxLength` or `maxItems`"
        }
        Cause::NotPrintable(_) | Cause::Operand { .. } | Cause::NotOrdered { .. } | Cause::NotACondition(_) => {
            "declare the type of the field more narrowly"
        }
    };
    checked.places.fault(Code::RouteFails, part, Some(range.clone()), message).with_hint(hint)
}

fn limits(checked: &Checked, exploration: &Exploration, worst: &Worst) -> Vec<Diagnostic> {
    let limits = &checked.policy.limits;
    let mut found = Vec::new();
    for (message, role) in &exploration.limits {
        let part = match role {
            Some(role) => {
                let own = key(&key("roles", role.as_str()), "limits");
                key(if checked.places.has(&own) { &own } else { "limits" }, "visits")
            }
            None => "limits.steps".to_owned(),
        };
        let message = format!("a route ends there: {message}");
        let hint = "raise it, lower a `max`, or lead it on by `on_limit`";
        found.push(checked.places.fault(Code::LimitBeforeEnd, &part, None, message).with_hint(hint));
    }
    if worst.steps > limits.steps {
        let (most, limit) = (worst.steps, limits.steps);
        let message = format!("the longest route has {most} steps, and `limits.steps` cuts in after {limit}");
        found.push(checked.places.fault(Code::LimitBeforeEnd, "limits.steps", None, message));
    }
    let tokens = worst.costliest.as_ref().and_then(|route| Some(route.prompt_tokens()? + route.output_tokens()?));
    if let (Some(tokens), Some(limit)) = (tokens, limits.tokens)
        && tokens > limit
    {
        let message = format!("the costliest route has about {tokens} tokens, and `limits.tokens` cuts in at {limit}");
        found.push(checked.places.fault(Code::LimitBeforeEnd, "limits.tokens", None, message));
    }
    found
}

/// An answer in a few words: long texts and lists are replaced by their size.
fn shown(value: &Value) -> String {
    cut(&shortened(value).to_text(), SHOWN_ANSWER, "...")
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::Str(text) if text.chars().count() > SHOWN_TEXT => {
            Value::from(format!("({} characters)", text.chars().count()))
        }
        Value::List(items) => {
            let mut shown: Vec<Value> = items.iter().take(SHOWN_ITEMS).map(shortened).collect();
            if items.len() > SHOWN_ITEMS {
                shown.push(Value::from(format!("({} more)", items.len() - SHOWN_ITEMS)));
            }
            Value::List(shown)
        }
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), shortened(member))).collect(),
        other => other.clone(),
    }
}

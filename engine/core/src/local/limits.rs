//! Limits from the command line: those of a new thread, and those raised when a stopped one is resumed.

use rondo_protocol::Value;
use rondo_protocol::diagnostic::did_you_mean;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Limits, Policy};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::grant::Ceilings;
use crate::store::Raised;

/// A limit to raise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaisedLimit {
    /// Its name in the policy, such as `steps` or `wall_time_ms`.
    pub key: String,
    /// The new value, a number.
    pub value: Value,
}

/// Limits to raise as a thread is resumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RaisedLimits {
    /// The thread that they are of: the resumed one, unless one of its descendants is named.
    pub thread: Option<ThreadId>,
    /// The limits.
    pub limits: Vec<RaisedLimit>,
}

impl RaisedLimits {
    /// Those of `thread`, which is the resumed one or runs below it.
    pub(super) fn of(&self, thread: &ThreadId, is_resumed: bool) -> &[RaisedLimit] {
        let are_meant = self.thread.as_ref().map_or(is_resumed, |named| named == thread);
        if are_meant { &self.limits } else { &[] }
    }
}

/// The policy with raised limits, and what the thread's row notes of them.
///
/// # Errors
/// If a limit has no such name or value, is not raised by it, or passes the operator's own.
pub(super) fn raise(
    mut policy: Policy,
    raised: &[RaisedLimit],
    ceilings: &Ceilings,
    at_ms: u64,
) -> Result<(Policy, Vec<Raised>), Error> {
    let mut notes = Vec::new();
    for limit @ RaisedLimit { key, value } in raised {
        let refused = |what: String| Error::Limit { key: name(key).to_owned(), what };
        let (old, new) = changed(&policy.limits, limit)?;
        if old.is_null() {
            return Err(refused("the thread has no such limit".to_owned()));
        }
        if number(value) <= number(&old) {
            return Err(refused(format!("it is {} already", old.to_text())));
        }
        let in_force = Value::from_serialize(&ceilings.over(&new))?;
        if in_force.get(key).map(number) < Some(number(value)) {
            return Err(Error::Ceiling { key: name(key).to_owned() });
        }
        policy.limits = new;
        notes.push(Raised { key: key.clone(), old: Some(old.to_text()), new: value.to_text(), at_ms });
    }
    Ok((policy, notes))
}

/// The policy of a thread that starts with other limits than those of its file.
///
/// # Errors
/// If a limit has no such name or value.
pub fn limited(mut policy: Policy, limits: &[RaisedLimit]) -> Result<Policy, Error> {
    for limit in limits {
        policy.limits = changed(&policy.limits, limit)?.1;
    }
    Ok(policy)
}

/// The old value of a limit, and the limits with the new one.
fn changed(limits: &Limits, RaisedLimit { key, value }: &RaisedLimit) -> Result<(Value, Limits), Error> {
    known_limit(key)?;
    let what = format!("{} is not a value of it", value.to_text());
    let unfit = || Error::Limit { key: name(key).to_owned(), what: what.clone() };
    let Value::Object(mut members) = Value::from_serialize(limits)? else { return Err(unfit()) };
    let old = members.insert(key.clone(), value.clone()).unwrap_or(Value::Null);
    if number(value) <= 0.0 {
        return Err(unfit());
    }
    let new = serde_json::from_str(&Value::Object(members).to_text()).map_err(|_| unfit())?;
    Ok((old, new))
}

/// Refuses what is no limit of a thread.
///
/// # Errors
/// [`Error::Limit`], which names those that there are.
pub fn known_limit(key: &str) -> Result<(), Error> {
    let Value::Object(limits) = Value::from_serialize(&Limits::default())? else { return Ok(()) };
    if limits.contains_key(key) {
        return Ok(());
    }
    let names: Vec<&str> = limits.keys().map(|key| name(key)).collect();
    let meant = did_you_mean(key, names.iter().copied()).map_or_else(String::new, |meant| format!("; {meant}"));
    let what = format!("there is no such limit{meant}; limits are {}", names.join(", "));
    Err(Error::Limit { key: key.to_owned(), what })
}

/// A limit as people write it: the unit is a part of the value.
fn name(key: &str) -> &str {
    key.trim_end_matches("_ms")
}

#[expect(clippy::cast_precision_loss, reason = "limits are far below the numbers that a float cannot hold")]
pub(super) fn number(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => 0.0,
    }
}

//! Limits that are raised when a stopped thread is resumed.

use rondo_protocol::Value;
use rondo_protocol::workflow::{Limits, Policy};

use super::Error;
use crate::grant::Ceilings;
use crate::store::Raised;

/// A limit to raise.
#[derive(Debug, Clone, PartialEq)]
pub struct RaisedLimit {
    /// Its name in the policy, such as `steps` or `wall_time_ms`.
    pub key: String,
    /// The new value, a number.
    pub value: Value,
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
    for RaisedLimit { key, value } in raised {
        let refused = |what: String| Error::Limit { key: key.clone(), what };
        let Value::Object(mut limits) = Value::from_serialize(&policy.limits)? else { continue };
        let Some(old) = limits.insert(key.clone(), value.clone()) else {
            return Err(refused("there is no such limit".to_owned()));
        };
        if old.is_null() {
            return Err(refused("the thread has no such limit".to_owned()));
        }
        if number(value) <= number(&old) {
            return Err(refused(format!("it is {} already", old.to_text())));
        }
        let new: Limits = serde_json::from_str(&Value::Object(limits).to_text())
            .map_err(|_| refused(format!("{} is not a value of it", value.to_text())))?;
        let in_force = Value::from_serialize(&ceilings.over(&new))?;
        if in_force.get(key).map(number) < Some(number(value)) {
            return Err(Error::Ceiling { key: key.clone() });
        }
        policy.limits = new;
        notes.push(Raised { key: key.clone(), old: Some(old.to_text()), new: value.to_text(), at_ms });
    }
    Ok((policy, notes))
}

#[expect(clippy::cast_precision_loss, reason = "limits are far below the numbers that a float cannot hold")]
fn number(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => 0.0,
    }
}

//! Arithmetic and order of canonical JSON numbers.
//!
//! Integers are exact within ±(2^64-1), an integral float within that range is an integer, and a result outside the
//! range or not finite is a fault: nothing wraps, saturates or becomes NaN.

use std::cmp::Ordering;

use super::Cause;
use super::expr::{Arithmetic, Rounding};
use crate::canonical::{INTEGER_END, MAX_INTEGER, Value};

pub(super) fn calculate(operator: Arithmetic, left: &Value, right: &Value) -> Result<Value, Cause> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) if is_exact(operator, *left, *right) => integers(operator, *left, *right),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            floats(operator, left.as_f64().unwrap_or(f64::NAN), right.as_f64().unwrap_or(f64::NAN))
        }
        _ => {
            let wrong = if matches!(left, Value::Int(_) | Value::Float(_)) { right } else { left };
            Err(Cause::Operand { operation: operator.symbol(), found: super::kind_name(wrong) })
        }
    }
}

/// The order of two numbers or two texts; `None` for anything else.
pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Float(right)) => Some(order_mixed(*left, *right)),
        (Value::Float(left), Value::Int(right)) => Some(order_mixed(*right, *left).reverse()),
        (Value::Str(left), Value::Str(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

pub(super) fn round(number: &Value, digits: i32, rounding: Rounding) -> Result<Value, Cause> {
    match number {
        Value::Int(_) if digits >= 0 => Ok(number.clone()),
        Value::Int(_) | Value::Float(_) => {
            let scale = 10_f64.powi(digits);
            let scaled = number.as_f64().unwrap_or(f64::NAN) * scale;
            // A number too large to be scaled has no decimals.
            if !scaled.is_finite() {
                return Ok(number.clone());
            }
            let whole = match rounding {
                Rounding::Common => scaled.round(),
                Rounding::Floor => scaled.floor(),
                Rounding::Ceil => scaled.ceil(),
            };
            finite(whole / scale)
        }
        other => Err(Cause::Operand { operation: "round", found: super::kind_name(other) }),
    }
}

/// Whether two integers give an integer, or a fault.
fn is_exact(operator: Arithmetic, left: i128, right: i128) -> bool {
    match operator {
        Arithmetic::Divide => right == 0 || left % right == 0,
        Arithmetic::Power => right >= 0,
        _ => true,
    }
}

fn integers(operator: Arithmetic, left: i128, right: i128) -> Result<Value, Cause> {
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder if right == 0 => {
            return Err(Cause::DivisionByZero);
        }
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::FloorDivide => Some(floor_division(left, right)),
        Arithmetic::Remainder => Some(left - floor_division(left, right) * right),
        Arithmetic::Power => power(left, right),
    };
    result.filter(|number| number.abs() <= MAX_INTEGER).map(Value::Int).ok_or(Cause::NumberRange)
}

/// Both are within ±(2^64-1), so that no step of this can leave `i128`.
fn floor_division(left: i128, right: i128) -> i128 {
    let quotient = left / right;
    if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
}

fn power(base: i128, exponent: i128) -> Option<i128> {
    match base {
        0 | 1 => Some(if exponent == 0 { 1 } else { base }),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

fn floats(operator: Arithmetic, left: f64, right: f64) -> Result<Value, Cause> {
    let divides = matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder);
    if divides && right == 0.0 {
        return Err(Cause::DivisionByZero);
    }
    finite(match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::FloorDivide => (left / right).floor(),
        Arithmetic::Remainder => left - (left / right).floor() * right,
        Arithmetic::Power => left.powf(right),
    })
}

fn finite(number: f64) -> Result<Value, Cause> {
    Value::number(number).map_err(|_| Cause::NumberRange)
}

/// A float is never integral within the range of integers, so the two are never equal.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked before the cast")]
fn order_mixed(integer: i128, float: f64) -> Ordering {
    let is_less = float >= INTEGER_END || (float > -INTEGER_END && integer <= float.floor() as i128);
    if is_less { Ordering::Less } else { Ordering::Greater }
}

//! Numbers within a schema's bounds.

use std::cmp::Ordering;

use rondo_protocol::Value;
use rondo_protocol::canonical::MAX_INTEGER;

use super::SampleSize;
use super::merge::Plain;

/// A large number without bounds, small enough for the sums and products of a workflow.
const LARGE: i128 = 1_000_000;
/// The maximum number of constants whose neighbours are tried.
const MAX_NEAR: usize = 8;
/// A float beyond every integer, for schemas without bounds.
const LARGE_FLOAT: f64 = 1e300;

/// Whether one number is less than another; false for anything else.
pub(super) fn is_less(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.partial_cmp(&right) == Some(Ordering::Less),
        _ => false,
    }
}

/// The number nearest to zero, or a large one.
pub(super) fn of(plain: &Plain, is_integer: bool, extent: SampleSize) -> Option<Value> {
    let bounds = Bounds::of(plain);
    let wanted = match extent {
        SampleSize::Least => 0,
        SampleSize::Most => LARGE,
    };
    match bounds.integer(wanted) {
        Some(number) => Some(Value::Int(number)),
        None if is_integer => None,
        None => bounds.fraction(),
    }
}

/// Other numbers: the bounds, one and its negative, a fraction, those near the wanted values, and the largest if there
/// are no bounds.
pub(super) fn others(plain: &Plain, is_integer: bool, wanted: &[Value]) -> Vec<Value> {
    let bounds = Bounds::of(plain);
    let wanted = near(wanted);
    let edges = [0, 1, -1].into_iter().chain(wanted).chain([-MAX_INTEGER, MAX_INTEGER]);
    let mut found: Vec<Value> = edges.filter_map(|number| bounds.integer(number)).map(Value::Int).collect();
    if !is_integer {
        found.extend(bounds.fraction());
        let unbounded = bounds.highest.is_none();
        found.extend([0.5, -0.5].into_iter().chain(unbounded.then_some(LARGE_FLOAT)).map(Value::Float));
    }
    found
}

/// The integers among some constants, with their neighbours.
pub(super) fn near(constants: &[Value]) -> Vec<i128> {
    let integers = constants.iter().filter_map(|constant| match constant {
        Value::Int(number) => Some(*number),
        _ => None,
    });
    integers.take(MAX_NEAR).flat_map(|number| [number, number - 1, number + 1]).collect()
}

struct Bounds {
    lowest: Option<f64>,
    highest: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    step: Option<i128>,
}

impl Bounds {
    fn of(plain: &Plain) -> Self {
        let number = |key: &str| plain.get(key).and_then(Value::as_f64);
        let (above, below) = (number("exclusiveMinimum"), number("exclusiveMaximum"));
        let step = match plain.get("multipleOf") {
            Some(Value::Int(step)) if *step > 0 => Some(*step),
            _ => None,
        };
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        let smaller = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        Self {
            lowest: larger(number("minimum"), above),
            highest: smaller(number("maximum"), below),
            above,
            below,
            step,
        }
    }

    /// The integer within the bounds that is nearest to `wanted`.
    fn integer(&self, wanted: i128) -> Option<i128> {
        let past = |limit: f64, open: Option<f64>| i128::from(open == Some(limit) && limit.fract() == 0.0);
        let lowest = self.lowest.map_or(-MAX_INTEGER, |low| clamped(low.ceil()) + past(low, self.above));
        let highest = self.highest.map_or(MAX_INTEGER, |high| clamped(high.floor()) - past(high, self.below));
        if lowest > highest {
            return None;
        }
        let nearest = wanted.clamp(lowest, highest);
        let Some(step) = self.step else { return Some(nearest) };
        let below = nearest.div_euclid(step) * step;
        [below, below + step].into_iter().find(|number| (lowest..=highest).contains(number))
    }

    fn fraction(&self) -> Option<Value> {
        let middle = match (self.lowest, self.highest) {
            (Some(low), Some(high)) => low + (high - low) / 2.0,
            (Some(low), None) => low + 0.5,
            (None, Some(high)) => high - 0.5,
            (None, None) => 0.5,
        };
        Value::number(middle).ok()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of integers, which an i128 holds")]
fn clamped(number: f64) -> i128 {
    (number as i128).clamp(-MAX_INTEGER, MAX_INTEGER)
}

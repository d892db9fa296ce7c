//! Limits that somebody chose, such as `cost_usd=2`.

use rondo_core::local::{RaisedLimit, known_limit};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::read::duration_ms;
use rondo_protocol::{Value, canonical};

use crate::failure::Failure;

/// The limits that words of the form `KEY=VALUE` give.
pub fn limits(words: &[String]) -> Result<Vec<RaisedLimit>, Failure> {
    words.iter().map(|word| limit(word)).collect()
}

fn limit(word: &str) -> Result<RaisedLimit, Failure> {
    let unclear = |what: &str| Failure::new(Code::LimitUnclear, format!("limit {word}: {what}"));
    let (key, text) = word.split_once('=').ok_or_else(|| unclear("write key=value"))?;
    if key == "wall_time" {
        let value = duration_ms(text).ok_or_else(|| unclear("write a duration such as 30m or 2h"))?;
        return Ok(RaisedLimit { key: "wall_time_ms".to_owned(), value: Value::from(value) });
    }
    known_limit(key)?;
    let value: Value = canonical::from_slice(text.as_bytes()).map_err(|_| unclear("write a number"))?;
    match value {
        Value::Int(_) | Value::Float(_) => Ok(RaisedLimit { key: key.to_owned(), value }),
        _ => Err(unclear("write a number")),
    }
}

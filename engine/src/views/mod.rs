//! What is said of threads: the JSON lines that the command line prints, which are part of the interface,
//! and the sums behind them.

pub mod batches;
pub mod diff;
pub mod fork;
pub mod form;
pub mod in_flight;
pub mod lines;
pub mod prefix;
pub mod records;
pub mod request;
pub mod scenario;
pub mod since;
pub mod spending;
pub mod usage;

use schemars::Schema;
use serde_json::{Map, Value, json};

/// For schemas: adds the member `event`, which serde writes as the tag of a struct.
fn event(word: &str) -> impl FnMut(&mut Schema) {
    move |schema| {
        let line = schema.ensure_object();
        if let Value::Object(properties) = line.entry("properties").or_insert_with(|| Value::Object(Map::new())) {
            properties.insert("event".to_owned(), json!({"type": "string", "const": word}));
        }
        if let Value::Array(required) = line.entry("required").or_insert_with(|| json!([])) {
            required.insert(0, json!("event"));
        }
    }
}

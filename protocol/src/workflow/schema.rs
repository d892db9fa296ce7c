//! The JSON Schema of workflow files, for editors: `rondo schema` prints it.
//!
//! It is generated from the table in [`format`](super::format), like the reader's keys. A schema covers less than the
//! reader: `rondo validate` checks names, templates and ranges of durations. A test checks both with the same files.

use serde_json::{Map, Value, json};

use super::format::{self, Form, HOOK, KeySpec, Kind, Named, Shape, TOP};
use super::hooks::HookKind;

const STATUS: &str = "^[a-z][a-z0-9_-]*$";

/// The JSON Schema 2020-12 of a workflow file, as text with a final newline.
pub fn schema() -> String {
    let mut defs = Definitions::default();
    let mut schema = defs.map(&TOP);
    put(&mut schema, "$schema", json!("https://json-schema.org/draft/2020-12/schema"));
    put(&mut schema, "title", json!("Workflow"));
    put(&mut schema, "description", json!("A workflow of roles and a graph of prompts between them."));
    // Keys that begin with `x-` are ignored, at the top level only.
    put(&mut schema, "patternProperties", json!({ "^x-": true }));
    put(&mut schema, "$defs", Value::Object(defs.0));
    // This sorts the keywords in a readable order.
    let ordered = schemars::Schema::try_from(schema).unwrap_or_default();
    format!("{}\n", serde_json::to_string_pretty(&ordered).unwrap_or_default())
}

fn put(schema: &mut Value, keyword: &str, value: Value) {
    if let Value::Object(keywords) = schema {
        keywords.insert(keyword.to_owned(), value);
    }
}

/// A map from names that match `pattern` to `value`.
fn by_name(pattern: &str, value: &Value) -> Value {
    json!({ "type": "object", "patternProperties": { pattern: value }, "additionalProperties": false })
}

fn or_null(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn some(mut schema: Value) -> Value {
    put(&mut schema, "minProperties", json!(1));
    schema
}

fn words(words: &[(&str, &str)]) -> Value {
    let word = |(word, about): &(&str, &str)| json!({ "description": about, "type": "string", "const": word });
    json!({ "oneOf": words.iter().map(word).collect::<Vec<_>>() })
}

#[derive(Default)]
struct Definitions(Map<String, Value>);

impl Definitions {
    fn map(&mut self, keys: &[KeySpec]) -> Value {
        let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), self.key(key))).collect();
        let mut map = json!({ "type": "object", "properties": properties, "additionalProperties": false });
        let required: Vec<&str> = keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        if !required.is_empty() {
            put(&mut map, "required", json!(required));
        }
        map
    }

    fn key(&mut self, key: &KeySpec) -> Value {
        let mut schema = self.shape(key.shape);
        if !key.about.is_empty() {
            put(&mut schema, "description", json!(key.about));
        }
        schema
    }

    /// A reference to `name`, described by `about` and defined by `make`.
    fn refer(&mut self, name: &str, about: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.0.contains_key(name) {
            // A shape may contain itself.
            self.0.insert(name.to_owned(), Value::Null);
            let mut schema = make(self);
            put(&mut schema, "description", json!(about));
            self.0.insert(name.to_owned(), schema);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    fn named(&mut self, named: &'static Named) -> Value {
        self.refer(named.name, named.about, |defs| match named.form {
            Form::Keys(keys) => defs.map(keys),
            Form::Either(shapes) => {
                json!({ "anyOf": shapes.iter().map(|shape| defs.shape(*shape)).collect::<Vec<_>>() })
            }
            Form::Words(known) => words(known),
            Form::Pattern(pattern) => defs.shape(Shape::Pattern(pattern)),
        })
    }

    fn shape(&mut self, shape: Shape) -> Value {
        match shape {
            Shape::Text | Shape::Prose | Shape::Source | Shape::Expression | Shape::Tool | Shape::RoleName => {
                json!({ "type": "string" })
            }
            Shape::Prompt => self.named(&format::PROMPT),
            Shape::Condition => self.named(&format::EXPRESSION),
            Shape::System => self.named(&format::SYSTEM),
            Shape::OneOrMany => self.named(&format::ONE_OR_MANY),
            Shape::Tools => self.shape(Shape::List(&Shape::Tool, 0)),
            Shape::Statuses => self.shape(Shape::Map(&Shape::Text)),
            Shape::ToolOutput => self.named(&format::TOOL_OUTPUT),
            Shape::NonEmpty => json!({ "type": "string", "minLength": 1 }),
            Shape::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
            Shape::Boolean => json!({ "type": "boolean" }),
            Shape::Count(least, u64::MAX) => json!({ "type": "integer", "format": "uint64", "minimum": least }),
            Shape::Count(least, most) => {
                let mut count = json!({ "type": "integer", "format": "uint32", "minimum": least });
                if most < u64::from(u32::MAX) {
                    put(&mut count, "maximum", json!(most));
                }
                count
            }
            Shape::Integer => json!({ "type": "integer", "format": "int64" }),
            Shape::Number(least, most) => {
                json!({ "type": "number", "format": "double", "minimum": least, "maximum": most })
            }
            Shape::Cost => json!({ "type": "number", "format": "double", "exclusiveMinimum": 0 }),
            Shape::Size => self.named(&format::SIZE),
            Shape::Duration => self.named(&format::DURATION),
            Shape::DurationOrNever => {
                json!({ "anyOf": [self.named(&format::DURATION), { "enum": ["none", 0] }] })
            }
            Shape::Word(known) => words(known),
            Shape::List(element, least) => {
                let mut list = json!({ "type": "array", "items": self.shape(*element) });
                if least > 0 {
                    put(&mut list, "minItems", json!(least));
                }
                list
            }
            Shape::Map(value) => json!({ "type": "object", "additionalProperties": self.shape(*value) }),
            Shape::Template => json!({ "type": ["string", "number", "boolean", "array", "object"] }),
            Shape::Templates => json!({ "type": "object", "additionalProperties": true }),
            Shape::Named(named) => self.named(named),
            Shape::WorkflowName => {
                json!({ "type": "string", "maxLength": 100, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$" })
            }
            Shape::Fields => {
                // A list has exactly one shorthand.
                let one = json!({ "type": ["string", "object", "array"], "minItems": 1, "maxItems": 1 });
                by_name("^[A-Za-z_][A-Za-z0-9_]*[?]?$", &one)
            }
            Shape::StatusFields => or_null(&self.shape(Shape::Fields)),
            Shape::Output => some(by_name(STATUS, &self.shape(Shape::StatusFields))),
            Shape::Rules => {
                let expression = json!({ "type": ["string", "boolean", "number"] });
                some(by_name(STATUS, &or_null(&by_name("^[A-Za-z_][A-Za-z0-9_]*$", &expression))))
            }
            Shape::Roles => {
                let about = "A role; without `kind` a model plays it.";
                let role = self.refer("Role", about, |defs| json!({ "anyOf": Kind::ALL.map(|kind| defs.role(kind)) }));
                some(by_name("^[a-z][a-z0-9_]*$", &role))
            }
            Shape::Graph => {
                let edges = self.named(&format::EDGES);
                let mut graph = by_name("^(?!start$)[a-z][a-z0-9_]*$", &by_name(STATUS, &edges));
                let mut start = edges;
                put(&mut start, "description", json!("Where a thread begins."));
                put(&mut graph, "properties", json!({ "start": start }));
                graph
            }
            Shape::Hooks => {
                let uses = HookKind::ALL.map(|kind| self.hook(&kind));
                json!({ "type": "array", "maxItems": format::MAX_HOOKS, "items": { "anyOf": uses } })
            }
            Shape::With => {
                let settings = |kind: &HookKind| {
                    let mut settings = self.map(&kind.optional());
                    put(&mut settings, "description", json!(format!("Settings of `{}` for this role.", kind.name)));
                    (kind.name.to_owned(), settings)
                };
                let kinds: Map<String, Value> = HookKind::ALL.iter().map(settings).collect();
                json!({ "type": "object", "properties": kinds, "additionalProperties": false })
            }
        }
    }

    fn role(&mut self, (word, kind, about): (&str, Kind, &str)) -> Value {
        let mut name = word.to_owned();
        name.get_mut(..1).map(str::make_ascii_uppercase);
        self.refer(&format!("{name}Role"), about, |defs| {
            let is_kind = |key: &KeySpec| key.name == "kind" && kind != Kind::Model;
            let keys = kind.keys().into_iter().map(|key| KeySpec { required: key.required || is_kind(&key), ..key });
            let keys: Vec<KeySpec> = keys.collect();
            let mut role = defs.map(&keys);
            let its = "The word under `kind`.";
            let mut word = defs.refer(&format!("Kind{name}"), its, |_| json!({ "type": "string", "enum": [word] }));
            put(&mut word, "description", json!(about));
            if let Some(kind) = role.pointer_mut("/properties/kind") {
                *kind = word;
            }
            role
        })
    }

    fn hook(&mut self, kind: &HookKind) -> Value {
        let mut hook = self.map(&[&HOOK[..], kind.settings].concat());
        let at: Vec<&str> = kind.stands_at.iter().map(|at| at.name()).collect();
        for (pointer, keyword, value) in
            [("/properties/use", "const", json!(kind.name)), ("/properties/at", "enum", json!(at))]
        {
            if let Some(Value::Object(property)) = hook.pointer_mut(pointer) {
                property.retain(|keyword, _| keyword == "description");
                property.insert(keyword.to_owned(), value);
            }
        }
        hook
    }
}

#[cfg(test)]
mod tests;

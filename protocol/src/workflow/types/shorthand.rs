//! Converts the type declarations of a file to JSON Schema 2020-12.
//!
//! Shorthands are allowed at the top of a field: a word, `word[]`, `a | b`, a map of fields, or a list with one
//! shorthand. Everything else is JSON Schema, with only known keywords and no references: nested references make
//! validation exponential.

use std::collections::BTreeMap;

use super::file::{self, FILE};
use super::{closed_object, of_type};
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean, nearest};
use crate::source::{Key, Kind, Node, SourceError, excerpt};

const MAX_VALUES: usize = 1_000;
const MAX_DEPTH: usize = 16;
const MAX_PATTERN_BYTES: usize = 1_000;
const MAX_FAULTS: usize = 100;

const WORDS: [&str; 5] = ["string", "integer", "number", "boolean", FILE];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// What the value of a keyword is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Schema,
    Schemas,
    NamedSchemas,
    Data,
    /// A reference, or something to be referred to.
    Refused,
}

/// The keywords of JSON Schema, by what they hold.
const KEYWORDS: [(Holds, &str); 4] = [
    (
        Holds::Schema,
        "additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems \
         unevaluatedProperties",
    ),
    (Holds::Schemas, "allOf anyOf oneOf prefixItems"),
    (Holds::NamedSchemas, "dependentSchemas patternProperties properties"),
    (
        Holds::Data,
        "$comment const contentEncoding contentMediaType default dependentRequired deprecated description enum examples \
         exclusiveMaximum exclusiveMinimum format maxContains maxItems maxLength maxProperties maximum minContains \
         minItems minLength minProperties minimum multipleOf pattern readOnly required title type uniqueItems writeOnly",
    ),
];
const REFUSED: &str = "$anchor $defs $dynamicAnchor $dynamicRef $id $recursiveAnchor $recursiveRef $ref $schema \
                       $vocabulary definitions id";

/// What a keyword holds; `None` if there is no such keyword.
fn keyword(name: &str) -> Option<Holds> {
    let is_in = |names: &str| names.split(' ').any(|known| known == name);
    let known = KEYWORDS.iter().find(|(_, names)| is_in(names)).map(|(holds, _)| *holds);
    known.or_else(|| is_in(REFUSED).then_some(Holds::Refused))
}

/// The JSON Schema of the type that `node` declares for the field `name`, and its faults, with which it is of no use.
pub fn expand(node: &Node, name: &str) -> (Value, Vec<SourceError>) {
    let mut expander = Expander { faults: Vec::new(), values: 0, name };
    let schema = expander.field(node, 1);
    (schema, expander.faults)
}

struct Expander<'a> {
    faults: Vec<SourceError>,
    values: usize,
    name: &'a str,
}

impl Expander<'_> {
    /// Reports a fault; returns what is in place of the schema.
    fn refuse(&mut self, fault: SourceError) -> Value {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
        Value::Null
    }

    /// Whether one more value at `depth` is within the limits; reports it once if not.
    fn enter(&mut self, node: &Node, depth: usize) -> bool {
        self.values += 1;
        let within = self.values <= MAX_VALUES && depth <= MAX_DEPTH;
        if !within && !self.faults.iter().any(|fault| fault.code == Code::SchemaTooLarge) {
            let message = format!("the schema has more than {MAX_VALUES} values or {MAX_DEPTH} levels");
            self.refuse(SourceError::new(Code::SchemaTooLarge, node.span, message));
        }
        within
    }

    fn field(&mut self, node: &Node, depth: usize) -> Value {
        if !self.enter(node, depth) {
            return Value::Null;
        }
        match &node.kind {
            Kind::Str(text) => self.word(node, text),
            Kind::Map(entries) if is_object_shorthand(entries) => self.object(entries, depth),
            Kind::Map(entries) => match entries.iter().find(|(key, _)| key.name == "type") {
                Some((key, _)) if calls_a_field_type(entries) => self.field_called_type(key, entries),
                _ => {
                    self.schema(node, depth);
                    node.to_value()
                }
            },
            Kind::List(items) => match items.as_slice() {
                [item] if is_shorthand(item) || matches!(item.kind, Kind::Str(_)) => {
                    list_of(self.field(item, depth + 1))
                }
                _ => self.no_type(
                    node,
                    "a list holds one shorthand, such as `[string]`, or is written `{ type: array, items: ... }`",
                ),
            },
            _ => self.no_type(node, "such as `string`, `integer`, `\"string[]\"`, `\"low | high\"`"),
        }
    }

    fn no_type(&mut self, node: &Node, hint: &str) -> Value {
        let message = format!("`{}` wants a type, found {}", excerpt(self.name), node.describe());
        self.refuse(SourceError::new(Code::WrongType, node.span, message).with_hint(hint))
    }

    /// A word, a list `word[]` or an enum `a | b`.
    fn word(&mut self, node: &Node, text: &str) -> Value {
        if text.contains('|') {
            return self.words(node, text);
        }
        if let Some(schema) = word_schema(text) {
            return schema;
        }
        let message = format!("there is no type `{}`", excerpt(text));
        let base = text.trim_end_matches("[]");
        let usual = match base {
            "str" | "text" => Some("string"),
            "int" => Some("integer"),
            "bool" => Some("boolean"),
            "float" | "double" => Some("number"),
            _ => nearest(base, WORDS),
        };
        let hint = match (base, usual) {
            ("object" | "map" | "dict", _) => "write its fields as a map, or `{ type: object }`",
            ("array" | "list", _) => "write `\"string[]\"`, or `{ type: array, items: ... }`",
            (_, Some(word)) if word == base => {
                "a shorthand has one `[]`; write `{ type: array, items: ... }` for lists of lists"
            }
            (_, Some(word)) => &format!("did you mean `{word}{}`?", text.get(base.len()..).unwrap_or_default()),
            _ => "the types are `string`, `integer`, `number`, `boolean`, `file`; an enum has words between `|`",
        };
        self.refuse(SourceError::new(Code::UnknownType, node.span, message).with_hint(hint))
    }

    fn words(&mut self, node: &Node, text: &str) -> Value {
        let mut words: Vec<&str> = Vec::new();
        for word in text.split('|').map(str::trim) {
            self.values += 1;
            if word.is_empty() {
                let fault = SourceError::new(Code::UnknownType, node.span, "a word of the enum is empty");
                return self.refuse(fault.with_hint("write words between `|`, such as `low | mid | high`"));
            }
            if words.contains(&word) {
                let message = format!("the enum has `{}` twice", excerpt(word));
                return self.refuse(SourceError::new(Code::UnknownType, node.span, message));
            }
            words.push(word);
            if self.values > MAX_VALUES {
                self.enter(node, 1);
                return Value::Null;
            }
        }
        let words = Value::List(words.into_iter().map(Value::from).collect());
        Value::from_iter([("enum", words), ("type", Value::from("string"))])
    }

    fn object(&mut self, entries: &[(Key, Node)], depth: usize) -> Value {
        let mut properties = BTreeMap::new();
        let mut required = Vec::new();
        for (key, node) in entries {
            let name = key.name.strip_suffix('?').unwrap_or(&key.name);
            let schema = self.field(node, depth + 1);
            if properties.insert(name.to_owned(), schema).is_some() {
                let message = format!("`{}` is declared twice, with and without `?`", excerpt(name));
                self.refuse(SourceError::new(Code::DuplicateKey, key.span, message));
            }
            if !key.name.ends_with('?') {
                required.push(Value::from(name));
            }
        }
        closed_object(Value::Object(properties), required)
    }

    fn field_called_type(&mut self, key: &Key, entries: &[(Key, Node)]) -> Value {
        let field = |(key, node): &(Key, Node)| match &node.kind {
            Kind::Str(word) if word_schema(word).is_some() => format!("{}: {{ type: {word} }}", key.name),
            _ => format!("{}: {{ ... }}", key.name),
        };
        let fields: Vec<String> = entries.iter().take(4).map(field).collect();
        let message = "a map with the key `type` is JSON Schema, so a shorthand cannot have a field of that name";
        let hint = format!("write it out: {{ type: object, properties: {{ {} }} }}", fields.join(", "));
        // Hints that quote a file have a maximum length, like all quotes.
        let hint: String = hint.chars().take(300).collect();
        self.refuse(SourceError::new(Code::FieldCalledType, key.span, message).with_hint(hint))
    }

    /// Checks JSON Schema, which is kept as it is written.
    fn schema(&mut self, node: &Node, depth: usize) {
        let entries = match &node.kind {
            Kind::Map(entries) => entries,
            Kind::Bool(_) => return,
            Kind::Str(word) if word_schema(word).is_some() => {
                let message = "a shorthand inside a schema, where only JSON Schema is allowed";
                let fault = SourceError::new(Code::InvalidSchema, node.span, message);
                self.refuse(fault.with_hint(format!("write `{{ type: {word} }}`")));
                return;
            }
            _ => return self.no_schema(node, &format!("a schema is a map, found {}", node.describe())),
        };
        for (key, value) in entries {
            if !self.enter(value, depth + 1) {
                return;
            }
            match (keyword(&key.name), &value.kind) {
                (Some(Holds::Schema), _) => self.schema(value, depth + 1),
                (Some(Holds::Schemas), Kind::List(_)) | (Some(Holds::NamedSchemas), Kind::Map(_)) => {
                    self.within(value, depth + 1, Self::schema);
                }
                (Some(Holds::Schemas), _) => self.no_schema(value, "a list of schemas is wanted"),
                (Some(Holds::NamedSchemas), _) => self.no_schema(value, "a map of schemas is wanted"),
                (Some(Holds::Data), _) if key.name == "type" && self.names_no_type(value) => {}
                (Some(Holds::Data), _) => self.data(key, value, depth + 1),
                (Some(Holds::Refused) | None, _) => self.unknown_keyword(key),
            }
        }
    }

    /// Checks the parts of a list or a map, as far as the limits allow.
    fn within(&mut self, node: &Node, depth: usize, check: impl Fn(&mut Self, &Node, usize)) {
        for part in node.parts() {
            if !self.enter(part, depth + 1) {
                return;
            }
            check(self, part, depth + 1);
        }
    }

    /// Whether the value of `type` is a word that names no type; reports it.
    fn names_no_type(&mut self, node: &Node) -> bool {
        let Kind::Str(word) = &node.kind else { return false };
        if TYPES.contains(&word.as_str()) {
            return false;
        }
        let hint = match word.strip_suffix("[]").filter(|item| TYPES.contains(item)) {
            Some(item) => Some(format!(
                "write `type: array, items: {{ type: {item} }}`; the shorthand `\"{word}\"` is written alone, without `type`"
            )),
            None => did_you_mean(word, TYPES),
        };
        let message = format!("JSON Schema has no type `{}`", excerpt(word));
        self.refuse(SourceError::new(Code::UnknownType, node.span, message).with_hint_if(hint));
        true
    }

    fn no_schema(&mut self, node: &Node, message: &str) {
        self.refuse(SourceError::new(Code::InvalidSchema, node.span, message));
    }

    fn data(&mut self, key: &Key, node: &Node, depth: usize) {
        let fault = match &node.kind {
            Kind::Null => SourceError::new(Code::NullValue, key.span, format!("`{}` has no value", key.name)),
            Kind::Str(pattern) if key.name == "pattern" && pattern.len() > MAX_PATTERN_BYTES => {
                let message = format!("the pattern has more than {MAX_PATTERN_BYTES} bytes");
                SourceError::new(Code::SchemaTooLarge, node.span, message)
            }
            Kind::Map(entries) => {
                for (key, part) in entries {
                    if !self.enter(part, depth + 1) {
                        return;
                    }
                    self.data(key, part, depth + 1);
                }
                return;
            }
            _ => return self.within(node, depth, |expander, part, depth| expander.data(key, part, depth)),
        };
        self.refuse(fault);
    }

    fn unknown_keyword(&mut self, key: &Key) {
        if keyword(&key.name) == Some(Holds::Refused) {
            let message = format!("`{}` is refused in a schema", key.name);
            let fault = SourceError::new(Code::SchemaReference, key.span, message);
            self.refuse(fault.with_hint("write the schema out; a YAML anchor repeats a part that is needed twice"));
            return;
        }
        let message = format!("`{}` is not a keyword of JSON Schema", excerpt(&key.name));
        let hint = did_you_mean(&key.name, KEYWORDS.iter().flat_map(|(_, names)| names.split(' ')));
        self.refuse(SourceError::new(Code::UnknownKeyword, key.span, message).with_hint_if(hint));
    }
}

fn list_of(items: Value) -> Value {
    Value::from_iter([("items", items), ("type", Value::from("array"))])
}

fn word_schema(text: &str) -> Option<Value> {
    if let Some(item) = text.strip_suffix("[]") {
        // A shorthand allows one level of list; more are written as JSON Schema.
        let items = WORDS.contains(&item).then(|| word_schema(item))??;
        return Some(list_of(items));
    }
    if text == FILE {
        return Some(file::schema());
    }
    WORDS.contains(&text).then(|| of_type(text))
}

/// Whether a value could be a shorthand.
fn is_shorthand(node: &Node) -> bool {
    match &node.kind {
        Kind::Str(text) => word_schema(text).is_some() || text.contains('|'),
        Kind::Map(entries) => !entries.is_empty() && is_object_shorthand(entries),
        Kind::List(items) => matches!(items.as_slice(), [item] if is_shorthand(item)),
        _ => false,
    }
}

/// Whether a map is an object whose fields are shorthands: it has no `type`, and either every value is a shorthand or
/// no key is a keyword, so that a misspelt type is named as such.
fn is_object_shorthand(entries: &[(Key, Node)]) -> bool {
    let mut shorthands = entries.iter().map(|(_, node)| is_shorthand(node));
    let names_no_keyword = || entries.iter().all(|(key, _)| keyword(&key.name).is_none());
    !entries.is_empty()
        && !entries.iter().any(|(key, _)| key.name == "type")
        && !has_keyword_lists(entries)
        && (shorthands.clone().all(|is| is) || names_no_keyword() && shorthands.any(|is| is))
}

/// Whether every key is a keyword and one of them holds a list that JSON Schema allows, such as `enum: [string]`.
fn has_keyword_lists(entries: &[(Key, Node)]) -> bool {
    let takes_list = |(key, node): &(Key, Node)| {
        matches!(node.kind, Kind::List(_)) && matches!(keyword(&key.name), Some(Holds::Data | Holds::Schemas))
    };
    entries.iter().all(|(key, _)| keyword(&key.name).is_some()) && entries.iter().any(takes_list)
}

/// Whether a map with `type` probably means an object with a field of that name: its `type` is no type, or it also has
/// a shorthand under a key that is no keyword.
fn calls_a_field_type(entries: &[(Key, Node)]) -> bool {
    let names_a_type = |node: &Node| match &node.kind {
        Kind::Str(word) => TYPES.contains(&word.as_str()),
        Kind::List(_) => true,
        _ => false,
    };
    let sound = entries.iter().any(|(key, node)| key.name == "type" && names_a_type(node));
    let others = || entries.iter().filter(|(key, _)| key.name != "type");
    let a_field_beside = others()
        .any(|(key, node)| keyword(&key.name).is_none_or(|holds| holds == Holds::Refused) && is_shorthand(node));
    let all_fields = entries.iter().all(|(_, node)| is_shorthand(node));
    a_field_beside || (!sound && all_fields && others().next().is_some())
}

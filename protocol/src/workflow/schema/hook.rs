//! Hooks, out of the table of kinds.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::workflow::hooks::{HookKind, Setting, SettingType};

pub(super) fn hooks(_: &mut SchemaGenerator) -> Schema {
    let uses: Vec<Value> = HookKind::ALL.iter().map(hook).collect();
    json_schema!({ "type": "array", "maxItems": 64, "items": { "anyOf": uses } })
}

pub(super) fn with(_: &mut SchemaGenerator) -> Schema {
    let kinds: Map<String, Value> = HookKind::ALL
        .iter()
        .map(|kind| {
            let settings = kind.settings.iter().map(setting).collect::<Map<_, _>>();
            (kind.name.to_owned(), json!({ "type": "object", "properties": settings, "additionalProperties": false }))
        })
        .collect();
    json_schema!({ "type": "object", "properties": kinds, "additionalProperties": false })
}

/// One use of a kind at the top of a file.
fn hook(kind: &HookKind) -> Value {
    let mut properties: Map<String, Value> = kind.settings.iter().map(setting).collect();
    let at: Vec<&str> = kind.stands_at.iter().map(|at| at.name()).collect();
    properties.insert("use".to_owned(), json!({ "const": kind.name }));
    properties.insert("roles".to_owned(), json!({ "type": "array", "items": { "type": "string" } }));
    properties.insert("at".to_owned(), json!({ "enum": at }));
    properties.insert("on_error".to_owned(), json!({ "enum": ["bypass", "fail"] }));
    let own = kind.settings.iter().filter(|setting| setting.required).map(|setting| setting.name);
    let required: Vec<&str> = std::iter::once("use").chain(own).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn setting(setting: &Setting) -> (String, Value) {
    let or_never = json!({ "anyOf": [{ "pattern": "^[0-9]+(ms|s|m|h|d)$" }, { "enum": ["none", 0] }] });
    let schema = match setting.kind {
        SettingType::Count => json!({ "type": "integer", "minimum": 1 }),
        SettingType::Size => json!({ "type": ["integer", "string"], "minimum": 1 }),
        SettingType::Text => json!({ "type": "string", "minLength": 1 }),
        SettingType::Texts => json!({ "type": "array", "items": { "type": "string", "minLength": 1 } }),
        SettingType::DurationOrNever => or_never,
        SettingType::DurationsByName => json!({ "type": "object", "additionalProperties": or_never }),
        SettingType::Word(words) => json!({ "enum": words }),
    };
    (setting.name.to_owned(), schema)
}

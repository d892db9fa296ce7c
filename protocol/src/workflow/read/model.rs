//! Logical models and their parameters.

use std::collections::BTreeMap;

use super::Reader;
use super::part::Part;
use crate::canonical::Value;
use crate::diagnostic::Code;
use crate::object::Parameters;
use crate::source::{Kind, excerpt};
use crate::workflow::ModelSpec;
use crate::workflow::format::{MAX_STOPS, MODEL};

impl Reader<'_> {
    pub(super) fn models(&mut self, part: &Part<'_>) -> BTreeMap<String, ModelSpec> {
        let mut models = BTreeMap::new();
        for entry in self.entries(part).unwrap_or_default() {
            let named = is_model_name(entry.name());
            if !named {
                let message = format!("`{}` is not a name for a model", excerpt(entry.name()));
                let fault = entry.key_fault(Code::InvalidName, message);
                self.leave_out(&entry, fault.with_hint("it is made of letters, digits, `-`, `_` and `.`"));
            }
            if let (true, Some(model)) = (self.is_given(&entry), self.model(&entry))
                && named
            {
                models.insert(entry.name().to_owned(), model);
            }
        }
        models
    }

    fn model(&mut self, part: &Part<'_>) -> Option<ModelSpec> {
        let fields = self.fields(part, MODEL.keys())?;
        let mut spec = ModelSpec::default();
        let mut parameters = BTreeMap::new();
        for field in fields.iter() {
            let shape = MODEL.keys().iter().find(|key| key.name == field.name()).map(|key| key.shape);
            let value = match field.name() {
                "model" => {
                    spec.model = self.nonempty(field);
                    None
                }
                "stop" => self.stop(field),
                _ => shape.and_then(|shape| self.value(field, shape)),
            };
            if let Some(value) = value {
                parameters.insert(field.name().to_owned(), value);
            }
        }
        spec.parameters = Parameters(parameters);
        Some(spec)
    }

    fn stop(&mut self, part: &Part<'_>) -> Option<Value> {
        if matches!(part.node.kind, Kind::Str(_)) {
            return self.nonempty(part).map(Value::Str);
        }
        let items = self.items(part)?;
        if items.is_empty() || items.len() > MAX_STOPS {
            return self.not_allowed(part, &format!("from 1 to {MAX_STOPS} texts"), None);
        }
        Some(Value::List(items.iter().filter_map(|item| self.nonempty(item)).map(Value::Str).collect()))
    }

    pub(super) fn nonempty(&mut self, part: &Part<'_>) -> Option<String> {
        let text = self.text(part)?;
        if text.trim().is_empty() { self.not_allowed(part, "a text that is not empty", None) } else { Some(text) }
    }
}

/// Whether a logical model may have this name, which is also used in `rondo.toml`.
fn is_model_name(name: &str) -> bool {
    const LONGEST: usize = 64;
    !name.is_empty()
        && name.len() <= LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

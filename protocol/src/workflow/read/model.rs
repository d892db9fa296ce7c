//! Logical models and their parameters, and the workflow as a model of chat clients.

use std::collections::BTreeMap;

use super::Reader;
use super::path_node::PathNode;
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::FieldName;
use crate::object::Parameters;
use crate::source::excerpt;
use crate::workflow::format::{MODEL, SERVE, Shape};
use crate::workflow::types::Field;
use crate::workflow::{ModelSpec, Ordered, Serve, Template};

impl Reader<'_> {
    pub(super) fn models(&mut self, part: &PathNode<'_>) -> BTreeMap<String, ModelSpec> {
        let mut models = BTreeMap::new();
        for entry in self.entries(part).unwrap_or_default() {
            let named = is_model_name(entry.name());
            if !named {
                let message = format!("`{}` is not a name for a model", excerpt(entry.name()));
                let fault = entry.key_fault(Code::InvalidName, message);
                self.leave_out(&entry, fault.with_hint("it is made of letters, digits, `-`, `_` and `.`"));
            }
            if let (true, Some(Value::Object(mut parameters))) =
                (self.is_given(&entry), self.value(&entry, Shape::Named(&MODEL)))
                && named
            {
                let model = parameters.remove("model").and_then(|model| model.as_str().map(str::to_owned));
                let model = ModelSpec { model, parameters: Parameters(parameters) };
                models.insert(entry.name().to_owned(), model);
            }
        }
        models
    }

    /// Reads how a chat client uses the workflow as a model.
    pub(super) fn serve(
        &mut self,
        part: &PathNode<'_>,
        input: &Ordered<FieldName, Field>,
        result: Option<&Template>,
    ) -> Serve {
        let Some(fields) = self.fields(part, SERVE.keys()) else { return Serve::default() };
        let message = fields.get("message").and_then(|part| {
            let name = self.text(part)?;
            let Some((_, field)) = input.iter().find(|(known, _)| known.as_str() == name) else {
                return self.unknown(part, "input", &name, input.iter().map(|(known, _)| known.as_str()));
            };
            if !field.takes_text() {
                let message = format!("the input `{name}` does not take a text, which a message is");
                self.report(part.fault(Code::InvalidValue, message));
                return None;
            }
            Some(name)
        });
        let answer = fields.get("answer").and_then(|part| {
            let name = self.text(part)?;
            let keys: Vec<&str> = match result {
                Some(Template(Value::Object(members))) => members.keys().map(String::as_str).collect(),
                _ => Vec::new(),
            };
            let known = keys.contains(&name.as_str());
            if known { Some(name) } else { self.unknown(part, "key of the result", &name, keys) }
        });
        Serve { answer, message }
    }

    fn unknown<'k, T>(
        &mut self,
        part: &PathNode<'_>,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Option<T> {
        let fault = part.fault(Code::InvalidValue, format!("there is no {what} `{name}`"));
        self.report(fault.with_hint_if(did_you_mean(name, known)));
        None
    }
}

/// Whether a logical model may have this name, which is also used in `rondo.toml`.
fn is_model_name(name: &str) -> bool {
    const LONGEST: usize = 64;
    !name.is_empty()
        && name.len() <= LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

//! Logical models and their parameters.

use std::collections::BTreeMap;

use super::Reader;
use super::path_node::PathNode;
use crate::diagnostic::Code;
use crate::object::Parameters;
use crate::source::excerpt;
use crate::workflow::ModelSpec;
use crate::workflow::format::MODEL;

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
            if let (true, Some(model)) = (self.is_given(&entry), self.model(&entry))
                && named
            {
                models.insert(entry.name().to_owned(), model);
            }
        }
        models
    }

    fn model(&mut self, part: &PathNode<'_>) -> Option<ModelSpec> {
        let fields = self.fields(part, MODEL.keys())?;
        let mut parameters = self.values(&fields, MODEL.keys());
        let model = parameters.remove("model").and_then(|model| model.as_str().map(str::to_owned));
        Some(ModelSpec { model, parameters: Parameters(parameters) })
    }
}

/// Whether a logical model may have this name, which is also used in `rondo.toml`.
fn is_model_name(name: &str) -> bool {
    const LONGEST: usize = 64;
    !name.is_empty()
        && name.len() <= LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

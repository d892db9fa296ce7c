//! Inputs and fields of statuses, with their types.

use std::collections::BTreeSet;

use super::Reader;
use super::path_node::PathNode;
use crate::canonical::Value;
use crate::diagnostic::Code;
use crate::id::FieldName;
use crate::source::Kind;
use crate::workflow::types::{self, Field, Validator};
use crate::workflow::{Ordered, source_map};

impl Reader<'_> {
    pub(super) fn inputs(&mut self, part: &PathNode<'_>) -> Ordered<FieldName, Field> {
        self.typed(part, Self::input_name, true)
    }

    /// Reads the fields of a status; null means none.
    pub(super) fn status_fields(&mut self, part: &PathNode<'_>) -> Ordered<FieldName, Field> {
        if part.node.kind == Kind::Null {
            return Vec::new();
        }
        self.typed(part, Self::field_name, false)
    }

    fn typed(
        &mut self,
        part: &PathNode<'_>,
        name: fn(&mut Self, &PathNode<'_>) -> Option<(FieldName, bool)>,
        takes_files: bool,
    ) -> Ordered<FieldName, Field> {
        let mut fields = Vec::new();
        let mut seen = BTreeSet::new();
        for entry in self.entries(part).unwrap_or_default() {
            let name = name(self, &entry);
            let schema = if self.is_given(&entry) { self.schema(&entry, takes_files) } else { None };
            let Some((name, optional)) = name else { continue };
            // The `?` is not part of the field's name.
            let path = source_map::key(&part.path, name.as_str());
            self.place(&entry.moved(path.clone()));
            if !seen.insert(name.clone()) {
                let message = format!("`{name}` is declared twice, with and without `?`");
                self.leave_out(&entry, entry.key_fault(Code::DuplicateKey, message));
                continue;
            }
            if schema.is_none() {
                self.places.mark_incomplete(&path);
            }
            // Without a readable type it may hold anything, so that templates which use it are no further faults.
            fields.push((name, Field { optional, schema: schema.unwrap_or_else(Value::empty_object) }));
        }
        fields
    }

    /// Reads a declared type as JSON Schema.
    fn schema(&mut self, part: &PathNode<'_>, takes_files: bool) -> Option<Value> {
        let (schema, faults) = types::expand(part.node, part.name());
        if !faults.is_empty() {
            self.places.mark_incomplete(&part.path);
            for mut fault in faults {
                // A block map has an empty span; its key is a better location.
                if fault.span == part.node.span {
                    fault.span = part.span();
                }
                self.report(fault);
            }
            return None;
        }
        if !takes_files && types::holds_files(&schema) {
            let fault = part.fault(Code::UnknownType, "the type `file` stands in `input` only");
            let hint = "declare the file under `input`, or name it here by a `string`";
            return self.refuse(part, fault.with_hint(hint));
        }
        let text = schema.to_text();
        if !self.sound_schemas.contains(&text) {
            self.compile(part, &schema)?;
            self.sound_schemas.insert(text);
        }
        Some(schema)
    }

    /// Checks that the schema is valid and that its default matches it.
    fn compile(&mut self, part: &PathNode<'_>, schema: &Value) -> Option<()> {
        let default = schema.get("default");
        if types::is_simple(schema) && default.is_none() {
            return Some(());
        }
        let not_a_schema = |error| part.fault(Code::InvalidSchema, format!("this is not a JSON Schema: {error}"));
        let validator = match Validator::of_schema(schema) {
            Ok(validator) => validator,
            Err(error) => return self.refuse(part, not_a_schema(error)),
        };
        if let (Some(default), Some(node)) = (default, part.node.get("default"))
            && let Some(violation) = validator.violations(default).into_iter().next()
        {
            let message = format!("the default does not follow its own type: {violation}");
            let at = PathNode { path: source_map::key(&part.path, "default"), key: None, node };
            return self.refuse(part, at.fault(Code::InvalidDefault, message));
        }
        Some(())
    }
}

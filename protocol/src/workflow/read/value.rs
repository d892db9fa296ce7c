//! Values whose texts are templates: `args`, `input` of a child, `result`.

use super::Reader;
use super::path_node::PathNode;
use crate::canonical::Value;
use crate::source::Kind;
use crate::workflow::Template;

impl Reader<'_> {
    pub(super) fn template_value(&mut self, part: &PathNode<'_>) -> Template {
        Template(self.leaves(part))
    }

    pub(super) fn template_map(&mut self, part: &PathNode<'_>) -> Option<Template> {
        match part.node.kind {
            Kind::Map(_) => Some(self.template_value(part)),
            _ => self.wrong_type(part, "a map", None),
        }
    }

    /// The readers of files bound how deep this goes.
    fn leaves(&mut self, part: &PathNode<'_>) -> Value {
        match &part.node.kind {
            Kind::Str(_) => self.template(part).map_or(Value::Null, Value::Str),
            Kind::List(_) => {
                let items = self.items(part).unwrap_or_default();
                Value::List(items.iter().map(|item| self.leaves(item)).collect())
            }
            Kind::Map(_) => {
                let entries = self.entries(part).unwrap_or_default();
                let mut members = std::collections::BTreeMap::new();
                for entry in entries {
                    if self.is_given(&entry) {
                        members.insert(entry.name().to_owned(), self.leaves(&entry));
                    }
                }
                Value::Object(members)
            }
            _ => part.node.to_value(),
        }
    }
}

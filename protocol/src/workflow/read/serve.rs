//! How a chat client uses a workflow as a model.

use super::Reader;
use super::path_node::PathNode;
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::FieldName;
use crate::workflow::format::SERVE;
use crate::workflow::types::Field;
use crate::workflow::{Ordered, Serve, Template};

impl Reader<'_> {
    pub(super) fn serve(
        &mut self,
        part: &PathNode<'_>,
        input: &Ordered<FieldName, Field>,
        result: Option<&Template>,
    ) -> Serve {
        let Some(fields) = self.fields(part, SERVE.keys()) else { return Serve::default() };
        let message = fields.get("message").and_then(|part| {
            let name = self.text(part)?;
            match input.iter().find(|(known, _)| known.as_str() == name) {
                Some((_, field)) if field.takes_text() => return Some(name),
                Some(_) => {
                    let message = format!("the input `{name}` does not take a text, which a message is");
                    self.report(part.fault(Code::InvalidValue, message));
                }
                None => self.unknown(part, "input", &name, input.iter().map(|(known, _)| known.as_str())),
            }
            None
        });
        let answer = fields.get("answer").and_then(|part| {
            let name = self.text(part)?;
            let keys = match result {
                Some(Template(Value::Object(members))) => members.keys().map(String::as_str).collect(),
                _ => Vec::new(),
            };
            if keys.contains(&name.as_str()) {
                return Some(name);
            }
            self.unknown(part, "key of the result", &name, keys);
            None
        });
        Serve { answer, message }
    }

    fn unknown<'k>(&mut self, part: &PathNode<'_>, what: &str, name: &str, known: impl IntoIterator<Item = &'k str>) {
        let mut fault = part.fault(Code::InvalidValue, format!("there is no {what} `{name}`"));
        fault.hint = did_you_mean(name, known);
        self.report(fault);
    }
}

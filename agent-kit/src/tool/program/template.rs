//! One element of a declared `argv` or `paths`.

use rondo_protocol::Value;

use super::InvalidProgram;

/// Text with placeholders for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Argument(String),
}

impl Template {
    /// Parses `{name}` as a placeholder and `{{`, `}}` as a brace. `known` are the defined arguments.
    pub fn read(text: &str, known: &[String]) -> Result<Self, InvalidProgram> {
        let braces = || InvalidProgram::Braces { text: text.to_owned() };
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = brace.strip_prefix("{{").or(brace.strip_prefix("}}")) {
                plain.extend(brace.chars().next());
                rest = after;
                continue;
            }
            let (name, after) = brace.strip_prefix('{').and_then(|inner| inner.split_once('}')).ok_or_else(braces)?;
            if !known.iter().any(|known| known == name) {
                return Err(InvalidProgram::UnknownArgument { text: text.to_owned(), name: name.to_owned() });
            }
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(TemplatePart::Argument(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() || parts.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Self(parts))
    }

    /// Whether the result does not depend on the arguments.
    pub fn is_fixed(&self) -> bool {
        matches!(self.0.as_slice(), [TemplatePart::Text(_)])
    }

    pub fn is_argument(&self) -> bool {
        matches!(self.0.first(), Some(TemplatePart::Argument(_)))
    }

    /// Fills in the arguments. Returns one element; one per item if the whole template is a list argument; none when an
    /// argument is missing.
    pub fn fill(&self, arguments: &Value) -> Vec<String> {
        let given = |name: &str| arguments.get(name).filter(|value| !matches!(value, Value::Null));
        if let [TemplatePart::Argument(name)] = self.0.as_slice() {
            return match given(name) {
                Some(Value::List(items)) => items.iter().map(text).collect(),
                value => value.map(text).into_iter().collect(),
            };
        }
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                TemplatePart::Text(plain) => filled.push_str(plain),
                TemplatePart::Argument(name) => match given(name) {
                    Some(value) => filled.push_str(&text(value)),
                    None => return Vec::new(),
                },
            }
        }
        vec![filled]
    }
}

/// A text as it is, anything else as canonical JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.clone(),
        other => other.to_text(),
    }
}

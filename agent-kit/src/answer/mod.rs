//! Answers: what a role may answer, how it is instructed, and how its text is parsed.
//!
//! A [`Contract`] is compiled once from a role's output and serves every answer of that role. It writes the
//! instructions ([`Contract::text`], [`Contract::response_format`], [`repair_text`]), parses ([`Contract::parse`]) and
//! renders ([`Contract::render`]).
//!
//! Laws:
//! - Every text has one meaning or results in a fault that tells a model what to correct; none panics, and none is
//!   larger than [`MAX_ANSWER_BYTES`].
//! - `parse(render(status, fields, body))` is exactly that status, those fields and that body, for all that match the
//!   contract.
//! - The wording is that of layout 1 (`engine/docs/layout-1.md`): changing a byte of it changes every request.

mod fence;
mod field;
mod frontmatter;
mod json;
mod quote;
mod streamed;
mod strict;
mod words;

use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::diagnostic::nearest;
use rondo_protocol::id::{FieldName, Status};
use rondo_protocol::workflow::{AnswerFormat, Field, Ordered};

use field::DeclaredField;

pub use field::InvalidSchema;
pub use streamed::{AnswerPart, StreamedAnswer};
pub use strict::is_strict;
pub use words::{contract_within, repair_text};

pub const MAX_ANSWER_BYTES: usize = 8 << 20;

/// The maximum length of front matter: the limit of a YAML file.
pub const MAX_FRONT_MATTER_BYTES: usize = 1 << 20;

/// The maximum number of faults in one repair. A model corrects the first few; more would only lengthen the request.
const MAX_FAULTS: usize = 16;

/// The allowed answers of a role: its statuses, and the fields of each.
#[derive(Debug, Clone)]
pub struct Contract {
    format: AnswerFormat,
    output: Vec<(Status, Vec<DeclaredField>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: Status,
    /// The declared fields that were given, as an object.
    pub output: Value,
    /// The rest of the text.
    pub body: String,
}

/// How an answer breaks its contract, in words that a model can act on: one line per fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct ContractFault {
    pub words: String,
}

impl ContractFault {
    fn new(words: impl Into<String>) -> Self {
        Self { words: words.into() }
    }

    fn of(faults: &[String]) -> Self {
        let mut words: Vec<&str> = faults.iter().take(MAX_FAULTS).map(String::as_str).collect();
        if faults.len() > MAX_FAULTS {
            words.push("there are more faults of this kind");
        }
        Self::new(words.join("\n"))
    }
}

impl Contract {
    /// Compiles the contract of a role that answers in `format` with one of the statuses of `output`.
    ///
    /// # Errors
    /// [`InvalidSchema`] for a field whose JSON Schema cannot be compiled. The workflow checker rejects such fields.
    pub fn new(
        format: AnswerFormat,
        output: &Ordered<Status, Ordered<FieldName, Field>>,
    ) -> Result<Self, InvalidSchema> {
        let output = output
            .iter()
            .map(|(status, fields)| {
                let fields = fields.iter().map(|(name, field)| DeclaredField::new(status, name, field));
                Ok((status.clone(), fields.collect::<Result<_, _>>()?))
            })
            .collect::<Result<_, InvalidSchema>>()?;
        Ok(Self { format, output })
    }

    pub fn format(&self) -> AnswerFormat {
        self.format
    }

    pub fn statuses(&self) -> impl Iterator<Item = &Status> {
        self.output.iter().map(|(status, _)| status)
    }

    pub fn only_status(&self) -> Option<&Status> {
        match self.output.as_slice() {
            [(status, _)] => Some(status),
            _ => None,
        }
    }

    /// The JSON Schema for the provider, or `None` for front matter: one object, `status` first, then each field of any
    /// status, then `body`, in declared order, because constrained sampling follows that order.
    pub fn response_format(&self) -> Option<String> {
        (self.format == AnswerFormat::Json).then(|| json::schema(self))
    }

    pub fn parse(&self, text: &str) -> Result<Answer, ContractFault> {
        if text.len() > MAX_ANSWER_BYTES {
            return Err(ContractFault::new(format!("the answer is longer than {} MiB", MAX_ANSWER_BYTES >> 20)));
        }
        match self.format {
            AnswerFormat::Frontmatter => frontmatter::parse(self, text),
            AnswerFormat::Json => json::parse(self, text),
        }
    }

    pub fn check(&self, status: &str, fields: &Value) -> Result<(), ContractFault> {
        let empty = BTreeMap::new();
        let given = match fields {
            Value::Object(members) => members,
            Value::Null => &empty,
            _ => return Err(ContractFault::new("the fields are not an object")),
        };
        let (_, declared) = self.find(status)?;
        let given = given.iter().map(|(name, value)| (name.clone(), Ok(value.clone()))).collect();
        settle(status, declared, given).map(drop)
    }

    /// The text of a model's answer with these values: used for structured answers of scripts. Declared fields come in
    /// declared order, others after them, so that parsing the text reports them.
    pub fn render(&self, status: &str, fields: &Value, body: &str) -> String {
        let empty = BTreeMap::new();
        let given = if let Value::Object(members) = fields { members } else { &empty };
        let declared = self.output.iter().find(|(name, _)| name.as_str() == status).map(|(_, declared)| declared);
        let mut ordered: Vec<(&str, &Value)> = Vec::with_capacity(given.len());
        for field in declared.into_iter().flatten() {
            ordered.extend(given.get_key_value(field.name.as_str()).map(|(name, value)| (name.as_str(), value)));
        }
        for (name, value) in given {
            if !ordered.iter().any(|(known, _)| known == name) {
                ordered.push((name, value));
            }
        }
        match self.format {
            AnswerFormat::Frontmatter => frontmatter::render(status, &ordered, body),
            AnswerFormat::Json => json::render(status, &ordered, body),
        }
    }

    fn find(&self, status: &str) -> Result<(&Status, &[DeclaredField]), ContractFault> {
        match self.output.iter().find(|(name, _)| name.as_str() == status) {
            Some((name, fields)) => Ok((name, fields)),
            None if status.is_empty() => Err(self.missing_status()),
            None => Err(ContractFault::new(format!(
                "`{}` is not a status; `status` must be {}",
                words::excerpt(status),
                words::join(self.statuses().map(Status::as_str), " or ")
            ))),
        }
    }

    fn missing_status(&self) -> ContractFault {
        let choice = words::join(self.statuses().map(Status::as_str), " or ");
        ContractFault::new(format!("`status` is missing; it must be {choice}"))
    }
}

/// The given fields by name: a value, or the reason why it could not be parsed.
type Given = BTreeMap<String, Result<Value, String>>;

fn settle(status: &str, declared: &[DeclaredField], mut given: Given) -> Result<Value, ContractFault> {
    let mut output = BTreeMap::new();
    let mut faults = Vec::new();
    for field in declared {
        let name = field.name.as_str();
        match given.remove(name).map(|read| read.and_then(|value| field.accept(value))) {
            Some(Ok(Some(value))) => {
                output.insert(name.to_owned(), value);
            }
            Some(Err(fault)) => faults.push(fault),
            Some(Ok(None)) => {}
            None if field.optional => {}
            None => faults.push(format!("`{name}` is missing; it must be {}", field.type_words())),
        }
    }
    for name in given.keys().take(MAX_FAULTS + 1) {
        faults.push(unknown_field(name, status, declared));
    }
    if faults.is_empty() { Ok(Value::Object(output)) } else { Err(ContractFault::of(&faults)) }
}

fn unknown_field(name: &str, status: &str, declared: &[DeclaredField]) -> String {
    let names = declared.iter().map(|field| field.name.as_str());
    let shown = words::excerpt(name);
    match nearest(name, names.clone()) {
        Some(near) => format!("`{shown}` is not a field of status `{status}`; write `{near}`"),
        None if declared.is_empty() => format!("`{shown}` is not a field: status `{status}` has none"),
        None => format!("`{shown}` is not a field of status `{status}`, which has {}", words::join(names, " and ")),
    }
}

#[cfg(test)]
mod tests;

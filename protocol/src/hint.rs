//! What to do about a fault, as data: words, and between them operations. Who shows a hint writes the operations in
//! its own way: as a command line, a request, a button.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::id::ThreadId;

/// What to do: its parts in reading order.
///
/// In JSON a list of texts and objects; a text alone is read as well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written")]
#[schemars(with = "Vec<HintPart>")]
pub struct Hint(Vec<HintPart>);

/// A part of a hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HintPart {
    /// Words for people. What stands between backticks is code.
    Words(String),
    /// Something to do.
    Operation(Operation),
}

/// Something that a person or a program can do next. What it does not need is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// What is done.
    pub action: Verb,
    /// The thread that it is done to.
    pub thread: Option<ThreadId>,
    /// What else it is done to: a workflow, a server, a folder.
    pub name: Option<String>,
    /// A choice to make with it, such as `limit`.
    pub key: Option<String>,
    /// The choice's value, such as `steps=6`. In capitals if only a person knows it: `FILE`.
    pub value: Option<String>,
}

/// What can be done: the verbs of the command line, and of the library where it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[strum(serialize_all = "lowercase")]
pub enum Verb {
    /// The same again with another choice.
    Again,
    /// Answers a form.
    Answer,
    /// Copies a store.
    Backup,
    /// Lists batches.
    Batches,
    /// Ends a thread for good.
    Cancel,
    /// Prints the settings in force.
    Doctor,
    /// Writes threads to a file.
    Export,
    /// Begins a second thread that shares the beginning of a first.
    Fork,
    /// Examines a store.
    Fsck,
    /// Writes a workflow to start from.
    Init,
    /// Makes a whole store from what can be read of a damaged one.
    Repair,
    /// Continues a thread.
    Resume,
    /// Deletes threads.
    Rm,
    /// Begins a thread.
    Run,
    /// Shows a thread.
    Show,
    /// Lists threads.
    Threads,
    /// Agrees to what a folder or a workflow asks for.
    Trust,
}

impl Verb {
    /// Its name, as its JSON has it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Operation {
    pub fn new(action: Verb) -> Self {
        Self { action, thread: None, name: None, key: None, value: None }
    }

    pub fn on(action: Verb, thread: &ThreadId) -> Self {
        Self { thread: Some(thread.clone()), ..Self::new(action) }
    }

    /// The same operation on what has this name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The same operation with a choice that has no value.
    #[must_use]
    pub fn choosing(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// The same operation with a choice.
    #[must_use]
    pub fn with(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), ..self.choosing(key) }
    }

    /// What it is done to, in order: the thread, then what has a name.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        self.thread.as_ref().map(ThreadId::as_str).into_iter().chain(self.name.as_deref())
    }
}

impl Hint {
    /// The same hint with more words behind it.
    #[must_use]
    pub fn words(mut self, words: impl Into<String>) -> Self {
        match (self.0.last_mut(), words.into()) {
            (Some(HintPart::Words(before)), words) => before.push_str(&words),
            (_, words) => self.0.push(HintPart::Words(words)),
        }
        self
    }

    /// The same hint with an operation behind it.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> Self {
        self.0.push(HintPart::Operation(operation));
        self
    }

    /// The same hint with another behind it.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        next.0.into_iter().fold(self, |hint, part| match part {
            HintPart::Words(words) => hint.words(words),
            HintPart::Operation(operation) => hint.operation(operation),
        })
    }

    pub fn parts(&self) -> &[HintPart] {
        &self.0
    }

    /// The hint as one text, with operations as `write` has them.
    pub fn written(&self, write: impl Fn(&Operation) -> String) -> String {
        let part = |part: &HintPart| match part {
            HintPart::Words(words) => words.clone(),
            HintPart::Operation(operation) => write(operation),
        };
        self.0.iter().map(part).collect()
    }
}

/// The verb and what it is done to, between backticks.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}", self.action.name())?;
        let choice = [self.key.as_deref(), self.value.as_deref()];
        for word in self.operands().chain(choice.into_iter().flatten()) {
            write!(f, " {word}")?;
        }
        f.write_str("`")
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(Operation::to_string))
    }
}

impl From<String> for Hint {
    fn from(words: String) -> Self {
        Self::default().words(words)
    }
}

impl From<&str> for Hint {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl From<Operation> for Hint {
    fn from(operation: Operation) -> Self {
        Self::default().operation(operation)
    }
}

/// A hint as JSON may have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Parts(Vec<HintPart>),
}

impl From<Written> for Hint {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(words) => words.into(),
            Written::Parts(parts) => Self(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised() -> Hint {
        let thread = ThreadId::new("01k9b6x2e0q8v3m5n7p9r1t4wz").unwrap();
        Hint::from("raise it, then ")
            .operation(Operation::on(Verb::Resume, &thread).with("limit", "steps=6"))
            .words(" continues")
    }

    #[test]
    fn an_operation_is_data_and_each_place_writes_it_in_its_way() {
        let hint = raised();
        assert_eq!(hint.to_string(), "raise it, then `resume 01k9b6x2e0q8v3m5n7p9r1t4wz limit steps=6` continues");
        assert_eq!(
            hint.written(|operation| format!("[{}]", operation.action.name())),
            "raise it, then [resume] continues"
        );
        assert_eq!(Hint::from("a").words("b").then("c".into()).parts(), [HintPart::Words("abc".to_owned())]);
    }

    #[test]
    fn json_is_read_as_written_and_a_text_of_before_too() {
        let json = serde_json::to_string(&raised().parts()).unwrap();
        assert!(
            json.contains(r#"{"action":"resume","thread":"01k9b6x2e0q8v3m5n7p9r1t4wz","name":null,"key":"limit""#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Hint>(&json).unwrap(), raised());
        assert_eq!(
            serde_json::from_str::<Hint>("\"`rondo resume` continues\"").unwrap(),
            "`rondo resume` continues".into()
        );
    }
}

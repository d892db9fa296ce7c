//! Subcommands that hook kinds add to the command line. A kind says what one takes and does; the command line parses
//! arguments, opens the store and prints.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::Note;
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

use super::KeySpace;
use crate::env::Env;
use crate::store::{Read, StoredStep};

/// A subcommand of `rondo`.
pub struct Subcommand {
    /// Its name.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// What it can do.
    pub actions: Vec<Action>,
}

/// One action of a subcommand.
pub struct Action {
    /// Its name.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// What it takes.
    pub arguments: &'static [Argument],
    /// Whether it changes what is kept: then it is done by the process that holds the store.
    pub changes: bool,
    /// Does it.
    pub run: Run,
}

impl Action {
    /// A read-only action.
    pub fn reading(
        name: &'static str,
        about: &'static str,
        arguments: &'static [Argument],
        look: impl Fn(Arguments, &dyn SubcommandContext) -> Result<SubcommandOutput, String> + Send + Sync + 'static,
    ) -> Self {
        let run: Run = Arc::new(move |asked, context| Box::pin(std::future::ready(look(asked, context))));
        Self { name, about, arguments, changes: false, run }
    }

    /// An action that changes the kind's values.
    pub fn writing(
        name: &'static str,
        about: &'static str,
        arguments: &'static [Argument],
        change: impl for<'a> Fn(Arguments, &'a dyn SubcommandContext) -> BoxFuture<'a, Result<SubcommandOutput, String>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { name, about, arguments, changes: true, run: Arc::new(change) }
    }
}

/// Carries out an action and returns its output.
pub type Run = Arc<
    dyn for<'a> Fn(Arguments, &'a dyn SubcommandContext) -> BoxFuture<'a, Result<SubcommandOutput, String>>
        + Send
        + Sync,
>;

/// What an action takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name: of a flag without dashes.
    pub name: &'static str,
    /// The placeholder of its value in the help.
    pub value: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether it is positional; positional arguments are required.
    pub is_positional: bool,
}

impl Argument {
    /// A flag with a value.
    pub const fn flag(name: &'static str, value: &'static str, about: &'static str) -> Self {
        Self { name, value, about, is_positional: false }
    }

    /// A positional argument.
    pub const fn positional(name: &'static str, value: &'static str, about: &'static str) -> Self {
        Self { name, value, about, is_positional: true }
    }
}

/// The arguments of an action, by name.
pub type Arguments = BTreeMap<String, String>;

/// What an action works with.
pub trait SubcommandContext: Send + Sync {
    /// The kind's own keys and values.
    fn space(&self) -> &KeySpace;

    /// The threads and their steps.
    fn store(&self) -> &dyn Read;

    /// Time.
    fn env(&self) -> &dyn Env;

    /// The thread that a word means: an id, a prefix of one, or `last`.
    ///
    /// # Errors
    /// That there is none, or more than one.
    fn thread(&self, word: &str) -> Result<ThreadId, String>;

    /// Replays the calls of a thread, in order, through this kind's nodes with a port that returns the recorded replies.
    /// No provider or tool is called and the thread is unchanged. Returns the number of calls.
    ///
    /// # Errors
    /// When the thread cannot be read, or what the operator has set does not fit it.
    fn replay<'a>(&'a self, thread: &'a ThreadId) -> BoxFuture<'a, Result<u64, String>>;
}

/// What an action says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubcommandOutput {
    /// For people: whole lines.
    pub text: String,
    /// For programs: one object a line.
    pub lines: Vec<Value>,
}

/// By which an action names a step.
pub const STEP: Argument = Argument::positional("step", "STEP", "A step: THREAD:SEQ, last:SEQ, or its digest");

/// The step that an action was asked about, with its thread and note.
///
/// # Errors
/// That the word means none, or that the store cannot be read.
pub fn step(asked: &Arguments, context: &dyn SubcommandContext) -> Result<(ThreadId, StoredStep, Note), String> {
    let word = asked.get(STEP.name).map(String::as_str).unwrap_or_default();
    let unclear = || format!("{word:?} is no step: give THREAD:SEQ, last:SEQ, or the digest of a step");
    let (thread, seq) = if let Some(digest) = Digest::from_hex(word) {
        let places = context.store().locate(digest).map_err(|error| error.to_string())?;
        places.into_iter().next().ok_or_else(unclear)?
    } else {
        let (thread, seq) = word.rsplit_once(':').ok_or_else(unclear)?;
        (context.thread(thread)?, seq.parse().map_err(|_| unclear())?)
    };
    let found = context.store().step(&thread, seq).map_err(|error| error.to_string())?;
    let (stored, note) = found.ok_or_else(|| format!("thread {thread} has no step {seq}"))?;
    Ok((thread, stored, note))
}

/// Whether a node is one of a kind, by its name as [`Registry::nodes`](super::Registry::nodes) forms it: the kind, with a
/// number where it is used more than once, or behind `imposed_`, a number and `_`.
pub fn is_node_of(kind: &str, node: &str) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let imposed = node.strip_prefix("imposed_").and_then(|rest| rest.split_once('_'));
    if imposed.is_some_and(|(number, rest)| is_number(number) && rest == kind) {
        return true;
    }
    let rest = node.strip_prefix(kind);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('_').is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::is_node_of;

    #[test]
    fn a_node_is_of_a_kind_by_its_name_and_a_number_alone() {
        for node in ["log", "log_2", "log_12", "imposed_1_log"] {
            assert!(is_node_of("log", node), "{node}");
        }
        for node in ["", "lo", "logs", "log_", "log_x", "log_2_3", "log_more", "my_log", "log-2", "imposed_log"] {
            assert!(!is_node_of("log", node), "{node}");
        }
    }
}

//! The errors of the store.

use std::borrow::Cow;

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Deserializer, Serialize};

use super::keys::Family;

/// What helps where a store is damaged.
pub fn if_damaged() -> Hint {
    let named = Hint::from(Operation::new(Verb::Fsck)).words(" names everything that is damaged; ");
    named.operation(Operation::new(Verb::Repair)).words(" makes a whole store from the rest")
}

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The row has another version than expected: another commit was first.
    #[error("thread {thread} was changed by another run")]
    Conflict {
        /// The thread.
        thread: ThreadId,
    },
    /// The input breaks a rule of the store. Nothing of it is stored, and nothing else is affected.
    #[error("the store refuses what it was given: {what}")]
    Malformed {
        /// The rule.
        what: String,
    },
    /// A stored value does not match its digest, cannot be read, or is missing.
    #[error("the store is damaged: {}", .0.what)]
    Damaged(Box<Damage>),
    /// An earlier sync failed; whether the last commits are stored is unknown until the store is reopened.
    #[error("the store could not write: {what}; what was written last is unknown until the store is opened again")]
    Poisoned {
        /// What failed.
        what: String,
    },
    /// Another process holds the store.
    #[error("the store is in use by process {pid}")]
    Busy {
        /// The holder's process id; 0 if unknown.
        pid: u32,
    },
    /// Another import began, or the store was opened anew, before an import was complete. Nothing of it is visible.
    #[error("the import was ended by another one, or the store was opened anew before it was complete")]
    ImportEnded,
    /// An import is under way: what it has written is named when it ends.
    #[error("an import is under way, or was interrupted; what it has written is not named by a thread yet")]
    ImportUnderWay,
    /// Another collection of garbage began, or the store was opened anew, before a collection was complete.
    #[error("the collection of garbage was ended by another one, or the store was opened anew")]
    CollectionEnded,
    /// The folder or a file in it cannot be used.
    #[error("{path}: {what}")]
    Io {
        /// The path.
        path: String,
        /// The system's error.
        what: String,
    },
    /// An entry of the store's folder could redirect reads or writes, or belongs to another user.
    #[error("{path} {what}; a store holds plain files of its user and nothing else")]
    Unsafe {
        /// The path.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// This handle is read-only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store was written by a version with another format.
    #[error("the store has format {found}; this version of rondo reads format {known}")]
    Format {
        /// The format found.
        found: u32,
        /// The newest supported format.
        known: u32,
    },
    /// A value was written by a newer version.
    #[error("a stored {form} has version {found}; this version of rondo reads up to {known}")]
    Version {
        /// The kind of value.
        form: Cow<'static, str>,
        /// The version found.
        found: u8,
        /// The newest supported version.
        known: u8,
    },
}

impl Error {
    /// The code, which has a documentation page.
    pub fn code(&self) -> Code {
        match self {
            Self::Conflict { .. } | Self::ImportEnded | Self::CollectionEnded => Code::StoreConflict,
            Self::Damaged(damage) => damage.code,
            Self::Poisoned { .. } => Code::StorePoisoned,
            Self::Busy { .. } | Self::ImportUnderWay => Code::StoreBusy,
            Self::Io { .. } => Code::StoreUnusable,
            Self::Unsafe { .. } => Code::StoreUnsafe,
            Self::ReadOnly => Code::StoreReadOnly,
            Self::Format { .. } | Self::Version { .. } => Code::StoreFormat,
            Self::Malformed { .. } => Code::StoreRefused,
        }
    }

    /// The error of the system about a file.
    pub fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), what: error.to_string() }
    }

    /// Adds the location of a damaged value, if it has none yet.
    #[must_use]
    pub fn at(self, family: Family, key: &[u8], thread: Option<&ThreadId>) -> Self {
        let Self::Damaged(mut damage) = self else { return self };
        if damage.key.is_none() {
            damage.family = Some(family.name().into());
            damage.key = Some(key.to_vec());
        }
        if damage.thread.is_none() {
            damage.thread = thread.cloned();
        }
        Self::Damaged(damage)
    }
}

/// What is damaged, and its location if known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The code, which has a documentation page.
    #[serde(deserialize_with = "code_by_name")]
    pub code: Code,
    /// The file, if known, relative to the folder of the store.
    pub file: Option<String>,
    /// The column family.
    pub family: Option<Cow<'static, str>>,
    /// The key in it.
    pub key: Option<Vec<u8>>,
    /// The damaged object or step.
    pub object: Option<Digest>,
    /// Its thread; `None` if unknown, as for an object that may belong to several.
    pub thread: Option<ThreadId>,
    /// A description for people.
    pub what: String,
}

impl Damage {
    /// Damage at an unknown location.
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { code: Code::StoreDamaged, file: None, family: None, key: None, object: None, thread: None, what }
    }

    /// Sets the file.
    #[must_use]
    pub fn in_file(self, file: impl Into<String>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Sets the thread.
    #[must_use]
    pub fn of_thread(self, thread: &ThreadId) -> Self {
        Self { thread: Some(thread.clone()), ..self }
    }

    /// Sets the object or step.
    #[must_use]
    pub fn of_object(self, digest: Digest) -> Self {
        Self { object: Some(digest), ..self }
    }

    /// Sets the family and key.
    #[must_use]
    pub fn at(self, family: Family, key: &[u8]) -> Self {
        Self { family: Some(family.name().into()), key: Some(key.to_vec()), ..self }
    }
}

fn code_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
    Ok(Code::find(&String::deserialize(deserializer)?).unwrap_or(Code::StoreDamaged))
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::new(error.code(), FaultClass::Store, error.to_string())
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}

//! Why the store did not do what was asked.

use std::borrow::Cow;

use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Deserializer, Serialize};

use super::keys::Family;

/// Why the store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The row has another version than expected: another commit came first.
    #[error("thread {thread} was changed by another run")]
    Conflict {
        /// Which thread.
        thread: ThreadId,
    },
    /// The input breaks a rule of the store. Nothing of it is stored, and nothing else is affected.
    #[error("the store refuses what it was given: {what}")]
    Malformed {
        /// Which rule.
        what: String,
    },
    /// A stored thing is not what its digest says, cannot be read, or is missing.
    #[error("the store is damaged: {}", .0.what)]
    Damaged(Box<Damage>),
    /// A sync failed before; whether the last commits are stored is unknown until the store is opened anew.
    #[error("the store could not write: {what}; what was written last is unknown until the store is opened again")]
    Poisoned {
        /// What failed.
        what: String,
    },
    /// Another process holds the store.
    #[error("the store is in use by process {pid}")]
    Busy {
        /// Of the holder; 0 if unknown.
        pid: u32,
    },
    /// The folder or a file in it cannot be used.
    #[error("{path}: {what}")]
    Io {
        /// Which path.
        path: String,
        /// What the system says.
        what: String,
    },
    /// Something in the store's folder could make this process read or write elsewhere, or belongs to another user.
    #[error("{path} {what}; a store holds plain files of its user and nothing else")]
    Unsafe {
        /// Which path.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// This handle only reads.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store was written by a version with another format.
    #[error("the store has format {found}; this version of rondo reads format {known}")]
    Format {
        /// What is there.
        found: u32,
        /// What is understood.
        known: u32,
    },
    /// A value was written by a newer version.
    #[error("a stored {form} has version {found}; this version of rondo reads up to {known}")]
    Version {
        /// Which kind of value.
        form: Cow<'static, str>,
        /// What is there.
        found: u8,
        /// What is understood.
        known: u8,
    },
}

impl Error {
    /// The code, which has a page.
    pub fn code(&self) -> Code {
        match self {
            Self::Conflict { .. } => Code::StoreConflict,
            Self::Damaged(damage) => damage.code,
            Self::Poisoned { .. } => Code::StorePoisoned,
            Self::Busy { .. } => Code::StoreBusy,
            Self::Io { .. } => Code::StoreUnusable,
            Self::Unsafe { .. } => Code::StoreUnsafe,
            Self::ReadOnly => Code::StoreReadOnly,
            Self::Format { .. } | Self::Version { .. } => Code::StoreFormat,
            Self::Malformed { .. } => Code::StoreRefused,
        }
    }

    pub(super) fn io(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), what: error.to_string() }
    }
}

/// What is damaged, and where it lies as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// The code, which has a page.
    #[serde(deserialize_with = "code_by_name")]
    pub code: Code,
    /// The file, where it is known, below the folder of the store.
    pub file: Option<String>,
    /// The column family.
    pub family: Option<Cow<'static, str>>,
    /// The key in it.
    pub key: Option<Vec<u8>>,
    /// The object or step that is damaged.
    pub object: Option<Digest>,
    /// The thread that it belongs to; an object may belong to several, and then this is `None`.
    pub thread: Option<ThreadId>,
    /// What is wrong, for people.
    pub what: String,
}

impl Damage {
    /// Damage of which nothing more is known.
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { code: Code::StoreDamaged, file: None, family: None, key: None, object: None, thread: None, what }
    }

    /// It lies in that file.
    #[must_use]
    pub fn in_file(self, file: impl Into<String>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// It belongs to that thread.
    #[must_use]
    pub fn of_thread(self, thread: &ThreadId) -> Self {
        Self { thread: Some(thread.clone()), ..self }
    }

    /// It is that object or step.
    #[must_use]
    pub fn of_object(self, digest: Digest) -> Self {
        Self { object: Some(digest), ..self }
    }

    /// It has that key.
    #[must_use]
    pub(super) fn at(self, family: Family, key: &[u8]) -> Self {
        Self { family: Some(family.name().into()), key: Some(key.to_vec()), ..self }
    }
}

fn code_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
    Ok(Code::find(&String::deserialize(deserializer)?).unwrap_or(Code::StoreDamaged))
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(Box::new(damage))
    }
}

impl Error {
    /// Adds the location of a damaged value, if it has none yet.
    #[must_use]
    pub(super) fn at(self, family: Family, key: &[u8], thread: Option<&ThreadId>) -> Self {
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

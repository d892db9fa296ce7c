//! Writes, encoded and checked as far as possible without the stored state: the caller does this work, so that the
//! writer, which all callers wait for, does not.

use futures_util::future::{self, BoxFuture};
use rondo_protocol::event::Durability;
use rondo_protocol::id::{BatchId, LanePath, ThreadId};
use serde::{Deserialize, Serialize};

use super::CommitHeader;
use super::collect::CollectWrite;
use super::import::ImportWrite;
use super::keys::{self, Family};
use super::tables::{Change, Tables};
use super::{Commit, Error, JournalRecord, MAX_COMMIT_BYTES, MAX_NAME_BYTES, NewStep, codec};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Write {
    Commit {
        commit: Box<EncodedCommit>,
        /// Whether it must be on the device before it is acknowledged.
        sync: bool,
    },
    Records {
        thread: ThreadId,
        records: Vec<JournalRecord>,
        /// Whether they must be on the device before they are acknowledged.
        sync: bool,
    },
    /// Changes to values that belong to no thread. Without `sync` nothing depends on them.
    Changes {
        changes: Vec<Change>,
        sync: bool,
    },
    Import(Box<ImportWrite>),
    Collect(CollectWrite),
    /// Threads to delete, each with the version of its row, and the lines of batches that change with that.
    Delete {
        threads: Vec<(ThreadId, u64)>,
        lines: Vec<Change>,
        /// Whether it must be on the device before it is acknowledged.
        sync: bool,
    },
}

impl Write {
    pub(crate) fn commit(commit: Commit, durability: Durability) -> Result<Self, Error> {
        let commit = Box::new(EncodedCommit::new(commit)?);
        Ok(Self::Commit { commit, sync: durability == Durability::Sync })
    }

    /// Checks that journal records are not too large.
    pub(crate) fn records(thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> Result<Self, Error> {
        if records.iter().any(|record| record.lane.as_str().len() > MAX_NAME_BYTES)
            || records.iter().map(|record| record.bytes.len()).sum::<usize>() > MAX_COMMIT_BYTES
        {
            return Err(Error::Malformed { what: format!("thread {thread}: journal records are too large") });
        }
        Ok(Self::Records { thread, records, sync })
    }

    /// Encodes a value of a hook's private key space; `None` deletes it.
    pub(crate) fn hook_value(space: &str, key: &[u8], value: Option<&[u8]>) -> Result<Self, Error> {
        let malformed = || Error::Malformed { what: "the name of a hook's key space is too long".to_owned() };
        let key = keys::hook(space, key).ok_or_else(malformed)?;
        let value = value.map(|value| codec::write_bytes(codec::HOOK, value));
        Ok(Self::Changes { changes: vec![Change { family: Family::Hooks, key, value }], sync: false })
    }

    /// Encodes lines of a batch, and the batch itself if there is one.
    pub(crate) fn batch(batch: &BatchId, lines: &[(u32, Vec<u8>)], record: Option<&[u8]>, sync: bool) -> Self {
        let lines = lines.iter().map(|(line, bytes)| batch_line(batch, *line, bytes));
        let changes = lines.chain(record.map(|record| self::batch(batch, record)));
        Self::Changes { changes: changes.collect(), sync }
    }

    /// Its thread. Writes of one thread keep their order; a deletion follows what was acknowledged.
    pub(crate) fn thread(&self) -> Option<&ThreadId> {
        match self {
            Self::Commit { commit, .. } => Some(&commit.header.thread),
            Self::Records { thread, .. } => Some(thread),
            Self::Delete { .. } | Self::Import(_) | Self::Collect(_) | Self::Changes { .. } => None,
        }
    }

    /// The thread whose row it writes, and the row's version after it.
    pub(crate) fn row(&self) -> Option<(&ThreadId, u64)> {
        let Self::Commit { commit, .. } = self else { return None };
        Some((&commit.header.thread, commit.header.version))
    }

    /// Whether it is known to be stored already. Journal records, changes and those of a collection can be written again.
    pub(crate) fn is_stored(&self, store: &impl Tables) -> Result<bool, Error> {
        match self {
            Self::Commit { commit, .. } => commit.is_stored(store),
            Self::Delete { threads, .. } => {
                for (thread, _) in threads {
                    if store.get(Family::Threads, &keys::row(thread))?.is_some() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Import(import) => import.is_stored(store),
            Self::Records { .. } | Self::Collect(_) | Self::Changes { .. } => Ok(false),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Commit { commit, .. } => size_of_changes(&commit.changes),
            Self::Records { records, .. } => records.iter().map(|record| record.bytes.len()).sum(),
            Self::Delete { threads, lines, .. } => size_of_val(threads.as_slice()) + size_of_changes(lines),
            Self::Import(import) => import.size_bytes(),
            Self::Collect(collect) => collect.size_bytes(),
            Self::Changes { changes, .. } => size_of_changes(changes),
        }
    }
}

pub(crate) fn size_of_changes(changes: &[Change]) -> usize {
    changes.iter().map(Change::size_bytes).sum()
}

/// A commit as table changes. A log elsewhere holds it in this form (`replicated.rs`).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EncodedCommit {
    pub(crate) header: CommitHeader,
    /// Everything that it writes and deletes, except journals.
    pub(crate) changes: Vec<Change>,
    pub(crate) clear_journal: Vec<LanePath>,
    pub(crate) closed: Vec<LanePath>,
    /// The bytes that the ledger's chain hashes for it: the row's key and version, and the step's digest or zeros.
    pub(crate) link: Vec<u8>,
}

impl EncodedCommit {
    pub(crate) fn new(commit: Commit) -> Result<Self, Error> {
        commit.check()?;
        let header = commit.header();
        let Commit { thread, row, step, objects, lanes, lists, clear_journal, expected: _ } = commit;
        let mut changes = Vec::with_capacity(5 + objects.len() + lanes.len() + lists.len());
        let mut change = |family, key, value| changes.push(Change { family, key, value });
        for (kind, digest, bytes) in objects {
            change(Family::Objects, keys::object(digest), Some(codec::write_object(kind, &bytes)));
        }
        let row_key = keys::row(&thread);
        let digest = step.as_ref().map_or([0; 32], |step| step.digest.0);
        let link = [&row_key[..], &row.version.to_be_bytes(), &digest].concat();
        if let Some(step) = step {
            for Change { family, key, value } in self::step(&thread, &step)? {
                change(family, key, value);
            }
        }
        let mut closed = Vec::new();
        for (lane, row) in lanes {
            change(Family::Threads, keys::lane(&thread, &lane), row.as_ref().map(codec::write_lane));
            if row.is_none() {
                closed.push(lane);
            }
        }
        for (opened_by, list) in lists {
            let value = list.map(|list| codec::write_bytes(codec::LIST, &list));
            change(Family::Threads, keys::list(&thread, opened_by), value);
        }
        change(Family::Threads, row_key, Some(codec::write_row(&row)));
        Ok(Self { header, changes, clear_journal, closed, link })
    }

    /// Whether it is stored: its step, which never changes, or without one exactly its row.
    fn is_stored(&self, store: &impl Tables) -> Result<bool, Error> {
        let row = keys::row(&self.header.thread);
        let Some(stored) = store.get(Family::Threads, &row)? else { return Ok(false) };
        if codec::read_row_end(&stored)?.0 < self.header.version {
            return Ok(false);
        }
        let step = self.changes.iter().find(|change| change.family == Family::Steps);
        match step.or(self.changes.last()) {
            Some(Change { family, key, value }) => Ok(store.get(*family, key)? == *value),
            None => Ok(false),
        }
    }
}

/// A step with its note and what finds it.
pub(crate) fn step(thread: &ThreadId, step: &NewStep) -> Result<Vec<Change>, Error> {
    let (digest, seq) = (step.digest, step.seq);
    let change = |family, key, value| Change { family, key, value: Some(value) };
    let mut changes = vec![
        change(Family::Steps, keys::step(thread, seq), codec::write_step(digest, step.visit(), &step.bytes)),
        change(Family::Notes, keys::note(thread, seq), codec::write_note(&step.note)?),
        change(Family::Index, keys::place(digest, thread, seq), Vec::new()),
    ];
    let found_by = step.found_by.as_ref();
    changes.extend(found_by.map(|key| change(Family::Index, keys::visit(thread, key), codec::write_seq(seq))));
    Ok(changes)
}

/// Adds the deletion of an entry, and that of what finds it if it is a step.
pub(crate) fn delete(changes: &mut Vec<Change>, family: Family, key: &[u8], value: &[u8]) -> Result<(), Error> {
    if family == Family::Steps
        && let (Some(thread), Some(seq)) = (keys::thread_of(key), keys::seq(key))
    {
        let step = codec::read_step(value).map_err(|error| error.at(family, key, Some(&thread)))?;
        changes.push(Change { family: Family::Index, key: keys::place(step.digest, &thread, seq), value: None });
    }
    changes.push(Change { family, key: key.to_vec(), value: None });
    Ok(())
}

pub(crate) fn batch_line(batch: &BatchId, line: u32, bytes: &[u8]) -> Change {
    let value = Some(codec::write_bytes(codec::BATCH_LINE, bytes));
    Change { family: Family::Threads, key: keys::batch_line(batch, line), value }
}

pub(crate) fn batch(batch: &BatchId, record: &[u8]) -> Change {
    let value = Some(codec::write_bytes(codec::BATCH, record));
    Change { family: Family::Threads, key: keys::batch(batch), value }
}

pub(crate) fn record(thread: &ThreadId, record: &JournalRecord) -> Change {
    let key = keys::record(thread, &record.lane, record.position);
    Change { family: Family::Journal, key, value: Some(codec::write_bytes(codec::RECORD, &record.bytes)) }
}

/// A store that accepts encoded writes; `step_store` makes it a [`StepStore`](rondo_core::store::StepStore).
pub(crate) trait WriteStore: Tables {
    /// Carries out a write after all earlier ones of its thread, even if the future is never polled.
    fn submit(&self, write: Write) -> BoxFuture<'_, Result<(), Error>>;

    /// The durability of an acknowledged commit.
    fn durability(&self) -> Durability;

    /// Whether there is room for more than what is in flight.
    fn has_room(&self) -> bool;
}

macro_rules! step_store {
    ($store:ty $(, $parameter:ident: $bound:path)?) => {
        const _: () = {
            use futures_util::future::BoxFuture;
            use rondo_core::store::{Commit, Deletion, Error, JournalRecord, StepStore};
            use rondo_protocol::event::Durability;
            use rondo_protocol::id::{BatchId, ThreadId};
            use $crate::write::{Write, WriteStore, batch_line, submit};

            impl$(<$parameter: $bound>)? StepStore for $store {
                fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
                    submit(self, Write::commit(commit, WriteStore::durability(self)))
                }

                fn delete(&self, Deletion { threads, lines }: Deletion) -> BoxFuture<'_, Result<(), Error>> {
                    let lines = lines.iter().map(|(batch, line, bytes)| batch_line(batch, *line, bytes)).collect();
                    let sync = WriteStore::durability(self) == Durability::Sync;
                    WriteStore::submit(self, Write::Delete { threads, lines, sync })
                }

                fn record(
                    &self,
                    thread: ThreadId,
                    records: Vec<JournalRecord>,
                    sync: bool,
                ) -> BoxFuture<'_, Result<(), Error>> {
                    let sync = sync && WriteStore::durability(self) == Durability::Sync;
                    submit(self, Write::records(thread, records, sync))
                }

                fn put_hook_value(
                    &self,
                    space: &str,
                    key: Vec<u8>,
                    value: Option<Vec<u8>>,
                ) -> BoxFuture<'_, Result<(), Error>> {
                    submit(self, Write::hook_value(space, &key, value.as_deref()))
                }

                fn put_batch(
                    &self,
                    batch: &BatchId,
                    lines: Vec<(u32, Vec<u8>)>,
                    record: Option<Vec<u8>>,
                ) -> BoxFuture<'_, Result<(), Error>> {
                    let sync = WriteStore::durability(self) == Durability::Sync;
                    WriteStore::submit(self, Write::batch(batch, &lines, record.as_deref(), sync))
                }

                fn durability(&self) -> Durability {
                    WriteStore::durability(self)
                }

                fn has_room(&self) -> bool {
                    WriteStore::has_room(self)
                }
            }
        };
    };
}
pub(crate) use step_store;

pub(crate) fn submit<T: WriteStore>(store: &T, write: Result<Write, Error>) -> BoxFuture<'_, Result<(), Error>> {
    match write {
        Ok(write) => store.submit(write),
        Err(error) => Box::pin(future::ready(Err(error))),
    }
}

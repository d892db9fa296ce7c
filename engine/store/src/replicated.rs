//! A store whose writes are durable in a log elsewhere. It is a copy of that log to read from.
//!
//! Laws. A write of a thread goes to the log first and is written here when it comes back, so that nothing is here that
//! is not in the log. Entries are written in order, each once: a crash between an entry and its numbers leaves one that
//! is written again, and then changes nothing. Nothing is synced here, because a copy that lost its end reads the log
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use crate::shared_store::SharedStore;
use crate::write::EncodedCommit;
use crate::{
    CancelOutcome, Commit, Damage, Error, Family, JournalRecord, Read, Replica, Row, StepStore, Tables, ThreadDrivers,
    ThreadLocks, Visited, Write, WriteLog, WriteStore, keys,
};

/// The version of a write in a log. A reader knows older ones.
const VERSION: u8 = 1;

/// The key space of the number of entries that a store holds, by the thread at the root.
const POSITIONS: &str = "replica";

/// A write as a log holds it, after its version, in postcard's encoding.
#[derive(Debug, Serialize, Deserialize)]
enum LoggedWrite {
    Commit(Box<EncodedCommit>),
    Records { thread: ThreadId, records: Vec<JournalRecord> },
}

impl LoggedWrite {
    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        postcard::to_extend(self, vec![VERSION]).map_err(|error| Error::Malformed { what: error.to_string() })
    }

    fn read(bytes: &[u8]) -> Result<Write, Error> {
        let damaged = |what: String| Error::from(Damage::new(format!("an entry of the log is no write: {what}")));
        let (version, rest) = bytes.split_first().ok_or_else(|| damaged("it is empty".to_owned()))?;
        if *version != VERSION {
            return Err(Error::Version { form: "write in a log".into(), found: *version, known: VERSION });
        }
        Ok(match postcard::from_bytes(rest).map_err(|error| damaged(error.to_string()))? {
            Self::Commit(commit) => Write::Commit { commit, sync: false },
            Self::Records { thread, records } => Write::Records { thread, records, sync: false },
        })
    }
}

/// A commit as a log holds it, for whoever begins a thread.
///
/// # Errors
/// [`Error::Malformed`] if the store would refuse it.
pub fn logged(commit: Commit) -> Result<Vec<u8>, Error> {
    LoggedWrite::Commit(Box::new(EncodedCommit::new(commit)?)).to_bytes()
}

/// The most threads above one that are looked for: more than children are nested.
const MAX_ABOVE: usize = 64;

/// How long to wait before a root that is being written is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(2);

/// A store that holds what it was given of logs. Several processes may bring one up to the same log.
#[derive(Clone)]
pub struct Copied<S = SharedStore> {
    pub store: S,
    roots: Arc<Roots>,
}

/// The roots whose entries are being written, in this process and in others.
struct Roots {
    here: Mutex<BTreeSet<ThreadId>>,
    locks: ThreadLocks,
}

/// A root that nobody else writes entries of, until dropped.
struct RootLease<'a> {
    roots: &'a Roots,
    root: &'a ThreadId,
}

impl Roots {
    fn take<'a>(&'a self, root: &'a ThreadId) -> Option<RootLease<'a>> {
        if !self.here.lock().insert(root.clone()) {
            return None;
        }
        let lease = RootLease { roots: self, root };
        self.locks.take(&lock_of(root)).then_some(lease)
    }
}

impl Drop for RootLease<'_> {
    fn drop(&mut self) {
        self.roots.locks.release(&lock_of(self.root));
        self.roots.here.lock().remove(self.root);
    }
}

/// The lock of a root's entries, which is not that of who drives the thread.
fn lock_of(root: &ThreadId) -> ThreadId {
    let bits = u128::from_be_bytes(keys::thread_bytes(root)) ^ 1 << 60;
    keys::thread(bits.to_be_bytes())
}

impl Copied {
    pub fn new(store: SharedStore) -> Self {
        let roots = Roots { here: Mutex::default(), locks: ThreadLocks::of(store.folder()) };
        Self { store, roots: Arc::new(roots) }
    }
}

#[expect(private_bounds, reason = "what a store writes is this crate's own")]
impl<S: WriteStore + StepStore> Copied<S> {
    async fn apply_all(&self, root: &ThreadId, pieces: Range<u64>, writes: Vec<Vec<u8>>) -> Result<(), Error> {
        let _lease = loop {
            match self.roots.take(root) {
                Some(lease) => break lease,
                None => tokio::time::sleep(RETRY_DELAY).await,
            }
        };
        let position = self.position(root)?;
        if pieces.end <= position {
            return Ok(());
        }
        if pieces.start > position {
            let what =
                format!("the log of thread {root} goes on at piece {}; the store holds {position}", pieces.start);
            return Err(Damage::new(what).of_thread(root).into());
        }
        let writes: Vec<Write> = writes.iter().map(|write| LoggedWrite::read(write)).collect::<Result<_, _>>()?;
        // What a thread wrote before a commit that is here is here too, and records would come back that it has cleared.
        let mut stored: BTreeMap<ThreadId, usize> = BTreeMap::new();
        for (number, write) in writes.iter().enumerate() {
            if let Some(thread) = write.thread().filter(|_| matches!(write, Write::Commit { .. }))
                && write.is_stored(&self.store)?
            {
                stored.insert(thread.clone(), number);
            }
        }
        let position = Write::hook_value(POSITIONS, root.as_str().as_bytes(), Some(&pieces.end.to_be_bytes()))?;
        let (mut position, count) = (Some(position), writes.len());
        for (number, mut write) in writes.into_iter().enumerate() {
            let is_stored = write.thread().and_then(|thread| stored.get(thread)).is_some_and(|last| number <= *last);
            if is_stored {
                continue;
            }
            // The last commit of an entry brings the number with it: one write instead of two.
            if let Write::Commit { commit, .. } = &mut write
                && number + 1 == count
                && let Some(Write::Changes { changes, .. }) = position.take()
            {
                commit.changes.splice(0..0, changes);
            }
            self.store.submit(write).await.map_err(|error| diverged(root, error))?;
        }
        match position {
            Some(position) => self.store.submit(position).await,
            None => Ok(()),
        }
    }
}

fn diverged(root: &ThreadId, error: Error) -> Error {
    match error {
        Error::Conflict { thread } => {
            let what = format!("the log of thread {root} does not continue what the store holds of thread {thread}");
            Damage::new(what).of_thread(root).into()
        }
        other => other,
    }
}

impl<S: WriteStore + StepStore> Replica for Copied<S> {
    fn position(&self, root: &ThreadId) -> Result<u64, Error> {
        let stored = self.store.hook_value(POSITIONS, root.as_str().as_bytes())?;
        let Some(bytes) = stored else { return Ok(0) };
        let bytes = bytes.try_into().map_err(|_| Damage::new("the number of entries of a log is no number"))?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn apply<'a>(
        &'a self,
        root: &'a ThreadId,
        pieces: Range<u64>,
        writes: Vec<Vec<u8>>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.apply_all(root, pieces, writes))
    }
}

/// Whether a store is a copy of logs: who drives its threads is then not known to it.
pub fn is_copy(store: &(impl Read + ?Sized)) -> Result<bool, Error> {
    Ok(!store.hook_values(POSITIONS, &[], 1)?.is_empty())
}

/// A store whose threads are written to a log.
#[derive(Clone)]
pub struct ReplicatedStore<S = SharedStore> {
    local: S,
    log: Arc<dyn WriteLog>,
}

impl<S> ReplicatedStore<S> {
    pub fn new(local: S, log: Arc<dyn WriteLog>) -> Self {
        Self { local, log }
    }
}

impl<S: Read> ReplicatedStore<S> {
    /// The threads above one, the nearest first: `needs` of a new one, and those that are stored.
    fn above(&self, thread: &ThreadId, needs: Vec<ThreadId>) -> Vec<ThreadId> {
        let mut above = needs;
        // What cannot be read here is refused by the log, which then knows no tree for it.
        while above.len() < MAX_ABOVE
            && let Ok(Some(Row { parent: Some(parent), .. })) = self.local.row(above.last().unwrap_or(thread))
        {
            above.push(parent.thread);
        }
        above
    }
}

impl<S: WriteStore> WriteStore for ReplicatedStore<S> {
    fn submit(&self, write: Write) -> BoxFuture<'_, Result<(), Error>> {
        let (logged, needs, urgent) = match write {
            Write::Commit { commit, .. } => {
                let needs = commit.header.needs.clone();
                (LoggedWrite::Commit(commit), needs, true)
            }
            Write::Records { thread, records, sync } => (LoggedWrite::Records { thread, records }, Vec::new(), sync),
            // What belongs to no thread is this store's own.
            other => return self.local.submit(other),
        };
        let thread = match &logged {
            LoggedWrite::Commit(commit) => &commit.header.thread,
            LoggedWrite::Records { thread, .. } => thread,
        };
        let above = if self.log.knows(thread) { Vec::new() } else { self.above(thread, needs) };
        match logged.to_bytes() {
            Ok(bytes) => self.log.append(thread, &above, bytes, urgent),
            Err(error) => Box::pin(future::ready(Err(error))),
        }
    }

    fn durability(&self) -> Durability {
        Durability::Sync
    }

    fn has_room(&self) -> bool {
        WriteStore::has_room(&self.local)
    }
}

crate::step_store!(ReplicatedStore<S>, S: WriteStore);

impl<S: Tables> Tables for ReplicatedStore<S> {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.local.get(family, key)
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        self.local.range(family, keys, visit)
    }
}

impl ThreadDrivers for ReplicatedStore {
    fn drive(&self, thread: &ThreadId) -> Result<bool, Error> {
        self.local.drive(thread)
    }

    fn release(&self, thread: &ThreadId) {
        self.local.release(thread);
    }

    fn cancel(&self, thread: &ThreadId) -> Result<CancelOutcome, Error> {
        self.local.cancel(thread)
    }
}

#[cfg(test)]
mod tests;

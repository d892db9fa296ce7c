//! The write path without RocksDB and without a thread: the writer's own queue and loop over a device in memory, which
//! refuses, breaks off and loses what it is told to. For the simulation (`crate::simulation`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{self, BoxFuture};
use rondo_protocol::event::Durability;
use tokio::sync::{Notify, oneshot};

use super::super::super::anchor::{self, AnchorState};
use super::super::super::check::{self, Fault};
use super::super::super::keys::Family;
use super::super::super::manifest::Position;
use super::super::super::rocks::Remnants;
use super::super::super::tables::{Change, Tables, Visited};
use super::super::super::write::WriteStore;
use super::super::queue::{Admission, Work};
use super::super::writer_loop::WriterLoop;
use super::super::*;

/// The entries of tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents(BTreeMap<(Family, Vec<u8>), Vec<u8>>);

impl Contents {
    pub(super) fn keys(&self) -> impl Iterator<Item = &(Family, Vec<u8>)> {
        self.0.keys()
    }

    pub(super) fn apply(&mut self, changes: &[Change]) {
        for Change { family, key, value } in changes {
            match value {
                Some(value) => self.0.insert((*family, key.clone()), value.clone()),
                None => self.0.remove(&(*family, key.clone())),
            };
        }
    }

    /// What `rondo fsck` finds in them.
    pub(crate) fn faults(&self) -> Result<Vec<Fault>, Error> {
        check::tests::faults_of(self)
    }
}

impl Tables for Contents {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.get(&(family, key.to_vec())).cloned())
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        for ((_, key), value) in self.0.range((family, keys.start)..(family, keys.end)) {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl Remnants for Contents {
    fn entries(&self) -> Result<u64, Error> {
        Ok(self.0.len() as u64)
    }

    fn behind_damage(&self, _: Family, _: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }
}

/// What becomes of an operation of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// It reports an error. A write may have been made all the same.
    Fails {
        is_done: bool,
    },
}

/// Decides what becomes of each operation of a device.
pub(crate) trait Fates: Send + Sync {
    /// Of a write of so many changes.
    fn of_write(&self, changes: usize, sync: bool) -> Fate;

    /// Of a read.
    fn of_read(&self) -> Fate;
}

/// A device, and what the system has in memory for it.
pub(crate) struct Device {
    files: Mutex<Files>,
    fates: Arc<dyn Fates>,
}

#[derive(Default)]
struct Files {
    /// What is on the device.
    synced: Contents,
    /// What was written since, in order.
    written: Vec<Vec<Change>>,
    /// Both.
    seen: Contents,
}

impl Device {
    /// An empty one.
    pub(crate) fn new(fates: Arc<dyn Fates>) -> Self {
        Self { files: Mutex::default(), fates }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a process that opens it finds.
    pub(crate) fn contents(&self) -> Contents {
        self.files().seen.clone()
    }

    /// Loses what was not synced, but for as many writes as `kept` says when it is told how many there are.
    pub(crate) fn lose_power(&self, kept: impl FnOnce(usize) -> usize) {
        let files = &mut *self.files();
        let written = std::mem::take(&mut files.written);
        for changes in written.iter().take(kept(written.len())) {
            files.synced.apply(changes);
        }
        files.seen = files.synced.clone();
    }
}

fn failed() -> Error {
    Error::Io { path: "the device".to_owned(), what: "input/output error".to_owned() }
}

impl Tables for Device {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.fates.of_read() == Fate::Done { self.files().seen.get(family, key) } else { Err(failed()) }
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        if self.fates.of_read() != Fate::Done {
            return Err(failed());
        }
        // A visitor may read, too.
        let seen = self.contents();
        seen.range(family, keys, visit)
    }
}

impl WriteTables for Device {
    fn write(&self, changes: Vec<Change>, sync: bool) -> Result<(), String> {
        let fate = self.fates.of_write(changes.len(), sync);
        let files = &mut *self.files();
        if fate != (Fate::Fails { is_done: false }) {
            files.seen.apply(&changes);
            files.written.push(changes);
        }
        if fate != Fate::Done {
            return Err("input/output error".to_owned());
        }
        if sync {
            files.synced = files.seen.clone();
            files.written.clear();
        }
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Position>, Error> {
        Ok(None)
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A store on a device, with the anchor in a folder. Its writer is a task of the runtime.
#[derive(Clone)]
pub(crate) struct SimulatedStore {
    device: Arc<Device>,
    failure: Failure,
    shared: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    queue: Mutex<Queue>,
    wanted: Notify,
}

impl SimulatedStore {
    /// Opens what is on the device. `pause` is how long the writer waits before each batch.
    ///
    /// # Errors
    /// [`Error::Damaged`] if less is there than was acknowledged.
    pub(crate) fn open<P: Future<Output = ()> + Send>(
        device: Arc<Device>,
        folder: &Path,
        pause: impl Fn() -> P + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let ledger = device.contents().ledger()?;
        let promised = match anchor::look(folder)? {
            AnchorState::Slot(slot) => slot.ledger,
            AnchorState::Absent | AnchorState::Unreadable => Ledger::default(),
        };
        ledger.reach(promised)?;
        let mut anchor = Anchor::claim(folder, promised, Position::default())?;
        // As RocksDB does when it opens: what is in its log is written to tables.
        device.write(Vec::new(), true).map_err(|_| failed())?;
        anchor.write(ledger)?;
        let target = Target { tables: Arc::clone(&device), anchor, ledger, displaced: Error::Busy { pid: 0 } };
        let (failure, shared) = (Failure::default(), Arc::new(Waiting::default()));
        let mut writer_loop = WriterLoop::new(target, Arc::clone(&failure));
        let waiting = Arc::clone(&shared);
        tokio::spawn(async move {
            loop {
                waiting.wanted.notified().await;
                pause().await;
                while writer_loop.write_some(&waiting.queue) {}
            }
        });
        Ok(Self { device, failure, shared })
    }

    fn usable(&self) -> Result<&Device, Error> {
        self.failure.get().map_or(Ok(&self.device), |error| Err(error.clone()))
    }
}

impl Tables for SimulatedStore {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.usable()?.get(family, key)
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        self.usable()?.range(family, keys, visit)
    }
}

crate::step_store!(SimulatedStore);

impl WriteStore for SimulatedStore {
    fn submit(&self, write: Write) -> BoxFuture<'_, Result<(), Error>> {
        if let Err(error) = self.usable() {
            return Box::pin(future::ready(Err(error)));
        }
        let (done, outcome) = oneshot::channel();
        let waiting = &*self.shared;
        let admitted = waiting.queue.lock().unwrap_or_else(PoisonError::into_inner).admit(Work::new(write, done));
        waiting.wanted.notify_one();
        Box::pin(async move {
            if let Err(late) = admitted {
                Admission::new(&waiting.queue, late).await;
                waiting.wanted.notify_one();
            }
            outcome.await.unwrap_or_else(|_| Err(died()))
        })
    }

    fn durability(&self) -> Durability {
        Durability::Sync
    }

    fn has_room(&self) -> bool {
        true
    }
}

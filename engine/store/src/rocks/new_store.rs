//! A store that is made from the entries of another one: not by commits, and not readable as a store until it is
//! finished, because it gets its anchor last.

use std::path::{Path, PathBuf};

use rocksdb::{DBRecoveryMode, FlushOptions, WriteOptions};

use super::super::anchor::Anchor;
use super::super::keys::Family;
use super::super::recovery::DATABASE;
use super::super::tables::Change;
use super::super::writer::WriteTables as _;
use super::super::{Error, folder};
use super::opening::{Make, fault, open_database};
use super::{Remnants as _, RocksTables};

/// How many bytes are written at a time.
const BATCH_BYTES: usize = 4 << 20;

/// A store that is being made. Dropping it leaves an unfinished folder, which its caller removes.
pub(crate) struct NewStore {
    folder: PathBuf,
    pub(super) tables: RocksTables,
    /// What is added and not written yet.
    batch: Vec<Change>,
    batch_bytes: usize,
}

impl NewStore {
    /// Begins a store in `folder`, which is empty or does not exist.
    pub(in super::super) fn begin(folder: &Path) -> Result<Self, Error> {
        folder::make(folder)?;
        let database = folder.join(DATABASE);
        let db = open_database(&database, DBRecoveryMode::TolerateCorruptedTailRecords, Make::Database)?;
        let tables = RocksTables::new(db, &database);
        Ok(Self { folder: folder.to_owned(), tables, batch: Vec::new(), batch_bytes: 0 })
    }

    pub(in super::super) fn put(&mut self, family: Family, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.batch.push(Change { family, key: key.to_vec(), value: Some(value.to_vec()) });
        self.batch_bytes += key.len() + value.len();
        if self.batch_bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes what was added, so that it can be read.
    fn write(&mut self) -> Result<(), Error> {
        self.batch_bytes = 0;
        let changes = std::mem::take(&mut self.batch);
        self.change(changes)
    }

    /// Writes changes at once.
    pub(in super::super) fn change(&self, changes: Vec<Change>) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        // Nothing of it counts before it is finished.
        options.disable_wal(true);
        let written = self.tables.write_with(changes, &options);
        written.map_err(|what| Error::Io { path: self.tables.path.display().to_string(), what })
    }

    /// Completes the store with an anchor that promises all of it.
    ///
    /// # Durability
    /// The store is on the device when this returns, but for the name of its folder.
    pub(in super::super) fn finish(mut self) -> Result<(), Error> {
        self.write()?;
        let families = Family::ALL.map(|family| self.tables.family(family));
        let families = families.into_iter().collect::<Result<Vec<_>, _>>()?;
        let flushed = self.tables.db.flush_cfs_opt(&families, &FlushOptions::default());
        flushed.map_err(|error| fault(&self.tables.path, &error))?;
        self.tables.check_format()?;
        let ledger = self.tables.ledger()?;
        let manifest = self.tables.manifest()?.unwrap_or_default();
        drop(self.tables);
        Anchor::claim(&self.folder, ledger, manifest)?.sync()?;
        folder::close(&self.folder)
    }
}

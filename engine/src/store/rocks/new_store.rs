//! A store that is made from the entries of another one: not by commits, and not readable as a store until it is
//! finished, because it gets its anchor last.

use std::path::{Path, PathBuf};

use rocksdb::{DBRecoveryMode, FlushOptions, WriteBatch, WriteOptions};

use super::super::anchor::Anchor;
use super::super::keys::Family;
use super::super::recovery::DATABASE;
use super::super::tables::WriteTables as _;
use super::super::writer::Failure;
use super::super::{Error, folder};
use super::opening::{Make, fault, open_database};
use super::{Remnants as _, RocksTables};

/// How many bytes are written at a time.
const BATCH_BYTES: usize = 4 << 20;

/// A store that is being made. Dropping it leaves an unfinished folder, which its caller removes.
pub(in super::super) struct NewStore {
    folder: PathBuf,
    tables: RocksTables,
    batch: WriteBatch,
}

impl NewStore {
    /// Begins a store in `folder`, which is empty or does not exist.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Unsafe`].
    pub(in super::super) fn begin(folder: &Path) -> Result<Self, Error> {
        folder::make(folder)?;
        let database = folder.join(DATABASE);
        let db = open_database(&database, DBRecoveryMode::TolerateCorruptedTailRecords, Make::Database);
        let db = db.map_err(|error| fault(&database, &error))?;
        let tables = RocksTables::new(db, &database, Failure::default());
        Ok(Self { folder: folder.to_owned(), tables, batch: WriteBatch::default() })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(in super::super) fn put(&mut self, family: Family, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.batch.put_cf(self.tables.family(family)?, key, value);
        if self.batch.size_in_bytes() >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        // Nothing of it counts before it is finished.
        options.disable_wal(true);
        let batch = std::mem::take(&mut self.batch);
        self.tables.db.write_opt(batch, &options).map_err(|error| fault(&self.tables.path, &error))
    }

    /// Completes the store with an anchor that promises all of it.
    ///
    /// # Durability
    /// The store is on the device when this returns, but for the name of its folder.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`].
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

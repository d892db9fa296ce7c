//! The store in RocksDB. Only this file and those in its folder name it.
//!
//! Laws. A database is checked against the anchor without changing it before it is opened for writing: a failed
//! opening leaves it unchanged. The log is recovered with `TolerateCorruptedTailRecords`; if that is refused, a copy
//! is recovered to the last whole record and replaces the database only if it reaches the anchor. The generation in
//! the anchor is claimed before the database is changed, and read back once it is open. The status of every iterator
//! is checked. Block cache and memtables share `MEMORY_BYTES`. LZ4 is the only compressor. `engine/docs/durability.md`
//! describes the consequences for those who commit.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rocksdb::{
    Cache, ColumnFamily, DB, DBRecoveryMode, ErrorKind, FlushOptions, ReadOptions, ReadTier, WriteBatch, WriteOptions,
};
use rondo_core::temporary_folder::temporary_folder;
use rondo_protocol::event::Durability;
use tempfile::TempDir;

use super::anchor::{self, Anchor};
use super::blocking::{blocking, is_on_worker};
use super::codec::{self, Ledger};
use super::error::Damage;
use super::folder::{self, FolderState, Owner};
use super::keys::{self, Family};
use super::lock::{self, FolderLock};
use super::manifest::{self, Position, Watch};
use super::recovery::{self, Copy, DATABASE};
use super::reserve::Reserve;
use super::tables::{Change, Tables, Visited};
use super::write::{Write, WriteStore};
use super::writer::WriteTables;
use super::writer::{Failure, Target, Writer};
use super::{Error, frames, import};

mod compaction;
mod new_store;
mod opening;
mod salvage;

pub(super) use new_store::NewStore;
pub(super) use salvage::{Examined, examine};

use opening::{
    LOG_BYTES, LOG_BYTES_AT_CLOSE, MEMORY_BYTES, Make, Promise, all_named, families, fault, inspect, is_half_made,
    is_made, open_database, promised, recovered, settings,
};

/// How often a reader retries when the writer has just replaced a file.
const READER_ATTEMPTS: u32 = 4;
/// How often a reader reads again what the writer has just moved from logs to tables.
const CATCH_UPS: u32 = 8;

/// The most that a batch holds of an entry beside its key and value: a tag and three numbers.
const BATCH_ENTRY_BYTES: usize = 16;

/// Options for opening a store.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// [`Durability::Sync`] or [`Durability::Log`]; a database never has less.
    pub durability: Durability,
    /// The owner of the store, if this opening creates it.
    pub owner: Option<Owner>,
}

/// A store that this process holds and writes.
pub struct RocksStore {
    // The fields are dropped in this order: the writer ends, the database closes, the lock is released.
    writer: Writer<RocksTables>,
    tables: Arc<RocksTables>,
    durability: Durability,
    _closed: Closed,
    _lock: FolderLock,
}

/// When dropped, removes other users' access to the files that the database made.
struct Closed(PathBuf);

impl Drop for Closed {
    fn drop(&mut self) {
        // The folder itself is closed to others; the next opening checks the files again.
        let _ = folder::close(&self.0);
    }
}

impl RocksStore {
    /// Opens the store in `folder`, which is created (for its owner only) if it does not exist. Also returns notices for the
    /// user: what was repaired or could not be checked, one sentence each.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process holds it; [`Error::Damaged`] if something acknowledged is missing or cannot
    /// be read; [`Error::Format`] if a newer version wrote it; [`Error::Io`]. After an error the database is
    /// unchanged.
    pub fn open(folder: &Path, options: Options) -> Result<(Self, Vec<String>), Error> {
        folder::make(folder)?;
        let lock = FolderLock::take(folder)?;
        if let (FolderState::Nothing, Some(owner)) = (folder::look(folder)?, options.owner) {
            folder::sign(folder, owner)?;
        }
        let reserve = Reserve::found(folder);
        recovery::tidy(folder)?;
        let mut notices = Vec::new();
        let promised = promised(folder, &mut notices)?;
        let held = inspect(folder, promised, &mut notices)?;
        let so_far = held.unwrap_or_default();
        // After a kill more may be found, which is not on the device before RocksDB has written it to tables.
        let safe = promised.unwrap_or_default();
        let mut anchor = Anchor::claim(folder, safe.ledger, safe.manifest.min(so_far.manifest))?;
        let database = folder.join(DATABASE);
        let make = if held.is_none() { Make::Database } else { Make::Nothing };
        let db = open_database(&database, DBRecoveryMode::TolerateCorruptedTailRecords, make)?;
        if make == Make::Database {
            folder::sync(folder)?;
        }
        let tables = RocksTables { reserve: Some(reserve), ..RocksTables::new(db, &database) };
        tables.check_format()?;
        tables.say_format()?;
        if let Some(reserve) = &tables.reserve {
            reserve.make();
        }
        let ledger = tables.ledger()?;
        ledger.reach(so_far.ledger)?;
        let displaced = Error::Busy { pid: lock::holder(folder).ok().flatten().unwrap_or(0) };
        // Another writer opened the store meanwhile and changed the anchor.
        if !anchor.is_ours()? {
            return Err(displaced);
        }
        lock.check_place()?;
        if let Some(mark) = import::mark(&tables)? {
            import::abandon(&tables, &mark)?;
            notices.push("an import was interrupted; what it had written has been removed".to_owned());
        }
        if let Some(manifest) = tables.manifest()? {
            anchor.set_manifest(manifest)?;
        }
        anchor.write(ledger)?;
        let tables = Arc::new(tables);
        let durability = if options.durability == Durability::Sync { Durability::Sync } else { Durability::Log };
        let target = Target { tables: Arc::clone(&tables), anchor, ledger, displaced };
        let writer = Writer::start(target, Arc::clone(&tables.failure))?;
        folder::close(folder)?;
        Ok((Self { writer, tables, durability, _closed: Closed(folder.to_owned()), _lock: lock }, notices))
    }
}

crate::step_store!(RocksStore);

impl WriteStore for RocksStore {
    fn submit(&self, write: Write) -> BoxFuture<'_, Result<(), Error>> {
        self.writer.submit(write)
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn has_room(&self) -> bool {
        self.tables.reserve.as_ref().is_none_or(Reserve::has_room)
    }
}

/// A store open for reading, possibly next to a writer. It holds no lock and changes nothing in the store's folder.
pub struct RocksReader {
    // The fields are dropped in this order: the database closes before its scratch folder is deleted.
    pub(super) tables: RocksTables,
    _copy: Option<Copy>,
    _scratch: Option<TempDir>,
}

/// Whether a writer started a store in `folder` and ended before it wrote anything, so that there is nothing to read
/// yet.
///
/// # Errors
/// If the folder cannot be read.
pub fn is_unwritten(folder: &Path) -> Result<bool, Error> {
    // Each is made before the database, and a loss of power may leave any of them.
    let has_begun = [lock::FILE, folder::OWNER, anchor::FILE].iter().any(|name| folder.join(name).exists());
    let promised = promised(folder, &mut Vec::new())?;
    if !has_begun || promised.is_some_and(|promised| promised.ledger.batches > 0) {
        return Ok(false);
    }
    let database = folder.join(DATABASE);
    match is_made(&database, promised) {
        Ok(true) => Ok(promised.is_some() && is_half_made(&database)?),
        Ok(false) => Ok(true),
        Err(Error::Damaged(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl RocksReader {
    /// Opens the store in `folder` for reading, even if a process is writing it or was killed while writing. Also returns
    /// notices, as [`RocksStore::open`].
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`], [`Error::Io`]; also if there is no store.
    pub fn open(folder: &Path) -> Result<(Self, Vec<String>), Error> {
        folder::look(folder)?;
        let mut notices = Vec::new();
        let promised = promised(folder, &mut notices)?;
        let database = folder.join(DATABASE);
        if !is_made(&database, promised)? {
            return Err(match promised {
                Some(Promise { ledger, .. }) if ledger.batches > 0 => Ledger::default().falls_short_of(ledger),
                _ => Error::Io { path: folder.display().to_string(), what: "there is no store".to_owned() },
            });
        }
        let scratch = temporary_folder("reader").ok();
        let mut refused = None;
        for _ in 0..READER_ATTEMPTS {
            let generation = anchor::look(folder)?.generation();
            let holder = lock::holder(folder)?;
            // A secondary instance skips tables that it cannot read and shows the state before them. So it is used
            // only next to a writer, which replaces files while they are being opened.
            let aside = scratch.as_ref().filter(|_| holder.is_some());
            let tried = Self::beside(folder, aside, promised);
            // A writer that arrived meanwhile increased the generation before it changed anything.
            let was_alone = holder.is_none() && anchor::look(folder)?.generation() == generation;
            match tried {
                Ok(tables) if holder.is_some() || was_alone => {
                    return Ok((Self { tables, _copy: None, _scratch: scratch }, notices));
                }
                Ok(_) => refused = Some(Error::Busy { pid: lock::holder(folder)?.unwrap_or(0) }),
                Err(error @ (Error::Damaged { .. } | Error::Io { .. } | Error::Busy { .. })) => refused = Some(error),
                Err(error) => return Err(error),
            }
            if was_alone {
                break;
            }
        }
        let refused = refused.unwrap_or(Error::ReadOnly);
        let (Error::Damaged { .. }, Some(scratch)) = (&refused, scratch) else { return Err(refused) };
        let copy = Copy::of(folder, scratch.path())?;
        let Some(tables) = recovered(copy.path(), promised)? else { return Err(refused) };
        notices.push("the end of the log is damaged; nothing that was acknowledged is missing".to_owned());
        Ok((Self { tables, _copy: Some(copy), _scratch: Some(scratch) }, notices))
    }

    /// Opens the database next to its writer, and checks it against the anchor.
    fn beside(folder: &Path, scratch: Option<&TempDir>, promised: Option<Promise>) -> Result<RocksTables, Error> {
        let database = &folder.join(DATABASE);
        let at_least = promised.unwrap_or_default();
        let manifest = manifest::current(database)?.map(|(_, path)| path);
        if let Some(fault) = frames::check(database, manifest.as_deref())? {
            return Err(fault.damage.into());
        }
        manifest::reached(database)?.reach(at_least.manifest)?;
        let extent = manifest::extent(database)?;
        let mut options = settings();
        options.set_max_open_files(-1);
        let families = families(&Cache::new_lru_cache(MEMORY_BYTES));
        let db = match scratch {
            Some(scratch) => {
                DB::open_cf_descriptors_as_secondary(&options, database.as_path(), scratch.path(), families)
            }
            None => DB::open_cf_descriptors_read_only(&options, database, families, false),
        };
        let db = db.map_err(|error| fault(database, &error))?;
        let is_of_one_moment = match scratch {
            Some(_) => has_caught_up(&db, database)?,
            None => manifest::extent(database)? == extent,
        };
        if !is_of_one_moment {
            return Err(Error::Busy { pid: lock::holder(folder)?.unwrap_or(0) });
        }
        let tables = RocksTables::new(db, database);
        // With a writer tables come and go.
        if promised.is_none() && scratch.is_none() {
            all_named(&tables, manifest::tables(database)?)?;
        }
        tables.check_format()?;
        tables.ledger()?.reach(at_least.ledger)?;
        Ok(tables)
    }
}

/// Brings a database next to its writer to a state that the writer had. While it reads the logs, they may become tables
/// that it does not know yet and be deleted; then some families are newer than others, and it has to read again. RocksDB
/// reads none of the logs, and reports no error, if one that it has listed is gone, even one that nothing needs any more.
fn has_caught_up(db: &DB, database: &Path) -> Result<bool, Error> {
    for _ in 0..CATCH_UPS {
        let (before, logs) = (manifest::extent(database)?, frames::logs(database)?);
        // Twice: of a file that was empty at its last look, RocksDB's reader (`FragmentBufferedReader::TryReadFragment`)
        // only notes at the next look that there may be more, and reads it at the one after that.
        for _ in 0..2 {
            db.try_catch_up_with_primary().map_err(|error| fault(database, &error))?;
        }
        if manifest::extent(database)? == before && logs.iter().all(|log| log.exists()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads what has tables by these.
macro_rules! read_by_tables {
    ($($store:ty),+) => {$(
        impl Tables for $store {
            fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
                self.tables.get(family, key)
            }

            fn range(
                &self,
                family: Family,
                keys: Range<Vec<u8>>,
                visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
            ) -> Result<(), Error> {
                self.tables.range(family, keys, visit)
            }
        }
    )+};
}
read_by_tables!(RocksStore, RocksReader, NewStore);

/// Tables of which some blocks may be damaged, for an examination.
pub(super) trait Remnants: Tables {
    /// The estimated number of entries.
    fn entries(&self) -> Result<u64, Error>;

    /// The first key after `key` with which a table of the family begins; `None` if there is none.
    fn behind_damage(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// What the store says that it has acknowledged.
    fn ledger(&self) -> Result<Ledger, Error> {
        let value = self.get(Family::Meta, keys::LEDGER)?;
        value.map_or_else(|| Ok(Ledger::default()), |value| codec::read_ledger(&value))
    }
}

impl Remnants for RocksTables {
    fn entries(&self) -> Result<u64, Error> {
        let mut all = 0;
        for family in Family::ALL {
            let estimated = self.db.property_int_value_cf(self.family(family)?, rocksdb::properties::ESTIMATE_NUM_KEYS);
            all += estimated.map_err(|error| fault(&self.path, &error))?.unwrap_or(0);
        }
        Ok(all)
    }

    fn behind_damage(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let live = self.db.live_files().map_err(|error| fault(&self.path, &error))?;
        let of_family = live.into_iter().filter(|file| file.column_family_name == family.name());
        let begins = of_family.filter_map(|file| file.start_key).filter(|start| start.as_slice() > key);
        Ok(begins.min())
    }
}

pub(super) struct RocksTables {
    db: DB,
    path: PathBuf,
    failure: Failure,
    /// Space on a full disk, if these tables are written.
    reserve: Option<Reserve>,
    /// Bytes written since this process opened the database.
    written_bytes: AtomicU64,
    watch: Mutex<Watch>,
    /// Options for reads that need no device.
    in_memory: ReadOptions,
}

impl RocksTables {
    fn new(db: DB, path: &Path) -> Self {
        let mut in_memory = ReadOptions::default();
        in_memory.set_read_tier(ReadTier::BlockCache);
        let (path, written_bytes, watch) = (path.to_owned(), AtomicU64::new(0), Mutex::default());
        Self { db, path, failure: Failure::default(), reserve: None, written_bytes, watch, in_memory }
    }

    fn family(&self, family: Family) -> Result<&ColumnFamily, Error> {
        self.db
            .cf_handle(family.name())
            .ok_or_else(|| Damage::new(format!("the column family {} is missing", family.name())).into())
    }

    /// Refuses a database of another format. An empty one has no format.
    fn check_format(&self) -> Result<(), Error> {
        let found = match self.get(Family::Meta, keys::FORMAT)? {
            Some(value) => codec::read_format(&value)?,
            None if self.get(Family::Meta, keys::LEDGER)?.is_some() => codec::FORMAT_UNSAID,
            None => return Ok(()),
        };
        if found == codec::FORMAT { Ok(()) } else { Err(Error::Format { found, known: codec::FORMAT }) }
    }

    /// Writes the format of a database that has none.
    ///
    /// # Durability
    /// It is on the device when this returns.
    fn say_format(&self) -> Result<(), Error> {
        if self.get(Family::Meta, keys::FORMAT)?.is_some() {
            return Ok(());
        }
        let change = Change { family: Family::Meta, key: keys::FORMAT.to_vec(), value: Some(codec::write_format()) };
        let io = |what| Error::Io { path: self.path.display().to_string(), what };
        self.write(vec![change], true).map_err(io)
    }

    fn usable(&self) -> Result<(), Error> {
        self.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Tables for RocksTables {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.usable()?;
        let family = self.family(family)?;
        let faulty = |error| fault(&self.path, &error);
        if is_on_worker() {
            // Most reads are served from memory, and then the runtime need not be notified.
            match self.db.get_cf_opt(family, key, &self.in_memory) {
                Err(error) if error.kind() == ErrorKind::Incomplete => {}
                value => return value.map_err(faulty),
            }
        }
        blocking(|| self.db.get_cf(family, key)).map_err(faulty)
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        self.usable()?;
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(keys.end);
        let family = self.family(family)?;
        blocking(|| {
            let mut entries = self.db.raw_iterator_cf_opt(family, options);
            entries.seek(&keys.start);
            while let Some((key, value)) = entries.item() {
                if visit(key, value)?.is_break() {
                    return Ok(());
                }
                entries.next();
            }
            // An iterator that meets a damaged block ends like one at the end.
            entries.status().map_err(|error| fault(&self.path, &error))
        })
    }
}

impl RocksTables {
    /// Applies all changes or none.
    fn write_with(&self, changes: Vec<Change>, options: &WriteOptions) -> Result<(), String> {
        // A batch that grows is in memory twice, and so is one beside its changes.
        let most_bytes: usize = changes.iter().map(|change| change.size_bytes() + BATCH_ENTRY_BYTES).sum();
        let mut batch = WriteBatch::with_capacity_bytes(BATCH_ENTRY_BYTES + most_bytes);
        for Change { family, key, value } in changes {
            let family = self.family(family).map_err(|error| error.to_string())?;
            match value {
                Some(value) => batch.put_cf(family, key, value),
                None => batch.delete_cf(family, key),
            }
        }
        let size_bytes = batch.size_in_bytes() as u64;
        self.written_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        if let Some(reserve) = &self.reserve {
            reserve.make_room(size_bytes);
        }
        self.db.write_opt(batch, options).map_err(|error| error.to_string())?;
        if size_bytes > LOG_BYTES {
            // RocksDB would write it to tables beside the next write, and hold both in memory.
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is in the log to tables.
    fn flush(&self) -> Result<(), String> {
        let families = Family::ALL.map(|family| self.family(family));
        let families: Vec<_> = families.into_iter().flatten().collect();
        self.db.flush_cfs_opt(&families, &FlushOptions::default()).map_err(|error| error.to_string())
    }
}

impl WriteTables for RocksTables {
    fn write(&self, changes: Vec<Change>, sync: bool) -> Result<(), String> {
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        self.write_with(changes, &options)
    }

    fn manifest(&self) -> Result<Option<Position>, Error> {
        self.watch.lock().changed(&self.path)
    }

    fn close(&self) -> Result<(), String> {
        self.db.flush_wal(true).map_err(|error| error.to_string())?;
        if self.written_bytes.load(Ordering::Relaxed) > LOG_BYTES_AT_CLOSE {
            self.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

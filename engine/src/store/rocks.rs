//! The store in RocksDB. The only file that names it.
//!
//! Laws. A database is looked at without changing it, and held to the anchor, before it is opened for writing: what a
//! failed opening finds, it leaves as it was. The log is recovered with `TolerateCorruptedTailRecords`; where that
//! refuses, a copy is recovered to the last whole record and takes the database's place only if it reaches the anchor.
//! The status of every iterator is checked. Block cache and memtables share 64 MiB. LZ4 is the only compressor.
//! `engine/docs/durability.md` says what follows for those who commit.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{self, BoxFuture};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, ErrorKind,
    FlushOptions, InfoLogger, LogLevel, ReadOptions, WriteBatch, WriteBufferManager, WriteOptions,
};
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;

use super::anchor::{self, Anchor};
use super::codec::{self, Ledger};
use super::error::Damage;
use super::folder::{self, Found, Owner};
use super::keys::{self, Family};
use super::lock::{self, FolderLock};
use super::recovery::{self, Copy, DATABASE};
use super::tables::{Change, Tables, Visited, WriteTables};
use super::writer::{Failure, Target, Writer};
use super::{Commit, Error, JournalRecord, StepStore};
use crate::scratch::Scratch;

/// Block cache and memtables of one open database together.
const MEMORY_BYTES: usize = 64 << 20;
/// The memtables' share of it.
const MEMTABLE_BYTES: usize = 24 << 20;
/// One memtable. A log is replayed at opening: small memtables keep that short.
const FAMILY_MEMTABLE_BYTES: usize = 8 << 20;
const LOG_BYTES: u64 = 8 << 20;
/// A log that is longer at close is emptied into tables, which the next opening need not replay.
const LOG_BYTES_AT_CLOSE: u64 = 1 << 20;
const OPEN_FILES: i32 = 256;
const BLOCK_BYTES: usize = 8 << 10;
const BLOOM_BITS: f64 = 10.0;

/// How often a reader that meets a file which the writer just replaced looks again.
const READER_ATTEMPTS: u32 = 4;

/// How a store is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// [`Durability::Sync`], or [`Durability::Log`]; a database has no less than that.
    pub durability: Durability,
    /// Whose the store is, if it is made by this opening.
    pub owner: Option<Owner>,
}

/// What is to be said about an opening that succeeded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opened {
    /// What was repaired or could not be checked, a sentence each, for people.
    pub notices: Vec<String>,
}

/// A store that this process holds and writes.
pub struct RocksStore {
    // Dropped in this order: the writer ends, the database closes, the lock is given free.
    writer: Writer,
    tables: Arc<RocksTables>,
    durability: Durability,
    _closed: Closed,
    _lock: FolderLock,
}

/// Closes the files that the database made to other users when it is dropped.
struct Closed(PathBuf);

impl Drop for Closed {
    fn drop(&mut self) {
        // The folder is closed, which is what keeps others out; the next opening looks at the files again.
        let _ = folder::close(&self.0);
    }
}

impl RocksStore {
    /// Opens the store in `folder`, which is made (for its owner alone) if it is not there.
    ///
    /// # Errors
    /// [`Error::Busy`] when another process holds it, [`Error::Damaged`] when something that was acknowledged is
    /// missing or cannot be read, [`Error::Format`] when a newer version wrote it, [`Error::Io`]. After an error the
    /// database is as it was.
    pub fn open(folder: &Path, options: Options) -> Result<(Self, Opened), Error> {
        folder::make(folder)?;
        let lock = FolderLock::take(folder)?;
        if let (Found::Nothing, Some(owner)) = (folder::look(folder)?, options.owner) {
            folder::sign(folder, owner)?;
        }
        recovery::tidy(folder)?;
        let mut opened = Opened::default();
        let promised = promised(folder, &mut opened)?;
        let held = inspect(folder, promised, &mut opened)?;
        let mut anchor = Anchor::claim(folder, held.unwrap_or_default())?;
        let database = folder.join(DATABASE);
        let db = open_database(&database, DBRecoveryMode::TolerateCorruptedTailRecords)
            .map_err(|error| fault(&database, &error))?;
        let failure = Failure::default();
        let tables = RocksTables::new(db, &database, Arc::clone(&failure));
        tables.check_format()?;
        tables.say_format()?;
        let ledger = tables.ledger()?;
        if let Some(held) = held {
            reaches(ledger, held)?;
        }
        anchor.write(ledger)?;
        let tables = Arc::new(tables);
        let displaced = Error::Busy { pid: lock::holder(folder).ok().flatten().unwrap_or(0) };
        let durability = if options.durability == Durability::Sync { Durability::Sync } else { Durability::Log };
        let target = Target { tables: Arc::clone(&tables), anchor, ledger, durability, displaced };
        let writer = Writer::start(target, failure)?;
        folder::close(folder)?;
        Ok((Self { writer, tables, durability, _closed: Closed(folder.to_owned()), _lock: lock }, opened))
    }
}

impl std::fmt::Debug for RocksStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksStore").field("path", &self.tables.path).finish_non_exhaustive()
    }
}

impl Tables for RocksStore {
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

impl StepStore for RocksStore {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
        self.writer.commit(commit)
    }

    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>> {
        self.writer.record(thread, records, sync)
    }

    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>> {
        let Some(key) = keys::hook(space, &key) else {
            let what = "the name of a hook's key space is too long".to_owned();
            return Box::pin(future::ready(Err(Error::Malformed { what })));
        };
        let value = value.map(|value| codec::write_hook(&value));
        self.writer.change(Change { family: Family::Hooks, key, value })
    }

    fn durability(&self) -> Durability {
        self.durability
    }
}

/// A store that is read, beside whoever writes it. It keeps no lock and changes nothing in the store's folder.
pub struct RocksReader {
    // Dropped in this order: the database closes before its scratch folder is deleted.
    tables: RocksTables,
    follows: bool,
    _copy: Option<Copy>,
    _scratch: Option<Scratch>,
}

/// Whether a writer began a store in `folder` and was ended before it wrote anything: then there is nothing to read yet.
///
/// # Errors
/// When the folder cannot be looked into.
pub fn is_unwritten(folder: &Path) -> Result<bool, Error> {
    let promised = promised(folder, &mut Opened::default())?;
    let is_begun = lock::is_there(folder);
    Ok(is_begun && !has_database(&folder.join(DATABASE))? && promised.is_none_or(|promised| promised.batches == 0))
}

impl RocksReader {
    /// Opens the store in `folder` for reading, whether a process writes it or one was killed while it did.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`], [`Error::Io`], also when there is no store.
    pub fn open(folder: &Path) -> Result<(Self, Opened), Error> {
        folder::look(folder)?;
        let mut opened = Opened::default();
        let promised = promised(folder, &mut opened)?;
        let database = folder.join(DATABASE);
        if !has_database(&database)? {
            return Err(match promised {
                Some(promised) if promised.batches > 0 => missing(Ledger::default(), promised),
                _ => Error::Io { path: folder.display().to_string(), what: "there is no store".to_owned() },
            });
        }
        let scratch = Scratch::make("reader").ok();
        let mut refused = None;
        for _ in 0..READER_ATTEMPTS {
            let generation = anchor::look(folder)?.generation();
            let holder = lock::holder(folder)?;
            // A secondary instance passes over tables that it cannot read and shows what was there before them. So it
            // is used only beside a writer, which replaces files while they are being opened.
            let aside = scratch.as_ref().filter(|_| holder.is_some());
            let follows = aside.is_some();
            let tried = Self::beside(&database, aside, promised);
            // A writer that came meanwhile has raised the generation before it changed anything.
            let was_alone = holder.is_none() && anchor::look(folder)?.generation() == generation;
            match tried {
                Ok(tables) if holder.is_some() || was_alone => {
                    return Ok((Self { tables, follows, _copy: None, _scratch: scratch }, opened));
                }
                Ok(_) => refused = Some(Error::Busy { pid: lock::holder(folder)?.unwrap_or(0) }),
                Err(error @ (Error::Damaged { .. } | Error::Io { .. })) => refused = Some(error),
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
        opened.notices.push("the end of the log is damaged; nothing that was acknowledged is missing".to_owned());
        Ok((Self { tables, follows: false, _copy: Some(copy), _scratch: Some(scratch) }, opened))
    }

    /// Opens the database beside its writer, and holds it to what is promised.
    fn beside(database: &Path, scratch: Option<&Scratch>, promised: Option<Ledger>) -> Result<RocksTables, Error> {
        let mut options = settings();
        options.set_max_open_files(-1);
        let families = families(&Cache::new_lru_cache(MEMORY_BYTES));
        let db = match scratch {
            Some(scratch) => DB::open_cf_descriptors_as_secondary(&options, database, scratch.path(), families)
                .and_then(|db| db.try_catch_up_with_primary().map(|()| db)),
            None => DB::open_cf_descriptors_read_only(&options, database, families, false),
        };
        let db = db.map_err(|error| fault(database, &error))?;
        let tables = RocksTables::new(db, database, Failure::default());
        tables.check_format()?;
        reaches(tables.ledger()?, promised.unwrap_or_default())?;
        Ok(tables)
    }

    /// Takes in what the writer has written since. Called before each command that reads.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn refresh(&self) -> Result<(), Error> {
        if self.follows {
            self.tables.db.try_catch_up_with_primary().map_err(|error| fault(&self.tables.path, &error))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for RocksReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksReader").field("path", &self.tables.path).finish_non_exhaustive()
    }
}

impl Tables for RocksReader {
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

/// An open database.
struct RocksTables {
    db: DB,
    path: PathBuf,
    failure: Failure,
    /// What has been written since this process opened the database.
    written_bytes: AtomicU64,
}

impl RocksTables {
    fn new(db: DB, path: &Path, failure: Failure) -> Self {
        Self { db, path: path.to_owned(), failure, written_bytes: AtomicU64::new(0) }
    }

    fn family(&self, family: Family) -> Result<&ColumnFamily, Error> {
        self.db
            .cf_handle(family.name())
            .ok_or_else(|| Damage::new(format!("the column family {} is missing", family.name())).into())
    }

    fn ledger(&self) -> Result<Ledger, Error> {
        let value = self.get(Family::Meta, keys::LEDGER)?;
        value.map_or_else(|| Ok(Ledger::default()), |value| codec::read_ledger(&value))
    }

    /// Refuses a database of another format. One that holds nothing yet has none.
    fn check_format(&self) -> Result<(), Error> {
        let found = match self.get(Family::Meta, keys::FORMAT)? {
            Some(value) => codec::read_format(&value)?,
            None if self.get(Family::Meta, keys::LEDGER)?.is_some() => codec::FORMAT_UNSAID,
            None => return Ok(()),
        };
        if found == codec::FORMAT { Ok(()) } else { Err(Error::Format { found, known: codec::FORMAT }) }
    }

    /// Writes the format of a database that has none yet.
    ///
    /// # Durability
    /// It is on the device when this returns.
    fn say_format(&self) -> Result<(), Error> {
        if self.get(Family::Meta, keys::FORMAT)?.is_some() {
            return Ok(());
        }
        let change = Change { family: Family::Meta, key: keys::FORMAT.to_vec(), value: Some(codec::write_format()) };
        let io = |what| Error::Io { path: self.path.display().to_string(), what };
        self.write(&[change], true).map_err(io)
    }

    fn usable(&self) -> Result<(), Error> {
        self.failure.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Tables for RocksTables {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.usable()?;
        let value = self.db.get_cf(self.family(family)?, key);
        value.map_err(|error| fault(&self.path, &error))
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
        let mut entries = self.db.raw_iterator_cf_opt(self.family(family)?, options);
        entries.seek(&keys.start);
        while let Some((key, value)) = entries.item() {
            if visit(key, value)?.is_break() {
                return Ok(());
            }
            entries.next();
        }
        // An iterator that met a damaged block ends like one that met the end.
        entries.status().map_err(|error| fault(&self.path, &error))
    }
}

impl WriteTables for RocksTables {
    fn write(&self, changes: &[Change], sync: bool) -> Result<(), String> {
        let mut batch = WriteBatch::default();
        for Change { family, key, value } in changes {
            let family = self.family(*family).map_err(|error| error.to_string())?;
            match value {
                Some(value) => batch.put_cf(family, key, value),
                None => batch.delete_cf(family, key),
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        self.written_bytes.fetch_add(batch.size_in_bytes() as u64, Ordering::Relaxed);
        self.db.write_opt(batch, &options).map_err(|error| error.to_string())
    }

    fn close(&self) -> Result<(), String> {
        self.db.flush_wal(true).map_err(|error| error.to_string())?;
        if self.written_bytes.load(Ordering::Relaxed) > LOG_BYTES_AT_CLOSE {
            let families = Family::ALL.map(|family| self.family(family));
            let families: Vec<_> = families.into_iter().flatten().collect();
            self.db.flush_cfs_opt(&families, &FlushOptions::default()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// What the anchor in `folder` promises; `None` where nothing does.
fn promised(folder: &Path, opened: &mut Opened) -> Result<Option<Ledger>, Error> {
    let notice = match anchor::look(folder)? {
        anchor::Found::Slot(slot) => return Ok(Some(slot.ledger)),
        anchor::Found::Absent if !has_database(&folder.join(DATABASE))? => return Ok(None),
        anchor::Found::Absent => "the anchor is missing",
        anchor::Found::Unreadable => "the anchor cannot be read",
    };
    opened.notices.push(format!("{notice}; whether the last steps are there could not be checked"));
    Ok(None)
}

/// Whether a database has been made at `database`.
fn has_database(database: &Path) -> Result<bool, Error> {
    let current = database.join("CURRENT");
    match current.try_exists() {
        Ok(exists) => Ok(exists),
        Err(error) => Err(Error::io(&current, &error)),
    }
}

/// Looks at the database without changing it. Gives what it holds, at least what is promised, or `None` when there is
/// none yet. A database that RocksDB refuses is exchanged for a recovered copy if that holds what is promised.
fn inspect(folder: &Path, promised: Option<Ledger>, opened: &mut Opened) -> Result<Option<Ledger>, Error> {
    let database = folder.join(DATABASE);
    let at_least = promised.unwrap_or_default();
    if !has_database(&database)? {
        return if at_least.batches == 0 { Ok(None) } else { Err(missing(Ledger::default(), at_least)) };
    }
    let families = families(&Cache::new_lru_cache(MEMORY_BYTES));
    let refused = match DB::open_cf_descriptors_read_only(&settings(), &database, families, false) {
        Ok(db) => {
            let tables = RocksTables::new(db, &database, Failure::default());
            tables.check_format()?;
            let ledger = tables.ledger()?;
            return reaches(ledger, at_least).map(|()| Some(ledger));
        }
        // A database whose making was cut short lacks families. Nothing was acknowledged in it.
        Err(error) if error.kind() == ErrorKind::InvalidArgument && at_least.batches == 0 => return Ok(None),
        Err(error) => fault(&database, &error),
    };
    let Error::Damaged { .. } = refused else { return Err(refused) };
    let copy = Copy::of(folder, folder)?;
    let Some(tables) = recovered(copy.path(), promised)? else { return Err(refused) };
    let ledger = tables.ledger()?;
    drop(tables);
    let aside = copy.take_place()?;
    opened.notices.push(format!(
        "the database was damaged and has been recovered; nothing that was acknowledged is known to be missing; the \
         damaged files are in {aside}"
    ));
    Ok(Some(ledger))
}

/// The copy at `path`, recovered to its last whole record; `None` where RocksDB refuses that as well.
fn recovered(path: &Path, promised: Option<Ledger>) -> Result<Option<RocksTables>, Error> {
    let Ok(db) = open_database(path, DBRecoveryMode::PointInTime) else { return Ok(None) };
    let tables = RocksTables::new(db, path, Failure::default());
    tables.check_format()?;
    reaches(tables.ledger()?, promised.unwrap_or_default())?;
    Ok(Some(tables))
}

/// Whether a database that holds `ledger` holds all that is promised.
fn reaches(ledger: Ledger, promised: Ledger) -> Result<(), Error> {
    if ledger.batches < promised.batches {
        return Err(missing(ledger, promised));
    }
    if ledger.batches == promised.batches && ledger.chain != promised.chain {
        let what = "the database is not the one that its anchor was written for".to_owned();
        return Err(Damage::new(what).into());
    }
    Ok(())
}

fn missing(ledger: Ledger, promised: Ledger) -> Error {
    let steps = promised.steps.saturating_sub(ledger.steps);
    let what = if steps > 0 {
        format!("{steps} of {} acknowledged steps are missing", promised.steps)
    } else {
        let writes = promised.batches.saturating_sub(ledger.batches);
        format!("the last {writes} acknowledged writes are missing, but no step")
    };
    Damage::new(what).into()
}

fn fault(path: &Path, error: &rocksdb::Error) -> Error {
    let what = error.to_string();
    match error.kind() {
        // A file of the database that is gone is damage; any other fault of the system may pass.
        ErrorKind::IOError if !what.contains("No such file") => Error::Io { path: path.display().to_string(), what },
        ErrorKind::InvalidArgument if what.contains("Column families not opened") => {
            Error::Format { found: codec::FORMAT + 1, known: codec::FORMAT }
        }
        _ => Damage::new(what).into(),
    }
}

fn open_database(path: &Path, mode: DBRecoveryMode) -> Result<DB, rocksdb::Error> {
    let cache = Cache::new_lru_cache(MEMORY_BYTES);
    let mut options = settings();
    options.set_wal_recovery_mode(mode);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        MEMTABLE_BYTES,
        false,
        cache.clone(),
    ));
    DB::open_cf_descriptors(&options, path, families(&cache))
}

/// What holds for every way of opening.
fn settings() -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_paranoid_checks(true);
    options.set_max_total_wal_size(LOG_BYTES);
    options.set_max_open_files(OPEN_FILES);
    options.set_max_background_jobs(2);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_skip_stats_update_on_db_open(true);
    // RocksDB's own log of its doings is written nowhere: it grows with every opening, and faults are returned.
    options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| {}));
    options
}

fn families(cache: &Cache) -> Vec<ColumnFamilyDescriptor> {
    let families = Family::ALL.iter().map(|family| ColumnFamilyDescriptor::new(family.name(), family_settings(cache)));
    families.chain([ColumnFamilyDescriptor::new("default", family_settings(cache))]).collect()
}

fn family_settings(cache: &Cache) -> rocksdb::Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_block_size(BLOCK_BYTES);
    blocks.set_bloom_filter(BLOOM_BITS, false);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = rocksdb::Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_write_buffer_size(FAMILY_MEMTABLE_BYTES);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

#[cfg(test)]
mod tests;

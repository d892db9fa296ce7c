//! Opening a database: checks before RocksDB may change anything, recovery, and options.
//!
//! Laws. An opening leaves unchanged whatever it is not sure of: RocksDB deletes tables that its manifest does not
//! name, so a manifest is checked against the anchor first. RocksDB never gets a file that its reader cannot finish.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, ErrorKind, InfoLogger,
    LogLevel, WriteBufferManager,
};

use super::super::anchor::{self, AnchorState};
use super::super::codec::{self, Ledger};
use super::super::error::Damage;
use super::super::keys::Family;
use super::super::manifest::{self, Position};
use super::super::recovery::{Copy, DATABASE};
use super::super::{Error, folder, frames};
use super::{Remnants as _, RocksTables};

/// Block cache and memtables of one open database together.
pub(super) const MEMORY_BYTES: usize = 32 << 20;
/// The memtables' share of it.
const MEMTABLE_BYTES: usize = 24 << 20;
/// The size of one memtable. The log is replayed at opening, and small memtables keep that short.
const FAMILY_MEMTABLE_BYTES: usize = 8 << 20;
/// The size of the log that RocksDB writes to tables.
pub(super) const LOG_BYTES: u64 = 8 << 20;
/// A log longer than this at close is flushed to tables, which the next opening need not replay.
pub(super) const LOG_BYTES_AT_CLOSE: u64 = 1 << 20;
/// The family that RocksDB always has; nothing is in it.
const DEFAULT_FAMILY: &str = "default";
const OPEN_FILES: i32 = 256;
const BLOCK_BYTES: usize = 8 << 10;
/// A property of RocksDB (`include/rocksdb/db.h`, `kMinLogNumberToKeep`).
const OLDEST_NEEDED_LOG: &str = "rocksdb.min-log-number-to-keep";
const BLOOM_BITS: f64 = 10.0;

/// The minimum that the anchor promises.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Promise {
    pub(super) ledger: Ledger,
    pub(super) manifest: Position,
}

pub(super) fn promised(folder: &Path, notices: &mut Vec<String>) -> Result<Option<Promise>, Error> {
    let notice = match anchor::look(folder)? {
        AnchorState::Slot(slot) => return Ok(Some(Promise { ledger: slot.ledger, manifest: slot.manifest })),
        AnchorState::Absent if !has_database(&folder.join(DATABASE))? => return Ok(None),
        AnchorState::Absent => "the anchor is missing",
        AnchorState::Unreadable => "the anchor cannot be read",
    };
    notices.push(format!("{notice}; whether the last steps are there could not be checked"));
    Ok(None)
}

fn has_database(database: &Path) -> Result<bool, Error> {
    let current = database.join(manifest::CURRENT);
    current.try_exists().map_err(folder::io(&current))
}

/// Whether there is a database that can be opened. One that was never made whole counts as none only if the anchor shows
/// that nothing was acknowledged in it: RocksDB would make another over it, and delete its tables.
pub(super) fn is_made(database: &Path, promised: Option<Promise>) -> Result<bool, Error> {
    let is_made = has_database(database)?;
    if is_made || promised.is_some() || !holds_data(database)? {
        return Ok(is_made);
    }
    let name = manifest::CURRENT;
    let what = format!(
        "{name}, which names the database's list of tables, is missing, and without the anchor it is not known which \
         tables and logs count; nothing has been deleted"
    );
    Err(Damage::new(what).in_file(format!("{DATABASE}/{name}")).into())
}

fn holds_data(database: &Path) -> Result<bool, Error> {
    if !database.is_dir() {
        return Ok(false);
    }
    Ok(!folder::files(database, folder::TABLE)?.is_empty() || !frames::logs(database)?.is_empty())
}

/// Examines the database without changing it. Returns its state, which is at least `promised`, or `None` if there is
/// none yet. A database that RocksDB refuses is replaced by a recovered copy if that satisfies the promise.
pub(super) fn inspect(
    folder: &Path,
    promised: Option<Promise>,
    notices: &mut Vec<String>,
) -> Result<Option<Promise>, Error> {
    let database = folder.join(DATABASE);
    let at_least = promised.map_or_else(Ledger::default, |promised| promised.ledger);
    if !is_made(&database, promised)? {
        return if at_least.batches == 0 { Ok(None) } else { Err(Ledger::default().falls_short_of(at_least)) };
    }
    let refused = match looked_at(&database, promised) {
        Ok(held) => return Ok(held),
        Err(Refused::ForGood(error)) => return Err(error),
        Err(Refused::MayBeRecovered(error)) => error,
    };
    let copy = Copy::of(folder, folder)?;
    let Some(tables) = recovered(copy.path(), promised)? else { return Err(refused) };
    let held = Promise { ledger: tables.ledger()?, manifest: Position::default() };
    drop(tables);
    let aside = copy.take_place()?;
    notices.push(format!(
        "the database was damaged and has been recovered; nothing that was acknowledged is known to be missing; the \
         damaged files are in {aside}"
    ));
    Ok(Some(held))
}

/// Whether the creation of a database was interrupted, so that it lacks families. Only for one whose anchor promises
/// nothing.
pub(super) fn is_half_made(database: &Path) -> Result<bool, Error> {
    let manifest = manifest::current(database)?.map(|(_, path)| path);
    if frames::check(database, manifest.as_deref())?.is_some() {
        return Ok(false);
    }
    let Ok(made) = DB::list_cf(&settings(), database) else { return Ok(false) };
    Ok(Family::ALL.iter().any(|family| !made.iter().any(|made| made == family.name())))
}

/// Why a database cannot be used.
enum Refused {
    ForGood(Error),
    /// A recovered copy may satisfy the promise.
    MayBeRecovered(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::ForGood(error)
    }
}

/// The state of the database, which is at least `promised`. `None` if its creation was interrupted.
fn looked_at(database: &Path, promised: Option<Promise>) -> Result<Option<Promise>, Refused> {
    let at_least = promised.unwrap_or_default();
    let manifest = framed(database, at_least.manifest)?;
    let families = families(&Cache::new_lru_cache(MEMORY_BYTES));
    let db = match DB::open_cf_descriptors_read_only(&settings(), database, families, false) {
        Ok(db) => db,
        // A database whose creation was interrupted lacks families. Nothing was acknowledged in it, as the anchor
        // shows, which is made before the database.
        Err(error)
            if error.kind() == ErrorKind::InvalidArgument
                && promised.is_some_and(|promised| promised.ledger.batches == 0) =>
        {
            return Ok(None);
        }
        Err(error) => {
            let lacks_families = error.kind() == ErrorKind::InvalidArgument;
            return Err(match fault(database, &error) {
                error @ Error::Damaged(_) if !lacks_families => Refused::MayBeRecovered(error),
                error => Refused::ForGood(error),
            });
        }
    };
    let tables = RocksTables::new(db, database);
    if promised.is_none() {
        all_named(&tables, manifest::tables(database)?)?;
    }
    tables.check_format()?;
    let ledger = tables.ledger()?;
    ledger.reach(at_least.ledger)?;
    Ok(Some(Promise { ledger, manifest }))
}

/// The position of the manifest, which is at least `promised`, if RocksDB may read it and the logs.
fn framed(database: &Path, promised: Position) -> Result<Position, Refused> {
    let manifest = manifest::current(database)?.map(|(_, path)| path);
    if let Some(fault) = frames::check(database, manifest.as_deref())? {
        // A manifest is recovered up to its fault only if that is behind what the anchor promises.
        return Err(Refused::MayBeRecovered(fault.damage.into()));
    }
    let reached = manifest::reached(database)?;
    reached.reach(promised)?;
    Ok(reached)
}

/// Refuses a database with tables that its manifest does not name, if the position of the manifest is unknown: RocksDB
/// would delete them.
pub(super) fn all_named(tables: &RocksTables, mut strange: Vec<String>) -> Result<(), Error> {
    let live = tables.db.live_files().map_err(|error| fault(&tables.path, &error))?;
    let live: BTreeSet<&str> = live.iter().map(|file| file.name.trim_start_matches('/')).collect();
    strange.retain(|name| !live.contains(name.as_str()));
    let Some(first) = strange.first() else { return Ok(()) };
    let what = format!(
        "the manifest does not name {1} of the tables in its folder ({0} are named), and without the anchor it is not known \
         whether it lost its end; nothing has been deleted",
        live.len(),
        strange.len()
    );
    Err(Damage::new(what).in_file(format!("db/{first}")).into())
}

/// The copy at `path`, recovered to its last whole record; `None` if RocksDB refuses it too.
pub(super) fn recovered(path: &Path, promised: Option<Promise>) -> Result<Option<RocksTables>, Error> {
    let at_least = promised.unwrap_or_default();
    let manifest = manifest::current(path)?;
    if manifest::reached(path)?.reach(at_least.manifest).is_err() {
        return Ok(None);
    }
    // The parts of a database that was being made when the power was lost may be missing.
    let is_new = promised.is_some_and(|promised| promised.ledger.batches == 0);
    let make = if is_new { Make::Database } else { Make::Nothing };
    // RocksDB must not read past a framing error.
    let mut may_cut = promised.is_some();
    while let Some(fault) = frames::check(path, manifest.as_ref().map(|(_, path)| path.as_path()))? {
        if manifest.as_ref().is_some_and(|(_, path)| *path == fault.path) {
            if !std::mem::take(&mut may_cut) || !cut_manifest(manifest.as_ref(), at_least.manifest)? {
                return Ok(None);
            }
            continue;
        }
        let removed = |log: &Path| std::fs::remove_file(log).map_err(|error| Error::io(log, &error));
        if oldest_needed_log(path)?.is_some_and(|needed| frames::number(&fault.path) < Some(needed)) {
            removed(&fault.path)?;
            continue;
        }
        // What follows the error would not follow from what is before it. The ledger tells whether it was promised.
        let logs = frames::logs(path)?;
        logs.iter().filter(|log| **log > fault.path).try_for_each(|log| removed(log))?;
        let cut = OpenOptions::new().write(true).open(&fault.path).and_then(|log| log.set_len(fault.at));
        cut.map_err(|error| Error::io(&fault.path, &error))?;
    }
    let there = manifest::tables(path)?;
    let mut opened = open_database(path, DBRecoveryMode::PointInTime, make);
    // An edit of which a loss of power left a part does not match its checksum.
    let is_damaged = matches!(opened, Err(Error::Damaged(_)));
    if is_damaged && std::mem::take(&mut may_cut) && cut_manifest(manifest.as_ref(), at_least.manifest)? {
        opened = open_database(path, DBRecoveryMode::PointInTime, make);
    }
    let db = match opened {
        Ok(db) => db,
        Err(error @ Error::Io { .. }) => return Err(error),
        Err(_) => return Ok(None),
    };
    let tables = RocksTables::new(db, path);
    if !may_cut {
        all_named(&tables, there)?;
    }
    tables.check_format()?;
    tables.ledger()?.reach(at_least.ledger)?;
    Ok(Some(tables))
}

/// The number of the oldest log that RocksDB would read of the copy at `path`: what earlier ones held is in tables. It
/// does not delete them at once, and a loss of power may bring one back. `None` if the copy cannot be opened.
fn oldest_needed_log(path: &Path) -> Result<Option<u64>, Error> {
    let logs = frames::logs(path)?;
    let aside = |log: &Path| log.with_extension("aside");
    let renamed = |from: &Path, to: &Path| std::fs::rename(from, to).map_err(|error| Error::io(from, &error));
    logs.iter().try_for_each(|log| renamed(log, &aside(log)))?;
    let families = families(&Cache::new_lru_cache(MEMORY_BYTES));
    let number = DB::open_cf_descriptors_read_only(&settings(), path, families, false)
        .and_then(|db| db.property_int_value(OLDEST_NEEDED_LOG));
    logs.iter().try_for_each(|log| renamed(&aside(log), log))?;
    Ok(number.ok().flatten())
}

/// Cuts a manifest behind its last sound record. `false` if that is less than promised, or nothing to cut.
fn cut_manifest(manifest: Option<&(u64, PathBuf)>, promised: Position) -> Result<bool, Error> {
    let Some((number, path)) = manifest else { return Ok(false) };
    let io = |error| Error::io(path, &error);
    let end = frames::sound_end(path).map_err(io)?;
    if end == 0 || (Position { number: *number, end }) < promised {
        return Ok(false);
    }
    let file = OpenOptions::new().write(true).open(path).map_err(io)?;
    let is_shorter = file.metadata().map_err(io)?.len() > end;
    file.set_len(end).map_err(io)?;
    Ok(is_shorter)
}

/// What RocksDB says if it could not open `CURRENT`, with and without direct I/O, which a store never asks for.
const UNOPENED: [&str; 2] = ["Direct I/O is not supported", "options incompatible with filesystem"];

/// The error of the store for one of RocksDB. Its kinds leave open what happened and its words may change, so the folder
/// itself is asked.
pub(super) fn fault(database: &Path, error: &rocksdb::Error) -> Error {
    fault_of(database, &error.kind(), error.as_ref())
}

pub(super) fn fault_of(database: &Path, kind: &ErrorKind, what: &str) -> Error {
    let name = file_named(what);
    // A file that could not be written is removed by RocksDB, and one in a folder that cannot be read is not seen.
    let is_of_another_kind = *kind == ErrorKind::IOError && !what.contains("No such file");
    let is_gone = |name: &str| matches!(database.join(name).try_exists(), Ok(false));
    let is_missing = !is_of_another_kind && name.is_some_and(is_gone);
    let damage = || match name {
        Some(name) if is_missing => Damage::new(format!("{name} is missing")).in_file(format!("db/{name}")).into(),
        Some(name) => Damage::new(in_words(name, what)).in_file(format!("db/{name}")).into(),
        None => Damage::new(what).into(),
    };
    let io = || Error::Io { path: database.display().to_string(), what: what.to_owned() };
    match kind {
        // Any other system error may be transient.
        ErrorKind::IOError if !is_missing => io(),
        // The same of a file that may open by now.
        ErrorKind::InvalidArgument if UNOPENED.iter().any(|words| what.contains(words)) => unopenable(database)
            .unwrap_or_else(|| {
                let path = database.join(manifest::CURRENT).display().to_string();
                Error::Io { path, what: "it could not be opened at first".to_owned() }
            }),
        // The folder is made by the wrapper of RocksDB, whose errors have no kind.
        ErrorKind::Unknown => io(),
        ErrorKind::InvalidArgument => match DB::list_cf(&settings(), database) {
            Ok(found) if found.iter().any(|name| !is_family(name)) => {
                Error::Format { found: codec::FORMAT + 1, known: codec::FORMAT }
            }
            Ok(found) if found.len() <= Family::ALL.len() => damage(),
            _ => unopenable(database).unwrap_or_else(io),
        },
        _ => damage(),
    }
}

fn is_family(name: &str) -> bool {
    name == DEFAULT_FAMILY || Family::ALL.iter().any(|family| family.name() == name)
}

/// The error of the first file that cannot be opened.
fn unopenable(database: &Path) -> Option<Error> {
    let names = std::fs::read_dir(database).map_err(|error| Error::io(database, &error));
    let paths = match names {
        Ok(names) => names.flatten().map(|entry| entry.path()),
        Err(error) => return Some(error),
    };
    paths.into_iter().find_map(|path| Some(Error::io(&path, &std::fs::File::open(&path).err()?)))
}

/// The file of the database that an error of RocksDB names.
pub(super) fn file_named(what: &str) -> Option<&str> {
    let words = what.split(|c: char| c.is_whitespace() || matches!(c, '/' | ':' | ',' | ';' | '\'' | '"' | '(' | ')'));
    let is_name = |word: &&str| {
        let number = word.strip_suffix(".sst").or_else(|| word.strip_suffix(".log"));
        number
            .or_else(|| word.strip_prefix("MANIFEST-"))
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    words.into_iter().find(is_name)
}

/// An error about a file, without the path of the store and the values of checksums.
fn in_words(name: &str, what: &str) -> String {
    if let Some(offset) = word_behind(what, " offset ").filter(|_| what.contains("block checksum mismatch")) {
        return format!("the block at byte {offset} of {name} does not match its checksum");
    }
    if let Some((expected, found)) = sizes(what) {
        return format!("{name} has {found} bytes where the manifest says {expected}");
    }
    let what = what.split("  The file ").next().unwrap_or_default();
    format!("{name}: {what}")
}

/// The size that a table should have and the one that it has, from an error that says so.
pub(super) fn sizes(what: &str) -> Option<(usize, usize)> {
    let size = |mark| word_behind(what, mark)?.parse().ok();
    size(" expected ").zip(size(" file system "))
}

fn word_behind<'a>(what: &'a str, mark: &str) -> Option<&'a str> {
    what.split_once(mark).and_then(|(_, rest)| rest.split_whitespace().next())
}

/// What an opening may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// The database, or the missing parts of one whose creation was interrupted.
    Database,
    /// Nothing: missing parts have been lost.
    Nothing,
}

pub(super) fn open_database(path: &Path, mode: DBRecoveryMode, make: Make) -> Result<DB, Error> {
    let cache = Cache::new_lru_cache(MEMORY_BYTES);
    let mut options = settings();
    options.set_wal_recovery_mode(mode);
    options.create_if_missing(make == Make::Database);
    options.create_missing_column_families(make == Make::Database);
    options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(
        MEMTABLE_BYTES,
        false,
        cache.clone(),
    ));
    DB::open_cf_descriptors(&options, path, families(&cache)).map_err(|error| fault(path, &error))
}

/// The options common to every opening.
pub(super) fn settings() -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_paranoid_checks(true);
    options.set_max_total_wal_size(LOG_BYTES);
    options.set_max_open_files(OPEN_FILES);
    // RocksDB starts all of its threads for each family with tables, and a thread costs more than reading a table.
    options.set_max_file_opening_threads(1);
    options.set_max_background_jobs(2);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_skip_stats_update_on_db_open(true);
    // RocksDB's info log is discarded: it grows with every opening, and faults are returned.
    options.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| {}));
    options
}

pub(super) fn families(cache: &Cache) -> Vec<ColumnFamilyDescriptor> {
    let families = Family::ALL.iter().map(|family| ColumnFamilyDescriptor::new(family.name(), family_settings(cache)));
    families.chain([ColumnFamilyDescriptor::new(DEFAULT_FAMILY, family_settings(cache))]).collect()
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

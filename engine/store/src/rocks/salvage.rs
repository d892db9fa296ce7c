//! Reads a store that no opening accepts, as far as its files allow. Everything happens on a copy in the system's
//! temporary folder; the store itself is not changed.
//!
//! The copy is opened without its logs. If its manifest cannot be used, RocksDB makes a new one from the tables that
//! are there. Then the logs are replayed here: the first two bytes of a key name its family, so a log can be
//! read without the manifest, and a damaged record costs no other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocksdb::{Cache, DB, DBRecoveryMode};
use rondo_protocol::id::ThreadId;

use super::super::error::Damage;
use super::super::keys;
use super::super::recovery::Copy;
use super::super::tables::{Change, Tables as _};
use super::super::writer::WriteTables as _;
use super::super::{Error, codec, frames, manifest};
use super::opening::{MEMORY_BYTES, Make, all_named, families, file_named, open_database, promised, settings, sizes};
use super::{Remnants as _, RocksReader, RocksTables, temporary_folder};

/// What an examination reads: the store itself, or the remains of a damaged one.
pub(in super::super) struct Examined {
    pub(in super::super) reader: Option<RocksReader>,
    /// Those of its opening.
    pub(in super::super) notices: Vec<String>,
    /// The damage that was found on the way, each with the threads that it is known to touch.
    pub(in super::super) damage: Vec<(Damage, BTreeSet<ThreadId>)>,
    /// Whether tables may have been left out, so that what newer ones deleted or replaced is there again.
    pub(in super::super) may_be_older: bool,
}

/// Opens a store for an examination. One that an opening finds damaged is read from a copy.
///
/// # Errors
/// As [`RocksReader::open`], but for [`Error::Damaged`].
pub(in super::super) fn examine(folder: &Path) -> Result<Examined, Error> {
    let found = match RocksReader::open(folder) {
        Ok((reader, notices)) => {
            return Ok(Examined { reader: Some(reader), notices, damage: Vec::new(), may_be_older: false });
        }
        Err(Error::Damaged(found)) => *found,
        Err(error) => return Err(error),
    };
    let mut damage = vec![(found, BTreeSet::new())];
    let mut notices = Vec::new();
    let scratch = temporary_folder("remains").map_err(|error| Error::io(&std::env::temp_dir(), &error))?;
    let Some(Remains { tables, copy, may_be_older }) = remains(folder, scratch.path(), &mut damage)? else {
        return Ok(Examined { reader: None, notices, damage, may_be_older: false });
    };
    let at_least = promised(folder, &mut notices)?.unwrap_or_default();
    if let Err(Error::Damaged(short)) = tables.ledger().and_then(|ledger| ledger.reach(at_least.ledger)) {
        let is_new = damage.iter().all(|(told, _)| told.what != short.what);
        damage.extend(is_new.then(|| (*short, BTreeSet::new())));
    }
    let reader = RocksReader { tables, _copy: Some(copy), _scratch: Some(scratch) };
    Ok(Examined { reader: Some(reader), notices, damage, may_be_older })
}

/// A readable database made from the files of a store.
struct Remains {
    tables: RocksTables,
    copy: Copy,
    may_be_older: bool,
}

/// A readable database from the files of the store; `None` if there is nothing to make one from.
fn remains(
    folder: &Path,
    scratch: &Path,
    damage: &mut Vec<(Damage, BTreeSet<ThreadId>)>,
) -> Result<Option<Remains>, Error> {
    if !folder.join(super::DATABASE).is_dir() {
        return Ok(None);
    }
    for makes_manifest in [false, true] {
        let copy = Copy::of(folder, scratch)?;
        let aside = scratch.join("logs");
        let logs = without_logs(copy.path(), &aside)?;
        let there = manifest::tables(copy.path())?;
        let made = if makes_manifest { made_anew(copy.path()) } else { as_it_is(copy.path())? };
        let Some(db) = made else { continue };
        let tables = RocksTables::new(db, copy.path());
        // A manifest that lost its end names too few tables.
        if !makes_manifest && all_named(&tables, there).is_err() {
            continue;
        }
        match tables.check_format() {
            // The table that says it may be the damaged one.
            Err(Error::Format { found: codec::FORMAT_UNSAID, .. }) if makes_manifest => {
                damage.push((Damage::new("the format of the store cannot be read"), BTreeSet::new()));
            }
            Err(error @ Error::Format { .. }) => return Err(error),
            _ => {}
        }
        for log in &logs {
            replay(log, &tables, damage)?;
        }
        return Ok(Some(Remains { tables, copy, may_be_older: makes_manifest }));
    }
    Ok(None)
}

/// Moves the logs of the copied database to `aside`. Returns them, oldest first.
fn without_logs(database: &Path, aside: &Path) -> Result<Vec<PathBuf>, Error> {
    let io = |error| Error::io(aside, &error);
    if aside.exists() {
        std::fs::remove_dir_all(aside).map_err(io)?;
    }
    std::fs::create_dir(aside).map_err(io)?;
    let logs = frames::logs(database)?.into_iter().filter_map(|log| Some((aside.join(log.file_name()?), log)));
    logs.map(|(target, log)| std::fs::rename(&log, &target).map(|()| target).map_err(io)).collect()
}

/// The database by its own manifest, if every table that it names can be read at least in parts. A table with bytes
/// behind its end is cut to its length.
fn as_it_is(database: &Path) -> Result<Option<DB>, Error> {
    let Ok(Some((_, manifest))) = manifest::current(database) else { return Ok(None) };
    if frames::check(database, Some(&manifest))?.is_some() {
        return Ok(None);
    }
    let mut options = settings();
    // All tables are opened now, and not when somebody reads them.
    options.set_max_open_files(-1);
    for _ in 0..=manifest::tables(database)?.len() {
        let cache = Cache::new_lru_cache(MEMORY_BYTES);
        match DB::open_cf_descriptors(&options, database, families(&cache)) {
            Ok(db) => return Ok(Some(db)),
            Err(error) if !cut_to_length(database, &error)? => return Ok(None),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Cuts a table that RocksDB finds too long. Returns whether there was one.
fn cut_to_length(database: &Path, error: &rocksdb::Error) -> Result<bool, Error> {
    let what = error.to_string();
    let Some((name, length)) = file_named(&what).zip(sizes(&what)).map(|(name, (expected, _))| (name, expected)) else {
        return Ok(false);
    };
    let table = database.join(name);
    let io = |error| Error::io(&table, &error);
    let mut bytes = std::fs::read(&table).map_err(io)?;
    if bytes.len() <= length {
        return Ok(false);
    }
    bytes.truncate(length);
    // The copy may share the file with the store.
    std::fs::remove_file(&table).and_then(|()| std::fs::write(&table, bytes)).map_err(io)?;
    Ok(true)
}

/// The database by a manifest that RocksDB makes from the tables. A table that cannot be read is left out.
fn made_anew(database: &Path) -> Option<DB> {
    DB::repair(&settings(), database).ok()?;
    open_database(database, DBRecoveryMode::SkipAnyCorruptedRecord, Make::Database).ok()
}

/// Applies every whole record of a log. Of the others it notes the threads whose keys can be read.
fn replay(log: &Path, tables: &RocksTables, damage: &mut Vec<(Damage, BTreeSet<ThreadId>)>) -> Result<(), Error> {
    let (mut touched, mut lost, mut failed) = (BTreeSet::new(), 0_u64, None);
    let read = frames::records(log, &mut |record| {
        let changes = changes(&record.bytes);
        if !record.is_whole {
            lost += 1;
            touched.extend(changes.iter().filter_map(|change| keys::thread_of(&change.key)));
        } else if failed.is_none() {
            failed = changes.into_iter().try_for_each(|change| apply(change, tables)).err();
        }
    });
    read.map_err(|error| Error::io(log, &error))?;
    if let Some(error) = failed {
        return Err(error);
    }
    if lost > 0 {
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        let what = format!("{name}: {lost} of its records cannot be read");
        damage.push((Damage::new(what).in_file(format!("db/{name}")), touched));
    }
    Ok(())
}

/// Applies a change, unless the tables hold a newer row: a log may be older than a table, and the record that led to
/// the newer one may be lost.
fn apply(change: Change, tables: &RocksTables) -> Result<(), Error> {
    if let (Some(_), Some(new)) = (keys::thread_of_row(&change.key), &change.value)
        && let Some(old) = tables.get(change.family, &change.key)?
        && codec::read_row_end(&old)?.0 > codec::read_row_end(new).map_or(0, |(version, _)| version)
    {
        return Ok(());
    }
    let io = |what| Error::Io { path: tables.path.display().to_string(), what };
    tables.write(vec![change], false).map_err(io)
}

/// The changes in a record of a log, up to the first that cannot be read: sequence number(8), count(4), and per change
/// a tag, the family's number, and the key and value, each with its length in front.
///
/// Source: `db/write_batch.cc` of RocksDB 11.8.
fn changes(record: &[u8]) -> Vec<Change> {
    const DELETION: u8 = 4;
    const VALUE: u8 = 5;
    let mut changes = Vec::new();
    let Some(mut rest) = record.get(12..) else { return changes };
    while let Some((tag, behind)) = rest.split_first() {
        let read = (|| {
            let (_, rest) = number(behind)?;
            let (key, rest) = text(rest)?;
            let (value, rest) = match *tag {
                VALUE => text(rest).map(|(value, rest)| (Some(value.to_vec()), rest))?,
                DELETION => (None, rest),
                _ => return None,
            };
            Some((Change { family: keys::family_of(key)?, key: key.to_vec(), value }, rest))
        })();
        let Some((change, next)) = read else { break };
        changes.push(change);
        rest = next;
    }
    changes
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// A number of at most 32 bits in groups of seven, the lowest first.
fn number(mut bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0_u32;
    for shift in [0, 7, 14, 21, 28] {
        let (byte, rest) = bytes.split_first()?;
        bytes = rest;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((number, bytes));
        }
    }
    None
}

//! Compaction: rewrites tables, so that what was deleted no longer takes room.
//!
//! Laws. It runs beside commits and readers and changes no entry. It is made in pieces, so that none delays the end of
//! the process that holds the store for long. Until the next batch or the close the anchor knows the manifest as it was
//! before, which promises less and never more than is there.

use rocksdb::{CompactOptions, properties};

use super::super::Error;
use super::super::blocking::blocking;
use super::super::keys::Family;
use super::opening::fault;
use super::{RocksStore, RocksTables};

/// About how many bytes of tables are compacted at a time.
const PIECE_BYTES: usize = 64 << 20;

impl RocksStore {
    /// Compacts the tables of a family, from the key `from` on, up to about 64 MiB. Returns the key from which to go on.
    /// Blocks.
    ///
    /// # Errors
    /// [`Error::Io`] if RocksDB reports one, as without space. The entries are as they were.
    pub(crate) fn compact(&self, family: Family, from: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let tables = &*self.tables;
        tables.usable()?;
        let live = tables.db.live_files().map_err(|error| fault(&tables.path, &error))?;
        let of_family = live.into_iter().filter(|file| file.column_family_name == family.name());
        let last = last_of_piece(of_family.filter_map(|file| Some((file.end_key?, file.size))).collect(), from);
        let mut options = CompactOptions::default();
        // Commits go on, and their tables are compacted too.
        options.set_exclusive_manual_compaction(false);
        let family = tables.family(family)?;
        let errors = tables.background_errors()?;
        blocking(|| tables.db.compact_range_cf_opt(family, Some(from), last.as_deref(), &options));
        // The call itself reports nothing.
        if tables.background_errors()? > errors {
            let what = "the tables could not be compacted; is there space on the device?".to_owned();
            return Err(Error::Io { path: tables.path.display().to_string(), what });
        }
        // The least key behind it.
        Ok(last.map(|last| [&last[..], &[0]].concat()))
    }
}

impl RocksTables {
    fn background_errors(&self) -> Result<u64, Error> {
        let errors = self.db.property_int_value(properties::BACKGROUND_ERRORS);
        Ok(errors.map_err(|error| fault(&self.path, &error))?.unwrap_or(0))
    }
}

/// The last key of the next piece from `from` on, of tables that end with these keys and have these sizes; `None` if that
/// is the rest.
fn last_of_piece(mut tables: Vec<(Vec<u8>, usize)>, from: &[u8]) -> Option<Vec<u8>> {
    tables.retain(|(end, _)| end.as_slice() >= from);
    tables.sort();
    let mut bytes = 0;
    let mut ends = tables.iter();
    let (last, _) = ends.find(|(_, size)| {
        bytes += size;
        bytes >= PIECE_BYTES
    })?;
    ends.any(|(end, _)| end > last).then(|| last.clone())
}

#[cfg(test)]
mod tests;

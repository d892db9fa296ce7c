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
        self.tables.compact(family, from)
    }
}

impl RocksTables {
    fn compact(&self, family: Family, from: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.usable()?;
        let live = self.db.live_files().map_err(|error| fault(&self.path, &error))?;
        let of_family = live.into_iter().filter(|file| file.column_family_name == family.name());
        let last = last_of_piece(of_family.filter_map(|file| Some((file.end_key?, file.size))).collect(), from);
        let mut options = CompactOptions::default();
        // Commits go on, and their tables are compacted too.
        options.set_exclusive_manual_compaction(false);
        let family = self.family(family)?;
        let errors = self.background_errors()?;
        blocking(|| self.db.compact_range_cf_opt(family, Some(from), last.as_deref(), &options));
        // The call itself reports nothing.
        if self.background_errors()? > errors {
            let what = "the tables could not be compacted; is there space on the device?".to_owned();
            return Err(Error::Io { path: self.path.display().to_string(), what });
        }
        // The least key behind it.
        Ok(last.map(|last| [&last[..], &[0]].concat()))
    }

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
mod tests {
    use super::super::super::folder;
    use super::super::super::recovery::DATABASE;
    use super::super::super::tests::steps::{Trunk, answers};
    use super::super::super::{Deletion, Options, RocksReader, StepStore as _};
    use super::*;

    #[test]
    fn pieces_have_a_size_and_end_with_the_tables() {
        let table = |end: &str, pieces: usize| (end.as_bytes().to_vec(), pieces * PIECE_BYTES / 4);
        let tables = || vec![table("f", 3), table("b", 1), table("d", 3), table("h", 1), table("h", 9)];
        let mut ends = Vec::new();
        let mut from = Vec::new();
        while let Some(last) = last_of_piece(tables(), &from) {
            ends.push(String::from_utf8(last.clone()).unwrap());
            from = [&last[..], &[0]].concat();
        }
        // The rest after `f` ends with the last table.
        assert_eq!(ends, ["d"]);
        assert_eq!(last_of_piece(Vec::new(), b""), None);
    }

    #[tokio::test]
    async fn what_was_deleted_takes_no_room_after_a_compaction_and_the_store_opens() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
        let (mut kept, mut gone) = (Trunk::new(1), Trunk::new(2));
        store.commit(kept.next("kept")).await.unwrap();
        // Text that LZ4 cannot make shorter.
        let mut state = 1_u64;
        for _ in 0..64 {
            let mut text = String::new();
            while text.len() < 64 << 10 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.extend(char::from_u32(33 + u32::try_from(state >> 40).unwrap() % 90));
            }
            store.commit(gone.next(&text)).await.unwrap();
        }
        let compact = |store: &RocksStore| {
            for family in Family::ALL {
                assert_eq!(store.compact(family, b""), Ok(None));
            }
        };
        compact(&store);
        let threads = vec![(gone.thread.clone(), gone.version)];
        store.delete(Deletion { threads, lines: Vec::new() }).await.unwrap();
        let database = folder.path().join(DATABASE);
        let sizes = || {
            let tables = folder::files(&database, folder::TABLE).unwrap();
            tables.iter().map(|table| table.metadata().unwrap().len()).sum::<u64>()
        };
        let before = sizes();
        compact(&store);
        assert!(before > 3 << 20 && sizes() < 1 << 16, "{before} {}", sizes());
        // Killed now: the anchor knows the manifest from before the compaction.
        let (reader, _) = RocksReader::open(folder.path()).unwrap();
        assert_eq!(answers(&reader, &kept.thread).unwrap(), ["kept"]);
        store.commit(kept.next("and on")).await.unwrap();
        drop(store);
        let (store, opened) = RocksStore::open(folder.path(), Options::default()).unwrap();
        assert_eq!(opened.notices, Vec::<String>::new());
        assert_eq!(answers(&store, &kept.thread).unwrap(), ["kept", "and on"]);
    }
}

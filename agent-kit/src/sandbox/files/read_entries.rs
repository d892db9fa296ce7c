//! Read entries, gathered.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rondo_protocol::read_set::{FileStamp, ReadEntry, ReadKind, ReadSet};

/// What was looked at, each name once a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadEntries(BTreeMap<(String, ReadKind), ReadEntry>);

impl ReadEntries {
    /// Adds an entry; `false` = the same name was seen in another state, so the state is unknown.
    #[must_use]
    pub(crate) fn add(&mut self, read_entry: ReadEntry) -> bool {
        match self.0.entry((read_entry.path.clone(), read_entry.kind)) {
            Entry::Vacant(place) => drop(place.insert(read_entry)),
            Entry::Occupied(before) if covers(before.get(), &read_entry) => {}
            Entry::Occupied(mut before) if covers(&read_entry, before.get()) => drop(before.insert(read_entry)),
            Entry::Occupied(_) => return false,
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, by path and kind, without folders that were listed too: to be listed again they have to be entered.
    pub(crate) fn into_seen(self) -> ReadSet {
        let is_listed = |entry: &ReadEntry| {
            let listed = self.0.get(&(entry.path.clone(), ReadKind::Listing));
            let is_it = |listed: &ReadEntry| stands_alike(ReadKind::Folder, listed.mark, entry.mark);
            entry.kind == ReadKind::Folder && entry.digest.is_none() && listed.is_some_and(is_it)
        };
        ReadSet { read_entries: self.0.values().filter(|entry| !is_listed(entry)).cloned().collect() }
    }
}

/// Whether comparing with `look` later compares with another look at the same name too.
fn covers(look: &ReadEntry, other: &ReadEntry) -> bool {
    // A file that was not read, or was old enough when it was, is known by its mark alone.
    let is_known = || look.digest.is_some() && look.read_bytes > 0 && other.digest.is_none();
    stands_alike(look.kind, look.mark, other.mark)
        && ((look.digest, look.read_bytes) == (other.digest, other.read_bytes) || is_known())
}

/// Whether a name stands as it did. A folder that was entered and not listed may hold other names by now: what was
/// looked at in it is a read entry of its own.
pub(super) fn stands_alike(kind: ReadKind, left: Option<FileStamp>, right: Option<FileStamp>) -> bool {
    let identity = |mark: FileStamp| (mark.device, mark.inode);
    match kind {
        ReadKind::Folder => left.map(identity) == right.map(identity),
        ReadKind::File | ReadKind::Listing | ReadKind::Absent => left == right,
    }
}

#[cfg(test)]
mod tests {
    use rondo_protocol::digest::Digest;

    use super::*;

    const MARK: FileStamp = FileStamp { size_bytes: 9, modified: (1, 0), changed: (1, 0), device: 1, inode: 1 };

    fn read_entry(kind: ReadKind, size_bytes: u64, read: &[u8]) -> ReadEntry {
        let digest = (!read.is_empty()).then(|| Digest::sha256(read));
        let mark = (kind != ReadKind::Absent).then_some(FileStamp { size_bytes, ..MARK });
        ReadEntry { path: "a".to_owned(), kind, mark, digest, read_bytes: read.len() as u64 }
    }

    /// Whether two looks at one name make one, whichever is first.
    fn agree(left: &ReadEntry, right: &ReadEntry) -> bool {
        let [there, back] = [[left, right], [right, left]].map(|looks| {
            let mut read_entries = ReadEntries::default();
            looks.into_iter().all(|read_entry| read_entries.add(read_entry.clone()))
        });
        assert_eq!(there, back);
        there
    }

    #[test]
    fn one_name_seen_in_two_states_is_told_apart() {
        use ReadKind::{Absent, File, Folder, Listing};
        for kind in [File, Folder, Listing, Absent] {
            assert!(agree(&read_entry(kind, 1, b""), &read_entry(kind, 1, b"")));
        }
        assert!(!agree(&read_entry(File, 1, b""), &read_entry(File, 2, b"")));
        assert!(!agree(&read_entry(Listing, 1, b""), &read_entry(Listing, 2, b"")));
        assert!(!agree(&read_entry(Listing, 1, b"x"), &read_entry(Listing, 1, b"y")));
        assert!(agree(&read_entry(Folder, 1, b""), &read_entry(Folder, 2, b"")), "names were put into it");
        assert!(agree(&read_entry(File, 9, b"text"), &read_entry(File, 9, b"")), "one of them was only opened");
        assert!(!agree(&read_entry(File, 9, b"text"), &read_entry(File, 9, b"tuxt")));
        assert!(
            !agree(&read_entry(File, 9, b"text"), &read_entry(File, 9, b"text and more")),
            "nobody compared their beginnings"
        );
        let link = ReadEntry { read_bytes: 0, ..read_entry(File, 9, b"real") };
        assert!(!agree(&link, &read_entry(File, 9, b"")), "it was a link and is a file");
        let refused = ReadEntry { read_bytes: 0, ..read_entry(Absent, 0, b"is a link") };
        assert!(!agree(&refused, &read_entry(Absent, 0, b"")));
    }

    #[test]
    fn a_folder_that_was_listed_is_not_told_twice() {
        let mut read_entries = ReadEntries::default();
        assert!(read_entries.add(read_entry(ReadKind::Folder, 1, b"")));
        assert!(read_entries.add(read_entry(ReadKind::Listing, 2, b"x")));
        let elsewhere = ReadEntry { path: "b".to_owned(), ..read_entry(ReadKind::Folder, 1, b"") };
        assert!(read_entries.add(elsewhere.clone()));
        assert_eq!(read_entries.into_seen().read_entries, [read_entry(ReadKind::Listing, 2, b"x"), elsewhere]);
    }
}

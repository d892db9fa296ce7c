//! Read entries, gathered.

use std::collections::{BTreeMap, btree_map};

use rondo_protocol::digest::Digest;
use rondo_protocol::read_set::{FileStamp, ReadEntry, ReadKind, ReadSet};

/// What was looked at, each name once a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadEntries(BTreeMap<(String, ReadKind), Look>);

/// How one name stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    mark: Option<FileStamp>,
    digest: Option<Digest>,
    read_bytes: u64,
}

impl ReadEntries {
    /// Adds an entry; `false` = the same name was seen in another state, so the state is unknown.
    #[must_use]
    pub(crate) fn add(&mut self, read_entry: ReadEntry) -> bool {
        let ReadEntry { path, kind, mark, digest, read_bytes } = read_entry;
        let look = Look { mark, digest, read_bytes };
        match self.0.entry((path, kind)) {
            btree_map::Entry::Vacant(place) => drop(place.insert(look)),
            btree_map::Entry::Occupied(mut before) => match before.get().and(look, kind) {
                Some(both) => drop(before.insert(both)),
                None => return false,
            },
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, by path and kind.
    pub(crate) fn into_seen(mut self) -> ReadSet {
        self.drop_entered();
        let read_entry =
            |((path, kind), Look { mark, digest, read_bytes })| ReadEntry { path, kind, mark, digest, read_bytes };
        ReadSet { read_entries: self.0.into_iter().map(read_entry).collect() }
    }

    /// Leaves out folders that were listed too: to be listed again they have to be entered.
    fn drop_entered(&mut self) {
        let read_entries = &self.0;
        let is_listed = |path: &String, look: &Look| {
            let listed = read_entries.get(&(path.clone(), ReadKind::Listing));
            let stands_alike = |listed: &Look| stands_alike(ReadKind::Folder, listed.mark, look.mark);
            look.digest.is_none() && listed.is_some_and(stands_alike)
        };
        let entered =
            read_entries.iter().filter(|((path, kind), look)| *kind == ReadKind::Folder && is_listed(path, look));
        let entered: Vec<_> = entered.map(|(name, _)| name.clone()).collect();
        for name in entered {
            self.0.remove(&name);
        }
    }
}

impl Look {
    /// Two looks at one name as one, where one can be compared later for both.
    fn and(self, other: Self, kind: ReadKind) -> Option<Self> {
        if !stands_alike(kind, self.mark, other.mark) {
            return None;
        }
        match (self.digest, other.digest) {
            (left, right) if left == right && self.read_bytes == other.read_bytes => Some(self),
            // A file that was not read, or was old enough when it was, is known by its mark alone.
            (Some(_), None) if self.read_bytes > 0 => Some(self),
            (None, Some(_)) if other.read_bytes > 0 => Some(other),
            _ => None,
        }
    }
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

//! Sights, gathered.

use std::collections::{BTreeMap, btree_map};

use rondo_protocol::digest::Digest;
use rondo_protocol::seen::{Mark, ReadSet, Sight, SightKind};

/// What was looked at, each name once a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sights(BTreeMap<(String, SightKind), Look>);

/// How one name stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    mark: Option<Mark>,
    digest: Option<Digest>,
    read_bytes: u64,
}

impl Sights {
    /// Takes one in. `false` = the same name was seen otherwise before, so that nobody can tell what it was.
    #[must_use]
    pub(crate) fn add(&mut self, sight: Sight) -> bool {
        let Sight { path, kind, mark, digest, read_bytes } = sight;
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
        let sight = |((path, kind), Look { mark, digest, read_bytes })| Sight { path, kind, mark, digest, read_bytes };
        ReadSet { sights: self.0.into_iter().map(sight).collect() }
    }

    /// Leaves out folders that were listed too: to be listed again they have to be entered.
    fn drop_entered(&mut self) {
        let sights = &self.0;
        let is_listed = |path: &String, look: &Look| {
            let listed = sights.get(&(path.clone(), SightKind::Listing));
            let stands_alike = |listed: &Look| stands_alike(SightKind::Folder, listed.mark, look.mark);
            look.digest.is_none() && listed.is_some_and(stands_alike)
        };
        let entered = sights.iter().filter(|((path, kind), look)| *kind == SightKind::Folder && is_listed(path, look));
        let entered: Vec<_> = entered.map(|(name, _)| name.clone()).collect();
        for name in entered {
            self.0.remove(&name);
        }
    }
}

impl Look {
    /// Two looks at one name as one, where one can be compared later for both.
    fn and(self, other: Self, kind: SightKind) -> Option<Self> {
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
/// looked at in it is a sight of its own.
pub(super) fn stands_alike(kind: SightKind, left: Option<Mark>, right: Option<Mark>) -> bool {
    let identity = |mark: Mark| (mark.device, mark.inode);
    match kind {
        SightKind::Folder => left.map(identity) == right.map(identity),
        SightKind::File | SightKind::Listing | SightKind::Absent => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { size_bytes: 9, modified: (1, 0), changed: (1, 0), device: 1, inode: 1 };

    fn sight(kind: SightKind, size_bytes: u64, read: &[u8]) -> Sight {
        let digest = (!read.is_empty()).then(|| Digest::sha256(read));
        let mark = (kind != SightKind::Absent).then_some(Mark { size_bytes, ..MARK });
        Sight { path: "a".to_owned(), kind, mark, digest, read_bytes: read.len() as u64 }
    }

    /// Whether two looks at one name make one, whichever is first.
    fn agree(left: &Sight, right: &Sight) -> bool {
        let [there, back] = [[left, right], [right, left]].map(|looks| {
            let mut sights = Sights::default();
            looks.into_iter().all(|sight| sights.add(sight.clone()))
        });
        assert_eq!(there, back);
        there
    }

    #[test]
    fn one_name_seen_in_two_states_is_told_apart() {
        use SightKind::{Absent, File, Folder, Listing};
        for kind in [File, Folder, Listing, Absent] {
            assert!(agree(&sight(kind, 1, b""), &sight(kind, 1, b"")));
        }
        assert!(!agree(&sight(File, 1, b""), &sight(File, 2, b"")));
        assert!(!agree(&sight(Listing, 1, b""), &sight(Listing, 2, b"")));
        assert!(!agree(&sight(Listing, 1, b"x"), &sight(Listing, 1, b"y")));
        assert!(agree(&sight(Folder, 1, b""), &sight(Folder, 2, b"")), "names were put into it");
        assert!(agree(&sight(File, 9, b"text"), &sight(File, 9, b"")), "one of them was only opened");
        assert!(!agree(&sight(File, 9, b"text"), &sight(File, 9, b"tuxt")));
        assert!(
            !agree(&sight(File, 9, b"text"), &sight(File, 9, b"text and more")),
            "nobody compared their beginnings"
        );
        let link = Sight { read_bytes: 0, ..sight(File, 9, b"real") };
        assert!(!agree(&link, &sight(File, 9, b"")), "it was a link and is a file");
        let refused = Sight { read_bytes: 0, ..sight(Absent, 0, b"is a link") };
        assert!(!agree(&refused, &sight(Absent, 0, b"")));
    }

    #[test]
    fn a_folder_that_was_listed_is_not_told_twice() {
        let mut sights = Sights::default();
        assert!(sights.add(sight(SightKind::Folder, 1, b"")));
        assert!(sights.add(sight(SightKind::Listing, 2, b"x")));
        let elsewhere = Sight { path: "b".to_owned(), ..sight(SightKind::Folder, 1, b"") };
        assert!(sights.add(elsewhere.clone()));
        assert_eq!(sights.into_seen().sights, [sight(SightKind::Listing, 2, b"x"), elsewhere]);
    }
}

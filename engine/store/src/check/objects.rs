//! The objects of a store: that each is what its digest says, and that what one names is there.

use std::collections::HashMap;

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::ThreadId;

use super::super::error::Damage;
use super::super::keys::{self, Family};
use super::super::{Error, Read as _, chain, codec, references};
use super::Sums;
use super::checkpoint::Checkpoints;
use super::entries::{self, Counted};
use super::faults::{Faults, Place};

/// How far a reference reaches: a transcript names a request, which names a head.
const REACH: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Objects {
    whole: HashMap<Digest, Kind>,
    /// Objects that are damaged or missing, or name one that is.
    faulty: HashMap<Digest, Vec<Place>>,
    /// How many were read, in order, and are what their digests say.
    read: u64,
}

impl Objects {
    pub(super) fn read(
        store: &Counted<'_>,
        checkpoints: &mut Checkpoints<'_>,
        faults: &mut Faults,
    ) -> Result<Self, Error> {
        // Those that an earlier examination found whole are read again where something names them.
        let read = checkpoints.from.as_ref().map_or(0, |from| from.sums.objects);
        let mut objects = Self { read, ..Self::default() };
        let Some(begin) = checkpoints.begin_of(Family::Objects) else { return Ok(objects) };
        let mut wanted: HashMap<Digest, Kind> = HashMap::new();
        entries::read_from(store, (Family::Objects, begin), faults, &mut |key, value, faults| {
            let Some(digest) = keys::object_of(key) else {
                let what = "the key of an object cannot be read".to_owned();
                faults.add(Damage::new(what).at(Family::Objects, key), None);
                return Ok(());
            };
            match verified(digest, value) {
                Ok((kind, names)) => {
                    objects.whole.insert(digest, kind);
                    objects.read += 1;
                    wanted.extend(names.into_iter().map(|(kind, digest)| (digest, kind)));
                }
                Err(Error::Damaged(damage)) => {
                    let place = faults.add(Damage { object: Some(digest), ..*damage }, None);
                    objects.faulty.entry(digest).or_default().push(place);
                }
                Err(error) => return Err(error),
            }
            if checkpoints.is_due(faults) {
                for (digest, kind) in wanted.drain() {
                    objects.find(store, kind, digest, faults)?;
                }
                let sums = Sums { objects: objects.read, ..Sums::default() };
                checkpoints.save(Family::Objects, key, sums, store.read_so_far());
            }
            Ok(())
        })?;
        for (digest, kind) in wanted {
            objects.find(store, kind, digest, faults)?;
        }
        if !objects.faulty.is_empty() {
            objects.find_who_names_faulty(store)?;
        }
        Ok(objects)
    }

    /// How many objects are what their digests say.
    pub(super) fn whole(&self) -> u64 {
        // What stands behind a damaged block was looked up, and not read in order.
        u64::try_from(self.whole.len()).unwrap_or(u64::MAX).max(self.read)
    }

    /// Checks that a thread finds an object that its step `seq` or its row names.
    pub(super) fn check(
        &mut self,
        store: &Counted<'_>,
        (kind, digest): (Kind, Digest),
        (thread, seq): (&ThreadId, u64),
        faults: &mut Faults,
    ) -> Result<(), Error> {
        self.find(store, kind, digest, faults)?;
        for place in self.faulty.get(&digest).into_iter().flatten() {
            faults.touch(*place, thread, seq);
        }
        Ok(())
    }

    /// Looks up an object. One that was not met while all were read may stand behind a damaged block.
    fn find(&mut self, store: &Counted<'_>, kind: Kind, digest: Digest, faults: &mut Faults) -> Result<(), Error> {
        if self.faulty.contains_key(&digest) || self.whole.get(&digest) == Some(&kind) {
            return Ok(());
        }
        let missing = || Damage::new(format!("the {} object {digest} is missing", kind.name())).of_object(digest);
        let damage = match store.object(kind, digest) {
            Ok(Some(_)) => {
                self.whole.insert(digest, kind);
                return Ok(());
            }
            Ok(None) => missing(),
            Err(Error::Damaged(damage)) => Damage { object: damage.object.or(Some(digest)), ..*damage },
            Err(error) => return Err(error),
        };
        let place = faults.add(damage, None);
        self.faulty.entry(digest).or_default().push(place);
        Ok(())
    }

    /// Marks the objects that name a faulty one, so that the threads that need these are found.
    fn find_who_names_faulty(&mut self, store: &Counted<'_>) -> Result<(), Error> {
        for _ in 0..REACH {
            let mut found = Vec::new();
            // Damage is known by now.
            entries::read(store, Family::Objects, &mut Faults::default(), &mut |key, value, _| {
                let Some(digest) = keys::object_of(key).filter(|digest| self.whole.contains_key(digest)) else {
                    return Ok(());
                };
                let (_, names) = verified(digest, value)?;
                let faulty = names.iter().filter_map(|(_, named)| self.faulty.get(named)).flatten();
                found.extend(faulty.map(|place| (digest, *place)));
                Ok(())
            })?;
            for (digest, place) in found {
                let places = self.faulty.entry(digest).or_default();
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        Ok(())
    }
}

/// The kind of a stored object, and the objects that it names.
fn verified(digest: Digest, value: &[u8]) -> Result<(Kind, Vec<(Kind, Digest)>), Error> {
    let (kind, bytes) = codec::read_object(value)?;
    chain::verified_object(kind, digest, kind, bytes)?;
    let unreadable = |error| Damage::new(format!("the {} object {digest} cannot be read: {error}", kind.name()));
    Ok((kind, references::of_object(kind, bytes).map_err(unreadable)?))
}

//! Collects garbage: deletes the objects that no thread needs.
//!
//! Laws. An object is needed if the row of a thread, one of its records, or a needed object names it. The collection
//! first begins at the writer, then reads which objects are needed, then has the others deleted. It is safe beside
//! commits and imports: a commit holds each object that its thread did not name before ([`Commit::objects`]), an import
//! all of them, and from the beginning on the writer remembers the objects that it writes and deletes none of these. A
//! collection ends when another one begins, or the store is opened anew: then nothing more is deleted, and it begins
//! again. It does not begin while an import is under way, whose rows come last. If anything that it reads is damaged or
//! missing, nothing is deleted. A deletion that is lost in a crash leaves an object that no thread needs.
//!
//! Memory grows with the objects, a digest each.
//!
//! [`Commit::objects`]: super::Commit::objects

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::ThreadId;
use serde::{Deserialize, Serialize};

use super::check::Progress;
use super::codec::{self, StepValue};
use super::error::Damage;
use super::keys::{self, Family};
use super::tables::{Change, Tables};
use super::write::{Write, WriteStore};
use super::{Error, Read as _, Row, chain, references, rows_after};

const SWEEP: usize = 1000;

/// How often a collection begins again after it was ended.
const ATTEMPTS: u32 = 3;

/// How many written objects the writer remembers, so that a collection whose process was killed does not cost more.
const MAX_WRITTEN: usize = 1 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum CollectWrite {
    /// Begins it, in place of an earlier one that did not end.
    Begin { token: [u8; 16] },
    /// Deletes objects that nothing named when it began.
    Sweep { token: [u8; 16], objects: Vec<Digest> },
    /// Ends it.
    End { token: [u8; 16] },
}

impl CollectWrite {
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Self::Begin { .. } | Self::End { .. } => 0,
            Self::Sweep { objects, .. } => size_of_val(objects.as_slice()),
        }
    }
}

/// A collection that is under way, as the writer knows it.
pub(super) struct Collection {
    token: [u8; 16],
    /// The objects that were written since it began.
    written: HashSet<Digest>,
}

impl Collection {
    pub(super) fn new(token: [u8; 16]) -> Self {
        Self { token, written: HashSet::new() }
    }

    pub(super) fn is_of(&self, token: [u8; 16]) -> bool {
        self.token == token
    }

    /// Remembers the objects that are written. `false` if they are too many, and the collection has to end.
    pub(super) fn remember(&mut self, changes: &[Change]) -> bool {
        let objects = changes.iter().filter(|change| change.family == Family::Objects && change.value.is_some());
        self.written.extend(objects.filter_map(|change| keys::object_of(&change.key)));
        self.written.len() <= MAX_WRITTEN
    }

    /// The deletions of those objects that were not written meanwhile.
    pub(super) fn sweep(&self, objects: Vec<Digest>) -> impl Iterator<Item = Change> {
        let gone = objects.into_iter().filter(|digest| !self.written.contains(digest));
        gone.map(|digest| Change { family: Family::Objects, key: keys::object(digest), value: None })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Garbage {
    objects: Vec<Digest>,
    /// The bytes of their keys and values.
    pub size_bytes: u64,
}

impl Garbage {
    pub fn count(&self) -> u64 {
        u64::try_from(self.objects.len()).unwrap_or(u64::MAX)
    }
}

/// Deletes the objects that no thread needs, and returns what it found. An object that a thread wrote again meanwhile
/// is among them and stays. `token` is random; `progress` is called every few thousand entries.
///
/// # Errors
/// [`Error::Damaged`] if something that was read is damaged or missing: then nothing was deleted.
/// [`Error::ImportUnderWay`]; [`Error::CollectionEnded`] if other collections keep ending this one.
#[expect(private_bounds, reason = "only stores of this crate accept encoded writes")]
pub async fn collect<S: WriteStore>(
    store: &S,
    mut token: impl FnMut() -> [u8; 16],
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Garbage, Error> {
    let mut attempts = 1..=ATTEMPTS;
    loop {
        attempts.next();
        let token = token();
        let collected = collected(store, token, progress).await;
        // If that fails, the next collection or opening does it.
        let _ = store.submit(Write::Collect(CollectWrite::End { token })).await;
        match collected {
            Err(Error::CollectionEnded) if !attempts.is_empty() => {}
            collected => return collected,
        }
    }
}

async fn collected<S: WriteStore>(
    store: &S,
    token: [u8; 16],
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Garbage, Error> {
    let submit = |write| store.submit(Write::Collect(write));
    submit(CollectWrite::Begin { token }).await?;
    let found = find(store, &BTreeSet::new(), progress);
    if matches!(found, Err(Error::Damaged(_))) {
        // Another collection may have deleted what was read here as needed, with its thread.
        submit(CollectWrite::Sweep { token, objects: Vec::new() }).await?;
    }
    let garbage = found?;
    for objects in garbage.objects.chunks(SWEEP) {
        submit(CollectWrite::Sweep { token, objects: objects.to_vec() }).await?;
    }
    Ok(garbage)
}

/// Finds the objects that no thread needs, if the threads in `without` were not there.
pub fn find<T: Tables>(
    store: &T,
    without: &BTreeSet<ThreadId>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Garbage, Error> {
    let mut marks = Marks { store, needed: HashMap::new(), progress, at: Progress { done: 0, of: 0 } };
    for row in rows_after(store, None) {
        let (thread, row) = row?;
        if !without.contains(&thread) {
            marks.thread(&thread, row)?;
        }
    }
    marks.objects()
}

/// What is known to be needed.
struct Marks<'a, T> {
    store: &'a T,
    /// The needed objects, and whether each was read.
    needed: HashMap<Digest, (Kind, bool)>,
    progress: &'a mut (dyn FnMut(Progress) + Send),
    at: Progress,
}

impl<T: Tables> Marks<'_, T> {
    /// Adds objects. Returns those that are new.
    fn add(&mut self, named: impl IntoIterator<Item = (Kind, Digest)>) -> Vec<Digest> {
        let mut new = Vec::new();
        for (kind, digest) in named {
            self.needed.entry(digest).or_insert_with(|| {
                new.push(digest);
                (kind, false)
            });
        }
        new
    }

    /// Adds what the row and the own records of a thread name.
    fn thread(&mut self, thread: &ThreadId, mut row: Row) -> Result<(), Error> {
        let store = self.store;
        loop {
            let first = row.shared().saturating_add(1);
            // A step has about one object.
            self.at.of += 2 * row.seq.saturating_sub(first).saturating_add(1);
            self.add(references::of_row(&row));
            let mut next = first;
            store.range(Family::Steps, keys::steps(thread, first), &mut |key, value| {
                if keys::seq(key) != Some(next) {
                    return Ok(ControlFlow::Break(()));
                }
                let located = |error: Error| error.at(Family::Steps, key, Some(thread));
                let StepValue { digest, bytes, .. } = codec::read_step(value).map_err(located)?;
                let record = chain::verified(thread, next, digest, bytes).map_err(located)?;
                self.add(references::of_record(&record));
                self.at.count(self.progress);
                next += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            if next > row.seq {
                return Ok(());
            }
            match store.row(thread)? {
                // Deleted meanwhile, and perhaps imported again.
                None => return Ok(()),
                Some(newer) if newer != row => row = newer,
                Some(_) => return Err(chain::missing(thread, next, Family::Steps)),
            }
        }
    }

    /// Reads all objects, adds what the needed ones name, and returns the others.
    fn objects(mut self) -> Result<Garbage, Error> {
        let (store, mut others) = (self.store, Vec::new());
        store.range(Family::Objects, keys::objects(), &mut |key, value| {
            let unreadable = || Damage::new("the key of an object cannot be read").at(Family::Objects, key);
            let digest = keys::object_of(key).ok_or_else(unreadable)?;
            if self.needed.contains_key(&digest) {
                self.read(digest, value)?;
            } else {
                others.push((digest, key.len() + value.len()));
            }
            self.at.count(self.progress);
            Ok(ControlFlow::Continue(()))
        })?;
        // Named by an object that was read after them.
        let unread = self.needed.iter().filter(|(_, (_, is_read))| !is_read);
        let mut unread: Vec<Digest> = unread.map(|(digest, _)| *digest).collect();
        while let Some(digest) = unread.pop() {
            let missing = || Damage::new(format!("the object {digest} is missing")).of_object(digest);
            let value = store.get(Family::Objects, &keys::object(digest))?.ok_or_else(missing)?;
            unread.extend(self.read(digest, &value)?);
        }
        let mut garbage = Garbage::default();
        for (digest, bytes) in others {
            if !self.needed.contains_key(&digest) {
                garbage.objects.push(digest);
                garbage.size_bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
        }
        Ok(garbage)
    }

    /// Verifies a needed object. Returns those that only it names so far.
    fn read(&mut self, digest: Digest, value: &[u8]) -> Result<Vec<Digest>, Error> {
        let Some((kind, is_read)) = self.needed.get_mut(&digest) else { return Ok(Vec::new()) };
        *is_read = true;
        let kind = *kind;
        let located = |error: Error| error.at(Family::Objects, &keys::object(digest), None);
        let (stored, bytes) = codec::read_object(value).map_err(located)?;
        chain::verified_object(kind, digest, stored, bytes).map_err(located)?;
        let unreadable = |error| Damage::new(format!("the {} object {digest} cannot be read: {error}", kind.name()));
        let names = references::of_object(kind, bytes).map_err(|error| unreadable(error).of_object(digest))?;
        Ok(self.add(names))
    }
}

#[cfg(test)]
mod tests;

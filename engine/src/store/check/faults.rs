//! The faults of a store, each once, with every thread that it touches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;
use serde::Serialize;

use super::super::error::Damage;
use super::super::{Base, Error};

/// One fault of a store. The fields are those of a line of `rondo fsck --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The code, which has a documentation page.
    pub code: Code,
    /// The file, if known, relative to the folder of the store.
    pub file: Option<String>,
    /// The damaged object or step.
    pub object: Option<Digest>,
    /// The threads that need what is damaged. A loss of the last writes may touch threads that are not known.
    pub threads: BTreeSet<ThreadId>,
    /// A description for people.
    pub what: String,
}

/// Where a fault is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

#[derive(Debug, Default)]
pub(in super::super) struct Faults {
    list: Vec<Fault>,
    /// One damaged block is met by every read of it.
    places: HashMap<(Option<String>, Option<Digest>, String), Place>,
    /// The steps of a thread from which on it is damaged, each with the fault.
    from: BTreeMap<ThreadId, Vec<(u64, Place)>>,
}

impl Faults {
    /// Adds damage that touches `threads` and its own thread, unless it is known.
    pub(super) fn add(&mut self, damage: Damage, threads: impl IntoIterator<Item = ThreadId>) -> Place {
        let Damage { code, file, object, thread, what, .. } = damage;
        let next = Place(self.list.len());
        let place = *self.places.entry((file.clone(), object, what.clone())).or_insert(next);
        if place == next {
            self.list.push(Fault { code, file, object, threads: BTreeSet::new(), what });
        }
        if let Some(fault) = self.list.get_mut(place.0) {
            fault.threads.extend(thread.into_iter().chain(threads));
        }
        place
    }

    /// The value, or `None` if reading it met damage, which is added with `threads`.
    ///
    /// # Errors
    /// Any error that is not damage.
    pub(super) fn take<V>(&mut self, read: Result<V, Error>, threads: &[&ThreadId]) -> Result<Option<V>, Error> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged(damage)) => {
                self.add(*damage, threads.iter().copied().cloned());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that a fault touches a thread from the step `seq` on.
    pub(super) fn touch(&mut self, place: Place, thread: &ThreadId, seq: u64) {
        if let Some(fault) = self.list.get_mut(place.0) {
            fault.threads.insert(thread.clone());
        }
        self.from.entry(thread.clone()).or_default().push((seq, place));
    }

    /// Adds to each fault the forks of the threads that it touches, if they share the damaged steps.
    pub(super) fn pass_on_to(&mut self, forks: &[(ThreadId, Base)]) {
        // Ids grow with time, so a base comes before its forks.
        for (fork, base) in forks {
            let inherited: Vec<_> = self
                .from
                .get(&base.thread)
                .into_iter()
                .flatten()
                .filter(|(seq, _)| *seq <= base.seq)
                .copied()
                .collect();
            for (seq, place) in inherited {
                self.touch(place, fork, seq);
            }
        }
    }

    /// Every thread that a fault touches.
    pub(super) fn touched(&self) -> BTreeSet<&ThreadId> {
        self.list.iter().flat_map(|fault| &fault.threads).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(in super::super) fn into_list(self) -> Vec<Fault> {
        self.list
    }
}

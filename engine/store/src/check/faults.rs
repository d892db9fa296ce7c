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
    pub what: String,
}

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
        // A base comes before its forks, unless the clock was set back.
        let mut is_passed_on = true;
        while std::mem::take(&mut is_passed_on) {
            for (fork, base) in forks {
                let of = |thread| self.from.get(thread).map_or(&[][..], Vec::as_slice);
                let inherited = of(&base.thread).iter().filter(|(seq, _)| *seq <= base.seq);
                let new: Vec<_> = inherited.filter(|touch| !of(fork).contains(touch)).copied().collect();
                is_passed_on |= !new.is_empty();
                for (seq, place) in new {
                    self.touch(place, fork, seq);
                }
            }
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reaches_forks_of_forks_whatever_the_order_of_their_ids() {
        let threads: Vec<ThreadId> = (0..3).map(|number| ThreadId::from_parts(number, 0)).collect();
        let [fork_of_fork, fork, base] = [0, 1, 2].map(|at| threads[at].clone());
        let mut faults = Faults::default();
        for (what, seq) in [("before both forks", 2), ("between the two", 4), ("behind both", 7)] {
            let place = faults.add(Damage::new(what), None);
            faults.touch(place, &base, seq);
        }
        faults.pass_on_to(&[
            (fork_of_fork.clone(), Base { thread: fork.clone(), seq: 3 }),
            (fork.clone(), Base { thread: base.clone(), seq: 5 }),
        ]);
        let touched: Vec<_> = faults.into_list().into_iter().map(|fault| fault.threads).collect();
        assert_eq!(touched[0], [fork_of_fork, fork.clone(), base.clone()].into());
        assert_eq!(touched[1], [fork, base.clone()].into());
        assert_eq!(touched[2], [base].into());
    }
}

//! How far an examination got, so that another can go on after an interruption.
//!
//! Only what was found whole is passed over, and only while the ledger of the store is the same. An examination that
//! continues and finds a fault begins anew: what it passed over may name what is damaged.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::codec::Ledger;
use super::super::keys::Family;
use super::Sums;
use super::faults::Faults;

/// How far an examination got without finding a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The store's ledger, which changes with each write that counts.
    ledger: Ledger,
    /// The family that was read; those before it in the order of an examination were read to their ends.
    pub(super) family: Family,
    /// The last key of that family that was examined.
    pub(super) through: Vec<u8>,
    pub(super) sums: Sums,
    /// How many entries had been read, and how many bytes.
    pub(super) done: u64,
    pub(super) bytes: u64,
}

pub struct Checkpoints<'a> {
    save: &'a mut (dyn FnMut(&Checkpoint) + Send),
    every: Duration,
    saved_at: Instant,
    ledger: Ledger,
    /// The one that this examination continues from.
    pub(super) from: Option<Checkpoint>,
}

impl<'a> Checkpoints<'a> {
    /// Passes a checkpoint to `save` so often. The examination continues from `from`, if that still holds.
    pub fn new(from: Option<Checkpoint>, every: Duration, save: &'a mut (dyn FnMut(&Checkpoint) + Send)) -> Self {
        Self { save, every, saved_at: Instant::now(), ledger: Ledger::default(), from }
    }

    /// Begins the examination of a store with that ledger.
    pub(super) fn begin(&mut self, ledger: Ledger) {
        self.ledger = ledger;
        self.from.take_if(|from| from.ledger != ledger);
    }

    /// The key behind which the reading of a family continues; `None` if it was read to its end.
    pub(super) fn begin_of(&self, family: Family) -> Option<Vec<u8>> {
        match &self.from {
            Some(from) if from.family == family => Some([&from.through[..], &[0]].concat()),
            Some(from) if from.family == Family::Threads && family == Family::Objects => None,
            _ => Some(Vec::new()),
        }
    }

    pub(super) fn is_due(&self, faults: &Faults) -> bool {
        faults.is_empty() && self.saved_at.elapsed() >= self.every
    }

    pub(super) fn save(&mut self, family: Family, through: &[u8], sums: Sums, (done, bytes): (u64, u64)) {
        (self.save)(&Checkpoint { ledger: self.ledger, family, through: through.to_vec(), sums, done, bytes });
        self.saved_at = Instant::now();
    }
}

//! What is counted, by label. Counts are added up in memory and outlive the process.
//!
//! A shelf counts what it does itself: recorded, expired, evicted, forgotten, damaged, too large, failed writes. What
//! a lookup meant is counted by the caller, who alone knows whether what was found was served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::entry::Label;
use super::record::{figures_key, write_figures};

/// The most labels that are told apart; the others are counted as one.
const LABELS_MAX: usize = 1000;
/// How many figures there are.
pub(super) const FIGURES: usize = Figure::ALL.len();

/// What can be counted. The order is that of the stored record: a new one needs a new version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Lookups that were made.
    Lookups,
    /// Lookups that were answered.
    Hits,
    /// Lookups that were not.
    Misses,
    /// Lookups that would have been answered.
    WouldHits,
    /// Values that were kept.
    Recorded,
    /// Entries found after their time.
    Expired,
    /// Entries that went because a ceiling was reached.
    Evicted,
    /// Entries that were forgotten on demand.
    Forgotten,
    /// Entries found that were not what had been kept.
    Damaged,
    /// Values that were not kept because of their size.
    TooLarge,
    /// Writes that the backing did not take, or not in time.
    FailedWrites,
    /// Tokens that were not paid for.
    SavedTokens,
    /// Millionths of a dollar that were not paid.
    SavedMicrousd,
}

impl Figure {
    /// All, in order.
    pub const ALL: [Self; 13] = [
        Self::Lookups,
        Self::Hits,
        Self::Misses,
        Self::WouldHits,
        Self::Recorded,
        Self::Expired,
        Self::Evicted,
        Self::Forgotten,
        Self::Damaged,
        Self::TooLarge,
        Self::FailedWrites,
        Self::SavedTokens,
        Self::SavedMicrousd,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookups => "lookups",
            Self::Hits => "hits",
            Self::Misses => "misses",
            Self::WouldHits => "would_hits",
            Self::Recorded => "recorded",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
            Self::Forgotten => "forgotten",
            Self::Damaged => "damaged",
            Self::TooLarge => "too_large",
            Self::FailedWrites => "failed_writes",
            Self::SavedTokens => "saved_tokens",
            Self::SavedMicrousd => "saved_microusd",
        }
    }
}

/// The figures of one label at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    numbers: [u64; FIGURES],
    /// Entries that are kept now.
    pub entries: u64,
    /// What they take of the backing.
    pub bytes: u64,
}

impl Counts {
    pub(super) fn new(numbers: [u64; FIGURES]) -> Self {
        Self { numbers, entries: 0, bytes: 0 }
    }

    pub(super) fn numbers(&self) -> &[u64; FIGURES] {
        &self.numbers
    }

    /// One figure.
    pub fn get(&self, figure: Figure) -> u64 {
        self.numbers.get(figure as usize).copied().unwrap_or(0)
    }

    /// Adds another label's figures.
    pub fn add(&mut self, other: &Self) {
        self.numbers.iter_mut().zip(other.numbers).for_each(|(number, more)| *number = number.saturating_add(more));
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The figures of one label, to count on. Ask for it once and hold it.
#[derive(Debug, Default)]
pub struct Tally {
    label: Label,
    numbers: [AtomicU64; FIGURES],
    entries: AtomicU64,
    bytes: AtomicU64,
    /// Counted since it was last written.
    changed: AtomicBool,
}

impl Tally {
    fn new(label: Label) -> Self {
        Self { label, ..Self::default() }
    }

    /// Adds to a figure.
    pub fn count(&self, figure: Figure, more: u64) {
        if more == 0 {
            return;
        }
        if let Some(number) = self.numbers.get(figure as usize) {
            number.fetch_add(more, Ordering::SeqCst);
        }
        // Mostly it is set, and reading leaves it shared between processors. In the one order of all these accesses
        // whoever takes the mark away reads the number after it, so nothing counted stays unwritten.
        if !self.changed.load(Ordering::SeqCst) {
            self.changed.store(true, Ordering::SeqCst);
        }
    }

    /// The figures now.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        counts.numbers.iter_mut().zip(&self.numbers).for_each(|(to, from)| *to = from.load(Ordering::SeqCst));
        counts.entries = self.entries.load(Ordering::Relaxed);
        counts.bytes = self.bytes.load(Ordering::Relaxed);
        counts
    }

    /// Counts an entry that came.
    pub(super) fn came(&self, size_bytes: u64) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(size_bytes, Ordering::Relaxed);
    }

    /// Counts an entry that went.
    pub(super) fn went(&self, size_bytes: u64) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(size_bytes, Ordering::Relaxed);
    }

    fn add(&self, counts: &Counts) {
        self.numbers.iter().zip(counts.numbers).for_each(|(to, more)| {
            to.fetch_add(more, Ordering::Relaxed);
        });
    }
}

/// The figures of all labels.
#[derive(Debug, Default)]
pub(super) struct Figures {
    tallies: Mutex<BTreeMap<Label, Arc<Tally>>>,
    /// Keys of records that a newer version wrote, which therefore stay as they are. `None` until they are known.
    newer: Mutex<Option<BTreeSet<Vec<u8>>>>,
}

impl Figures {
    /// The figures of a label; those of [`Label::other`] when there is no room for it.
    pub(super) fn tally(&self, label: &Label) -> Arc<Tally> {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = tallies.get(label) {
            return Arc::clone(tally);
        }
        let label = if tallies.len() < LABELS_MAX { label.clone() } else { Label::other() };
        Arc::clone(tallies.entry(label.clone()).or_insert_with(|| Arc::new(Tally::new(label))))
    }

    /// Adds what earlier processes counted, and leaves the records that a newer version wrote alone. Until then
    /// nothing is written, since that would be lost.
    pub(super) fn take_in(&self, earlier: BTreeMap<Label, Counts>, newer: Vec<Vec<u8>>) {
        for (label, counts) in earlier {
            self.tally(&label).add(&counts);
        }
        *self.newer.lock().unwrap_or_else(PoisonError::into_inner) = Some(newer.into_iter().collect());
    }

    /// The figures of every label of which anything was counted.
    pub(super) fn all(&self) -> BTreeMap<Label, Counts> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = tallies.iter().map(|(label, tally)| (label.clone(), tally.counts()));
        counted.filter(|(_, counts)| *counts != Counts::default()).collect()
    }

    /// What was counted since it was last asked for.
    pub(super) fn changed(&self) -> Vec<Changed> {
        let newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(newer) = &*newer else { return Vec::new() };
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies
            .values()
            .filter(|tally| tally.changed.swap(false, Ordering::SeqCst))
            .map(|tally| Changed { tally: Arc::clone(tally), record_key: figures_key(&tally.label), written: false })
            .filter(|changed| !newer.contains(&changed.record_key))
            .collect()
    }
}

/// Figures of a label that are to be written. Unless they were, they count as changed again.
pub(super) struct Changed {
    tally: Arc<Tally>,
    pub(super) record_key: Vec<u8>,
    pub(super) written: bool,
}

impl Changed {
    pub(super) fn record(&self) -> Vec<u8> {
        write_figures(&self.tally.label, &self.tally.counts())
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if !self.written {
            self.tally.changed.store(true, Ordering::SeqCst);
        }
    }
}

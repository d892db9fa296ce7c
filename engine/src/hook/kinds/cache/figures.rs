//! What is counted, by label. Counts are added up in memory and outlive the process.
//!
//! A cache counts what it does itself: recorded, expired, evicted, forgotten, damaged, too large, failed writes. What
//! a lookup meant is counted by the caller, who alone knows whether what was found was served.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::Label;
use super::record::{figures_key, write_figures};
use crate::trust::secret::Secret;

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
    /// Entries that the table did not take, or not at first.
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
    /// What they take of the table.
    pub bytes: u64,
}

impl Counts {
    pub(super) fn new(numbers: [u64; FIGURES]) -> Self {
        Self { numbers, entries: 0, bytes: 0 }
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
    /// The numbers that the table has.
    written: Mutex<[u64; FIGURES]>,
}

impl Tally {
    /// Adds to a figure.
    pub fn count(&self, figure: Figure, more: u64) {
        if let Some(number) = self.numbers.get(figure as usize) {
            number.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// The figures now.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        counts.numbers.iter_mut().zip(&self.numbers).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
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

    /// Adds what the table has.
    fn add(&self, counts: &Counts) {
        for (figure, more) in Figure::ALL.into_iter().zip(counts.numbers) {
            self.count(figure, more);
        }
        *self.written() = counts.numbers;
    }

    fn written(&self) -> MutexGuard<'_, [u64; FIGURES]> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figures of all labels.
#[derive(Debug, Default)]
pub(super) struct Figures {
    tallies: Mutex<BTreeMap<Label, Arc<Tally>>>,
    /// What earlier processes counted is known. Until then nothing is written, since that would be lost.
    are_known: AtomicBool,
}

impl Figures {
    /// The figures of a label; those of [`Label::other`] when there is no room for it.
    pub(super) fn tally(&self, label: &Label) -> Arc<Tally> {
        let mut tallies = self.tallies();
        if let Some(tally) = tallies.get(label) {
            return Arc::clone(tally);
        }
        let label = if tallies.len() < LABELS_MAX { label.clone() } else { Label::other() };
        Arc::clone(tallies.entry(label.clone()).or_insert_with(|| Arc::new(Tally { label, ..Tally::default() })))
    }

    /// The figures of all for whom there is no label.
    pub(super) fn other(&self) -> Arc<Tally> {
        self.tally(&Label::other())
    }

    /// Adds what earlier processes counted.
    pub(super) fn take_in(&self, earlier: BTreeMap<Label, Counts>) {
        for (label, counts) in earlier {
            self.tally(&label).add(&counts);
        }
        self.are_known.store(true, Ordering::Release);
    }

    /// The figures of every label of which anything was counted.
    pub(super) fn all(&self) -> BTreeMap<Label, Counts> {
        let tallies = self.tallies();
        let counted = tallies.iter().map(|(label, tally)| (label.clone(), tally.counts()));
        counted.filter(|(_, counts)| *counts != Counts::default()).collect()
    }

    /// What was counted since it was last written.
    pub(super) fn changed(&self) -> Vec<Changed> {
        if !self.are_known.load(Ordering::Acquire) {
            return Vec::new();
        }
        let tallies = self.tallies();
        let counted =
            tallies.values().map(|tally| Changed { numbers: tally.counts().numbers, tally: Arc::clone(tally) });
        counted.filter(|changed| changed.numbers != *changed.tally.written()).collect()
    }

    fn tallies(&self) -> MutexGuard<'_, BTreeMap<Label, Arc<Tally>>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Figures of a label that are to be written.
pub(super) struct Changed {
    tally: Arc<Tally>,
    numbers: [u64; FIGURES],
}

impl Changed {
    pub(super) fn record_key(&self) -> Vec<u8> {
        figures_key(&self.tally.label)
    }

    pub(super) fn record(&self, secret: &Secret) -> Vec<u8> {
        write_figures(secret, &self.tally.label, &self.numbers)
    }

    /// The table has them.
    pub(super) fn written(&self) {
        *self.tally.written() = self.numbers;
    }
}

//! What is counted, by label. Counts are added up in memory and outlive the process.
//!
//! A cache counts what it does itself: recorded, expired, evicted, forgotten, damaged, too large, failed writes. What
//! a lookup meant is counted by the caller, who alone knows whether it served what was found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::entry::Label;
use parking_lot::Mutex;

/// The most labels with counts of their own; the others are counted together.
const LABELS_MAX: usize = 1000;
/// How many metrics there are.
pub(super) const METRICS: usize = Metric::ALL.len();

/// What can be counted. The order is that of the stored record: a new one needs a new version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
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
    /// Entries that a ceiling has displaced.
    Evicted,
    /// Entries that were forgotten on demand.
    Removed,
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

impl Metric {
    /// All in order, each with its name in reports.
    pub const ALL: [(Self, &str); 13] = [
        (Self::Lookups, "lookups"),
        (Self::Hits, "hits"),
        (Self::Misses, "misses"),
        (Self::WouldHits, "would_hits"),
        (Self::Recorded, "recorded"),
        (Self::Expired, "expired"),
        (Self::Evicted, "evicted"),
        (Self::Removed, "forgotten"),
        (Self::Damaged, "damaged"),
        (Self::TooLarge, "too_large"),
        (Self::FailedWrites, "failed_writes"),
        (Self::SavedTokens, "saved_tokens"),
        (Self::SavedMicrousd, "saved_microusd"),
    ];
}

/// The metrics of one label at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    numbers: [u64; METRICS],
    /// Entries that are kept now.
    pub entries: u64,
    /// What they take of the table.
    pub bytes: u64,
}

impl Counts {
    pub(super) fn new(numbers: [u64; METRICS]) -> Self {
        Self { numbers, entries: 0, bytes: 0 }
    }

    /// One metric.
    pub fn get(&self, metric: Metric) -> u64 {
        self.numbers.get(metric as usize).copied().unwrap_or(0)
    }

    /// Adds another label's metrics.
    pub fn add(&mut self, other: &Self) {
        self.numbers.iter_mut().zip(other.numbers).for_each(|(number, more)| *number = number.saturating_add(more));
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The metrics of one label, to count on. Ask for it once and hold it.
#[derive(Debug, Default)]
pub struct LabelMetrics {
    pub(super) label: Label,
    numbers: [AtomicU64; METRICS],
    entries: AtomicU64,
    bytes: AtomicU64,
    /// The numbers that the table has.
    pub(super) written: Mutex<[u64; METRICS]>,
}

impl LabelMetrics {
    /// Adds to a metric.
    pub fn count(&self, metric: Metric, more: u64) {
        if let Some(number) = self.numbers.get(metric as usize) {
            number.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// The metrics now.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        counts.numbers.iter_mut().zip(&self.numbers).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        counts.entries = self.entries.load(Ordering::Relaxed);
        counts.bytes = self.bytes.load(Ordering::Relaxed);
        counts
    }

    /// Counts an entry that was inserted.
    pub(super) fn inserted(&self, size_bytes: u64) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(size_bytes, Ordering::Relaxed);
    }

    /// Counts an entry that was removed.
    pub(super) fn removed(&self, size_bytes: u64) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(size_bytes, Ordering::Relaxed);
    }

    /// Adds what the table has.
    fn add(&self, counts: &Counts) {
        for ((metric, _), more) in Metric::ALL.into_iter().zip(counts.numbers) {
            self.count(metric, more);
        }
        *self.written.lock() = counts.numbers;
    }
}

#[derive(Debug, Default)]
pub(super) struct Metrics {
    by_label: Mutex<BTreeMap<Label, Arc<LabelMetrics>>>,
    /// What earlier processes counted is known. Until then nothing is written, since that would be lost.
    are_known: AtomicBool,
}

impl Metrics {
    /// The metrics of a label; those of [`Label::other`] when there is no room for it.
    pub(super) fn label_metrics(&self, label: &Label) -> Arc<LabelMetrics> {
        let mut by_label = self.by_label.lock();
        if let Some(label_metrics) = by_label.get(label) {
            return Arc::clone(label_metrics);
        }
        let label = if by_label.len() < LABELS_MAX { label.clone() } else { Label::other() };
        Arc::clone(
            by_label
                .entry(label.clone())
                .or_insert_with(|| Arc::new(LabelMetrics { label, ..LabelMetrics::default() })),
        )
    }

    /// The metrics of everything without a label of its own.
    pub(super) fn other(&self) -> Arc<LabelMetrics> {
        self.label_metrics(&Label::other())
    }

    /// Adds what earlier processes counted.
    pub(super) fn load(&self, earlier: BTreeMap<Label, Counts>) {
        for (label, counts) in earlier {
            self.label_metrics(&label).add(&counts);
        }
        self.are_known.store(true, Ordering::Release);
    }

    /// The metrics of every label of which anything was counted.
    pub(super) fn all(&self) -> BTreeMap<Label, Counts> {
        let by_label = self.by_label.lock();
        let counted = by_label.iter().map(|(label, label_metrics)| (label.clone(), label_metrics.counts()));
        counted.filter(|(_, counts)| *counts != Counts::default()).collect()
    }

    /// What was counted since it was last written.
    pub(super) fn changed(&self) -> Vec<(Arc<LabelMetrics>, [u64; METRICS])> {
        if !self.are_known.load(Ordering::Acquire) {
            return Vec::new();
        }
        let by_label = self.by_label.lock();
        let counted = by_label.values().map(|metrics| (Arc::clone(metrics), metrics.counts().numbers));
        counted.filter(|(metrics, numbers)| *numbers != *metrics.written.lock()).collect()
    }
}

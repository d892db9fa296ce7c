//! What is counted, by label. Counts are added up in memory and outlive the process.
//!
//! A cache counts what it does itself: recorded, expired, evicted, forgotten, damaged, too large, failed writes. What
//! a lookup meant is counted by the caller, who alone knows whether it served what was found.

use std::collections::{BTreeMap, BTreeSet};

use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::entry::Label;

/// The most labels with counts of their own; the others are counted together.
const LABELS_MAX: usize = 1000;
pub(super) const METRICS: usize = Metric::COUNT;

/// What can be counted, by its name in reports. The order is that of the stored record: a new one needs a new version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Metric {
    Lookups,
    Hits,
    Misses,
    /// Lookups that would have been answered.
    WouldHits,
    Recorded,
    /// Entries found after their time.
    Expired,
    /// Entries that a ceiling has displaced.
    Evicted,
    /// Entries that were forgotten on demand.
    #[strum(serialize = "forgotten")]
    Removed,
    /// Entries found that were not what had been kept.
    Damaged,
    TooLarge,
    /// Entries that the table did not take.
    FailedWrites,
    /// Tokens that were not paid for.
    SavedTokens,
    /// Millionths of a dollar that were not paid.
    SavedMicrousd,
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

#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) by_label: BTreeMap<Label, Counts>,
    /// The labels whose counts the table does not have yet.
    changed: BTreeSet<Label>,
    /// What earlier processes counted is known. Until then nothing is written, since that would be lost.
    are_known: bool,
}

impl Metrics {
    /// Adds to a metric of a label; to that of [`Label::other`] when there is no room for it.
    pub(super) fn count(&mut self, label: &Label, metric: Metric, more: u64) {
        if more > 0 {
            let label = self.with_room(label);
            let counts = self.by_label.entry(label.clone()).or_default();
            if let Some(number) = counts.numbers.get_mut(metric as usize) {
                *number = number.saturating_add(more);
            }
            self.changed.insert(label);
        }
    }

    /// Adds what earlier processes counted.
    pub(super) fn load(&mut self, earlier: BTreeMap<Label, Counts>) {
        for (label, counts) in earlier {
            let label = self.with_room(&label);
            self.by_label.entry(label).or_default().add(&counts);
        }
        self.are_known = true;
    }

    fn with_room(&self, label: &Label) -> Label {
        let has_room = self.by_label.len() < LABELS_MAX || self.by_label.contains_key(label);
        if has_room { label.clone() } else { Label::other() }
    }

    /// How often something was counted, under any label.
    pub(super) fn sum(&self, metric: Metric) -> u64 {
        self.by_label.values().map(|counts| counts.get(metric)).sum()
    }

    /// The labels whose counts the table does not have yet, with these.
    pub(super) fn changed(&self) -> Vec<(Label, [u64; METRICS])> {
        let labels = self.changed.iter().filter(|_| self.are_known);
        labels.filter_map(|label| Some((label.clone(), self.by_label.get(label)?.numbers))).collect()
    }

    /// The table has these counts of a label.
    pub(super) fn written(&mut self, label: &Label, numbers: &[u64; METRICS]) {
        if self.by_label.get(label).is_some_and(|counts| counts.numbers == *numbers) {
            self.changed.remove(label);
        }
    }
}

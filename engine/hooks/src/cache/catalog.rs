//! What a table holds, read once: all entries and metrics, no payload. What a cache opens with, and what another
//! process lists and counts.

use std::collections::BTreeMap;

use super::Table;
use super::entry::{Entry, Key, Label};
use super::metrics::Counts;
use super::record::{ENTRIES, METRIC_RECORDS, key_of, read_entry, read_metrics};

/// Records read at a time.
const PAGE: usize = 1000;
/// The most records of one sort that are read; there are as many only if a ceiling was set far above any use.
const RECORDS_MAX: usize = 1_000_000;

#[derive(Debug, Default)]
pub struct Catalog {
    /// In the order of keeping.
    pub(super) entries: Vec<(Key, Entry)>,
    pub(super) metrics: BTreeMap<Label, Counts>,
    pub(super) unreadable: Vec<Key>,
    pub(super) metrics_complete: bool,
    damaged: usize,
    faults: Vec<String>,
}

impl Catalog {
    /// Reads a table without writing. Leaves out what cannot be read; [`Catalog::warnings`] reports it.
    pub fn read(table: &dyn Table) -> Self {
        let mut catalog = Self::default();
        let entries = scan(table, ENTRIES, |record_key, record| match key_of(record_key) {
            Some(key) => match read_entry(table.secret(), &key, record) {
                Some(entry) => catalog.entries.push((key, entry)),
                None => catalog.unreadable.push(key),
            },
            None => catalog.damaged = catalog.damaged.saturating_add(1),
        });
        let metrics =
            scan(table, METRIC_RECORDS, |record_key, record| match read_metrics(table.secret(), record_key, record) {
                Some((label, counts)) => drop(catalog.metrics.insert(label, counts)),
                None => catalog.damaged = catalog.damaged.saturating_add(1),
            });
        catalog.metrics_complete = metrics.is_ok();
        catalog.faults.extend([entries, metrics].into_iter().filter_map(Result::err));
        // The sort is stable, so that entries of one sequence stand by key.
        catalog.entries.sort_by_key(|(_, entry)| entry.sequence);
        catalog
    }

    /// The metrics of each label, with its entries and bytes.
    pub fn metrics(&self) -> BTreeMap<Label, Counts> {
        let mut metrics = self.metrics.clone();
        for (_, entry) in &self.entries {
            let counts = metrics.entry(entry.label.clone()).or_default();
            counts.entries = counts.entries.saturating_add(1);
            counts.bytes = counts.bytes.saturating_add(entry.size_bytes);
        }
        metrics
    }

    /// What could not be read, in words.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.faults.clone();
        let damaged = self.damaged.saturating_add(self.unreadable.len());
        if damaged > 0 {
            warnings.push(format!("{damaged} records are damaged, or of another version or secret, and are left out"));
        }
        warnings
    }
}

/// Gives every record whose key begins with `prefix`.
fn scan(table: &dyn Table, prefix: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<(), String> {
    let mut from = prefix.to_vec();
    let mut seen = 0_usize;
    loop {
        let page = table.scan(&from, PAGE).map_err(|fault| format!("records cannot be listed: {fault}"))?;
        let full = page.len() >= PAGE;
        for (key, record) in page {
            // A table that goes back would be read for ever.
            if key < from {
                return Err("records cannot be listed: they are out of order".into());
            }
            if !key.starts_with(prefix) {
                return Ok(());
            }
            seen = seen.saturating_add(1);
            if seen > RECORDS_MAX {
                return Err(format!("more than {RECORDS_MAX} records; the others are left out"));
            }
            from.clone_from(&key);
            from.push(0);
            each(&key, &record);
        }
        if !full {
            return Ok(());
        }
    }
}

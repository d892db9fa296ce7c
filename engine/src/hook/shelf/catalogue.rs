//! What a backing holds, read once: all cards and figures, no payload. What a shelf opens with, and what another
//! process lists and counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Backing;
use super::entry::{Card, Key, Label, Listed};
use super::figures::Counts;
use super::record::{CARDS, FIGURE_RECORDS, Unusable, entry_key, read_card, read_figures};

/// Records read at a time.
const PAGE: usize = 1000;
/// The most records of one sort that are read; there are as many only if a ceiling was set far above any use.
const RECORDS_MAX: usize = 1_000_000;

/// Cards and figures in a backing.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub(super) cards: Vec<(Key, Card)>,
    pub(super) figures: BTreeMap<Label, Counts>,
    pub(super) newer_cards: Vec<Key>,
    pub(super) newer_figures: Vec<Vec<u8>>,
    pub(super) unreadable: Vec<Key>,
    /// All figures were read.
    pub(super) figures_whole: bool,
    damaged: u64,
    faults: Vec<String>,
}

impl Catalogue {
    /// Reads a backing, which is not written to. What cannot be read is left out and told by
    /// [`Catalogue::warnings`].
    pub fn read(backing: &dyn Backing) -> Self {
        let mut catalogue = Self::default();
        let cards = scan(backing, CARDS, |record_key, record| catalogue.take_card(&record_key, &record));
        let figures = scan(backing, FIGURE_RECORDS, |record_key, record| catalogue.take_figures(record_key, &record));
        catalogue.figures_whole = figures.is_ok();
        catalogue.faults.extend([cards, figures].into_iter().filter_map(Result::err));
        // The sort is stable, so that cards of one sequence stand by key.
        catalogue.cards.sort_by_key(|(_, card)| card.sequence);
        catalogue
    }

    /// All entries, in the order of keeping.
    pub fn entries(&self) -> Vec<Listed> {
        self.cards.iter().map(|(key, card)| Listed { key: *key, card: Arc::new(card.clone()) }).collect()
    }

    /// The figures of each label, with its entries and bytes.
    pub fn figures(&self) -> BTreeMap<Label, Counts> {
        let mut figures = self.figures.clone();
        for (_, card) in &self.cards {
            let counts = figures.entry(card.label.clone()).or_default();
            counts.entries = counts.entries.saturating_add(1);
            counts.bytes = counts.bytes.saturating_add(card.size_bytes);
        }
        figures
    }

    /// What could not be read, in words.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.faults.clone();
        if self.damaged > 0 {
            warnings.push(format!("{} records were damaged and are left out", self.damaged));
        }
        let newer = self.newer_cards.len().saturating_add(self.newer_figures.len());
        if newer > 0 {
            warnings.push(format!("{newer} records were written by a newer version and are left alone"));
        }
        warnings
    }

    fn take_card(&mut self, record_key: &[u8], record: &[u8]) {
        let Some(key) = entry_key(record_key) else {
            self.damaged = self.damaged.saturating_add(1);
            return;
        };
        match read_card(&key, record) {
            Ok(card) => self.cards.push((key, card)),
            Err(Unusable::Newer) => self.newer_cards.push(key),
            Err(Unusable::Damaged) => {
                self.damaged = self.damaged.saturating_add(1);
                self.unreadable.push(key);
            }
        }
    }

    fn take_figures(&mut self, record_key: Vec<u8>, record: &[u8]) {
        match read_figures(&record_key, record) {
            Ok((label, counts)) => {
                self.figures.insert(label, counts);
            }
            Err(Unusable::Newer) => self.newer_figures.push(record_key),
            Err(Unusable::Damaged) => self.damaged = self.damaged.saturating_add(1),
        }
    }
}

/// Gives every record whose key begins with `prefix`.
fn scan(backing: &dyn Backing, prefix: &[u8], mut each: impl FnMut(Vec<u8>, Vec<u8>)) -> Result<(), String> {
    let mut from = prefix.to_vec();
    let mut seen = 0_usize;
    loop {
        let page = backing.scan(&from, PAGE).map_err(|fault| format!("records cannot be listed: {fault}"))?;
        let full = page.len() >= PAGE;
        for (key, record) in page {
            // A backing that goes back would be read for ever.
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
            each(key, record);
        }
        if !full {
            return Ok(());
        }
    }
}

//! Which results depend on which paths, so that a write finds those that it touches without a scan.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::dependencies::WriteSet;
use super::key::About;
use crate::cache::{Key, SecondaryIndex};

/// The results of a cache that stand on something besides their arguments. It finds those whose
/// [dependencies](super::dependencies::Dependencies) a [write](WriteSet) touches and, of a write that may reach anything, all.
#[derive(Debug, Default)]
pub struct Dependents {
    /// Those that any write may touch.
    of_any: BTreeSet<Key>,
    /// By each path that they stand on, and whether something may come or go below it. What is below a path comes right
    /// behind it.
    by_path: BTreeMap<Arc<Path>, BTreeMap<Key, bool>>,
    /// The paths of each.
    paths: BTreeMap<Key, Vec<Arc<Path>>>,
}

impl Dependents {
    /// The results that a write may touch.
    pub fn touched(&self, write_set: &WriteSet) -> Vec<Key> {
        let Some(written) = write_set.paths() else {
            return self.of_any.iter().chain(self.paths.keys()).copied().collect();
        };
        let mut touched = self.of_any.clone();
        for path in written {
            let from = (Bound::Included(path.as_path()), Bound::Unbounded);
            let below = self.by_path.range::<Path, _>(from).take_while(|(seen, _)| seen.starts_with(path));
            touched.extend(below.flat_map(|(_, results)| results.keys()));
            for above in path.ancestors() {
                let results = self.by_path.get(above).into_iter().flatten();
                touched.extend(results.filter(|(_, has_below)| **has_below).map(|(key, _)| key));
            }
        }
        touched.into_iter().collect()
    }
}

impl SecondaryIndex for Dependents {
    fn inserted(&mut self, key: &Key, about: &[u8]) {
        let Some(dependencies) = About::dependencies(about) else { return };
        let Some(names) = dependencies.paths() else {
            self.of_any.insert(*key);
            return;
        };
        let mut paths = Vec::new();
        for (path, has_below) in names {
            let path: Arc<Path> = path.into();
            // One path may be noted twice, as what was entered and as what was listed.
            *self.by_path.entry(Arc::clone(&path)).or_default().entry(*key).or_default() |= has_below;
            paths.push(path);
        }
        self.paths.insert(*key, paths);
    }

    fn removed(&mut self, key: &Key) {
        self.of_any.remove(key);
        for path in self.paths.remove(key).into_iter().flatten() {
            if let Some(results) = self.by_path.get_mut(&path) {
                results.remove(key);
                if results.is_empty() {
                    self.by_path.remove(&path);
                }
            }
        }
    }
}

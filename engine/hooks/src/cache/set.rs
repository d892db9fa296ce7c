//! A cache set: the caches of one hook kind, one for each group of entries that share ceilings, all in the kind's own key
//! space. The kind holds it, so that runs in one process share what is kept.
//!
//! A group is usually a workflow's, so that one workflow's ceilings never push out what another one keeps; what is kept
//! for the whole store is in a group of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join};
use parking_lot::Mutex;
use rondo_agent_kit::sandbox::files::{ReadSetValidity, Workspace};
use rondo_core::hook::{Context, KeySpace};
use rondo_core::secret::Secret;
use rondo_protocol::Digest;
use rondo_protocol::call::Site;
use rondo_protocol::read_set::ReadSet;

use super::{Cache, CacheValue, Key, Limits, SharedLookup, Table, WAIT};

/// Names of groups stand behind this byte, what is kept behind the other one.
const GROUP_NAMES: u8 = b'g';
const GROUP_RECORDS: u8 = b's';
/// How many bytes of a group's SHA-256 stand in keys.
const PREFIX_BYTES: usize = 16;
const GROUPS_MAX: usize = 10_000;

pub struct CacheSet<T: CacheValue> {
    caches: Mutex<BTreeMap<String, Cache<T>>>,
    /// The lookups under way, by call and key. Two nodes before one role may share keys, and the inner one would wait for
    /// the outer one.
    lookups: Mutex<BTreeSet<(Site, Key)>>,
}

impl<T: CacheValue> Default for CacheSet<T> {
    fn default() -> Self {
        Self { caches: Mutex::default(), lookups: Mutex::default() }
    }
}

/// A lookup under way, until this is dropped.
pub struct ActiveLookup<'a> {
    all: &'a Mutex<BTreeSet<(Site, Key)>>,
    entry: (Site, Key),
}

impl Drop for ActiveLookup<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.entry);
    }
}

impl<T: CacheValue> CacheSet<T> {
    /// The cache of a group, within these ceilings from now on.
    pub fn cache(&self, space: &KeySpace, group: &str, limits: Limits) -> Cache<T> {
        let mut by_group = self.caches.lock();
        let found = by_group.entry(group.to_owned()).or_insert_with(|| Cache::new(table(space, group), limits));
        found.limit(limits);
        found.clone()
    }

    /// Begins the lookup of a call; `None` when a node in front of this one looks the same key up for it.
    pub fn begin(&self, site: &Site, key: Key) -> Option<ActiveLookup<'_>> {
        let entry = (site.clone(), key);
        let is_first = self.lookups.lock().insert(entry.clone());
        is_first.then_some(ActiveLookup { all: &self.lookups, entry })
    }

    /// The caches that this process has used.
    pub fn used(&self) -> Vec<Cache<T>> {
        self.caches.lock().values().cloned().collect()
    }

    /// The cache of every group that keeps anything. One that no run has used yet is opened without ceilings.
    pub fn all(&self, space: &KeySpace) -> Result<Vec<(String, Cache<T>)>, String> {
        let groups = groups(space)?;
        let mut by_group = self.caches.lock();
        let limits = Limits { entries: u64::MAX, bytes: u64::MAX, memory_bytes: 0 };
        let mut cache_of = |group: &String| {
            by_group.entry(group.clone()).or_insert_with(|| Cache::new(table(space, group), limits)).clone()
        };
        Ok(groups.into_iter().map(|group| (group.clone(), cache_of(&group))).collect())
    }
}

/// The value under a key, or why there is none. With `wait` equal askers wait for the first of them, at most for so long.
/// What is wrong with the cache or with the entry is told by `warn`.
pub async fn look_up<T: CacheValue>(
    cache: &Cache<T>,
    key: &Key,
    wait: Option<Duration>,
    context: &Context,
    warn: impl Fn(String),
) -> SharedLookup<T> {
    let now_ms = || context.env.now_ms();
    let looked = match wait {
        Some(wait) => cache.get_shared(key, now_ms, wait).await,
        None => cache.get(key, now_ms()).await.map_err(|missing| (missing, None)),
    };
    let of_entry = looked.as_ref().err().and_then(|(missing, _)| missing.warning()).map(str::to_owned);
    cache.take_warnings().into_iter().chain(of_entry).for_each(warn);
    looked
}

/// Whether everything that tools saw for a value is unchanged; `None` = not known in time.
pub async fn is_unchanged<T: CacheValue>(
    files: &Arc<Workspace>,
    value: &Arc<T>,
    seen: fn(&T) -> Option<&ReadSet>,
) -> Option<bool> {
    let (files, value, until) = (Arc::clone(files), Arc::clone(value), Instant::now() + WAIT);
    let looking = tokio::task::spawn_blocking(move || seen(&value).map(|seen| files.validity(seen, until)));
    match tokio::time::timeout(WAIT, looking).await.ok()?.ok()? {
        None | Some(ReadSetValidity::Holds) => Some(true),
        Some(ReadSetValidity::Changed { .. }) => Some(false),
        Some(ReadSetValidity::TooLate) => None,
    }
}

/// The groups that have kept something, by name.
pub fn groups(space: &KeySpace) -> Result<Vec<String>, String> {
    let entries = space.scan(&[GROUP_NAMES], GROUPS_MAX).map_err(|error| error.to_string())?;
    let name = |key: &[u8]| Some(String::from_utf8_lossy(key.strip_prefix(&[GROUP_NAMES])?).into_owned());
    Ok(entries.iter().map_while(|(key, _)| name(key)).collect())
}

/// The part of a kind's key space that a group has.
pub fn table(space: &KeySpace, group: &str) -> Arc<dyn Table> {
    let digest = Digest::sha256(group.as_bytes());
    let own = digest.as_bytes().iter().take(PREFIX_BYTES).copied();
    let prefix = std::iter::once(GROUP_RECORDS).chain(own).collect();
    Arc::new(GroupTable { space: space.clone(), name: group.to_owned(), prefix, is_named: AtomicBool::new(false) })
}

struct GroupTable {
    space: KeySpace,
    name: String,
    prefix: Vec<u8>,
    /// Whether its name has been written, by which it is found.
    is_named: AtomicBool,
}

impl GroupTable {
    fn own(&self, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_slice(), key].concat()
    }
}

impl Table for GroupTable {
    fn secret(&self) -> &Secret {
        self.space.secret()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.space.get(&self.own(key)).map_err(|error| error.to_string())
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, String> {
        let entries = self.space.scan(&self.own(from), limit).map_err(|error| error.to_string())?;
        let own = |(key, value): (Vec<u8>, Vec<u8>)| Some((key.strip_prefix(self.prefix.as_slice())?.to_vec(), value));
        Ok(entries.into_iter().map_while(own).collect())
    }

    fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let put = self.space.put(self.own(&key), value);
            let put = if self.is_named.load(Ordering::Relaxed) {
                put.await
            } else {
                // Both are handed over at once, so that writes keep their order.
                let name = [&[GROUP_NAMES], self.name.as_bytes()].concat();
                let (named, put) = join(self.space.put(name, Some(Vec::new())), put).await;
                self.is_named.store(named.is_ok(), Ordering::Relaxed);
                named.and(put)
            };
            put.map_err(|error| error.to_string())
        })
    }
}

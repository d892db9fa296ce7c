//! Entries: their keys, labels and terms, and what a lookup gives.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use rondo_agent_kit::bound::beginning;

/// The longest name in a label, in bytes; a longer one is cut.
const NAME_MAX_BYTES: usize = 200;

pub use rondo_protocol::Digest as Key;

/// Hashes keys by their own bits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyHasher(u64);

impl BuildHasher for KeyHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The bits of a SHA-256 are uniform.
        self.0 = u64::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default());
    }
}

/// What metrics are counted by and what is cleared by. Either part may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Label {
    role: String,
    tool: String,
}

impl Label {
    pub fn new(role: &str, tool: &str) -> Self {
        let name = |text: &str| beginning(text, NAME_MAX_BYTES).to_owned();
        Self { role: name(role), tool: name(tool) }
    }

    /// The label that counts what has no label of its own.
    pub fn other() -> Self {
        Self::new("(other)", "(other)")
    }

    pub fn role(&self) -> &str {
        &self.role
    }

    pub fn tool(&self) -> &str {
        &self.tool
    }
}

/// Finds entries of a cache by something other than their keys, without a scan. It is updated for each inserted and
/// removed entry, including those of earlier processes. `()` finds nothing.
pub trait SecondaryIndex: Default + Send + 'static {
    /// An entry was inserted. `about` is the caller's own bytes of it.
    fn inserted(&mut self, key: &Key, about: &[u8]);

    fn removed(&mut self, key: &Key);
}

impl SecondaryIndex for () {
    fn inserted(&mut self, _: &Key, _: &[u8]) {}

    fn removed(&mut self, _: &Key) {}
}

pub trait CacheValue: Sized + Send + Sync + 'static {
    type Secondary: SecondaryIndex;

    fn encode(&self) -> Result<Vec<u8>, String>;

    /// The value of bytes that [`CacheValue::encode`] made.
    fn decode(bytes: &[u8]) -> Result<Self, String>;

    /// About how many bytes of memory it holds.
    fn weight(&self) -> u64;
}

/// On what terms a value is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertOptions {
    pub label: Label,
    /// A few bytes of the caller's own, listed without reading the payload; at most 4 KiB.
    pub about: Vec<u8>,
    /// How long it may be served; `None` is without end, and 0 not at all.
    pub ttl_ms: Option<u64>,
    /// When it was obtained.
    pub now_ms: u64,
}

/// All that is known of an entry without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub label: Label,
    pub kept_at_ms: u64,
    /// From when on it is not served.
    pub expires_at_ms: Option<u64>,
    pub payload_bytes: u64,
    pub about: Vec<u8>,
    /// What it takes of the table: both records with their keys.
    pub size_bytes: u64,
    /// Its place in the order of keeping: where the order of use starts from when a cache is opened.
    pub(super) sequence: u64,
    /// The tag over key, entry and payload.
    pub(super) tag: [u8; 32],
}

impl Entry {
    /// An entry that is to be sealed.
    pub(super) fn new(terms: InsertOptions, payload_bytes: u64, sequence: u64) -> Self {
        let InsertOptions { label, about, ttl_ms, now_ms } = terms;
        let expires_at_ms = ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms));
        Self { label, kept_at_ms: now_ms, expires_at_ms, payload_bytes, about, size_bytes: 0, sequence, tag: [0; 32] }
    }

    /// Why it must not be served at a time, if it must not. The age of an entry from the future cannot be known.
    pub(super) fn miss(&self, now_ms: u64) -> Option<Miss> {
        match self.expires_at_ms? {
            _ if now_ms < self.kept_at_ms => Some(Miss::ClockWentBack),
            end_ms => (now_ms >= end_ms).then_some(Miss::Expired),
        }
    }
}

/// A value that may be served, or why there is none.
pub type Lookup<T> = Result<Arc<T>, Miss>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    Absent,
    /// Its time was up; it is forgotten.
    Expired,
    /// It was kept at a time that has not come, so its age is unknown. It stays.
    ClockWentBack,
    /// It was not what was kept; it is forgotten. In words, for a warning.
    Damaged(String),
    /// The table could not read it. It stays. In words, for a warning.
    Unreadable(String),
    /// The table did not answer in time.
    NotReady,
}

impl Miss {
    pub fn words(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Expired => "expired",
            Self::ClockWentBack => "clock went back",
            Self::Damaged(_) => "damaged",
            Self::Unreadable(_) => "not readable",
            Self::NotReady => "not ready",
        }
    }

    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::Damaged(words) | Self::Unreadable(words) => Some(words),
            Self::Absent | Self::Expired | Self::ClockWentBack | Self::NotReady => None,
        }
    }
}

/// What became of a value that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertOutcome {
    /// It is kept, in memory and in the table.
    Inserted,
    /// It is larger than the ceilings allow, and not kept.
    TooLarge,
    /// It has no bytes, or the table did not take it in time: not kept.
    Failed,
}

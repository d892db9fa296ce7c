//! Digests: SHA-256 over a domain line and canonical bytes.
//!
//! `engine/docs/digests.md` explains how to recompute one elsewhere.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::canonical;

macro_rules! kinds {
    ($($word:literal $kind:ident: $doc:literal)*) => {
        /// What a digest names. The name is part of the hashed bytes, so that equal bytes of two kinds have different
        /// digests.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $doc] $kind),*
        }

        impl Kind {
            /// All kinds, in the order of their stored codes.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$kind),*];

            /// The word in the domain line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $word),* }
            }

            fn domain(self) -> &'static [u8] {
                match self { $(Self::$kind => concat!("rondo/", $word, "/v1\n").as_bytes()),* }
            }
        }
    };
}

kinds! {
    "workflow" Workflow: "A checked workflow."
    "policy" Policy: "What of a workflow may change between runs."
    "start" Start: "The beginning of a thread."
    "head" Head: "What a request holds besides its messages."
    "message" Message: "One message."
    "messages" Messages: "The chain over a list of messages."
    "request" Request: "A head and a chain."
    "transcript" Transcript: "What was said within one step."
    "step" Step: "A step, a rebind or a compaction."
    "file" File: "The contents of a file, as they are."
}

/// A SHA-256 digest: 32 raw bytes in chains and keys, 64 lower-case hex digits in JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Plain SHA-256, for data that is not an object: a file, an address, a description.
    pub fn sha256(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of `bytes` under the domain of `kind`: SHA-256 of `rondo/<kind>/v1\n` and the bytes.
    pub fn of_bytes(kind: Kind, bytes: &[u8]) -> Self {
        Self::of_parts(kind, &[bytes])
    }

    /// The digest of the canonical bytes of `object`, and those bytes.
    pub fn of<T: Serialize + ?Sized>(kind: Kind, object: &T) -> Result<(Self, Vec<u8>), canonical::Error> {
        let bytes = canonical::to_bytes(object)?;
        Ok((Self::of_bytes(kind, &bytes), bytes))
    }

    /// The digest of the concatenation of `parts` under the domain of `kind`.
    pub fn of_parts(kind: Kind, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(kind.domain());
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 lower-case hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0_u8; 32];
        let is_read = text.len() == 64 && HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).is_ok();
        is_read.then_some(Self(bytes))
    }
}

/// Plain SHA-256 over bytes that arrive in pieces, for data too large to hold in memory.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces, equal to [`Digest::sha256`] of the whole.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", HEXLOWER.encode_display(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

json_text!(Digest);

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| de::Error::custom("a digest is 64 lower-case hex digits"))
    }
}

//! Bounds on what a server sends, so that no reply takes more memory than it says.

use std::fmt;
use std::marker::PhantomData;

use rondo_protocol::call::Fault;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::protocol::too_large;

/// The maximum tool calls of a reply.
pub(super) const MAX_TOOL_CALLS: usize = 128;

/// The maximum items of a list in one event. An item may be a hundred times as large in memory as on the wire.
pub(super) const MAX_ITEMS: usize = 1024;

/// A list of at most [`MAX_ITEMS`] items; a longer one is refused before it takes up memory.
pub(super) struct Items<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor(PhantomData))
    }
}

struct ItemsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
    type Value = Items<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_ITEMS} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() >= MAX_ITEMS {
                return Err(A::Error::custom(format_args!("a list has more than {MAX_ITEMS} items")));
            }
            items.push(item);
        }
        Ok(Items(items))
    }
}

/// The bytes that a reply may still take.
#[derive(Debug)]
pub(super) struct Budget {
    max_bytes: usize,
    said_bytes: usize,
}

impl Budget {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, said_bytes: 0 }
    }

    /// Counts bytes before they are kept.
    ///
    /// # Errors
    /// When the reply is larger than its maximum.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        self.said_bytes = self.said_bytes.saturating_add(bytes);
        if self.said_bytes > self.max_bytes {
            return Err(too_large(format!("the reply is longer than {} bytes", self.max_bytes)));
        }
        Ok(())
    }

    pub(super) fn said_bytes(&self) -> usize {
        self.said_bytes
    }
}

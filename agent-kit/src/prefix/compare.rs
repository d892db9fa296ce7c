//! Compares two requests block by block.

use rondo_protocol::message::Message;
use rondo_protocol::object::Head;

use super::blocks::{self, Block, Content, Request};
use super::cause::{self, Cause};
use super::text::common;

/// The common prefix of a request and the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The size of the later request in bytes.
    pub request_bytes: u64,
    /// The length of the longest common prefix in bytes.
    pub shared_bytes: u64,
    /// Why the earlier request is not a prefix of the later one; `None` = it is.
    pub broke: Option<Break>,
}

/// Where and why a prefix broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The first byte of the later request that differs, from 0.
    pub byte: u64,
    /// The block with that byte, or the missing block.
    pub block: Block,
    pub cause: Cause,
    pub detail: String,
}

/// The known common beginning of two requests: the same head and some messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    pub messages: usize,
    /// The bytes of the head and of those messages.
    pub bytes: u64,
}

/// Compares two requests. The cost depends on the messages that they do not share, not on their length.
pub fn compare(before: &Request, after: &Request) -> Comparison {
    let request_bytes = after.bytes();
    let (old_head, new_head): (&Head, &Head) = (before.head(), after.head());
    if blocks::is_same_head(old_head, new_head) {
        let shared = before.messages.common(&after.messages);
        let bytes = after.head_bytes().saturating_add(shared.canonical_size_bytes());
        let known = Shared { messages: shared.len(), bytes };
        return compare_beyond(known, &before.messages.after(known.messages), &after.messages.after(known.messages));
    }
    if old_head.model != new_head.model {
        let detail = format!("{:?} became {:?}", old_head.model, new_head.model);
        let broke = Break { byte: 0, block: Block::Model, cause: Cause::ModelChanged, detail };
        return Comparison { request_bytes, shared_bytes: 0, broke: Some(broke) };
    }
    let (old, new) = (blocks::of_head(old_head), blocks::of_head(new_head));
    let alike = common(old.iter(), new.iter());
    let shared_bytes: u64 = new.iter().take(alike).map(Content::length).sum();
    let (old, new) = (old.get(alike).copied(), new.get(alike).copied());
    let (cause, detail) = cause::of_heads((old_head, old), (new_head, new));
    let block = match (cause, old, new) {
        (Cause::ToolRemoved, Some(old), _) | (_, Some(old), None) => old.block(),
        (_, _, Some(new)) => new.block(),
        (_, None, None) => Block::System,
    };
    // The first message follows a head that ends here.
    let first = |request: &Request| request.messages.messages().first().map(|message| message.canonical_bytes());
    let old = old.map(|content| content.bytes()).or_else(|| first(before)).unwrap_or_default();
    let new = new.map(|content| content.bytes()).or_else(|| first(after)).unwrap_or_default();
    let byte = shared_bytes.saturating_add(common_bytes(&old, &new));
    // An earlier request that ends here is a prefix of the later one.
    let broke = (!old.is_empty()).then_some(Break { byte, block, cause, detail });
    Comparison { request_bytes, shared_bytes: byte, broke }
}

/// Compares what follows the known common beginning.
pub fn compare_beyond(known: Shared, before: &[&Message], after: &[&Message]) -> Comparison {
    let alike = common(before.iter(), after.iter());
    let lengths = after.iter().map(|message| blocks::bytes_of_message(message));
    let (mut shared_bytes, mut request_bytes) = (known.bytes, known.bytes);
    for (at, length) in lengths.enumerate() {
        request_bytes = request_bytes.saturating_add(length);
        if at < alike {
            shared_bytes = request_bytes;
        }
    }
    let (old, new) = (before.get(alike..).unwrap_or_default(), after.get(alike..).unwrap_or_default());
    let Some(parted) = old.first() else {
        return Comparison { request_bytes, shared_bytes, broke: None };
    };
    if let Some(first) = new.first() {
        shared_bytes = shared_bytes.saturating_add(common_bytes(&parted.canonical_bytes(), &first.canonical_bytes()));
    }
    let number = known.messages.saturating_add(alike).saturating_add(1);
    let (cause, detail) = cause::of_messages(old, new, number);
    let broke = Break { byte: shared_bytes, block: Block::Message(number), cause, detail };
    Comparison { request_bytes, shared_bytes, broke: Some(broke) }
}

/// Where and why a request differs from the expected one; `None` = they are equal apart from parameters.
pub fn difference(old: &Request, new: &Request) -> Option<Break> {
    let Comparison { shared_bytes, broke, .. } = compare(old, new);
    if broke.is_some() {
        return broke;
    }
    let added = new.messages.after(old.messages.len());
    if added.is_empty() {
        return None;
    }
    let number = old.messages.len().saturating_add(1);
    let (cause, detail) = cause::of_messages(&[], &added, number);
    Some(Break { byte: shared_bytes, block: Block::Message(number), cause, detail })
}

fn common_bytes(a: &[u8], b: &[u8]) -> u64 {
    u64::try_from(common(a.iter(), b.iter())).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

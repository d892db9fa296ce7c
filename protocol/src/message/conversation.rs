use std::fmt;
use std::sync::Arc;

use super::{Message, empty_chain, link_digest, request};
use crate::digest::{Digest, Kind};

/// A list of messages with the chain over each of its prefixes:
/// `m0 = H("rondo/messages/v1\n")`, `mi = H("rondo/messages/v1\n" || m(i-1) || digest(message i))`.
///
/// The chain is extended, never recomputed, and a clone shares all messages with its original, so that appending and
/// cloning cost the same for long and short conversations.
#[derive(Clone, Default)]
pub struct Conversation {
    last: Option<Arc<Link>>,
}

/// A message and those before it.
struct Link {
    before: Option<Arc<Link>>,
    message: Message,
    /// The chain that ends with this message.
    chain: Digest,
    length: usize,
    size_bytes: usize,
    canonical_size_bytes: u64,
    /// Whether this message or one before it holds a file.
    has_files: bool,
}

impl Drop for Link {
    /// Drops the links in a loop: recursion would overflow the stack for a long list.
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(mut link) = before.and_then(Arc::into_inner) {
            before = link.before.take();
        }
    }
}

impl Conversation {
    /// Appends a message and extends the chain. Clones do not see it.
    pub fn push(&mut self, message: Message) {
        let canonical = message.canonical_bytes();
        let own_bytes = u64::try_from(canonical.len()).unwrap_or(u64::MAX);
        let has_files = message.files().next().is_some();
        self.last = Some(Arc::new(Link {
            chain: link_digest(self.chain(), Digest::of_bytes(Kind::Message, &canonical)),
            length: self.len() + 1,
            size_bytes: self.size_bytes().saturating_add(message.size_bytes()),
            canonical_size_bytes: self.canonical_size_bytes().saturating_add(own_bytes),
            has_files: self.has_files() || has_files,
            before: self.last.take(),
            message,
        }));
    }

    /// Removes the messages after the first `length`.
    pub fn truncate(&mut self, length: usize) {
        while let Some(link) = self.last.take_if(|link| link.length > length) {
            self.last.clone_from(&link.before);
        }
    }

    pub fn len(&self) -> usize {
        self.last.as_ref().map_or(0, |link| link.length)
    }

    /// The number of bytes of text in the messages.
    pub fn size_bytes(&self) -> usize {
        self.last.as_ref().map_or(0, |link| link.size_bytes)
    }

    /// The number of bytes of the messages in canonical form.
    pub fn canonical_size_bytes(&self) -> u64 {
        self.last.as_ref().map_or(0, |link| link.canonical_size_bytes)
    }

    /// Whether a message holds a file.
    pub fn has_files(&self) -> bool {
        self.last.as_ref().is_some_and(|link| link.has_files)
    }

    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> Vec<&Message> {
        self.after(0)
    }

    /// The messages after the first `length`, oldest first. The cost depends only on their number.
    pub fn after(&self, length: usize) -> Vec<&Message> {
        let mut messages: Vec<&Message> =
            self.newest_first().take_while(|link| link.length > length).map(|link| &link.message).collect();
        messages.reverse();
        messages
    }

    /// The messages that both begin with. The cost depends only on the number of the others.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let length = self.len().min(other.len());
        let (mut own, mut its) = (self.clone(), other.clone());
        own.truncate(length);
        its.truncate(length);
        while own != its {
            own.truncate(own.len() - 1);
            its.truncate(its.len() - 1);
        }
        own
    }

    /// The chain after each message.
    pub fn links(&self) -> Vec<Digest> {
        let mut links: Vec<Digest> = self.newest_first().map(|link| link.chain).collect();
        links.reverse();
        links
    }

    pub fn chain(&self) -> Digest {
        self.last.as_ref().map_or_else(empty_chain, |link| link.chain)
    }

    /// The digest of the request with these messages and the head of that digest.
    pub fn request(&self, head: Digest) -> Digest {
        request(head, self.chain())
    }

    fn newest_first(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(self.last.as_deref(), |link| link.before.as_deref())
    }
}

impl PartialEq for Conversation {
    /// Equal chains mean equal messages.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.chain() == other.chain()
    }
}

impl Eq for Conversation {}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.messages()).finish()
    }
}

impl Extend<Message> for Conversation {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        for message in messages {
            self.push(message);
        }
    }
}

impl FromIterator<Message> for Conversation {
    fn from_iter<T: IntoIterator<Item = Message>>(messages: T) -> Self {
        let mut conversation = Self::default();
        conversation.extend(messages);
        conversation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Conversation {
        texts.iter().map(|text| Message::user(*text)).collect()
    }

    #[test]
    fn copies_share_what_they_begin_with_and_go_on_apart() {
        let base = of(&["a", "b"]);
        let mut longer = base.clone();
        longer.push(Message::user("c"));
        let mut other = base.clone();
        other.push(Message::user("d"));
        assert_eq!((base.len(), longer.len(), other.len()), (2, 3, 3));
        assert_eq!((&longer, &other), (&of(&["a", "b", "c"]), &of(&["a", "b", "d"])));
        assert!(std::ptr::eq(base.messages()[0], other.messages()[0]));
        assert_eq!(longer.after(1), [&Message::user("b"), &Message::user("c")]);
        assert_eq!((longer.common(&other), longer.common(&base)), (base.clone(), base.clone()));
        assert!(longer.common(&of(&["b", "a"])).is_empty());
        let canonical = longer.messages().into_iter().map(|message| message.canonical_bytes().len() as u64);
        assert_eq!(longer.canonical_size_bytes(), canonical.sum::<u64>());
        assert_eq!(longer.links().last(), Some(&longer.chain()));
        longer.truncate(2);
        assert_eq!(longer, base);
        longer.truncate(0);
        assert_eq!((longer.is_empty(), longer.chain()), (true, empty_chain()));
        assert_ne!(base, of(&["b", "a"]));
    }

    #[test]
    fn a_long_conversation_is_dropped_without_a_long_stack() {
        let mut conversation = Conversation::default();
        for _ in 0..200_000 {
            conversation.push(Message::assistant(""));
        }
        let copy = conversation.clone();
        drop(conversation);
        assert_eq!(copy.len(), 200_000);
    }
}

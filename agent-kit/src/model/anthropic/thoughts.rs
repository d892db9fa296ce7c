//! Thoughts that go back as they came: each with its signature, or encrypted
//! (<https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks>).
//!
//! Some models bind a signature to themselves and to what stood in front of it: the system text, the tools and the
//! messages. So what it was given behind is kept with it, and where something else stands there now, no thought is sent:
//! they may be left out from the front or all together, never one from the middle.

use rondo_protocol::Digest;
use rondo_protocol::message::{Conversation, Part, empty_chain};
use rondo_protocol::object::Head;
use serde::{Deserialize, Serialize};

use crate::model::opaque::Kept;

/// How many hexadecimal digits of a digest tell one place from another.
const DIGITS: usize = 16;

/// What vouches for a thought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Proof {
    /// The signature of a readable thought, whose text may be empty.
    Signature(String),
    /// A thought that only the provider can read.
    Redacted(String),
}

/// A proof, and the place in front of the reply that it came with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Thought {
    #[serde(flatten)]
    pub proof: Proof,
    after: String,
}

impl Thought {
    pub(super) fn new(proof: Proof, after: &str) -> Self {
        Self { proof, after: after.to_owned() }
    }
}

impl Kept for Thought {}

/// What a request has in front of its messages, with its model: a newer one reads the thoughts of an older one that
/// does not bind them, but not those that are bound.
pub(super) fn beginning(head: &Head) -> String {
    let mut text = format!("{}\n{}", head.model, head.system);
    for tool in &head.tools {
        // A length in front of each, so that no two heads make the same text.
        for part in [&tool.name, &tool.description, &tool.parameters] {
            text.extend(["\n", &part.len().to_string(), ":", part]);
        }
    }
    digits(Digest::sha256(text.as_bytes()))
}

/// The place behind that beginning and messages with that chain.
pub(super) fn place(beginning: &str, chain: Digest) -> String {
    format!("{beginning}-{}", digits(chain))
}

/// The number, from 1, of the first message with a thought that came behind something else. The thoughts are those of
/// providers that `is_asked` names.
pub(super) fn misplaced(head: &Head, conversation: &Conversation, is_asked: impl Fn(&str) -> bool) -> Option<usize> {
    let beginning = beginning(head);
    let mut before = empty_chain();
    for (number, (message, chain)) in (1..).zip(conversation.messages().into_iter().zip(conversation.links())) {
        let place = place(&beginning, before);
        let is_misplaced = |part: &Part| match part {
            Part::Reasoning { opaque: Some(opaque), .. } if is_asked(&opaque.provider) => {
                Thought::of(Some(opaque), &opaque.provider).is_some_and(|thought| thought.after != place)
            }
            _ => false,
        };
        if message.parts().iter().any(is_misplaced) {
            return Some(number);
        }
        before = chain;
    }
    None
}

fn digits(digest: Digest) -> String {
    digest.to_string().chars().take(DIGITS).collect()
}

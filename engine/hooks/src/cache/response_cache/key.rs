//! What an answer is looked up by: everything on which it depends, part by part, and the digest of that.

use rondo_protocol::call::CallKind;
use rondo_protocol::message::Conversation;
use rondo_protocol::object::Head;
use rondo_protocol::{Digest, canonical};
use serde::{Deserialize, Serialize};

use crate::cache::{ABOUT_MAX_BYTES, Key};

/// The digits of a digest in a facet: enough to distinguish two.
const SHORT: usize = 16;
/// After how many messages, counted from the last one, the chain is kept to explain a difference.
const LINKS_MAX: usize = 64;

/// Everything that an answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyParts {
    pub version: u32,
    pub at: CallKind,
    /// `thread`, `workflow` or `store`.
    pub scope: String,
    /// The thread's id, the workflow's name, or nothing.
    pub within: String,
    pub provider: String,
    /// Its base address, or a script's digest. No credential.
    pub address: String,
    /// The digest of the request: head and messages.
    pub request: Digest,
    pub lane: String,
    /// The n-th equal request of that lane in its thread, from 1.
    pub occurrence: u32,
    /// The digest of the patterns redacted from the role's messages; empty without any.
    pub redaction: String,
    /// Of a turn, where its tools work.
    pub root: String,
}

impl KeyParts {
    /// The version that this code writes: another one for another meaning of any part.
    pub const VERSION: u32 = 1;

    /// # Errors
    /// When a part has no canonical form: what no key tells apart is neither looked up nor kept.
    pub fn key(&self) -> Result<Key, canonical::Error> {
        let mut bytes = b"rondo/response/v1\n".to_vec();
        bytes.extend(canonical::to_bytes(self)?);
        Ok(Digest::sha256(&bytes))
    }
}

/// The parts of a request, to report differences: names and short digests, no text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facets {
    pub model: String,
    /// The parameters as canonical JSON.
    pub parameters: String,
    pub system: String,
    pub tools: String,
    /// The schema of the answer.
    pub response_format: String,
    pub messages: u64,
    /// The chain of digests after each of the last ones, oldest first: what differs once differs from there on.
    pub links: Vec<String>,
}

impl Facets {
    pub fn of(head: &Head, conversation: &Conversation) -> Result<Self, canonical::Error> {
        let shortened = |digest: Digest| digest.to_string().chars().take(SHORT).collect::<String>();
        let short = |bytes: &[u8]| shortened(Digest::sha256(bytes));
        let links = conversation.links();
        let last = links.iter().skip(links.len().saturating_sub(LINKS_MAX));
        let parameters = canonical::to_bytes(&head.parameters)?;
        Ok(Self {
            model: head.model.clone(),
            parameters: String::from_utf8_lossy(&parameters).chars().take(500).collect(),
            system: short(head.system.as_bytes()),
            tools: short(&canonical::to_bytes(&head.tools)?),
            response_format: head.response_format.as_ref().map(|schema| short(schema.as_bytes())).unwrap_or_default(),
            messages: u64::try_from(links.len()).unwrap_or(u64::MAX),
            links: last.copied().map(shortened).collect(),
        })
    }

    /// The number of the first message, from 1, in which two requests differ; 0 = earlier than is known. `None` = in none
    /// that both have.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        let link = |facets: &Self, number: u64| -> Option<String> {
            let skipped = facets.messages.saturating_sub(u64::try_from(facets.links.len()).unwrap_or(u64::MAX));
            let index = number.checked_sub(skipped)?.checked_sub(1)?;
            facets.links.get(usize::try_from(index).ok()?).cloned()
        };
        let both = (1..=self.messages.min(other.messages))
            .filter_map(|number| Some((number, link(self, number)? == link(other, number)?)));
        let known: Vec<(u64, bool)> = both.collect();
        let (number, _) = known.iter().find(|(_, same)| !same)?;
        let is_first_known = known.first().is_some_and(|(first, _)| first == number && *first > 1);
        Some(if is_first_known { 0 } else { *number })
    }
}

/// The description in an entry: the parts of its key, and its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub parts: KeyParts,
    pub facets: Facets,
    pub thread: String,
    pub role: String,
    pub visit: u64,
}

impl About {
    pub fn to_bytes(&self) -> Result<Vec<u8>, canonical::Error> {
        let whole = canonical::to_bytes(self)?;
        if whole.len() <= ABOUT_MAX_BYTES {
            return Ok(whole);
        }
        // What only explains goes first.
        let facets = Facets { parameters: String::new(), links: Vec::new(), ..self.facets.clone() };
        canonical::to_bytes(&Self { facets, ..self.clone() })
    }
}

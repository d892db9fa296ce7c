use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::digest::{Digest, Kind};
use crate::message::{Conversation, Message};

/// A request that a hook rewrote, object kind `request`: it cannot be derived from steps, so it is stored as sent. Its
/// digest is not that of its bytes but the request's digest, over the head and the chain of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub head: Digest,
    pub messages: Vec<Message>,
}

impl Request {
    /// The request's digest: `H("rondo/request/v1\n" || head || mn)`.
    pub fn digest(&self) -> Digest {
        self.messages.iter().cloned().collect::<Conversation>().request(self.head)
    }
}

/// The digest of an object of that kind with these canonical bytes, or `None` when they are not such an object.
pub fn digest_of(kind: Kind, bytes: &[u8]) -> Option<Digest> {
    match kind {
        Kind::Request => canonical::from_slice::<Request>(bytes).ok().map(|request| request.digest()),
        _ => Some(Digest::of_bytes(kind, bytes)),
    }
}

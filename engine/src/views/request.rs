//! The JSON line of a request that a model was sent.

use rondo_core::conversation::rebuild::Request;
use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Message;
use rondo_protocol::object::Head;
use schemars::JsonSchema;
use serde::Serialize;

/// The line of a request.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RequestLine<'a> {
    seq: u64,
    role: &'a RoleName,
    lane: &'a LanePath,
    visit: u64,
    digest: Digest,
    asked: Option<BeforeHook<'a>>,
    head: &'a Head,
    messages: Vec<&'a Message>,
}

/// A request before a hook rewrote it.
#[derive(Debug, Serialize, JsonSchema)]
struct BeforeHook<'a> {
    digest: Digest,
    messages: Vec<&'a Message>,
}

impl<'a> RequestLine<'a> {
    pub fn of(request: &'a Request) -> Self {
        let asked = request.asked.map(|digest| BeforeHook { digest, messages: request.plain.messages() });
        let Request { seq, role, lane, visit, recorded: digest, head, .. } = request;
        let messages = request.messages().messages();
        Self { seq: *seq, role, lane, visit: *visit, digest: *digest, asked, head, messages }
    }
}

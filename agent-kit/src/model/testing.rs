//! A call for tests.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::sync::Arc;

use rondo_protocol::call::{Files, ModelCall, Site};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::Message;
use rondo_protocol::object::{Head, Parameters};

use super::PromptCache;
use super::dialects::COMMON;
use super::protocol::{Form, Outgoing};

pub(super) fn test_call() -> ModelCall {
    let head = Head {
        model: "test-model".to_owned(),
        parameters: Parameters::default(),
        response_format: None,
        system: "You test.".to_owned(),
        tools: Vec::new(),
    };
    let (head_digest, _) = rondo_protocol::Digest::of(Kind::Head, &head).unwrap();
    ModelCall {
        site: Site {
            thread: ThreadId::from_parts(1, 2),
            role: RoleName::new("writer").unwrap(),
            lane: LanePath::trunk(),
            visit: 1,
            position: 0,
        },
        attempt: 0,
        ordinal: 0,
        model: "default".to_owned(),
        head_digest,
        head: Arc::new(head),
        conversation: Arc::new([Message::user("Write.")].into_iter().collect()),
        files: Files::default(),
        time_left: std::time::Duration::from_mins(1),
    }
}

/// The request for `call` to a provider `p` without a dialect.
pub(super) fn test_outgoing(call: &ModelCall) -> Outgoing<'_> {
    Outgoing {
        call,
        provider: "p",
        dialect: &COMMON,
        prompt_cache: PromptCache::Off,
        prompt_cache_retention: None,
        form: Form::default(),
    }
}

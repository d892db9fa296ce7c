//! Model providers: one trait, one file per provider.
//!
//! A provider makes one attempt at one request. It never retries, never sleeps and keeps nothing between calls; its
//! callers implement retries, deadline and fallback.

pub mod minimum;
pub mod openai;
pub mod recorded;
pub mod redacting;
pub mod script;
pub mod scripted;
mod sse;
mod status;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};

/// One attempt in progress.
pub type Completion<'a> = BoxFuture<'a, Result<ModelAnswer, Fault>>;

/// A provider of model replies.
pub trait Model: Send + Sync {
    /// Makes one attempt. The reply is complete: it has its finish reason.
    ///
    /// # Errors
    /// A [`Fault`] whose message contains no key.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; no state of the attempt remains.
    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a>;

    /// Whether an attempt costs something, so that a run that stops lets it end.
    fn is_paid(&self) -> bool {
        true
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        (**self).complete(call, deltas)
    }

    fn is_paid(&self) -> bool {
        (**self).is_paid()
    }
}

/// Receives the parts of a reply while it arrives. They are provisional: the attempt may still fail.
pub trait Deltas: Send + Sync {
    /// Receives more text of the answer. Never blocks.
    fn text(&self, text: &str);

    /// Waits until there is memory for a reply of so many bytes. A provider calls it before it reads on; how long the
    /// reply will be is not known. The wait counts neither as the provider's silence nor
    /// towards the time of the request.
    fn reserve(&self, _reply_bytes: usize) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Discards every part.
pub struct NoDeltas;

impl Deltas for NoDeltas {
    fn text(&self, _text: &str) {}
}

#[cfg(test)]
fn test_call() -> ModelCall {
    use rondo_protocol::call::Site;
    use rondo_protocol::digest::Kind;
    use rondo_protocol::id::{LanePath, RoleName, ThreadId};
    use rondo_protocol::message::Message;
    use rondo_protocol::object::{Head, Parameters};

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
        time_left: std::time::Duration::from_mins(1),
    }
}

//! Model providers: one trait, a folder for each protocol, and one HTTP side for all of them.
//!
//! A provider makes one attempt at one request. It never retries, never sleeps and keeps nothing between calls; its
//! callers implement retries, deadline and fallback.

pub mod anthropic;
mod bounded;
pub mod dialects;
pub mod gemini;
pub mod http;
pub mod minimum;
mod opaque;
pub mod openai_chat;
pub mod openai_responses;
mod prompt_cache;
pub mod protocol;
pub mod recorded;
pub mod redacting;
mod response_format;
pub mod script;
pub mod scripted;
mod status;
#[cfg(any(test, fuzzing))]
mod testing;
mod usage;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};

#[cfg(any(test, fuzzing))]
use testing::{test_call, test_outgoing};

pub use prompt_cache::{CacheRetention, PromptCache};
pub use response_format::ResponseFormat;

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

    /// Whether a script answers: in a child thread it answers for the roles of that thread.
    fn is_script(&self) -> bool {
        false
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        (**self).complete(call, deltas)
    }

    fn is_paid(&self) -> bool {
        (**self).is_paid()
    }

    fn is_script(&self) -> bool {
        (**self).is_script()
    }
}

/// Receives the parts of a reply while it arrives. They are provisional: the attempt may still fail.
pub trait Deltas: Send + Sync {
    /// Receives more text of the answer. Never blocks.
    fn text(&self, text: &str);

    /// Receives each event of a stream as it came, or a whole reply; not redacted. Never blocks.
    fn event(&self, _json: &str) {}

    /// Waits until there is memory for a reply of so many bytes. A provider calls it before it reads on; how long the
    /// reply will be is not known. The wait counts neither as the provider's silence nor
    /// towards the time of the request.
    fn reserve(&self, _reply_bytes: usize) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

pub struct NoDeltas;

impl Deltas for NoDeltas {
    fn text(&self, _text: &str) {}
}

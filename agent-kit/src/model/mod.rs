//! Model providers: one trait, one file a provider.
//!
//! A provider makes one attempt at one request. It never retries, never sleeps of its own accord and keeps nothing
//! between calls; retries, deadline and fallback stand above it.

pub mod openai;
pub mod script;
pub mod scripted;
mod status;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};

/// Whoever answers requests.
pub trait Model: Send + Sync {
    /// Makes one attempt. The reply is complete: it has its finish reason.
    ///
    /// # Errors
    /// A [`Fault`] whose message holds no key.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; nothing is remembered of the attempt.
    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas)
    -> BoxFuture<'a, Result<ModelAnswer, Fault>>;
}

/// Where the parts of a reply go while it arrives. They are provisional: the attempt may still fail.
pub trait Deltas: Send + Sync {
    /// Some more text of the answer. Never blocks.
    fn text(&self, text: &str);
}

/// Lets every part go.
pub struct NoDeltas;

impl Deltas for NoDeltas {
    fn text(&self, _text: &str) {}
}

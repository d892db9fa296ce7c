//! What a provider says, redacted as it enters: the pieces of a stream, replies and faults.
//!
//! Requests are unchanged: they come from a thread and were redacted on entry.

use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};
use rondo_protocol::object::{Finish, ModelReply};

use super::{Deltas, Model};
use crate::redact::{Redactor, StreamRedactor};

/// Makes one attempt at `provider` and redacts the reply with `redactor`, that of the role.
///
/// # Errors
/// The provider's fault, with its message redacted.
///
/// # Cancel safety
/// As [`Model::complete`]; text held back is never released.
pub async fn complete(
    provider: &dyn Model,
    redactor: &Redactor,
    call: &ModelCall,
    deltas: &dyn Deltas,
) -> Result<ModelAnswer, Fault> {
    let redacting = RedactingDeltas { inner: deltas, stream: Mutex::new(redactor.stream()) };
    match provider.complete(call, &redacting).await {
        Ok(mut answer) => {
            redacting.finish();
            reply(redactor, &mut answer.reply);
            Ok(answer)
        }
        // The unsettled end of a cut reply is never released: it could be the beginning of a key.
        Err(mut fault) => {
            redactor.string(&mut fault.message);
            Err(fault)
        }
    }
}

/// Redacts every text of a finished reply separately.
pub fn reply(redactor: &Redactor, reply: &mut ModelReply) {
    let ModelReply { finish, parts } = reply;
    *parts = std::mem::take(parts).with_texts(&|text| redactor.string(text));
    if let Finish::Other(word) = finish {
        redactor.string(word);
    }
}

/// Deltas that hold back unsettled text.
struct RedactingDeltas<'a> {
    inner: &'a dyn Deltas,
    stream: Mutex<StreamRedactor>,
}

impl RedactingDeltas<'_> {
    fn finish(&self) {
        let rest = self.stream.lock().unwrap_or_else(PoisonError::into_inner).finish();
        if !rest.is_empty() {
            self.inner.text(&rest);
        }
    }
}

impl Deltas for RedactingDeltas<'_> {
    fn text(&self, text: &str) {
        let safe = self.stream.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        if !safe.is_empty() {
            self.inner.text(&safe);
        }
    }

    fn reserve(&self, reply_bytes: usize) -> BoxFuture<'_, ()> {
        self.inner.reserve(reply_bytes)
    }
}

#[cfg(test)]
mod tests;

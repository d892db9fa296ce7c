//! Recordings: what providers were asked and what they said, in a file that answers the same requests again.
//!
//! The file is a *cassette*: JSON Lines, one line for each head, message and attempt, described on
//! `engine/docs/cassettes.md`. A [`Recorder`] writes one while a run goes on, [`Cassette::read`] reads one strictly, and
//! [`Recorded`] plays it.
//!
//! Laws:
//! - What is played is what was recorded: the same chunks, reply, usage and cost, or the same fault.
//! - Playing keeps no position: which attempt answers a call follows from the call alone, so that another process goes
//!   on where the last one stopped.
//! - A line is written whole or the file is known to be cut; what was changed afterwards is not played.
//! - No key of the operator is written.
//! - The file grows with what is new in each request, never with the whole conversation.
//!
//! This module knows nothing of command lines, threads or prices; the caller chooses where the file lies.

mod cassette;
mod chunks;
mod difference;
mod format;
mod read;
mod recorder;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};

pub use cassette::{Cassette, Exchange, Title};
pub use format::{MAX_BYTES, VERSION};
pub use recorder::{Attempt, Recorder};

use super::{Deltas, Model};

/// Plays a cassette. It keeps no position: a call names its request, its place and its attempt.
#[derive(Debug, Clone)]
pub struct Recorded {
    cassette: Arc<Cassette>,
}

impl Recorded {
    /// Plays `cassette`.
    pub fn new(cassette: Arc<Cassette>) -> Self {
        Self { cassette }
    }
}

impl Model for Recorded {
    fn complete<'a>(
        &'a self,
        call: &'a ModelCall,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(async move {
            let Some(take) = self.cassette.find(call) else {
                return Err(difference::missing(&self.cassette, call));
            };
            for (_, text) in take.chunks.iter() {
                deltas.text(text);
            }
            take.outcome.clone()
        })
    }
}

#[cfg(test)]
mod tests;

//! Recordings of requests and replies, in a file that can answer the same requests again.
//!
//! The file is a *cassette*: JSON Lines, one line per head, message and attempt, documented in
//! `engine/docs/cassettes.md`. A [`Recorder`] writes one during a run, [`Cassette::read`] reads one strictly, and it plays
//! as a [`Model`].
//!
//! Laws:
//! - Playback equals the recording: the same chunks, reply, usage and cost, or the same fault.
//! - Playback keeps no position: the call alone determines which attempt answers it, so that another process can
//!   continue where the last one stopped.
//! - A line is written whole or the file is known to be cut; a modified file is not played.
//! - No key of the operator is written.
//! - The file grows with what is new in each request, never with the whole conversation.
//!
//! This module knows nothing of command lines, threads or prices; the caller chooses the file's location.

mod cassette;
mod chunks;
mod difference;
mod format;
mod read;
mod recorder;

use rondo_protocol::call::ModelCall;

pub use cassette::Cassette;
pub use format::{MAX_BYTES, VERSION};
pub use recorder::{Attempt, Recorder, Title};

use super::{Completion, Deltas, Model};

/// It keeps no position: a call names its request, its site and its attempt.
impl Model for Cassette {
    fn is_paid(&self) -> bool {
        false
    }

    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(async move {
            let Some(take) = self.find(call) else {
                return Err(difference::missing(self, call));
            };
            for (_, text) in take.attempt.chunks.iter() {
                deltas.text(text);
            }
            take.outcome.clone()
        })
    }
}

#[cfg(test)]
mod tests;

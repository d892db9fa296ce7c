//! What Restate keeps: the entries of a log in pieces, why a thread goes on, and how a worker left it.

use std::convert::Infallible;

use bytes::Bytes;
use restate_sdk::serde::{InputMetadata, OutputMetadata, PayloadMetadata};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The most bytes of a piece. Restate takes messages of up to 32 MiB, and warns from 10 on.
const PIECE_BYTES: usize = 4 << 20;

/// A part of an entry of a log. An entry is a list of writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// Whether the entry begins with it. What an entry before it lacks was never journaled.
    pub(crate) is_first: bool,
    /// Whether the entry ends with it.
    pub(crate) is_last: bool,
    pub(crate) bytes: Bytes,
}

/// Writes as the pieces of one entry: at least one.
///
/// # Errors
/// If the writes have no encoding.
pub fn to_pieces(writes: &[Vec<u8>]) -> Result<Vec<Bytes>, postcard::Error> {
    pieces(writes)?.iter().map(|piece| postcard::to_allocvec(piece).map(Bytes::from)).collect()
}

pub(crate) fn pieces(writes: &[Vec<u8>]) -> Result<Vec<Piece>, postcard::Error> {
    let bytes = Bytes::from(postcard::to_allocvec(writes)?);
    let starts: Vec<usize> = (0..bytes.len().max(1)).step_by(PIECE_BYTES).collect();
    let piece = |start: &usize| {
        let end = start.saturating_add(PIECE_BYTES).min(bytes.len());
        Piece { is_first: *start == 0, is_last: end == bytes.len(), bytes: bytes.slice(*start..end) }
    };
    Ok(starts.iter().map(piece).collect())
}

/// Pieces of which the last is missing.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Vec<u8>);

impl Unfinished {
    /// Adds the next piece; returns the writes of the entry that ends with it.
    pub(crate) fn add(&mut self, piece: &Piece) -> Result<Option<Vec<Vec<u8>>>, postcard::Error> {
        if piece.is_first {
            self.0.clear();
        }
        self.0.extend_from_slice(&piece.bytes);
        if !piece.is_last {
            return Ok(None);
        }
        postcard::from_bytes(&std::mem::take(&mut self.0)).map(Some)
    }
}

/// Why a thread goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wake {
    /// It begins, or somebody continues it: what answers in place of models from now on, if that changes, and how.
    Continue(Option<String>, Continued),
    /// A person has answered.
    Answer(Continued),
    /// It ends for good.
    Cancel,
    /// The time of what it waited for when its log had so many pieces.
    Timer(u64),
    /// The invocation before this one left it under way.
    Follow,
}

/// How a thread is continued, or an answer, in the words of the driver: JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued(pub String);

/// How a worker left a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaving {
    /// It waits for people; at most so many milliseconds, if there is a limit.
    Waiting(Option<u64>),
    /// It has ended, or stopped and can be continued.
    Settled,
    /// It was drained, and goes on under the next invocation.
    Drained,
    /// What was asked was refused, and nothing has changed: a failure as JSON.
    Refused(String),
}

/// What one run of an invocation brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    Piece(Piece),
    Left(Leaving),
}

/// A value in postcard's encoding.
#[derive(Debug, Clone)]
pub(crate) struct Postcard<T>(pub(crate) T);

impl<T: Serialize> restate_sdk::serde::Serialize for Postcard<T> {
    type Error = postcard::Error;

    fn serialize(&self) -> Result<Bytes, Self::Error> {
        postcard::to_allocvec(&self.0).map(Bytes::from)
    }
}

impl<T: DeserializeOwned> restate_sdk::serde::Deserialize for Postcard<T> {
    type Error = postcard::Error;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, Self::Error> {
        postcard::from_bytes(bytes).map(Self)
    }
}

impl<T> PayloadMetadata for Postcard<T> {
    fn json_schema() -> Option<serde_json::Value> {
        None
    }

    fn input_metadata() -> InputMetadata {
        InputMetadata { accept_content_type: "*/*", is_required: true }
    }

    fn output_metadata() -> OutputMetadata {
        OutputMetadata { content_type: "application/octet-stream", set_content_type_if_empty: true }
    }
}

/// Bytes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw(pub(crate) Bytes);

impl restate_sdk::serde::Serialize for Raw {
    type Error = Infallible;

    fn serialize(&self) -> Result<Bytes, Infallible> {
        Ok(self.0.clone())
    }
}

impl restate_sdk::serde::Deserialize for Raw {
    type Error = Infallible;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, Infallible> {
        Ok(Self(bytes.clone()))
    }
}

impl PayloadMetadata for Raw {
    fn json_schema() -> Option<serde_json::Value> {
        None
    }

    fn input_metadata() -> InputMetadata {
        InputMetadata { accept_content_type: "*/*", is_required: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_cut_into_pieces_and_put_together_again() {
        for writes in [vec![], vec![vec![1, 2, 3]], vec![vec![7; PIECE_BYTES], vec![8; PIECE_BYTES * 2 + 5]]] {
            let cut = pieces(&writes).unwrap();
            assert!(cut.iter().all(|piece| piece.bytes.len() <= PIECE_BYTES));
            let mut unfinished = Unfinished::default();
            let mut whole = None;
            // An entry that broke off before is no part of it.
            unfinished.add(&Piece { is_first: true, is_last: false, bytes: Bytes::from_static(b"cut") }).unwrap();
            for piece in &cut {
                assert_eq!(whole, None);
                whole = unfinished.add(piece).unwrap();
            }
            assert_eq!(whole, Some(writes));
        }
    }
}

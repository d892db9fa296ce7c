//! What Restate keeps: the entries of a log in pieces, why a thread goes on, and how a worker left it.

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
pub fn to_pieces(writes: &[Vec<u8>]) -> Result<Vec<Bytes>, impl std::error::Error + use<>> {
    pieces(writes)?.iter().map(encode).collect::<Result<_, CodecError>>()
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

/// The version of what travels and what is kept. A worker of another version of rondo says so.
const VERSION: u8 = 1;

/// A value that is none, or one of another version of rondo.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("its version is {0}; this version of rondo knows {VERSION}")]
    Version(u8),
    #[error(transparent)]
    Postcard(#[from] postcard::Error),
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Bytes, CodecError> {
    Ok(postcard::to_extend(value, vec![VERSION])?.into())
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(postcard::from_bytes(rest)?),
        Some((other, _)) => Err(CodecError::Version(*other)),
        None => Err(postcard::Error::DeserializeUnexpectedEnd.into()),
    }
}

/// A value with its version.
#[derive(Debug, Clone)]
pub(crate) struct Coded<T>(pub(crate) T);

impl<T: Serialize> restate_sdk::serde::Serialize for Coded<T> {
    type Error = CodecError;

    fn serialize(&self) -> Result<Bytes, Self::Error> {
        encode(&self.0)
    }
}

impl<T: DeserializeOwned> restate_sdk::serde::Deserialize for Coded<T> {
    type Error = CodecError;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, Self::Error> {
        decode(bytes).map(Self)
    }
}

impl<T> PayloadMetadata for Coded<T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_version_says_so() {
        let bytes = encode(&Wake::Timer(3)).unwrap();
        assert_eq!(decode::<Wake>(&bytes).unwrap(), Wake::Timer(3));
        let newer = [&[VERSION + 1], &bytes[1..]].concat();
        assert!(matches!(decode::<Wake>(&newer), Err(CodecError::Version(found)) if found == VERSION + 1));
        assert!(decode::<Wake>(&[]).is_err() && decode::<Wake>(&[VERSION]).is_err());
    }

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

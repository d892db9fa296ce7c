//! Choices that follow from the seed and from where they are made, so that one more place changes no other choice.

use sha2::{Digest, Sha256};

use crate::SEED;

/// A number below `count` for the choice `what` at `place`.
pub fn below(count: usize, what: &str, place: &str) -> usize {
    let mut hash = Sha256::new();
    hash.update(SEED.to_be_bytes());
    hash.update(what);
    hash.update([0]);
    hash.update(place);
    let bytes: [u8; 8] = hash.finalize().as_slice().first_chunk().copied().unwrap_or_default();
    let number = usize::try_from(u64::from_be_bytes(bytes) >> 16).unwrap_or_default();
    number.checked_rem(count).unwrap_or_default()
}

/// One of `choices`.
pub fn one_of<'c, T>(choices: &'c [T], what: &str, place: &str) -> Option<&'c T> {
    choices.get(below(choices.len(), what, place))
}

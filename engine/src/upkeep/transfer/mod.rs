//! Threads as JSON Lines: what `rondo export` writes and `rondo import` reads. `engine/docs/export.md` documents the
//! format.
//!
//! Laws. A line names only what stands before it in the file, so that a reader checks each line as it comes. Every
//! object stands once. The bytes of a file depend on its threads alone, in canonical order: export, import and export
//! give the same bytes. What is not one's own, by the seal in its last line, is a claim: of it only what digests prove is
//! taken.

mod claim;
mod export;
mod import;
mod line;

pub use export::{Chosen, Exported, export};
pub use import::{Staged, import, stage};

/// The version of the format that this build writes, and the newest that it reads.
const FORMAT: u32 = 2;

/// The oldest that it reads. Format 1 had no seal.
const OLDEST_FORMAT: u32 = 1;

/// The longest line with its end. A line is held in memory as a whole.
const MAX_LINE_BYTES: usize = 64 << 20;

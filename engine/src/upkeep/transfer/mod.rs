//! Threads as JSON Lines: what `rondo export` writes and `rondo import` reads. `engine/docs/export.md` documents the
//! format.
//!
//! Laws. A line names only what stands before it in the file, so that a reader checks each line as it comes. Every
//! object stands once. The bytes of a file depend on its threads alone, in canonical order: export, import and export
//! give the same bytes.

mod export;
mod import;
mod line;

pub use export::{Chosen, Exported, export};
pub use import::{Staged, import, stage};

/// The version of the format that this build writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The longest line with its end. A line is held in memory as a whole.
const MAX_LINE_BYTES: usize = 64 << 20;

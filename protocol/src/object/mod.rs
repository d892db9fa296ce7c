//! The objects of version 1: the hashed ones, and the note, which is not hashed.
//!
//! Every field is always present; empty ones are written as `null`, `[]` or `{}`. Hashed objects contain no clock,
//! host, path, duration, price or provenance: the [`Note`] beside the step holds these, so that equal runs have equal
//! heads. The fields of a struct are declared in the byte order of their names, in which they are written. The workflow
//! and its policy are in [`crate::workflow`].

mod cost;
mod head;
mod note;
mod record;
mod request;
mod start;
mod step;
mod targets;
mod transcript;
mod visit;

pub use cost::{Dollars, KnownCost};
pub use head::{Head, Parameters, ToolSpec};
pub use note::{AnsweredBy, BoundedEdge, CancelledLane, Followed, HookAnswer, HookNote, Note, ToolNote, Usage};
pub use record::Record;
pub use request::{Request, digest_of};
pub use start::{LAYOUT, Start};
pub use step::{Compaction, EdgeTaken, FaultKind, Observation, Rebind, RecordKind, Step};
pub use transcript::{Entry, Finish, ModelReply, Transcript};
pub use visit::{LaneEnd, Outcome, Target, Visit};

//! The objects of version 1: what is hashed, and the note that is not.
//!
//! Every field is always present; what is empty is written as `null`, `[]` or `{}`. No clock, host, path, duration,
//! price or provenance stands in a hashed object: those stand in the [`Note`] beside the step, so that equal runs have
//! equal heads. The fields of a struct are declared in the order of their bytes, which is the order they are written
//! in. The workflow and its policy are in [`crate::workflow`].

mod head;
mod note;
mod record;
mod request;
mod start;
mod step;
mod targets;
mod transcript;
mod visit;

pub use head::{Head, Parameters, ToolSpec};
pub use note::{AnsweredBy, BoundedEdge, CancelledLane, Followed, HookAnswer, HookNote, Note, ToolNote, Usage};
pub use record::Record;
pub use request::{Request, digest_of};
pub use start::{LAYOUT, Start};
pub use step::{Compaction, CompactionKind, EdgeTaken, FaultKind, Observation, Rebind, RebindKind, Step, StepKind};
pub use transcript::{Entry, Finish, ModelReply, Transcript};
pub use visit::{LaneEnd, Outcome, Target, Visit};

//! One thread: all decisions, pure and synchronous.
//!
//! The [`Machine`] takes inputs and returns actions. A driver (`crate::local`) carries them out; scenarios,
//! simulations and checkpoints drive the same machine. It handles lanes: a fan-out opens them, and its join ends them.

mod budget;
mod checkpoint;
mod clock;
mod compact;
mod decide;
mod fan;
mod follow;
mod form;
mod lane;
mod lanes;
mod machine;
mod message;
mod origin;
mod rebind;
mod recall;
mod route;
mod scope;
mod task;

#[cfg(test)]
mod tests;

pub use budget::{Amount, Budget, CallEstimate, Reservation, Spent};
pub use checkpoint::{Checkpoint, Stored};
pub use clock::Clock;
pub use follow::Definitions;
pub use form::OpenForm;
pub use lane::{EdgeCount, Lane, LaneError, Last, OwnVisits, VisibleVisits};
pub use machine::{Machine, episode};
pub use message::{
    Action, Answered, Commit, CompactOffer, Definition, InFlight, Input, LaneState, NewEpoch, NewStep, Notice, Object,
    PastStep, ReachedBy, Visit, VisitEnd,
};
pub use origin::{Ending, ImportedPast, MAX_FORMS, Origin, Stop};
pub use recall::{PastLane, StepLookup};
pub use route::{Dispatch, MAX_RENDERED_BYTES, Undecided, routed};
pub use task::Task;

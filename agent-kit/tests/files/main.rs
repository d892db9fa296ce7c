//! The file tools as a role calls them, on real folders.
#![expect(clippy::unwrap_used, reason = "what sets a test up is part of it")]

mod ceilings;
mod edit;
mod list;
mod patch;
mod read;
mod redacted;
mod sandbox;
mod scene;
mod search;
mod seen;
mod write;

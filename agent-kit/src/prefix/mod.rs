//! What two requests share at their beginning, and why they share no more.
//!
//! A provider keeps what it has computed for the beginning of a request and reuses it for the next request that begins
//! with the same bytes. This module defines the prefix ([`Block`] by block), measures how much of it two requests share
//! ([`compare`]), explains what broke it in an author's words ([`Cause`]), and finds text that is likely to change from
//! one run to the next ([`volatile::find`]).
//!
//! Laws:
//! - `shared_bytes` is the length of the longest common prefix of the two requests, both written block after block.
//! - A request with only more messages at its end breaks nothing.
//!
//! This module uses no clock, no file, no store and no digest; it does not ask what a provider really kept.

pub mod volatile;

mod blocks;
mod cause;
mod compare;
mod estimate;
mod text;

pub use blocks::{Block, Request, bytes_of_head, bytes_of_message, is_same_head};
pub use cause::Cause;
pub use compare::{Break, Comparison, Shared, compare, compare_beyond, difference};
pub use estimate::{share, tokens};
pub use text::common_ends;

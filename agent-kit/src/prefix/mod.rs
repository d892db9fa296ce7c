//! What two requests share at their beginning, and why they share no more.
//!
//! A provider keeps what it has computed for the beginning of a request and serves it to the next one that begins with
//! the same bytes. Here is what counts as the beginning ([`Block`] by block), how much of it two requests share
//! ([`compare`]), what broke it in an author's words ([`Cause`]), and what in a text is likely to change from one run to
//! the next ([`volatile::find`]).
//!
//! Laws:
//! - `shared_bytes` is the length of the longest common prefix of the two requests, both written block after block.
//! - A request that only got more messages at its end broke nothing.
//!
//! This module knows no clock, no file, no store and no digest; it never asks what a provider really kept.

pub mod volatile;

mod blocks;
mod cause;
mod compare;
mod estimate;
mod text;

pub use blocks::{Block, Request, bytes_of_head, bytes_of_message, bytes_of_request, is_same_head};
pub use cause::Cause;
pub use compare::{Break, Comparison, Shared, compare, compare_beyond, difference};
pub use estimate::{ClosedForm, share, tokens};

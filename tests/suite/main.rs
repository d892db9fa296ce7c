//! The end-to-end suite.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod batches;
mod bench;
mod binary;
mod cargo_insta;
mod command;
mod compaction;
mod comparing;
mod compiler;
mod deletion;
mod digest;
mod docs;
mod durable_first;
mod embedding;
mod events;
mod files;
mod forks;
mod from_threads;
mod frozen;
mod grants;
mod hooks;
mod kept;
mod kill;
mod lanes;
mod large_replies;
mod laws;
mod layers;
mod mistakes;
mod people;
mod pictures;
mod prefix;
mod programs;
mod provider;
mod rate_limit;
mod reading;
mod recordings;
mod redact;
mod refusals;
#[cfg(feature = "caches")]
mod response_cache;
mod routing;
mod run_options;
mod scenarios;
mod serve;
mod servers;
mod showing;
mod shutdown;
mod simulate;
mod swallowed;
mod terminals;
mod threads;
mod three_terminals;
#[cfg(feature = "caches")]
mod tool_cache;
mod tool_files;
mod tools;
mod trust;
mod upkeep;

//! The end-to-end suite.

mod binary;
mod digest;
mod durable_first;
mod hooks;
mod kill;
mod laws;
mod provider;
mod routing;

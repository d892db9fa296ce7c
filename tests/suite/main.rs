//! The end-to-end suite.

mod hooks;
mod laws;
mod routing;

//! placeholder
pub mod store;

//! The binary against a model server that is played byte for byte: what is sent, what faults become, and that no key
//! stays anywhere.

pub mod client;
mod dialects;
mod faults;
mod in_flight;
mod progress;
mod recorded;
mod secret;
pub mod server;
mod stops;
mod trial;
mod usage;
mod wire;

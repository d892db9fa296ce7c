//! The binary against a model server that is played byte for byte: what is sent, what faults become, and that no key
//! stays anywhere.

pub mod client;
mod dialects;
mod faults;
mod in_flight;
mod named;
mod progress;
mod protocols;
mod recorded;
mod secret;
pub mod server;
mod several;
pub mod spoken;
mod stops;
mod trial;
mod usage;
mod wire;

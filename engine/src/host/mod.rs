//! The host: what a process that runs threads has once, and shares between them.

mod hub;
mod replay;

pub use hub::{Error as SubscribeError, Hub, Subscription, Topic};
pub(crate) use replay::{end, position};

//! Hooks of the program that embeds rondo: code in front of the calls of models and tools, and of whole turns.

pub use futures_util::future::BoxFuture;
pub use rondo_core::hook::{BuildContext, Context, Hook, HookKind, Next};
pub use rondo_protocol::call::{Call, CallKind, Fault, FaultClass, Reply};

//! Hooks: nodes of the graph that calls pass through on their way to a port.
//!
//! A hook may let a call through, answer in its place, rewrite it (if its kind is *altering*) or fail. It gets `next`
//! by value, so a port is reached at most once. What a hook keeps it keeps in its own key [`Space`], and everything it
//! keeps can be lost. Retries stand above the path: each attempt is a new call.
//!
//! This module knows nothing of moderators, schedulers or terminals, and names no kind: those are in `kinds/`, which
//! is named only where the engine is put together.

pub mod kinds;
pub mod path;
pub mod registry;
pub mod space;

#[cfg(test)]
pub(crate) mod contract;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_agent_kit::effects::Verdict;
use rondo_protocol::Value;
use rondo_protocol::call::{Call, Fault, Reply};

use crate::env::Env;
pub use path::{CallPath, Next, Node};
pub use registry::{HookKind, Registry, RoleView};
pub use space::Space;

/// A node that calls pass through.
pub trait Hook: Send + Sync {
    /// Handles a call: `next.run(call)` lets it through, anything else answers in its place.
    ///
    /// # Errors
    /// A fault of class `Hook` when the hook itself fails, which its `on_error` may bypass; every other fault comes
    /// from behind it and is passed on.
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>>;

    /// Tells what the loop made of the reply to a model call that passed this hook: whatever is kept of a reply is
    /// kept only when it was accepted.
    fn settle<'a>(
        &'a self,
        call: &'a Call,
        reply: &'a Reply,
        verdict: Verdict,
        context: &'a Context,
    ) -> BoxFuture<'a, ()> {
        let _ = (call, reply, verdict, context);
        Box::pin(std::future::ready(()))
    }
}

/// What a hook is given beside the call.
pub struct Context {
    /// The name of its node.
    pub node: String,
    /// Its private keys and values.
    pub space: Space,
    /// Time, ids and randomness.
    pub env: Arc<dyn Env>,
    /// Where its figures and lines go.
    pub reports: Arc<dyn Reports>,
}

/// Where hooks report.
pub trait Reports: Send + Sync {
    /// Figures of a node at a call, as an event.
    fn report(&self, node: &str, call: &Call, metrics: Value);

    /// A node answered in the place of a port: what it looked the answer up by, and what the port would have cost.
    fn answered(&self, node: &str, call: &Call, key: Option<String>, saved_usd: Option<f64>);
}

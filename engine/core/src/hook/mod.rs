//! Hooks: nodes of the graph that calls pass through on their way to a port.
//!
//! A hook may let a call through, answer in its place, rewrite it (if its kind is *altering*) or fail. It gets `next`
//! by value, so a port is reached at most once. A hook keeps what it keeps in the [`KeySpace`] of its kind, and all of that can
//! be lost. Retries stand above the path: each attempt is a new call.

pub mod call_path;
pub(crate) mod key_space;
pub mod redactors;
pub mod registry;
pub mod resources;
pub mod subcommand;
pub mod visit_metrics;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_agent_kit::effects::Verdict;
use rondo_protocol::call::{Call, Fault, Reply, Site};
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::{Digest, Value};

use crate::env::Env;
use crate::store;
pub use call_path::{CallPath, Next, Node, ShortCircuit};
pub use key_space::KeySpace;
pub use redactors::Redactors;
pub use registry::{BuildContext, Flag, HookKind, Registry};
pub use resources::{HookProgram, HookResources, ModelView, RoleView, ToolView};
pub use subcommand::{Action, Argument, Subcommand, SubcommandContext, SubcommandOutput};

/// A node that calls pass through.
pub trait Hook: Send + Sync {
    /// Handles a call: `next.run(call)` lets it through, `next.answer(reply, ..)` answers in its place.
    ///
    /// # Errors
    /// A fault of class `Hook` when the hook itself fails, which its `on_error` may bypass, or with the code `HookDenied`
    /// when the call must not be made; every other fault comes from behind it, or is the hook's answer, and is passed on.
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>>;

    /// Reports the fate of a call that passed this hook: whether the loop accepted a model's reply, whether a tool call
    /// failed, that the step of a turn is about to be committed. A hook keeps a reply only if it was accepted. `call` is
    /// the call before all hooks and `reply` the reply after all; `call.site()` identifies what the hook itself saw.
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

    /// Ends a visit whose calls may have passed this hook: returns its metrics of the visit, as an object, for the step's
    /// note and an event.
    fn visited<'a>(&'a self, site: &'a Site, context: &'a Context) -> BoxFuture<'a, Option<Value>> {
        let _ = (site, context);
        Box::pin(std::future::ready(None))
    }
}

/// What a hook is given beside the call.
pub struct Context {
    /// The name of its node.
    pub node: String,
    /// Its private keys and values.
    pub space: KeySpace,
    /// Time, ids and randomness.
    pub env: Arc<dyn Env>,
    /// Where its metrics go.
    pub reports: Arc<dyn Reports>,
    /// What was asked in the thread before this run of it.
    pub past: Arc<dyn Past>,
}

/// Where hooks report.
pub trait Reports: Send + Sync {
    /// Metrics of a node at a call, as an event.
    fn report(&self, node: &str, call: &Call, metrics: Value);

    /// Something that a person should know and that stops nothing.
    fn warn(&self, node: &str, call: &Call, warning: String) {
        self.report(node, call, Value::from_iter([(WARNING, Value::from(warning))]));
    }
}

/// The name of a report that is a sentence for people.
pub const WARNING: &str = "warning";

/// Nobody hears the reports.
pub struct NoReports;

impl Reports for NoReports {
    fn report(&self, _: &str, _: &Call, _: Value) {}
}

/// How often each request of each role was answered.
pub type Requests = BTreeMap<RoleName, BTreeMap<Digest, u32>>;

/// What was asked in a thread.
pub trait Past: Send + Sync {
    /// How often each request of each role was answered in a lane, as far as the steps know and, of `role`, whose step is
    /// in flight, the journal: what a process that resumes a thread cannot remember. Reading it takes as long as the thread is.
    ///
    /// # Errors
    /// When the store is damaged.
    fn requests(&self, lane: &LanePath, role: &RoleName) -> Result<Requests, store::Error>;
}

/// A thread that begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPast;

impl Past for NoPast {
    fn requests(&self, _: &LanePath, _: &RoleName) -> Result<Requests, store::Error> {
        Ok(BTreeMap::new())
    }
}

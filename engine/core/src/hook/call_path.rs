//! The path of a call: hooks in order, then the port.
//!
//! Law `one_effect`: an attempt reaches the port at most once, whatever the hooks do.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rondo_agent_kit::effects::Verdict;
use rondo_protocol::Digest;
use rondo_protocol::call::{Call, Fault, FaultClass, ModelCall, Reply, TurnCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::object::{AnsweredBy, Head, Usage};
use rondo_protocol::workflow::OnHookError;

use super::{Context, Hook};

/// A hook at its place in a path.
pub struct Node {
    /// What happens when it fails itself.
    pub on_error: OnHookError,
    /// The hook.
    pub hook: Arc<dyn Hook>,
    /// What it is given, with the name of its node.
    pub context: Context,
}

/// Where a path ends: a model provider, a tool or the agent loop. It makes one attempt, and borrows what it needs for
/// as long as the path runs.
pub type PortFn<'a> = Box<dyn FnOnce(Call) -> BoxFuture<'a, Result<Reply, Fault>> + Send + 'a>;

/// The nodes that calls of one kind by one role pass, outermost first.
#[derive(Clone, Default)]
pub struct CallPath {
    nodes: Arc<[Arc<Node>]>,
}

/// Takes out of a reply what must not enter a thread.
pub type RedactFn<'a> = dyn Fn(&mut Reply) + Send + Sync + 'a;

/// The result of an attempt.
pub struct Answered {
    /// The reply.
    pub reply: Reply,
    /// What gave it.
    pub answered_by: AnsweredBy,
    /// The call as it reached the port or the hook that answered, if there are hooks on the path.
    pub reached: Option<Call>,
    /// The details of a hook's answer.
    pub short_circuit: ShortCircuit,
    /// How many nodes the call reached, outermost first.
    pub passed: usize,
}

/// Details of an answer that a hook gave instead of the port.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShortCircuit {
    /// The key of the lookup, if any.
    pub key: Option<String>,
    /// The original cost in US dollars, if a price was known.
    pub saved_usd: Option<f64>,
    /// The tokens of the answer, if counted.
    pub saved: Option<Usage>,
    /// The attempts that a model's answer took, if known; 0 counts as one. A script's position counts attempts.
    pub attempts: u32,
}

impl CallPath {
    /// The path through `nodes`.
    pub fn new(nodes: Vec<Arc<Node>>) -> Self {
        Self { nodes: nodes.into() }
    }

    /// Whether calls go straight to the port.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sends a call along the path.
    ///
    /// # Errors
    /// The fault of the port, or of a hook that must not be bypassed.
    ///
    /// # Cancel safety
    /// Dropping the future drops the attempt.
    pub async fn run<'a>(&'a self, call: Call, port: PortFn<'a>) -> Result<Answered, Fault> {
        self.run_redacting(call, port, &|_| {}).await
    }

    /// Like [`run`](Self::run), and applies `redact` to a hook's answer before the nodes in front of it see it. The port
    /// redacts its own answers.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub(crate) async fn run_redacting<'a>(
        &'a self,
        mut call: Call,
        port: PortFn<'a>,
        redact: &'a RedactFn<'a>,
    ) -> Result<Answered, Fault> {
        if self.is_empty() {
            let (reply, answered_by) = (port(call).await?, AnsweredBy::Port);
            return Ok(Answered {
                reply,
                answered_by,
                reached: None,
                short_circuit: ShortCircuit::default(),
                passed: 0,
            });
        }
        let run = Run {
            head: head_of(&mut call).map(|(head, digest)| (Arc::clone(head), *digest)),
            nodes: &self.nodes,
            port: Mutex::new(Some(port)),
            reached: Mutex::new(None),
            port_result: Mutex::new(None),
            deepest: AtomicUsize::new(0),
            last_call: Mutex::new(None),
            short_circuit: Mutex::default(),
            redact,
            unbypassed: Mutex::default(),
        };
        let reply = run.step(0, call).await?;
        let reached = run.reached.lock().take();
        let short_circuit = run.short_circuit.lock().take().unwrap_or_default();
        let deepest = run.deepest.into_inner();
        let answered_by = match (&reached, self.nodes.get(deepest)) {
            (None, Some(node)) => AnsweredBy::Hook(node.context.node.clone()),
            _ => AnsweredBy::Port,
        };
        let reached = reached.or_else(|| run.last_call.lock().take());
        Ok(Answered { reply, answered_by, reached, short_circuit, passed: deepest + 1 })
    }

    /// Reports the fate of a call's reply to the nodes that the call passed.
    pub async fn settle(&self, passed: usize, call: &Call, reply: &Reply, verdict: Verdict) {
        for node in self.nodes.iter().take(passed) {
            let settling = AssertUnwindSafe(node.hook.settle(call, reply, verdict, &node.context));
            // A hook may lose what it keeps; its fault here must not affect the call.
            let _ = settling.catch_unwind().await;
        }
    }

    /// The nodes, outermost first.
    pub fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }
}

/// One attempt on its way.
struct Run<'a> {
    /// The request head as it was asked, with its digest.
    head: Option<(Arc<Head>, Digest)>,
    nodes: &'a [Arc<Node>],
    /// Taken by the first that reaches it.
    port: Mutex<Option<PortFn<'a>>>,
    reached: Mutex<Option<Call>>,
    /// The port's result, kept while a hook that may be bypassed is in front of it.
    port_result: Mutex<Option<Result<Reply, Fault>>>,
    deepest: AtomicUsize,
    /// The call as it reached the deepest node.
    last_call: Mutex<Option<Call>>,
    /// Details that the answering hook gave.
    short_circuit: Mutex<Option<ShortCircuit>>,
    redact: &'a RedactFn<'a>,
    /// The fault of a hook that must not be bypassed. To the hooks in front of it it is one from behind them.
    unbypassed: Mutex<Option<Fault>>,
}

/// The rest of the path behind a hook. It can be run once.
pub struct Next<'a> {
    rest: &'a (dyn Fn(Call) -> BoxFuture<'a, Result<Reply, Fault>> + Send + Sync + 'a),
    /// The details of the hook's answer.
    short_circuit: &'a Mutex<Option<ShortCircuit>>,
}

impl<'a> Next<'a> {
    /// Lets the call through.
    ///
    /// # Errors
    /// What the rest of the path says.
    pub fn run(self, call: Call) -> BoxFuture<'a, Result<Reply, Fault>> {
        (self.rest)(call)
    }

    /// Answers instead of the rest of the path.
    pub fn answer(self, reply: Reply, short_circuit: ShortCircuit) -> Reply {
        *self.short_circuit.lock() = Some(short_circuit);
        reply
    }
}

impl Run<'_> {
    /// Carries the call to the node at `index`, or to the port behind the last.
    fn step(&self, index: usize, mut call: Call) -> BoxFuture<'_, Result<Reply, Fault>> {
        Box::pin(async move {
            self.digest_head(&mut call);
            let Some(node) = self.nodes.get(index) else { return self.reach(call).await };
            self.deepest.fetch_max(index, Ordering::Relaxed);
            *self.last_call.lock() = Some(call.clone());
            let unchanged = (node.on_error == OnHookError::Bypass).then(|| call.clone());
            let rest = |call: Call| self.step(index + 1, call);
            let next = Next { rest: &rest, short_circuit: &self.short_circuit };
            let handled = AssertUnwindSafe(node.hook.handle(call, next, &node.context)).catch_unwind().await;
            let fault = match handled {
                Ok(Err(fault)) if self.is_own(&fault) => fault,
                Ok(Ok(mut reply)) => {
                    // The deepest node that was reached without the port has given this reply.
                    let has_answered = self.deepest.load(Ordering::Relaxed) == index && self.port.lock().is_some();
                    if has_answered {
                        (self.redact)(&mut reply);
                    }
                    return Ok(reply);
                }
                Ok(fault) => return fault,
                Err(_) => Fault::new(
                    Code::HookFailed,
                    FaultClass::Hook,
                    format!("the hook {} panicked, which is a fault of its kind", node.context.node),
                ),
            };
            let Some(call) = unchanged else {
                *self.unbypassed.lock() = Some(fault.clone());
                return Err(fault);
            };
            // The hook failed and may be bypassed. What the port has said by now is the answer; if it was not
            // reached, the rest of the path is taken as if the hook were not there.
            let said = self.port_result.lock().clone();
            match said {
                Some(result) => result,
                None if self.port.lock().is_none() => Err(fault),
                None => self.step(index + 1, call).await,
            }
        })
    }

    /// Updates the digest of a head that a hook changed: later hooks rely on it.
    fn digest_head(&self, call: &mut Call) {
        let (Some((asked, of_asked)), Some((head, digest))) = (&self.head, head_of(call)) else { return };
        if Arc::ptr_eq(asked, head) {
            *digest = *of_asked;
        } else if let Ok((own, _)) = Digest::of::<Head>(Kind::Head, head) {
            *digest = own;
        }
    }

    /// Whether a hook that gives this fault has failed itself. One that denies the call has not, and neither has one
    /// that passes on what a hook behind it could not be bypassed for.
    fn is_own(&self, fault: &Fault) -> bool {
        let is_passed_on = self.unbypassed.lock().as_ref() == Some(fault);
        fault.class == FaultClass::Hook && fault.code != Code::HookDenied && !is_passed_on
    }

    async fn reach(&self, call: Call) -> Result<Reply, Fault> {
        let Some(port) = self.port.lock().take() else {
            let message = "a hook let one call through twice; the port was reached once";
            return Err(Fault::new(Code::HookFailed, FaultClass::Hook, message));
        };
        *self.reached.lock() = Some(call.clone());
        let result = port(call).await;
        if self.nodes.iter().any(|node| node.on_error == OnHookError::Bypass) {
            *self.port_result.lock() = Some(result.clone());
        }
        result
    }
}

fn head_of(call: &mut Call) -> Option<(&Arc<Head>, &mut Digest)> {
    match call {
        Call::Turn(TurnCall { head, head_digest, .. }) | Call::Model(ModelCall { head, head_digest, .. }) => {
            Some((&*head, head_digest))
        }
        Call::Tool(_) => None,
    }
}

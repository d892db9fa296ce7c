//! The contract that every hook keeps, tried at turn, model and tool calls, with a kind that answers, one that
//! rewrites, one that fails, one that panics, and the built-in ones.

pub(crate) mod fixture;

use std::sync::atomic::{AtomicUsize, Ordering};

use rondo_protocol::call::{FaultClass, ModelCall, ToolCall, TurnCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::message::{Conversation, Message};
use rondo_protocol::object::AnsweredBy;
use rondo_protocol::workflow::OnHookError;

use super::*;
use fixture::{calls, node, reply, send, text_of};

/// What the hooks of the suite do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    Answers,
    Rewrites,
    FailsBefore,
    FailsAfter,
    Panics,
}

pub(crate) struct Behaving(pub(crate) Behaviour);

fn own_failure() -> Fault {
    Fault::new(Code::HookFailed, FaultClass::Hook, "the hook failed")
}

pub(crate) fn rewrite(call: Call) -> Call {
    let more = |conversation: &mut Arc<Conversation>| {
        Arc::make_mut(conversation).push(Message::user("Rewritten."));
    };
    match call {
        Call::Turn(mut call) => {
            more(&mut call.conversation);
            Call::Turn(call)
        }
        Call::Model(mut call) => {
            more(&mut call.conversation);
            Call::Model(call)
        }
        Call::Tool(call) => Call::Tool(ToolCall { arguments: "Rewritten.".to_owned(), ..call }),
    }
}

impl Hook for Behaving {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            match self.0 {
                Behaviour::Answers => Ok(reply(&call, "from the hook")),
                Behaviour::Rewrites => next.run(rewrite(call)).await,
                Behaviour::FailsBefore => Err(own_failure()),
                Behaviour::FailsAfter => next.run(call).await.and(Err(own_failure())),
                Behaviour::Panics => panic!("a hook's own fault"),
            }
        })
    }
}

fn behaving(behaviour: Behaviour, on_error: OnHookError) -> Arc<Node> {
    node(&format!("{behaviour:?}"), Arc::new(Behaving(behaviour)), on_error)
}

/// Law `one_effect`: an attempt reaches a port at most once, whatever hooks stand before it.
#[tokio::test]
async fn one_effect() {
    let all =
        [Behaviour::Answers, Behaviour::Rewrites, Behaviour::FailsBefore, Behaviour::FailsAfter, Behaviour::Panics];
    for outer in all {
        for inner in all {
            for on_error in [OnHookError::Bypass, OnHookError::Fail] {
                for call in calls() {
                    let nodes = vec![behaving(outer, on_error), behaving(inner, on_error)];
                    let outcome = send(nodes, call.clone(), None).await;
                    assert!(outcome.port_reached <= 1, "{outer:?} before {inner:?} at {:?}", call.kind());
                    if on_error == OnHookError::Bypass {
                        assert!(outcome.result.is_ok(), "{outer:?} before {inner:?} at {:?}", call.kind());
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_hook_that_does_not_call_next_has_answered_and_the_path_knows_which() {
    for call in calls() {
        let nodes = vec![
            behaving(Behaviour::Rewrites, OnHookError::Fail),
            behaving(Behaviour::Answers, OnHookError::Fail),
            behaving(Behaviour::FailsBefore, OnHookError::Fail),
        ];
        let outcome = send(nodes, call.clone(), None).await;
        let answered = outcome.result.unwrap();
        assert_eq!(answered.reply, reply(&call, "from the hook"));
        assert_eq!(answered.answered_by, AnsweredBy::Hook("Answers".to_owned()));
        assert_eq!(outcome.port_reached, 0);
    }
}

#[tokio::test]
async fn a_rewritten_call_reaches_the_port_rewritten() {
    for call in calls() {
        let outcome = send(vec![behaving(Behaviour::Rewrites, OnHookError::Fail)], call.clone(), None).await;
        assert_eq!(outcome.port_saw, ["Rewritten."]);
        let answered = outcome.result.unwrap();
        assert_eq!(answered.answered_by, AnsweredBy::Port);
        assert_eq!(text_of(&answered.reached.unwrap()), "Rewritten.");
    }
}

#[tokio::test]
async fn a_hook_that_fails_is_bypassed_or_fails_the_call_as_its_use_says() {
    for behaviour in [Behaviour::FailsBefore, Behaviour::FailsAfter, Behaviour::Panics] {
        for call in calls() {
            let bypassed = send(vec![behaving(behaviour, OnHookError::Bypass)], call.clone(), None).await;
            assert_eq!(bypassed.result.unwrap().reply, reply(&call, "from the port"), "{behaviour:?}");
            assert_eq!(bypassed.port_reached, 1);
            let failed = send(vec![behaving(behaviour, OnHookError::Fail)], call.clone(), None).await;
            assert_eq!(failed.result.err().unwrap().class, FaultClass::Hook, "{behaviour:?}");
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_port_is_passed_on_and_never_bypassed() {
    let fault = Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "busy");
    for call in calls() {
        for behaviour in [Behaviour::Rewrites, Behaviour::FailsAfter] {
            let outcome = send(vec![behaving(behaviour, OnHookError::Bypass)], call.clone(), Some(fault.clone())).await;
            assert_eq!(outcome.result.err(), Some(fault.clone()));
            assert_eq!(outcome.port_reached, 1);
        }
    }
}

/// Changes the system text and forgets to say so.
struct ChangesSystem;

impl Hook for ChangesSystem {
    fn handle<'a>(&'a self, mut call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        match &mut call {
            Call::Turn(TurnCall { head, .. }) | Call::Model(ModelCall { head, .. }) => {
                Arc::make_mut(head).system.push('!');
            }
            Call::Tool(_) => {}
        }
        next.run(call)
    }
}

/// What comes behind goes by the digest: a stale one would be taken for the request as it was asked.
#[tokio::test]
async fn a_head_that_a_hook_changed_gets_its_own_digest() {
    for call in calls().into_iter().take(2) {
        let path = CallPath::new(vec![node("changes", Arc::new(ChangesSystem), OnHookError::Fail)]);
        let answer = reply(&call, "from the port");
        let answered = path.run(call, Box::new(move |_| Box::pin(std::future::ready(Ok(answer))))).await.unwrap();
        let Some(Call::Turn(TurnCall { head, head_digest, .. }) | Call::Model(ModelCall { head, head_digest, .. })) =
            answered.reached
        else {
            panic!("the call did not reach the port");
        };
        assert_eq!(head.system, "You write.!");
        assert_eq!(head_digest, Digest::of(Kind::Head, &*head).unwrap().0);
    }
}

#[tokio::test]
async fn what_a_hook_says_of_its_answer_goes_with_it() {
    struct Saves;
    impl Hook for Saves {
        fn handle<'a>(&'a self, call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
            let short_circuit =
                ShortCircuit { key: Some("k".to_owned()), saved_usd: Some(0.5), ..ShortCircuit::default() };
            Box::pin(std::future::ready(Ok(next.answer(reply(&call, "kept"), short_circuit))))
        }
    }
    for call in calls() {
        let nodes = vec![
            behaving(Behaviour::Rewrites, OnHookError::Fail),
            node("saves", Arc::new(Saves), OnHookError::Fail),
            behaving(Behaviour::Answers, OnHookError::Fail),
        ];
        let answered = send(nodes, call, None).await.result.unwrap();
        assert_eq!(answered.answered_by, AnsweredBy::Hook("saves".to_owned()));
        assert_eq!((answered.short_circuit.key.as_deref(), answered.short_circuit.saved_usd), (Some("k"), Some(0.5)));
        assert_eq!(answered.passed, 2, "what stands behind the one that answered was not passed");
    }
}

/// A denial is a decision and not a failure, so that no `on_error` lets the call through.
#[tokio::test]
async fn a_hook_that_denies_is_not_bypassed() {
    let denied = Fault::new(Code::HookDenied, FaultClass::Hook, "no");
    for call in calls() {
        let nodes = vec![
            behaving(Behaviour::Rewrites, OnHookError::Bypass),
            node("denies", Arc::new(Failing::new(denied.clone())), OnHookError::Bypass),
        ];
        let outcome = send(nodes, call, None).await;
        assert_eq!((outcome.result.err(), outcome.port_reached), (Some(denied.clone()), 0));
    }
}

#[tokio::test]
async fn a_hook_that_must_not_be_bypassed_is_asked_once_whatever_stands_before_it() {
    for call in calls() {
        let failing = Arc::new(Failing::new(own_failure()));
        let nodes = vec![
            behaving(Behaviour::Rewrites, OnHookError::Bypass),
            behaving(Behaviour::Rewrites, OnHookError::Bypass),
            node("fails", Arc::clone(&failing) as _, OnHookError::Fail),
        ];
        let outcome = send(nodes, call, None).await;
        assert_eq!((outcome.result.err(), outcome.port_reached), (Some(own_failure()), 0));
        assert_eq!(failing.asked.load(Ordering::SeqCst), 1);
    }
}

/// Fails, and counts how often it was asked.
struct Failing {
    fault: Fault,
    asked: AtomicUsize,
}

impl Failing {
    fn new(fault: Fault) -> Self {
        Self { fault, asked: AtomicUsize::new(0) }
    }
}

impl Hook for Failing {
    fn handle<'a>(&'a self, _: Call, _: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Err(self.fault.clone())))
    }
}

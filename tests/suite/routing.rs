//! Routing: which edge is taken, and what the next role is given.

use std::borrow::Cow;
use std::sync::Arc;

use rondo_agent_kit::model::Model;
use rondo_core::{Ended, Engine, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, Outcome, What};
use rondo_protocol::id::ThreadId;
use rondo_store::MemoryStore;
use rondo_tests::{FnModel, checked, follow, new_thread, run_config, start};

fn engine() -> Engine {
    Engine::new(Arc::new(MemoryStore::default()), Arc::new(SystemEnv::default()), registry())
}

/// Runs `workflow` on an empty input with a model that is a function, and prints what happened: a line an event.
async fn told(workflow: &str, model: impl Fn(&ModelCall) -> Result<String, Fault> + Send + Sync + 'static) -> String {
    let (events, _) = run(workflow, model).await;
    print(&events)
}

async fn run(
    workflow: &str,
    model: impl Fn(&ModelCall) -> Result<String, Fault> + Send + Sync + 'static,
) -> (Vec<Event>, Ended) {
    let checked = checked(workflow);
    follow(start(&engine(), &checked, Value::empty_object(), Arc::new(FnModel(model))).await).await
}

fn print(events: &[Event]) -> String {
    let mut lines = Vec::new();
    for event in events {
        lines.push(match &event.what {
            What::StepStarted { visit } => format!("{} visit {}", visit.role, visit.visit),
            What::StepCommitted { role, seq, status, .. } => format!("  {seq} {role} {status}"),
            What::EdgeTaken { from, to, .. } => {
                let to: Vec<&str> = to.iter().map(|to| to.role.as_str()).collect();
                format!("{from} -> {}", to.join(", "))
            }
            What::Said { text, .. } => format!("  says {text}"),
            What::CallRetried { attempt, model, code, .. } => format!("  attempt {attempt} of {model} failed: {code}"),
            What::ThreadFinished { outcome, status, reason, result, .. } => {
                let status = status.as_ref().map_or("-", |status| status.as_str());
                format!("{} at {status}, reason {reason:?}, result {}", outcome.name(), result.to_text())
            }
            What::Error { code, message, .. } => format!("error {code}: {message}"),
            _ => continue,
        });
    }
    lines.join("\n")
}

/// An answer with that status and one text field.
#[expect(clippy::unnecessary_wraps, reason = "it is what a model's function gives")]
fn says(status: &str, field: &str) -> Result<String, Fault> {
    Ok(format!("---\nstatus: {status}\nnote: {field}\n---\n\nbody of {status}"))
}

/// The text of the last message.
fn prompt(call: &ModelCall) -> Cow<'_, str> {
    call.conversation.messages().last().unwrap().text()
}

const LOOP: &str = r#"
rondo: 1
name: two
roles:
  writer: { system: You write., context: none, output: { drafted: { note: string } } }
  editor: { system: You edit., context: none, output: { revise: { note: string }, approved: { note: string } } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { drafted: { to: editor, prompt: "Review {{ steps.writer.visits }}: {{ output.note }} / {{ body }}" } }
  editor:
    revise:
      to: writer
      prompt: "Again: {{ output.note }}"
      say: "Round {{ steps.editor.visits }}."
      max: 2
      on_max: { to: fail, reason: "after {{ steps.editor.visits }} rounds" }
    approved: { to: end }
"#;

#[tokio::test]
async fn a_loop_goes_round_until_its_bound_and_then_takes_its_other_edge() {
    insta::assert_snapshot!(
        told(LOOP, |call| match call.site.role.as_str() {
            "writer" => says("drafted", &prompt(call)),
            _ => says("revise", &prompt(call)),
        })
        .await
    );
}

#[tokio::test]
async fn a_result_without_a_template_is_the_last_step() {
    insta::assert_snapshot!(
        told(LOOP, |call| match call.site.role.as_str() {
            "writer" => says("drafted", "first"),
            _ => says("approved", "fine"),
        })
        .await
    );
}

#[tokio::test]
async fn conditions_are_tried_in_order_and_else_is_taken_last() {
    let workflow = r#"
rondo: 1
name: conditions
roles:
  a: { system: x, output: { done: { n: integer } } }
  b: { system: y }
  c: { system: z }
graph:
  start: { to: a, prompt: go }
  a:
    done:
      - { when: output.n > 10, to: b, prompt: big }
      - { when: output.n > 5, to: c, prompt: middle }
      - else: { to: end, result: { n: "{{ output.n }}", text: "n = {{ output.n }}" } }
  b: { done: { to: end } }
  c: { done: { to: fail, reason: "middle of {{ steps.a.output.n }}" } }
"#;
    for n in [11, 6, 1] {
        let model = move |call: &ModelCall| match call.site.role.as_str() {
            "a" => Ok(format!("---\nn: {n}\n---\n")),
            _ => Ok("---\nstatus: done\n---\n".to_owned()),
        };
        insta::assert_snapshot!(format!("conditions {n}"), told(workflow, model).await);
    }
}

#[tokio::test]
async fn back_leads_to_whoever_entered_and_per_counts_anew() {
    let workflow = r#"
rondo: 1
name: back
roles:
  a: { system: x, context: none, output: { ask: {}, next: {} } }
  b: { system: y, context: none, output: { ask: {}, next: {} } }
  expert: { system: z, context: none, output: { done: {} } }
graph:
  start: { to: a, prompt: go }
  a:
    ask: { to: expert, prompt: from a, max: 1, per: b, on_max: { to: b, prompt: enough } }
    next: { to: b, prompt: next }
  b:
    ask: { to: expert, prompt: from b, max: 1, on_max: { to: end } }
    next: { to: end }
  expert:
    done: { to: back, prompt: "answer to {{ steps.expert.prompt }}", max: 5, on_max: { to: fail } }
"#;
    insta::assert_snapshot!(
        told(workflow, |call| Ok(match call.site.role.as_str() {
            "expert" => "---\nstatus: done\n---\n".to_owned(),
            _ => "---\nstatus: ask\n---\n".to_owned(),
        }))
        .await
    );
}

fn busy() -> Fault {
    Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "the provider is busy")
}

const FAULTS: &str = r#"
rondo: 1
name: faults
models: { default: { model: big }, small: { model: little } }
roles:
  a:
    system: x
    retry: { attempts: 2, backoff: 1ms }
    fallback: [small]
  b: { system: y, retry: { attempts: 1 } }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: b, prompt: next } }
  b:
    done: { to: end }
    on_error: { to: fail, reason: "{{ output.code }}: {{ output.message }}" }
"#;

#[tokio::test]
async fn attempts_are_repeated_then_another_model_is_asked_then_the_graph_routes_the_fault() {
    let model = |call: &ModelCall| match (call.site.role.as_str(), call.model.as_str()) {
        ("a", "small") => Ok("---\nstatus: done\n---\n".to_owned()),
        _ => Err(busy()),
    };
    insta::assert_snapshot!(told(FAULTS, model).await);
}

/// A provider that wants a longer pause than the call may take leaves it to the next model.
#[tokio::test]
async fn a_pause_that_is_too_long_goes_to_the_fallback() {
    let model = |call: &ModelCall| match (call.site.role.as_str(), call.model.as_str()) {
        ("a", "small") | ("b", _) => Ok("---\nstatus: done\n---\n".to_owned()),
        _ => Err(Fault { retry_after_ms: Some(30_000), ..busy() }),
    };
    let workflow = FAULTS.replace("    fallback: [small]", "    fallback: [small]\n    timeout: 10s");
    insta::assert_snapshot!(told(&workflow, model).await, @r#"
    start -> a
    a visit 1
      attempt 0 of default failed: RN1004
      1 a done
    a -> b
    b visit 1
      2 b done
    b -> 
    done at done, reason None, result {"body":"","output":{},"status":"done"}
    "#);
}

#[tokio::test]
async fn an_unrouted_fault_stops_the_thread_and_it_can_be_resumed() {
    let engine = engine();
    let checked = checked(LOOP);
    let failing = Arc::new(FnModel(|_: &ModelCall| Err(Fault::new(Code::KeyRefused, FaultClass::Refused, "no key"))));
    let handle = start(&engine, &checked, Value::empty_object(), failing).await;
    let thread = handle.thread.clone();
    let (_, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Stopped(fault) if fault.code == Code::KeyRefused));

    let good: Arc<dyn rondo_agent_kit::model::Model> =
        Arc::new(FnModel(|call: &ModelCall| match call.site.role.as_str() {
            "writer" => says("drafted", "first"),
            _ => says("approved", "fine"),
        }));
    let run_config = |workflow: &_, _: &_| Ok::<_, rondo_core::Error>(rondo_tests::run_config(workflow, &good));
    let rondo_core::Resumed::Running(handle) = engine.resume(&thread, run_config).await.unwrap() else {
        panic!("it has not ended")
    };
    let (_, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(ending) if ending.outcome == Outcome::Done));
}

#[tokio::test]
async fn limits_stop_a_thread_or_are_routed() {
    let stopping = LOOP.replace("graph:", "limits: { steps: 3 }\ngraph:");
    let model = |call: &ModelCall| match call.site.role.as_str() {
        "writer" => says("drafted", "x"),
        _ => says("revise", "y"),
    };
    insta::assert_snapshot!(told(&stopping, model).await);
    let routed = LOOP.replace("graph:", "limits: { visits: 1 }\ngraph:").replace(
        "  writer: { drafted:",
        "  writer: { on_limit: { to: end, result: { said: \"{{ output.code }}\" } }, drafted:",
    );
    insta::assert_snapshot!(told(&routed, model).await);
}

#[tokio::test]
async fn a_thread_that_is_cancelled_has_ended_for_good() {
    let engine = engine();
    let checked = checked(LOOP);
    let failing = Arc::new(FnModel(|_: &ModelCall| Err(busy())));
    let stopping = checked.clone();
    let handle = start(&engine, &stopping, Value::empty_object(), failing).await;
    let thread = handle.thread.clone();
    handle.stopper.stop();
    let (_, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Stopped(fault) if fault.class == FaultClass::Cancelled));
    engine.cancel(&thread).await.unwrap();
    assert!(matches!(engine.cancel(&thread).await, Err(rondo_core::Error::HasEnded { .. })));
    let run_config = |_: &_, _: &_| -> Result<_, rondo_core::Error> { panic!("not asked for") };
    let resumed = engine.resume(&thread, run_config).await.unwrap();
    assert!(matches!(resumed, rondo_core::Resumed::Ended { ending } if ending.outcome == Outcome::Cancelled));
}

/// Roles that answer without a call decide their first step before anything is stored.
#[tokio::test]
async fn a_thread_that_was_stored_and_did_not_begin_resumes_whatever_it_starts_with() {
    for first in ["{ kind: rule, output: { go: null } }", "{ kind: selector, by: round_robin }"] {
        let workflow = format!(
            "rondo: 1\nname: first\nroles: {{ first: {first}, writer: {{ system: Write. }} }}\ngraph:\n  start: {{ to: first }}\n  \
             first: {{ go: {{ to: writer, prompt: x }} }}\n  writer: {{ done: {{ to: end }} }}\n"
        );
        let (engine, checked, thread) = (engine(), checked(&workflow), ThreadId::from_parts(0, 1));
        let model: Arc<dyn Model> = Arc::new(FnModel(|_: &ModelCall| Ok("---\nstatus: done\n---\n".to_owned())));
        let run_config = || run_config(&checked.workflow, &model);
        let commit = engine.compose(new_thread(&checked, Value::empty_object()), &run_config(), &thread).unwrap();
        engine.store().commit(commit).await.unwrap();
        let resumed = engine.resume(&thread, |_, _| Ok::<_, rondo_core::Error>(run_config())).await.unwrap();
        let rondo_core::Resumed::Running(handle) = resumed else { panic!("it has ended") };
        let (_, ended) = follow(handle).await;
        let is_done = matches!(&ended, Ended::Finished(ending) if ending.outcome == Outcome::Done);
        assert!(is_done, "{first}: {ended:?}");
    }
}

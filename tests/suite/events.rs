//! Events: durable ones are numbered and had again from the store, and no reader makes a run wait.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rondo_core::local::{self, SubscribeError, Subscription};
use rondo_core::{Cancelled, Ended, Engine, Error, Stopper, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, EventId, Outcome, What};
use rondo_store::{MemoryStore, Read as _, Status};
use rondo_tests::{FnModel, checked, follow, start};

const WORKFLOW: &str = r#"
rondo: 1
name: told
roles:
  a: { system: x }
  b: { system: y }
graph:
  start: { to: a, prompt: go, say: "off it goes" }
  a: { done: { to: b, prompt: "{{ body }}", say: "a is done" } }
  b: { done: { to: end, result: { text: "{{ body }}" } } }
"#;

/// Comes back until it has been there often.
const LONG: &str = r#"
rondo: 1
name: long
limits: { steps: 3000 }
roles:
  a: { system: x }
graph:
  start: { to: a, prompt: go }
  a:
    done:
      to: a
      prompt: again
      say: "once more"
      max: 1500
      on_max: { to: end }
"#;

const DONE: &str = "---\nstatus: done\n---\nwell\n";

fn over(store: &Arc<MemoryStore>) -> Engine {
    Engine::new(Arc::clone(store) as _, Arc::new(SystemEnv::default()), registry())
}

fn says_done() -> Arc<FnModel<impl Fn(&ModelCall) -> Result<String, Fault>>> {
    Arc::new(FnModel(|_: &ModelCall| Ok(DONE.to_owned())))
}

async fn all(mut events: Subscription) -> Vec<Event> {
    let mut read = Vec::new();
    while let Some(event) = events.recv().await {
        read.push(event);
    }
    read
}

fn durable(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| event.id.is_some()).cloned().collect()
}

fn ids(events: &[Event]) -> Vec<String> {
    events.iter().filter_map(|event| event.id).map(|id| id.to_string()).collect()
}

#[tokio::test]
async fn durable_events_are_had_again_from_the_store_after_any_of_them() {
    let store = Arc::new(MemoryStore::default());
    let engine = over(&store);
    let handle = start(&engine, &checked(WORKFLOW), Value::empty_object(), says_done()).await;
    let thread = handle.thread.clone();
    let (events, _) = follow(handle).await;
    let told = durable(&events);
    assert_eq!(ids(&told), ["0.1", "0.2", "0.3", "1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]);
    assert!(events.iter().all(|event| event.id.is_some() == event.what.is_durable()));
    // Another process has nothing but the store.
    for engine in [engine, over(&store)] {
        assert_eq!(all(engine.subscribe(&thread, EventId::NONE).unwrap()).await, told);
        for (at, event) in told.iter().enumerate() {
            let rest = all(engine.subscribe(&thread, event.id.unwrap()).unwrap()).await;
            assert_eq!(rest, told[at + 1..]);
        }
    }
}

/// What a reader has already does not fill the next page.
#[tokio::test]
async fn a_reader_of_a_step_that_tells_more_than_a_page_holds_goes_on() {
    let workflow = r#"
rondo: 1
name: forms
roles:
  a: { system: x }
  h: { kind: human, output: { ok: null } }
  b: { system: y }
  c: { system: z }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: [h, h, h, h, h, b], prompt: "{{ body }}", join: c } }
  h: { ok: { to: c } }
  b: { done: { to: c } }
  c: { done: { to: end } }
"#;
    let engine = over(&Arc::new(MemoryStore::default()));
    let model = |call: &ModelCall| match call.site.role.as_str() {
        "a" => Ok(format!("---\nstatus: done\n---\n{}", "x".repeat(1_000_000))),
        _ => Ok(DONE.to_owned()),
    };
    let handle = start(&engine, &checked(workflow), Value::empty_object(), Arc::new(FnModel(model))).await;
    let thread = handle.thread.clone();
    let followed = tokio::time::timeout(Duration::from_mins(1), follow(handle)).await;
    let (_, ended) = followed.expect("the run's own reader goes on");
    assert!(matches!(ended, Ended::Waiting(forms) if forms.len() == 5));
    let told = all(engine.subscribe(&thread, EventId::NONE).unwrap()).await;
    assert!(told.iter().any(|event| matches!(&event.what, What::StepCommitted { role, .. } if role.as_str() == "b")));
    for (position, event) in told.iter().enumerate() {
        let rest = all(engine.subscribe(&thread, event.id.unwrap()).unwrap());
        let rest = tokio::time::timeout(Duration::from_mins(1), rest).await.expect("it goes on");
        assert_eq!(rest, told[position + 1..]);
    }
}

/// The last step is one of a lane, and not the thread's head.
#[tokio::test]
async fn the_end_of_a_thread_that_failed_in_a_lane_is_had_again_as_it_was_told() {
    let workflow = r#"
rondo: 1
name: lanes
roles:
  a: { system: x }
  b: { system: y, output: { good: null, bad: null } }
  c: { system: z }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: [b, b], prompt: go, join: c } }
  b: { good: { to: c }, bad: { to: fail, reason: "it is bad" } }
  c: { done: { to: end } }
"#;
    let engine = over(&Arc::new(MemoryStore::default()));
    let model = |call: &ModelCall| match call.site.role.as_str() {
        "b" => Ok("---\nstatus: bad\n---\n".to_owned()),
        _ => Ok(DONE.to_owned()),
    };
    let handle = start(&engine, &checked(workflow), Value::empty_object(), Arc::new(FnModel(model))).await;
    let thread = handle.thread.clone();
    let (events, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(ending) if ending.outcome == Outcome::Failed));
    assert_eq!(all(engine.subscribe(&thread, EventId::NONE).unwrap()).await, durable(&events));
    let stored = local::finished(engine.store().as_ref(), engine.store().durability(), &thread).unwrap();
    assert_eq!(stored.as_ref(), events.last());
    assert!(
        matches!(&stored.unwrap().what, What::ThreadFinished { status: Some(status), .. } if status.as_str() == "done")
    );
}

#[tokio::test]
async fn a_thread_that_goes_on_tells_what_is_new_under_the_next_numbers() {
    let store = Arc::new(MemoryStore::default());
    let engine = over(&store);
    let refuses = FnModel(|call: &ModelCall| match call.site.role.as_str() {
        "a" => Ok(DONE.to_owned()),
        _ => Err(Fault::new(Code::NoProvider, FaultClass::Refused, "no")),
    });
    let checked = checked(WORKFLOW);
    let handle = start(&engine, &checked, Value::empty_object(), Arc::new(refuses)).await;
    let thread = handle.thread.clone();
    let (stopped, _) = follow(handle).await;
    let model: Arc<dyn rondo_agent_kit::model::Model> = says_done();
    let run_config = |_: &_, _: &_| Ok::<_, Error>(rondo_tests::run_config(&checked.workflow, &model));
    let Ok(rondo_core::Resumed::Running(handle)) = engine.resume(&thread, run_config).await else {
        panic!("it has stopped")
    };
    let (resumed, _) = follow(handle).await;
    assert_eq!(ids(&resumed), ["2.1", "2.2", "2.3"]);
    let mut told = durable(&stopped);
    told.extend(durable(&resumed));
    assert_eq!(all(engine.subscribe(&thread, EventId::NONE).unwrap()).await, told);
}

#[tokio::test]
async fn what_does_not_exist_cannot_be_read() {
    let engine = over(&Arc::default());
    let handle = start(&engine, &checked(WORKFLOW), Value::empty_object(), says_done()).await;
    let thread = handle.thread.clone();
    follow(handle).await;
    let asked = EventId { seq: 2, k: 4 };
    let Err(SubscribeError::NoEvent { asked: found, last, .. }) = engine.subscribe(&thread, asked) else {
        panic!("there is no such event")
    };
    assert_eq!((found, last.to_string().as_str()), (asked, "2.3"));
    let other = rondo_protocol::id::ThreadId::from_parts(1, 1);
    assert!(matches!(engine.subscribe(&other, EventId::NONE), Err(SubscribeError::NoThread { .. })));
}

#[tokio::test]
async fn a_reader_that_does_not_read_costs_a_run_nothing_and_misses_nothing_durable() {
    let store = Arc::new(MemoryStore::default());
    let engine = over(&store);
    let handle = start(&engine, &checked(LONG), Value::empty_object(), says_done()).await;
    let thread = handle.thread.clone();
    let late = engine.subscribe(&thread, EventId::NONE).unwrap();
    let later = engine.subscribe(&thread, EventId { seq: 0, k: 1 }).unwrap();
    assert!(matches!(handle.ended().await, Ended::Finished(_)), "nobody has read");
    let read = all(late).await;
    // Three follow from each step; there are more steps than a reader's queue holds.
    assert_eq!(durable(&read).len(), 2 + 3 * 1501);
    let mut numbers: Vec<EventId> = read.iter().filter_map(|event| event.id).collect();
    assert!(numbers.is_sorted());
    numbers.dedup();
    assert_eq!(numbers.len(), durable(&read).len());
    assert!(read.len() < 2 * numbers.len(), "what is provisional was let go");
    assert_eq!(durable(&all(later).await), durable(&read)[1..]);
}

#[tokio::test]
async fn a_stop_that_comes_with_the_end_does_not_change_it() {
    for cancels in [false, true] {
        let store = Arc::new(MemoryStore::default());
        let engine = over(&store);
        let stopper: Arc<OnceLock<Stopper>> = Arc::default();
        let told = Arc::clone(&stopper);
        let model = FnModel(move |call: &ModelCall| {
            if call.site.role.as_str() == "b" {
                let stopper = told.get().unwrap();
                if cancels { stopper.cancel() } else { stopper.stop() }
            }
            Ok(DONE.to_owned())
        });
        let handle = start(&engine, &checked(WORKFLOW), Value::empty_object(), Arc::new(model)).await;
        stopper.set(handle.stopper.clone()).unwrap_or_else(|_| panic!("set once"));
        let thread = handle.thread.clone();
        let (events, ended) = follow(handle).await;
        assert!(matches!(&ended, Ended::Finished(ending) if ending.outcome == Outcome::Done), "{ended:?}");
        assert!(matches!(events.last().unwrap().what, What::ThreadFinished { outcome: Outcome::Done, .. }));
        assert_eq!(store.row(&thread).unwrap().unwrap().status, Status::Done);
        assert!(matches!(engine.cancel(&thread).await, Err(Error::HasEnded { .. }) | Ok(Cancelled::Stopping)));
        assert_eq!(store.row(&thread).unwrap().unwrap().status, Status::Done);
    }
}

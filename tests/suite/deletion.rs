//! `rondo rm` and `rondo prune`: what they take and what they leave, and that a kill leaves a thread or none of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_store::Read as _;
use serde_json::Value;

use crate::binary::{Finished, Place};

const WORKFLOW: &str = r#"
rondo: 1
name: pair
input: { topic: string }
roles:
  first: { system: You speak. }
  second: { system: You answer. }
graph:
  start: { to: first, prompt: "{{ input.topic }}" }
  first: { done: { to: second, prompt: "{{ body }}" } }
  second: { done: { to: end } }
result: { text: "{{ steps.second.body }}" }
"#;

const PARENT: &str = r#"
rondo: 1
name: above
input: { topic: string }
roles:
  outer: { kind: workflow, workflow: pair.yaml, input: { topic: "{{ input.topic }}" } }
graph:
  start: { to: outer }
  outer: { done: { to: end }, failed: { to: fail } }
result: { text: "{{ steps.outer.body }}" }
"#;

const QUICK: &str = "first: [ { status: done, body: one } ]\nsecond: [ { status: done, body: two } ]\n";
const SLOW: &str =
    "first: [ { status: done, body: one } ]\nsecond: [ { delay_ms: 600000, status: done, body: two } ]\n";

fn place() -> Place {
    let place = Place::new();
    place.file("pair/workflow.yaml", WORKFLOW);
    place.file("pair/script.yaml", QUICK);
    place.file("slow.yaml", SLOW);
    place
}

fn run(place: &Place, words: &[&str]) -> String {
    let run = place.run([&["run", "pair", "--offline", "-i", "topic=tides", "--json"], words].concat()).exits(0);
    run.event("thread_started")["thread"].as_str().unwrap().to_owned()
}

fn fork(place: &Place, thread: &str) -> String {
    let fork = place.run(["fork", thread, "--at", "1", "--offline", "--json"]).exits(0);
    fork.event("thread_resumed")["thread"].as_str().unwrap().to_owned()
}

fn threads(place: &Place) -> Vec<String> {
    let lines = place.run(["threads", "--json"]).exits(0).json();
    lines.iter().map(|line| line["thread"].as_str().unwrap().to_owned()).collect()
}

/// The readers that look at everything find nothing wrong.
#[track_caller]
fn is_whole(place: &Place) {
    for thread in threads(place) {
        place.run(["verify", &thread]).exits(0);
    }
    place.run(["doctor", "--json"]).exits(0);
}

fn code(finished: &Finished) -> Value {
    finished.event("error")["code"].clone()
}

#[test]
fn a_deleted_thread_is_gone_and_the_others_stay() {
    let place = place();
    let [one, two, three] = [(); 3].map(|()| run(&place, &[]));
    let unconfirmed = place.run(["rm", &two]).exits(2);
    assert!(unconfirmed.stderr.contains("RN1421") && unconfirmed.stderr.contains("--yes"), "{}", unconfirmed.stderr);
    let dry = place.run(["rm", &two, "last", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(dry.iter().map(|line| &line["thread"]).collect::<Vec<_>>(), [two.as_str(), &three]);
    assert_eq!((&dry[0]["deleted"], &dry[0]["steps"]), (&Value::from(false), &Value::from(2)));
    assert!(dry[0]["size_bytes"].as_u64().unwrap() > 100);
    assert_eq!(threads(&place), [one.clone(), two.clone(), three.clone()]);

    let deleted = place.run(["rm", &two, "last", "--yes", "--json"]).exits(0).json();
    assert!(deleted.iter().all(|line| line["event"] == "deletion" && line["deleted"] == true), "{deleted:?}");
    assert_eq!(threads(&place), [one]);
    place.run(["show", &two]).exits(2);
    is_whole(&place);
    run(&place, &[]);
    assert_eq!(threads(&place).len(), 2);
}

#[test]
fn a_thread_that_a_fork_needs_stays_unless_the_fork_goes_too() {
    let place = place();
    let base = run(&place, &[]);
    let fork = fork(&place, &base);
    let refused = place.run(["rm", &base, "--yes", "--json"]).exits(2);
    assert_eq!(code(&refused), "RN1420");
    assert!(refused.event("error")["message"].as_str().unwrap().contains(&fork));
    // Nobody wants the base any more, but the fork is too young for the first rule and too new for the second.
    let pruned = place.run(["prune", "--keep", "1", "--yes"]).exits(0);
    assert!(pruned.stderr.contains("1 thread not deleted"), "{}", pruned.stderr);
    assert_eq!(threads(&place), [base.clone(), fork.clone()]);
    is_whole(&place);
    place.run(["rm", &fork, "--yes"]).exits(0);
    is_whole(&place);
    place.run(["rm", &base, "--yes"]).exits(0);

    let base = run(&place, &[]);
    self::fork(&place, &base);
    place.run(["rm", &base, "--with-forks", "--yes"]).exits(0);
    assert_eq!(threads(&place), Vec::<String>::new());
}

#[test]
fn a_child_goes_with_its_parent_and_not_alone() {
    let place = place();
    place.file("above/workflow.yaml", PARENT);
    place.file("above/pair.yaml", WORKFLOW);
    let script = "outer/first: [ { status: done, body: one } ]\nouter/second: [ { status: done, body: two } ]\n";
    place.file("above/script.yaml", script);
    let ran = place.run(["run", "above", "--offline", "-i", "topic=tides", "--json"]).exits(0);
    let parent = ran.events("thread_started")[0]["thread"].as_str().unwrap().to_owned();
    let child = threads(&place).into_iter().find(|thread| *thread != parent).unwrap();
    let refused = place.run(["rm", &child, "--yes", "--json"]).exits(2);
    assert_eq!(code(&refused), "RN1420");
    place.run(["rm", &parent, "--yes"]).exits(0);
    assert_eq!(threads(&place), Vec::<String>::new());
}

#[test]
fn a_running_thread_is_refused_and_another_is_deleted_through_the_process_that_holds_the_store() {
    let place = place();
    let ended = run(&place, &[]);
    let mut holder =
        place.start(["run", "pair", "--script", "slow.yaml", "-i", "topic=ebb", "--json", "--name", "slow one"]);
    let running = holder.event("thread_started")["thread"].as_str().unwrap().to_owned();
    while holder.event("step_started")["role"] != "second" {}
    let refused = place.run(["rm", "slow one", "--yes", "--json"]).exits(7);
    assert!(refused.event("error")["message"].as_str().unwrap().contains("is running"), "{refused:?}");
    let both = place.run(["rm", &ended, &running, "--yes", "--json"]).exits(7);
    assert_eq!(code(&both), "RN1304");
    assert_eq!(threads(&place).len(), 2);
    place.run(["rm", &ended, "--yes"]).exits(0);
    assert_eq!(threads(&place), std::slice::from_ref(&running));
    place.run(["prune", "--status", "running", "--yes"]).exits(0);
    assert_eq!(threads(&place), std::slice::from_ref(&running));
    holder.kill();
    // Stopped now; only who names it, or its status, deletes it.
    place.run(["prune", "--older-than", "0s", "--yes"]).exits(0);
    assert_eq!(threads(&place), [running]);
    place.run(["prune", "--status", "stopped", "--yes"]).exits(0);
    assert_eq!(threads(&place), Vec::<String>::new());
    is_whole(&place);
}

#[test]
fn prune_takes_the_old_ones_and_keeps_the_newest() {
    let place = place();
    let all: Vec<String> =
        (0..4).map(|number| run(&place, if number < 2 { &["--tag", "draft"] } else { &[] })).collect();
    place.run(["prune"]).exits(2);
    assert_eq!(place.run(["prune", "--older-than", "30d", "--json"]).exits(0).lines, Vec::<String>::new());
    assert_eq!(place.run(["prune", "--workflow", "other", "--yes", "--json"]).exits(0).lines, Vec::<String>::new());
    let dry = place.run(["prune", "--older-than", "0s", "--keep", "1", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(dry.iter().map(|line| line["thread"].as_str().unwrap()).collect::<Vec<_>>(), all[..3]);
    place.run(["prune", "--tag", "draft", "--keep", "1", "--yes"]).exits(0);
    assert_eq!(threads(&place), all[1..]);
    place.run(["prune", "--older-than", "0s", "--keep", "1", "--yes"]).exits(0);
    assert_eq!(threads(&place), all[3..]);
    is_whole(&place);
}

#[test]
fn a_line_of_a_batch_whose_thread_was_deleted_does_not_run_again() {
    let place = place();
    place.file("in.jsonl", "{\"topic\": \"a\"}\n{\"topic\": \"b\"}\n");
    place.run(["run", "pair", "--offline", "--input-file", "in.jsonl", "--tag", "bulk"]).exits(0);
    let lines = place.run(["threads", "--tag", "bulk", "--json"]).exits(0).json();
    assert_eq!(lines.len(), 2);
    let deleted = lines[0]["thread"].as_str().unwrap();
    place.run(["rm", deleted, "--yes"]).exits(0);
    let again = place.run(["resume", "--batch", "last", "--offline"]).exits(2).json();
    assert_eq!(again[0]["thread"], Value::Null);
    assert!(again[0]["error"]["message"].as_str().unwrap().contains("was deleted"), "{}", again[0]);
    assert_eq!(again[1]["outcome"], "done");
    assert_eq!(threads(&place).len(), 1);
}

#[test]
fn a_kill_during_a_deletion_leaves_threads_whole_or_gone() {
    let place = place();
    let input = (0..24).fold(String::new(), |input, topic| input + &format!("{{\"topic\": \"{topic}\"}}\n"));
    place.file("in.jsonl", &input);
    place.run(["run", "pair", "--offline", "--input-file", "in.jsonl", "--concurrency", "16"]).exits(0);
    let mut kills_in_time = 0;
    for after_ms in [0, 5, 10, 20, 40] {
        let before = threads(&place);
        let Some(some) = before.get(..4) else { break };
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        let mut removing = place.start([&["rm", "--yes", "--json"], &some[..]].concat());
        removing.line_until(Instant::now() + Duration::from_millis(after_ms));
        removing.kill();
        let left = threads(&place);
        assert!(left == before || left == before[4..], "{left:?}");
        kills_in_time += usize::from(left == before);
        is_whole(&place);
    }
    assert!(kills_in_time > 0, "every kill came too late");
}

/// Answers when it is told to, and goes when it is told to.
struct Lingering(std::sync::mpsc::Receiver<()>);

impl Lingering {
    fn wait(&self) {
        self.0.recv_timeout(Duration::from_mins(1)).unwrap();
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.wait();
    }
}

/// A run writes its end before it lets go of its thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_has_ended_is_deleted_though_its_run_still_holds_it() {
    let store = Arc::new(rondo_store::MemoryStore::default());
    let env = Arc::new(rondo_core::SystemEnv::default());
    let engine = rondo_core::Engine::new(Arc::clone(&store) as _, env, rondo_hooks::registry());
    let checked = rondo_tests::checked(
        "rondo: 1\nname: one\nroles: { a: {} }\ngraph:\n  start: { to: a, prompt: Go. }\n  a: { done: { to: end } }\n",
    );
    let (go, told) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(Lingering(told));
    let model = rondo_tests::FnModel(move |_: &rondo_protocol::call::ModelCall| {
        held.lock().unwrap().wait();
        Ok("---\nstatus: done\n---\n\nyes".to_owned())
    });
    let input = rondo_protocol::Value::empty_object();
    let handle = rondo_tests::start(&engine, &checked, input, Arc::new(model)).await;
    // By now nobody else has the model.
    go.send(()).unwrap();
    while !store.row(&handle.thread).unwrap().unwrap().status.has_ended() {
        tokio::task::yield_now().await;
    }
    let thread = BTreeSet::from([handle.thread.clone()]);
    let mut deletion = std::pin::pin!(engine.delete(&thread, Vec::new()));
    let at_once = futures_util::future::poll_immediate(&mut deletion).await;
    assert!(at_once.is_none(), "it waits for the run: {at_once:?}");
    go.send(()).unwrap();
    deletion.await.unwrap();
    assert!(store.row(&handle.thread).unwrap().is_none());
}

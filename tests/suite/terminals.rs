//! One store, many terminals: what a second process can do while a first one holds the store, what signals do to the
//! first, and what is left when it is gone.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::binary::{Finished, Place, Running};

const WORKFLOW: &str = r#"
rondo: 1
name: slow
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

/// The second role takes longer than any test does.
const SLOW: &str =
    "first: [ { status: done, body: one } ]\nsecond: [ { delay_ms: 600000, status: done, body: two } ]\n";
const QUICK: &str = "first: [ { status: done, body: one } ]\nsecond: [ { status: done, body: two } ]\n";

/// How soon a holder must have stopped, and how soon a second terminal must know that the holder does not answer. Both
/// are two seconds; the rest is for a machine under load.
const SOON: Duration = Duration::from_secs(8);

fn place() -> Place {
    let place = Place::new();
    place.file("slow/workflow.yaml", WORKFLOW);
    place.file("slow/script.yaml", SLOW);
    place.file("quick.yaml", QUICK);
    place
}

/// Starts a run that waits in its second role, and gives its thread.
fn holder(place: &Place) -> (Running, String) {
    let mut run = place.start(["run", "slow", "--offline", "-i", "topic=tides", "--json"]);
    let thread = run.event("thread_started")["thread"].as_str().unwrap().to_owned();
    run.event("step_committed");
    while run.event("step_started")["role"] != "second" {}
    (run, thread)
}

fn run_quickly(place: &Place) -> Finished {
    place.run(["run", "slow", "--script", "quick.yaml", "-i", "topic=ebb", "--json"])
}

/// Holds a thread to having come to the end that its quick script leads to.
#[track_caller]
fn is_done(run: &Finished) {
    let end = run.event("thread_finished");
    assert_eq!((&end["outcome"], &end["result"]["text"]), (&Value::from("done"), &Value::from("two")), "{end}");
}

#[test]
fn every_verb_works_while_another_process_holds_the_store() {
    let place = place();
    let (run, thread) = holder(&place);
    let thread = thread.as_str();

    let listed = place.run(["threads", "--json"]).exits(0).json();
    assert_eq!((listed.len(), &listed[0]["status"]), (1, &Value::from("running")));
    assert_eq!(place.run(["show", thread, "--json"]).exits(0).events("step").len(), 1);
    let messages = ["messages", thread, "--role", "first", "--visit", "1", "--json"];
    assert_eq!(place.run(messages).exits(0).json()[0]["messages"][0]["parts"][0]["text"], "tides");
    assert_eq!(place.run(["verify", thread, "--json"]).exits(0).event("verified")["requests"], 1);
    let doctor = place.run(["doctor"]).exits(0).text();
    assert!(doctor.contains(&format!("process {}", run.pid())), "{doctor}");
    for words in [&["graph", "slow"][..], &["validate", "slow"], &["schema"], &["explain", "RN0101"]] {
        place.run(words).exits(0);
    }

    is_done(&run_quickly(&place).exits(0));
    let busy = place.run(["resume", thread]).exits(7);
    assert!(busy.stderr.contains(thread), "{}", busy.stderr);
    let cancelled = place.run(["cancel", thread, "--json"]).exits(0).json();
    let ended = run.finish_within(SOON).exits(1);
    let finished = ended.event("thread_finished");
    assert_eq!(finished["outcome"], "cancelled");
    // Each is told when it is told.
    let without_time = |event: &Value| {
        let mut event = event.clone();
        event.as_object_mut().unwrap().remove("at_ms");
        event
    };
    let told: Vec<Value> = cancelled.iter().map(without_time).collect();
    assert_eq!(told, [without_time(&finished)], "whoever cancels is told the end that the run was told");

    let again = place.run(["resume", thread, "--json"]).exits(1);
    assert_eq!(again.event("thread_finished")["outcome"], "cancelled");
    place.run(["cancel", thread]).exits(2);
}

#[test]
fn a_finished_thread_is_resumed_to_the_end_it_had() {
    let place = place();
    let run = run_quickly(&place).exits(0);
    let again = place.run(["resume", "last", "--json"]).exits(0);
    let (end, same) = (run.event("thread_finished"), again.event("thread_finished"));
    for member in ["thread", "outcome", "head", "status", "result"] {
        assert_eq!(end[member], same[member]);
    }
    let nothing = place.run(["resume"]).exits(2);
    assert!(nothing.stderr.contains("RN1406"), "{}", nothing.stderr);
}

#[test]
fn a_signal_stops_a_run_so_that_it_can_be_resumed() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let place = place();
        let (run, _) = holder(&place);
        run.signal(signal);
        let stopped = run.finish_within(SOON).exits(code);
        assert_eq!(stopped.event("error")["code"], "RN1206");
        let listed = place.run(["threads", "--json"]).exits(0).json();
        assert_eq!(listed[0]["status"], "stopped");
        let resumed = place.run(["resume", "--script", "quick.yaml", "--json"]).exits(0);
        assert_eq!(resumed.event("thread_resumed")["seq"], 1);
        is_done(&resumed);
    }
}

#[test]
fn two_signals_end_a_run_at_once_and_leave_it_resumable() {
    let place = place();
    let (run, _) = holder(&place);
    run.signal(Signal::TERM);
    run.signal(Signal::INT);
    let stopped = run.finish_within(SOON);
    assert!(matches!(stopped.code, Some(130 | 143)), "{stopped:?}");
    is_done(&place.run(["resume", "--script", "quick.yaml", "--json"]).exits(0));
}

#[test]
fn a_holder_that_does_not_answer_is_named_and_blocks_no_reader() {
    let place = place();
    let (run, thread) = holder(&place);
    run.signal(Signal::STOP);
    let pid = run.pid().to_string();
    for words in
        [&["run", "slow", "--script", "quick.yaml", "-i", "topic=ebb"][..], &["resume", &thread], &["cancel", &thread]]
    {
        let busy = place.start(words).finish_within(SOON).exits(7);
        assert!(busy.stderr.contains(&pid), "{words:?}: {}", busy.stderr);
    }
    place.run(["threads"]).exits(0);
    assert_eq!(place.run(["show", &thread, "--json"]).exits(0).events("step").len(), 1);
    place.run(["messages", &thread, "--role", "first", "--visit", "1"]).exits(0);
    place.run(["verify", &thread]).exits(0);
    place.run(["doctor"]).exits(0);

    run.kill();
    is_done(&place.run(["resume", &thread, "--script", "quick.yaml", "--json"]).exits(0));
}

#[test]
fn a_holder_that_was_killed_blocks_nobody() {
    let place = place();
    let (run, thread) = holder(&place);
    run.kill();
    is_done(&run_quickly(&place).exits(0));
    let listed = place.run(["threads", "--json"]).exits(0).json();
    let standing: Vec<&Value> = listed.iter().map(|line| &line["status"]).collect();
    assert_eq!(standing, ["stopped", "done"]);
    let cancelled = place.run(["cancel", &thread, "--json"]).exits(0).json();
    let resumed = place.run(["resume", &thread, "--json"]).exits(1).json();
    assert!(cancelled == resumed && cancelled[0]["outcome"] == "cancelled", "{cancelled:?} {resumed:?}");
}

#[test]
fn a_terminal_that_asked_learns_that_the_holder_was_killed() {
    let place = place();
    let (run, _) = holder(&place);
    let mut guest = place.start(["run", "slow", "--offline", "-i", "topic=ebb", "--json"]);
    let thread = guest.event("thread_started")["thread"].as_str().unwrap().to_owned();
    guest.event("step_committed");
    run.kill();
    let told = guest.finish_within(SOON).exits(9);
    assert!(told.lines.last().unwrap().contains("resume") || told.stderr.contains("resume"), "{told:?}");
    is_done(&place.run(["resume", &thread, "--script", "quick.yaml", "--json"]).exits(0));
}

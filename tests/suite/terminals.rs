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
    let writing =
        [&["run", "slow", "--script", "quick.yaml", "-i", "topic=ebb"][..], &["resume", &thread], &["cancel", &thread]];
    // Each waits two seconds for the holder.
    for busy in writing.map(|words| place.start(words)) {
        let busy = busy.finish_within(SOON).exits(7);
        assert!(busy.stderr.contains(&pid), "{}", busy.stderr);
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

/// The second role takes its time, but comes to its end.
const UNHURRIED: &str =
    "first: [ { status: done, body: one } ]\nsecond: [ { delay_ms: 1500, status: done, body: two } ]\n";

/// Starts a run beside the holder whose second role takes as long as the script says, and gives its thread.
fn guest(place: &Place, script: &str) -> (Running, String) {
    place.file("guest.yaml", script);
    let mut guest = place.start(["run", "slow", "--script", "guest.yaml", "-i", "topic=ebb", "--json"]);
    let thread = guest.event("thread_started")["thread"].as_str().unwrap().to_owned();
    guest.event("step_committed");
    while guest.event("step_started")["role"] != "second" {}
    (guest, thread)
}

#[track_caller]
fn standing(place: &Place) -> Vec<(String, String)> {
    let word = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
    let listed = place.run(["threads", "--json"]).exits(0).json();
    listed.iter().map(|line| (word(line, "thread"), word(line, "status"))).collect()
}

#[test]
fn whoever_holds_the_store_ends_without_any_other_run() {
    for (signal, code) in [(Signal::TERM, (Some(143), None)), (Signal::KILL, (None, Some(9)))] {
        let place = place();
        let (run, first) = holder(&place);
        let (guest, second) = guest(&place, UNHURRIED);
        run.signal(signal);
        let ended = run.finish_within(SOON);
        assert_eq!((ended.code, ended.signal), code);
        let told = guest.finish().exits(0);
        is_done(&told);
        assert_eq!(standing(&place), [(first, "stopped".to_owned()), (second.clone(), "done".to_owned())]);
        assert_eq!(place.run(["verify", &second, "--json"]).exits(0).event("verified")["requests"], 2);
    }
}

#[test]
fn a_run_beside_the_holder_ends_alone_and_is_not_shown_as_running() {
    let place = place();
    let (run, first) = holder(&place);
    let (other, second) = guest(&place, SLOW);
    let (running, stopped) = ("running".to_owned(), "stopped".to_owned());
    assert_eq!(standing(&place), [(first.clone(), running.clone()), (second.clone(), running.clone())]);
    let busy = place.run(["resume", &second]).exits(7);
    assert!(busy.stderr.contains(&second), "{}", busy.stderr);
    other.kill();
    assert_eq!(standing(&place), [(first.clone(), running.clone()), (second.clone(), stopped)]);
    is_done(&place.run(["resume", &second, "--script", "quick.yaml", "--json"]).exits(0));

    // A third terminal ends the run of a second one.
    let (other, third) = guest(&place, SLOW);
    assert_eq!(place.run(["cancel", &third, "--json"]).exits(0).json()[0]["outcome"], "cancelled");
    assert_eq!(other.finish_within(SOON).exits(1).event("thread_finished")["outcome"], "cancelled");
    assert_eq!(standing(&place)[0], (first, running));
    run.kill();
}

#[test]
fn many_short_runs_on_one_store_all_start() {
    let place = place();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..8 {
                    is_done(&run_quickly(&place).exits(0));
                }
            });
        }
    });
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), 24);
}

#[test]
fn a_run_beside_the_holder_has_the_input_and_the_durability_that_it_asks_for() {
    let place = place();
    let mut first = place.start(["run", "slow", "--offline", "-i", "topic=tides", "--json", "--durability", "log"]);
    assert_eq!(first.event("thread_started")["durability"], "log");
    let input = place.file("long.json", format!("{{\"topic\": \"{}\"}}", "x".repeat((16 << 20) - 64)));
    let words = ["run", "quick", "--script", "quick.yaml", "--input-file", &input, "--json", "--durability", "sync"];
    // A prompt has its own bound, so the input stands in none.
    place.file("quick/workflow.yaml", WORKFLOW.replace("{{ input.topic }}", "go"));
    let told = place.run(words).exits(0);
    assert_eq!(told.event("thread_finished")["durability"], "sync");
    is_done(&told);
    first.kill();
}

#[test]
fn a_reader_that_does_not_read_does_not_hold_up_a_run() {
    let place = place();
    // More than a pipe and every queue hold, and nobody reads any of it.
    let said = "x".repeat(1 << 15);
    let workflow = WORKFLOW.replace(
        "second: { done: { to: end } }",
        &format!(
            "second: {{ done: {{ to: second, prompt: again, say: \"{said}\", max: 150, on_max: {{ to: end }} }} }}"
        ),
    );
    place.file("slow/workflow.yaml", workflow);
    let bodies = "{ status: done, body: two }, ".repeat(152);
    place.file("many.yaml", format!("first: [ {{ status: done, body: one }} ]\nsecond: [ {bodies} ]\n"));
    let mut command = place.command(["run", "slow", "--script", "many.yaml", "-i", "topic=ebb", "--json"]);
    let mut child = command.spawn().unwrap();
    let since = std::time::Instant::now();
    loop {
        assert!(since.elapsed() < crate::binary::PATIENCE, "the run waits for its reader");
        let listed = place.run(["threads", "--json"]).exits(0).json();
        if listed.first().is_some_and(|line| line["status"] == "done") {
            break;
        }
    }
    assert!(child.try_wait().unwrap().is_none(), "it still has something to say");
    // Who reads in the end gets every durable event.
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<&str> = events.iter().filter_map(|event| event["id"].as_str()).collect();
    assert_eq!(ids.len(), 2 + 2 + 3 * 150 + 2 + 1, "{:?}", ids.last());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_run_that_a_signal_kept_from_beginning_is_no_success() {
    let place = place();
    let (run, _) = holder(&place);
    // While the holder does not answer, the other waits for it.
    run.signal(Signal::STOP);
    let other = place.start(["run", "slow", "--script", "quick.yaml", "-i", "topic=ebb", "--json"]);
    let catches_term = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", other.pid())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap().to_owned();
        u64::from_str_radix(&caught, 16).unwrap() >> 14 & 1 == 1
    };
    while !catches_term() {
        std::thread::yield_now();
    }
    other.signal(Signal::TERM);
    run.signal(Signal::CONT);
    let code = other.finish_within(SOON).code;
    assert_eq!(code, Some(143));
    assert_eq!(standing(&place).len(), 1);
    run.kill();
}

//! What `show` and `messages` print of a long thread: the steps that were asked for, and those that are still to come.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::binary::{Finished, Place, Running, fixture};

/// How soon a follower must have noticed something: a few looks, and the rest for a machine under load.
const SOON: Duration = Duration::from_secs(8);

fn lanes() -> Place {
    let place = Place::new();
    place.run(["run", &fixture("lanes"), "--offline", "-i", "topic=tides", "--json"]).exits(0);
    place
}

/// The steps of `show --json` with these options.
fn steps(place: &Place, words: &[&str]) -> Vec<Value> {
    place.run([&["show", "last", "--json"], words].concat()).exits(0).events("step")
}

fn seqs(steps: &[Value]) -> Vec<u64> {
    steps.iter().map(|step| step["seq"].as_u64().unwrap()).collect()
}

/// The numbers of those of `all` for which a condition holds.
fn those(all: &[Value], is_wanted: impl Fn(&Value) -> bool) -> Vec<u64> {
    seqs(&all.iter().filter(|step| is_wanted(step)).cloned().collect::<Vec<_>>())
}

#[test]
fn steps_are_shown_by_role_status_lane_text_and_number() {
    let place = lanes();
    let all = steps(&place, &[]);
    let lane = |step: &Value| step["lane"].as_str().unwrap().to_owned();
    let is_second = |step: &Value| lane(step) == "writer[1]" || lane(step).starts_with("writer[1]/");
    let has_salt = |step: &Value| {
        [&step["edge"]["prompt"], &step["answer"]].iter().any(|text| text.as_str().unwrap().contains("salt"))
    };
    for (words, wanted) in [
        (&["--role", "critic"][..], those(&all, |step| step["role"] == "critic")),
        (&["--status", "stuck"], those(&all, |step| step["status"] == "stuck")),
        (&["--lane", "writer[1]"], those(&all, is_second)),
        (&["--lane", ""], those(&all, |step| lane(step).is_empty())),
        (&["--grep", "SALT"], those(&all, has_salt)),
        (&["--steps", "3..5"], vec![3, 4, 5]),
        (&["--steps", "..2"], vec![1, 2]),
        (&["--steps", "4"], vec![4]),
        (&["--role", "critic", "--lane", "writer[1]"], those(&all, |step| step["role"] == "critic" && is_second(step))),
        (&["--role", "critic", "--steps", "1000.."], Vec::new()),
    ] {
        let shown = steps(&place, words);
        assert_eq!(seqs(&shown), wanted, "{words:?}");
        let whole: Vec<&Value> = all.iter().filter(|step| wanted.contains(&step["seq"].as_u64().unwrap())).collect();
        assert_eq!(shown.iter().collect::<Vec<_>>(), whole, "a filter changes no line: {words:?}");
    }
    assert!(those(&all, is_second).len() > 2 && !those(&all, has_salt).is_empty(), "the lanes are as they were");
}

#[test]
fn the_last_steps_are_those_that_match() {
    let place = lanes();
    let all = steps(&place, &[]);
    let checkers = those(&all, |step| step["role"] == "checker");
    for count in 0..=checkers.len() + 1 {
        let shown = steps(&place, &["--role", "checker", "-n", &count.to_string()]);
        assert_eq!(seqs(&shown), checkers[checkers.len().saturating_sub(count)..], "-n {count}");
    }
    assert_eq!(seqs(&steps(&place, &["--steps", "2..6", "-n", "2"])), [5, 6]);
    let first = place.run(["show", "last", "--json", "-n", "0"]).exits(0);
    assert_eq!(
        first.json(),
        [place.run(["threads", "--json"]).exits(0).json()[0].clone()],
        "the thread is always told"
    );
}

#[test]
fn what_no_step_can_match_is_said() {
    let place = lanes();
    let unknown = place.run(["show", "last", "--role", "writr"]).exits(2);
    assert!(unknown.stderr.contains("RN1401") && unknown.stderr.contains("`writer`"), "{}", unknown.stderr);
    assert!(place.run(["show", "--grep", "no such words"]).exits(0).text().contains("no step is like that"));
    assert!(place.run(["messages", "--grep", "no such words"]).exits(0).text().contains("no request is like that"));
    for words in [["show", "--steps", "5..3"], ["show", "--lane", "no lane"], ["messages", "--visit", "1"]] {
        place.run(words).exits(2);
    }
}

#[test]
fn requests_are_shown_by_the_same_options() {
    let place = lanes();
    let requests = |words: &[&str]| place.run([&["messages", "last", "--json"], words].concat()).exits(0).json();
    let all = requests(&[]);
    let verified = place.run(["verify", "last", "--json"]).exits(0).event("verified");
    assert_eq!(verified["requests"], all.len(), "without options every request is shown");
    let of =
        |is_wanted: &dyn Fn(&Value) -> bool| all.iter().filter(|line| is_wanted(line)).cloned().collect::<Vec<_>>();
    let checkers = of(&|line| line["role"] == "checker");
    // The first answer of each checker was sent back, so that a step has two requests.
    assert_eq!(requests(&["--role", "checker"]), checkers);
    let last = checkers.last().unwrap()["seq"].clone();
    assert_eq!(requests(&["--role", "checker", "-n", "1"]), of(&|line| line["seq"] == last));
    assert_eq!(requests(&["--lane", "", "-n", "1"]), of(&|line| line["seq"] == all.last().unwrap()["seq"]));
    let visit = ["--role", "writer", "--visit", "2", "--lane", "writer[0]"];
    assert_eq!(
        requests(&visit),
        of(&|line| line["role"] == "writer" && line["visit"] == 2 && line["lane"] == "writer[0]")
    );
}

/// A run that waits in its second role for longer than any test does.
fn slow(place: &Place) -> Running {
    place.file(
        "slow/workflow.yaml",
        "rondo: 1\nname: slow\nroles: { first: {}, second: {} }\ngraph:\n  start: { to: first, prompt: Begin. }\n  \
         first: { done: { to: second, prompt: Go on. } }\n  second: { done: { to: end } }\n",
    );
    place.file("slow/script.yaml", "first: [ { body: one } ]\nsecond: [ { delay_ms: 600000, body: two } ]\n");
    let mut run = place.start(["run", "slow", "--offline", "--json"]);
    run.event("step_committed");
    while run.event("step_started")["role"] != "second" {}
    run
}

/// Starts a follower that has shown the first step of [`slow`].
fn follower(place: &Place) -> Running {
    let mut follower = place.start(["show", "last", "--follow", "--json"]);
    assert_eq!(follower.event("thread")["status"], "running");
    assert_eq!(follower.event("step")["seq"], 1);
    follower
}

#[track_caller]
fn ends_as(followed: &Finished, status: &str) {
    let lines = followed.json();
    assert_eq!((&lines.last().unwrap()["event"], &lines.last().unwrap()["status"]), (&"thread".into(), &status.into()));
    assert_eq!(followed.events("thread").len(), 2, "its status is told at the beginning and when it changes");
}

#[test]
fn a_running_thread_is_followed_to_its_end() {
    let place = Place::new();
    let run = slow(&place);
    let follower = follower(&place);
    place.run(["cancel", "last"]).exits(0);
    run.finish_within(SOON).exits(1);
    ends_as(&follower.finish_within(SOON).exits(0), "cancelled");
    let shown = place.run(["show", "last"]).exits(0).text();
    assert!(shown.contains("  cancelled") && !shown.contains("cancelled: "), "it is said once: {shown}");
    let resumed = place.run(["resume", "last"]).exits(1).stderr;
    assert!(!resumed.contains("cancelled: "), "{resumed}");
}

#[test]
fn a_thread_whose_process_was_killed_is_followed_no_further() {
    let place = Place::new();
    let run = slow(&place);
    let follower = follower(&place);
    run.kill();
    ends_as(&follower.finish_within(SOON).exits(0), "stopped");
}

#[test]
fn a_signal_ends_the_follower_and_not_the_thread() {
    let place = Place::new();
    let run = slow(&place);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let follower = follower(&place);
        follower.signal(signal);
        follower.finish_within(SOON).exits(code);
    }
    assert_eq!(place.run(["threads", "--json"]).exits(0).json()[0]["status"], "running");
    run.kill();
}

/// The answer comes from another process, which then holds the store and drives the thread.
#[test]
fn a_waiting_thread_is_followed_across_the_answer() {
    let place = Place::new();
    place.run(["run", &fixture("people"), "--offline", "-i", "topic=tea"]).exits(75);
    let before = steps(&place, &[]).len();
    let mut follower = place.start(["show", "last", "--follow", "--json", "-n", "0"]);
    let mut told = place.start(["show", "last", "--follow"]);
    assert_eq!(follower.event("thread")["status"], "waiting");
    while !told.line().unwrap().contains("`rondo answer") {}
    place.run(["answer", "last", "--role", "lawyer", "--status", "cleared"]).exits(75);
    place.run(["answer", "last", "--status", "approved", "--field", "level=high"]).exits(0);
    let ended = follower.finish_within(SOON).exits(0);
    let lines = ended.json();
    assert_eq!(lines.last().unwrap()["status"], "done", "{ended:?}");
    let all = steps(&place, &[]);
    assert_eq!(ended.events("step"), all[before..], "every new step once, in order");
    let text = told.finish_within(SOON).exits(0).text();
    assert!(text.contains("publisher, visit 1: done") && text.contains("people  done"), "{text}");
}

#[test]
fn a_thread_that_has_ended_is_shown_and_not_followed() {
    let place = lanes();
    let plain = place.run(["show", "last", "--json"]).exits(0);
    assert_eq!(place.run(["show", "last", "--json", "--follow"]).exits(0).lines, plain.lines);
}

/// Two lanes, each of which waits with its second request for longer than any test does.
fn two_lanes(place: &Place) -> Running {
    place.file(
        "panel/workflow.yaml",
        "rondo: 1\nname: panel\nroles:\n  a: {}\n  b: { tools: [read_file] }\n  end_: {}\ngraph:\n  \
         start: { to: [a, b], join: end_, prompt: Begin. }\n  a: { done: { to: end_ } }\n  \
         b: { done: { to: end_ } }\n  end_: { done: { to: end } }\n",
    );
    place.file(
        "panel/script.yaml",
        "a:\n  - { raw: \"---\\nstatus: wrong\\n---\\n\" }\n  - { delay_ms: 600000, body: one }\n\
         b:\n  - { tools: [ { name: read_file, args: { path: notes.txt } } ] }\n  - { delay_ms: 600000, body: two }\n",
    );
    place.file("notes.txt", "a note");
    place.start(["run", "panel", "--offline", "--trust", "--json"])
}

#[test]
fn what_lanes_were_answered_is_shown_before_their_steps_are_committed() {
    let place = Place::new();
    let run = two_lanes(&place);
    let shown = |words: &[&str]| place.run([&["show", "last", "--json"], words].concat());
    let since = std::time::Instant::now();
    let visits = loop {
        let visits =
            if place.run(["threads", "--json"]).lines.is_empty() { Vec::new() } else { shown(&[]).events("in_flight") };
        if visits.len() == 2 {
            break visits;
        }
        assert!(since.elapsed() < crate::binary::PATIENCE, "the lanes do not speak: {visits:?}");
    };
    let of = |visit: &Value| (visit["role"].clone(), visit["lane"].clone(), visit["totals"]["refused"].clone());
    let [a, b] =
        [("a", "a[0]", 1), ("b", "b[1]", 0)].map(|(role, lane, refused)| (role.into(), lane.into(), refused.into()));
    assert_eq!(visits.iter().map(of).collect::<Vec<_>>(), [a, b]);
    assert_eq!(shown(&["--role", "b"]).events("in_flight"), visits[1..]);
    assert_eq!(shown(&["--lane", "a[0]"]).events("in_flight"), visits[..1]);
    assert_eq!(shown(&[]).event("thread")["in_flight"]["model_calls"], 2);
    run.kill();
    assert_eq!(shown(&[]).events("in_flight"), visits, "a kill loses none of it");
    let text = place.run(["messages", "last", "--lane", "b[1]"]).exits(0).text();
    assert!(text.contains("asks for read_file path = notes.txt"), "{text}");
}

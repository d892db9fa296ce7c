//! Limited rates, seen from outside: nothing of what is said depends on them, and a call that cannot wait fails at once.

use std::time::Duration;

use crate::binary::{Finished, Place};

/// Two roles that each ask a model once and a tool once, with these hooks.
fn run(hooks: &str, timeout: &str) -> Finished {
    let place = Place::new();
    place.file(
        "two/workflow.yaml",
        format!(
            "rondo: 1\nname: two\nroles:\n  a: {{ system: You read., tools: [read_file], timeout: {timeout} }}\n  \
             b: {{ system: You read., tools: [read_file], timeout: {timeout} }}\ngraph:\n  \
             start: {{ to: a, prompt: go }}\n  a: {{ done: {{ to: b, prompt: go on }} }}\n  b: {{ done: {{ to: end }} }}\n{hooks}"
        ),
    );
    let reads = "  - tools: [ { name: read_file, args: { path: notes.txt } } ]\n    then: { body: read }\n";
    place.file("two/script.yaml", format!("a:\n{reads}b:\n{reads}"));
    place.file("notes.txt", "a note");
    place.run(["run", "two", "--offline", "--json"])
}

#[test]
fn a_rate_changes_nothing_of_what_is_said_and_tells_what_it_did() {
    let free = run("", "1m").exits(0);
    let limited = run(
        "hooks:\n  - { use: rate_limit, concurrent: 1, per_minute: 100 }\n  - { use: rate_limit, at: tool, concurrent: 1 }\n",
        "1m",
    )
    .exits(0);
    assert_eq!(free.event("thread_finished")["head"], limited.event("thread_finished")["head"]);
    let reports = limited.events("hook_report");
    let of = |node: &str| {
        let calls = |event: &&serde_json::Value| event["node"] == node;
        reports.iter().filter(calls).map(|event| event["metrics"]["calls"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((of("rate_limit"), of("rate_limit_2")), (vec![2.into(), 2.into()], vec![1.into(), 1.into()]));
    assert!(reports.iter().all(|event| event["metrics"]["waited_ms"].is_u64()), "{reports:?}");
}

#[test]
fn a_model_call_that_would_wait_past_its_deadline_fails_at_once() {
    let ran = run("hooks: [ { use: rate_limit, per_minute: 3 } ]\n", "30s").exits(5);
    let error = ran.event("error");
    assert_eq!(error["code"], "RN1004");
    assert!(error["message"].as_str().unwrap().contains("the hook rate_limit lets 3 a minute through"), "{error}");
    assert_eq!(ran.events("step_committed").len(), 1);
    assert!(ran.took < Duration::from_secs(25), "{:?}", ran.took);
}

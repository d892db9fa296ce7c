//! A run with fan-outs that is killed at any moment comes to the same head as one that is left alone, asks nothing twice
//! that was answered, and proves all its requests.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::binary::{Finished, Place, fixture};
use crate::kill;

fn words() -> Vec<String> {
    ["run", &fixture("lanes"), "--offline", "-i", "topic=tides", "--json"].map(str::to_owned).to_vec()
}

/// What a run comes to, whatever the order in which its lanes went on.
#[derive(Debug, PartialEq)]
struct Outcome {
    head: Value,
    /// The digest of each visit, and what its calls used.
    visits: BTreeMap<String, Value>,
    totals: Value,
}

impl Outcome {
    /// Of the only thread of a place.
    #[track_caller]
    fn of(place: &Place) -> Self {
        let shown = place.run(["show", "last", "--json"]).exits(0).json();
        let (thread, steps) = shown.split_first().unwrap();
        let visits = steps.iter().map(|step| {
            let note = &step["note"];
            let value = serde_json::json!([step["step"], note["usage"], note["model"], step["answer"]]);
            (visit(step), value)
        });
        Self { head: thread["head"].clone(), visits: visits.collect(), totals: thread["totals"].clone() }
    }

    /// Holds what was acknowledged to this run.
    #[track_caller]
    fn holds(&self, run: &Finished) -> u64 {
        let mut last = 0;
        for event in run.events("step_committed") {
            last = event["seq"].as_u64().unwrap();
            assert_eq!(event["step"], self.visits[&visit(&event)][0], "{event}");
        }
        last
    }

    #[track_caller]
    fn is_reached_by(&self, place: &Place, has_started: bool, acknowledged: u64) {
        if !has_started && place.run(["threads", "--json"]).exits(0).lines.is_empty() {
            return;
        }
        let resumed = place.run(["resume", "last", "--json"]).exits(0);
        if let Some(event) = resumed.events("thread_resumed").first() {
            assert!(event["seq"].as_u64().unwrap() >= acknowledged, "{event} after {acknowledged} steps");
        }
        self.holds(&resumed);
        assert_eq!(Self::of(place), *self);
    }
}

fn visit(of: &Value) -> String {
    format!("{} {} {}", of["lane"], of["role"], of["visit"])
}

fn undisturbed() -> (Outcome, Finished) {
    let place = Place::new();
    let run = place.run(words()).exits(0);
    (Outcome::of(&place), run)
}

#[test]
fn lanes_killed_after_any_line_are_resumed_to_the_same_head() {
    let (outcome, run) = undisturbed();
    assert!(run.events("lane_ended").len() >= 12, "{run:?}");
    kill::after_any_line(&words(), run.lines.len(), |place, killed| {
        outcome.is_reached_by(place, kill::has_started(killed), outcome.holds(killed));
    });
}

#[test]
fn lanes_killed_again_and_again_at_random_times_come_to_the_same_head() {
    let (outcome, run) = undisturbed();
    kill::at_random_times(
        &words(),
        run.took,
        |killed| outcome.holds(killed),
        |place, is_known, acknowledged| outcome.is_reached_by(place, is_known, acknowledged),
    );
}

/// Law `rebuild` over lanes: several rounds, nesting, exact history and what others said since.
#[test]
fn every_request_of_a_thread_with_lanes_is_proven() {
    let place = Place::new();
    let run = place.run(words()).exits(0);
    let verified = place.run(["verify", "last", "--json"]).exits(0).event("verified");
    let asked = run.events("call_settled").len();
    assert_eq!(verified["requests"].as_u64().unwrap(), u64::try_from(asked).unwrap(), "{verified}");
    let lane =
        |lane: &str| place.run(["messages", "last", "--role", "writer", "--visit", "2", "--lane", lane, "--json"]);
    let told = lane("writer[0]").exits(0).json();
    // Its first visit whole, and what happened in other lanes since.
    let text = told[0].to_string();
    assert!(text.contains("salt") && text.contains("not yet") && text.contains("dry"), "{text}");
}

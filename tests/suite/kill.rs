//! A run that is killed at any moment, again and again, comes to the same end as one that is left alone, and loses
//! nothing that it said was committed.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{Finished, Place, fixture};

/// What an undisturbed run comes to.
struct Undisturbed {
    /// The digest of each step, from seq 1.
    steps: Vec<Value>,
    /// How the thread stands then, but for what differs from run to run.
    shown: Vec<Value>,
    /// How many lines it wrote.
    lines: usize,
    /// How long it took.
    took: Duration,
}

fn words() -> Vec<String> {
    ["run", &fixture("relay"), "--offline", "-i", "topic=tides", "--json"].map(str::to_owned).to_vec()
}

fn undisturbed() -> Undisturbed {
    let place = Place::new();
    let run = place.run(words()).exits(0);
    let steps: Vec<Value> = run.events("step_committed").iter().map(|event| event["step"].clone()).collect();
    assert_eq!(run.event("thread_finished")["head"], *steps.last().unwrap());
    assert!(run.events("call_retried").len() >= 3 && steps.len() >= 9, "{run:?}");
    Undisturbed { steps, shown: shown(&place), lines: run.lines.len(), took: run.took }
}

/// What `show` says of the only thread, without its id and its times.
fn shown(place: &Place) -> Vec<Value> {
    let mut lines = place.run(["show", "last", "--json"]).exits(0).json();
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("thread");
        if let Some(note) = line.get_mut("note").and_then(Value::as_object_mut) {
            note.remove("started_at_ms");
            note.remove("ended_at_ms");
        }
    }
    lines
}

impl Undisturbed {
    /// Holds what was acknowledged to this run, and gives how many steps were.
    #[track_caller]
    fn holds(&self, run: &Finished) -> u64 {
        let mut last = 0;
        for event in run.events("step_committed") {
            last = event["seq"].as_u64().unwrap();
            let at = usize::try_from(last).unwrap() - 1;
            assert_eq!(Some(&event["step"]), self.steps.get(at), "step {last}");
        }
        last
    }

    /// Resumes a thread of which `acknowledged` steps were seen, to its end.
    #[track_caller]
    fn ends_after_resume(&self, place: &Place, has_started: bool, acknowledged: u64) {
        let listed = place.run(["threads", "--json"]).exits(0).json();
        if listed.is_empty() {
            assert!(!has_started, "the thread was said to have started, and is not there");
            return;
        }
        assert_eq!(listed.len(), 1);
        let is_done = listed[0]["status"] == "done";
        assert!(is_done || listed[0]["status"] == "stopped", "{listed:?}");
        let again = if is_done { vec!["resume", "last", "--json"] } else { vec!["resume", "--json"] };
        let resumed = place.run(again).exits(0);
        if let Some(event) = resumed.events("thread_resumed").first() {
            assert!(event["seq"].as_u64().unwrap() >= acknowledged, "{event} after {acknowledged} steps");
        }
        self.holds(&resumed);
        assert_eq!(resumed.event("thread_finished")["head"], *self.steps.last().unwrap());
        assert_eq!(shown(place), self.shown);
    }
}

pub fn has_started(run: &Finished) -> bool {
    !run.events("thread_started").is_empty()
}

/// Kills a run after each of its first `lines` lines, and hands out what it had said by then, to be resumed.
pub fn after_any_line(words: &[String], lines: usize, resume: impl Fn(&Place, &Finished)) {
    for count in 0..lines {
        println!("killed after line {count}");
        let place = Place::new();
        let mut run = place.start(words);
        for _ in 0..count {
            assert!(run.line().is_some());
        }
        resume(&place, &run.kill());
    }
}

/// How many runs are killed, each [`KILLS`] times: with the lanes beside it more than 500 kills.
const ROUNDS: usize = 32;
const KILLS: usize = 8;

/// Kills a run that takes so long, and what resumes it, [`KILLS`] times at random, [`ROUNDS`] times; `holds` gives how many steps were
/// acknowledged. What is left is handed out with whether the thread is known, to be resumed.
pub fn at_random_times(
    words: &[String],
    took: Duration,
    holds: impl Fn(&Finished) -> u64,
    resume: impl Fn(&Place, bool, u64),
) {
    let again = ["resume", "last", "--json"].map(str::to_owned);
    let mut random = Random::seeded();
    for round in 0..ROUNDS {
        let place = Place::new();
        let (mut is_known, mut acknowledged) = (false, 0);
        for kill in 0..KILLS {
            // Most of a run lies behind the opening of the store; a resumed one has less before it.
            let after = took.mul_f64(random.fraction() * if is_known { 0.7 } else { 1.0 });
            println!("round {round}, kill {kill}, after {after:?}");
            let end = Instant::now() + after;
            let mut run = place.start(if is_known { &again } else { words });
            while run.line_until(end).is_some() {}
            let killed = run.kill();
            is_known |= !place.run(["threads", "--json"]).exits(0).lines.is_empty();
            assert!(is_known || !has_started(&killed));
            acknowledged = holds(&killed).max(acknowledged);
        }
        resume(&place, is_known, acknowledged);
    }
}

#[test]
fn a_run_killed_after_any_line_is_resumed_to_the_same_end() {
    let undisturbed = undisturbed();
    after_any_line(&words(), undisturbed.lines, |place, killed| {
        undisturbed.ends_after_resume(place, has_started(killed), undisturbed.holds(killed));
    });
}

#[test]
fn a_thread_killed_again_and_again_at_random_times_comes_to_the_same_end() {
    let undisturbed = undisturbed();
    at_random_times(
        &words(),
        undisturbed.took,
        |killed| undisturbed.holds(killed),
        |place, is_known, acknowledged| undisturbed.ends_after_resume(place, is_known, acknowledged),
    );
}

/// A small generator (xorshift, Marsaglia 2003). Its seed is printed, so that a failure can be tried again.
pub struct Random(u64);

impl Random {
    /// Of the seed that the environment gives, or a fixed one.
    pub fn seeded() -> Self {
        let seed = std::env::var("RONDO_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x0072_6f6e_646f);
        println!("RONDO_TEST_SEED={seed}");
        Self(seed)
    }

    /// From 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }
}

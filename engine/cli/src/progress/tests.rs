use std::fmt::Write as _;

use rondo::protocol::Digest;
use rondo::protocol::digest::Kind;
use rondo::protocol::event::{Durability, LaneEnd, Outcome, Target, Visit, What};
use rondo::protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo::protocol::object::{AnsweredBy, Usage};

use super::*;

fn events() -> Vec<Event> {
    let digest = Digest::of_bytes(Kind::Step, b"");
    let visit = Visit { role: RoleName::new("writer").unwrap(), visit: 2, lane: LanePath::trunk() };
    let status = Status::new("drafted").unwrap();
    let usage = Some(Usage { prompt_tokens: 1000, cached_tokens: 750, output_tokens: 120, ..Usage::default() });
    let delta = |text: &str| What::ModelDelta { visit: visit.clone(), attempt: 0, text: text.to_owned() };
    let what = [
        What::ThreadStarted { workflow: digest, start: digest },
        What::StepStarted { visit: visit.clone() },
        delta("Twice a day\nthe sea "),
        What::CallRetried {
            visit: visit.clone(),
            attempt: 0,
            model: "default".to_owned(),
            code: "RN1003".to_owned(),
            message: "the provider answered 429: slow down".to_owned(),
            wait_ms: 1500,
        },
        delta("Twice a day\nthe sea \u{1b}[2Jleaves."),
        What::CallSettled {
            visit: visit.clone(),
            attempt: 0,
            model: "m".to_owned(),
            provider: Some("openai".to_owned()),
            finish: "stop".to_owned(),
            usage,
            cached_tokens: Some(750),
            cost_usd: Some(0.0042),
            duration_ms: 900,
            answered_by: AnsweredBy::Port,
            refused: None,
        },
        What::committed(visit.clone().into(), (3, digest, Vec::new()), Some(status.clone())),
        What::Said { visit, text: "one more round".to_owned() },
        What::ThreadFinished {
            outcome: Outcome::Failed,
            head: Some(digest),
            status: Some(status),
            reason: Some("three rounds were not enough".to_owned()),
            result: rondo::protocol::Value::Null,
        },
    ];
    timed(what)
}

fn timed(what: impl IntoIterator<Item = What>) -> Vec<Event> {
    let thread = ThreadId::from_parts(0, 0);
    what.into_iter()
        .zip(1_u64..)
        .map(|(what, at)| Event {
            id: None,
            thread: thread.clone(),
            parent: None,
            durability: Durability::Sync,
            at_ms: at * 1000,
            what,
        })
        .collect()
}

/// Every written line, and the live lines after each event, if any.
fn seen(events: &[Event]) -> String {
    let mut state = ProgressState::new(false);
    let mut text = String::new();
    for event in events {
        state.event(event).iter().for_each(|line| text.push_str(&line.text(Style::PLAIN)));
        let (live, more) = state.live(40, 2, |_| false);
        for line in live.into_values().map(|line| format!("{} | {}", line.who, line.words)).chain(more) {
            let _ = writeln!(text, "~ {line}");
        }
    }
    text
}

fn visit(role: &str, lane: &str) -> Visit {
    Visit { role: RoleName::new(role).unwrap(), visit: 1, lane: LanePath::new(lane).unwrap() }
}

#[test]
fn speakers_in_lanes_have_a_line_each_and_every_end_of_a_lane_is_told() {
    let digest = Digest::of_bytes(Kind::Step, b"");
    let status = || Status::new("done").unwrap();
    let lanes = ["critic[0]", "critic[1]", "checker[2]", "critic[10]"];
    let target = |lane: &str| {
        let lane = LanePath::new(lane).unwrap();
        Target { role: RoleName::new(lane.parts().last().unwrap().0).unwrap(), lane }
    };
    let committed = |role: &str, lane: &str, seq| {
        What::committed(visit(role, lane).into(), (seq, digest, Vec::new()), Some(status()))
    };
    let started = |role: &str, lane: &str| What::StepStarted { visit: visit(role, lane) };
    let said = |role: &str, lane: &str, text: &str| What::ModelDelta {
        visit: visit(role, lane),
        attempt: 0,
        text: text.to_owned(),
    };
    let ended = |role: &str, lane: &str, how| What::LaneEnded { visit: visit(role, lane), how };
    let what = [
        What::EdgeTaken {
            visit: visit("writer", ""),
            from: "writer".to_owned(),
            status: Some(status()),
            to: lanes.map(target).into(),
        },
        started("critic", "critic[10]"),
        started("critic", "critic[1]"),
        said("critic", "critic[10]", "the tenth"),
        started("critic", "critic[0]"),
        said("critic", "critic[0]", "one\ntwo"),
        committed("critic", "critic[0]", 2),
        started("checker", "critic[0]"),
        committed("checker", "critic[0]", 3),
        ended("checker", "critic[0]", LaneEnd::Arrived),
        ended("critic", "critic[1]", LaneEnd::Cancelled),
        committed("critic", "critic[10]", 4),
        ended("critic", "critic[10]", LaneEnd::Failed),
        started("judge", ""),
    ];
    insta::assert_snapshot!(seen(&timed(what)));
}

#[test]
fn a_lane_that_is_no_longer_needed_takes_those_within_it_along() {
    let mut state = ProgressState::new(false);
    let what = [
        What::StepStarted { visit: visit("b", "a[0]/b[1]") },
        What::StepStarted { visit: visit("a", "a[1]") },
        What::LaneEnded { visit: visit("a", "a[0]"), how: LaneEnd::Cancelled },
    ];
    for event in timed(what) {
        state.event(&event);
    }
    let live: Vec<String> = state.live(40, 9, |_| false).0.into_values().map(|line| line.who).collect();
    assert_eq!(live, ["a[1], visit 1"]);
}

#[test]
fn whoever_has_a_live_line_keeps_it() {
    let mut state = ProgressState::new(false);
    for event in timed(["a[0]", "a[1]", "a[2]"].map(|lane| What::StepStarted { visit: visit("a", lane) })) {
        state.event(&event);
    }
    let (live, more) = state.live(40, 2, |lane| lane.lane.last_index() == Some(2));
    let live: Vec<String> = live.into_values().map(|line| line.who).collect();
    assert_eq!(live, ["a[0], visit 1", "a[2], visit 1"]);
    assert_eq!(more.as_deref(), Some("and 1 more: a[1]"));
}

#[test]
fn a_run_reads_as_a_line_for_each_step_and_what_is_being_said() {
    insta::assert_snapshot!(seen(&events()));
}

#[test]
fn json_on_a_pipe_shows_no_progress() {
    assert_eq!(Mode::of(Style::PLAIN, true, false), Mode::Silent);
    assert_eq!(Mode::of(Style::PLAIN, false, false), Mode::Lines);
    let terminal = Style { is_terminal: true, ..Style::PLAIN };
    assert_eq!(Mode::of(terminal, true, false), Mode::Live);
    assert_eq!(Mode::of(terminal, false, true), Mode::Silent);
}

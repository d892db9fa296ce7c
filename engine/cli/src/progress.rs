//! The progress of a run for people, rendered from its events alone: a line for each step, and on a terminal a live
//! line for each current lane.

mod line;
mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use rondo::protocol::event::Event;
use rondo::tell::tell_styled;

use self::state::{ActiveLane, ProgressState};

use super::Style;

/// How often the live line is redrawn while nothing happens.
pub(super) const TICK: Duration = Duration::from_millis(120);

/// How many lanes have a live line at the same time; the others are counted.
const MAX_LIVE: usize = 6;

/// How the progress of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A line for each step, and a live line for each role that runs.
    Live,
    Lines,
    Silent,
}

impl Mode {
    /// The mode for a stderr with a style. With `--json` progress is shown only on a terminal.
    pub fn of(style: Style, is_json: bool, is_quiet: bool) -> Self {
        match (is_quiet, style.is_terminal) {
            (true, _) => Self::Silent,
            (false, true) => Self::Live,
            (false, false) if is_json => Self::Silent,
            (false, false) => Self::Lines,
        }
    }
}

/// The live lines of this process, to be hidden while a question is asked.
static LIVE: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Hides the live lines during `ask`.
pub fn suspended<T>(ask: impl FnOnce() -> T) -> T {
    let live = LIVE.lock().clone();
    match live {
        Some(lines) => lines.suspend(ask),
        None => ask(),
    }
}

pub struct Progress {
    mode: Mode,
    style: Style,
    live: Option<Live>,
    state: ProgressState,
}

impl Progress {
    /// Shows a run on stderr. With `is_verbose` its answers are shown in full.
    pub fn new(mode: Mode, style: Style, is_verbose: bool) -> Self {
        let live = (mode == Mode::Live).then(Live::new);
        Self { mode, style, live, state: ProgressState::new(is_verbose) }
    }

    pub fn event(&mut self, event: &Event) {
        if self.mode == Mode::Silent {
            return;
        }
        let told: String = self.state.event(event).iter().map(|line| line.text(self.style)).collect();
        if !told.is_empty() {
            self.suspend(|| tell_styled(&told));
        }
        self.redraw();
    }

    /// Fits the live lines to the terminal, which may have another size by now.
    pub fn redraw(&mut self) {
        if let Some(live) = &mut self.live {
            live.show(&self.state, Style::stderr().width);
        }
    }

    /// Hides the live lines during `say`.
    pub fn suspend<T>(&self, say: impl FnOnce() -> T) -> T {
        match &self.live {
            Some(live) => live.all.suspend(say),
            None => say(),
        }
    }

    pub fn finish(&self) {
        if let Some(live) = &self.live {
            // If this fails, stderr is closed.
            let _ = live.all.clear();
        }
    }
}

struct Live {
    all: MultiProgress,
    /// In screen order.
    lines: BTreeMap<ActiveLane, ProgressBar>,
    /// The last line: the number of other running roles.
    more: Option<ProgressBar>,
}

impl Live {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        *LIVE.lock() = Some(all.clone());
        Self { all, lines: BTreeMap::new(), more: None }
    }

    fn show(&mut self, state: &ProgressState, width: usize) {
        let (lanes, more) = state.live(width, MAX_LIVE, |lane| self.lines.contains_key(lane));
        let gone: Vec<ActiveLane> = self.lines.keys().filter(|lane| !lanes.contains_key(*lane)).cloned().collect();
        for line in gone.iter().filter_map(|lane| self.lines.remove(lane)) {
            line.finish_and_clear();
            self.all.remove(&line);
        }
        for (place, (lane, words)) in lanes.into_iter().enumerate() {
            let all = &self.all;
            let line = self.lines.entry(lane).or_insert_with(|| begun(all, place));
            // One text, of which a terminal that has just become narrower is shown the beginning: nothing ever wraps.
            let elapsed = format!("{:#}", HumanDuration(line.elapsed()));
            line.set_message(format!("{} {elapsed:>4} {}", words.who, words.words));
        }
        match (more, self.more.take()) {
            (Some(words), line) => {
                let line = line.unwrap_or_else(|| others(&self.all, self.lines.len()));
                line.set_message(words);
                self.more = Some(line);
            }
            (None, Some(line)) => {
                line.finish_and_clear();
                self.all.remove(&line);
            }
            (None, None) => {}
        }
    }
}

fn begun(all: &MultiProgress, place: usize) -> ProgressBar {
    let line = all.insert(place, ProgressBar::new_spinner());
    let template = "{spinner} {wide_msg}";
    line.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    line.enable_steady_tick(TICK);
    line
}

/// Inserts the line that counts those without one.
fn others(all: &MultiProgress, place: usize) -> ProgressBar {
    let line = all.insert(place, ProgressBar::new_spinner());
    line.set_style(ProgressStyle::with_template("  {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    line
}

#[cfg(test)]
mod tests {
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
}

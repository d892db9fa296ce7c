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

pub fn suspended<T>(ask: impl FnOnce() -> T) -> T {
    let live = LIVE.lock().clone();
    if let Some(lines) = live { lines.suspend(ask) } else { ask() }
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
        for (_, line) in self.lines.extract_if(.., |lane, _| !lanes.contains_key(lane)) {
            line.finish_and_clear();
            self.all.remove(&line);
        }
        for (place, (lane, words)) in lanes.into_iter().enumerate() {
            let all = &self.all;
            let line = self.lines.entry(lane).or_insert_with(|| {
                let line = begun(all, place, "{spinner} {wide_msg}");
                line.enable_steady_tick(TICK);
                line
            });
            // One text, of which a terminal that has just become narrower is shown the beginning: nothing ever wraps.
            let elapsed = format!("{:#}", HumanDuration(line.elapsed()));
            line.set_message(format!("{} {elapsed:>4} {}", words.who, words.words));
        }
        if let Some(words) = more {
            let line = self.more.get_or_insert_with(|| begun(&self.all, self.lines.len(), "  {wide_msg}"));
            line.set_message(words);
        } else if let Some(line) = self.more.take() {
            line.finish_and_clear();
            self.all.remove(&line);
        }
    }
}

fn begun(all: &MultiProgress, place: usize, template: &str) -> ProgressBar {
    all.insert(place, ProgressBar::new_spinner().with_style(spinner(template)))
}

pub(super) fn spinner(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests;

//! The progress bar of verbs that read or write a whole store.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rondo::store::check::Progress;

use super::Style;

const REDRAWS_PER_SECOND: u8 = 8;

/// A bar on a terminal; elsewhere nothing is drawn.
pub(super) struct UpkeepBar(ProgressBar);

/// Does work of which a bar shows the progress.
pub(super) fn with_bar<T>(work: impl FnOnce(&UpkeepBar) -> T) -> T {
    let bar = UpkeepBar::new();
    let done = work(&bar);
    bar.0.finish_and_clear();
    done
}

impl UpkeepBar {
    fn new() -> Self {
        if !Style::stderr().is_terminal {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND);
        let style =
            ProgressStyle::with_template("{spinner} {wide_bar} {percent:>3}% of {human_len} entries, {eta} left");
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(125));
        Self(bar)
    }

    pub(super) fn show(&self, Progress { done, of }: Progress) {
        self.0.set_length(of.max(done));
        self.0.set_position(done);
    }

    /// Does what writes lines, above the bar.
    pub(super) fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }
}

//! The active time of a thread: the time with at least one active lane.

use rondo_protocol::object::Note;

/// The clock of one thread, driven by the times of its inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds with at least one visit in progress.
    pub active_ms: u64,
    /// Visits in progress.
    pub working: u64,
    /// Visits that wait for a person, which takes no time.
    pub waiting: u64,
    now_ms: Option<u64>,
    /// The latest end of a step, in Unix milliseconds.
    pub latest_ms: u64,
}

impl Clock {
    /// Advances to `now_ms` of a monotonic clock.
    pub fn tick(&mut self, now_ms: u64) {
        let since = self.now_ms.replace(now_ms).map_or(0, |before| now_ms.saturating_sub(before));
        if self.working > 0 {
            self.active_ms = self.active_ms.saturating_add(since);
        }
    }

    /// A visit ends, after waiting `waited_ms` for a person.
    pub fn leave(&mut self, waited_ms: u64) {
        self.working = self.working.saturating_sub(1);
        self.active_ms = self.active_ms.saturating_sub(waited_ms);
    }

    /// Adds the time of an earlier process's step; overlapping times count once.
    pub fn follow(&mut self, note: &Note) {
        let from = note.started_at_ms.max(self.latest_ms);
        self.active_ms = self.active_ms.saturating_add(note.ended_at_ms.saturating_sub(from).min(note.active_ms));
        self.latest_ms = self.latest_ms.max(note.ended_at_ms);
    }
}

//! How long a thread was worked on: the time in which at least one lane was.

use rondo_protocol::object::Note;

/// The clock of one thread, driven by the times that come in with inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds in which at least one visit was under way.
    pub active_ms: u64,
    /// Visits that are under way.
    pub working: u64,
    now_ms: Option<u64>,
    /// Of steps that are followed: the latest end.
    followed_ms: u64,
}

impl Clock {
    /// It is `now_ms` of a clock that never goes back.
    pub fn tick(&mut self, now_ms: u64) {
        let since = self.now_ms.replace(now_ms).map_or(0, |before| now_ms.saturating_sub(before));
        if self.working > 0 {
            self.active_ms = self.active_ms.saturating_add(since);
        }
    }

    /// A visit begins.
    pub fn enter(&mut self) {
        self.working += 1;
    }

    /// A visit ends, in which a person was waited for so long.
    pub fn leave(&mut self, waited_ms: u64) {
        self.working = self.working.saturating_sub(1);
        self.active_ms = self.active_ms.saturating_sub(waited_ms);
    }

    /// A step of an earlier process took its time; what lies side by side counts once.
    pub fn follow(&mut self, note: &Note) {
        let from = note.started_at_ms.max(self.followed_ms);
        self.active_ms = self.active_ms.saturating_add(note.ended_at_ms.saturating_sub(from).min(note.active_ms));
        self.followed_ms = self.followed_ms.max(note.ended_at_ms);
    }
}

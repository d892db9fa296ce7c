//! The record of writes: which are under way or have ended, for as long as a read may be under way that they touch.
//!
//! One record serves a whole process, so that a read of one thread knows of a write of another. Its laws:
//!
//! - A read that began before a write ended, or that a write has not ended for, overlaps it.
//! - A write whose future was dropped may go on for a while.
//! - It is bounded, and whatever no longer fits counts as having touched everything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dependencies::{Dependencies, WriteSet};
use parking_lot::Mutex;

const WRITES_MAX: usize = 1024;
/// How long a write may go on after its future was dropped: work on files ends within 20 s, programs are killed.
const DETACHED_FOR: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub struct WriteLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// The writes in the order in which they began. More than [`WRITES_MAX`] are all under way.
    writes: BTreeMap<u64, Write>,
    /// Reads from before this may have been overlapped by writes that are not held any more.
    blind_until: Option<Instant>,
}

#[derive(Debug)]
struct Write {
    write_set: Arc<WriteSet>,
    /// When it has ended; `None` while it is under way.
    until: Option<Instant>,
}

/// A write under way. Unless it is [ended](WriteGuard::end) it is detached when it is dropped.
#[derive(Debug)]
#[must_use = "a write that is dropped is detached"]
pub struct WriteGuard {
    record: Arc<WriteLog>,
    number: u64,
    has_ended: bool,
}

impl WriteLog {
    pub fn writing(self: &Arc<Self>, write_set: Arc<WriteSet>) -> WriteGuard {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.writes.insert(number, Write { write_set, until: None });
        state.make_room();
        WriteGuard { record: Arc::clone(self), number, has_ended: false }
    }

    /// Whether a write that touches what was read may have happened since a read began.
    pub fn overlap(&self, reading: Instant, dependencies: &Dependencies) -> bool {
        let overlapping: Vec<Arc<WriteSet>> = {
            let state = self.state.lock();
            if state.writes.len() > WRITES_MAX || state.blind_until.is_some_and(|until| reading < until) {
                return true;
            }
            let overlapping = state.writes.values().filter(|write| write.until.is_none_or(|until| reading < until));
            overlapping.map(|write| Arc::clone(&write.write_set)).collect()
        };
        overlapping.iter().any(|write_set| write_set.touches(dependencies))
    }
}

impl State {
    /// Lets the oldest writes go that are not under way, if there are too many.
    fn make_room(&mut self) {
        while self.writes.len() > WRITES_MAX {
            let oldest = self.writes.iter().find_map(|(number, write)| Some((*number, write.until?)));
            let Some((number, until)) = oldest else { return };
            self.writes.remove(&number);
            self.blind_until = self.blind_until.max(Some(until));
        }
    }
}

impl WriteGuard {
    /// The write has come to its end.
    pub fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        let mut state = self.record.state.lock();
        let until = Instant::now() + if self.has_ended { Duration::ZERO } else { DETACHED_FOR };
        if let Some(write) = state.writes.get_mut(&self.number) {
            write.until = Some(until);
        }
        state.make_room();
    }
}

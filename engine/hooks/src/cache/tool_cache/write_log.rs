//! The record of writes: which began and ended when, for as long as a read may be under way that they touch.
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
    /// Grows with every read and with every beginning and end of a write.
    tick: u64,
    writes: BTreeMap<u64, Write>,
    /// Writes under way for which there was no room.
    unheld: usize,
    /// Reads from before this tick, or before this moment, may have been overlapped by writes that are not held.
    blind_before: u64,
    blind_until: Option<Instant>,
}

#[derive(Debug)]
struct Write {
    write_set: Arc<WriteSet>,
    state: WriteState,
}

#[derive(Debug, Clone, Copy)]
enum WriteState {
    UnderWay,
    Ended(u64),
    /// Its future was dropped; it has ended by then.
    Detached(Instant),
}

/// When a read began.
#[derive(Debug, Clone, Copy)]
pub struct ReadStart {
    tick: u64,
    at: Instant,
}

/// A write under way. Unless it is [ended](WriteGuard::end) it is detached when it is dropped.
#[derive(Debug)]
#[must_use = "a write that is dropped is detached"]
pub struct WriteGuard {
    record: Arc<WriteLog>,
    /// `None` = there was no room for it.
    number: Option<u64>,
    has_ended: bool,
}

impl WriteLog {
    pub fn reading(&self) -> ReadStart {
        ReadStart { tick: self.state.lock().next(), at: Instant::now() }
    }

    pub fn writing(self: &Arc<Self>, write_set: Arc<WriteSet>) -> WriteGuard {
        let mut state = self.state.lock();
        let tick = state.next();
        let number = state.make_room().then_some(tick);
        match number {
            Some(number) => drop(state.writes.insert(number, Write { write_set, state: WriteState::UnderWay })),
            None => state.unheld = state.unheld.saturating_add(1),
        }
        drop(state);
        WriteGuard { record: Arc::clone(self), number, has_ended: false }
    }

    /// Whether a write that touches what was read may have happened since a read began.
    pub fn overlap(&self, reading: &ReadStart, dependencies: &Dependencies) -> bool {
        let overlapping: Vec<Arc<WriteSet>> = {
            let state = self.state.lock();
            let is_blind = state.unheld > 0
                || reading.tick < state.blind_before
                || state.blind_until.is_some_and(|until| reading.at < until);
            if is_blind {
                return true;
            }
            let overlapping = state.writes.values().filter(|write| write.state.overlaps(reading));
            overlapping.map(|write| Arc::clone(&write.write_set)).collect()
        };
        overlapping.iter().any(|write_set| write_set.touches(dependencies))
    }
}

impl WriteState {
    fn overlaps(self, reading: &ReadStart) -> bool {
        match self {
            Self::UnderWay => true,
            Self::Ended(tick) => tick > reading.tick,
            Self::Detached(until) => reading.at < until,
        }
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.tick = self.tick.saturating_add(1);
        self.tick
    }

    /// Lets the oldest write go that is not under way, if there is no room. Says whether there is room now.
    fn make_room(&mut self) -> bool {
        if self.writes.len() < WRITES_MAX {
            return true;
        }
        let oldest = self.writes.iter().find(|(_, write)| !matches!(write.state, WriteState::UnderWay));
        let Some((number, state)) = oldest.map(|(number, write)| (*number, write.state)) else { return false };
        self.writes.remove(&number);
        self.remove(state);
        true
    }

    fn remove(&mut self, state: WriteState) {
        match state {
            WriteState::UnderWay => {}
            WriteState::Ended(tick) => self.blind_before = self.blind_before.max(tick),
            WriteState::Detached(until) => self.blind_until = self.blind_until.max(Some(until)),
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
        let last = if self.has_ended {
            WriteState::Ended(state.next())
        } else {
            WriteState::Detached(Instant::now() + DETACHED_FOR)
        };
        if let Some(write) = self.number.and_then(|number| state.writes.get_mut(&number)) {
            write.state = last;
        } else {
            state.unheld = state.unheld.saturating_sub(1);
            state.remove(last);
        }
    }
}

//! The limiter of one subject: admits its calls in order.
//!
//! Laws:
//! - At no moment more than `concurrent` calls are under way, and in no minute more than `per_minute` are let through,
//!   except for those admitted [beyond](Limiter::enter_beyond) that.
//! - Calls are admitted in the order of their arrival. One that gives up leaves the queue, and the next moves up.
//! - The lowest number of those who hold the subject at the time is the one in force.
//!
//! [`State`] decides, given the time; the rest only waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) concurrent: Option<u64>,
    pub(super) per_minute: Option<u64>,
}

/// A limiter. Everything that waits at it waits in one line.
#[derive(Debug)]
pub(super) struct Limiter {
    state: Mutex<State>,
}

/// A hook that holds a subject with its own numbers. Dropping it takes them back.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) limiter: Arc<Limiter>,
    number: u64,
}

/// A call under way. Dropping it makes room for the next.
#[derive(Debug)]
pub(super) struct Pass {
    limiter: Arc<Limiter>,
}

/// A call would have to wait longer than it can: for this long, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong(pub(super) Duration);

impl Limiter {
    /// A limiter for a minute of that length; only tests have shorter ones.
    pub(super) fn new(minute: Duration) -> Arc<Self> {
        let state = State {
            minute,
            rates: BTreeMap::new(),
            line: VecDeque::new(),
            under_way: 0,
            starts: VecDeque::new(),
            last_hold: 0,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    pub(super) fn hold(self: &Arc<Self>, rate: Rate) -> Hold {
        let mut state = self.state.lock();
        state.last_hold += 1;
        let number = state.last_hold;
        state.rates.insert(number, rate);
        state.wake_all();
        Hold { limiter: Arc::clone(self), number }
    }

    /// Whether it is unused and holds no state.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.forget(now);
        state.rates.is_empty() && state.line.is_empty() && state.under_way == 0 && state.starts.is_empty()
    }

    /// Waits for the turn of a call that can wait for so long.
    ///
    /// # Errors
    /// [`TooLong`], as soon as it is known: at once where the calls of the last minute tell, else when it has waited.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in line.
    pub(super) async fn enter(self: &Arc<Self>, patience: Duration) -> Result<Pass, TooLong> {
        let place = QueuePosition::take(self);
        let until = Instant::now().checked_add(patience);
        loop {
            let now = Instant::now();
            let looked = self.state.lock().look(&place.moved, now);
            let wake = match looked {
                Look::Go => return Ok(Pass { limiter: Arc::clone(self) }),
                Look::NotBefore(at) if until.is_some_and(|until| at > until) => return Err(TooLong(at - now)),
                Look::NotBefore(at) => Some(at),
                Look::Later if until.is_some_and(|until| now >= until) => return Err(TooLong(patience)),
                Look::Later => until,
            };
            match wake {
                Some(at) => tokio::select! {
                    () = place.moved.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => place.moved.notified().await,
            }
        }
    }

    /// Waits for the turn of a call, at most for so long.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in line.
    pub(super) async fn enter_within(self: &Arc<Self>, patience: Duration) -> Option<Pass> {
        tokio::time::timeout(patience, self.enter(Duration::MAX)).await.ok()?.ok()
    }

    /// Lets a call through though there is no room. It counts like any other.
    pub(super) fn enter_beyond(self: &Arc<Self>) -> Pass {
        self.state.lock().begin(Instant::now());
        Pass { limiter: Arc::clone(self) }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.rates.remove(&self.number);
        state.wake_all();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.under_way = state.under_way.saturating_sub(1);
        state.wake_first();
    }
}

/// A place in line. Dropping it lets the next move up.
struct QueuePosition<'a> {
    limiter: &'a Limiter,
    moved: Waiting,
}

impl<'a> QueuePosition<'a> {
    fn take(limiter: &'a Limiter) -> Self {
        let moved = Waiting::default();
        limiter.state.lock().line.push_back(Arc::clone(&moved));
        Self { limiter, moved }
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.line.retain(|waiting| !Arc::ptr_eq(waiting, &self.moved));
        state.wake_first();
    }
}

#[derive(Debug)]
struct State {
    minute: Duration,
    /// What those who hold the subject ask for.
    rates: BTreeMap<u64, Rate>,
    line: VecDeque<Waiting>,
    under_way: u64,
    /// When the calls of the last minute were admitted, oldest first; at most as many as a minute may have.
    starts: VecDeque<Instant>,
    last_hold: u64,
}

/// One in line: what wakes it, which is its own.
type Waiting = Arc<Notify>;

/// What a call in line does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Admits it: it is under way from now.
    Go,
    /// It waits at least until then.
    NotBefore(Instant),
    Later,
}

impl State {
    fn rate(&self) -> Rate {
        let lowest = |of: fn(&Rate) -> Option<u64>| self.rates.values().filter_map(of).min();
        Rate { concurrent: lowest(|rate| rate.concurrent), per_minute: lowest(|rate| rate.per_minute) }
    }

    fn forget(&mut self, now: Instant) {
        let is_over = |start: &Instant| now.saturating_duration_since(*start) >= self.minute;
        let over = self.starts.iter().take_while(|start| is_over(start)).count();
        self.starts.drain(..over);
    }

    fn begin(&mut self, now: Instant) {
        self.under_way = self.under_way.saturating_add(1);
        self.forget(now);
        let Some(most) = self.rate().per_minute else { return };
        // Of those that were let through beyond the number, the last ones decide when there is room again.
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.starts.push_back(now);
        let over = self.starts.len().saturating_sub(most);
        self.starts.drain(..over);
    }

    fn look(&mut self, waiting: &Waiting, now: Instant) -> Look {
        self.forget(now);
        let Rate { concurrent, per_minute } = self.rate();
        let place = self.line.iter().position(|other| Arc::ptr_eq(other, waiting)).unwrap_or(0);
        let earliest = per_minute.and_then(|most| self.earliest(place, most, now)).filter(|at| *at > now);
        match earliest {
            Some(at) => Look::NotBefore(at),
            None if place == 0 && concurrent.is_none_or(|most| self.under_way < most) => {
                self.line.retain(|other| !Arc::ptr_eq(other, waiting));
                self.begin(now);
                self.wake_first();
                Look::Go
            }
            None => Look::Later,
        }
    }

    /// When the call at that place in line can be let through at the earliest, with so many in a minute: a minute after
    /// the one that many before it. `None` = as soon as those before it are through.
    fn earliest(&self, place: usize, most: u64, now: Instant) -> Option<Instant> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        let known = self.starts.len();
        let at = known.saturating_add(place);
        if at < most {
            return None;
        }
        // As many whole minutes back as lead to a start that is known, or to a call that continues now.
        let first = known.max(most);
        let minutes = (at - first) / most + 1;
        let from = self.starts.get(at - minutes * most).copied().unwrap_or(now);
        let wait = self.minute.checked_mul(u32::try_from(minutes).unwrap_or(u32::MAX)).unwrap_or(Duration::MAX);
        // What lies beyond the clock's end is never.
        Some(from.checked_add(wait).unwrap_or(now + NEVER))
    }

    fn wake_first(&self) {
        if let Some(first) = self.line.front() {
            first.notify_one();
        }
    }

    fn wake_all(&self) {
        for waiting in &self.line {
            waiting.notify_one();
        }
    }
}

/// Longer than any call waits.
const NEVER: Duration = Duration::from_hours(365 * 24);

#[cfg(test)]
pub(super) mod tests {
    //! The line without the waiting.

    use super::*;

    /// A call was admitted then.
    pub fn begin(limiter: &Limiter, at: Instant) {
        limiter.state.lock().begin(at);
    }

    /// When each of so many calls in line can be admitted at the earliest.
    pub fn told(limiter: &Arc<Limiter>, line: usize, now: Instant) -> Vec<Instant> {
        let places: Vec<QueuePosition<'_>> = (0..line).map(|_| QueuePosition::take(limiter)).collect();
        let mut state = limiter.state.lock();
        state.forget(now);
        let most = state.rate().per_minute.unwrap();
        let told = (0..line).map(|place| state.earliest(place, most, now).unwrap_or(now).max(now)).collect();
        drop(state);
        drop(places);
        told
    }

    /// When each of them is admitted, if it is checked whenever something may have changed.
    pub fn went(limiter: &Arc<Limiter>, line: usize, mut now: Instant) -> Vec<Instant> {
        let places: Vec<QueuePosition<'_>> = (0..line).map(|_| QueuePosition::take(limiter)).collect();
        let mut went = Vec::new();
        for place in &places {
            loop {
                let looked = limiter.state.lock().look(&place.moved, now);
                match looked {
                    Look::Go => break went.push(now),
                    Look::NotBefore(at) => now = at,
                    Look::Later => unreachable!("only the number in a minute is limited"),
                }
            }
        }
        went
    }
}

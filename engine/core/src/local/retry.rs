//! When a failed attempt is repeated, and until when.

use std::time::Duration;

use tokio::sync::watch;

use rondo_protocol::call::{Fault, FaultClass, ReachedLimit};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::Retry;
use tokio::time::Instant;

/// The longest pause between two attempts, even if a provider asks for more.
pub const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The time a step spends waiting for people, or for the memory of other replies. It counts towards no limit: deadlines
/// with it are extended.
#[derive(Debug, Clone)]
pub struct Waits(watch::Sender<Waited>);

#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    /// The total of ended waits.
    total: Duration,
    /// How many are waiting now, and since when.
    now: Option<(u32, Instant)>,
}

impl Waited {
    fn total(&self) -> Duration {
        self.total + self.now.map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }
}

impl Default for Waits {
    fn default() -> Self {
        Self(watch::Sender::new(Waited::default()))
    }
}

impl Waits {
    /// Starts a wait, which ends when the returned guard is dropped.
    pub fn begin(&self) -> Waiting<'_> {
        self.0.send_modify(|waited| match &mut waited.now {
            Some((count, _)) => *count += 1,
            None => waited.now = Some((1, Instant::now())),
        });
        Waiting(self)
    }

    pub fn total(&self) -> Duration {
        self.0.borrow().total()
    }
}

/// A wait.
#[derive(Debug)]
pub struct Waiting<'w>(&'w Waits);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|waited| match waited.now {
            Some((count, since)) if count > 1 => waited.now = Some((count - 1, since)),
            _ => {
                waited.total = waited.total();
                waited.now = None;
            }
        });
    }
}

/// The deadline of a step or a call.
#[derive(Debug, Clone)]
pub struct Deadline {
    at: Option<Instant>,
    limit: Limit,
    waits: Option<Waits>,
}

/// The limit behind a deadline. Its message is only built after it has passed.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Step(Duration),
    Call(Duration),
    WallTime(Duration),
}

impl Limit {
    fn fault(self) -> Fault {
        match self {
            Self::Step(limit) => {
                let message = format!("the step took longer than its timeout of {limit:?}");
                Fault::new(Code::StepTimeout, FaultClass::Timeout, message)
            }
            Self::Call(limit) => {
                let message = format!("the call took longer than the total timeout of {limit:?}");
                Fault::new(Code::StepTimeout, FaultClass::Timeout, message)
            }
            Self::WallTime(limit) => {
                let message = format!("the thread reached its limit of {} ms wall time", limit.as_millis());
                let needed = limit.as_secs_f64() * 1000.0 + 1.0;
                let limit = ReachedLimit { key: "wall_time", role: None, is_of_thread: true, needed };
                Fault::of_limit(Code::ThreadLimit, limit, message)
            }
        }
    }
}

impl Deadline {
    fn after(ms: Option<u64>, limit: Limit) -> Self {
        let at = ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        Self { at, limit, waits: None }
    }

    /// This deadline, extended by the time that `waits` counts from now on.
    #[must_use]
    pub fn without(self, waits: &Waits) -> Self {
        // What was waited for before is in the total that `end` adds.
        let at = self.at.map(|at| at.checked_sub(waits.total()).unwrap_or(at));
        Self { at, waits: Some(waits.clone()), ..self }
    }

    pub fn of_step(limit_ms: Option<u64>) -> Self {
        Self::after(limit_ms, Limit::Step(Duration::from_millis(limit_ms.unwrap_or(0))))
    }

    /// The deadline of a call with the limit `limit_ms`, including all attempts.
    pub fn of_call(limit_ms: Option<u64>) -> Self {
        Self::after(limit_ms, Limit::Call(Duration::from_millis(limit_ms.unwrap_or(0))))
    }

    /// The deadline of a thread with the limit `limit_ms`, of which `left_ms` are left.
    pub fn of_thread(left_ms: Option<u64>, limit_ms: Option<u64>) -> Self {
        Self::after(left_ms, Limit::WallTime(Duration::from_millis(limit_ms.unwrap_or(0))))
    }

    #[must_use]
    pub fn or_earlier(self, other: Self) -> Self {
        match (self.end(), other.end()) {
            (Some(mine), Some(its)) if its < mine => other,
            (None, Some(_)) => other,
            _ => self,
        }
    }

    pub fn left(&self) -> Duration {
        self.end().map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    fn end(&self) -> Option<Instant> {
        let waited = self.waits.as_ref().map_or(Duration::ZERO, Waits::total);
        self.at.and_then(|at| at.checked_add(waited))
    }

    /// The fault for the passed deadline.
    pub fn fault(&self) -> Fault {
        self.limit.fault()
    }

    /// Waits until it has passed, and returns its fault; waits forever if there is no deadline.
    pub async fn passed(&self) -> Fault {
        let mut news = self.waits.as_ref().map(|waits| waits.0.subscribe());
        loop {
            let Some(at) = self.end() else { std::future::pending().await };
            let is_waiting = news.as_mut().is_some_and(|news| news.borrow_and_update().now.is_some());
            let changed = async {
                match &mut news {
                    // The sender lives as long as the deadline.
                    Some(news) => drop(news.changed().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(at), if !is_waiting => return self.fault(),
            }
        }
    }
}

/// Whether another attempt at the same model may help.
pub fn is_worth_another(fault: &Fault, retry: &Retry) -> bool {
    retry.faults.contains(&fault.class)
}

/// Whether another model may help. A reply that is too large was paid for, and would be as large again.
pub fn is_worth_another_model(fault: &Fault) -> bool {
    fault.code != Code::ReplyTooLarge
        && matches!(
            fault.class,
            FaultClass::RateLimit
                | FaultClass::Server
                | FaultClass::Timeout
                | FaultClass::Network
                | FaultClass::Refused
        )
}

/// How many attempts a call makes when each of them ends in `fault`, with `fallbacks` other models to ask.
pub fn attempts_of(fault: &Fault, retry: &Retry, fallbacks: usize) -> usize {
    let of_one_model = if is_worth_another(fault, retry) { retry.attempts.max(1) } else { 1 };
    let models = if is_worth_another_model(fault) { 1 + fallbacks } else { 1 };
    usize::try_from(of_one_model).unwrap_or(usize::MAX).saturating_mul(models)
}

/// The delay before attempt number `next` (1 for the second): `backoff` doubled for each further attempt, half of it
/// random, or what the provider asks for; at most [`MAX_PAUSE`].
pub fn pause(retry: &Retry, next: u32, fault: &Fault, random: u128) -> Duration {
    let longest = Duration::from_millis(retry.backoff_ms)
        .saturating_mul(1_u32.checked_shl(next.saturating_sub(1)).unwrap_or(u32::MAX))
        .min(MAX_PAUSE);
    let half = longest / 2;
    // 16 random bits are enough to spread the clients of one provider.
    let share = u32::from(u16::try_from(random & 0xffff).unwrap_or(0));
    let jittered = half + half.saturating_mul(share) / 0xffff;
    match fault.retry_after_ms {
        Some(asked) => Duration::from_millis(asked).min(MAX_PAUSE).max(jittered),
        None => jittered,
    }
}

#[cfg(test)]
mod tests;

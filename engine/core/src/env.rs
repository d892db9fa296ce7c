//! Time, ids and randomness of a run. Waiting uses tokio, so that a test can pause it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rondo_protocol::id::ThreadId;

/// A source of time, ids and randomness.
pub trait Env: Send + Sync {
    /// Unix milliseconds, for notes and events.
    fn now_ms(&self) -> u64;

    /// Milliseconds since a fixed moment, monotonic: for deadlines and durations.
    fn elapsed_ms(&self) -> u64;

    /// 128 random bits.
    fn random(&self) -> u128;

    /// A new thread's id.
    fn thread_id(&self) -> ThreadId {
        ThreadId::from_parts(self.now_ms(), self.random())
    }

    /// A new thread's id that sorts after `earlier`, also if both are drawn in one millisecond or the clock was set
    /// back.
    fn thread_id_after(&self, earlier: &ThreadId) -> ThreadId {
        let drawn = self.thread_id();
        if drawn > *earlier { drawn } else { ThreadId::from_parts(earlier.unix_ms() + 1, self.random()) }
    }
}

/// The system's clock and random numbers.
#[derive(Debug)]
pub struct SystemEnv {
    started: Instant,
}

impl Default for SystemEnv {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Env for SystemEnv {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u128 {
        let mut bytes = [0_u8; 16];
        // Without the system's random numbers two ids of one millisecond could collide; the clock's nanoseconds are
        // the best alternative.
        if getrandom::fill(&mut bytes).is_err() {
            return SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        }
        u128::from_le_bytes(bytes)
    }
}

/// A clock that moves only on request, with ids and random numbers from a seed: equal runs give equal events.
#[derive(Debug)]
pub struct SeededEnv {
    now_ms: AtomicU64,
    seed: u64,
    drawn: AtomicU64,
}

impl SeededEnv {
    /// An environment whose clock starts at `now_ms`.
    pub fn new(now_ms: u64, seed: u64) -> Self {
        Self { now_ms: AtomicU64::new(now_ms), seed, drawn: AtomicU64::new(0) }
    }

    /// Moves the clock.
    pub fn advance(&self, duration: Duration) {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.now_ms.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

/// `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Env for SeededEnv {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn elapsed_ms(&self) -> u64 {
        self.now_ms()
    }

    fn random(&self) -> u128 {
        let draw = self.drawn.fetch_add(2, Ordering::Relaxed);
        let state = self.seed.wrapping_add(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        u128::from(split_mix(state)) << 64 | u128::from(split_mix(state.wrapping_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_drawn_after_another_of_the_same_millisecond() {
        let env = SeededEnv::new(1_700_000_000_000, 7);
        let earlier = ThreadId::from_parts(1_700_000_000_000, u128::MAX);
        let (one, other) = (env.thread_id_after(&earlier), env.thread_id_after(&earlier));
        assert!(one > earlier && other > earlier && one != other, "{earlier} {one} {other}");
    }
}

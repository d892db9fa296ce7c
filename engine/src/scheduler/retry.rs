//! When an attempt that failed is repeated, and until when.

use std::time::Duration;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::{Retry, RetryFault};
use tokio::time::Instant;

/// The longest pause between two attempts, whatever a provider asks for.
pub const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Until when a step or a call may take.
#[derive(Debug, Clone)]
pub struct Deadline {
    at: Option<Instant>,
    fault: Fault,
}

impl Deadline {
    /// A deadline after `limit_ms`, or none. When it passes, the fault is `fault`.
    pub fn after(limit_ms: Option<u64>, fault: Fault) -> Self {
        Self { at: limit_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))), fault }
    }

    /// The deadline of a step that may take `limit_ms`.
    pub fn of_step(limit_ms: Option<u64>) -> Self {
        let limit = Duration::from_millis(limit_ms.unwrap_or(0));
        let message = format!("the step took longer than its timeout of {limit:?}");
        Self::after(limit_ms, Fault::new(Code::StepTimeout, FaultClass::Timeout, message))
    }

    /// The earlier of the two.
    #[must_use]
    pub fn or_earlier(self, other: Self) -> Self {
        match (self.at, other.at) {
            (Some(mine), Some(its)) if its < mine => other,
            (None, Some(_)) => other,
            _ => self,
        }
    }

    /// How long it is until then.
    pub fn left(&self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    /// What it means that it has passed.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Waits until it has passed, and gives its fault; for ever if there is none.
    pub async fn passed(&self) -> Fault {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.fault.clone()
    }
}

/// Whether another attempt at the same model may cure `fault`.
pub fn is_worth_another(fault: &Fault, retry: &Retry) -> bool {
    let kind = match fault.class {
        FaultClass::RateLimit => RetryFault::RateLimit,
        FaultClass::Server => RetryFault::Server,
        FaultClass::Timeout => RetryFault::Timeout,
        FaultClass::Network => RetryFault::Network,
        _ => return false,
    };
    retry.faults.contains(&kind)
}

/// Whether another model may be had where this one could not.
pub fn is_worth_another_model(fault: &Fault) -> bool {
    matches!(
        fault.class,
        FaultClass::RateLimit | FaultClass::Server | FaultClass::Timeout | FaultClass::Network | FaultClass::Refused
    )
}

/// How long to wait before attempt number `next` (1 for the second): `backoff` doubled for each further attempt, half
/// of it random, or what the provider asked for; at most [`MAX_PAUSE`].
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
mod tests {
    use super::*;

    fn fault(retry_after_ms: Option<u64>) -> Fault {
        Fault { retry_after_ms, ..Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "busy") }
    }

    #[test]
    fn pauses_double_within_their_jitter_and_never_pass_the_ceiling() {
        let retry = Retry { attempts: 9, backoff_ms: 1000, faults: Vec::new() };
        for (next, low, high) in [(1, 500, 1000), (2, 1000, 2000), (4, 4000, 8000), (40, 30_000, 60_000)] {
            assert_eq!(pause(&retry, next, &fault(None), 0).as_millis(), low);
            assert_eq!(pause(&retry, next, &fault(None), u128::MAX).as_millis(), high);
        }
    }

    #[test]
    fn what_a_provider_asks_for_is_clamped() {
        let retry = Retry::default();
        assert_eq!(pause(&retry, 1, &fault(Some(7_000)), 0), Duration::from_secs(7));
        assert_eq!(pause(&retry, 1, &fault(Some(86_400_000)), 0), MAX_PAUSE);
    }
}

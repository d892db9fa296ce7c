//! Stops a visit: first no call begins any more, then those in flight are broken off. A tool that has started an effect
//! gets time to end.

use std::time::Duration;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use tokio_util::sync::CancellationToken;

use super::visit::VisitContext;

/// How long a tool that has started an effect may take to end when its visit stops.
const EFFECT_GRACE: Duration = Duration::from_millis(1_500);

/// What stops a visit.
#[derive(Debug, Clone)]
pub(super) struct VisitStop {
    /// No call begins any more; those in flight run to their end.
    pub(super) drain: CancellationToken,
    /// Breaks off what is in flight.
    pub(super) cancel: CancellationToken,
}

impl VisitStop {
    /// # Errors
    /// If no call may begin.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.drain.is_cancelled() { Err(cancelled()) } else { Ok(()) }
    }
}

/// Runs `work` until it ends, the visit is cancelled or its deadline passes. A tool that has started an effect gets
/// [`EFFECT_GRACE`] to end, so that its effect is not in doubt.
pub(super) async fn until_stopped<T>(
    context: &VisitContext<'_>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut work = std::pin::pin!(work);
    let fault = tokio::select! {
        biased;
        () = context.stop.cancel.cancelled() => cancelled(),
        result = &mut work => return result,
        fault = context.deadline.passed() => fault,
    };
    context.stop.drain.cancel();
    if !context.hook_notes.has_effect_under_way() {
        return Err(fault);
    }
    let ended = async {
        tokio::select! {
            biased;
            result = &mut work => result,
            () = context.hook_notes.no_effect_under_way() => Err(cancelled()),
        }
    };
    let ended = tokio::time::timeout(EFFECT_GRACE, ended).await.unwrap_or_else(|_| Err(cancelled()));
    ended.map_err(|ended| if ended.class == FaultClass::Cancelled { fault } else { ended })
}

pub(super) fn cancelled() -> Fault {
    Fault::new(Code::Interrupted, FaultClass::Cancelled, "the run was told to stop; the thread can be resumed")
}

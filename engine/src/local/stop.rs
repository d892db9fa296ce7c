//! Stops a visit. A tool that has started an effect gets time to end.

use std::time::Duration;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;

use super::visit::VisitContext;

/// How long a tool that has started an effect may take to end when its visit stops.
const EFFECT_GRACE: Duration = Duration::from_millis(1_500);

/// Runs `work` until it ends, the visit is cancelled or its deadline passes. A tool that has started an effect gets
/// [`EFFECT_GRACE`] to end, so that its effect is not in doubt.
pub(super) async fn until_stopped<T>(
    context: &VisitContext<'_>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => {}
        result = &mut work => return result,
        fault = context.deadline.passed() => return Err(fault),
    }
    if context.hook_notes.effects_under_way() > 0 {
        let ended = async {
            tokio::select! {
                biased;
                result = &mut work => result,
                () = context.hook_notes.no_effect_under_way() => Err(cancelled()),
            }
        };
        return tokio::time::timeout(EFFECT_GRACE, ended).await.unwrap_or_else(|_| Err(cancelled()));
    }
    Err(cancelled())
}

pub(super) fn cancelled() -> Fault {
    Fault::new(Code::Interrupted, FaultClass::Cancelled, "the run was told to stop; the thread can be resumed")
}

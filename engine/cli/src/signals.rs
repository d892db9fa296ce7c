//! SIGINT and SIGTERM: the first drains, the second stops at once.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rondo::protocol::diagnostic::Code;
use rondo::tell::tell;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Exit, Failure};

/// How long calls in progress may take to end after the first signal.
const DRAIN: Duration = Duration::from_secs(10);

const STOPPING: &str = "\nstopping; calls in flight have 7 s to end; once more stops at once\n";

/// Runs what signals stop.
pub fn with_signals<T>(work: impl AsyncFnOnce(Signals) -> Result<T, Failure>) -> Result<T, Failure> {
    let runtime = super::runtime()?;
    let done = runtime.block_on(async { work(Signals::listen(STOPPING)?).await });
    // A hanging call must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(200));
    done
}

#[derive(Debug, Clone, Default)]
pub struct Signals {
    pub stop: CancellationToken,
    first: Arc<OnceLock<Exit>>,
}

impl Signals {
    /// Starts listening, and tells `notice` at the first signal. Must be called within a runtime.
    pub fn listen(notice: &'static str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(Code::InternalFault, format!("signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let signals = Self::default();
        let received = signals.clone();
        tokio::spawn(async move {
            let first = next(&mut interrupt, &mut terminate).await;
            let _ = received.first.set(first);
            received.stop.cancel();
            tell(notice);
            let second = tokio::select! {
                second = next(&mut interrupt, &mut terminate) => second,
                () = tokio::time::sleep(DRAIN) => first,
            };
            super::end_process(second.code());
        });
        Ok(signals)
    }

    pub fn exit(&self) -> Option<Exit> {
        self.first.get().copied()
    }
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> Exit {
    tokio::select! {
        _ = interrupt.recv() => Exit::Interrupted,
        _ = terminate.recv() => Exit::Terminated,
    }
}

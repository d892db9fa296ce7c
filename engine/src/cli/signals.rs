//! SIGINT and SIGTERM: the first drains, the second stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::Failure;
use super::output::tell;

/// How long a drain may take.
const DRAIN: Duration = Duration::from_secs(10);

/// What signals have told this process.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Cancelled by the first signal.
    pub stop: CancellationToken,
    first: Arc<AtomicU8>,
}

impl Signals {
    /// Listens from now on; called within a runtime.
    ///
    /// # Errors
    /// When the system gives no handler.
    pub fn listen() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(Code::InternalFault, format!("signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let signals = Self::default();
        let told = signals.clone();
        tokio::spawn(async move {
            let first = next(&mut interrupt, &mut terminate).await;
            told.first.store(first.code(), Ordering::SeqCst);
            told.stop.cancel();
            tell("\nstopping; once more stops at once\n");
            let second = tokio::select! {
                second = next(&mut interrupt, &mut terminate) => second,
                () = tokio::time::sleep(DRAIN) => first,
            };
            // What was acknowledged is safe however the process ends.
            std::process::exit(i32::from(second.code()));
        });
        Ok(signals)
    }

    /// The exit of a run that a signal stopped.
    pub fn exit(&self) -> Option<Exit> {
        Exit::of_code(self.first.load(Ordering::SeqCst)).filter(|exit| *exit != Exit::Done)
    }
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> Exit {
    tokio::select! {
        _ = interrupt.recv() => Exit::Interrupted,
        _ = terminate.recv() => Exit::Terminated,
    }
}

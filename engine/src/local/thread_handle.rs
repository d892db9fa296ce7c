//! Threads that run in this process, and how each is stopped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::hub::Subscription;
use super::{Ended, Engine};
use crate::shared_store::SharedStore;
use crate::thread::Ending;

/// The threads that run in this process.
#[derive(Default)]
pub(crate) struct Running(Mutex<BTreeMap<ThreadId, Stopper>>);

impl Running {
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<ThreadId, Stopper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a thread for good, if it runs here.
    pub(crate) fn cancel(&self, thread: &ThreadId) {
        let stopper = self.all().get(thread).cloned();
        if let Some(stopper) = stopper {
            stopper.cancel();
        }
    }
}

/// Tells a running thread to stop.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    pub(super) cancel: CancellationToken,
    pub(super) for_good: Arc<AtomicBool>,
    /// Cancelled when the run has ended.
    pub(super) ended: CancellationToken,
}

impl Stopper {
    /// Stops the run; the thread can be resumed.
    pub fn stop(&self) {
        self.cancel.cancel();
    }

    /// Ends the thread for good.
    pub fn cancel(&self) {
        self.for_good.store(true, Ordering::SeqCst);
        self.cancel.cancel();
    }
}

/// A thread that runs.
pub struct ThreadHandle {
    /// Which.
    pub thread: ThreadId,
    /// What happens, in order. Ends with the run.
    pub events: Subscription,
    /// Tells it to stop.
    pub stopper: Stopper,
    pub(super) task: JoinHandle<Ended>,
}

impl ThreadHandle {
    /// Waits until the run has ended, and drops its remaining events.
    pub async fn ended(mut self) -> Ended {
        self.events.close();
        match self.task.await {
            Ok(ended) => ended,
            Err(error) => Ended::Stopped(Fault::new(
                Code::Interrupted,
                FaultClass::Cancelled,
                format!("the run broke off ({error}); the thread can be resumed"),
            )),
        }
    }
}

/// What `resume` found.
pub enum Resumed {
    /// The thread goes on.
    Running(ThreadHandle),
    /// It had ended before.
    Ended {
        /// How.
        ending: Ending,
        /// The digest of its last step.
        head: Option<Digest>,
    },
}

/// What `cancel` came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The thread has ended.
    Ended {
        /// How.
        ending: Ending,
        /// The digest of its last step.
        head: Option<Digest>,
    },
    /// Its run is stopping and has not ended yet.
    Stopping,
}

/// Takes a thread off the list of those that run, however its run ends.
pub(super) struct RunningEntry {
    pub(super) engine: Engine,
    pub(super) thread: ThreadId,
    // Let go after the thread is off the list.
    pub(super) _driven: DriveLease,
}

/// A thread that this process drives, for as long as this lives.
pub(super) struct DriveLease {
    pub(super) shared: Option<SharedStore>,
    pub(super) thread: ThreadId,
}

impl Drop for DriveLease {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.let_go(&self.thread);
        }
    }
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.engine.parts.hub.close(&self.thread);
        let stopper = self.engine.parts.running.all().remove(&self.thread);
        if let Some(stopper) = stopper {
            stopper.ended.cancel();
        }
    }
}

//! Threads that run in this process, and how to stop them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::hub::Subscription;
use super::reply_memory::ResultMemory;
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
        self.stop(thread, StopKind::ForGood);
    }

    /// Stops the run of a thread that another process has taken over, without writing its row.
    pub(crate) fn abandon(&self, thread: &ThreadId) {
        self.stop(thread, StopKind::Abandon);
    }

    fn stop(&self, thread: &ThreadId, kind: StopKind) {
        let stopper = self.all().get(thread).cloned();
        if let Some(stopper) = stopper {
            stopper.stop_as(kind);
        }
    }
}

/// How a run stops when it is told to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopKind {
    /// The thread can be resumed.
    #[default]
    Resumable,
    /// The thread ends.
    ForGood,
    /// Another process has taken the thread over: this one writes nothing more.
    Abandon,
}

/// Stops a running thread.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    pub(super) cancel: CancellationToken,
    kind: Arc<Mutex<StopKind>>,
    /// Cancelled when the run has ended.
    pub(super) ended: CancellationToken,
}

impl Stopper {
    /// Stops the run; the thread can be resumed.
    pub fn stop(&self) {
        self.stop_as(StopKind::Resumable);
    }

    /// Ends the thread for good.
    pub fn cancel(&self) {
        self.stop_as(StopKind::ForGood);
    }

    /// How the run stops: the strongest of what it was told.
    pub(super) fn kind(&self) -> StopKind {
        *self.kind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_as(&self, kind: StopKind) {
        let mut told = self.kind.lock().unwrap_or_else(PoisonError::into_inner);
        *told = kind.max(*told);
        drop(told);
        self.cancel.cancel();
    }
}

/// A running thread.
pub struct ThreadHandle {
    /// The thread.
    pub thread: ThreadId,
    /// Its events, in order. Ends with the run.
    pub events: Subscription,
    /// Stops it.
    pub stopper: Stopper,
    pub(super) task: JoinHandle<(Ended, ResultMemory)>,
}

impl ThreadHandle {
    /// Waits until the run has ended, and drops its remaining events.
    pub async fn ended(mut self) -> Ended {
        self.events.close();
        match self.task.await {
            Ok((ended, _)) => ended,
            Err(error) => Ended::Stopped(Fault::new(
                Code::Interrupted,
                FaultClass::Cancelled,
                format!("the run broke off ({error}); the thread can be resumed"),
            )),
        }
    }
}

/// The result of `resume`.
pub enum Resumed {
    /// The thread continues.
    Running(ThreadHandle),
    /// It had already ended.
    Ended {
        /// Its ending.
        ending: Ending,
        /// The digest of its last step.
        head: Option<Digest>,
    },
}

/// The result of `cancel`.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The thread has ended.
    Ended {
        /// Its ending.
        ending: Ending,
        /// The digest of its last step.
        head: Option<Digest>,
    },
    /// Its run is stopping and has not ended yet.
    Stopping,
}

/// Removes a thread from the list of running threads when dropped, however its run ends.
pub(super) struct RunningEntry {
    pub(super) engine: Engine,
    pub(super) thread: ThreadId,
    // Dropped after the thread is off the list.
    pub(super) _driven: DriveLease,
}

/// Marks a thread as driven by this process, until dropped.
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

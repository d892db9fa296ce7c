//! Threads that run in this process, and how to stop them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::hub::Subscription;
use super::reply_memory::ResultMemory;
use super::{Ended, Engine, Error};
use crate::store::ThreadDrivers;
use crate::thread::Ending;

/// The threads that run in this process.
#[derive(Default)]
pub struct Running {
    /// The threads that this process drives, each with what stops its run; `None` while it is about to run.
    driven: Mutex<BTreeMap<ThreadId, Option<Stopper>>>,
}

impl Running {
    /// What stops each thread that runs here.
    pub(super) fn stoppers(&self) -> Vec<Stopper> {
        self.driven.lock().values().flatten().cloned().collect()
    }

    /// What stops a thread, if it runs here.
    pub(super) fn stopper(&self, thread: &ThreadId) -> Option<Stopper> {
        self.driven.lock().get(thread).cloned().flatten()
    }

    /// The run of a thread that this process drives begins.
    pub(super) fn begin(&self, thread: &ThreadId, stopper: Stopper) {
        self.driven.lock().insert(thread.clone(), Some(stopper));
    }

    pub(super) fn driven(&self) -> BTreeSet<ThreadId> {
        self.driven.lock().keys().cloned().collect()
    }

    /// Ends a thread for good, if it runs here.
    pub fn cancel(&self, thread: &ThreadId) {
        self.stop(thread, StopKind::ForGood);
    }

    /// Stops the run of a thread that another process has taken over, without writing its row.
    pub fn abandon(&self, thread: &ThreadId) {
        self.stop(thread, StopKind::Abandon);
    }

    pub(super) fn stop(&self, thread: &ThreadId, kind: StopKind) {
        if let Some(stopper) = self.stopper(thread) {
            stopper.stop_as(kind);
        }
    }
}

/// How a run stops when it is told to. The strongest counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopKind {
    /// It was not told to.
    #[default]
    Going,
    /// No call begins any more, and those in flight run to their end. The thread can be resumed.
    Draining,
    /// The same, but what is still in flight after [`DRAIN`] is broken off.
    Resumable,
    /// Everything is broken off now. The thread can be resumed.
    AtOnce,
    /// The thread ends.
    ForGood,
    /// Another process has taken the thread over: this one writes nothing more.
    Abandon,
}

/// How long calls in flight have to end once a run was told to stop. A tool with an effect gets a little more, and the
/// process ends after ten seconds.
pub(super) const DRAIN: Duration = Duration::from_secs(7);

/// Stops a running thread.
#[derive(Debug, Clone, Default)]
pub struct Stopper {
    /// Breaks everything off.
    pub(super) cancel: CancellationToken,
    told: watch::Sender<StopKind>,
    /// Cancelled when the run has ended.
    pub(super) ended: CancellationToken,
}

impl Stopper {
    /// Stops the run; the thread can be resumed. Calls in flight have seven seconds to end, so that what is paid for is
    /// kept; no other begins.
    pub fn stop(&self) {
        self.stop_as(StopKind::Resumable);
    }

    /// Stops the run at once; the thread can be resumed. Model calls in flight are lost.
    pub fn stop_at_once(&self) {
        self.stop_as(StopKind::AtOnce);
    }

    /// Ends the thread for good.
    pub fn cancel(&self) {
        self.stop_as(StopKind::ForGood);
    }

    /// Ready once the run is told to stop.
    pub async fn is_told(&self) {
        // The sender is this stopper's own.
        let _ = self.told.subscribe().wait_for(|told| *told != StopKind::Going).await;
    }

    /// How the run stops: the strongest of what it was told.
    pub(super) fn kind(&self) -> StopKind {
        *self.told.borrow()
    }

    /// What the run is told from now on.
    pub(super) fn told(&self) -> watch::Receiver<StopKind> {
        let mut told = self.told.subscribe();
        told.mark_changed();
        told
    }

    pub(super) fn stop_as(&self, kind: StopKind) {
        self.told.send_modify(|told| *told = kind.max(*told));
        if kind >= StopKind::AtOnce {
            self.cancel.cancel();
        }
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
    },
}

/// The result of `cancel`.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The thread has ended.
    Ended,
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
    drivers: Option<Arc<dyn ThreadDrivers>>,
    running: Arc<Running>,
    thread: ThreadId,
}

impl DriveLease {
    /// Claims a thread that neither another process nor this one drives.
    ///
    /// # Errors
    /// [`Error::Running`], or an error of the store.
    pub(super) fn of(
        drivers: Option<Arc<dyn ThreadDrivers>>,
        running: Arc<Running>,
        thread: &ThreadId,
    ) -> Result<Self, Error> {
        match running.driven.lock().entry(thread.clone()) {
            Entry::Occupied(_) => return Err(Error::Running { thread: thread.clone() }),
            Entry::Vacant(place) => place.insert(None),
        };
        let is_ours = drivers.as_ref().map_or(Ok(true), |drivers| drivers.drive(thread));
        if !matches!(is_ours, Ok(true)) {
            running.driven.lock().remove(thread);
            is_ours?;
            return Err(Error::Running { thread: thread.clone() });
        }
        Ok(Self { drivers, running, thread: thread.clone() })
    }
}

impl Drop for DriveLease {
    fn drop(&mut self) {
        if let Some(drivers) = &self.drivers {
            drivers.release(&self.thread);
        }
        self.running.driven.lock().remove(&self.thread);
    }
}

/// The sole right to a name among the processes with one store, until dropped.
pub struct Reservation {
    pub(super) _lease: DriveLease,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        self.engine.parts.hub.close(&self.thread);
        let stopper = self.engine.parts.running.driven.lock().get_mut(&self.thread).and_then(Option::take);
        if let Some(stopper) = stopper {
            stopper.ended.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_driven_once_at_a_time() {
        let (running, thread) = (Arc::<Running>::default(), ThreadId::from_parts(1, 2));
        let lease = || DriveLease::of(None, Arc::clone(&running), &thread);
        let first = lease().ok();
        assert!(first.is_some() && matches!(lease(), Err(Error::Running { .. })));
        drop(first);
        assert!(lease().is_ok());
    }
}

//! The writer: every write of a store goes through one loop, on the calling thread or on the writer's thread.
//!
//! Laws. Writes are made in the order of the calls. Commits and synced records that wait at the same time form one
//! batch with one sync; each is checked against the stored row and against those before it in the batch, and a loser
//! is left out while the others continue. Nothing is acknowledged before the sync of its batch. A batch that fails is
//! *unknown*: all its callers get that error, nothing is retried, and the store accepts nothing until it is reopened.
//! Before each batch the anchor is read back: a displaced writer stops.
//!
//! A caller that submits a write while no other is waiting makes it on its own thread, which saves two wake-ups across
//! cores. All others leave it to the writer's thread. The queue is bounded in number and in bytes.

mod queue;
mod writer_loop;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use futures_util::future::{self, BoxFuture};
use tokio::sync::oneshot;

use self::queue::{Admission, Queue, Work};
use self::writer_loop::WriterLoop;
use super::Error;
use super::anchor::Anchor;
use super::blocking::{blocking, is_on_worker};
use super::codec::Ledger;
use super::manifest::Position;
use super::tables::{Change, Tables};
use super::write::Write;

/// The error of a store that has failed.
pub(super) type Failure = Arc<OnceLock<Error>>;

pub(super) struct Target<T> {
    pub(super) tables: Arc<T>,
    pub(super) anchor: Anchor,
    pub(super) ledger: Ledger,
    /// The error if another process has taken over the store.
    pub(super) displaced: Error,
}

/// Tables that can be changed.
pub(super) trait WriteTables: Tables {
    /// Applies all changes or none. With `sync` they are on the device when this returns.
    ///
    /// # Errors
    /// The database's error. Whether the changes were made is then unknown.
    fn write(&self, changes: Vec<Change>, sync: bool) -> Result<(), String>;

    /// The manifest position, if it changed since the last call. It is on the device when this returns.
    fn manifest(&self) -> Result<Option<Position>, Error>;

    /// Puts every earlier write on the device. Nothing may follow.
    fn close(&self) -> Result<(), String>;
}

/// The handle of a writer. Dropping it writes the queue, syncs, and ends the writer's thread.
pub(super) struct Writer<T: WriteTables + 'static> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by callers and the writer's thread. The thread that locks the loop writes; the queue is only locked
/// briefly.
struct Shared<T> {
    queue: Mutex<Queue>,
    /// Wakes the writer's thread when the queue has work.
    wanted: Condvar,
    writing: Mutex<WriterLoop<T>>,
    failure: Failure,
}

impl<T: WriteTables> Writer<T> {
    pub(super) fn start(target: Target<T>, failure: Failure) -> Result<Self, Error> {
        let writing = Mutex::new(WriterLoop::new(target, Arc::clone(&failure)));
        let shared = Arc::new(Shared { queue: Mutex::default(), wanted: Condvar::new(), writing, failure });
        let at_work = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("rondo-writer".to_owned())
            .spawn(move || at_work.run())
            .map_err(|error| Error::Io { path: "the writer's thread".to_owned(), what: error.to_string() })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Submits a write, which is carried out even if the future is never polled.
    pub(super) fn submit(&self, write: Write) -> BoxFuture<'_, Result<(), Error>> {
        if let Some(error) = self.shared.failure.get() {
            return Box::pin(future::ready(Err(error.clone())));
        }
        let (done, outcome) = oneshot::channel();
        let shared = &*self.shared;
        let admitted = shared.queue().admit(Work::new(write, done));
        let admission = admitted.err().map(|late| Admission::new(&shared.queue, late));
        let left = Left { shared, is_written: false };
        Box::pin(async move {
            let mut left = left;
            if let Some(admission) = admission {
                admission.await;
            }
            shared.write_or_wake();
            let outcome = outcome.await;
            left.is_written = true;
            // An acknowledgement is dropped only if the writer has died.
            outcome.unwrap_or_else(|_| Err(shared.failure.get().cloned().unwrap_or_else(died)))
        })
    }
}

fn died() -> Error {
    Error::Poisoned { what: "the writer has ended".to_owned() }
}

/// Wakes the writer's thread when a future is dropped whose work may not be written yet.
struct Left<'a, T: WriteTables> {
    shared: &'a Shared<T>,
    is_written: bool,
}

impl<T: WriteTables> Drop for Left<'_, T> {
    fn drop(&mut self) {
        if !self.is_written {
            self.shared.wake();
        }
    }
}

impl<T: WriteTables> Shared<T> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the queue on this thread if that blocks no other task, or leaves it to the writer's thread.
    fn write_or_wake(&self) {
        if is_on_worker()
            && self.queue().is_single()
            && let Ok(mut writing) = self.writing.try_lock()
        {
            blocking(|| writing.write_some(&self.queue));
            return;
        }
        self.wake();
    }

    fn wake(&self) {
        let mut queue = self.queue();
        // Another thread may have written it meanwhile.
        if self.writing.is_poisoned() {
            let _ = self.failure.set(died());
            queue.clear();
        } else if !queue.is_empty() && !std::mem::replace(&mut queue.wants_thread, true) {
            // Others that come before the thread has looked need not call the system again.
            self.wanted.notify_one();
        }
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue();
            while !queue.wants_thread && !queue.is_closed {
                queue = self.wanted.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.wants_thread = false;
            let is_closed = queue.is_closed;
            drop(queue);
            let Ok(mut writing) = self.writing.lock() else {
                // The previous writing thread has panicked, which was reported where it happened.
                let _ = self.failure.set(died());
                self.queue().clear();
                return;
            };
            while writing.write_some(&self.queue) {}
            if is_closed {
                return writing.close();
            }
        }
    }
}

impl<T: WriteTables> Drop for Writer<T> {
    fn drop(&mut self) {
        self.shared.queue().is_closed = true;
        self.shared.wanted.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What the driver of a thread writes, on its way to the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use rondo_core::store::{self, WriteLog};
use rondo_protocol::id::ThreadId;
use tokio::sync::{Notify, oneshot};

use crate::entry::Leaving;

/// The trees of threads that this process drives.
#[derive(Default)]
pub struct Sessions(Mutex<BTreeMap<ThreadId, Arc<Session>>>);

/// The writes of one tree while a worker drives it.
#[derive(Default)]
pub(crate) struct Session {
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Vec<u8>>,
    /// Who waits for them.
    waiters: Vec<oneshot::Sender<Result<(), store::Error>>>,
    /// Who waits for what was taken last.
    taken: Vec<oneshot::Sender<Result<(), store::Error>>>,
    is_urgent: bool,
    left: Option<Result<Leaving, String>>,
    is_closed: bool,
}

/// The next thing that a driver does.
pub(crate) enum Next {
    Entry(Vec<Vec<u8>>),
    /// It leaves the thread, or says why it cannot drive it.
    Left(Result<Leaving, String>),
}

impl Session {
    /// What the driver writes next, all of it that waits, or how it left the thread.
    pub(crate) async fn next(&self) -> Next {
        loop {
            let changed = self.changed.notified();
            {
                let mut queue = self.queue.lock();
                if queue.is_urgent || (queue.left.is_some() && !queue.waiting.is_empty()) {
                    queue.is_urgent = false;
                    queue.taken = std::mem::take(&mut queue.waiters);
                    return Next::Entry(std::mem::take(&mut queue.waiting));
                }
                if let Some(left) = queue.left.take() {
                    return Next::Left(left);
                }
            }
            changed.await;
        }
    }

    /// What was taken last is in the log, and the store holds it.
    pub(crate) fn acknowledge(&self) {
        for waiter in std::mem::take(&mut self.queue.lock().taken) {
            // The driver may have stopped waiting.
            let _ = waiter.send(Ok(()));
        }
    }

    pub(crate) fn leave(&self, left: Result<Leaving, String>) {
        self.queue.lock().left = Some(left);
        self.changed.notify_one();
    }

    /// Nothing that waits reaches the log from here.
    fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        let lost = [std::mem::take(&mut queue.taken), std::mem::take(&mut queue.waiters)];
        drop(queue);
        for waiter in lost.into_iter().flatten() {
            let _ = waiter.send(Err(lost_invocation()));
        }
    }
}

fn lost_invocation() -> store::Error {
    store::Error::Poisoned { what: "this worker's invocation has ended, and another worker may go on".to_owned() }
}

impl Sessions {
    /// A session of the tree below `root`, until the lease is dropped.
    pub(crate) fn open(self: &Arc<Self>, root: &ThreadId) -> SessionLease {
        let session = Arc::new(Session::default());
        self.0.lock().insert(root.clone(), Arc::clone(&session));
        SessionLease { sessions: Arc::clone(self), session }
    }
}

/// A session in use. Dropping it refuses what waits.
pub(crate) struct SessionLease {
    sessions: Arc<Sessions>,
    pub(crate) session: Arc<Session>,
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.session.close();
        self.sessions.0.lock().retain(|_, open| !Arc::ptr_eq(open, &self.session));
    }
}

impl WriteLog for Sessions {
    fn knows(&self, thread: &ThreadId) -> bool {
        self.0.lock().contains_key(thread)
    }

    fn append(
        &self,
        thread: &ThreadId,
        above: &[ThreadId],
        write: Vec<u8>,
        urgent: bool,
    ) -> BoxFuture<'static, Result<(), store::Error>> {
        let session = {
            let mut open = self.0.lock();
            let found = open.get(thread).or_else(|| above.iter().find_map(|above| open.get(above))).cloned();
            if let Some(session) = &found {
                // A child's later writes name nobody above it.
                open.entry(thread.clone()).or_insert_with(|| Arc::clone(session));
            }
            found
        };
        let Some(session) = session else { return Box::pin(future::ready(Err(lost_invocation()))) };
        let mut queue = session.queue.lock();
        if queue.is_closed {
            return Box::pin(future::ready(Err(lost_invocation())));
        }
        queue.waiting.push(write);
        if !urgent {
            return Box::pin(future::ready(Ok(())));
        }
        let (done, outcome) = oneshot::channel();
        queue.waiters.push(done);
        queue.is_urgent = true;
        drop(queue);
        session.changed.notify_one();
        outcome.map(|outcome| outcome.unwrap_or_else(|_| Err(lost_invocation()))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u128) -> ThreadId {
        ThreadId::from_parts(1, number)
    }

    #[tokio::test]
    async fn what_waits_goes_together_and_is_acknowledged_together() {
        let sessions = Arc::new(Sessions::default());
        let lease = sessions.open(&thread(1));
        let first = sessions.append(&thread(1), &[], vec![1], false);
        let child = sessions.append(&thread(2), &[thread(1)], vec![2], true);
        let later = sessions.append(&thread(2), &[], vec![3], true);
        assert_eq!(first.await, Ok(()), "one that is not urgent waits for nothing");
        let Next::Entry(writes) = lease.session.next().await else { panic!("an entry") };
        assert_eq!(writes, [vec![1], vec![2], vec![3]]);
        let mut child = std::pin::pin!(child);
        assert!((&mut child).now_or_never().is_none(), "durable first");
        lease.session.acknowledge();
        assert_eq!((child.await, later.await), (Ok(()), Ok(())));
        lease.session.leave(Ok(Leaving::Settled));
        assert!(matches!(lease.session.next().await, Next::Left(Ok(Leaving::Settled))));
    }

    #[tokio::test]
    async fn a_dropped_session_refuses_what_waits_and_what_comes() {
        let sessions = Arc::new(Sessions::default());
        let lease = sessions.open(&thread(1));
        let waiting = sessions.append(&thread(1), &[], vec![1], true);
        drop(lease);
        assert!(matches!(waiting.await, Err(store::Error::Poisoned { .. })));
        assert!(sessions.append(&thread(1), &[], vec![2], true).await.is_err());
    }
}

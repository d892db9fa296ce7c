//! The writer's queue, in the order of the calls, bounded in number and in bytes.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::oneshot;

use super::super::Error;
use super::super::write::Write;

/// The limits of the queue; later work waits for room. Work of any size has room in an empty queue.
const QUEUE_LENGTH: usize = 1024;
const QUEUE_BYTES: usize = 64 << 20;

/// The limits of one batch. RocksDB holds a whole batch in memory.
const BATCH_LENGTH: usize = 1024;
const BATCH_BYTES: usize = 32 << 20;

/// Notifies the caller of a piece of work.
pub(super) type Acknowledge = oneshot::Sender<Result<(), Error>>;

pub(super) struct Work {
    pub(super) write: Write,
    pub(super) done: Acknowledge,
    bytes: usize,
}

impl Work {
    pub(super) fn new(write: Write, done: Acknowledge) -> Self {
        Self { bytes: write.size_bytes(), write, done }
    }
}

/// The queue. Only locked briefly.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Work>,
    bytes: usize,
    /// Callers that found no room, in order, and how to wake each.
    late: BTreeMap<u64, Option<Waker>>,
    next_ticket: u64,
    /// Whether the writer's thread has to write the queue.
    pub(super) wants_thread: bool,
    /// Whether no more work follows.
    pub(super) is_closed: bool,
}

impl Queue {
    /// Queues work, or returns it with a ticket if it has to wait for room.
    pub(super) fn admit(&mut self, work: Work) -> Result<(), (Work, u64)> {
        if self.late.is_empty() && self.has_room(work.bytes) {
            self.push(work);
            return Ok(());
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.late.insert(ticket, None);
        Err((work, ticket))
    }

    /// Whether exactly one piece of work is queued, and none waits for room.
    pub(super) fn is_single(&self) -> bool {
        self.waiting.len() == 1 && self.late.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn take_batch(&mut self) -> Vec<Work> {
        let (mut length, mut bytes) = (0, 0);
        for work in &self.waiting {
            if length == BATCH_LENGTH || bytes >= BATCH_BYTES {
                break;
            }
            length += 1;
            bytes += work.bytes;
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        let batch = self.waiting.drain(..length).collect();
        self.tell_next();
        batch
    }

    /// Drops the queue, which is not written.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
        self.tell_next();
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.is_empty() || self.waiting.len() < QUEUE_LENGTH && self.bytes.saturating_add(bytes) <= QUEUE_BYTES
    }

    fn push(&mut self, work: Work) {
        self.bytes = self.bytes.saturating_add(work.bytes);
        self.waiting.push_back(work);
    }

    fn tell_next(&mut self) {
        if let Some(waker) = self.late.first_entry().and_then(|mut first| first.get_mut().take()) {
            waker.wake();
        }
    }
}

/// Waits until there is room and no earlier work is waiting. Dropping it withdraws the work.
pub(super) struct Admission<'a> {
    queue: &'a Mutex<Queue>,
    ticket: u64,
    work: Option<Work>,
}

impl<'a> Admission<'a> {
    pub(super) fn new(queue: &'a Mutex<Queue>, (work, ticket): (Work, u64)) -> Self {
        Self { queue, ticket, work: Some(work) }
    }

    fn queue(&self) -> MutexGuard<'a, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Admission<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.queue();
        let is_first = queue.late.first_key_value().is_some_and(|(first, _)| *first == self.ticket);
        match self.work.take() {
            Some(work) if is_first && queue.has_room(work.bytes) => {
                queue.push(work);
                queue.late.remove(&self.ticket);
                queue.tell_next();
            }
            Some(work) => {
                self.work = Some(work);
                queue.late.insert(self.ticket, Some(context.waker().clone()));
                return Poll::Pending;
            }
            None => {}
        }
        Poll::Ready(())
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.work.is_some() {
            let mut queue = self.queue();
            queue.late.remove(&self.ticket);
            queue.tell_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::task::noop_waker_ref;

    use super::super::super::keys::Family;
    use super::super::super::tables::Change;
    use super::*;

    fn work(bytes: usize) -> Work {
        let change = Change { family: Family::Hooks, key: vec![0; bytes], value: None };
        Work::new(Write::Changes { changes: vec![change], sync: false }, oneshot::channel().0)
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_room_is_given_in_order() {
        let queue = Mutex::new(Queue::default());
        let half = QUEUE_BYTES / 2;
        let admit = |bytes| queue.lock().unwrap().admit(work(bytes));
        assert!(admit(half).is_ok());
        let mut context = Context::from_waker(noop_waker_ref());
        let mut large = Admission::new(&queue, admit(half + 1).err().unwrap());
        // A small one would have room, but it came later.
        let mut small = Admission::new(&queue, admit(1).err().unwrap());
        assert!(small.poll_unpin(&mut context).is_pending());
        assert!(large.poll_unpin(&mut context).is_pending());
        assert_eq!(queue.lock().unwrap().take_batch().len(), 1);
        assert!(small.poll_unpin(&mut context).is_pending());
        assert!(large.poll_unpin(&mut context).is_ready());
        assert!(small.poll_unpin(&mut context).is_ready());
        assert_eq!(queue.lock().unwrap().bytes, half + 2);
        let gone = Admission::new(&queue, admit(half).err().unwrap());
        let mut next = Admission::new(&queue, admit(2).err().unwrap());
        assert!(next.poll_unpin(&mut context).is_pending());
        drop(gone);
        assert!(next.poll_unpin(&mut context).is_ready());
    }

    #[test]
    fn work_of_any_size_has_room_when_nothing_waits() {
        let mut queue = Queue::default();
        assert!(queue.admit(work(QUEUE_BYTES + 1)).is_ok());
        assert!(queue.admit(work(1)).is_err());
    }

    #[test]
    fn a_batch_is_bounded() {
        let mut queue = Queue::default();
        for _ in 0..3 {
            assert!(queue.admit(work(BATCH_BYTES / 2)).is_ok());
        }
        assert_eq!(queue.take_batch().len(), 2);
        assert_eq!(queue.take_batch().len(), 1);
        assert!(queue.is_empty());
        assert_eq!(queue.bytes, 0);
    }
}

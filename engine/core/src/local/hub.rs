//! The event hub: passes the events of runs to their readers.
//!
//! Laws. A run never waits for a reader: each reader has its own queue, bounded in number and bytes. Events that are
//! not durable are dropped when it is full, deltas first. A durable event without room is left out, and the reader
//! gets it from the store later, in its place. So a slow, suspended or closed reader costs a run nothing, and one that
//! keeps reading sees every durable event once, in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rondo_protocol::Value;
use rondo_protocol::event::{Durability, Event, EventId, Location, What};
use rondo_protocol::id::ThreadId;
use tokio::sync::{Notify, Semaphore};

use super::event_log;
use crate::store::{self, StepStore};

/// How many events one reader's queue holds.
const QUEUE_LENGTH: usize = 1024;

/// Approximately how many bytes of text one reader's queue holds.
const QUEUE_BYTES: usize = 4 << 20;

/// Divides the queue limits for provisional events; the rest of the queue is for what a reader should see.
const PROVISIONAL_SHARE: usize = 2;

/// Why a subscription is not possible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SubscribeError {
    /// No thread has that id.
    #[error("there is no thread {thread}")]
    NoThread {
        /// The id.
        thread: ThreadId,
    },
    /// The thread has no such event yet.
    #[error("thread {thread} has no event {asked}; its last is {last}")]
    NoEvent {
        /// The thread.
        thread: ThreadId,
        /// The requested event.
        asked: EventId,
        /// The last event.
        last: EventId,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// How many readers that fell behind read from the store at once: each may meet a large result, and takes five times
/// its size.
const REPLAYS: usize = 1;

/// The events of the threads that run in this process.
pub struct Hub {
    topics: Mutex<BTreeMap<ThreadId, Arc<Topic>>>,
    stored: StoredEvents,
}

/// The durable events of all threads, from the store.
#[derive(Clone)]
pub struct StoredEvents {
    store: Arc<dyn StepStore>,
    turns: Arc<Semaphore>,
}

/// The events of one running thread, or of several.
#[derive(Default)]
pub struct Topic {
    readers: Mutex<Readers>,
    reader_count: AtomicUsize,
}

#[derive(Default)]
struct Readers {
    all: Vec<Arc<Reader>>,
    /// Whether they are woken by [`Topic::waking_once`], and not by each event.
    wait: bool,
}

/// The queue of one reader.
#[derive(Default)]
struct Reader {
    queue: Mutex<Queue>,
    ready: Notify,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Arc<Event>>,
    size_bytes: usize,
    /// Whether durable events were left out, or never reached the queue: the store is then read up to `end`.
    lags: bool,
    /// The last durable event that reached the topic.
    end: Option<EventId>,
    /// No more events follow.
    has_ended: bool,
    /// The reader has closed it.
    is_closed: bool,
}

/// The events of one thread for one reader.
pub struct Subscription {
    stored: StoredEvents,
    thread: ThreadId,
    reader: Arc<Reader>,
    /// The last durable event returned, or the one the reader already knows.
    cursor: EventId,
    /// Events read from the store and not returned yet.
    replayed: VecDeque<Event>,
    has_failed: bool,
}

/// What one reader hears of a topic, without the log behind it.
pub struct Listener(Arc<Reader>);

impl Hub {
    pub fn new(store: Arc<dyn StepStore>) -> Self {
        let stored = StoredEvents { store, turns: Arc::new(Semaphore::new(REPLAYS)) };
        Self { topics: Mutex::default(), stored }
    }

    /// What a reader reads that falls behind.
    pub fn stored(&self) -> &StoredEvents {
        &self.stored
    }

    /// Registers a thread that starts to run.
    pub fn open(&self, thread: &ThreadId, topic: Arc<Topic>) {
        self.topics.lock().insert(thread.clone(), topic);
    }

    /// Ends a thread's topic: its readers get the remaining events.
    pub fn close(&self, thread: &ThreadId) {
        if let Some(topic) = self.topics.lock().remove(thread) {
            topic.end();
        }
    }

    /// Every durable event of a thread after `after`, and new ones for as long as it runs in this process.
    ///
    /// # Errors
    /// If there is no such thread or event.
    pub fn subscribe(&self, thread: &ThreadId, after: EventId) -> Result<Subscription, SubscribeError> {
        // Listens first, so that no event is lost between reading the store and listening.
        let topic = self.topics.lock().get(thread).cloned();
        let subscription = match &topic {
            Some(topic) => topic.subscribe(&self.stored, thread, after),
            None => Subscription::over(&self.stored, thread, after),
        };
        subscription.reader.queue.lock().lags = true;
        let last = event_log::end(&*self.stored.store, thread)?;
        let last = last.ok_or_else(|| SubscribeError::NoThread { thread: thread.clone() })?;
        if after > last {
            return Err(SubscribeError::NoEvent { thread: thread.clone(), asked: after, last });
        }
        Ok(subscription)
    }
}

impl StoredEvents {
    async fn after(&self, thread: &ThreadId, after: EventId) -> Result<Option<event_log::Page>, store::Error> {
        // Never closed.
        let _turn = self.turns.acquire().await;
        let (store, thread) = (Arc::clone(&self.store), thread.clone());
        let reading =
            tokio::task::spawn_blocking(move || event_log::after(&*store, store.durability(), &thread, after));
        reading.await.unwrap_or_else(|_| Err(store::Error::Poisoned { what: "the reading broke off".to_owned() }))
    }
}

impl Topic {
    /// Events from now on. A reader that falls behind continues from the store after `cursor`.
    pub fn subscribe(&self, stored: &StoredEvents, thread: &ThreadId, cursor: EventId) -> Subscription {
        Subscription::of(stored, thread, cursor, self.new_reader())
    }

    /// What is heard from now on, for a reader that misses some if it falls behind.
    pub fn listen(&self) -> Listener {
        Listener(self.new_reader())
    }

    fn new_reader(&self) -> Arc<Reader> {
        let reader = Arc::new(Reader::default());
        let mut readers = self.readers.lock();
        readers.all.push(Arc::clone(&reader));
        self.reader_count.store(readers.all.len(), Ordering::Release);
        reader
    }

    /// Does `work`, whose events wake the readers at the end of each poll: to wake one for each event takes longer than to
    /// make it.
    pub(super) async fn waking_once<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            self.readers.lock().wait = true;
            let polled = work.as_mut().poll(context);
            let mut readers = self.readers.lock();
            readers.wait = false;
            readers.all.iter().for_each(|reader| reader.wake());
            polled
        })
        .await
    }

    fn end(&self) {
        for reader in self.readers.lock().all.drain(..) {
            reader.queue.lock().has_ended = true;
            reader.ready.notify_one();
        }
        self.reader_count.store(0, Ordering::Release);
    }

    pub(super) fn has_readers(&self) -> bool {
        self.reader_count.load(Ordering::Acquire) > 0
    }

    /// Queues an event without waiting: a run never waits for its readers.
    pub(super) fn publish(&self, event: Event) {
        self.take(event, true);
    }

    /// The same for an event of another thread, which has a log of its own: a reader that falls behind misses it here.
    pub fn publish_foreign(&self, event: Event) {
        self.take(event, false);
    }

    fn take(&self, event: Event, is_own: bool) {
        let event = Arc::new(event);
        let mut readers = self.readers.lock();
        let wait = readers.wait;
        readers.all.retain(|reader| {
            let mut queue = reader.queue.lock();
            if queue.is_closed {
                return false;
            }
            queue.take(&event, is_own);
            drop(queue);
            if !wait {
                reader.ready.notify_one();
            }
            true
        });
        self.reader_count.store(readers.all.len(), Ordering::Release);
    }
}

impl Reader {
    /// Wakes the reader, if something waits for it.
    fn wake(&self) {
        let queue = self.queue.lock();
        if queue.lags || !queue.events.is_empty() {
            self.ready.notify_one();
        }
    }

    fn close(&self) {
        let mut queue = self.queue.lock();
        (queue.is_closed, queue.has_ended, queue.lags) = (true, true, false);
        queue.events.clear();
    }
}

impl Queue {
    fn take(&mut self, event: &Arc<Event>, is_own: bool) {
        let size_bytes = size_bytes(&event.what);
        let has_room = |share: usize, queue: &Self| {
            queue.events.len() < QUEUE_LENGTH / share
                && (queue.size_bytes + size_bytes <= QUEUE_BYTES / share || queue.events.is_empty())
        };
        match event.id.filter(|_| is_own) {
            Some(id) => {
                self.end = Some(id);
                if self.lags {
                    return;
                }
                if !has_room(1, self) {
                    // The store has all of it; what is not stored is older than what the reader will see next.
                    self.lags = true;
                    self.events.clear();
                    self.size_bytes = 0;
                    return;
                }
            }
            // The error that stopped a run is sent once and never dropped.
            None if matches!(event.what, What::Error { .. }) => {}
            None => {
                let is_provisional = matches!(event.what, What::ModelDelta { .. } | What::HookReport { .. });
                if self.lags || !has_room(if is_provisional { PROVISIONAL_SHARE } else { 1 }, self) {
                    return;
                }
            }
        }
        self.size_bytes += size_bytes;
        self.events.push_back(Arc::clone(event));
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.size_bytes = self.size_bytes.saturating_sub(size_bytes(&event.what));
        Some(event)
    }
}

/// The approximate size of an event: its large fields.
pub(super) fn size_bytes(what: &What) -> usize {
    match what {
        What::Said { text, .. } | What::ModelDelta { text, .. } | What::Error { message: text, .. } => text.len(),
        What::HookReport { metrics: value, .. }
        | What::ThreadFinished { result: value, .. }
        | What::ThreadWaiting { form: value, .. } => value_bytes(value),
        What::EdgeTaken { to, .. } => to.len() * size_of::<rondo_protocol::event::Target>(),
        _ => 0,
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.len(),
        Value::List(items) => items.iter().map(|item| size_of::<Value>() + value_bytes(item)).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| size_of::<Value>() + name.len() + value_bytes(value)).sum()
        }
        _ => 0,
    }
}

impl Subscription {
    /// One of a thread that does not run here.
    fn over(stored: &StoredEvents, thread: &ThreadId, cursor: EventId) -> Self {
        let reader = Arc::new(Reader::default());
        reader.queue.lock().has_ended = true;
        Self::of(stored, thread, cursor, reader)
    }

    fn of(stored: &StoredEvents, thread: &ThreadId, cursor: EventId, reader: Arc<Reader>) -> Self {
        Self {
            stored: stored.clone(),
            thread: thread.clone(),
            reader,
            cursor,
            replayed: VecDeque::new(),
            has_failed: false,
        }
    }

    /// The next event; `None` when the run has ended and all events were returned, or if there is none.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn recv(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.try_recv() {
                return Some(event);
            }
            let (lags, has_ended) = {
                let queue = self.reader.queue.lock();
                if !queue.lags && !queue.events.is_empty() {
                    continue;
                }
                (queue.lags, queue.has_ended)
            };
            if lags {
                self.replay().await;
            } else if has_ended {
                return None;
            } else {
                // The permit remembers a notification since the queue was checked.
                self.reader.ready.notified().await;
            }
        }
    }

    /// The next event, if it is available.
    pub fn try_recv(&mut self) -> Option<Event> {
        loop {
            let event = if let Some(event) = self.replayed.pop_front() {
                event
            } else {
                let mut queue = self.reader.queue.lock();
                if queue.lags {
                    return None;
                }
                Arc::unwrap_or_clone(queue.pop()?)
            };
            match event.id.filter(|_| event.thread == self.thread) {
                Some(id) if id <= self.cursor => {}
                Some(id) => {
                    self.cursor = id;
                    return Some(event);
                }
                None => return Some(event),
            }
        }
    }

    /// Whether stored events could not be read, so that some are missing.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Closes the subscription: nothing is queued any more.
    pub fn close(&mut self) {
        self.reader.close();
        self.replayed.clear();
    }

    /// Reads from the store until the reader has caught up with what was left out.
    async fn replay(&mut self) {
        let told = self.reader.queue.lock().end;
        let page = match self.stored.after(&self.thread, self.cursor).await {
            Ok(page) => page.unwrap_or_default(),
            Err(error) => return self.failed(&error),
        };
        self.replayed.extend(page.events);
        let mut queue = self.reader.queue.lock();
        // An event is sent after it is stored, so a last page holds all events sent before it was read.
        if page.is_last && queue.end == told {
            queue.lags = false;
        }
    }

    /// Reports that stored events cannot be read: the reader gets one error, and then new events only.
    fn failed(&mut self, error: &store::Error) {
        self.has_failed = true;
        self.replayed.push_back(unreadable(&self.thread, self.stored.store.durability(), error));
        self.reader.queue.lock().lags = false;
    }
}

/// Says that the events of a thread cannot be read.
pub fn unreadable(thread: &ThreadId, durability: Durability, error: &store::Error) -> Event {
    let place = Some(Location::Thread { thread: thread.clone(), role: None, visit: None });
    let what = What::Error { code: error.code().to_string(), message: error.to_string(), hint: None, place };
    Event { id: None, thread: thread.clone(), parent: None, durability, at_ms: 0, what }
}

impl Listener {
    /// The next event.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn recv(&mut self) -> Event {
        loop {
            let next = self.0.queue.lock().pop();
            match next {
                Some(event) => return Arc::unwrap_or_clone(event),
                None => self.0.ready.notified().await,
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Wake, Waker};

    use futures_util::FutureExt as _;
    use rondo_protocol::event::Durability;
    use rondo_protocol::object::Outcome;

    use super::*;

    fn finished(number: u128, result: &Value) -> Event {
        let result = result.clone();
        let what = What::ThreadFinished { outcome: Outcome::Done, head: None, status: None, reason: None, result };
        let (id, thread) = (Some(EventId { seq: 1, k: 1 }), ThreadId::from_parts(0, number));
        Event { id, thread, parent: None, durability: Durability::Memory, at_ms: 0, what }
    }

    /// Counts how often it wakes.
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_events_of_one_poll_wake_a_reader_once_at_its_end() {
        let topic = Topic::default();
        let mut listener = topic.listen();
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut next = Box::pin(listener.recv());
        assert!(next.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        let work = async {
            for number in 0..3 {
                topic.publish_foreign(finished(number, &Value::Null));
                assert_eq!(woken.0.load(Ordering::Relaxed), 0);
            }
        };
        assert!(topic.waking_once(work).now_or_never().is_some());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(next.poll_unpin(&mut Context::from_waker(&waker)).is_ready());
        drop(next);
        // Elsewhere each event wakes at once.
        for _ in 0..2 {
            assert!(listener.recv().now_or_never().is_some());
        }
        let mut next = Box::pin(listener.recv());
        assert!(next.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        topic.publish_foreign(finished(3, &Value::Null));
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_suspended_listener_holds_a_queue_and_no_more() {
        let topic = Topic::default();
        let mut listener = topic.listen();
        let result = Value::from("x".repeat(1 << 20));
        for number in 0..100 {
            topic.publish_foreign(finished(number, &result));
        }
        assert!(listener.0.queue.lock().size_bytes <= QUEUE_BYTES);
        for number in 0..QUEUE_BYTES as u128 >> 20 {
            assert_eq!(listener.recv().await, finished(number, &result));
        }
        // It continues with what comes next, also with one that is larger than the queue.
        let large = Value::from("x".repeat(2 * QUEUE_BYTES));
        topic.publish_foreign(finished(100, &large));
        assert_eq!(listener.recv().await, finished(100, &large));
        drop(listener);
        topic.publish_foreign(finished(101, &result));
        assert!(!topic.has_readers());
    }
}

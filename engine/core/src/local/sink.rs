//! Receives and numbers a run's events.

use std::sync::Arc;

use parking_lot::Mutex;
use rondo_protocol::Value;
use rondo_protocol::call::Call;
use rondo_protocol::event::{Durability, Event, EventId, What};
use rondo_protocol::id::ThreadId;

use super::hub::Topic;
use super::visit::visit_of;
use crate::env::Env;
use crate::hook::Reports;

/// Emits the events of one thread, in order. Numbers the durable ones.
#[derive(Clone)]
pub struct Sink {
    topic: Arc<Topic>,
    thread: ThreadId,
    parent: Option<ThreadId>,
    durability: Durability,
    env: Arc<dyn Env>,
    position: Arc<Mutex<Position>>,
}

/// How far a thread's events have been emitted.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    /// The last durable event.
    pub id: EventId,
    /// The time of its cause, in Unix milliseconds.
    pub at_ms: u64,
}

impl Sink {
    /// A sink for the events of `thread` after `position`, for the readers of `topic`.
    pub fn new(
        topic: Arc<Topic>,
        (thread, parent): (ThreadId, Option<ThreadId>),
        durability: Durability,
        env: Arc<dyn Env>,
        position: Position,
    ) -> Self {
        Self { topic, thread, parent, durability, env, position: Arc::new(Mutex::new(position)) }
    }

    /// Emits an event. A durable one has the time of the step that it follows from.
    pub fn emit(&self, what: What) {
        if what.is_durable() { self.followed(|| what) } else { self.emit_again(what) }
    }

    /// Emits a durable event with its stored time.
    pub fn emit_at(&self, at_ms: u64, what: What) {
        self.pass_on_at(self.next(Some(at_ms)), || what);
    }

    /// Emits the event of a commit. The durable ones that follow from it are numbered after it.
    pub fn committed(&self, seq: u64, at_ms: u64, what: impl FnOnce() -> What) {
        let position = Position { id: EventId { seq, k: 1 }, at_ms };
        *self.position.lock() = position;
        self.pass_on_at(position, what);
    }

    /// Emits a durable event that follows from the last commit.
    pub fn followed(&self, what: impl FnOnce() -> What) {
        self.pass_on_at(self.next(None), what);
    }

    /// The position of the next durable event, at the time of the one before it unless another is given.
    fn next(&self, at_ms: Option<u64>) -> Position {
        let mut position = self.position.lock();
        *position = Position { id: position.id.next(), at_ms: at_ms.unwrap_or(position.at_ms) };
        *position
    }

    /// Emits again what an earlier run reported, as a provisional event.
    pub fn emit_again(&self, what: What) {
        self.pass_on(None, self.env.now_ms(), || what);
    }

    /// Emits an event that is not durable. It is made only if somebody reads.
    pub fn offer(&self, what: impl FnOnce() -> What) {
        if self.has_readers() {
            self.emit(what());
        }
    }

    pub fn has_readers(&self) -> bool {
        self.topic.has_readers()
    }

    /// Passes on an event of a child thread.
    pub fn pass_on_of_child(&self, event: Event) {
        if self.has_readers() {
            self.topic.publish_foreign(event);
        }
    }

    fn pass_on_at(&self, Position { id, at_ms }: Position, what: impl FnOnce() -> What) {
        self.pass_on(Some(id), at_ms, what);
    }

    /// Makes the event only if somebody reads.
    fn pass_on(&self, id: Option<EventId>, at_ms: u64, what: impl FnOnce() -> What) {
        if self.has_readers() {
            let (thread, parent, durability) = (self.thread.clone(), self.parent.clone(), self.durability);
            self.topic.publish(Event { id, thread, parent, durability, at_ms, what: what() });
        }
    }
}

impl Reports for Sink {
    fn report(&self, node: &str, call: &Call, metrics: Value) {
        self.offer(|| What::HookReport { visit: visit_of(call.site()), node: node.to_owned(), metrics });
    }
}

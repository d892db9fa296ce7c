//! Where a run's events go.

use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::call::Call;
use rondo_protocol::event::{Durability, Event, Visit, What};
use rondo_protocol::id::ThreadId;
use tokio::sync::mpsc;

use crate::env::Env;
use crate::hook::Reports;

/// The figure of a report that is a sentence for people.
pub const WARNING: &str = "warning";

/// The events of one thread, in order, into a bounded channel. A run waits for a slow reader; it goes on without one
/// that has gone.
#[derive(Clone)]
pub struct Sink {
    sender: mpsc::Sender<Event>,
    thread: ThreadId,
    durability: Durability,
    env: Arc<dyn Env>,
}

impl Sink {
    /// A sink for the events of `thread`.
    pub fn new(sender: mpsc::Sender<Event>, thread: ThreadId, durability: Durability, env: Arc<dyn Env>) -> Self {
        Self { sender, thread, durability, env }
    }

    /// Sends an event, waiting for room.
    pub async fn emit(&self, what: What) {
        if !self.sender.is_closed() {
            // A reader that has gone meanwhile misses nothing that it could still read.
            let _ = self.sender.send(self.event(what)).await;
        }
    }

    /// Sends a provisional event if there is room, and lets it go otherwise.
    pub fn offer(&self, what: What) {
        if !self.sender.is_closed() {
            let _ = self.sender.try_send(self.event(what));
        }
    }

    fn event(&self, what: What) -> Event {
        Event { thread: self.thread.clone(), parent: None, durability: self.durability, at_ms: self.env.now_ms(), what }
    }
}

impl Reports for Sink {
    fn report(&self, node: &str, call: &Call, metrics: Value) {
        self.offer(What::HookReport { visit: visit(call), node: node.to_owned(), metrics });
    }

    fn warn(&self, node: &str, call: &Call, warning: String) {
        self.report(node, call, Value::from_iter([(WARNING, Value::from(warning))]));
    }
}

fn visit(call: &Call) -> Visit {
    let site = call.site();
    Visit { role: site.role.clone(), visit: site.visit, lane: site.lane.clone() }
}

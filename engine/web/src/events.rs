//! Event streams (Server-Sent Events, HTML Living Standard §9.2).
//!
//! The store is the log: a stream sends each durable event of a thread once and in order, whichever process drives the
//! thread and however often the client comes back. The stream of all threads is live only.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse;
use axum::response::{IntoResponse as _, Response, Sse};
use futures_util::stream::{self, Stream};
use rondo::core::local::{SubscribeError, Subscription, unreadable};
use rondo::protocol::event::{Event, EventId, What};
use rondo::protocol::id::ThreadId;
use rondo::store;
use rondo::tell;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Server;
use super::params::{Path, Query, invalid};
use super::problem::Problem;

/// How often a comment keeps an idle stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often the store is asked for news of a thread that another process drives, or that may be resumed.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsQuery {
    /// The last event that the client has, `SEQ.K`; `Last-Event-ID` goes before it.
    after: Option<String>,
}

fn position(headers: &HeaderMap, query: &EventsQuery) -> Result<EventId, Problem> {
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let Some(text) = header.or(query.after.as_deref()) else { return Ok(EventId::NONE) };
    text.parse().map_err(|_| invalid(format!("an event's id is SEQ.K, such as 3.2, and not {text:?}")))
}

/// Every durable event after the client's last one, then new ones. Ends once the
/// thread has; a client that has its last event gets 204, which stops a browser from coming back.
pub async fn of_thread(
    State(server): State<Server>,
    Path(word): Path<String>,
    query: Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = position(&headers, &query.0)?;
    let found = server.of_thread(word, |_, store, (thread, row)| {
        let last = rondo::core::local::end(store, &thread)?.unwrap_or(EventId::NONE);
        Ok((thread, last, row.status.has_ended()))
    });
    let (thread, last, has_ended) = found.await?;
    if after > last {
        return Err(invalid(format!("thread {thread} has no event {after}; its last is {last}")));
    }
    if has_ended && after == last {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let follower = Follower { server, thread, after, subscription: None, is_at_end: false };
    Ok(streamed(stream::unfold(follower, Follower::next)))
}

pub fn keep_alive() -> sse::KeepAlive {
    sse::KeepAlive::new().interval(KEEP_ALIVE)
}

fn streamed(events: impl Stream<Item = Result<sse::Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(keep_alive()).into_response()
}

fn written(event: &Event) -> Option<sse::Event> {
    let data = serde_json::to_string(&event.line(tell::hint)).ok()?;
    let written = sse::Event::default().event(event.what.name()).data(data);
    Some(event.id.into_iter().fold(written, |written, id| written.id(id.to_string())))
}

struct Follower {
    server: Server,
    thread: ThreadId,
    after: EventId,
    /// The events of a run here, or what the store had.
    subscription: Option<Subscription>,
    is_at_end: bool,
}

impl Follower {
    async fn next(mut self) -> Option<(Result<sse::Event, Infallible>, Self)> {
        while !self.is_at_end {
            let server = self.server.clone();
            let read = tokio::select! {
                read = self.read() => read,
                // Runs drain first, and their last events are sent.
                () = server.closed.cancelled() => Ok(None),
            };
            let event = match read {
                Ok(event) => event?,
                Err(error) => {
                    self.is_at_end = true;
                    let durability = self.server.host.engine().store().durability();
                    let written = written(&unreadable(&self.thread, durability, &error))?;
                    return Some((Ok(written), self));
                }
            };
            let is_own = event.thread == self.thread;
            if is_own {
                self.after = event.id.unwrap_or(self.after);
                self.is_at_end = matches!(event.what, What::ThreadFinished { .. });
            }
            // A child's ids are of its own log, and would mislead a client that comes back.
            if let Some(written) = written(&Event { id: event.id.filter(|_| is_own), ..event }) {
                return Some((Ok(written), self));
            }
        }
        None
    }

    /// The next event; `None` if the thread is gone, or after an event that says what could not be read.
    async fn read(&mut self) -> Result<Option<Event>, store::Error> {
        loop {
            if let Some(subscription) = &mut self.subscription {
                if let Some(event) = subscription.recv().await {
                    return Ok(Some(event));
                }
                if subscription.has_failed() {
                    return Ok(None);
                }
                self.subscription = None;
                // What was written meanwhile is found by the next look.
                match self.has_nothing_new().await? {
                    Some(true) => tokio::time::sleep(LOOK).await,
                    Some(false) => {}
                    None => return Ok(None),
                }
                continue;
            }
            let (server, thread, after) = (self.server.clone(), self.thread.clone(), self.after);
            let subscribed = reading(move || match server.host.engine().subscribe(&thread, after) {
                Ok(subscription) => Ok(Some(subscription)),
                Err(SubscribeError::Store(error)) => Err(error),
                Err(SubscribeError::NoThread { .. } | SubscribeError::NoEvent { .. }) => Ok(None),
            });
            let Some(subscription) = subscribed.await? else { return Ok(None) };
            self.subscription = Some(subscription);
        }
    }

    /// Whether the store has no event after the last one, and the thread does not run here. `None` if the thread is
    /// gone.
    async fn has_nothing_new(&self) -> Result<Option<bool>, store::Error> {
        if self.server.host.engine().is_running(&self.thread) {
            return Ok(Some(false));
        }
        let (server, thread, after) = (self.server.clone(), self.thread.clone(), self.after);
        let last = reading(move || rondo::core::local::end(&**server.host.engine().store(), &thread)).await?;
        Ok(last.map(|last| last <= after))
    }
}

async fn reading<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, store::Error> + Send + 'static,
) -> Result<T, store::Error> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err(store::Error::Poisoned { what: "the reading broke off".to_owned() }))
}

/// The live events of all threads that this server runs. A client that falls behind misses some, and
/// can read them from the thread's own stream.
pub async fn of_all(State(server): State<Server>) -> Response {
    let heard = (server.live.listen(), server.ending.clone());
    streamed(stream::unfold(heard, async |(mut listener, ending)| {
        loop {
            let event = tokio::select! {
                event = listener.recv() => event,
                () = ending.cancelled() => return None,
            };
            // Ids are those of one thread's log.
            if let Some(written) = written(&Event { id: None, ..event }) {
                return Some((Ok(written), (listener, ending)));
            }
        }
    }))
}

//! `POST /v1/responses`. The id of a response names its thread and step: `previous_response_id` answers the form that
//! the thread waits with there, and an older one forks the thread first.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response, Sse, sse};
use futures_util::{StreamExt as _, stream};
use rondo::core::env::{Env as _, SystemEnv};
use rondo::protocol::Digest;
use rondo::protocol::id::ThreadId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::Server;
use super::super::body::Json;
use super::super::events::keep_alive;
use super::super::params::invalid;
use super::super::problem::Problem;
use super::message::Message;
use super::{Heard, ModelError, Rest, Tokens, client_of, error_text};

/// The request. What else a client sends is ignored.
#[derive(Debug, Deserialize)]
pub struct ResponsesRequest {
    model: String,
    pub input: Input,
    previous_response_id: Option<String>,
    #[serde(default)]
    stream: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Input {
    Text(String),
    Messages(Vec<Message>),
}

impl Input {
    /// The last message.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Messages(messages) => messages.last().map(Message::text),
        }
    }
}

/// Where a response stands: its thread, and the thread's steps by then.
fn stood(id: &str) -> Option<(ThreadId, u64)> {
    let (thread, seq) = id.strip_prefix("resp_")?.split_once('_')?;
    Some((ThreadId::new(thread).ok()?, seq.parse().ok()?))
}

/// Where it is kept what a response showed.
fn place(id: &str) -> Digest {
    Digest::sha256(id.as_bytes())
}

/// `POST /v1/responses`
pub async fn respond(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(request): Json<ResponsesRequest>,
) -> Result<Response, ModelError> {
    let text = request.input.text().ok_or_else(|| invalid("input: there is no message"))?;
    let handle = match &request.previous_response_id {
        None => server.begin_on(&request.model, text).await?,
        Some(id) => {
            let (thread, seq) = stood(id).ok_or_else(|| invalid(format!("{id:?} is no response of this server")))?;
            let shown = server.waiting_at(thread, seq, place(id)).await?;
            server.answer_with(shown, text, client_of(&headers)).await?
        }
    };
    let created = SystemEnv::default().now_ms() / 1000;
    let reply = Reply { server: server.clone(), model: request.model, thread: handle.thread().clone(), created };
    let mut heard = server.hear(handle);
    if request.stream {
        return Ok(reply.streamed(heard));
    }
    loop {
        match heard.recv().await {
            Some(Heard::Line(_) | Heard::Step(_) | Heard::Text { .. }) => {}
            Some(Heard::Rest(rest)) => {
                let rest = rest?;
                reply.remember(&rest).await?;
                return Ok(Json(reply.whole(&rest)).into_response());
            }
            None => return Err(invalid("the run broke off").into()),
        }
    }
}

struct Reply {
    server: Server,
    model: String,
    thread: ThreadId,
    created: u64,
}

impl Reply {
    fn id(&self, seq: u64) -> String {
        format!("resp_{}_{seq}", self.thread)
    }

    /// Remembers the form for the message that answers it.
    async fn remember(&self, rest: &Rest) -> Result<(), Problem> {
        self.server.remember(place(&self.id(rest.seq)), rest).await
    }

    /// The response after `seq` steps.
    fn response(&self, seq: u64, status: &str, output: &[serde_json::Value], tokens: Tokens) -> serde_json::Value {
        json!({
            "id": self.id(seq),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": output,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "metadata": {},
            "parallel_tool_calls": false,
            "tool_choice": "none",
            "tools": [],
            "usage": {
                "input_tokens": tokens.prompt,
                "input_tokens_details": {"cached_tokens": tokens.cached},
                "output_tokens": tokens.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens.prompt.saturating_add(tokens.output),
            },
        })
    }

    fn message_id(&self, seq: u64) -> String {
        format!("msg_{}_{seq}", self.thread)
    }

    fn message(&self, seq: u64, status: &str, content: &[serde_json::Value]) -> serde_json::Value {
        json!({"type": "message", "id": self.message_id(seq), "status": status, "role": "assistant", "content": content})
    }

    /// The message that `rest` answers with.
    fn answer(&self, rest: &Rest) -> serde_json::Value {
        self.message(rest.seq, "completed", &[text_part(&rest.text)])
    }

    fn whole(&self, rest: &Rest) -> serde_json::Value {
        self.response(rest.seq, "completed", &[self.answer(rest)], rest.tokens)
    }

    fn streamed(self, heard: mpsc::Receiver<Heard>) -> Response {
        let streamed = Streamed { reply: self, begun: None, sent: 0 };
        let events = stream::unfold(Some((streamed, heard)), async |state| {
            let (mut streamed, mut heard) = state?;
            let (events, is_last) = match heard.recv().await? {
                Heard::Line(_) | Heard::Step(_) => (Vec::new(), false),
                Heard::Text { text, seq } => (streamed.text(seq, &text), false),
                Heard::Rest(Ok(rest)) => {
                    // What cannot be remembered is only asked anew.
                    let _ = streamed.reply.remember(&rest).await;
                    (streamed.end(&rest), true)
                }
                Heard::Rest(Err(problem)) => (vec![("error", error_text(problem))], true),
            };
            Some((events, (!is_last).then_some((streamed, heard))))
        });
        let events = events.flat_map(stream::iter);
        let events = events.map(|(name, data)| Ok::<_, Infallible>(sse::Event::default().event(name).data(data)));
        Sse::new(events).keep_alive(keep_alive()).into_response()
    }
}

/// A response that is sent while its run writes it.
struct Streamed {
    reply: Reply,
    /// The number that its step will have, once the response has begun.
    begun: Option<u64>,
    /// How many events were sent.
    sent: u64,
}

type Event = (&'static str, String);

impl Streamed {
    fn event(&mut self, name: &'static str, mut event: serde_json::Value) -> Event {
        if let Some(members) = event.as_object_mut() {
            members.insert("type".to_owned(), json!(name));
            members.insert("sequence_number".to_owned(), json!(self.sent));
        }
        self.sent += 1;
        (name, event.to_string())
    }

    /// An event of the only part of the only message.
    fn of_part(&mut self, name: &'static str, key: &str, value: &serde_json::Value) -> Event {
        let id = self.reply.message_id(self.begun.unwrap_or_default());
        let event = json!({"item_id": id, "output_index": 0, "content_index": 0, key: value, "logprobs": []});
        self.event(name, event)
    }

    fn of_item(&mut self, name: &'static str, item: &serde_json::Value) -> Event {
        self.event(name, json!({"output_index": 0, "item": item}))
    }

    /// The next text, after the events that open a response, unless it is open.
    fn text(&mut self, seq: u64, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        if self.begun.is_none() {
            self.begun = Some(seq);
            let begun = self.reply.response(seq, "in_progress", &[], Tokens::default());
            let message = self.reply.message(seq, "in_progress", &[]);
            events.push(self.event("response.created", json!({"response": begun})));
            events.push(self.of_item("response.output_item.added", &message));
            events.push(self.of_part("response.content_part.added", "part", &text_part("")));
        }
        events.push(self.of_part("response.output_text.delta", "delta", &json!(text)));
        events
    }

    fn end(&mut self, rest: &Rest) -> Vec<Event> {
        let mut events = Vec::new();
        if !rest.untold.is_empty() || self.begun.is_none() {
            events = self.text(rest.seq, &rest.untold);
        }
        let (answer, whole) = (self.reply.answer(rest), self.reply.whole(rest));
        events.push(self.of_part("response.output_text.done", "text", &json!(rest.text)));
        events.push(self.of_part("response.content_part.done", "part", &text_part(&rest.text)));
        events.push(self.of_item("response.output_item.done", &answer));
        events.push(self.event("response.completed", json!({"response": whole})));
        events
    }
}

fn text_part(text: &str) -> serde_json::Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

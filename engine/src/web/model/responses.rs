//! `POST /v1/responses`. The id of a response names its thread and step: `previous_response_id` answers the form that
//! the thread waits with there, and an older one forks the thread first.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response, Sse, sse};
use futures_util::stream;
use rondo_protocol::id::ThreadId;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::Server;
use super::super::body::Json;
use super::super::events::keep_alive;
use super::super::params::invalid;
use super::message::Message;
use super::{Heard, ModelError, Rest, error_text};
use crate::env::{Env as _, SystemEnv};

/// The request. What else a client sends is ignored.
#[derive(Debug, Deserialize)]
pub struct ResponsesRequest {
    model: String,
    input: Input,
    previous_response_id: Option<String>,
    #[serde(default)]
    stream: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Message>),
}

impl Input {
    /// The last message.
    fn text(&self) -> Option<String> {
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

/// `POST /v1/responses`
pub async fn respond(
    State(server): State<Server>,
    Json(request): Json<ResponsesRequest>,
) -> Result<Response, ModelError> {
    let text = request.input.text().ok_or_else(|| invalid("input: there is no message"))?;
    let handle = match &request.previous_response_id {
        None => server.begin_on(&request.model, text).await?,
        Some(id) => {
            let (thread, seq) = stood(id).ok_or_else(|| invalid(format!("{id:?} is no response of this server")))?;
            let thread = server.waiting_at(thread, seq).await?;
            server.answer_with(thread, text).await?
        }
    };
    let created = SystemEnv::default().now_ms() / 1000;
    let mut heard = server.hear(handle);
    let reply = Reply { model: request.model, created };
    if request.stream {
        return Ok(reply.streamed(heard));
    }
    loop {
        match heard.recv().await {
            Some(Heard::Line(_) | Heard::Step(_)) => {}
            Some(Heard::Rest(rest)) => return Ok(Json(reply.whole(&*rest?)).into_response()),
            None => return Err(invalid("the run broke off").into()),
        }
    }
}

struct Reply {
    model: String,
    created: u64,
}

impl Reply {
    fn message(rest: &Rest, status: &str, content: &serde_json::Value) -> serde_json::Value {
        let id = message_id(rest);
        json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
    }

    /// The response with this status and output.
    fn response(&self, rest: &Rest, status: &str, output: &serde_json::Value) -> serde_json::Value {
        let tokens = rest.tokens;
        json!({
            "id": format!("resp_{}_{}", rest.thread, rest.seq),
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

    fn whole(&self, rest: &Rest) -> serde_json::Value {
        let message = Self::message(rest, "completed", &json!([text_part(&rest.text)]));
        self.response(rest, "completed", &json!([message]))
    }

    fn streamed(self, heard: mpsc::Receiver<Heard>) -> Response {
        let pieces = stream::unfold(Some((self, heard)), async |state| {
            let (reply, mut heard) = state?;
            loop {
                match heard.recv().await? {
                    Heard::Line(_) | Heard::Step(_) => {}
                    Heard::Rest(Ok(rest)) => return Some((reply.events(&rest), None)),
                    Heard::Rest(Err(problem)) => {
                        return Some((vec![("error".to_owned(), error_text(problem))], None));
                    }
                }
            }
        });
        let events = futures_util::StreamExt::flat_map(pieces, |events| {
            stream::iter(
                events
                    .into_iter()
                    .map(|(name, data)| Ok::<_, Infallible>(sse::Event::default().event(name).data(data))),
            )
        });
        Sse::new(events).keep_alive(keep_alive()).into_response()
    }

    /// The events of a response whose text is there at once.
    fn events(&self, rest: &Rest) -> Vec<(String, String)> {
        let (id, text) = (message_id(rest), rest.text.as_str());
        let begun = self.response(rest, "in_progress", &json!([]));
        let empty = Self::message(rest, "in_progress", &json!([]));
        let message = Self::message(rest, "completed", &json!([text_part(text)]));
        // Of the only part of the only message.
        let of_part = |name: &str, key: &str, value: serde_json::Value| {
            (name.to_owned(), json!({"item_id": id, "output_index": 0, "content_index": 0, key: value, "logprobs": []}))
        };
        let of_item = |name: &str, item: serde_json::Value| (name.to_owned(), json!({"output_index": 0, "item": item}));
        let of_response = |name: &str, response: serde_json::Value| (name.to_owned(), json!({"response": response}));
        let events = [
            of_response("response.created", begun),
            of_item("response.output_item.added", empty),
            of_part("response.content_part.added", "part", text_part("")),
            of_part("response.output_text.delta", "delta", json!(text)),
            of_part("response.output_text.done", "text", json!(text)),
            of_part("response.content_part.done", "part", text_part(text)),
            of_item("response.output_item.done", message),
            of_response("response.completed", self.whole(rest)),
        ];
        let numbered = events.into_iter().enumerate().map(|(number, (name, mut event))| {
            if let Some(members) = event.as_object_mut() {
                members.insert("type".to_owned(), json!(name));
                members.insert("sequence_number".to_owned(), json!(number));
            }
            (name, event.to_string())
        });
        numbered.collect()
    }
}

fn message_id(rest: &Rest) -> String {
    format!("msg_{}_{}", rest.thread, rest.seq)
}

fn text_part(text: &str) -> serde_json::Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

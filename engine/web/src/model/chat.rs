//! `POST /v1/chat/completions`.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response, Sse, sse};
use futures_util::{StreamExt as _, stream};
use rondo::Run;
use rondo::core::env::{Env as _, SystemEnv};
use rondo::failure::Failure;
use rondo::protocol::id::ThreadId;
use rondo::protocol::{Digest, Value, canonical, object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::super::Server;
use super::super::body::Json;
use super::super::events::keep_alive;
use super::super::params::invalid;
use super::super::problem::Problem;
use super::super::starting::{StartRequest, begin};
use super::message::{Message, input_name};
use super::{OFFLINE, RunUpdate, Settled, client_of};

/// The request. What else a client sends, such as a temperature, is the workflow's to decide and is ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ChatRequest {
    model: String,
    pub messages: Vec<Message>,
    /// Whether the answer comes as a stream of chunks.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl ChatRequest {
    fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }
}

/// The answer, or a chunk of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatCompletion")]
pub struct Completion<'a> {
    id: String,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatChoice")]
struct Choice<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Delta<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Delta<'a>>,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ChatMessage")]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    /// What the workflow says on its way, as clients show the thoughts of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatUsage")]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: Cached,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ChatCachedTokens")]
struct Cached {
    cached_tokens: u64,
}

impl From<object::Usage> for Usage {
    fn from(of: object::Usage) -> Self {
        Self {
            prompt_tokens: of.prompt_tokens,
            completion_tokens: of.output_tokens,
            total_tokens: of.prompt_tokens.saturating_add(of.output_tokens),
            prompt_tokens_details: Cached { cached_tokens: of.cached_tokens },
        }
    }
}

/// A place in a conversation: what was said up to there.
fn place(model: &str, messages: &[Message]) -> Result<Digest, Failure> {
    let said: Vec<(&str, String)> =
        messages.iter().filter(|message| message.role != "system").map(|m| (m.role.as_str(), m.text())).collect();
    Ok(Digest::sha256(&canonical::to_bytes(&(model, said))?))
}

impl Server {
    pub(super) async fn begin_on(&self, model: &str, text: String) -> Result<Run, Problem> {
        let (name, is_offline) = model.strip_suffix(OFFLINE).map_or((model, false), |name| (name, true));
        let name = name.to_owned();
        let named = name.clone();
        let input = self.reading(move |server, _| {
            let checked = super::super::workflows::load(server, &named)?.checked;
            input_name(&checked.workflow, &checked.policy)
        });
        let input = BTreeMap::from([(input.await?, Value::from(text))]);
        let request = StartRequest { workflow: name, input, offline: is_offline, ..StartRequest::default() };
        begin(self, request, SystemEnv::default().thread_id()).await
    }
}

pub async fn complete(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(request): Json<ChatRequest>,
) -> Result<Response, Problem> {
    let Some((last, before)) = request.messages.split_last() else {
        return Err(invalid("messages: there is none"));
    };
    let text = last.text();
    // The client sends the whole conversation; if it was shown a form before this message, the form's thread continues.
    let stood = place(&request.model, before)?;
    let shown = server.reading(move |server, _| server.recall(stood)).await?;
    let (thread, updates) = if let Some(shown) = shown {
        (shown.thread.clone(), server.answer_with(shown, text, client_of(&headers)).await?)
    } else {
        let run = server.begin_on(&request.model, text).await?;
        (run.thread().clone(), server.updates_of(run))
    };
    let created = SystemEnv::default().now_ms() / 1000;
    let reply = Reply { server, request, thread, created };
    if reply.request.is_streamed() {
        return Ok(reply.streamed(updates));
    }
    reply.whole(updates).await
}

struct Reply {
    server: Server,
    request: ChatRequest,
    thread: ThreadId,
    created: u64,
}

impl Reply {
    /// Remembers the thread for the message that answers its form, which follows what the client was told.
    async fn remember(&self, told: &str, settled: &Settled) -> Result<(), Problem> {
        let mut said = self.request.messages.clone();
        said.push(Message::new("assistant", told));
        let place = place(&self.request.model, &said)?;
        self.server.remember(place, settled).await
    }

    fn completion<'a>(&'a self, object: &'static str, choices: Vec<Choice<'a>>) -> Completion<'a> {
        let id = format!("chatcmpl-{}", self.thread);
        Completion { id, object, created: self.created, model: &self.request.model, choices, usage: None }
    }

    async fn whole(self, mut updates: mpsc::Receiver<RunUpdate>) -> Result<Response, Problem> {
        let mut lines = String::new();
        let settled = loop {
            match updates.recv().await {
                Some(RunUpdate::Line(line)) => lines = lines + &line + "\n",
                Some(RunUpdate::Step(_) | RunUpdate::Text(_)) => {}
                Some(RunUpdate::Settled(settled)) => break settled?,
                None => return Err(invalid("the run broke off")),
            }
        };
        self.remember(&settled.text, &settled).await?;
        let message = Delta {
            role: Some("assistant"),
            content: Some(&settled.text),
            reasoning_content: Some(lines.as_str()).filter(|lines| !lines.is_empty()),
        };
        let choice = Choice { index: 0, message: Some(message), delta: None, finish_reason: Some("stop") };
        let completion = self.completion("chat.completion", vec![choice]);
        Ok(Json(Completion { usage: Some(settled.tokens.into()), ..completion }).into_response())
    }

    fn streamed(self, updates: mpsc::Receiver<RunUpdate>) -> Response {
        let first = self.delta(Delta { role: Some("assistant"), content: Some(""), ..Delta::default() });
        let others = stream::unfold(Some((self, updates, String::new())), async |state| {
            let (reply, mut updates, mut told) = state?;
            let (events, is_last) = match updates.recv().await? {
                RunUpdate::Step(_) => (Vec::new(), false),
                RunUpdate::Line(line) => {
                    let line = line + "\n";
                    (vec![reply.delta(Delta { reasoning_content: Some(&line), ..Delta::default() })], false)
                }
                RunUpdate::Text(text) => {
                    told += &text;
                    (vec![reply.delta(Delta { content: Some(&text), ..Delta::default() })], false)
                }
                RunUpdate::Settled(Ok(settled)) => {
                    told += &settled.unsent;
                    // What cannot be remembered is only asked anew.
                    let _ = reply.remember(&told, &settled).await;
                    (reply.last(&settled), true)
                }
                RunUpdate::Settled(Err(problem)) => (vec![super::error_text(&problem)], true),
            };
            Some((events, (!is_last).then_some((reply, updates, told))))
        });
        let events = stream::once(async { vec![first] }).chain(others).flat_map(stream::iter);
        let events = events.map(|data| Ok::<_, Infallible>(sse::Event::default().data(data)));
        Sse::new(events).keep_alive(keep_alive()).into_response()
    }

    fn delta(&self, delta: Delta<'_>) -> String {
        self.chunk(Some((delta, None)), None)
    }

    fn last(&self, settled: &Settled) -> Vec<String> {
        let mut chunks = Vec::new();
        if !settled.unsent.is_empty() {
            chunks.push(self.delta(Delta { content: Some(&settled.unsent), ..Delta::default() }));
        }
        chunks.push(self.chunk(Some((Delta::default(), Some("stop"))), None));
        if self.request.includes_usage() {
            chunks.push(self.chunk(None, Some(settled.tokens.into())));
        }
        chunks.push("[DONE]".to_owned());
        chunks
    }

    fn chunk(&self, choice: Option<(Delta<'_>, Option<&'static str>)>, usage: Option<Usage>) -> String {
        let choices =
            choice.map(|(delta, finish_reason)| Choice { index: 0, message: None, delta: Some(delta), finish_reason });
        let chunk = Completion { usage, ..self.completion("chat.completion.chunk", choices.into_iter().collect()) };
        serde_json::to_string(&chunk).unwrap_or_default()
    }
}

//! A workflow as a model: the parts of OpenAI's API that chat clients use
//! (<https://platform.openai.com/docs/api-reference>). A message fills an input of the workflow, and what it results in
//! answers it. A workflow that waits for a person answers with the form, and goes on with the next message.

pub mod chat;
mod message;
pub mod responses;
mod speech;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{CommittedSite, Outcome, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::Policy;
use rondo_protocol::{Digest, Value};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;

use super::Server;
use super::body::{Json, typed};
use super::problem::Problem;
use crate::conversation::rebuild;
use crate::failure::Failure;
use crate::graph::Graph;
use crate::host::answering::{MeantForm, by_this_person, check, meant_form};
use crate::host::continuing::{ContinueChoices, Meant};
use crate::host::find_thread::{find_thread, no_threads};
use crate::host::thread_row::origin;
use crate::host::workflow;
use crate::local::ForkRequest;
use crate::store::Status;
use crate::thread::{Checkpoint, OpenForm};
use crate::{Ended, Resumed, ThreadHandle};
use speech::{Speakers, Speech};

/// A model of this name is answered by the script beside the workflow; no model is asked.
const OFFLINE: &str = ":offline";

/// How many lines wait for a client that reads slowly.
const LINES: usize = 64;

/// An error as clients of this API expect it: `{error: {message, type, code, param}}`.
pub struct ModelError(Problem);

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    message: String,
    r#type: &'static str,
    code: &'a str,
    param: Option<&'a str>,
}

impl From<Problem> for ModelError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// An error as the last event of a stream.
fn error_text(problem: Problem) -> String {
    ModelError(problem).body()
}

impl ModelError {
    fn body(&self) -> String {
        let error = ErrorFields { message: self.0.text(), r#type: "rondo_error", code: self.0.code(), param: None };
        serde_json::to_string(&ErrorBody { error }).unwrap_or_default()
    }
}

impl IntoResponse for ModelError {
    fn into_response(self) -> Response {
        // Clients repeat a request after 409 and 5xx, which would start a thread again.
        let status = match self.0.status() {
            StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR => StatusCode::UNPROCESSABLE_ENTITY,
            other => other,
        };
        let mut response = typed(self.body(), "application/json");
        *response.status_mut() = status;
        response
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct ModelView {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ModelList {
    object: &'static str,
    data: Vec<ModelView>,
}

/// `GET /v1/models`: the workflows that take a message.
pub async fn models(State(server): State<Server>) -> Result<Json<ModelList>, ModelError> {
    let data = server.reading(|server, _| {
        let mut models = Vec::new();
        for found in workflow::all(&server.here) {
            let Ok(loaded) = workflow::read(found.file) else { continue };
            let checked = loaded.checked;
            if message::input_name(&checked.workflow, &checked.policy).is_ok() {
                models.push(ModelView { id: found.name, object: "model", created: 0, owned_by: "rondo" });
            }
        }
        Ok(models)
    });
    Ok(Json(ModelList { object: "list", data: data.await? }))
}

/// Tokens of all calls of a thread and of its children.
#[derive(Debug, Clone, Copy, Default)]
struct Tokens {
    prompt: u64,
    cached: u64,
    output: u64,
}

/// Where a run came to rest.
pub struct Rest {
    pub thread: ThreadId,
    /// Its steps by then.
    seq: u64,
    /// What answers the message.
    pub text: String,
    /// What of it is left to tell to a client that heard it as it was written.
    untold: String,
    tokens: Tokens,
    /// Whether it waits for a person; the text is then the form.
    pub is_waiting: bool,
    pub result: Value,
}

/// What a client hears of a run.
pub enum Heard {
    /// A line of the workflow for the user, without an end of line.
    Line(String),
    /// A step, as `ROLE: STATUS`.
    Step(String),
    /// What the role that ends the run writes, and the number of its step.
    Text {
        text: String,
        seq: u64,
    },
    Rest(Result<Box<Rest>, Problem>),
}

impl Server {
    /// Follows a run until it rests. When the client is gone, the run stops; the thread can be resumed.
    pub fn hear(&self, mut handle: ThreadHandle) -> mpsc::Receiver<Heard> {
        let (sender, receiver) = mpsc::channel(LINES);
        let server = self.clone();
        tokio::spawn(async move {
            let thread = handle.thread.clone();
            // Without the definition, the text is told when it is whole.
            let mut speech = server.speech(thread.clone()).await.unwrap_or_default();
            // The number of the next step.
            let mut next = 1;
            // What a slow client has not taken yet, and the number of its step.
            let (mut text, mut seq) = (String::new(), next);
            loop {
                let event = tokio::select! {
                    event = handle.events.recv() => event,
                    Ok(permit) = sender.reserve(), if !text.is_empty() => {
                        permit.send(Heard::Text { text: std::mem::take(&mut text), seq });
                        continue;
                    }
                    () = sender.closed() => {
                        handle.stopper.stop();
                        break;
                    }
                };
                let Some(event) = event else { break };
                if event.thread == thread {
                    let words = speech.hear(&event.what);
                    if !words.is_empty() {
                        text += &words;
                        seq = next;
                    }
                    next = event.id.map_or(next, |id| id.seq + 1);
                }
                let told = match &event.what {
                    What::Said { text, .. } => Some(Heard::Line(text.clone())),
                    What::StepCommitted {
                        site: CommittedSite { role: Some(role), .. }, status: Some(status), ..
                    } => Some(Heard::Step(format!("{role}: {status}"))),
                    _ => None,
                };
                if let Some(told) = told {
                    // A client that is gone is seen above.
                    let _ = sender.send(told).await;
                }
                server.live.hear_of_other(event);
            }
            let ended = handle.ended().await;
            let rest = server.rest(thread, ended).await.map(|rest| {
                let untold = text + &speech.end(&rest.text);
                Box::new(Rest { untold, ..rest })
            });
            let _ = sender.send(Heard::Rest(rest)).await;
        });
        receiver
    }

    /// What hears the text of a thread.
    async fn speech(&self, thread: ThreadId) -> Result<Speech, Problem> {
        self.reading(move |_, store| {
            let row = store.row(&thread)?.ok_or_else(no_threads)?;
            let workflow = rebuild::beginning(store, &row)?.workflow;
            let policy = rebuild::policy(store, &row)?;
            let graph = Graph::new(&workflow, &policy, Vec::new()).map_err(crate::Error::from)?;
            Ok(Speech::new(Speakers::new(&graph, policy.serve.answer.as_deref())))
        })
        .await
    }

    async fn rest(&self, thread: ThreadId, ended: Ended) -> Result<Rest, Problem> {
        let refused = |code: Code, what: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, what);
        let (forms, result) = match ended {
            Ended::Finished(ending) if ending.outcome == Outcome::Done => {
                (Vec::new(), Arc::unwrap_or_clone(ending.result))
            }
            Ended::Finished(ending) => {
                let why = ending.reason.unwrap_or_else(|| ending.outcome.name().to_owned());
                return Err(refused(Code::ThreadEnded, format!("thread {thread} did not end well: {why}")));
            }
            Ended::Stopped(fault) => {
                return Err(refused(fault.code, format!("thread {thread} stopped: {}", fault.message)));
            }
            Ended::Waiting(forms) => (forms, Value::Null),
        };
        self.reading(move |_, store| {
            let row = store.row(&thread)?.ok_or_else(no_threads)?;
            let policy = rebuild::policy(store, &row)?;
            let spent =
                Checkpoint::from_bytes(&row.checkpoint).map(|checkpoint| checkpoint.spent()).unwrap_or_default();
            let usage = spent.usage;
            let tokens =
                Tokens { prompt: usage.prompt_tokens, cached: usage.cached_tokens, output: usage.output_tokens };
            let text = match forms.first() {
                Some(form) => form_text(form),
                None => result_text(&policy, &result),
            };
            Ok(Rest {
                thread,
                seq: row.seq,
                untold: String::new(),
                text,
                tokens,
                is_waiting: !forms.is_empty(),
                result,
            })
        })
        .await
    }

    /// Where a thread rests that does not run.
    pub async fn rest_of(&self, thread: ThreadId) -> Result<Rest, Problem> {
        let origin = self.host.engine().definition(&thread)?.1;
        let ended = match origin.ending {
            Some(ending) => Ended::Finished(ending),
            None if !origin.forms.is_empty() => Ended::Waiting(origin.forms),
            None => {
                let what = origin.stop.map_or_else(|| "its run was broken off".to_owned(), |stop| stop.message);
                let what = format!("thread {thread} stopped: {what}");
                return Err(Failure::new(Code::Interrupted, what).into());
            }
        };
        self.rest(thread, ended).await
    }

    /// What is kept of a place in a conversation: the thread that waits there.
    async fn remember(&self, place: Digest, thread: &ThreadId) -> Result<(), Problem> {
        let space = self.host.engine().space(SPACE);
        let bytes = thread.as_str().as_bytes().to_vec();
        space.put(place.as_bytes().to_vec(), Some(bytes)).await.map_err(|error| Failure::from(error).into())
    }

    /// Answers the first form of a thread with a message.
    async fn answer_with(&self, thread: ThreadId, text: String) -> Result<ThreadHandle, Problem> {
        let prepared = self.reading(move |server, store| {
            let found = find_thread(store, thread.as_str())?;
            let open = origin(&found.1).and_then(|origin| origin.forms.into_iter().next());
            let named = open.map(|open| (open.visit.role.to_string(), open.visit.lane.to_string()));
            let (role, lane) = named.unzip();
            let (MeantForm { root, open, workflow }, row) =
                meant_form(store, found, (role.as_deref(), lane.as_deref()))?;
            let answer = by_this_person(message::said(&text, &open, &workflow)?, open);
            check(&workflow, &answer)?;
            let run_spec = server.continued(store, &row, Meant::Thread, ContinueChoices::default())?;
            Ok((root, answer, run_spec))
        });
        let (thread, answer, run_spec) = prepared.await?;
        let run_config = self.configured(&thread, &run_spec).await?;
        match self.host.engine().answer(&thread, answer, |_, _| Ok::<_, crate::Error>(run_config)).await? {
            Resumed::Running(handle) => Ok(handle),
            Resumed::Ended { .. } => Err(ended(&thread)),
        }
    }

    /// The thread that waits after `seq` steps: this one, or, if it has gone on since, a fork of it there.
    async fn waiting_at(&self, thread: ThreadId, seq: u64) -> Result<ThreadId, Problem> {
        let found = self.reading(move |server, store| {
            let (thread, row) = find_thread(store, thread.as_str())?;
            if row.seq == seq {
                return Ok((thread, None));
            }
            let run_spec = server.continued(store, &row, Meant::Fork(None), ContinueChoices::default())?;
            Ok((thread, Some(run_spec)))
        });
        let (thread, run_spec) = found.await?;
        let Some(run_spec) = run_spec else { return Ok(thread) };
        let engine = self.host.engine();
        let fork = engine.fork(&thread, seq, &ForkRequest::default()).await?;
        let run_config = self.configured(&fork, &run_spec).await?;
        match engine.resume(&fork, |_, _| Ok::<_, crate::Error>(run_config)).await? {
            // It asks again what it asked then.
            Resumed::Running(handle) => match handle.ended().await {
                Ended::Waiting(_) => Ok(fork),
                _ => Err(ended(&fork)),
            },
            Resumed::Ended { .. } => Err(ended(&fork)),
        }
    }
}

fn ended(thread: &ThreadId) -> Problem {
    let what = format!("thread {thread} does not wait for a message");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::NotWaiting, what)
}

impl super::Inner {
    /// The thread that waits at a place of a conversation.
    fn recall_waiting(&self, place: Digest) -> Result<Option<ThreadId>, Failure> {
        let engine = self.host.engine();
        let Some(kept) = engine.space(SPACE).get(place.as_bytes())? else { return Ok(None) };
        let thread = std::str::from_utf8(&kept).ok().and_then(|text| ThreadId::new(text).ok());
        let Some(thread) = thread else { return Ok(None) };
        let row = engine.store().row(&thread)?;
        Ok(row.filter(|row| row.status == Status::Waiting).map(|_| thread))
    }
}

/// Where conversations are kept: a space of the store beside those of hooks.
const SPACE: &str = "conversations";

/// What answers a message, from the result of the run.
fn result_text(policy: &Policy, result: &Value) -> String {
    let chosen = policy.serve.answer.as_deref().and_then(|key| result.get(key)).unwrap_or(result);
    chosen.as_str().map_or_else(|| chosen.to_text(), str::to_owned)
}

/// A form as a message: its text, and the words that answer it.
fn form_text(open: &OpenForm) -> String {
    let prompt = open.form.get("prompt").and_then(Value::as_str).unwrap_or_default().trim_end();
    if open.form.get("approval").is_some() {
        return format!("{prompt}\n\nAnswer `yes`, or `no` and why not.");
    }
    let statuses = message::statuses(&open.form);
    if let [(_, fields)] = statuses.as_slice()
        && fields.is_empty()
    {
        return prompt.to_owned();
    }
    let ways: Vec<String> =
        statuses
            .iter()
            .map(|(status, fields)| {
                if fields.is_empty() { format!("`{status}`") } else { format!("`{status}` with {}", fields.join(", ")) }
            })
            .collect();
    let how = "Begin with one of these words, then the text; fields as JSON: `{\"status\": ..., \"field\": ...}`";
    format!("{prompt}\n\n{how}: {}.", ways.join(", "))
}

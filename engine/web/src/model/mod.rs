//! A workflow as a model: the parts of OpenAI's API that chat clients use
//! (<https://platform.openai.com/docs/api-reference>). A message fills an input of the workflow, and what it results in
//! answers it. A workflow that waits for a person answers with the form, and continues with the next message; that a tool
//! call may be made is nothing that a client can say.

pub mod chat;
mod message;
mod streamed_text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use rondo::Run;
use rondo::core::conversation::rebuild;
use rondo::core::env::{Env as _, SystemEnv};
use rondo::core::graph::Graph;
use rondo::core::local::spent;
use rondo::core::shown_call::ShownCall;
use rondo::core::thread::OpenForm;
use rondo::core::{Answerer, Ended};
use rondo::failure::Failure;
use rondo::host::answering::answer_to;
use rondo::host::find_thread::no_threads;
use rondo::host::workflow;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::event::{Outcome, What};
use rondo::protocol::id::ThreadId;
use rondo::protocol::object::Usage;
use rondo::protocol::workflow::{Policy, Workflow};
use rondo::protocol::{Digest, Value};
use rondo::tell::command;
use rondo::tell::one_line;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;

use super::body::{Json, typed};
use super::problem::Problem;
use super::workflows::has_script;
use super::{Inner, Server};
use streamed_text::StreamedText;

/// A model of this name is answered by the script beside the workflow; no model is asked.
const OFFLINE: &str = ":offline";

const LINES: usize = 64;

/// How often it is looked whether a thread has settled that runs for another request.
const LOOK: Duration = Duration::from_millis(100);

/// How much of the name is kept that a client gives itself.
const MAX_NAME_CHARACTERS: usize = 80;

/// An error as clients of this API expect it.
#[derive(Serialize)]
struct ErrorFields {
    message: String,
    r#type: &'static str,
    code: &'static str,
    param: (),
}

/// Gives clients of the models' routes every error in the form that they read, also of a request that no handler saw.
pub async fn errors(request: Request, next: Next) -> Response {
    let is_of_model = request.uri().path().starts_with("/v1/");
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>().filter(|_| is_of_model) else { return response };
    let mut answer = typed(error_text(&problem), "application/json");
    // Clients repeat a request after 409 and 5xx, which would start a thread again.
    *answer.status_mut() = match problem.status() {
        StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR => StatusCode::UNPROCESSABLE_ENTITY,
        other => other,
    };
    // Such as how to get in, and what else could be asked.
    for (name, value) in response.headers() {
        if !matches!(*name, header::CONTENT_TYPE | header::CONTENT_LENGTH) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    answer
}

fn error_text(problem: &Problem) -> String {
    let error = ErrorFields { message: problem.text(), r#type: "rondo_error", code: problem.code(), param: () };
    serde_json::to_string(&BTreeMap::from([("error", error)])).unwrap_or_default()
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ModelView {
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

/// The workflows that can be run, and those with a script also as `NAME:offline`.
pub async fn models(State(server): State<Server>) -> Result<Json<ModelList>, Problem> {
    server.json(|server, _| Ok(ModelList { object: "list", data: all(server) })).await
}

fn all(server: &Inner) -> Vec<ModelView> {
    let mut models = Vec::new();
    for found in workflow::all(server.rondo.folder()) {
        let Ok(loaded) = workflow::read(found.file) else { continue };
        let offline = has_script(server, &loaded).then(|| format!("{}{OFFLINE}", found.name));
        let names = std::iter::once(found.name).chain(offline);
        models.extend(names.map(|id| ModelView { id, object: "model", created: 0, owned_by: "rondo" }));
    }
    models
}

pub async fn model(State(server): State<Server>, Path(id): Path<String>) -> Result<Json<ModelView>, Problem> {
    server
        .json(move |server, _| {
            let unknown = || Failure::new(Code::WorkflowNotFound, format!("there is no workflow {:?}", one_line(&id)));
            all(server).into_iter().find(|model| model.id == id).ok_or_else(unknown)
        })
        .await
}

/// How a run settled: with an end, or waiting for a person.
pub struct Settled {
    pub thread: ThreadId,
    /// What answers the message.
    pub text: String,
    /// What of it is left to tell to a client that heard it as it was written.
    unsent: String,
    /// Of all calls of the thread and of its children.
    tokens: Usage,
    /// What it waits for; the text is then that form.
    pub waits_for: Option<WaitsFor>,
    pub result: Value,
}

/// The form that a client is shown.
pub struct WaitsFor {
    /// Its digest.
    pub form: Digest,
    /// Whether a tool call waits for approval, which no client gives.
    pub is_approval: bool,
}

/// A thread that another request continued.
enum Joined {
    Settled(Box<Settled>),
    /// It had stopped, and is continued here.
    Run(Box<Run>),
}

pub enum RunUpdate {
    /// A line of the workflow for the user, without an end of line.
    Line(String),
    /// A step, as `ROLE: STATUS`.
    Step(String),
    /// What the role that ends the run writes.
    Text(String),
    Settled(Result<Box<Settled>, Problem>),
}

impl Server {
    /// Follows a run until it has settled. When the client is gone, the run stops; the thread can be resumed.
    pub fn updates_of(&self, run: Run) -> mpsc::Receiver<RunUpdate> {
        let (sender, receiver) = mpsc::channel(LINES);
        tokio::spawn(self.clone().send_updates(run, sender));
        receiver
    }

    /// Follows a thread that another request or another process continued, until it has settled. If its run stopped, this
    /// one continues it.
    pub fn updates_of_thread(&self, thread: ThreadId) -> mpsc::Receiver<RunUpdate> {
        let (sender, receiver) = mpsc::channel(LINES);
        let server = self.clone();
        tokio::spawn(async move {
            let joined = server.joined(thread, &sender).await;
            let settled = match joined {
                Ok(Joined::Run(run)) => return server.send_updates(*run, sender).await,
                Ok(Joined::Settled(settled)) => Ok(settled),
                Err(problem) => Err(problem),
            };
            // A client that is gone hears nothing.
            let _ = sender.send(RunUpdate::Settled(settled)).await;
        });
        receiver
    }

    /// Waits until a thread has settled or can be continued here.
    async fn joined(&self, thread: ThreadId, client: &mpsc::Sender<RunUpdate>) -> Result<Joined, Problem> {
        let engine = self.host.engine();
        let mut has_waited = false;
        loop {
            if !engine.is_running(&thread) && !self.is_driven_elsewhere(&thread).await {
                let (_, origin) = engine.definition(&thread)?;
                // What another run stopped for would stop this one too.
                let is_refused = has_waited && origin.stop.is_some_and(|stop| stop.code != Code::Interrupted.as_str());
                // One whose time has passed takes its edge when the thread is resumed.
                let waits = !origin.forms.is_empty() && !origin.forms.iter().any(has_expired);
                if is_refused || origin.ending.is_some() || waits {
                    return self.settled_of(thread).await.map(|settled| Joined::Settled(Box::new(settled)));
                }
                match self.resumed(&thread).await {
                    Ok(Some(run)) => return Ok(Joined::Run(Box::new(run))),
                    Ok(None) => {}
                    // Another process began to drive it.
                    Err(problem) if problem.code() == Code::StoreBusy.as_str() => {}
                    Err(problem) => return Err(problem),
                }
            }
            has_waited = true;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = client.closed() => return Err(Failure::new(Code::Interrupted, "the client is gone").into()),
            }
        }
    }

    /// Whether another process drives a thread, or may: nothing is set up for a run that cannot begin.
    async fn is_driven_elsewhere(&self, thread: &ThreadId) -> bool {
        let (server, thread) = (self.clone(), thread.clone());
        let asked = tokio::task::spawn_blocking(move || server.host.driven().may_hold(&thread));
        asked.await.unwrap_or(true)
    }

    async fn send_updates(self, mut run: Run, sender: mpsc::Sender<RunUpdate>) {
        let thread = run.thread().clone();
        // Without the definition, the text is sent when it is whole.
        let mut streamed = self.streamed_text(thread.clone()).await.unwrap_or_default();
        // What a slow client has not taken yet.
        let mut text = String::new();
        loop {
            let event = tokio::select! {
                event = run.next() => event,
                Ok(permit) = sender.reserve(), if !text.is_empty() => {
                    permit.send(RunUpdate::Text(std::mem::take(&mut text)));
                    continue;
                }
                () = sender.closed() => {
                    run.stop();
                    break;
                }
            };
            let Some(event) = event else { break };
            if event.thread == thread {
                text += &streamed.read(&event.what);
            }
            let update = match &event.what {
                What::Said { text, .. } => Some(RunUpdate::Line(text.clone())),
                What::StepCommitted { role, status, .. } => Some(RunUpdate::Step(format!("{role}: {status}"))),
                _ => None,
            };
            if let Some(update) = update {
                // A client that is gone is seen above.
                let _ = sender.send(update).await;
            }
            self.live.publish_foreign(event);
        }
        let ended = run.ended().await;
        let settled = self.settled(thread, ended).await.map(|settled| {
            let unsent = text + &streamed.end(&settled.text);
            Box::new(Settled { unsent, ..settled })
        });
        let _ = sender.send(RunUpdate::Settled(settled)).await;
    }

    async fn streamed_text(&self, thread: ThreadId) -> Result<StreamedText, Problem> {
        self.reading(move |_, store| {
            let row = store.row(&thread)?.ok_or_else(no_threads)?;
            let workflow = rebuild::beginning(store, &row)?.workflow;
            let policy = rebuild::policy(store, &row)?;
            let graph = Graph::new(&workflow, &policy, Vec::new()).map_err(rondo::core::Error::from)?;
            Ok(StreamedText::new(&graph, policy.serve.answer.as_deref()))
        })
        .await
    }

    async fn settled(&self, thread: ThreadId, ended: Ended) -> Result<Settled, Problem> {
        let refused = |code: Code, what: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, what);
        let (forms, result) = match ended {
            Ended::Finished(ending) if ending.outcome == Outcome::Done => {
                (Vec::new(), Arc::unwrap_or_clone(ending.result))
            }
            Ended::Finished(ending) => {
                let why = ending.reason.unwrap_or_else(|| ending.outcome.name().to_owned());
                return Err(refused(Code::ThreadEnded, format!("thread {thread} did not succeed: {why}")));
            }
            Ended::Stopped(fault) => {
                return Err(refused(fault.code, format!("thread {thread} stopped: {}", fault.message)));
            }
            Ended::Waiting(forms) => (forms, Value::Null),
        };
        self.reading(move |_, store| {
            let row = store.row(&thread)?.ok_or_else(no_threads)?;
            let policy = rebuild::policy(store, &row)?;
            let tokens = spent(store, &thread, &row)?.usage;
            let open = for_client(&forms);
            let text = open.map_or_else(|| result_text(&policy, &result), |open| form_text(&thread, open));
            let waits_for = open.map(|open| WaitsFor { form: open.digest(&thread), is_approval: open.is_approval() });
            Ok(Settled { thread, unsent: String::new(), text, tokens, waits_for, result })
        })
        .await
    }

    async fn settled_of(&self, thread: ThreadId) -> Result<Settled, Problem> {
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
        let settled = self.settled(thread, ended).await?;
        Ok(Settled { unsent: settled.text.clone(), ..settled })
    }

    /// Keeps what waits at a place in a conversation: the thread and its form.
    async fn remember(&self, place: Digest, settled: &Settled) -> Result<(), Problem> {
        let Some(WaitsFor { form, .. }) = &settled.waits_for else { return Ok(()) };
        let bytes = format!("{} {form}", settled.thread).into_bytes();
        Ok(self.keep(SPACE, place.as_bytes().to_vec(), bytes).await?)
    }

    /// Continues a thread with a message that answers its form. If the form has its answer already, the message was sent
    /// before or a person was faster, and what comes of that is followed.
    async fn answer_with(
        &self,
        Shown { thread, form }: Shown,
        text: String,
        client: &str,
    ) -> Result<mpsc::Receiver<RunUpdate>, Problem> {
        self.has_room_for(&thread)?;
        let said = move |open: &OpenForm, workflow: &Workflow| message::said(&text, open, workflow);
        let answer = self.rondo.answer(&thread).form(form).by(Answerer::Client(named(client)));
        match answer.start_with(said).await {
            Ok(run) => Ok(self.updates_of(run)),
            Err(failure) if matches!(failure.code(), Code::NotWaiting | Code::StoreBusy) => {
                Ok(self.updates_of_thread(thread))
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

/// The form that a client is shown: the first that it can fill in, else one of which it can only tell a person.
fn for_client(forms: &[OpenForm]) -> Option<&OpenForm> {
    forms.iter().find(|open| !open.is_approval()).or(forms.first())
}

fn has_expired(open: &OpenForm) -> bool {
    open.expires_at_ms().is_some_and(|at| at <= SystemEnv::default().now_ms())
}

struct Shown {
    thread: ThreadId,
    form: Digest,
}

impl Shown {
    fn read(kept: &[u8]) -> Option<Self> {
        let (thread, form) = std::str::from_utf8(kept).ok()?.split_once(' ')?;
        Some(Self { thread: ThreadId::new(thread).ok()?, form: Digest::from_hex(form)? })
    }
}

impl super::Inner {
    /// What was shown at a place of a conversation: the form of a thread, whatever became of that since.
    fn recall(&self, place: Digest) -> Result<Option<Shown>, Failure> {
        let kept = self.host.engine().space(SPACE).get(place.as_bytes())?;
        Ok(kept.and_then(|kept| Shown::read(&kept)))
    }
}

fn client_of(headers: &HeaderMap) -> &str {
    headers.get(header::USER_AGENT).and_then(|name| name.to_str().ok()).unwrap_or_default()
}

/// A client's own name as a note keeps it.
pub fn named(client: &str) -> String {
    let name: String = one_line(client).chars().take(MAX_NAME_CHARACTERS).collect();
    if name.trim().is_empty() { "a client without a name".to_owned() } else { name }
}

/// Where conversations are kept: a space of the store beside those of hooks.
const SPACE: &str = "conversations";

fn result_text(policy: &Policy, result: &Value) -> String {
    let chosen = policy.serve.answer.as_deref().and_then(|key| result.get(key)).unwrap_or(result);
    chosen.as_str().map_or_else(|| chosen.to_text(), str::to_owned)
}

/// A form as a message: its text, the words that answer it, and the thread, so that no two forms are the same message.
fn form_text(thread: &ThreadId, open: &OpenForm) -> String {
    if let Some(call) = ShownCall::of_form(&open.form) {
        let command = command(&answer_to(thread, open));
        return format!("{}\n\nOnly a person can allow it, in a terminal: `{command}` or `--refuse`.", call.question());
    }
    let prompt = open.form.get("prompt").and_then(Value::as_str).unwrap_or_default().trim_end();
    format!("{prompt}\n\n{}Thread {thread} waits for this.", how_to_answer(&open.form))
}

/// Nothing of a form that any text answers.
fn how_to_answer(form: &Value) -> String {
    let statuses = message::statuses(form);
    if let [(_, fields)] = statuses.as_slice()
        && fields.is_empty()
    {
        return String::new();
    }
    let way = |(status, fields): &(String, Vec<String>)| match fields.as_slice() {
        [] => format!("`{status}`"),
        fields => format!("`{status}` with {}", fields.join(", ")),
    };
    let ways: Vec<String> = statuses.iter().map(way).collect();
    let how = "Answer with one of these words alone on the first line, the text below it; fields as JSON: \
               `{\"status\": ..., \"field\": ...}`";
    format!("{how}: {}.\n\n", ways.join(", "))
}

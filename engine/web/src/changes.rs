//! What a client does to a thread: resume, stop, cancel, answer, fork.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use rondo::agent_kit::tool::InDoubt;
use rondo::core::Answerer;
use rondo::core::local::Cancelled;
use rondo::host::answering::this_person;
use rondo::host::find_thread::root;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::protocol::{Digest, Value};
use rondo::run;
use rondo::views::fork::fork_line;
use rondo::{Answer, Fork, Run};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Server;
use super::body::Json;
use super::params::{Path, invalid};
use super::problem::Problem;
use super::starting::{limit_words, started};
use super::steps::raw;

/// What happens with tool calls of which nobody knows whether they had their effect.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum InDoubtChoice {
    Retry,
    Skip,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeRequest {
    /// Limits to raise.
    limits: BTreeMap<String, Value>,
    in_doubt: Option<InDoubtChoice>,
}

impl Server {
    /// Continues a thread as it began; `None` if it has ended.
    pub(super) async fn resumed(&self, thread: &ThreadId) -> Result<Option<Run>, Problem> {
        self.has_room_for(thread)?;
        let run = self.rondo.resume(thread).start().await?;
        Ok(if run.was_over() { None } else { Some(run) })
    }

    /// Answers a form of the thread that a word names, and continues it.
    pub(super) async fn answered(&self, word: String, request: AnswerRequest, by: Answerer) -> Result<Run, Problem> {
        let AnswerRequest { form, role, lane, status, fields, body, approve, why } = request;
        let thread = self.rondo.find(&word).await?;
        self.has_room_for(&thread)?;
        let mut answer = self.rondo.answer(&thread).by(by).body(&body);
        answer = fields.into_iter().fold(answer, |answer, (name, value)| answer.field(&name, value));
        answer = form.into_iter().fold(answer, Answer::form);
        answer = role.iter().fold(answer, |answer, role| answer.role(role));
        answer = lane.iter().fold(answer, |answer, lane| answer.lane(lane));
        answer = status.iter().fold(answer, |answer, status| answer.status(status));
        answer = match approve {
            Some(true) => answer.approve(),
            Some(false) => answer.refuse(&why),
            None => answer,
        };
        Ok(answer.start().await?)
    }
}

/// A child continues the thread above it.
pub async fn resume(
    State(server): State<Server>,
    Path(word): Path<String>,
    Json(request): Json<ResumeRequest>,
) -> Result<Response, Problem> {
    let thread = server.rondo.find(&word).await?;
    server.has_room_for(&thread)?;
    let mut resume = server.rondo.resume(&thread);
    resume = limit_words(&request.limits).fold(resume, |resume, (key, value)| resume.limit(key, value));
    resume = match request.in_doubt {
        Some(InDoubtChoice::Retry) => resume.in_doubt(InDoubt::Retry),
        Some(InDoubtChoice::Skip) => resume.in_doubt(InDoubt::Skip),
        None => resume,
    };
    started(&server, server.follow(resume.start().await?)).await
}

pub async fn stop(State(server): State<Server>, Path(word): Path<String>) -> Result<Response, Problem> {
    let thread = server.of_thread(word, |_, store, found| Ok(root(store, found)?.0)).await?;
    if !server.host.engine().stop(&thread).await {
        let what = format!("thread {thread} does not run in this server, so it cannot be stopped here");
        return Err(Problem::new(StatusCode::CONFLICT, Code::NotRunning, what)
            .with_hint("a run in a terminal stops by Ctrl-C there; `cancel` ends a thread for good wherever it runs"));
    }
    started(&server, thread).await
}

pub async fn cancel(State(server): State<Server>, Path(word): Path<String>) -> Result<Response, Problem> {
    let thread = server.of_thread(word, |_, _, (thread, _)| Ok(thread)).await?;
    // A run that is still stopping is told by the status of the thread.
    let (Cancelled::Ended | Cancelled::Stopping) = run::cancel(&server.rondo, &thread).await?;
    started(&server, thread).await
}

/// The answer to a form, or to a tool call that waits for approval.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerRequest {
    /// The digest of the form, as `forms` of the thread gives it.
    form: Option<Digest>,
    role: Option<String>,
    lane: Option<String>,
    status: Option<String>,
    fields: BTreeMap<String, Value>,
    body: String,
    /// Whether the tool call may be made.
    approve: Option<bool>,
    /// Why not.
    why: String,
}

pub async fn answer(
    State(server): State<Server>,
    Path(word): Path<String>,
    Json(request): Json<AnswerRequest>,
) -> Result<Response, Problem> {
    if request.form.is_none() {
        let what = "form: the answer does not say to which form; send its `digest`, as `forms` of the thread has it";
        return Err(invalid(what));
    }
    started(&server, server.follow(server.answered(word, request, this_person()).await?)).await
}

/// Where and how a thread is forked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForkBody {
    /// The last step that both threads have; with `answer` the one that is answered otherwise.
    at: Option<u64>,
    /// The answer of that step, exactly as its role would give it; the steps before it are shared.
    answer: Option<String>,
    /// Inputs that change.
    input: BTreeMap<String, Value>,
    /// Only says what would be shared, changed and run again: the answer is the line of `rondo fork --dry-run`.
    dry_run: bool,
}

pub async fn fork(
    State(server): State<Server>,
    Path(word): Path<String>,
    Json(body): Json<ForkBody>,
) -> Result<Response, Problem> {
    let thread = server.rondo.find(&word).await?;
    let ForkBody { at, answer, input, dry_run } = body;
    let mut fork = server.rondo.fork(&thread);
    fork = at.into_iter().fold(fork, Fork::at);
    fork = answer.iter().fold(fork, |fork, answer| fork.answer(answer));
    fork = input.into_iter().fold(fork, |fork, (name, value)| fork.input(&name, value));
    if dry_run {
        let plan = fork.plan().await?;
        return Ok(Json(raw(&fork_line(&thread, &plan))?).into_response());
    }
    server.has_room()?;
    started(&server, server.follow(fork.start().await?)).await
}

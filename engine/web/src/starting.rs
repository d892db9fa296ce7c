//! `POST /threads`: starts a thread.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rondo::core::Labels;
use rondo::core::env::{Env as _, SystemEnv};
use rondo::failure::Failure;
use rondo::host::answers_from::AnswersFrom;
use rondo::host::starting::RunChoices;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::protocol::workflow::types;
use rondo::protocol::{Digest, Value, canonical};
use rondo::run::Prepared;
use rondo::{NewRun, Run, blocking};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::Json;
use super::problem::Problem;
use super::workflows::load;
use super::{Inner, Server, kept};

/// The header with which a repeated request starts nothing again
/// (draft-ietf-httpapi-idempotency-key-header-07).
const KEY: &str = "idempotency-key";
const MAX_KEY_CHARS: usize = 255;

/// What is kept of requests with such a key: a space of the store beside those of hooks.
const SPACE: &str = "requests";

/// The body of the request.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    /// A workflow by its name.
    pub workflow: String,
    /// Its input, an object.
    #[serde(default)]
    pub input: BTreeMap<String, Value>,
    /// Whether the script beside the workflow answers in place of models.
    #[serde(default)]
    pub offline: bool,
    #[serde(default)]
    pub label: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Limits in place of the workflow's; a time is a text such as `30m`.
    #[serde(default)]
    pub limits: BTreeMap<String, Value>,
    /// Models in place of the workflow's, by role.
    #[serde(default)]
    pub models: BTreeMap<String, String>,
}

/// A repeated request: the thread that the first one started, and the digest of what it asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdempotentStart {
    thread: ThreadId,
    request: Digest,
}

/// The limits of a request, each value as a word.
pub fn limit_words(limits: &BTreeMap<String, Value>) -> impl Iterator<Item = (&str, String)> {
    limits.iter().map(|(key, value)| (key.as_str(), value.as_str().map_or_else(|| value.to_text(), str::to_owned)))
}

pub async fn start(
    State(server): State<Server>,
    headers: HeaderMap,
    Json(request): Json<StartRequest>,
) -> Result<Response, Problem> {
    let Some(key) = headers.get(KEY) else {
        let run = begin(&server, request, SystemEnv::default().thread_id()).await?;
        return started(&server, server.follow(run)).await;
    };
    let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_CHARS).contains(&key.len()));
    let key = key.ok_or_else(|| {
        let what = format!("the {KEY} has 1 to {MAX_KEY_CHARS} visible characters of ASCII");
        Problem::new(StatusCode::BAD_REQUEST, Code::RequestUnreadable, what)
    })?;
    let thread = server.begin_once(key, request).await?;
    started(&server, thread).await
}

impl Server {
    /// Starts the thread of a request, unless one with this key did: its thread is returned then, also after a crash.
    pub(super) async fn begin_once(&self, key: &str, request: StartRequest) -> Result<ThreadId, Problem> {
        let engine = self.host.engine();
        let digest = Digest::sha256(&canonical::to_bytes(&request).map_err(Failure::from)?);
        let place = Digest::sha256(key.as_bytes()).as_bytes().to_vec();
        // Two requests with one key, sent at once, start one thread.
        let _alone = kept::reserved(engine, &place).await?;
        let known = kept::known::<IdempotentStart>(&engine.space(SPACE), &place)?;
        let thread = match known {
            Some(repeat) if engine.store().row(&repeat.thread).map_err(Failure::from)?.is_some() => {
                if repeat.request == digest {
                    return Ok(repeat.thread);
                }
                let what = "the idempotency key was used for another request";
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, Code::KeyReused, what)
                    .with_hint("draw a new key for each request that is not a repetition"));
            }
            // The server ended between the two writes, or refused the request.
            Some(repeat) if repeat.request == digest => repeat.thread,
            // A request that was refused has used up nothing.
            _ => {
                let thread = SystemEnv::default().thread_id();
                let repeat = IdempotentStart { thread: thread.clone(), request: digest };
                let bytes = canonical::to_bytes(&repeat).map_err(Failure::from)?;
                self.keep(SPACE, place, bytes).await?;
                thread
            }
        };
        Ok(self.follow(begin(self, request, thread).await?))
    }
}

pub(super) async fn begin(server: &Server, request: StartRequest, thread: ThreadId) -> Result<Run, Problem> {
    server.has_room()?;
    let inner = server.clone();
    let (prepared, input) = blocking(move || prepared(&inner, request)).await?;
    Ok(prepared.start(input, Some(thread)).await?)
}

fn prepared(server: &Inner, request: StartRequest) -> Result<(Prepared, Value), Failure> {
    let StartRequest { workflow: name, input, offline, label, tags, limits, models } = request;
    let loaded = load(server, &name)?;
    let input = types::check_input(&loaded.checked.workflow, input).map_err(|faults| Failure::of_inputs(&faults))?;
    let chosen = RunChoices {
        models: models.iter().map(|(role, model)| format!("{role}={model}")).collect(),
        limits: limit_words(&limits).map(|(key, value)| format!("{key}={value}")).collect(),
        answers: if offline { AnswersFrom::ScriptBeside } else { AnswersFrom::Unchosen },
        labels: Labels { label, tags },
        ..RunChoices::default()
    };
    Ok((NewRun::new(server.rondo.clone(), name, loaded).choose(chosen).prepare()?, input))
}

pub async fn started(server: &Server, thread: ThreadId) -> Result<Response, Problem> {
    let address = format!("/api/v1/threads/{thread}");
    let view = server.view(thread.to_string()).await?;
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, address)], Json(view)).into_response())
}

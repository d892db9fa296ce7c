//! What a client does to a thread: resume, stop, cancel, answer, fork.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use rondo::failure::Failure;
use rondo::host::answering::{
    self, FormName, MeantForm, check, declared, meant_form, not_waiting, only_a_person, other_kind, role, this_person,
};
use rondo::host::continuing::{Begun, ContinueChoices, Meant, continued};
use rondo::host::find_thread::{find_thread, root};
use rondo::host::limit_choice::limits;
use rondo::host::run_config::{RunSpec, run_config};
use rondo::views::fork::fork_line;
use rondo_agent_kit::tool::InDoubt;
use rondo_core::conversation::rebuild;
use rondo_core::local::{Cancelled, Edited, ForkPlan, ForkRequest, plan_fork};
use rondo_core::{Answerer, FilledForm, PersonSaid, Resumed, RunConfig, ThreadHandle};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::Start;
use rondo_protocol::workflow::types;
use rondo_protocol::{Digest, Value};
use rondo_store::{Read, Row};
use schemars::JsonSchema;
use serde::Deserialize;

use super::body::Json;
use super::params::{Path, invalid};
use super::problem::Problem;
use super::starting::{limit_words, started};
use super::steps::raw;
use super::{Inner, Server};

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
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    limits: BTreeMap<String, Value>,
    in_doubt: Option<InDoubtChoice>,
}

impl ResumeRequest {
    fn choices(&self) -> Result<ContinueChoices, Failure> {
        let in_doubt = self.in_doubt.map(|choice| match choice {
            InDoubtChoice::Retry => InDoubt::Retry,
            InDoubtChoice::Skip => InDoubt::Skip,
        });
        Ok(ContinueChoices { limits: limits(&limit_words(&self.limits))?, in_doubt, ..ContinueChoices::default() })
    }
}

impl Inner {
    /// What continuing a thread takes.
    pub(super) fn continued(
        &self,
        store: &dyn Read,
        row: &Row,
        meant: Meant<'_>,
        choices: ContinueChoices,
    ) -> Result<RunSpec, Failure> {
        let begun = Begun::of(store, row, meant, &self.here)?;
        let (run_spec, _) = continued((&self.files, self.settings.clone()), begun, choices, self.by, &self.here)?;
        Ok(run_spec)
    }
}

impl Server {
    /// The configuration of a thread that goes on. One that has ended makes no calls.
    pub(super) async fn configured(&self, thread: &ThreadId, run_spec: &RunSpec) -> Result<RunConfig, Problem> {
        let (workflow, origin) = self.host.engine().definition(thread)?;
        if origin.ending.is_some() {
            return Ok(RunConfig::default());
        }
        self.has_room()?;
        let (run_config, _) = run_config(&workflow, run_spec).await?;
        Ok(run_config)
    }

    async fn go_on(&self, thread: ThreadId, run_spec: RunSpec) -> Result<Response, Problem> {
        if let Some(handle) = self.go_on_with(&thread, &run_spec).await? {
            self.follow(handle);
        }
        started(self, thread).await
    }

    /// Continues a thread; `None` if it has ended.
    async fn go_on_with(&self, thread: &ThreadId, run_spec: &RunSpec) -> Result<Option<ThreadHandle>, Problem> {
        let run_config = self.configured(thread, run_spec).await?;
        let resumed = self.host.engine().resume(thread, |_, _| Ok::<_, rondo_core::Error>(run_config)).await?;
        Ok(match resumed {
            Resumed::Running(handle) => Some(handle),
            Resumed::Ended { .. } => None,
        })
    }

    /// Continues a thread as it began; `None` if it has ended.
    pub(super) async fn resumed(&self, thread: &ThreadId) -> Result<Option<ThreadHandle>, Problem> {
        let word = thread.clone();
        let run_spec = self.reading(move |server, store| {
            let (_, row) = find_thread(store, word.as_str())?;
            server.continued(store, &row, Meant::Thread, ContinueChoices::default())
        });
        self.go_on_with(thread, &run_spec.await?).await
    }

    /// Answers a form of the thread that a word names, and continues it.
    pub(super) async fn answered(
        &self,
        word: String,
        request: AnswerRequest,
        by: Answerer,
    ) -> Result<ThreadHandle, Problem> {
        let prepared = self.reading(move |server, store| {
            let found = find_thread(store, &word)?;
            let named = FormName { role: request.role.as_deref(), lane: request.lane.as_deref(), digest: request.form };
            let (MeantForm { root, open, digest, workflow }, row) = meant_form(store, found, named)?;
            if open.is_approval() && matches!(by, Answerer::Client(_)) {
                return Err(only_a_person(&root, &open));
            }
            let said = match (request.status.as_deref(), request.approve) {
                (None, Some(is_allowed)) if open.is_approval() => PersonSaid::Approval { is_allowed, why: request.why },
                (Some(status), None) if !open.is_approval() => {
                    let (status, _) = declared(role(&workflow, &open.visit)?, status)?;
                    let (fields, body) = (request.fields.into_iter().collect(), request.body);
                    PersonSaid::Form(FilledForm { status: status.clone(), fields, body })
                }
                _ => return Err(other_kind(&open, open.is_approval())),
            };
            let answer = answering::answer(said, digest, open, by);
            check(&workflow, &answer)?;
            let run_spec = server.continued(store, &row, Meant::Thread, ContinueChoices::default())?;
            Ok((root, answer, run_spec))
        });
        let (thread, answer, run_spec) = prepared.await?;
        let run_config = self.configured(&thread, &run_spec).await?;
        match self.host.engine().answer(&thread, answer, |_, _| Ok::<_, rondo_core::Error>(run_config)).await? {
            Resumed::Running(handle) => Ok(handle),
            Resumed::Ended { ending, .. } => Err(not_waiting(&thread, ending.outcome.name()).into()),
        }
    }
}

/// `POST /threads/{thread}/resume`: a child goes on with the thread above it.
pub async fn resume(
    State(server): State<Server>,
    Path(word): Path<String>,
    Json(request): Json<ResumeRequest>,
) -> Result<Response, Problem> {
    let prepared = server.reading(move |server, store| {
        let found = find_thread(store, &word)?;
        let named = found.0.clone();
        let (thread, row) = root(store, found)?;
        let mut run_spec = server.continued(store, &row, Meant::Thread, request.choices()?)?;
        run_spec.raised.thread = Some(named);
        Ok((thread, run_spec))
    });
    let (thread, run_spec) = prepared.await?;
    server.go_on(thread, run_spec).await
}

/// `POST /threads/{thread}/stop`: the run ends, and the thread can be resumed.
pub async fn stop(State(server): State<Server>, Path(word): Path<String>) -> Result<Response, Problem> {
    let thread = server.reading(move |_, store| Ok(root(store, find_thread(store, &word)?)?.0)).await?;
    if !server.host.engine().stop(&thread).await {
        let what = format!("thread {thread} does not run in this server, so it cannot be stopped here");
        return Err(Problem::new(StatusCode::CONFLICT, Code::NotRunning, what)
            .with_hint("a run in a terminal stops by Ctrl-C there; `cancel` ends a thread for good wherever it runs"));
    }
    started(&server, thread).await
}

/// `POST /threads/{thread}/cancel`: the thread ends for good.
pub async fn cancel(State(server): State<Server>, Path(word): Path<String>) -> Result<Response, Problem> {
    let thread = server.reading(move |_, store| Ok(find_thread(store, &word)?.0)).await?;
    // A run that is still stopping is told by the status of the thread.
    let (Cancelled::Ended { .. } | Cancelled::Stopping) = server.host.engine().cancel(&thread).await?;
    started(&server, thread).await
}

/// The answer to a form, or to a tool call that waits for approval.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnswerRequest {
    /// The digest of the form, as `forms` of the thread gives it.
    #[schemars(with = "Option<String>")]
    form: Option<Digest>,
    role: Option<String>,
    lane: Option<String>,
    status: Option<String>,
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    fields: BTreeMap<String, Value>,
    body: String,
    /// Whether the tool call may be made.
    approve: Option<bool>,
    /// Why not.
    why: String,
}

/// `POST /threads/{thread}/answer`
pub async fn answer(
    State(server): State<Server>,
    Path(word): Path<String>,
    Json(request): Json<AnswerRequest>,
) -> Result<Response, Problem> {
    if request.form.is_none() {
        return Err(invalid(
            "form: the answer does not say to which form; send its `digest`, as `forms` of the thread has it",
        ));
    }
    let handle = server.answered(word, request, this_person()).await?;
    let thread = handle.thread.clone();
    server.follow(handle);
    started(&server, thread).await
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
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    input: BTreeMap<String, Value>,
    /// Only says what would be shared, changed and run again: the answer is the line of `rondo fork --dry-run`.
    dry_run: bool,
}

/// `POST /threads/{thread}/fork`
pub async fn fork(
    State(server): State<Server>,
    Path(word): Path<String>,
    Json(body): Json<ForkBody>,
) -> Result<Response, Problem> {
    let prepared = server.reading(move |server, store| {
        let (thread, row) = find_thread(store, &word)?;
        if let Some(at) = body.at.filter(|at| !(1..=row.seq).contains(at)) {
            let what = format!("thread {thread} has no step {at}; its last is {}", row.seq);
            return Err(Failure::new(Code::ForkUnclear, what));
        }
        let edited = if body.input.is_empty() { None } else { Some(with_input(store, &row, body.input)?) };
        let request = ForkRequest { at: body.at, edited, answer: body.answer };
        let plan = plan_fork(store, &thread, &request)?;
        if body.dry_run {
            return Ok(Err(raw(&fork_line(&thread, &plan))?));
        }
        let run_spec = server.continued(store, &row, Meant::Fork(None), ContinueChoices::default())?;
        Ok(Ok((thread, request, plan, run_spec)))
    });
    let (thread, request, plan, run_spec) = match prepared.await? {
        Ok(prepared) => prepared,
        Err(plan) => return Ok(Json(plan).into_response()),
    };
    let ForkPlan { at, .. } = plan;
    let engine = server.host.engine();
    let Some(new) = request.of_its_own(at, engine.definition(&thread)?.1) else {
        let fork = engine.fork(&thread, at, &request).await?;
        return server.go_on(fork, run_spec).await;
    };
    // Nothing stays as it is: the fork is a thread of its own.
    let (run_config, _) = run_config(&new.workflow, &run_spec).await?;
    let handle = engine.start(new, run_config).await?;
    let fork = handle.thread.clone();
    server.follow(handle);
    started(&server, fork).await
}

/// The definition of a thread with some of its inputs changed.
fn with_input(store: &dyn Read, row: &Row, changed: BTreeMap<String, Value>) -> Result<Edited, Failure> {
    let (workflow, policy) = (rebuild::beginning(store, row)?.workflow, rebuild::policy(store, row)?);
    let mut members = match rebuild::object::<Start>(store, Kind::Start, row.start)?.input {
        Value::Object(members) => members,
        _ => BTreeMap::new(),
    };
    members.extend(changed);
    let input = types::check_input(&workflow, members).map_err(|faults| Failure::of_inputs(&faults))?;
    Ok(Edited { workflow, policy, input: Some(input), file: None })
}

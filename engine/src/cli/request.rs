//! What a verb asks of the host, and what it is told while that is carried out.

use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Policy, Workflow};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::{Failure, Fault};
use super::hooks::{self, VerbRequest};
use super::output::tell;
use super::recording;
use super::run_config::{Given, RunSpec, run_config};
use super::session::of_store;
use crate::hook::SubcommandOutput;
use crate::store::StepStore;
use crate::thread::Ending;
use crate::{Cancelled, Engine, Error, NewThread, Resumed, RunConfig, ThreadHandle};

/// How many replies may wait for whoever shows them before the run waits too.
pub const REPLIES: usize = 256;

/// What is asked of the host.
pub enum Request {
    /// A new thread.
    Run(Box<RunRequest>),
    /// A thread that stopped goes on.
    Resume(Box<ResumeRequest>),
    /// A verb that a hook kind brought along.
    Verb(Box<VerbRequest>),
    /// A thread ends for good.
    Cancel {
        /// Which.
        thread: ThreadId,
    },
}

/// A new thread.
pub struct RunRequest {
    /// The checked workflow.
    pub workflow: Workflow,
    /// Its policy.
    pub policy: Policy,
    /// The checked input.
    pub input: Value,
    /// The workflow's file, as an absolute path.
    pub file: Option<String>,
    /// The script's file, as an absolute path.
    pub script: Option<String>,
    /// What the operator gives.
    pub run_spec: RunSpec,
}

/// A thread that stopped goes on.
pub struct ResumeRequest {
    /// Which.
    pub thread: ThreadId,
    /// What the operator gives.
    pub run_spec: RunSpec,
}

/// What a terminal is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Something happened in the thread.
    Event(Box<Event>),
    /// What a verb of a hook kind has to say.
    Said(SubcommandOutput),
    /// The request was carried out; nothing follows.
    End {
        /// The exit code.
        exit: u8,
    },
    /// The request could not be carried out; nothing follows.
    Refused {
        /// The exit code.
        exit: u8,
        /// The code of the fault.
        code: String,
        /// What happened.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
}

impl Reply {
    /// The reply to a request that cannot be carried out.
    fn refused(failure: Failure) -> Self {
        match failure {
            Failure::Fault(Fault { exit, code, message, hint }) => {
                Self::Refused { exit: exit.code(), code: code.to_string(), message, hint }
            }
            Failure::Diagnostics(faulty) => {
                let message = faulty.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
                let code = faulty.faults.first().map_or(Code::InternalFault, |fault| fault.code).to_string();
                Self::Refused { exit: Exit::Invalid.code(), code, message, hint: None }
            }
        }
    }
}

/// Why a request was refused, as a failure of this process.
pub fn refusal(exit: u8, code: &str, message: String, hint: Option<String>) -> Failure {
    let code = Code::find(code).unwrap_or(Code::InternalFault);
    let exit = Exit::of_code(exit).unwrap_or(Exit::InputOutput);
    Failure::Fault(Fault { exit, code, message, hint })
}

/// Carries out a request; tells what happens and at last how it ended. A run
/// whose replies nobody takes any more is stopped, and can be resumed.
pub async fn carry_out(engine: &Engine, request: Request, stop: &CancellationToken, replies: mpsc::Sender<Reply>) {
    let last = match begin(engine, request, stop, &replies).await {
        Ok(exit) => Reply::End { exit: exit.code() },
        Err(failure) => Reply::refused(failure),
    };
    let _ = replies.send(last).await;
}

async fn begin(
    engine: &Engine,
    request: Request,
    stop: &CancellationToken,
    replies: &mpsc::Sender<Reply>,
) -> Result<Exit, Failure> {
    match request {
        Request::Run(request) => {
            let RunRequest { workflow, policy, input, file, script, run_spec } = *request;
            let workspace = Some(run_spec.equipment.settings().workspace.to_string_lossy().into_owned());
            let mut run_config = told(unless_stopped(stop, run_config(&workflow, &run_spec)).await?);
            let to = run_spec.record.as_deref();
            let begun = to.map(|to| recording::begin(to, &workflow.name)).transpose()?;
            run_config.recorder.clone_from(&begun);
            let recorded = run_spec.recorded.as_ref().map(|played| played.file.clone());
            let new = NewThread { workflow, policy, input, file, script, recorded, workspace };
            let handle = engine.start(new, run_config).await.inspect_err(|_| recording::discard(to))?;
            let exit = follow(handle, stop, replies).await;
            match begun.map(|recorder| recorder.finish()) {
                // Where the run has stopped because of it, that has been told.
                Some(Err(fault)) if exit != Exit::InputOutput => Err(recording::failed(fault)),
                _ => Ok(exit),
            }
        }
        Request::Resume(request) => {
            let ResumeRequest { thread, run_spec } = *request;
            let (workflow, origin) = engine.definition(&thread)?;
            // Nothing is called for a thread that has ended.
            let given = match origin.ending {
                Some(_) => RunConfig::default(),
                None => told(unless_stopped(stop, run_config(&workflow, &run_spec)).await?),
            };
            match engine.resume(&thread, |_, _| Ok::<_, Failure>(given)).await? {
                Resumed::Running(handle) => Ok(follow(handle, stop, replies).await),
                Resumed::Ended { ending, head } => {
                    let exit = Exit::of_outcome(ending.outcome);
                    let event = ended_event(engine.store().as_ref(), thread, ending, head);
                    let _ = replies.send(Reply::Event(Box::new(event))).await;
                    Ok(exit)
                }
            }
        }
        Request::Verb(request) => {
            let said = unless_stopped(stop, hooks::carry_out(engine, *request)).await?;
            let _ = replies.send(Reply::Said(said)).await;
            Ok(Exit::Done)
        }
        Request::Cancel { thread } => {
            if let Cancelled::Ended { ending, head } = engine.cancel(&thread).await? {
                let event = ended_event(engine.store().as_ref(), thread, ending, head);
                let _ = replies.send(Reply::Event(Box::new(event))).await;
            }
            Ok(Exit::Done)
        }
    }
}

/// What a run is given, once it is said what is to be said of it.
fn told((run_config, notices): Given) -> RunConfig {
    for notice in &notices {
        tell(&format!("{notice}\n"));
    }
    run_config
}

/// Waits for what has to be started first, such as a server of tools, but not when the run is told to stop.
async fn unless_stopped<T>(
    stop: &CancellationToken,
    starting: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        started = starting => started,
        () = stop.cancelled() => Err(Failure::new(Code::Interrupted, "the run was told to stop before it began")),
    }
}

/// How a thread has ended that this process does not run.
fn ended_event(store: &dyn StepStore, thread: ThreadId, ending: Ending, head: Option<rondo_protocol::Digest>) -> Event {
    let Ending { outcome, reason, result, at_ms } = ending;
    let last = store.row(&thread).ok().flatten().and_then(|row| store.step(&thread, row.seq).ok().flatten());
    let status = last.map(|(stored, _)| stored.step.status);
    let what = What::ThreadFinished { outcome, head, status, reason, result };
    let id = crate::local::end(store, &thread).ok().flatten();
    Event { id, thread, parent: None, durability: store.durability(), at_ms, what }
}

async fn follow(mut handle: ThreadHandle, stop: &CancellationToken, replies: &mpsc::Sender<Reply>) -> Exit {
    let mut is_stopping = false;
    loop {
        tokio::select! {
            event = handle.events.recv() => {
                let Some(event) = event else { break };
                if replies.send(Reply::Event(Box::new(event))).await.is_err() {
                    handle.stopper.stop();
                    break;
                }
            }
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                handle.stopper.stop();
            }
            () = replies.closed(), if !is_stopping => {
                is_stopping = true;
                handle.stopper.stop();
            }
        }
    }
    Exit::of_ended(&handle.ended().await)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Store(error) => of_store(&error),
            Error::NoThread { .. } => Self::new(Code::ThreadUnknown, message),
            Error::Running { .. } => Self::new(Code::StoreBusy, message),
            Error::HasEnded { .. } => Self::new(Code::ThreadEnded, message),
            Error::ResolvedRoles(crate::resolved_roles::Error::UnresolvedModel { .. }) => {
                Self::new(Code::NoProvider, message)
            }
            Error::HookProgram { ref program, .. } => {
                let hint = format!("look at what it is to do, then declare it as [hook.{program}] in rondo.toml");
                Self::new(Code::HookProgramUnknown, message).with_hint(hint)
            }
            Error::Hook { .. } => Self::new(Code::HookSettings, message).with_exit(Exit::Invalid),
            Error::Unpriced { ref model, .. } => {
                let hint = format!(
                    "say it as price = {{ input, output }} of [model.{model}] in rondo.toml, or take the limit out"
                );
                Self::new(Code::PriceUnknown, message).with_hint(hint)
            }
            Error::Fault(fault) => Self::new(fault.code, message),
            Error::Graph(_) | Error::ResolvedRoles(_) | Error::Layout(_) | Error::Input(_) => {
                Self::new(Code::InternalFault, message)
            }
        }
    }
}

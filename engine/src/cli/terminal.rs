//! One store, many terminals: what a process asks of the one that holds the store, and what it is told.
//!
//! The holder carries out its own requests in the same way, so that a run looks the same from every terminal.

use std::time::Duration;

use rondo_protocol::canonical::{self, Value};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Policy, Workflow};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::{Failure, Fault};
use super::hooks::{self, VerbRequest};
use super::operating::{Provision, operating};
use super::recording;
use super::session::of_store;
use crate::hook::Said;
use crate::socket::Connection;
use crate::store::StepStore;
use crate::thread::Ending;
use crate::{Cancelled, Engine, Error, NewThread, Operating, Resumed, ThreadHandle};

/// How many replies may wait for whoever shows them before the run waits too.
pub const REPLIES: usize = 256;

/// How long the process that holds the store may take to answer.
pub const ANSWER: Duration = Duration::from_secs(2);

/// What is asked of the process that holds the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

impl Request {
    /// The same, as of a process whose terminal is not this one's.
    fn unattended(mut self) -> Self {
        match &mut self {
            Self::Run(request) => request.provision.is_attended = false,
            Self::Resume(request) => request.provision.is_attended = false,
            Self::Cancel { .. } | Self::Verb(_) => {}
        }
        self
    }
}

/// A new thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    pub provision: Provision,
}

/// A thread that stopped goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumeRequest {
    /// Which.
    pub thread: ThreadId,
    /// What the operator gives.
    pub provision: Provision,
}

/// What a terminal is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The request has been taken over.
    Taken,
    /// Something happened in the thread.
    Event(Told),
    /// What a verb of a hook kind has to say.
    Said(Said),
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

/// An event on its way. What of it is an author's value travels beside it: the reader of events buffers numbers in a
/// form that holds fewer digits than a value may have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Told {
    event: Box<Event>,
    value: Value,
}

impl From<Event> for Told {
    fn from(mut event: Event) -> Self {
        let value = value_of(&mut event.what).map(std::mem::take).unwrap_or_default();
        Self { event: Box::new(event), value }
    }
}

impl From<Told> for Event {
    fn from(Told { mut event, value }: Told) -> Self {
        if let Some(place) = value_of(&mut event.what) {
            *place = value;
        }
        *event
    }
}

/// The author's value in an event, if it has one.
fn value_of(what: &mut What) -> Option<&mut Value> {
    match what {
        What::ThreadFinished { result: value, .. }
        | What::ThreadWaiting { form: value, .. }
        | What::HookReport { metrics: value, .. } => Some(value),
        _ => None,
    }
}

/// The frame of a request or a reply: canonical JSON, which keeps every digit and holds no newline.
fn frame<T: Serialize>(message: &T) -> Result<Vec<u8>, Failure> {
    canonical::to_bytes(message).map_err(|error| Failure::new(Code::InternalFault, error.to_string()))
}

/// Serves one terminal: takes over its request and tells it what happens, until the request has ended or the terminal
/// has gone.
pub async fn serve(engine: &Engine, mut connection: Connection, stop: &CancellationToken) {
    let Ok(Ok(Some(asked))) = tokio::time::timeout(ANSWER, connection.incoming.next()).await else { return };
    let Connection { mut incoming, mut outgoing } = connection;
    let (sender, mut replies) = mpsc::channel(REPLIES);
    let carrying = async {
        let _ = sender.send(Reply::Taken).await;
        match canonical::from_slice::<Request>(&asked) {
            Ok(request) => carry_out(engine, request.unattended(), stop, &sender).await,
            Err(error) => {
                let message = format!("the process that holds the store does not understand the request: {error}");
                let failure = Failure::new(Code::StoreBusy, message).with_hint("both must be of the same version");
                let _ = sender.send(Reply::refused(failure)).await;
            }
        }
        drop(sender);
    };
    let telling = async {
        loop {
            let reply = tokio::select! {
                reply = replies.recv() => reply,
                // A terminal says nothing more; it closes when it does not want to know the rest.
                _ = incoming.next() => None,
            };
            let Some(Ok(frame)) = reply.map(|reply| frame(&reply)) else { break };
            if outgoing.send(frame).await.is_err() {
                break;
            }
        }
        drop(replies);
    };
    tokio::join!(carrying, telling);
}

/// Asks the process that holds the store and passes its replies on. The connection is closed when nobody takes them.
///
/// # Errors
/// When it does not take the request over within [`ANSWER`].
pub async fn ask(
    connection: Connection,
    request: &Request,
    stop: &CancellationToken,
    replies: &mpsc::Sender<Reply>,
) -> Result<(), Failure> {
    let Connection { mut incoming, mut outgoing } = connection;
    let silent = || Failure::new(Code::StoreBusy, "the process that holds the store does not answer");
    outgoing.send(frame(request)?).await.map_err(|_| silent())?;
    let first = tokio::time::timeout(ANSWER, incoming.next()).await;
    if !matches!(first, Ok(Ok(Some(ref frame))) if matches!(canonical::from_slice(frame), Ok(Reply::Taken))) {
        return Err(silent());
    }
    loop {
        let frame = tokio::select! {
            frame = incoming.next() => frame,
            () = stop.cancelled() => {
                let _ = replies.send(Reply::End { exit: Exit::Interrupted.code() }).await;
                return Ok(());
            }
        };
        let Ok(Some(frame)) = frame else {
            let message = "the process that held the store ended; what it acknowledged is safe";
            let failure = Failure::new(Code::Interrupted, message).with_exit(Exit::InputOutput);
            return Err(failure.with_hint("`rondo resume` goes on"));
        };
        let reply: Reply = canonical::from_slice(&frame).map_err(|error| {
            Failure::new(Code::StoreBusy, format!("the holder's answer is not understood: {error}"))
        })?;
        let is_last = matches!(reply, Reply::End { .. } | Reply::Refused { .. });
        if replies.send(reply).await.is_err() || is_last {
            return Ok(());
        }
    }
}

impl Reply {
    /// The reply to a request that cannot be carried out.
    pub fn refused(failure: Failure) -> Self {
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

/// Carries out a request over the store that this process holds; tells what happens and at last how it ended. A run
/// whose replies nobody takes any more is stopped, and can be resumed.
pub async fn carry_out(engine: &Engine, request: Request, stop: &CancellationToken, replies: &mpsc::Sender<Reply>) {
    let last = match begin(engine, request, stop, replies).await {
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
            let RunRequest { workflow, policy, input, file, script, provision } = *request;
            let workspace = Some(provision.settings.workspace.to_string_lossy().into_owned());
            let mut operating = unless_stopped(stop, operating(&workflow, &provision)).await?;
            let to = provision.record.as_deref();
            let begun = to.map(|to| recording::begin(to, &workflow.name)).transpose()?;
            operating.recorder.clone_from(&begun);
            let recorded = provision.recorded.as_ref().map(|played| played.file.clone());
            let new = NewThread { workflow, policy, input, file, script, recorded, workspace };
            let handle = engine.start(new, operating).await.inspect_err(|_| recording::discard(to))?;
            let exit = follow(handle, stop, replies).await;
            match begun.map(|recorder| recorder.finish()) {
                // Where the run has stopped because of it, that has been told.
                Some(Err(fault)) if exit != Exit::InputOutput => Err(recording::failed(fault)),
                _ => Ok(exit),
            }
        }
        Request::Resume(request) => {
            let ResumeRequest { thread, provision } = *request;
            let (workflow, origin) = engine.definition(&thread)?;
            // Nothing is called for a thread that has ended.
            let given = match origin.ending {
                Some(_) => Operating::default(),
                None => unless_stopped(stop, operating(&workflow, &provision)).await?,
            };
            match engine.resume(&thread, |_, _| Ok::<_, Failure>(given)).await? {
                Resumed::Running(handle) => Ok(follow(handle, stop, replies).await),
                Resumed::Ended { ending, head } => {
                    let exit = Exit::of_outcome(ending.outcome);
                    let event = ended_event(engine.store().as_ref(), thread, ending, head);
                    let _ = replies.send(Reply::Event(event.into())).await;
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
                let _ = replies.send(Reply::Event(event.into())).await;
            }
            Ok(Exit::Done)
        }
    }
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
    let id = crate::host::end(store, &thread).ok().flatten();
    Event { id, thread, parent: None, durability: store.durability(), at_ms, what }
}

async fn follow(mut handle: ThreadHandle, stop: &CancellationToken, replies: &mpsc::Sender<Reply>) -> Exit {
    let mut is_stopping = false;
    loop {
        tokio::select! {
            event = handle.events.recv() => {
                let Some(event) = event else { break };
                if replies.send(Reply::Event(event.into())).await.is_err() {
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
            Error::Cast(crate::cast::Error::UnresolvedModel { .. }) => Self::new(Code::NoProvider, message),
            Error::HookProgram { ref program, .. } => {
                let hint = format!("look at what it is to do, then declare it as [hook.{program}] in rondo.toml");
                Self::new(Code::HookProgramUnknown, message).with_hint(hint)
            }
            Error::Hook { .. } => Self::new(Code::HookSettings, message).with_exit(Exit::Invalid),
            Error::Fault(fault) => Self::new(fault.code, message),
            Error::Graph(_) | Error::Cast(_) | Error::Layout(_) | Error::Input(_) => {
                Self::new(Code::InternalFault, message)
            }
        }
    }
}

//! Runs tasks on the engine, such as one thread each, and shows their events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Durability, Event, What};
use rondo_protocol::id::ThreadId;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Style, tell};
use super::progress::{Mode, Progress};
use super::report;
use super::show::pretty;
use super::signals::Signals;
use super::store_access::OwnStore;
use crate::hook::SubcommandOutput;
use crate::host::{Host, Opening};
use crate::thread::Ending;
use crate::{Ended, Engine, SystemEnv, ThreadHandle};

/// How many updates may be queued before the tasks wait.
const MAX_UPDATES: usize = 256;

/// Work on the engine. Its exit code becomes that of the process unless an earlier task failed.
pub type Task = Box<dyn FnOnce(TaskContext) -> BoxFuture<'static, Result<Exit, Failure>> + Send>;

/// Something that a task shows.
enum Update {
    Event(Box<Event>),
    Said(SubcommandOutput),
    Ended(Result<Exit, Failure>),
}

/// The engine and the output of one task.
pub struct TaskContext {
    pub engine: Engine,
    index: usize,
    stop: CancellationToken,
    updates: mpsc::Sender<(usize, Update)>,
}

impl TaskContext {
    /// Shows the output of a hook kind's verb.
    pub async fn said(&self, said: SubcommandOutput) {
        self.send(Update::Said(said)).await;
    }

    /// Shows the end of a thread that does not run in this process.
    pub async fn ended(&self, thread: ThreadId, ending: Ending, head: Option<Digest>) {
        let store = self.engine.store().as_ref();
        let Ending { outcome, reason, result, at_ms } = ending;
        let last = store.row(&thread).ok().flatten().and_then(|row| store.step(&thread, row.seq).ok().flatten());
        let status = last.map(|(stored, _)| stored.step.status);
        let what = What::ThreadFinished { outcome, head, status, reason, result };
        let id = crate::local::end(store, &thread).ok().flatten();
        let event = Event { id, thread, parent: None, durability: store.durability(), at_ms, what };
        self.send(Update::Event(Box::new(event))).await;
    }

    /// Waits for preparations, such as the start of an MCP server, unless the process receives a signal to stop.
    ///
    /// # Errors
    /// Those of `preparation`, or [`Code::Interrupted`].
    pub async fn unless_stopped<T>(&self, preparation: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            prepared = preparation => prepared,
            () = self.stop.cancelled() => {
                Err(Failure::new(Code::Interrupted, "the run was told to stop before it began"))
            }
        }
    }

    /// Shows the events of a running thread until it ends. Stops the thread when the process receives a signal to stop
    /// or the output is closed.
    pub async fn follow(&self, mut handle: ThreadHandle) -> Ended {
        let mut is_stopping = false;
        loop {
            tokio::select! {
                event = handle.events.recv() => {
                    let Some(event) = event else { break };
                    if !self.send(Update::Event(Box::new(event))).await {
                        handle.stopper.stop();
                        break;
                    }
                }
                () = self.stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    handle.stopper.stop();
                }
                () = self.updates.closed(), if !is_stopping => {
                    is_stopping = true;
                    handle.stopper.stop();
                }
            }
        }
        handle.ended().await
    }

    async fn send(&self, update: Update) -> bool {
        self.updates.send((self.index, update)).await.is_ok()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Whether to show only results and faults.
    pub is_quiet: bool,
    /// How many tasks run at the same time.
    pub concurrency: usize,
}

/// Runs one task quietly.
pub fn run_task(task: Task, store: OwnStore, durability: Durability, output: &mut Output) -> Result<Exit, Failure> {
    run_tasks(std::iter::once(task), store, durability, RunOptions { is_quiet: true, concurrency: 1 }, output)
}

/// Runs tasks and shows them. Returns the exit of the first task that did not succeed.
pub fn run_tasks(
    tasks: impl ExactSizeIterator<Item = Task> + Send + 'static,
    store: OwnStore,
    durability: Durability,
    options: RunOptions,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let runtime = super::runtime()?;
    let exit = runtime.block_on(run_all(tasks, store, durability, options, output));
    // A hanging call must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(200));
    exit
}

async fn run_all(
    tasks: impl ExactSizeIterator<Item = Task> + Send + 'static,
    OwnStore { folder, owner, secret }: OwnStore,
    durability: Durability,
    RunOptions { is_quiet, concurrency }: RunOptions,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let signals = Signals::listen()?;
    let opening = Opening { folder, owner, durability };
    let (host, notices) = Host::open(opening, Arc::new(SystemEnv::default()), crate::registry()).await?;
    for notice in notices {
        tell(&format!("store: {notice}\n"));
    }
    let host = host.with_secret(secret);
    let style = Style::stderr();
    let count = tasks.len();
    let progress = Progress::new(Mode::of(style, output.is_json(), is_quiet), style, count > 1);
    let mut display = Display { output, progress, is_quiet };
    let (sender, mut updates) = mpsc::channel(MAX_UPDATES);
    let spawning = tokio::spawn(spawn_all(host.engine().clone(), tasks, concurrency, signals.stop.clone(), sender));
    let mut exits = BTreeMap::new();
    let mut outcome = Ok(());
    while let Some((index, update)) = updates.recv().await {
        match display.update(update) {
            Ok(exit) => exits.extend(exit.map(|exit| (index, exit))),
            Err(failure) => {
                outcome = Err(failure);
                break;
            }
        }
    }
    drop(updates);
    display.progress.finish();
    let _ = spawning.await;
    host.leave().await;
    outcome?;
    // A task that a signal prevented from starting has no exit.
    let all_done = if exits.len() < count { Exit::Interrupted } else { Exit::Done };
    let exit = exits.into_values().find(|exit| *exit != Exit::Done).unwrap_or(all_done);
    Ok(if exit == Exit::Interrupted { signals.exit().unwrap_or(exit) } else { exit })
}

/// Starts tasks in order, at most `concurrency` at the same time, and waits for all of them.
async fn spawn_all(
    engine: Engine,
    tasks: impl Iterator<Item = Task> + Send + 'static,
    concurrency: usize,
    stop: CancellationToken,
    updates: mpsc::Sender<(usize, Update)>,
) {
    let permits = Arc::new(Semaphore::new(concurrency.max(1)));
    let mut running = tokio::task::JoinSet::new();
    for (index, task) in tasks.enumerate() {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
        if stop.is_cancelled() || updates.is_closed() {
            break;
        }
        let context = TaskContext { engine: engine.clone(), index, stop: stop.clone(), updates: updates.clone() };
        let updates = updates.clone();
        running.spawn(async move {
            let _permit = permit;
            let ended = Update::Ended(task(context).await);
            let _ = updates.send((index, ended)).await;
        });
    }
    while running.join_next().await.is_some() {}
}

struct Display<'a> {
    output: &'a mut Output,
    progress: Progress,
    is_quiet: bool,
}

impl Display<'_> {
    /// Shows an update; returns the exit of a task that has ended.
    fn update(&mut self, update: Update) -> Result<Option<Exit>, Failure> {
        let Self { output, progress, is_quiet } = self;
        match update {
            Update::Event(event) => {
                progress.event(&event);
                match &event.what {
                    _ if output.is_json() => output.line(&event)?,
                    What::ThreadFinished { result, .. } if !result.is_null() && event.parent.is_none() => {
                        progress.suspend(|| output.text(&pretty(result)))?;
                    }
                    What::Error { code, message, .. } if *is_quiet => tell(&format!("rondo: {code}: {message}\n")),
                    _ => {}
                }
                Ok(None)
            }
            Update::Said(said) => progress.suspend(|| output.said(&said)).map(|()| None),
            Update::Ended(Ok(exit)) => Ok(Some(exit)),
            Update::Ended(Err(failure)) => {
                progress.suspend(|| report::failure(&failure, output));
                Ok(Some(failure.exit()))
            }
        }
    }
}

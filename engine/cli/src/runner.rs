//! Runs tasks on the engine, such as one thread each, and shows the events of one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo::core::hook::SubcommandOutput;
use rondo::core::{Ended, Engine};
use rondo::host::Host;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::event::{Event, Outcome, What};
use rondo::tell::tell;
use rondo::{Rondo, Run};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::named_command::hinted;
use super::progress::{Mode, Progress, TICK};
use super::result::View;
use super::signals::{Signals, with_signals};
use super::store_access::TrustedStore;
use super::{Exit, Failure, Output, Style, report};

const MAX_UPDATES: usize = 256;

pub type Task = Box<dyn FnOnce(TaskContext) -> BoxFuture<'static, Result<Exit, Failure>> + Send>;

pub(super) enum Update {
    Event(Box<Event>),
    Said(SubcommandOutput),
    Ended(Result<Exit, Failure>),
}

pub struct TaskContext {
    pub rondo: Rondo,
    pub engine: Engine,
    number: u32,
    stop: CancellationToken,
    updates: mpsc::Sender<(u32, Update)>,
}

impl TaskContext {
    pub async fn said(&self, said: SubcommandOutput) {
        self.send(Update::Said(said)).await;
    }

    /// Waits for preparations, such as the start of an MCP server, unless the process receives a signal to stop.
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
    pub async fn follow(&self, run: &mut Run) -> Ended {
        let (stopper, mut is_stopping) = (run.stopper().clone(), false);
        loop {
            tokio::select! {
                event = run.next() => {
                    let Some(event) = event else { break };
                    if !self.send(Update::Event(Box::new(event))).await {
                        stopper.stop();
                        break;
                    }
                }
                () = self.stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    stopper.stop();
                }
                () = self.updates.closed(), if !is_stopping => {
                    is_stopping = true;
                    stopper.stop();
                }
            }
        }
        run.ended().await
    }

    async fn send(&self, update: Update) -> bool {
        self.updates.send((self.number, update)).await.is_ok()
    }
}

pub(super) struct Writing {
    pub rondo: Rondo,
    /// As [`Rondo::store_to_open`] gives it.
    pub to_open: Option<TrustedStore>,
}

/// The open store and the signals of a verb that runs tasks.
#[derive(Clone)]
pub(super) struct Session {
    pub rondo: Rondo,
    pub host: Host,
    pub signals: Signals,
}

/// Opens the store for `work`, and releases it afterwards.
pub(super) fn with_session(
    Writing { rondo, to_open }: Writing,
    work: impl AsyncFnOnce(Session) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    with_signals(async |signals| {
        let host = rondo.open_store(to_open).await?.clone();
        let exit = work(Session { rondo, host: host.clone(), signals }).await;
        host.leave().await;
        exit
    })
}

pub fn show_task(task: Task, writing: Writing, view: &View, output: &mut Output) -> Result<Exit, Failure> {
    with_session(writing, async |session| {
        let style = Style::stderr();
        let progress = Progress::new(Mode::of(style, output.is_json(), view.quiet), style, view.verbose);
        // A task that a signal prevented from starting has no exit.
        let mut display = Display { output, progress, view, exit: Exit::Interrupted };
        let signals = session.signals.clone();
        let shown = show(session, std::iter::once((0, task)), 1, signals.stop.clone(), TICK, &mut display).await;
        display.progress.finish();
        shown?;
        let exit = display.exit;
        Ok(if exit == Exit::Interrupted { signals.exit().unwrap_or(exit) } else { exit })
    })
}

/// What shows tasks.
pub(super) trait Show {
    /// Shows an update of a task. Returns whether the others go on.
    fn update(&mut self, number: u32, update: Update) -> Result<bool, Failure>;

    fn tick(&mut self);
}

/// Runs tasks as [`spawn`] does and shows them, until all have ended or one cannot be shown.
pub(super) async fn show(
    session: Session,
    tasks: impl Iterator<Item = (u32, Task)> + Send + 'static,
    concurrency: usize,
    stop: CancellationToken,
    tick: Duration,
    display: &mut impl Show,
) -> Result<(), Failure> {
    let (spawning, mut updates) = spawn(session, tasks, concurrency, stop.clone());
    let mut ticks = tokio::time::interval(tick);
    let shown = loop {
        tokio::select! {
            update = updates.recv() => match update.map(|(number, update)| display.update(number, update)) {
                Some(Ok(true)) => {}
                Some(Ok(false)) => stop.cancel(),
                Some(Err(failure)) => break Err(failure),
                None => break Ok(()),
            },
            _ = ticks.tick() => display.tick(),
        }
    };
    drop(updates);
    let _ = spawning.await;
    shown
}

/// Starts tasks in order, at most `concurrency` at the same time, until `stop` is cancelled or nobody receives. The
/// handle ends with the last of them.
fn spawn(
    Session { rondo, host, .. }: Session,
    tasks: impl Iterator<Item = (u32, Task)> + Send + 'static,
    concurrency: usize,
    stop: CancellationToken,
) -> (JoinHandle<()>, mpsc::Receiver<(u32, Update)>) {
    let (updates, receiver) = mpsc::channel(MAX_UPDATES);
    let spawning = tokio::spawn(async move {
        let permits = Arc::new(Semaphore::new(concurrency.max(1)));
        let mut running = JoinSet::new();
        for (number, task) in tasks {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
            if stop.is_cancelled() || updates.is_closed() {
                break;
            }
            while running.try_join_next().is_some() {}
            let (rondo, engine) = (rondo.clone(), host.engine().clone());
            let context = TaskContext { rondo, engine, number, stop: stop.clone(), updates: updates.clone() };
            let updates = updates.clone();
            running.spawn(async move {
                let _permit = permit;
                let ended = Update::Ended(task(context).await);
                let _ = updates.send((number, ended)).await;
            });
        }
        while running.join_next().await.is_some() {}
    });
    (spawning, receiver)
}

struct Display<'a> {
    output: &'a mut Output,
    progress: Progress,
    view: &'a View,
    exit: Exit,
}

impl Show for Display<'_> {
    fn tick(&mut self) {
        self.progress.redraw();
    }

    fn update(&mut self, _: u32, update: Update) -> Result<bool, Failure> {
        let Self { output, progress, view, exit } = self;
        match update {
            Update::Event(event) => {
                progress.event(&event);
                if output.is_json() {
                    output.line(&event.line(hinted))?;
                }
                let is_root = event.parent.is_none();
                let is_told = view.quiet && !output.is_json();
                match &event.what {
                    What::ThreadFinished { reason, outcome, result, .. } if is_root => {
                        if let Some(reason) = reason.as_ref().filter(|_| is_told && *outcome == Outcome::Failed) {
                            tell(&format!("failed: {reason}\n"));
                        }
                        if !result.is_null() {
                            progress.suspend(|| view.show_result(result, output))?;
                        }
                    }
                    What::Error { code, message, hint, .. } if is_told => {
                        let hint = hint.as_ref().map_or_else(String::new, |hint| format!("  {}\n", hinted(hint)));
                        tell(&format!("rondo: {code}: {message}\n{hint}"));
                    }
                    _ => {}
                }
            }
            Update::Said(said) => progress.suspend(|| output.said(&said))?,
            Update::Ended(Ok(ended)) => *exit = ended,
            Update::Ended(Err(failure)) => {
                progress.suspend(|| report::failure(&failure, output));
                *exit = failure.exit();
            }
        }
        Ok(true)
    }
}

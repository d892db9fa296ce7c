//! Carries requests to whoever holds the store, this process or another, and shows what comes back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Durability, What};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Style, tell};
use super::progress::{Mode, Progress};
use super::report;
use super::session::of_store;
use super::show::pretty;
use super::signals::Signals;
use super::terminal::{REPLIES, Reply, Request, carry_out, refusal};
use crate::store::{self, RocksStore};
use crate::{Engine, SystemEnv};

/// How a run is shown.
#[derive(Debug, Clone, Copy)]
pub struct Showing {
    /// Nothing but results and faults.
    pub is_quiet: bool,
    /// How many threads run at once.
    pub concurrency: usize,
}

/// Carries out requests, one thread each, and shows them. The exit is that of the first request that did not end well.
///
/// # Errors
/// When the store can neither be opened nor reached, or stdout cannot be written.
pub fn watch(
    requests: Vec<Request>,
    store: PathBuf,
    durability: Durability,
    showing: Showing,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::InternalFault, format!("no runtime: {error}")))?;
    let exit = runtime.block_on(watch_all(requests, store, durability, showing, output));
    // A call that hangs must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    exit
}

async fn watch_all(
    requests: Vec<Request>,
    store: PathBuf,
    durability: Durability,
    showing: Showing,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let signals = Signals::listen()?;
    let holder = hold(store, durability, &signals.stop).await?;
    let style = Style::stderr();
    let has_many = requests.len() > 1;
    let progress = Progress::new(Mode::of(style, output.is_json(), showing.is_quiet), style, has_many);
    let mut shown = Shown { output, progress, is_quiet: showing.is_quiet, has_many };
    let (sender, mut replies) = mpsc::channel(REPLIES);
    let turns = Arc::new(Semaphore::new(showing.concurrency.max(1)));
    let asking = tokio::spawn(ask_all(holder.clone(), requests, turns, signals.stop.clone(), sender));
    let mut exits = BTreeMap::new();
    let mut outcome = Ok(());
    while let Some((at, reply)) = replies.recv().await {
        match shown.reply(reply) {
            Ok(Some(exit)) => {
                exits.insert(at, exit);
            }
            Ok(None) => {}
            Err(failure) => {
                outcome = Err(failure);
                break;
            }
        }
    }
    drop(replies);
    shown.progress.finish();
    let _ = asking.await;
    if let Holder::Here(here) = holder {
        here.leave(&signals.stop, showing.is_quiet).await;
    }
    outcome?;
    let exit = exits.into_values().find(|exit| *exit != Exit::Done).unwrap_or(Exit::Done);
    Ok(if exit == Exit::Interrupted { signals.exit().unwrap_or(exit) } else { exit })
}

/// Asks for each request in order, as many at once as there are turns.
async fn ask_all(
    holder: Holder,
    requests: Vec<Request>,
    turns: Arc<Semaphore>,
    stop: CancellationToken,
    replies: mpsc::Sender<(usize, Reply)>,
) {
    let mut tasks = tokio::task::JoinSet::new();
    for (at, request) in requests.into_iter().enumerate() {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { break };
        if stop.is_cancelled() || replies.is_closed() {
            break;
        }
        let (holder, stop, replies) = (holder.clone(), stop.clone(), replies.clone());
        tasks.spawn(async move {
            let _turn = turn;
            let (sender, mut own) = mpsc::channel(REPLIES);
            let ask = holder.ask(request, &stop, sender);
            let pass_on = async {
                while let Some(reply) = own.recv().await {
                    if replies.send((at, reply)).await.is_err() {
                        break;
                    }
                }
                drop(own);
            };
            tokio::join!(ask, pass_on);
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Whoever holds the store.
#[derive(Clone)]
enum Holder {
    /// This process.
    Here(Arc<Here>),
    /// Another one.
    There(PathBuf),
}

/// What this process holds.
struct Here {
    engine: Engine,
}

impl Here {
    /// Stays until the threads of other terminals have ended, or a signal says to leave.
    async fn leave(&self, stop: &CancellationToken, is_quiet: bool) {
        let running = self.engine.running_threads().len();
        if running > 0 && !is_quiet {
            tell(&format!("{running} threads of other terminals go on here\n"));
        }
        while !self.engine.running_threads().is_empty() {
            if stop.is_cancelled() {
                self.engine.stop_all();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// Opens the store, or finds out who holds it.
async fn hold(folder: PathBuf, durability: Durability, stop: &CancellationToken) -> Result<Holder, Failure> {
    let _ = stop;
    let at = folder.clone();
    let opened = tokio::task::spawn_blocking(move || RocksStore::open(&at, store::Options { durability }))
        .await
        .map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
    match opened {
        Ok((store, opened)) => {
            for notice in opened.notices {
                tell(&format!("store: {notice}\n"));
            }
            let engine = Engine::new(Arc::new(store), Arc::new(SystemEnv::default()), crate::registry());
            Ok(Holder::Here(Arc::new(Here { engine })))
        }
        Err(store::Error::Busy { pid: 0 }) => Ok(Holder::There(folder)),
        Err(error) => Err(of_store(&error)),
    }
}

impl Holder {
    async fn ask(&self, request: Request, stop: &CancellationToken, replies: mpsc::Sender<Reply>) {
        match self {
            Self::Here(here) => carry_out(&here.engine, request, stop, &replies).await,
            Self::There(_folder) => {}
        }
    }
}

/// What was shown of a run so far.
struct Shown<'a> {
    output: &'a mut Output,
    progress: Progress,
    is_quiet: bool,
    has_many: bool,
}

impl Shown<'_> {
    /// Shows a reply; gives the exit with the last one of a request.
    fn reply(&mut self, reply: Reply) -> Result<Option<Exit>, Failure> {
        match reply {
            Reply::Event(event) => {
                self.progress.event(&event);
                if self.output.is_json() {
                    self.output.line(&event)?;
                    return Ok(None);
                }
                match &event.what {
                    What::ThreadFinished { result, .. } if !result.is_null() => {
                        self.progress.finish();
                        self.output.text(&pretty(result))?;
                    }
                    What::Error { code, message, .. } if self.is_quiet => {
                        tell(&format!("rondo: {code}: {message}\n"));
                    }
                    _ => {}
                }
                Ok(None)
            }
            Reply::End { exit } => Ok(Some(Exit::of_code(exit).unwrap_or(Exit::InputOutput))),
            Reply::Refused { exit, code, message, hint } => {
                let failure = refusal(exit, &code, message, hint);
                if !self.has_many {
                    self.progress.finish();
                }
                report::failure(&failure, self.output);
                Ok(Some(failure.exit()))
            }
        }
    }
}

//! Carries out requests and shows what they come to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::event::{Durability, What};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Style, tell};
use super::progress::{Mode, Progress};
use super::report;
use super::request::{REPLIES, Reply, Request, carry_out, refusal};
use super::session::{OwnStore, of_store};
use super::show::pretty;
use super::signals::Signals;
use crate::SystemEnv;
use crate::host::{Host, Opening};

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
    requests: impl ExactSizeIterator<Item = Request> + Send + 'static,
    store: OwnStore,
    durability: Durability,
    showing: Showing,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let runtime = super::runtime()?;
    let exit = runtime.block_on(watch_all(requests, store, durability, showing, output));
    // A call that hangs must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(200));
    exit
}

async fn watch_all(
    requests: impl ExactSizeIterator<Item = Request> + Send + 'static,
    store: OwnStore,
    durability: Durability,
    showing: Showing,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let signals = Signals::listen()?;
    let host = open(store, durability).await?;
    let style = Style::stderr();
    let count = requests.len();
    let has_many = count > 1;
    let progress = Progress::new(Mode::of(style, output.is_json(), showing.is_quiet), style, has_many);
    let mut shown = Shown { output, progress, is_quiet: showing.is_quiet };
    let (sender, mut replies) = mpsc::channel(REPLIES);
    let turns = Arc::new(Semaphore::new(showing.concurrency.max(1)));
    let asking = tokio::spawn(ask_all(host.clone(), requests, turns, signals.stop.clone(), sender));
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
    host.leave().await;
    outcome?;
    // What a signal kept from beginning has no exit of its own.
    let all_done = if exits.len() < count { Exit::Interrupted } else { Exit::Done };
    let exit = exits.into_values().find(|exit| *exit != Exit::Done).unwrap_or(all_done);
    Ok(if exit == Exit::Interrupted { signals.exit().unwrap_or(exit) } else { exit })
}

/// Asks for each request in order, as many at once as there are turns.
async fn ask_all(
    host: Host,
    requests: impl Iterator<Item = Request> + Send + 'static,
    turns: Arc<Semaphore>,
    stop: CancellationToken,
    replies: mpsc::Sender<(usize, Reply)>,
) {
    let mut tasks = tokio::task::JoinSet::new();
    for (at, request) in requests.enumerate() {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { break };
        if stop.is_cancelled() || replies.is_closed() {
            break;
        }
        let (host, stop, replies) = (host.clone(), stop.clone(), replies.clone());
        tasks.spawn(async move {
            let _turn = turn;
            let (sender, mut own) = mpsc::channel(REPLIES);
            let ask = carry_out(host.engine(), request, &stop, sender);
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

/// Opens the store, or joins the process that holds it.
async fn open(store: OwnStore, durability: Durability) -> Result<Host, Failure> {
    let OwnStore { folder, owner, secret } = store;
    let opening = Opening { folder, owner, durability };
    let opened = Host::open(opening, Arc::new(SystemEnv::default()), crate::registry()).await;
    let (host, notices) = opened.map_err(|error| of_store(&error))?;
    for notice in notices {
        tell(&format!("store: {notice}\n"));
    }
    Ok(host.with_secret(secret))
}

/// What was shown of a run so far.
struct Shown<'a> {
    output: &'a mut Output,
    progress: Progress,
    is_quiet: bool,
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
                let Self { output, progress, .. } = self;
                match &event.what {
                    What::ThreadFinished { result, .. } if !result.is_null() => {
                        progress.suspend(|| output.text(&pretty(result)))?;
                    }
                    What::Error { code, message, .. } if self.is_quiet => {
                        tell(&format!("rondo: {code}: {message}\n"));
                    }
                    _ => {}
                }
                Ok(None)
            }
            Reply::Said(said) => {
                let Self { output, progress, .. } = self;
                progress.suspend(|| output.said(&said))?;
                Ok(None)
            }
            Reply::End { exit } => Ok(Some(Exit::of_code(exit).unwrap_or(Exit::InputOutput))),
            Reply::Refused { exit, code, message, hint } => {
                let failure = refusal(exit, &code, message, hint);
                let Self { output, progress, .. } = self;
                progress.suspend(|| report::failure(&failure, output));
                Ok(Some(failure.exit()))
            }
        }
    }
}

//! Carries requests to whoever holds the store, this process or another, and shows what comes back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Durability, Event, What};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::failure::{Failure, Fault};
use super::output::{Output, Style, tell};
use super::progress::{Mode, Progress};
use super::report;
use super::session::{OwnStore, of_store};
use super::show::pretty;
use super::signals::Signals;
use super::terminal::{ANSWER, REPLIES, Reply, Request, ask, carry_out, refusal, serve};
use super::tooling;
use crate::socket::{self, Server};
use crate::store::{self, RocksStore};
use crate::{Engine, SystemEnv};

/// How many requests of other terminals are carried out at once.
const MAX_GUESTS: usize = 256;

/// How long to wait before a store that is held is asked for again.
const AGAIN: Duration = Duration::from_millis(25);

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
    let runtime = tooling::runtime()?;
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
    let holder = hold(store, durability, &signals.stop).await?;
    let style = Style::stderr();
    let has_many = requests.len() > 1;
    let progress = Progress::new(Mode::of(style, output.is_json(), showing.is_quiet), style, has_many);
    let mut shown = Shown { output, progress, is_quiet: showing.is_quiet };
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
        here.leave(showing.is_quiet).await;
    }
    outcome?;
    let exit = exits.into_values().find(|exit| *exit != Exit::Done).unwrap_or(Exit::Done);
    Ok(if exit == Exit::Interrupted { signals.exit().unwrap_or(exit) } else { exit })
}

/// Asks for each request in order, as many at once as there are turns.
async fn ask_all(
    holder: Holder,
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
    /// Requests of other terminals that are being carried out.
    guests: Arc<Guests>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

/// A count of requests that other terminals have handed over.
#[derive(Debug, Default)]
struct Guests {
    count: AtomicUsize,
    left: Notify,
}

/// One of them; it leaves when this is dropped.
struct Guest(Arc<Guests>);

impl Guest {
    fn of(guests: &Arc<Guests>) -> Self {
        guests.count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(guests))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify_waiters();
    }
}

impl Here {
    fn new(store: RocksStore, folder: &Path, stop: &CancellationToken) -> Self {
        let engine = Engine::new(Arc::new(store), Arc::new(SystemEnv::default()), crate::registry());
        let guests = Arc::new(Guests::default());
        let serving = match Server::bind(folder) {
            Ok(server) => Some(tokio::spawn(serve_all(server, engine.clone(), Arc::clone(&guests), stop.clone()))),
            Err(error) => {
                // A run needs no other terminal; those that come are told that the store is busy.
                tell(&format!("other terminals cannot be served: {error}\n"));
                None
            }
        };
        Self { engine, guests, serving: Mutex::new(serving) }
    }

    /// Stays until the requests of other terminals have been carried out.
    async fn leave(&self, is_quiet: bool) {
        let count = self.guests.count.load(Ordering::SeqCst);
        if count > 0 && !is_quiet {
            tell(&format!("{count} request(s) of other terminals go on here\n"));
        }
        loop {
            let left = self.guests.left.notified();
            if self.guests.count.load(Ordering::SeqCst) == 0 {
                break;
            }
            left.await;
        }
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            // The socket goes before the store: the next holder must not lose its own to this one.
            serving.abort();
            let _ = serving.await;
        }
    }
}

/// Serves other terminals for as long as this process holds the store.
async fn serve_all(server: Server, engine: Engine, guests: Arc<Guests>, stop: CancellationToken) {
    while let Ok(connection) = server.accept().await {
        let guest = Guest::of(&guests);
        if guests.count.load(Ordering::SeqCst) > MAX_GUESTS {
            continue;
        }
        let (engine, stop) = (engine.clone(), stop.clone());
        tokio::spawn(async move {
            let _guest = guest;
            serve(&engine, connection, &stop).await;
        });
    }
}

/// Opens the store, or finds out that another process holds it and listens. A store whose holder is just coming or
/// going is asked again for as long as a holder may take to answer.
async fn hold(store: OwnStore, durability: Durability, stop: &CancellationToken) -> Result<Holder, Failure> {
    let OwnStore { folder, owner } = store;
    let since = tokio::time::Instant::now();
    loop {
        let at = folder.clone();
        let opened = tokio::task::spawn_blocking(move || RocksStore::open(&at, store::Options { durability, owner }))
            .await
            .map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
        let busy = match opened {
            Ok((store, opened)) => {
                for notice in opened.notices {
                    tell(&format!("store: {notice}\n"));
                }
                return Ok(Holder::Here(Arc::new(Here::new(store, &folder, stop))));
            }
            Err(busy @ store::Error::Busy { .. }) => busy,
            Err(error) => return Err(of_store(&error)),
        };
        if socket::connect(&folder).is_ok() {
            return Ok(Holder::There(folder));
        }
        if since.elapsed() >= ANSWER || stop.is_cancelled() {
            return Err(of_store(&busy));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

impl Holder {
    async fn ask(&self, request: Request, stop: &CancellationToken, replies: mpsc::Sender<Reply>) {
        let asked = match self {
            Self::Here(here) => {
                carry_out(&here.engine, request, stop, &replies).await;
                Ok(())
            }
            Self::There(folder) => match socket::connect(folder) {
                Ok(connection) => ask(connection, &request, stop, &replies).await,
                Err(error) => Err(Failure::new(Code::StoreBusy, error.to_string())),
            },
        };
        if let Err(failure) = asked {
            let _ = replies.send(Reply::refused(self.named(failure))).await;
        }
    }

    /// A failure that names the process that holds the store.
    fn named(&self, failure: Failure) -> Failure {
        match (self, failure) {
            (Self::There(folder), Failure::Fault(fault)) if fault.code == Code::StoreBusy => {
                let pid = store::holder(folder).ok().flatten().unwrap_or(0);
                Failure::Fault(Fault { message: format!("{} (process {pid})", fault.message), ..fault })
            }
            (_, failure) => failure,
        }
    }
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
            Reply::Event(told) => {
                let event = Event::from(told);
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
            Reply::Taken => Ok(None),
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

//! The virtual objects that a worker serves.
//!
//! Laws. What a worker journals are the pieces of the log, each the result of a run, and at the end how it left the
//! thread: nothing else decides what an invocation does, so that a replay does the same. A write is acknowledged to the
//! driver after Restate has journaled it and the worker's store holds it. A thread is driven by one invocation at a
//! time, which Restate sees to.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use restate_sdk::prelude::*;
use rondo_core::store::Replica;
use rondo_protocol::id::ThreadId;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

use crate::client::{Append, Client, Log};
use crate::entry::{Coded, Leaving, Piece, Told, Unfinished, Wake, decode, encode, pieces};
use crate::session::{Next, SessionLease, Sessions};

/// How many pieces an invocation journals before the thread goes on under another one: a journal is sent again whole
/// when a worker takes it over.
const MAX_PIECES: u64 = 400;

/// The most bytes of one answer with pieces of a log, after which no further piece is added.
const READ_BYTES: usize = 4 << 20;

/// The most pieces of one answer.
const READ_PIECES: u64 = 256;

/// How often a worker asks whether a thread that it drives was told to end.
const CANCEL_POLL: Duration = Duration::from_secs(1);

/// What a worker does with threads.
pub trait Driver: Send + Sync {
    /// Continues a thread, whose log this worker's store holds, until it leaves it. `script` answers in place of models.
    /// With `again`, a worker before this one was woken so, and what it wrote is in the log.
    ///
    /// # Errors
    /// Why this worker cannot: another one may.
    ///
    /// # Cancel safety
    /// Dropping the future [abandons](Self::abandon) nothing.
    fn drive(
        &self,
        thread: ThreadId,
        wake: Wake,
        script: Option<String>,
        again: bool,
    ) -> BoxFuture<'static, Result<Leaving, String>>;

    /// Lets the calls of a thread in flight end, and begins no other.
    fn drain(&self, thread: &ThreadId);

    /// Ends a thread for good.
    fn cancel(&self, thread: &ThreadId);

    /// Breaks a thread off that this worker lost, and waits until it has ended here.
    fn abandon(&self, thread: &ThreadId) -> BoxFuture<'static, ()>;
}

/// A worker: what it takes to drive threads.
#[derive(Clone)]
pub struct Worker {
    /// The cluster.
    pub client: Client,
    /// What drives them.
    pub driver: Arc<dyn Driver>,
    /// The store that they are read from.
    pub replica: Arc<dyn Replica>,
    /// The log that the driver writes to.
    pub sessions: Arc<Sessions>,
}

impl Worker {
    /// A listener that several workers of a machine can have at the same address: its system spreads the connections.
    ///
    /// # Errors
    /// Those of the system.
    pub fn listen(at: SocketAddr) -> std::io::Result<TcpListener> {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        // Accepted connections inherit it: a run is a message of its own, and must not wait for another.
        socket.set_nodelay(true)?;
        socket.bind(at)?;
        socket.listen(1024)
    }

    /// Serves the cluster until `stop` is ready.
    pub async fn serve(self, listener: TcpListener, stop: impl Future) {
        let endpoint = Endpoint::builder().bind(Threads(self)).bind(Cancellations).build();
        HttpServer::new(endpoint).serve_with_cancel(listener, stop).await;
    }
}

struct Threads(Worker);

/// A tree of threads.
#[object(
    name = "RondoThread",
    lazy_state = true,
    journal_retention = "0s",
    idempotency_retention = "1h",
    inactivity_timeout = "7 days",
    abort_timeout = "1h",
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 1000000,
        on_max_attempts = "pause",
    )
)]
impl Threads {
    /// Adds pieces to the log of a thread that nobody drives.
    #[handler]
    async fn append(&self, ctx: ObjectContext<'_>, input: Coded<Append>) -> HandlerResult<Coded<()>> {
        let Coded(Append { at, pieces, needs }) = input;
        let mut count = count(&ctx).await?;
        if count == 0 && !needs.is_empty() {
            ctx.set("needs", encode(&needs)?);
        }
        for (number, piece) in (at..).zip(pieces) {
            if number > count {
                return Err(TerminalError::new_with_code(409, "the log ends before these pieces").into());
            }
            if number < count {
                // A request that was sent again.
                if ctx.get::<Bytes>(&key(number)).await? != Some(piece) {
                    return Err(TerminalError::new_with_code(409, "the log holds other pieces there").into());
                }
                continue;
            }
            ctx.set(&key(number), piece);
            count = count.saturating_add(1);
        }
        ctx.set("n", count);
        Ok(Coded(()))
    }

    /// A part of the log.
    #[handler]
    async fn read(&self, ctx: SharedObjectContext<'_>, from: Coded<u64>) -> HandlerResult<Coded<Log>> {
        let Coded(from) = from;
        let count = ctx.get::<u64>("n").await?.unwrap_or(0);
        let needs = match from {
            0 => ctx.get::<Bytes>("needs").await?,
            _ => None,
        };
        let needs = needs.map_or(Ok(Vec::new()), |needs| decode(&needs))?;
        let (mut pieces, mut bytes) = (Vec::new(), 0_usize);
        for number in from..count.min(from.saturating_add(READ_PIECES)) {
            let Some(piece) = ctx.get::<Bytes>(&key(number)).await? else {
                return Err(TerminalError::new_with_code(500, format!("piece {number} of the log is missing")).into());
            };
            bytes = bytes.saturating_add(piece.len());
            pieces.push(piece);
            if bytes >= READ_BYTES {
                break;
            }
        }
        Ok(Coded(Log { count, needs, pieces }))
    }

    /// Drives the thread until it waits, stops or ends.
    #[handler]
    async fn drive(&self, ctx: ObjectContext<'_>, wake: Coded<Wake>) -> HandlerResult<Coded<Leaving>> {
        let Coded(wake) = wake;
        let thread =
            ThreadId::new(ctx.key()).map_err(|_| TerminalError::new_with_code(404, "no thread has that id"))?;
        let began = count(&ctx).await?;
        if began == 0 {
            return Err(TerminalError::new_with_code(404, "there is no such thread").into());
        }
        if matches!(wake, Wake::Timer(at) if at != began) {
            // It went on before its time had come.
            return Ok(Coded(Leaving::Settled));
        }
        if let Wake::Continue(Some(script), _) = &wake {
            ctx.set("script", script.clone());
        }
        let script = ctx.get::<String>("script").await?;
        let mut leg = Leg::new(self.0.clone(), thread.clone(), began, (wake, script));
        let mut end = began;
        loop {
            let driving = &mut leg;
            let told = ctx.run(move || async move { driving.next().await }).name(end.to_string());
            let Coded(told) = told.await?;
            match told {
                Told::Piece(piece) => {
                    ctx.set(&key(end), encode(&piece)?);
                    end = end.saturating_add(1);
                    ctx.set("n", end);
                    leg.journaled(end, piece).await?;
                    if end.saturating_sub(began) >= MAX_PIECES {
                        leg.drain();
                    }
                }
                Told::Left(left) => {
                    let me = ctx.object_client::<ThreadsClient>(thread.as_str());
                    match left {
                        Leaving::Drained => drop(me.drive(Coded(Wake::Follow)).send()),
                        Leaving::Waiting(Some(ms)) => {
                            let at = Duration::from_millis(ms);
                            drop(me.drive(Coded(Wake::Timer(end))).send_after(at));
                        }
                        Leaving::Waiting(None) | Leaving::Settled | Leaving::Refused(_) => {}
                    }
                    return Ok(Coded(left));
                }
            }
        }
    }
}

async fn count(ctx: &ObjectContext<'_>) -> Result<u64, TerminalError> {
    Ok(ctx.get::<u64>("n").await?.unwrap_or(0))
}

/// Under what a piece is kept.
fn key(piece: u64) -> String {
    format!("p{piece}")
}

/// One invocation of a thread on this worker.
struct Leg {
    worker: Worker,
    thread: ThreadId,
    /// The log before this invocation.
    began: u64,
    /// Why the driver begins, and what answers in place of models; taken when it does.
    beginning: Option<(Wake, Option<String>)>,
    /// Entries that were journaled before this worker's driver began.
    replayed: Vec<(Range<u64>, Vec<Vec<u8>>)>,
    /// The first piece of the entry that is being read.
    from: u64,
    unfinished: Unfinished,
    /// The pieces of an entry that are not journaled yet.
    waiting: VecDeque<Piece>,
    driven: Option<Driven>,
}

/// A driver at work. Dropping it breaks the thread off.
struct Driven {
    lease: SessionLease,
    worker: Worker,
    thread: ThreadId,
    /// Ends the thread when the cluster is told to.
    heeding: JoinHandle<()>,
    is_over: bool,
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.heeding.abort();
        if !self.is_over {
            tokio::spawn(self.worker.driver.abandon(&self.thread));
        }
    }
}

/// Asks again and again whether a thread was told to end, and ends it then.
async fn heed(worker: Worker, thread: ThreadId) {
    loop {
        tokio::time::sleep(CANCEL_POLL).await;
        // A cluster that does not answer now is asked again.
        if worker.client.is_cancelled(&thread).await.unwrap_or(false) {
            worker.driver.cancel(&thread);
        }
    }
}

impl Leg {
    fn new(worker: Worker, thread: ThreadId, began: u64, beginning: (Wake, Option<String>)) -> Self {
        let (replayed, waiting, unfinished, driven) = Default::default();
        let beginning = Some(beginning);
        Self { worker, thread, began, beginning, replayed, from: began, unfinished, waiting, driven }
    }

    /// What to journal next: of what the driver writes, or how it left the thread.
    async fn next(&mut self) -> HandlerResult<Coded<Told>> {
        if let Some(piece) = self.waiting.pop_front() {
            return Ok(Coded(Told::Piece(piece)));
        }
        if let Some((wake, script)) = self.beginning.take() {
            self.begin(wake, script).await?;
        }
        let Some(driven) = &mut self.driven else { return Err(HandlerError::from(Lost)) };
        match driven.lease.session.next().await {
            Next::Entry(writes) => {
                self.waiting = pieces(&writes)?.into();
                self.waiting.pop_front().map(|piece| Coded(Told::Piece(piece))).ok_or(Lost.into())
            }
            Next::Left(left) => {
                driven.is_over = true;
                left.map(|left| Coded(Told::Left(left))).map_err(|why| HandlerError::from(Unfit(why)))
            }
        }
    }

    /// Brings the store up to the log, and starts the driver.
    async fn begin(&mut self, wake: Wake, script: Option<String>) -> HandlerResult<()> {
        let Worker { client, driver, replica, sessions } = &self.worker;
        // An earlier invocation may have left a driver here that has lost its log.
        driver.abandon(&self.thread).await;
        let position = client.copy(&self.thread, Some(self.began), &**replica).await?;
        // An entry that broke off lies before what this invocation writes.
        match self.replayed.first_mut() {
            Some((first, _)) => first.start = position,
            None => self.from = position,
        }
        let again = !self.replayed.is_empty();
        for (pieces, writes) in std::mem::take(&mut self.replayed) {
            replica.apply(&self.thread, pieces, writes).await?;
        }
        let lease = sessions.open(&self.thread);
        let driving = driver.drive(self.thread.clone(), wake, script, again);
        let session = Arc::clone(&lease.session);
        tokio::spawn(async move {
            // A panic was reported where it happened, and another worker may fare better.
            session.leave(tokio::spawn(driving).await.unwrap_or_else(|error| Err(error.to_string())));
        });
        let (worker, thread) = (self.worker.clone(), self.thread.clone());
        let heeding = tokio::spawn(heed(worker.clone(), thread.clone()));
        self.driven = Some(Driven { lease, worker, thread, heeding, is_over: false });
        Ok(())
    }

    /// A piece is in the log, which ends at `end` with it.
    async fn journaled(&mut self, end: u64, piece: Piece) -> HandlerResult<()> {
        let Some(writes) = self.unfinished.add(&piece)? else { return Ok(()) };
        let pieces = std::mem::replace(&mut self.from, end)..end;
        match &self.driven {
            None => self.replayed.push((pieces, writes)),
            Some(driven) => {
                self.worker.replica.apply(&self.thread, pieces, writes).await?;
                driven.lease.session.acknowledge();
            }
        }
        Ok(())
    }

    fn drain(&self) {
        if self.driven.is_some() {
            self.worker.driver.drain(&self.thread);
        }
    }
}

/// A fault of this crate: an entry without pieces.
#[derive(Debug, thiserror::Error)]
#[error("an entry of the log has no pieces")]
struct Lost;

/// This worker cannot drive the thread.
#[derive(Debug, thiserror::Error)]
#[error("this worker cannot: {0}")]
struct Unfit(String);

struct Cancellations;

/// Whether a tree of threads was told to end.
#[object(name = "RondoCancel", journal_retention = "0s")]
impl Cancellations {
    #[handler]
    async fn set(&self, ctx: ObjectContext<'_>, _none: Bytes) -> HandlerResult<Coded<()>> {
        if ctx.get::<bool>("is").await? != Some(true) {
            ctx.set("is", true);
        }
        Ok(Coded(()))
    }

    #[handler]
    async fn get(&self, ctx: SharedObjectContext<'_>, _none: Bytes) -> HandlerResult<Coded<bool>> {
        Ok(Coded(ctx.get::<bool>("is").await? == Some(true)))
    }
}

//! The connection to the process that holds the store.

use std::collections::BTreeSet;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rondo_protocol::id::ThreadId;

use super::drivers::ClientId;
use super::message::{Request, Response, VERSION};
use super::socket::connect;
use super::{HOLDER_TIMEOUT, frame};

const MAX_CONNECTIONS: usize = 64;

/// How long one request may take while the holder responds to greetings: for a slow disk, or a thread that ends.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a reading verb waits for the list of driven threads.
const DRIVEN_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestError {
    /// The holder has ended; whether it carried out the request is unknown.
    HolderEnded,
    /// It holds the store and does not answer.
    Timeout,
    /// The request is larger than a frame.
    TooLarge,
    /// The holder is of another version.
    OtherVersion,
}

/// A connection to the process that holds a store.
#[derive(Debug)]
pub(super) struct Client {
    folder: PathBuf,
    id: ClientId,
    /// Open for as long as this process is a client.
    presence: UnixStream,
    has_ended: Arc<AtomicBool>,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<UnixStream>,
    /// The number of idle and used connections.
    count: usize,
}

impl Client {
    /// Joins the process that holds the store in `folder`. `cancel` is called when a thread has to end for good, and
    /// `ended` once the holder has gone.
    ///
    /// # Errors
    /// [`RequestError::HolderEnded`] if there is no listener, [`RequestError::Timeout`] after [`HOLDER_TIMEOUT`],
    /// [`RequestError::OtherVersion`].
    pub(super) fn join(
        folder: &Path,
        cancel: impl Fn(&ThreadId) + Send + 'static,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, RequestError> {
        let presence = open(folder)?;
        let id = match anonymous(&presence, &Request::Join { version: VERSION.to_owned() })? {
            Response::Joined(id) => id,
            Response::OtherVersion => return Err(RequestError::OtherVersion),
            _ => return Err(RequestError::HolderEnded),
        };
        let heard = presence.try_clone().map_err(|_| RequestError::HolderEnded)?;
        // From here on the holder sends only when there is something to report.
        heard.set_read_timeout(None).map_err(|_| RequestError::HolderEnded)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&has_ended);
        let listening = std::thread::Builder::new().name("rondo-listener".to_owned()).spawn(move || {
            while let Ok(Some(Response::Cancel(thread))) = frame::receive(&heard, &mut frame::at_once) {
                cancel(&thread);
            }
            end.store(true, Ordering::SeqCst);
            ended();
        });
        listening.map_err(|_| RequestError::HolderEnded)?;
        let (folder, pool, returned) = (folder.to_owned(), Mutex::default(), Condvar::new());
        Ok(Self { folder, id, presence, has_ended, pool, returned })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    pub(super) fn request(&self, request: &Request) -> Result<Response, RequestError> {
        let idle = self.take()?;
        let mut connection = PooledConnection { client: self, stream: None };
        let stream = idle.map_or_else(|| open(&self.folder), Ok)?;
        let since = Instant::now();
        // A disk may be slow, so a holder that responds gets more time.
        let mut patience = || {
            let is_there = since.elapsed() < REQUEST_TIMEOUT && greet(&self.folder).is_ok();
            if is_there { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
        };
        let response = exchange(&stream, &(self.id, request), &mut patience)?;
        connection.stream = Some(stream);
        Ok(response)
    }

    /// An idle connection, or `None` if a new one may be opened. Waits until one is possible.
    fn take(&self) -> Result<Option<UnixStream>, RequestError> {
        let is_full = |pool: &mut Pool| pool.idle.is_empty() && pool.count >= MAX_CONNECTIONS;
        let mut pool = self.pool.lock();
        if self.returned.wait_while_for(&mut pool, is_full, REQUEST_TIMEOUT).timed_out() {
            return Err(RequestError::Timeout);
        }
        let stream = pool.idle.pop();
        if stream.is_none() {
            pool.count += 1;
        }
        Ok(stream)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Ends the listening thread, and notifies the holder that this process drives nothing any more.
        let _ = self.presence.shutdown(Shutdown::Both);
    }
}

/// A request's place in the pool. An intact connection returns to the pool when this is dropped.
struct PooledConnection<'c> {
    client: &'c Client,
    stream: Option<UnixStream>,
}

impl Drop for PooledConnection<'_> {
    fn drop(&mut self) {
        let mut pool = self.client.pool.lock();
        match self.stream.take() {
            Some(stream) => pool.idle.push(stream),
            None => pool.count = pool.count.saturating_sub(1),
        }
        drop(pool);
        self.client.returned.notify_one();
    }
}

/// The driven threads, for a process that only reads. `None` if the holder does not respond in time.
pub fn driven(folder: &Path) -> Option<BTreeSet<ThreadId>> {
    let stream = connect(folder).ok()?;
    stream.set_read_timeout(Some(DRIVEN_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(DRIVEN_TIMEOUT)).ok()?;
    match anonymous(&stream, &Request::Driven) {
        Ok(Response::Driven(threads)) => Some(threads.into_iter().collect()),
        _ => None,
    }
}

fn greet(folder: &Path) -> Result<(), RequestError> {
    match anonymous(&open(folder)?, &Request::Hello { version: VERSION.to_owned() })? {
        Response::Done => Ok(()),
        _ => Err(RequestError::OtherVersion),
    }
}

fn open(folder: &Path) -> Result<UnixStream, RequestError> {
    let open = || {
        let stream = connect(folder)?;
        stream.set_read_timeout(Some(HOLDER_TIMEOUT))?;
        stream.set_write_timeout(Some(HOLDER_TIMEOUT))?;
        Ok::<_, io::Error>(stream)
    };
    open().map_err(|_| RequestError::HolderEnded)
}

/// Sends a request from a process that is not a client.
fn anonymous(stream: &UnixStream, request: &Request) -> Result<Response, RequestError> {
    exchange(stream, &(ClientId::default(), request), &mut frame::at_once)
}

fn exchange(
    stream: &UnixStream,
    message: &(ClientId, &Request),
    patience: &mut dyn FnMut() -> io::Result<()>,
) -> Result<Response, RequestError> {
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => RequestError::Timeout,
        io::ErrorKind::InvalidInput => RequestError::TooLarge,
        _ => RequestError::HolderEnded,
    };
    frame::send(stream, message, patience).map_err(|error| failed(&error))?;
    match frame::receive(stream, patience) {
        Ok(Some(response)) => Ok(response),
        Ok(None) => Err(RequestError::HolderEnded),
        Err(error) => Err(failed(&error)),
    }
}

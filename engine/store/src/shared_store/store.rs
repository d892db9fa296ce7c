//! The store as each process sees it: this process holds it and serves it to the others, or sends requests to the
//! holder.
//!
//! Laws. Each process drives its own threads; its commits are as durable as it requested, regardless of which process
//! holds the store. When the holder ends, for any reason, the next process opens the store and continues. A commit
//! whose response was lost is looked up by version and digest, and sent again only if it is absent. Writes of one
//! thread are stored in the order in which they were submitted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use parking_lot::{Mutex, RwLock};
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::client::{Client, RequestError};
use super::drivers::Drivers;
use super::message::{Request, Response};
use super::server::{Server, Service};
use super::{HOLDER_TIMEOUT, frame};
use crate::folder::Owner;
use crate::{
    CancelOutcome, Error, Family, Read as _, RocksStore, Tables, ThreadDrivers, ThreadLocks, Visited, Write, WriteStore,
};

/// The delay before another attempt at a busy store.
const RETRY_DELAY: Duration = Duration::from_millis(25);

/// What other processes do to the threads that this process drives.
pub struct OwnThreads {
    /// Ends a thread for good.
    pub cancel: Box<dyn Fn(&ThreadId) + Send + Sync>,
    /// Another process has changed a thread, or drives it now: while the store changed its holder, nobody knew who
    /// drove it. Its run must stop.
    pub taken_over: Box<dyn Fn(&ThreadId) + Send + Sync>,
}

/// A store that processes share. Dropping the last handle, or [`leave`](Self::leave), releases it to the others.
#[derive(Clone)]
pub struct SharedStore {
    /// `None` on the thread that hears of a holder's end. Dropped before `inner`.
    _lease: Option<Arc<Lease>>,
    inner: Arc<Inner>,
}

/// What the users of a store share. Without it the thread that hears of a holder's end could be the last to have the
/// store, and close RocksDB while the process ends.
struct Lease(Weak<Inner>);

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            SharedStore { _lease: None, inner }.leave();
        }
    }
}

/// Where a store is and how to open it.
#[derive(Debug, Clone)]
pub struct Opening {
    pub folder: PathBuf,
    pub owner: Option<Owner>,
    pub durability: Durability,
}

struct Inner {
    opening: Opening,
    runtime: Handle,
    own_threads: Arc<OwnThreads>,
    access: RwLock<Arc<Access>>,
    changing: Mutex<()>,
    /// The threads that this process drives, each with the latest version of its row that this process knows: at first
    /// the stored one, then that of its last commit.
    own: Mutex<BTreeMap<ThreadId, u64>>,
    locks: OnceLock<ThreadLocks>,
    /// Writes that wait for another process, in order, by thread.
    waiting: Mutex<BTreeMap<Option<ThreadId>, VecDeque<Waiting>>>,
}

/// How this process reaches the store.
enum Access {
    Local(Local),
    Remote(Client),
    /// This process has left the store.
    Closed,
}

/// The fields are dropped in this order.
struct Local {
    /// `None` if no socket could be made: other processes are then not served.
    _server: Option<Server>,
    service: Arc<Service>,
}

struct Waiting {
    write: Write,
    done: oneshot::Sender<Result<(), Error>>,
}

impl SharedStore {
    /// Opens the store, or joins the process that holds it. Also returns notices about the opening, one sentence each.
    /// `own_threads` are told what other processes do. Blocks.
    ///
    /// # Errors
    /// [`Error::Busy`] when the holder does not answer within 2 seconds, or the store cannot be opened.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(opening: Opening, own_threads: OwnThreads) -> Result<(Self, Vec<String>), Error> {
        let inner = Arc::new(Inner {
            opening,
            runtime: Handle::current(),
            own_threads: Arc::new(own_threads),
            access: RwLock::new(Arc::new(Access::Closed)),
            changing: Mutex::default(),
            own: Mutex::default(),
            locks: OnceLock::new(),
            waiting: Mutex::default(),
        });
        let lease = Lease(Arc::downgrade(&inner));
        let shared = Self { _lease: Some(Arc::new(lease)), inner };
        let (access, notices) = shared.find()?;
        shared.set_access(access);
        Ok((shared, notices))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.inner.opening.folder
    }

    pub fn is_holder(&self) -> bool {
        matches!(*self.access(), Access::Local(_))
    }

    /// The threads that any process drives.
    pub fn driven(&self) -> Result<BTreeSet<ThreadId>, Error> {
        match self.request(&Request::Driven)? {
            Response::Driven(threads) => Ok(threads.into_iter().collect()),
            _ => Err(unexpected()),
        }
    }

    /// Compacts all tables, so that what was deleted no longer takes room; commits go on meanwhile. Blocks.
    ///
    /// # Errors
    /// If the holder does not answer, or its database cannot be rewritten. Nothing is lost then.
    pub fn compact(&self) -> Result<(), Error> {
        for family in Family::ALL {
            let mut from = Some(Vec::new());
            while let Some(begin) = from {
                match self.request(&Request::Compact { family, from: begin })? {
                    Response::Compacted { next } => from = next,
                    _ => return Err(unexpected()),
                }
            }
        }
        Ok(())
    }

    /// Releases the store to the other processes. Every later use is an error. Blocks.
    pub fn leave(&self) {
        let _changing = self.inner.changing.lock();
        let access = self.set_access(Access::Closed);
        // Waits for requests in progress, so that the database is closed when this returns.
        let since = Instant::now();
        while Arc::strong_count(&access) > 1 && since.elapsed() < HOLDER_TIMEOUT {
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in std::mem::take(&mut *self.inner.own.lock()).keys() {
            self.locks().release(thread);
        }
    }

    fn locks(&self) -> &ThreadLocks {
        self.inner.locks.get_or_init(|| ThreadLocks::of(&self.inner.opening.folder))
    }

    fn access(&self) -> Arc<Access> {
        Arc::clone(&self.inner.access.read())
    }

    fn set_access(&self, access: Access) -> Arc<Access> {
        std::mem::replace(&mut *self.inner.access.write(), Arc::new(access))
    }

    /// Opens the store, or joins the process that holds it. A holder may be starting, ending or silent for
    /// [`HOLDER_TIMEOUT`]; the wait restarts if another one takes its place.
    fn find(&self) -> Result<(Access, Vec<String>), Error> {
        let Opening { folder, owner, durability } = &self.inner.opening;
        let options = crate::Options { durability: *durability, owner: *owner };
        let (mut since, mut holder) = (Instant::now(), 0);
        loop {
            let pid = match RocksStore::open(folder, options) {
                Ok((store, mut notices)) => {
                    let (own_threads, runtime) = (Arc::clone(&self.inner.own_threads), self.inner.runtime.clone());
                    let drivers = Arc::new(Drivers::default());
                    let service = Arc::new(Service { store, drivers, own_threads, runtime });
                    let server = Server::start(folder, Arc::clone(&service)).inspect_err(|error| {
                        // A run needs no other process; others get the error that the store is busy.
                        notices.push(format!("other terminals cannot be served: {error}"));
                    });
                    return Ok((Access::Local(Local { _server: server.ok(), service }), notices));
                }
                Err(Error::Busy { pid }) => pid,
                Err(error) => return Err(error),
            };
            match self.join(folder) {
                Ok(client) => return Ok((Access::Remote(client), Vec::new())),
                Err(RequestError::OtherVersion) => {
                    let what = format!("process {pid} holds the store and is of another version of rondo");
                    return Err(Error::Io { path: folder.display().to_string(), what });
                }
                Err(RequestError::Timeout) => return Err(Error::Busy { pid }),
                Err(RequestError::HolderEnded | RequestError::TooLarge) => {}
            }
            if pid != holder {
                (since, holder) = (Instant::now(), pid);
            } else if since.elapsed() >= HOLDER_TIMEOUT {
                return Err(Error::Busy { pid });
            }
            std::thread::sleep(RETRY_DELAY);
        }
    }

    fn join(&self, folder: &Path) -> Result<Client, RequestError> {
        let own = Arc::clone(&self.inner.own_threads);
        let inner = Arc::downgrade(&self.inner);
        let ended = move || {
            // The next holder gets the driven threads as soon as there is one.
            if let Some(inner) = inner.upgrade() {
                let shared = Self { _lease: None, inner };
                let access = shared.access();
                if matches!(&*access, Access::Remote(client) if client.has_ended()) {
                    let _ = shared.change(&access);
                }
            }
        };
        Client::join(folder, move |thread| (own.cancel)(thread), ended)
    }

    /// Finds the next holder, which may be this process, after that of `old` has gone.
    fn change(&self, old: &Arc<Access>) -> Result<(), Error> {
        let changing = self.inner.changing.lock();
        if !Arc::ptr_eq(&self.access(), old) {
            return Ok(());
        }
        let (access, _) = self.find()?;
        // Before any other request of this process.
        let own: Vec<ThreadId> = self.inner.own.lock().keys().cloned().collect();
        let drive = |thread: ThreadId| (Self::request_once(&access, &Request::Drive(thread.clone())), thread);
        let driven: Vec<_> = own.into_iter().map(drive).collect();
        self.set_access(access);
        drop(changing);
        for (response, thread) in driven {
            if matches!(response, Ok(Response::Taken)) || self.is_written_by_another(&thread) {
                self.inner.own.lock().remove(&thread);
                (self.inner.own_threads.taken_over)(&thread);
            }
        }
        Ok(())
    }

    /// Whether the row of a thread that this process drives is newer than its last commit. If the row cannot be read,
    /// the thread's next commit finds out.
    fn is_written_by_another(&self, thread: &ThreadId) -> bool {
        let stored = self.row(thread).ok().flatten().map_or(0, |row| row.version);
        // After the row: this process may be writing a newer one.
        self.inner.own.lock().get(thread).is_some_and(|known| stored > *known)
    }

    /// Handles a missing response: `Ok` if the request may be repeated.
    fn recover(&self, error: RequestError, access: &Arc<Access>) -> Result<(), Error> {
        match error {
            RequestError::HolderEnded => self.change(access),
            RequestError::Timeout | RequestError::OtherVersion => {
                Err(Error::Busy { pid: crate::holder(&self.inner.opening.folder).ok().flatten().unwrap_or(0) })
            }
            RequestError::TooLarge => {
                let what = format!("more than {} bytes cannot go to the holder of the store", frame::MAX_FRAME_BYTES);
                Err(Error::Malformed { what })
            }
        }
    }

    fn request_once(access: &Access, request: &Request) -> Result<Response, RequestError> {
        match access {
            Access::Local(local) => {
                Ok(local.service.respond(None, request.clone()).unwrap_or_else(|| Response::Failed(closed())))
            }
            Access::Remote(client) => client.request(request),
            Access::Closed => Ok(Response::Failed(closed())),
        }
    }

    /// The holder's response, or the next holder's if it ends meanwhile.
    fn request(&self, request: &Request) -> Result<Response, Error> {
        loop {
            let access = self.access();
            match Self::request_once(&access, request) {
                Ok(Response::Failed(error)) => return Err(error),
                Ok(response) => return Ok(response),
                Err(error) => self.recover(error, &access)?,
            }
            // The holder may have carried out a write before it ended; anything else can be repeated.
            if let Request::Write(write) = request
                && write.is_stored(self)?
            {
                return Ok(Response::Done);
            }
        }
    }

    /// This process's store, if it is the holder and no earlier write of the same thread is still waiting.
    fn local(&self, thread: Option<&ThreadId>) -> Option<Arc<Access>> {
        let access = self.access();
        let is_local = matches!(&*access, Access::Local(_));
        (is_local && !self.inner.waiting.lock().contains_key(&thread.cloned())).then_some(access)
    }

    /// Queues a write, which is carried out even if the future is never polled.
    fn enqueue(&self, write: Write) -> BoxFuture<'static, Result<(), Error>> {
        let thread = write.thread().cloned();
        let (done, outcome) = oneshot::channel();
        let mut waiting = self.inner.waiting.lock();
        let is_first = !waiting.contains_key(&thread);
        waiting.entry(thread.clone()).or_default().push_back(Waiting { write, done });
        drop(waiting);
        if is_first {
            let shared = self.clone();
            self.inner.runtime.spawn_blocking(move || {
                let next = || {
                    let mut waiting = shared.inner.waiting.lock();
                    let next = waiting.get_mut(&thread).and_then(VecDeque::pop_front);
                    if next.is_none() {
                        waiting.remove(&thread);
                    }
                    next
                };
                while let Some(Waiting { write, done }) = next() {
                    // The caller may have stopped waiting.
                    let _ = done.send(shared.request(&Request::Write(write)).map(drop));
                }
            });
        }
        Box::pin(async move {
            outcome.await.unwrap_or_else(|_| Err(Error::Poisoned { what: "the process is ending".to_owned() }))
        })
    }
}

fn closed() -> Error {
    Error::Poisoned { what: "this process has given the store to others".to_owned() }
}

fn unexpected() -> Error {
    Error::Io { path: "socket".to_owned(), what: "the holder of the store answered something else".to_owned() }
}

impl ThreadDrivers for SharedStore {
    fn drive(&self, thread: &ThreadId) -> Result<bool, Error> {
        // A new holder does not know yet who drives what.
        if !self.locks().take(thread) {
            return Ok(false);
        }
        // Recorded first, so that a change of the holder cannot miss it. Until its version is known, any will do.
        self.inner.own.lock().insert(thread.clone(), u64::MAX);
        let is_ours = match self.request(&Request::Drive(thread.clone())) {
            Ok(Response::Done) => self.row(thread).map(|row| {
                self.inner.own.lock().insert(thread.clone(), row.map_or(0, |row| row.version));
                true
            }),
            Ok(Response::Taken) => Ok(false),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(error),
        };
        if !matches!(is_ours, Ok(true)) {
            self.release(thread);
        }
        is_ours
    }

    fn release(&self, thread: &ThreadId) {
        // While the next holder is told of the threads that are driven here, none leaves: it would never hear of that.
        let changing = self.inner.changing.lock();
        self.inner.own.lock().remove(thread);
        // A holder that is gone has forgotten it already.
        let _ = Self::request_once(&self.access(), &Request::Leave(thread.clone()));
        drop(changing);
        self.locks().release(thread);
    }

    fn cancel(&self, thread: &ThreadId) -> Result<CancelOutcome, Error> {
        match self.request(&Request::Cancel(thread.clone()))? {
            Response::Cancelled(outcome) => Ok(outcome),
            _ => Err(unexpected()),
        }
    }
}

impl Tables for SharedStore {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if let Access::Local(local) = &*self.access() {
            return local.service.store.get(family, key);
        }
        match self.request(&Request::Get { family, key: key.to_vec() })? {
            Response::Value(value) => Ok(value),
            _ => Err(unexpected()),
        }
    }

    fn range(
        &self,
        family: Family,
        mut keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        loop {
            if let Access::Local(local) = &*self.access() {
                return local.service.store.range(family, keys, visit);
            }
            let Response::Page { entries, is_last } = self.request(&Request::Range { family, keys: keys.clone() })?
            else {
                return Err(unexpected());
            };
            for (key, value) in &entries {
                if visit(key, value)?.is_break() {
                    return Ok(());
                }
            }
            match entries.into_iter().next_back() {
                Some((last, _)) if !is_last => {
                    // The least key after it.
                    keys.start = last;
                    keys.start.push(0);
                }
                _ => return Ok(()),
            }
        }
    }
}

crate::step_store!(SharedStore);

impl WriteStore for SharedStore {
    fn submit(&self, write: Write) -> BoxFuture<'_, Result<(), Error>> {
        if let Some((thread, version)) = write.row()
            && let Some(known) = self.inner.own.lock().get_mut(thread)
        {
            *known = version;
        }
        let Some(access) = self.local(write.thread()) else { return self.enqueue(write) };
        let mut writing: BoxFuture<'static, Result<(), Error>> = Box::pin(async move {
            match &*access {
                Access::Local(local) => local.service.store.submit(write).await,
                _ => Err(closed()),
            }
        });
        // Started at once, so that the store sees the calls in order.
        match (&mut writing).now_or_never() {
            Some(outcome) => Box::pin(future::ready(outcome)),
            None => writing,
        }
    }

    fn durability(&self) -> Durability {
        self.inner.opening.durability
    }

    fn has_room(&self) -> bool {
        match &*self.access() {
            Access::Local(local) => WriteStore::has_room(&local.service.store),
            Access::Remote(_) | Access::Closed => crate::has_room_beside(&self.inner.opening.folder),
        }
    }
}

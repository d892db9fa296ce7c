//! The holder's side: answers the requests of other processes.
//!
//! Each connection has its own thread, so that no request blocks a thread of the runtime.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::ops::{ControlFlow, Range};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rondo_protocol::id::ThreadId;
use tokio::runtime::Handle;

use super::drivers::{ClientId, Drivers};
use super::message::{Request, Response, VERSION};
use super::socket::{self, is_own, listen};
use super::{CANCEL_TIMEOUT, HOLDER_TIMEOUT, OwnThreads, frame};
use crate::{Entries, Error, Family, RocksStore, Tables as _, WriteStore as _};

const MAX_CONNECTIONS: usize = 1024;

/// The approximate bytes of a page of entries. A single value may be larger.
const PAGE_BYTES: usize = 1 << 20;
/// The entries of a page: as many notes as a scan reads ahead.
const PAGE_LENGTH: usize = 256;

/// Serves a store to other processes until it is dropped. Requests that have arrived by then are answered.
pub(super) struct Server {
    drivers: Arc<Drivers>,
    connections: Arc<Connections>,
    path: PathBuf,
    listener: Arc<UnixListener>,
    accepting: Option<JoinHandle<()>>,
}

/// The store that the holder offers.
pub(super) struct Service {
    pub(super) store: RocksStore,
    pub(super) drivers: Arc<Drivers>,
    pub(super) own_threads: Arc<OwnThreads>,
    pub(super) runtime: Handle,
}

/// The open connections. They outlive the service: the store is closed before a connection counts as ended.
#[derive(Default)]
struct Connections {
    is_ending: AtomicBool,
    open: Mutex<Open>,
    ended: Condvar,
}

#[derive(Default)]
struct Open {
    streams: BTreeMap<u64, UnixStream>,
    next: u64,
}

impl Server {
    /// Serves the store in `folder`, which this process holds.
    pub(super) fn start(folder: &Path, service: Arc<Service>) -> io::Result<Self> {
        let listener = Arc::new(listen(folder)?);
        let connections = Arc::new(Connections::default());
        let drivers = Arc::clone(&service.drivers);
        let (shared, accepts) = (Arc::clone(&connections), Arc::clone(&listener));
        let accepting = std::thread::Builder::new().name("rondo-socket".to_owned());
        let accepting = accepting.spawn(move || accept(&accepts, &shared, &service))?;
        Ok(Self { drivers, connections, path: folder.join(socket::FILE), listener, accepting: Some(accepting) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let connections = &self.connections;
        connections.is_ending.store(true, Ordering::SeqCst);
        self.drivers.close();
        // Wakes the accepting thread, even if the socket's file was deleted. The next holder replaces the file.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let _ = std::fs::remove_file(&self.path);
        if let Some(accepting) = self.accepting.take() {
            // A panic of it was reported where it happened.
            let _ = accepting.join();
        }
        let close = |how| connections.open.lock().streams.values().for_each(|stream| drop(stream.shutdown(how)));
        // No new requests arrive, and earlier ones are answered, unless a client does not accept the response.
        close(Shutdown::Read);
        let are_open = |open: &mut Open| !open.streams.is_empty();
        connections.ended.wait_while_for(&mut connections.open.lock(), are_open, HOLDER_TIMEOUT);
        close(Shutdown::Both);
        connections.ended.wait_while(&mut connections.open.lock(), are_open);
    }
}

fn accept(listener: &UnixListener, connections: &Arc<Connections>, service: &Arc<Service>) {
    for stream in listener.incoming() {
        if connections.is_ending.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // No descriptors are left; some become free when a connection ends.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if !is_own(&stream) {
            continue;
        }
        let Some(connection) = Connection::open(stream, connections, service) else { continue };
        // If the system cannot start a thread, the connection closes.
        let _ = std::thread::Builder::new().name("rondo-client".to_owned()).spawn(move || connection.serve());
    }
}

/// One connection, until it is dropped.
struct Connection {
    stream: UnixStream,
    /// `None` only during the drop.
    service: Option<Arc<Service>>,
    connections: Arc<Connections>,
    number: u64,
    /// The client, for as long as this connection is open.
    client: Option<ClientId>,
}

impl Connection {
    fn open(stream: UnixStream, connections: &Arc<Connections>, service: &Arc<Service>) -> Option<Self> {
        let mut open = connections.open.lock();
        if open.streams.len() >= MAX_CONNECTIONS {
            return None;
        }
        let kept = stream.try_clone().ok()?;
        open.next += 1;
        let number = open.next;
        open.streams.insert(number, kept);
        drop(open);
        let (service, connections) = (Some(Arc::clone(service)), Arc::clone(connections));
        Some(Self { stream, service, connections, number, client: None })
    }

    fn serve(mut self) {
        // The streams have no timeout: a client drives threads, and may request nothing for a long time.
        while let Ok(Some((sender, request))) = frame::receive(&self.stream, &mut frame::at_once) {
            let Some(response) = self.respond(sender, request) else { return };
            if frame::send(&self.stream, &response, &mut frame::at_once).is_err() {
                return;
            }
        }
    }

    /// The response; `None` if the client has to ask the next holder.
    fn respond(&mut self, sender: ClientId, request: Request) -> Option<Response> {
        let service = self.service.as_ref()?;
        match request {
            Request::Hello { version } | Request::Join { version } if version != VERSION => {
                Some(Response::OtherVersion)
            }
            Request::Join { .. } => {
                let stream = self.stream.try_clone().ok()?;
                let cancel = move |thread: &ThreadId| {
                    // A client that is gone drives nothing.
                    let _ = frame::send(&stream, &Response::Cancel(thread.clone()), &mut frame::at_once);
                };
                let client = service.drivers.join(Box::new(cancel));
                self.client = Some(client);
                Some(Response::Joined(client))
            }
            request => service.respond(Some(sender), request),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let service = self.service.take();
        if let (Some(service), Some(client)) = (&service, self.client) {
            service.drivers.remove(client);
        }
        // Before the connection counts as ended: the server's drop waits for that, and then the store is closed.
        drop(service);
        self.connections.open.lock().streams.remove(&self.number);
        self.connections.ended.notify_all();
    }
}

impl Service {
    /// The response to a request of a client, or of this process (`None`). Returns `None` if the next holder has to be
    /// asked.
    pub(super) fn respond(&self, sender: Option<ClientId>, request: Request) -> Option<Response> {
        Some(match request {
            Request::Hello { .. } | Request::Join { .. } => Response::Done,
            Request::Driven => Response::Driven(self.drivers.all()),
            Request::Drive(thread) => {
                if self.drivers.take(&thread, sender)? {
                    Response::Done
                } else {
                    Response::Taken
                }
            }
            Request::Leave(thread) => {
                self.drivers.leave(&thread, sender);
                Response::Done
            }
            Request::Cancel(thread) => {
                Response::Cancelled(self.drivers.cancel(&thread, &*self.own_threads.cancel, CANCEL_TIMEOUT)?)
            }
            Request::Get { family, key } => self.store.get(family, &key).map_or_else(Response::Failed, Response::Value),
            Request::Range { family, keys } => self.page(family, keys).unwrap_or_else(Response::Failed),
            Request::Write(write) => {
                let outcome = self.runtime.block_on(self.store.submit(write));
                outcome.map_or_else(Response::Failed, |()| Response::Done)
            }
            Request::Compact { family, from } => {
                self.store.compact(family, &from).map_or_else(Response::Failed, |next| Response::Compacted { next })
            }
        })
    }

    fn page(&self, family: Family, keys: Range<Vec<u8>>) -> Result<Response, Error> {
        let (mut entries, mut size_bytes, mut is_last) = (Entries::new(), 0, true);
        self.store.range(family, keys, &mut |key, value| {
            if size_bytes >= PAGE_BYTES || entries.len() == PAGE_LENGTH {
                is_last = false;
                return Ok(ControlFlow::Break(()));
            }
            size_bytes += key.len() + value.len();
            entries.push((key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Response::Page { entries, is_last })
    }
}

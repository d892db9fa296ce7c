//! The holder's side: answers what the other processes ask of the store.
//!
//! It has threads of its own, one a connection, so that what a guest asks blocks no thread of the runtime.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use tokio::runtime::Handle;

use super::drivers::{Drivers, GuestId};
use super::wire::{Answer, Ask, Durable, Scanned, VERSION};
use super::{ANSWER, FILE, frame, is_own, listen};
use crate::store::text::Bytes;
use crate::store::{Error, RocksStore, StepStore};

/// How many connections are served at once.
const MAX_CONNECTIONS: usize = 1024;

/// How much a page of an answer holds, about.
const PAGE_BYTES: usize = 1 << 20;
/// How many steps or entries a page holds.
const PAGE_LENGTH: usize = 1024;
/// How many rows a page holds. A checkpoint may be large.
pub(super) const ROWS: usize = 64;

/// How long a driver may take to end a thread for good: the longest that draining takes.
const FREEING: Duration = Duration::from_secs(10);

/// Serves a store to other processes until it is dropped. What has been asked by then is answered.
#[derive(Debug)]
pub struct Server {
    desk: Arc<Desk>,
    door: Arc<Door>,
    path: PathBuf,
    listener: Arc<UnixListener>,
    accepting: Option<JoinHandle<()>>,
}

/// What a connection is served with.
struct Desk {
    store: Arc<RocksStore>,
    drivers: Arc<Drivers>,
    cancel: Box<dyn Fn(&ThreadId) + Send + Sync>,
    runtime: Handle,
}

/// The connections that there are. It outlives the store, which is given free before a connection is said to have ended.
#[derive(Debug, Default)]
struct Door {
    is_ending: AtomicBool,
    connections: Mutex<Connections>,
    ended: Condvar,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("drivers", &self.drivers).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Connections {
    open: BTreeMap<u64, UnixStream>,
    next: u64,
}

impl Server {
    /// Serves `store`, which lies in `folder` and is held by this process. `cancel` ends a thread of this process.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(
        folder: &Path,
        store: Arc<RocksStore>,
        drivers: Arc<Drivers>,
        cancel: Box<dyn Fn(&ThreadId) + Send + Sync>,
        runtime: Handle,
    ) -> io::Result<Self> {
        let listener = Arc::new(listen(folder)?);
        let desk = Arc::new(Desk { store, drivers, cancel, runtime });
        let door = Arc::new(Door::default());
        let (serving, entered, asked) = (Arc::clone(&desk), Arc::clone(&door), Arc::clone(&listener));
        let accepting = std::thread::Builder::new().name("rondo-socket".to_owned());
        let accepting = accepting.spawn(move || accept(&asked, &entered, &serving))?;
        Ok(Self { desk, door, path: folder.join(FILE), listener, accepting: Some(accepting) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let door = &self.door;
        door.is_ending.store(true, Ordering::SeqCst);
        self.desk.drivers.close();
        // Wakes the thread that accepts, also where somebody has deleted the socket's file. Whoever opens the store next
        // replaces what is left of it.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        let _ = std::fs::remove_file(&self.path);
        if let Some(accepting) = self.accepting.take() {
            // A panic of it has been reported where it happened.
            let _ = accepting.join();
        }
        let close = |how| door.connections().open.values().for_each(|stream| drop(stream.shutdown(how)));
        // Nothing more is asked, and what was asked is answered, unless a guest does not take it.
        close(Shutdown::Read);
        let are_open = |connections: &mut Connections| !connections.open.is_empty();
        let waited = door.ended.wait_timeout_while(door.connections(), ANSWER, are_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        close(Shutdown::Both);
        drop(door.ended.wait_while(door.connections(), are_open).unwrap_or_else(PoisonError::into_inner));
    }
}

fn accept(listener: &UnixListener, door: &Arc<Door>, desk: &Arc<Desk>) {
    for stream in listener.incoming() {
        if door.is_ending.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // There are no descriptors left; some are given back when a connection ends.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if !is_own(&stream) {
            continue;
        }
        let Some(connection) = Connection::open(stream, door, desk) else { continue };
        // Where the system gives no thread, the guest sees that it is not served.
        let _ = std::thread::Builder::new().name("rondo-guest".to_owned()).spawn(move || connection.serve());
    }
}

impl Door {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection, until it is dropped.
struct Connection {
    stream: UnixStream,
    /// `None` only while it is dropped.
    desk: Option<Arc<Desk>>,
    door: Arc<Door>,
    number: u64,
    /// The guest whose presence it is.
    guest: Option<GuestId>,
}

impl Connection {
    fn open(stream: UnixStream, door: &Arc<Door>, desk: &Arc<Desk>) -> Option<Self> {
        let mut connections = door.connections();
        if connections.open.len() >= MAX_CONNECTIONS {
            return None;
        }
        let kept = stream.try_clone().ok()?;
        connections.next += 1;
        let number = connections.next;
        connections.open.insert(number, kept);
        drop(connections);
        Some(Self { stream, desk: Some(Arc::clone(desk)), door: Arc::clone(door), number, guest: None })
    }

    fn serve(mut self) {
        // A guest may take its time: it drives threads, and asks when it has something to ask.
        while let Ok(Some(ask)) = frame::receive::<Ask>(&self.stream, &mut frame::at_once) {
            let Some(answer) = self.answer(ask) else { return };
            if frame::send(&self.stream, &answer, &mut frame::at_once).is_err() {
                return;
            }
        }
    }

    /// The answer; `None` when the guest has to ask the next holder.
    fn answer(&mut self, ask: Ask) -> Option<Answer> {
        let desk = self.desk.as_ref()?;
        Some(match ask {
            Ask::Hello { version } | Ask::Join { version } if version != VERSION => Answer::OtherVersion,
            Ask::Hello { .. } => Answer::Hello,
            Ask::Join { .. } => {
                let stream = self.stream.try_clone().ok()?;
                let tell = move |thread: &ThreadId| {
                    let cancel = Answer::Cancel { thread: thread.clone() };
                    // A guest that is gone drives nothing.
                    let _ = frame::send(&stream, &cancel, &mut frame::at_once);
                };
                let guest = desk.drivers.join(Box::new(tell));
                self.guest = Some(guest);
                Answer::Joined { guest }
            }
            Ask::Driven => Answer::Driven(desk.drivers.all()),
            Ask::Drive { guest, thread } => {
                if desk.drivers.take(&thread, Some(guest))? {
                    Answer::Done
                } else {
                    Answer::Taken
                }
            }
            Ask::Leave { guest, thread } => {
                desk.drivers.leave(&thread, Some(guest));
                Answer::Done
            }
            Ask::Cancel { thread } => Answer::Freed(desk.drivers.free(&thread, &*desk.cancel, FREEING)?),
            ask => answer(&desk.store, &desk.runtime, ask),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let desk = self.desk.take();
        if let (Some(desk), Some(guest)) = (&desk, self.guest) {
            desk.drivers.part(guest);
        }
        // Whoever waits for the end of all connections gives the store free.
        drop(desk);
        self.door.connections().open.remove(&self.number);
        self.door.ended.notify_all();
    }
}

/// What `store` says to a question; what is not asked of a store is refused.
pub fn answer(store: &RocksStore, runtime: &Handle, ask: Ask) -> Answer {
    asked(store, runtime, ask).unwrap_or_else(Answer::Failed)
}

fn asked(store: &RocksStore, runtime: &Handle, ask: Ask) -> Result<Answer, Error> {
    use crate::store::Read as _;
    Ok(match ask {
        Ask::Row { thread } => Answer::Row(store.row(&thread)?.map(Box::new)),
        // Pages are small in number; what one row holds is bounded by what a commit may.
        Ask::Rows { after, limit } => Answer::Rows(store.rows(after.as_ref(), limit.min(ROWS))?),
        Ask::Lane { thread, lane } => Answer::Lane(store.lane(&thread, &lane)?.map(Box::new)),
        Ask::Lanes { thread, after, limit } => Answer::Lanes(store.lanes(&thread, after.as_ref(), limit.min(ROWS))?),
        Ask::List { thread, opened_by } => Answer::Value(store.list(&thread, opened_by)?.map(Bytes)),
        Ask::Scan { thread, first, last } => {
            let (mut page, mut size_bytes) = (Vec::new(), 0);
            store.scan(&thread, first..=last, &mut |stored, note| {
                size_bytes += stored.step.answer.len() + stored.step.edge.prompt.len();
                size_bytes += note.told.as_ref().map_or(0, String::len);
                page.push(Scanned { stored, note });
                size_bytes < PAGE_BYTES && page.len() < PAGE_LENGTH
            })?;
            Answer::Steps(page)
        }
        Ask::Step { thread, seq } => {
            let found = store.step(&thread, seq)?.map(|(stored, note)| Scanned { stored, note });
            Answer::Steps(found.into_iter().collect())
        }
        Ask::Visits { thread, lane, role, first, last } => {
            Answer::Visits(store.visits(&thread, &lane, &role, first..=last)?)
        }
        Ask::Locate { digest } => Answer::Places(store.locate(digest)?),
        Ask::Object { kind, digest } => Answer::Value(store.object(kind, digest)?.map(Bytes)),
        Ask::Journal { thread, lane } => Answer::Journal(store.journal(&thread, &lane)?),
        Ask::HookValue { space, key } => Answer::Value(store.hook_value(&space, &key.0)?.map(Bytes)),
        Ask::HookValues { space, from, limit } => {
            let mut size_bytes = 0;
            let entries = store.hook_values(&space, &from.0, limit.min(PAGE_LENGTH))?;
            let found = entries.len();
            let page = entries.into_iter().take_while(|(key, value)| {
                let had = size_bytes;
                size_bytes += key.len() + value.len();
                had < PAGE_BYTES
            });
            let page: Vec<_> = page.map(|(key, value)| (Bytes(key), Bytes(value))).collect();
            let is_cut = page.len() < limit && (page.len() < found || found == PAGE_LENGTH);
            Answer::Entries(page, is_cut)
        }
        Ask::Commit { commit, durability: Durable(durability) } => {
            runtime.block_on(store.commit_with(*commit, durability))?;
            Answer::Done
        }
        Ask::Record { thread, records, durability } => {
            let (sync, durability) = match durability {
                Some(Durable(durability)) => (true, durability),
                None => (false, Durability::Log),
            };
            runtime.block_on(store.record_with(thread, records, sync, durability))?;
            Answer::Done
        }
        Ask::PutHookValue { space, key, value } => {
            runtime.block_on(store.put_hook_value(&space, key.0, value.map(|value| value.0)))?;
            Answer::Done
        }
        Ask::Hello { .. }
        | Ask::Join { .. }
        | Ask::Driven
        | Ask::Drive { .. }
        | Ask::Leave { .. }
        | Ask::Cancel { .. } => {
            return Err(Error::Malformed { what: "that is not asked of a store".to_owned() });
        }
    })
}

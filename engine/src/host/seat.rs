//! A store that processes share: this process holds it and serves it to the others, or asks the one that does.
//!
//! Laws. Each process drives its own threads; what it commits is as safe as it asked, whoever holds the store. When the
//! holder ends, in whatever way, the next process opens the store and goes on; a commit that was under way is compared by
//! version and digest, and sent again only if it is absent. What is handed over for one thread is stored in that order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::socket::{self, ANSWER, Answer, Ask, Client, Drivers, Durable, Freed, Lost, Server};
use crate::store::folder::Owner;
use crate::store::text::Bytes;
use crate::store::{
    self, Commit, Entries, Error, JournalRecord, LaneRow, Read, RocksStore, Row, StepStore, StoredStep,
};

/// How long to wait before a store that is held is asked for again.
const AGAIN: Duration = Duration::from_millis(25);

/// How long a driver in this process may take to end a thread.
const FREEING: Duration = Duration::from_secs(10);

/// Ends a thread of this process for good.
pub type Cancel = Arc<dyn Fn(&ThreadId) + Send + Sync>;

/// A store that processes share. Dropping the last handle, or [`leave`](Self::leave), gives it to the others.
#[derive(Clone)]
pub struct Seat {
    inner: Arc<Inner>,
}

/// Where a store lies and how it is opened.
#[derive(Clone)]
pub struct Opening {
    /// Its folder.
    pub folder: PathBuf,
    /// Whose it is, if it has to be made.
    pub owner: Option<Owner>,
    /// How far what this process commits is safe.
    pub durability: Durability,
}

struct Inner {
    opening: Opening,
    runtime: Handle,
    cancel: Cancel,
    /// Who drives which thread, for as long as this process holds the store.
    drivers: Arc<Drivers>,
    place: RwLock<Arc<Place>>,
    changing: Mutex<()>,
    /// The threads that this process drives.
    own: Mutex<BTreeSet<ThreadId>>,
    /// What is handed over and not stored yet, by thread, in order, where another process holds the store.
    waiting: Mutex<BTreeMap<ThreadId, VecDeque<Work>>>,
}

enum Place {
    /// This process holds the store.
    Here(Here),
    /// Another one does.
    There(Client),
    /// This process is done with the store.
    Left,
}

/// What this process holds, dropped in this order.
struct Here {
    /// `None` where no socket could be made: then there are no other processes.
    _server: Option<Server>,
    store: Arc<RocksStore>,
}

struct Work {
    what: What,
    done: oneshot::Sender<Result<(), Error>>,
}

enum What {
    Commit(Box<Commit>),
    Records { thread: ThreadId, records: Vec<JournalRecord>, sync: bool },
}

impl Seat {
    /// Opens the store, or joins the process that holds it. Gives what is to be said of it as well, a sentence each.
    /// `cancel` is called for a thread of this process that another one wants ended. Blocks.
    ///
    /// # Errors
    /// [`Error::Busy`] when the holder does not answer within [`ANSWER`], or the store cannot be opened.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(opening: Opening, cancel: Cancel) -> Result<(Self, Vec<String>), Error> {
        let runtime = Handle::current();
        let inner = Arc::new(Inner {
            opening,
            runtime,
            cancel,
            drivers: Arc::default(),
            place: RwLock::new(Arc::new(Place::Left)),
            changing: Mutex::default(),
            own: Mutex::default(),
            waiting: Mutex::default(),
        });
        let (place, notices) = inner.find()?;
        *inner.place.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(place);
        Ok((Self { inner }, notices))
    }

    /// Whether this process holds the store.
    pub fn is_here(&self) -> bool {
        matches!(*self.inner.place(), Place::Here(_))
    }

    /// A thread is driven by this process from now on. Gives whether no other one does.
    ///
    /// # Errors
    /// When the holder does not answer.
    pub fn drive(&self, thread: &ThreadId) -> Result<bool, Error> {
        // Known first, so that no change of the holder misses it.
        self.inner.own().insert(thread.clone());
        let is_ours = self.inner.take(thread);
        if !matches!(is_ours, Ok(true)) {
            self.inner.own().remove(thread);
        }
        is_ours
    }

    /// It no longer is.
    pub fn let_go(&self, thread: &ThreadId) {
        self.inner.own().remove(thread);
        match &*self.inner.place() {
            Place::Here(_) => self.inner.drivers.leave(thread, None),
            Place::There(client) => {
                // A holder that is gone knows nothing of it any more.
                let _ = client.ask(&Ask::Leave { guest: client.guest(), thread: thread.clone() });
            }
            Place::Left => {}
        }
    }

    /// Tells whoever drives a thread to end it for good, and waits until it has left the thread. Blocks.
    ///
    /// # Errors
    /// When the holder does not answer.
    pub fn free(&self, thread: &ThreadId) -> Result<Freed, Error> {
        let here = |thread: &ThreadId| (self.inner.cancel)(thread);
        loop {
            let place = self.inner.place();
            let answer = match &*place {
                Place::Here(_) => return self.inner.drivers.free(thread, &here, FREEING).ok_or_else(left),
                Place::There(client) => client.ask(&Ask::Cancel { thread: thread.clone() }),
                Place::Left => return Err(left()),
            };
            match answer {
                Ok(Answer::Freed(freed)) => return Ok(freed),
                Ok(_) => return Err(strange()),
                // The next holder is asked, which this process may have become.
                Err(lost) => self.inner.lost(lost, &place)?,
            }
        }
    }

    /// Gives the store to the other processes. What is asked of it afterwards is an error. Blocks.
    pub fn leave(&self) {
        let _changing = self.inner.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let place = std::mem::replace(
            &mut *self.inner.place.write().unwrap_or_else(PoisonError::into_inner),
            Arc::new(Place::Left),
        );
        // What is under way is let end, so that the database is closed by the time that this returns.
        let since = Instant::now();
        while Arc::strong_count(&place) > 1 && since.elapsed() < ANSWER {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Inner {
    fn place(&self) -> Arc<Place> {
        Arc::clone(&self.place.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn own(&self) -> MutexGuard<'_, BTreeSet<ThreadId>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<ThreadId, VecDeque<Work>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the store, or joins the process that holds it. A holder is coming, going or silent for [`ANSWER`] at most;
    /// another one has as long again.
    fn find(self: &Arc<Self>) -> Result<(Place, Vec<String>), Error> {
        let Opening { folder, owner, durability } = &self.opening;
        let options = store::Options { durability: *durability, owner: *owner };
        let (mut since, mut holder) = (Instant::now(), 0);
        loop {
            let pid = match RocksStore::open(folder, options) {
                Ok((store, opened)) => {
                    let store = Arc::new(store);
                    let mut notices = opened.notices;
                    let server = self.serve(folder, &store).inspect_err(|error| {
                        // A run needs no other process; those that come are told that the store is busy.
                        notices.push(format!("other terminals cannot be served: {error}"));
                    });
                    return Ok((Place::Here(Here { _server: server.ok(), store }), notices));
                }
                Err(Error::Busy { pid }) => pid,
                Err(error) => return Err(error),
            };
            match self.join(folder) {
                Ok(client) => return Ok((Place::There(client), Vec::new())),
                Err(Lost::OtherVersion) => {
                    let what = format!("process {pid} holds the store and is of another version of rondo");
                    return Err(Error::Io { path: folder.display().to_string(), what });
                }
                Err(Lost::Silent) => return Err(Error::Busy { pid }),
                Err(Lost::Ended | Lost::TooLarge) => {}
            }
            if pid != holder {
                (since, holder) = (Instant::now(), pid);
            } else if since.elapsed() >= ANSWER {
                return Err(Error::Busy { pid });
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn serve(&self, folder: &Path, store: &Arc<RocksStore>) -> std::io::Result<Server> {
        let cancel = Arc::clone(&self.cancel);
        let cancel = Box::new(move |thread: &ThreadId| cancel(thread));
        Server::start(folder, Arc::clone(store), Arc::clone(&self.drivers), cancel, self.runtime.clone())
    }

    fn join(self: &Arc<Self>, folder: &Path) -> Result<Client, Lost> {
        let cancel = Arc::clone(&self.cancel);
        let inner = Arc::downgrade(self);
        let ended = move || {
            // The next holder is told which threads are driven as soon as there is one.
            if let Some(inner) = inner.upgrade() {
                let place = inner.place();
                if matches!(&*place, Place::There(client) if client.has_ended()) {
                    let _ = inner.change(&place);
                }
            }
        };
        Client::join(folder, move |thread| cancel(thread), ended)
    }

    /// The holder that `old` led to is gone: finds the next one, which may be this process.
    fn change(self: &Arc<Self>, old: &Arc<Place>) -> Result<(), Error> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&self.place(), old) {
            return Ok(());
        }
        let (place, _) = self.find()?;
        // Before anything else is asked there. Where somebody took one meanwhile, the version of its row says who wins.
        for thread in self.own().iter() {
            match &place {
                Place::Here(_) => drop(self.drivers.take(thread, None)),
                Place::There(client) => {
                    drop(client.ask(&Ask::Drive { guest: client.guest(), thread: thread.clone() }));
                }
                Place::Left => {}
            }
        }
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(place);
        Ok(())
    }

    fn take(self: &Arc<Self>, thread: &ThreadId) -> Result<bool, Error> {
        loop {
            let place = self.place();
            let answer = match &*place {
                Place::Here(_) => return Ok(self.drivers.take(thread, None).unwrap_or(false)),
                Place::There(client) => client.ask(&Ask::Drive { guest: client.guest(), thread: thread.clone() }),
                Place::Left => return Err(left()),
            };
            match answer {
                Ok(Answer::Done) => return Ok(true),
                Ok(Answer::Taken) => return Ok(false),
                Ok(_) => return Err(strange()),
                Err(lost) => self.lost(lost, &place)?,
            }
        }
    }

    /// What follows when there was no answer: `Ok` when it may be asked again.
    fn lost(self: &Arc<Self>, lost: Lost, place: &Arc<Place>) -> Result<(), Error> {
        match lost {
            Lost::Ended => self.change(place),
            Lost::Silent | Lost::OtherVersion => {
                Err(Error::Busy { pid: store::holder(&self.opening.folder).ok().flatten().unwrap_or(0) })
            }
            Lost::TooLarge => {
                let what = format!("more than {} bytes cannot go to the holder of the store", socket::MAX_FRAME_BYTES);
                Err(Error::Malformed { what })
            }
        }
    }

    /// Asks whoever holds the store, once more when the holder ended on it. For what can be asked twice.
    fn ask(self: &Arc<Self>, question: &Ask) -> Result<Answer, Error> {
        loop {
            let place = self.place();
            let answer = match &*place {
                Place::Here(here) => Ok(socket::answer(&here.store, &self.runtime, question.clone())),
                Place::There(client) => client.ask(question),
                Place::Left => return Err(left()),
            };
            match answer {
                Ok(Answer::Failed(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
                Err(lost) => self.lost(lost, &place)?,
            }
        }
    }

    /// Stores a commit, unless an earlier holder has.
    fn commit(self: &Arc<Self>, commit: &Commit) -> Result<(), Error> {
        let durability = Durable(self.opening.durability);
        let question = Ask::Commit { commit: Box::new(commit.clone()), durability };
        let mut was_sent = false;
        loop {
            if was_sent && self.holds(commit)? {
                return Ok(());
            }
            let place = self.place();
            let answer = match &*place {
                Place::Here(here) => Ok(socket::answer(&here.store, &self.runtime, question.clone())),
                Place::There(client) => client.ask(&question),
                Place::Left => return Err(left()),
            };
            match answer {
                Ok(Answer::Done) => return Ok(()),
                Ok(Answer::Failed(error)) => return Err(error),
                Ok(_) => return Err(strange()),
                Err(lost) => {
                    self.lost(lost, &place)?;
                    was_sent = true;
                }
            }
        }
    }

    /// Whether a commit is stored.
    fn holds(self: &Arc<Self>, commit: &Commit) -> Result<bool, Error> {
        let seat = Seat { inner: Arc::clone(self) };
        let Some(row) = seat.row(&commit.thread)? else { return Ok(false) };
        if row.version < commit.row.version {
            return Ok(false);
        }
        Ok(match &commit.step {
            Some(new) => seat.step(&commit.thread, new.seq)?.is_some_and(|(stored, _)| stored.digest == new.digest),
            None => row == commit.row,
        })
    }

    /// Takes a piece of work over, which is carried out whether or not anybody waits for it.
    fn hand_over(self: &Arc<Self>, thread: ThreadId, what: What) -> BoxFuture<'static, Result<(), Error>> {
        let (done, outcome) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting();
            let is_first = !waiting.contains_key(&thread);
            waiting.entry(thread.clone()).or_default().push_back(Work { what, done });
            is_first
        };
        if is_first {
            let inner = Arc::clone(self);
            self.runtime.spawn_blocking(move || inner.work_off(&thread));
        }
        Box::pin(async move {
            outcome.await.unwrap_or_else(|_| Err(Error::Poisoned { what: "the process is ending".to_owned() }))
        })
    }

    fn work_off(self: &Arc<Self>, thread: &ThreadId) {
        loop {
            let work = {
                let mut waiting = self.waiting();
                let Some(work) = waiting.get_mut(thread).and_then(VecDeque::pop_front) else {
                    waiting.remove(thread);
                    return;
                };
                work
            };
            let outcome = match work.what {
                What::Commit(commit) => self.commit(&commit),
                What::Records { thread, records, sync } => {
                    let durability = sync.then_some(Durable(self.opening.durability));
                    self.ask(&Ask::Record { thread, records, durability }).map(|_| ())
                }
            };
            // Who no longer waits is not told.
            let _ = work.done.send(outcome);
        }
    }
}

fn left() -> Error {
    Error::Poisoned { what: "this process has given the store to others".to_owned() }
}

fn strange() -> Error {
    Error::Io { path: "socket".to_owned(), what: "the holder of the store answered something else".to_owned() }
}

/// Reads where the store is: of the store itself, or by a question whose answer is of that form.
macro_rules! read {
    ($seat:expr, $here:expr, $question:expr, $answer:pat => $value:expr) => {{
        let place = $seat.inner.place();
        match &*place {
            Place::Here(here) => {
                let here: &RocksStore = &here.store;
                $here(here)
            }
            _ => match $seat.inner.ask(&$question)? {
                $answer => $value,
                _ => Err(strange()),
            },
        }
    }};
}

impl Read for Seat {
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        let question = || Ask::Row { thread: thread.clone() };
        read!(self, |here: &RocksStore| here.row(thread), question(), Answer::Row(row) => Ok(row.map(|row| *row)))
    }

    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error> {
        let (mut all, mut after) = (Vec::new(), after.cloned());
        while all.len() < limit {
            let left = limit - all.len();
            let question = || Ask::Rows { after: after.clone(), limit: left };
            let here = |here: &RocksStore| here.rows(after.as_ref(), left);
            let page: Vec<(ThreadId, Row)> = read!(self, here, question(), Answer::Rows(rows) => Ok(rows))?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            all.extend(page);
        }
        Ok(all)
    }

    fn lane(&self, thread: &ThreadId, lane: &LanePath) -> Result<Option<LaneRow>, Error> {
        let question = || Ask::Lane { thread: thread.clone(), lane: lane.clone() };
        let here = |here: &RocksStore| here.lane(thread, lane);
        read!(self, here, question(), Answer::Lane(row) => Ok(row.map(|row| *row)))
    }

    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error> {
        let (mut all, mut after) = (Vec::new(), after.cloned());
        while all.len() < limit {
            let left = limit - all.len();
            let question = || Ask::Lanes { thread: thread.clone(), after: after.clone(), limit: left };
            let here = |here: &RocksStore| here.lanes(thread, after.as_ref(), left);
            let page: Vec<(LanePath, LaneRow)> = read!(self, here, question(), Answer::Lanes(rows) => Ok(rows))?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            all.extend(page);
        }
        Ok(all)
    }

    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error> {
        let question = || Ask::List { thread: thread.clone(), opened_by };
        let here = |here: &RocksStore| here.list(thread, opened_by);
        read!(self, here, question(), Answer::Value(list) => Ok(list.map(|list| list.0)))
    }

    fn scan(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StoredStep, Note) -> bool,
    ) -> Result<(), Error> {
        let (mut first, last) = seqs.into_inner();
        while first <= last {
            let place = self.inner.place();
            if let Place::Here(here) = &*place {
                return here.store.scan(thread, first..=last, visit);
            }
            let Answer::Steps(page) = self.inner.ask(&Ask::Scan { thread: thread.clone(), first, last })? else {
                return Err(strange());
            };
            // The holder has held the range to what the thread has.
            if page.is_empty() {
                return Ok(());
            }
            for scanned in page {
                first = scanned.stored.seq.saturating_add(1);
                if !visit(scanned.stored, scanned.note) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn step(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredStep, Note)>, Error> {
        let question = || Ask::Step { thread: thread.clone(), seq };
        read!(self, |here: &RocksStore| here.step(thread, seq), question(), Answer::Steps(mut steps) => {
            Ok(steps.pop().map(|scanned| (scanned.stored, scanned.note)))
        })
    }

    fn visits(
        &self,
        thread: &ThreadId,
        lane: &LanePath,
        role: &RoleName,
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let (first, last) = (*visits.start(), *visits.end());
        let question = || Ask::Visits { thread: thread.clone(), lane: lane.clone(), role: role.clone(), first, last };
        let here = |here: &RocksStore| here.visits(thread, lane, role, first..=last);
        read!(self, here, question(), Answer::Visits(visits) => Ok(visits))
    }

    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error> {
        let question = || Ask::Locate { digest };
        read!(self, |here: &RocksStore| here.locate(digest), question(), Answer::Places(places) => Ok(places))
    }

    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let question = || Ask::Object { kind, digest };
        let here = |here: &RocksStore| here.object(kind, digest);
        read!(self, here, question(), Answer::Value(value) => Ok(value.map(|value| value.0)))
    }

    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error> {
        let question = || Ask::Journal { thread: thread.clone(), lane: lane.clone() };
        let here = |here: &RocksStore| here.journal(thread, lane);
        read!(self, here, question(), Answer::Journal(records) => Ok(records))
    }

    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let question = || Ask::HookValue { space: space.to_owned(), key: Bytes(key.to_vec()) };
        let here = |here: &RocksStore| here.hook_value(space, key);
        read!(self, here, question(), Answer::Value(value) => Ok(value.map(|value| value.0)))
    }

    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error> {
        let mut all: Entries = Vec::new();
        let mut from = from.to_vec();
        while all.len() < limit {
            let left = limit - all.len();
            let place = self.inner.place();
            if let Place::Here(here) = &*place {
                all.extend(here.store.hook_values(space, &from, left)?);
                break;
            }
            let question = Ask::HookValues { space: space.to_owned(), from: Bytes(from.clone()), limit: left };
            let Answer::Entries(page, is_cut) = self.inner.ask(&question)? else { return Err(strange()) };
            all.extend(page.into_iter().map(|(key, value)| (key.0, value.0)));
            match all.last() {
                Some((last, _)) if is_cut => {
                    // The least key behind it.
                    from.clone_from(last);
                    from.push(0);
                }
                _ => break,
            }
        }
        Ok(all)
    }
}

impl Inner {
    /// This process's store, if it holds it, and nothing of the thread was handed over before it did and still waits.
    fn here(&self, thread: Option<&ThreadId>) -> Option<Arc<Place>> {
        let place = self.place();
        let is_here = matches!(&*place, Place::Here(_));
        let waits = thread.is_some_and(|thread| self.waiting().contains_key(thread));
        (is_here && !waits).then_some(place)
    }
}

/// Begins at once what a store is handed, so that the order of the calls is the order in the store.
fn begun(handing: impl Future<Output = Result<(), Error>> + Send + 'static) -> BoxFuture<'static, Result<(), Error>> {
    let mut handing: BoxFuture<'static, Result<(), Error>> = Box::pin(handing);
    match (&mut handing).now_or_never() {
        Some(outcome) => Box::pin(std::future::ready(outcome)),
        None => handing,
    }
}

impl StepStore for Seat {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
        match self.inner.here(Some(&commit.thread)) {
            Some(place) => begun(async move {
                match &*place {
                    Place::Here(here) => here.store.commit(commit).await,
                    _ => Err(left()),
                }
            }),
            None => self.inner.hand_over(commit.thread.clone(), What::Commit(Box::new(commit))),
        }
    }

    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>> {
        match self.inner.here(Some(&thread)) {
            Some(place) => begun(async move {
                match &*place {
                    Place::Here(here) => here.store.record(thread, records, sync).await,
                    _ => Err(left()),
                }
            }),
            None => self.inner.hand_over(thread.clone(), What::Records { thread, records, sync }),
        }
    }

    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>> {
        let space = space.to_owned();
        if let Some(place) = self.inner.here(None) {
            return begun(async move {
                match &*place {
                    Place::Here(here) => here.store.put_hook_value(&space, key, value).await,
                    _ => Err(left()),
                }
            });
        }
        let question = Ask::PutHookValue { space, key: Bytes(key), value: value.map(Bytes) };
        let inner = Arc::clone(&self.inner);
        let asking = self.inner.runtime.spawn_blocking(move || inner.ask(&question).map(|_| ()));
        Box::pin(async move {
            asking.await.unwrap_or_else(|_| Err(Error::Poisoned { what: "the process is ending".to_owned() }))
        })
    }

    fn durability(&self) -> Durability {
        self.inner.opening.durability
    }
}

#[cfg(test)]
pub(crate) mod tests;

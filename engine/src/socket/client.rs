//! A guest's side: asks the process that holds the store.

use std::collections::BTreeSet;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rondo_protocol::id::ThreadId;

use super::drivers::GuestId;
use super::wire::{Answer, Ask, VERSION};
use super::{ANSWER, connect, frame};

/// How many questions are under way at once.
const MAX_CONNECTIONS: usize = 64;

/// How long one question may take while the holder shows that it is there: a sync of a slow disk, or a thread that ends.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long a reading verb waits for the list of threads that are driven.
const GLANCE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The holder has ended; whether it did what it was asked is not known.
    Ended,
    /// It holds the store and does not answer.
    Silent,
    /// The question is larger than what is sent.
    TooLarge,
    /// The holder is of another version.
    OtherVersion,
}

/// A connection to the process that holds a store, as long as that does.
#[derive(Debug)]
pub struct Client {
    folder: PathBuf,
    guest: GuestId,
    presence: UnixStream,
    has_ended: Arc<AtomicBool>,
    idle: Mutex<Idle>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Idle {
    streams: Vec<UnixStream>,
    count: usize,
}

impl Client {
    /// Joins the process that holds the store in `folder`. `cancel` is called when a thread is to be ended for good, and
    /// `ended` once the holder is gone.
    ///
    /// # Errors
    /// [`Lost::Ended`] when nobody listens, [`Lost::Silent`] after [`ANSWER`], [`Lost::OtherVersion`].
    pub fn join(
        folder: &Path,
        cancel: impl Fn(&ThreadId) + Send + 'static,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Lost> {
        let presence = open(folder)?;
        let answer = ask(&presence, &Ask::Join { version: VERSION.to_owned() }, &mut frame::at_once)?;
        let guest = match answer {
            Answer::Joined { guest } => guest,
            Answer::OtherVersion => return Err(Lost::OtherVersion),
            _ => return Err(Lost::Ended),
        };
        let heard = presence.try_clone().map_err(|_| Lost::Ended)?;
        // From now on the holder speaks when it has something to say.
        heard.set_read_timeout(None).map_err(|_| Lost::Ended)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&has_ended);
        let listening = std::thread::Builder::new().name("rondo-listener".to_owned()).spawn(move || {
            while let Ok(Some(Answer::Cancel { thread })) = frame::receive(&heard, &mut frame::at_once) {
                cancel(&thread);
            }
            told.store(true, Ordering::SeqCst);
            ended();
        });
        listening.map_err(|_| Lost::Ended)?;
        let (folder, idle, returned) = (folder.to_owned(), Mutex::default(), Condvar::new());
        Ok(Self { folder, guest, presence, has_ended, idle, returned })
    }

    /// As whom this process is known to the holder.
    pub fn guest(&self) -> GuestId {
        self.guest
    }

    /// Whether the holder is gone.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn ask(&self, question: &Ask) -> Result<Answer, Lost> {
        let idle = self.take()?;
        let mut place = Place { client: self, stream: None };
        let stream = match idle {
            Some(stream) => stream,
            None => open(&self.folder)?,
        };
        let since = Instant::now();
        // A disk may be slow, and a holder that is there is waited for.
        let mut patience = || {
            let is_there = since.elapsed() < PATIENCE && greet(&self.folder).is_ok();
            if is_there { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
        };
        let answer = ask(&stream, question, &mut patience)?;
        place.stream = Some(stream);
        Ok(answer)
    }

    /// An idle connection, or `None` where one may be opened. Waits where neither is there.
    fn take(&self) -> Result<Option<UnixStream>, Lost> {
        let full = |idle: &mut Idle| idle.streams.is_empty() && idle.count >= MAX_CONNECTIONS;
        let waited = self.returned.wait_timeout_while(self.idle(), PATIENCE, full);
        let (mut idle, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(Lost::Silent);
        }
        let stream = idle.streams.pop();
        if stream.is_none() {
            idle.count += 1;
        }
        Ok(stream)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The thread that listens ends with it, and the holder sees that this process drives nothing any more.
        let _ = self.presence.shutdown(Shutdown::Both);
    }
}

/// A question's place among those that are under way; its connection is kept if it is whole when this is dropped.
struct Place<'c> {
    client: &'c Client,
    stream: Option<UnixStream>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut idle = self.client.idle();
        match self.stream.take() {
            Some(stream) => idle.streams.push(stream),
            None => idle.count = idle.count.saturating_sub(1),
        }
        drop(idle);
        self.client.returned.notify_one();
    }
}

/// Which threads are driven, for whoever only looks. `None` where the holder does not say so soon.
pub fn driven(folder: &Path) -> Option<BTreeSet<ThreadId>> {
    let stream = connect(folder).ok()?;
    stream.set_read_timeout(Some(GLANCE)).ok()?;
    stream.set_write_timeout(Some(GLANCE)).ok()?;
    match ask(&stream, &Ask::Driven, &mut frame::at_once) {
        Ok(Answer::Driven(threads)) => Some(threads.into_iter().collect()),
        _ => None,
    }
}

/// Whether the holder answers.
fn greet(folder: &Path) -> Result<(), Lost> {
    match ask(&open(folder)?, &Ask::Hello { version: VERSION.to_owned() }, &mut frame::at_once)? {
        Answer::Hello => Ok(()),
        _ => Err(Lost::OtherVersion),
    }
}

fn open(folder: &Path) -> Result<UnixStream, Lost> {
    let open = || {
        let stream = connect(folder)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        Ok::<_, io::Error>(stream)
    };
    open().map_err(|_| Lost::Ended)
}

fn ask(stream: &UnixStream, question: &Ask, patience: &mut dyn FnMut() -> io::Result<()>) -> Result<Answer, Lost> {
    let lost = |error: &io::Error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Lost::Silent,
        io::ErrorKind::InvalidInput => Lost::TooLarge,
        _ => Lost::Ended,
    };
    frame::send(stream, question, patience).map_err(|error| lost(&error))?;
    match frame::receive(stream, patience) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(Lost::Ended),
        Err(error) => Err(lost(&error)),
    }
}

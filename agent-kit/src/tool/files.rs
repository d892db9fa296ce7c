//! What the tools that reach files have in common: the sandbox's errors in a tool's words, effects, and time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{ApplyPatch, EditFile, Error, Invocation, ListFiles, ReadFile, SearchFiles, Tool, Typed, WriteFile};
use crate::sandbox::files::{self, Workspace};

/// How long one call may look at files.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much memory all calls of this process may work with at a time, in MiB, besides what they were given and what they
/// answer. A call waits until there is room for it.
const ROOM_MIB: usize = 48;
static ROOM: Semaphore = Semaphore::const_new(ROOM_MIB);

/// How much room a call needs, whatever it is given and whatever stands in the files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    /// To read or write one file, a piece at a time.
    Piece,
    /// To walk through folders.
    Walk,
    /// To change files as a whole.
    Change,
}

impl Room {
    fn mib(self) -> u32 {
        match self {
            Self::Piece => 3,
            Self::Walk => 24,
            Self::Change => 48,
        }
    }
}

/// The tools that reach the files of a workspace, by name.
pub fn file_tools(workspace: &Arc<Workspace>) -> Vec<Arc<dyn Tool>> {
    let shared = || Arc::clone(workspace);
    vec![
        Arc::new(Typed::new(ApplyPatch::new(shared()))),
        Arc::new(Typed::new(EditFile::new(shared()))),
        Arc::new(Typed::new(ListFiles::new(shared()))),
        Arc::new(Typed::new(ReadFile::new(shared()))),
        Arc::new(Typed::new(SearchFiles::new(shared()))),
        Arc::new(Typed::new(WriteFile::new(shared()))),
    ]
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// A path as an effect names it. One that cannot be used stays as it is: the call is refused when it is made.
pub(super) fn named(workspace: &Workspace, path: &str) -> String {
    workspace.normalized(path).unwrap_or_else(|_| path.to_owned())
}

/// Reads a file.
pub(super) fn reads_file(workspace: &Workspace, path: &str) -> Effect {
    Effect::Reads(vec![named(workspace, path)])
}

/// Reads a folder with all below, or a file that may as well be a folder.
pub(super) fn reads_below(workspace: &Workspace, path: &str) -> Effect {
    Effect::Reads(vec![format!("{}/", named(workspace, path).trim_end_matches('/'))])
}

/// How long a call may still take.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    until: Instant,
    dropped: CancellationToken,
}

impl Patience {
    /// As long as a call may take.
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + PATIENCE, dropped: CancellationToken::new() }
    }

    /// Whether it is over: time is up, or nobody waits for the result any more.
    pub(super) fn is_over(&self) -> bool {
        self.dropped.is_cancelled() || Instant::now() >= self.until
    }

    /// An error when it is over.
    pub(super) fn check(&self) -> Result<(), Error> {
        if !self.is_over() {
            return Ok(());
        }
        let message = format!("this took longer than {} s; narrow what is looked at", PATIENCE.as_secs());
        Err(Error::new(Code::FileAccessFailed, message))
    }
}

/// Does work that only looks at files. All that it looks at is noted, unless time was up, which no file tells.
pub(super) fn reading<'a>(
    workspace: &Workspace,
    invocation: &Invocation,
    room: Room,
    work: impl FnOnce(&Workspace, &Patience) -> Result<String, Error> + Send + 'static,
) -> BoxFuture<'a, Result<String, Error>> {
    let watch = invocation.watch.clone();
    watch.begin();
    let workspace = workspace.watched(&watch);
    on_a_thread(room, move |patience| {
        let result = work(&workspace, patience);
        if patience.is_over() {
            watch.give_up();
        }
        result
    })
}

/// Does work that waits for the file system on a thread of its own, once there is room for it. When the future is dropped, work that looks stops,
/// and work that writes either has not begun or goes on to its end.
pub(super) fn on_a_thread<'a>(
    room: Room,
    work: impl FnOnce(&Patience) -> Result<String, Error> + Send + 'static,
) -> BoxFuture<'a, Result<String, Error>> {
    Box::pin(async move {
        // It is never closed. Work that goes on after its future was dropped keeps its room.
        let room = ROOM.acquire_many(room.mib()).await;
        let patience = Patience::new();
        let _guard = patience.dropped.clone().drop_guard();
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&patience);
            drop(room);
            result
        });
        let done = done.await;
        done.unwrap_or_else(|_| Err(Error::new(Code::FileAccessFailed, "the work on files was stopped before its end")))
    })
}

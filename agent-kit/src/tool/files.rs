//! Shared parts of the file tools: the sandbox's errors in a tool's words, effects, and time limits.

use std::io::{self, Read};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::apply_patch::ApplyPatch;
use super::edit_file::EditFile;
use super::list_files::ListFiles;
use super::read_file::ReadFile;
use super::search_files::SearchFiles;
use super::write_file::WriteFile;
use super::{BuiltIn, Content, Error, Invocation, Tool, Typed};
use crate::redact::Redactor;
use crate::sandbox::files::{self, OpenFile, Workspace};

const PATIENCE: Duration = Duration::from_secs(20);

/// The memory that all calls of this process together may use, in MiB, besides their arguments and results. A call
/// waits until there is room for it.
const ROOM_MIB: usize = 48;
static ROOM: Semaphore = Semaphore::const_new(ROOM_MIB);

/// How much of it a call needs, whatever its arguments and the files are: to read or write one file a piece at a time, to
/// walk folders, and to change files.
pub(super) const PIECE_MIB: u32 = 3;
pub(super) const WALK_MIB: u32 = 24;
pub(super) const CHANGE_MIB: u32 = 48;

/// A call of a file tool: its arguments, and how it runs.
pub(super) trait FileCall: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const ROOM_MIB: u32;
    /// Whether it only reads, so that everything it reads is recorded.
    const ONLY_READS: bool;

    fn effect(&self, workspace: &Workspace) -> Effect;

    fn run(self, workspace: &Workspace, redactor: Redactor, patience: &Patience) -> Result<Content, Error>;
}

struct FileTool<C> {
    workspace: Arc<Workspace>,
    call: PhantomData<fn() -> C>,
}

impl<C: FileCall> BuiltIn for FileTool<C> {
    type Arguments = C;

    const NAME: &'static str = C::NAME;
    const DESCRIPTION: &'static str = C::DESCRIPTION;

    fn effect(&self, call: &C) -> Effect {
        call.effect(&self.workspace)
    }

    fn declared_effect(&self) -> Effect {
        if C::ONLY_READS { Effect::Reads(Vec::new()) } else { Effect::Writes(Vec::new()) }
    }

    fn run<'a>(&'a self, call: C, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        let redactor = invocation.redactor.clone();
        let watch = C::ONLY_READS.then(|| invocation.watch.clone());
        let workspace = match &watch {
            Some(watch) => {
                watch.begin();
                Arc::new(self.workspace.watched(watch))
            }
            None => Arc::clone(&self.workspace),
        };
        on_a_thread(C::ROOM_MIB, move |patience| {
            let result = call.run(&workspace, redactor, patience);
            // A result that the time limit cut depends on more than the files.
            if let Some(watch) = watch.filter(|_| patience.is_over()) {
                watch.give_up();
            }
            result
        })
    }
}

fn tool<C: FileCall>(workspace: &Arc<Workspace>) -> Arc<dyn Tool> {
    Arc::new(Typed::new(FileTool::<C> { workspace: Arc::clone(workspace), call: PhantomData }))
}

pub fn file_tools(workspace: &Arc<Workspace>) -> Vec<Arc<dyn Tool>> {
    vec![
        tool::<ApplyPatch>(workspace),
        tool::<EditFile>(workspace),
        tool::<ListFiles>(workspace),
        tool::<ReadFile>(workspace),
        tool::<SearchFiles>(workspace),
        tool::<WriteFile>(workspace),
    ]
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// A path as an effect names it. An invalid one stays as it is: the call is refused when it is made.
pub(super) fn named(workspace: &Workspace, path: &str) -> String {
    workspace.normalized(path).unwrap_or_else(|_| path.to_owned())
}

/// The effect of reading a folder with everything below, or a file, since the path could be either.
pub(super) fn reads_below(workspace: &Workspace, path: &str) -> Effect {
    Effect::Reads(vec![format!("{}/", named(workspace, path).trim_end_matches('/'))])
}

/// The time that a call has left.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    until: Instant,
    dropped: CancellationToken,
}

impl Patience {
    /// Whether time is up, or the caller no longer waits for the result.
    pub(super) fn is_over(&self) -> bool {
        self.dropped.is_cancelled() || Instant::now() >= self.until
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if !self.is_over() {
            return Ok(());
        }
        let message = format!("this took longer than {} s; narrow what is looked at", PATIENCE.as_secs());
        Err(Error::new(Code::FileAccessFailed, message))
    }
}

/// A file that can be read until time is up.
pub(super) struct Timed<'p> {
    pub(super) file: OpenFile,
    pub(super) patience: &'p Patience,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.patience.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// Runs the blocking `work` on a thread once there is room for it. When the future is dropped, a call that only reads
/// stops; one that writes has either not started or runs to its end.
fn on_a_thread<'a>(
    room_mib: u32,
    work: impl FnOnce(&Patience) -> Result<Content, Error> + Send + 'static,
) -> BoxFuture<'a, Result<Content, Error>> {
    Box::pin(async move {
        // The semaphore is never closed. Work that continues after its future was dropped keeps its room.
        let room = ROOM.acquire_many(room_mib).await;
        let patience = Patience { until: Instant::now() + PATIENCE, dropped: CancellationToken::new() };
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

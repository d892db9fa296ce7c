//! The wall around a program: what it may reach, how much it may use, and that nothing of it is left behind.
//!
//! A program is not started by this process but by the launcher, this same binary with a hidden verb ([`entered`]),
//! which walls itself in and then becomes the program: no code of ours runs between a fork and an exec, and nothing of
//! this process is inherited. See [`launch`] for the stages.
//!
//! Laws:
//! - A program reads the folders of the system, the workspace and what was granted; it writes the workspace (or less,
//!   [`Access`]), what was granted and a private folder that is gone afterwards. What is hidden it neither reads,
//!   writes, replaces nor creates. The workspace's `.git` is hidden always, and so are every nested `.git` and
//!   `rondo.toml` that are there when it starts, within the bounds of [`nested`]. Where the host itself replaces what is
//!   masked in a namespace, the mask falls off, and the program is ended within a moment (50 ms).
//! - What it starts and imports is not taken from the folder that it happens to start in: its `PATH` has no relative
//!   part, and Python is told so, unless the operator's variables or the command say otherwise.
//! - It has no socket, no privilege, no file but its three streams, and no variable but those that were allowed.
//! - When [`Processes::run`] returns, and at the latest two seconds after its future was dropped or this process was
//!   killed, no process of the tree is alive, whatever it did to detach itself.
//! - Its output is kept within a bound, and is cut in the middle with a mark.
//! - Where the kernel offers no such wall nothing is started, unless the operator switched the sandbox off. Then the
//!   environment and the limits still hold, and the tree still ends with its call unless a program detaches itself and
//!   kills what watches over it.
//! - Without a PID namespace (Landlock alone, or no sandbox) the command lines of other processes can be read.
//!
//! This module knows nothing of tools, roles or who asked.

mod apart;
mod folder;
#[cfg(target_os = "linux")]
mod launch;
mod live;
mod nested;
mod output;
mod plan;
#[cfg(target_os = "linux")]
mod running;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod running;
mod self_test;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use tokio::sync::OnceCell;

pub use folder::WorkingDir;
pub use live::{Live, Running};
pub use plan::{Exit, Isolation, Limits};
pub use self_test::Wall;

use super::environment::{PYTHON_SAFE_PATH, absolute_path};
use crate::redact::Redactor;
use crate::tool::Error;
use nested::Nested;
use output::Output;
use plan::{Plan, Streams, Writable};

/// What every program is walled by.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// The binary whose `main` begins with [`entered`]: this one (`std::env::current_exe`).
    pub launcher: PathBuf,
    /// The folder that programs work in.
    pub workspace: PathBuf,
    /// Files and folders outside it that they may read and execute, such as a toolchain. What lies in the workspace is
    /// read anyway.
    pub read: Vec<PathBuf>,
    /// Files and folders that they may write: `.` is the whole workspace, what is relative lies in it.
    pub write: Vec<PathBuf>,
    /// Files and folders that are out of reach, whether they exist or not: the store, the operator's settings. The
    /// workspace's `.git` is out of reach without being named.
    pub hidden: Vec<PathBuf>,
    /// Whether there is a sandbox; `false` only on the operator's word.
    pub sandbox: bool,
    /// The variables that programs see. `HOME` and `TMPDIR` are a private folder unless they are named here.
    pub env: BTreeMap<String, String>,
}

/// Starts programs behind the wall. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    settings: Arc<ProcessSettings>,
    /// Chosen by the self-test at the first start, or given.
    wall: Arc<OnceCell<Wall>>,
    nested: Arc<Nested>,
}

/// One program to run.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments. A name without a slash is searched in `PATH`.
    pub argv: Vec<String>,
    /// What it reads; nothing is the end of input at once.
    pub stdin: Vec<u8>,
    /// Where it starts; a folder lies below the workspace.
    pub working_dir: WorkingDir,
    /// Variables besides those that all programs see.
    pub env: BTreeMap<String, String>,
    /// Whether Python is told to import nothing from the folder that it starts in, nor from that of its script.
    pub has_safe_imports: bool,
    /// What of the workspace it may write.
    pub access: Access,
    /// How long it may take.
    pub timeout: Duration,
    /// How much of its output is kept.
    pub output_max_bytes: usize,
    /// Takes keys out of what is kept, before it is cut.
    pub redactor: Redactor,
    /// What it may use.
    pub limits: Limits,
}

/// What of the workspace, and of what was granted, a program may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Read,
    /// These paths below the workspace, and nothing beside them. One that does not exist is taken for a folder and made
    /// with the folders above it; it stays afterwards.
    Paths(Vec<PathBuf>),
    /// The whole workspace and what was granted.
    Write,
    /// What was granted, and nothing else: what of the workspace is not among `read` and `write` of the settings is not
    /// even read.
    Granted,
}

/// A program that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What it put out on both streams, in order of arrival, redacted.
    pub output: String,
    /// How many bytes of it were left out in the middle.
    pub left_out_bytes: u64,
    /// How it ended.
    pub exit: Exit,
}

/// A program that has ended, its two streams told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Every byte that it put out on stdout.
    pub stdout: Vec<u8>,
    /// What it put out on stderr, redacted, cut in the middle where that was much.
    pub stderr: String,
    /// How it ended.
    pub exit: Exit,
}

impl Command {
    /// A program with the usual limits that may write the workspace.
    pub fn new(argv: Vec<String>) -> Self {
        Self {
            argv,
            stdin: Vec::new(),
            working_dir: WorkingDir::workspace(),
            env: BTreeMap::new(),
            has_safe_imports: true,
            access: Access::Write,
            timeout: Duration::from_mins(10),
            output_max_bytes: crate::tool::STORED_MAX_BYTES,
            redactor: Redactor::default(),
            limits: Limits::default(),
        }
    }
}

/// When this process was started as the launcher: does what it was started for and returns how it ended, or becomes
/// the program and never returns. `None` in every other process. It stands at the very beginning of `main`, before any
/// thread is started and any file is opened.
pub fn entered() -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    return launch::entered();
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// Keeps other processes of this user from reading the memory and the variables of this one, which hold the operator's
/// keys: its files in `/proc` are root's from here on, and nobody but root can trace it
/// (<https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html>). It stands at the beginning of `main`, behind
/// [`entered`], for every verb; whatever starts a program or a server does it again. It holds until this process
/// becomes another program and is not handed down to what it starts: a launcher has none of the keys. Nothing is
/// claimed against root.
pub fn undumpable() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // The kernel refuses no value that it knows.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

impl Processes {
    /// The same kind of wall with other settings; it is tried once for both.
    #[must_use]
    pub fn with_settings(&self, settings: ProcessSettings) -> Self {
        Self { settings: Arc::new(settings), wall: Arc::clone(&self.wall), nested: Arc::default() }
    }

    /// A wall with these settings. Nothing is started yet.
    pub fn new(settings: ProcessSettings) -> Self {
        Self { settings: Arc::new(settings), wall: Arc::default(), nested: Arc::default() }
    }

    /// The same with these layers, without a self-test: for tests of one kind of wall on a machine that has another.
    #[must_use]
    pub fn with_isolation(self, isolation: Isolation) -> Self {
        Self { wall: Arc::new(OnceCell::new_with(Some(Wall::assumed(isolation)))), ..self }
    }

    /// What the wall is made of here, tried out by a probe that attacks it from within. It is tried once.
    pub async fn self_test(&self) -> &Wall {
        self.wall.get_or_init(|| self_test::choose(&self.settings)).await
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// `WallMissing` when there is none here, `ProgramNotStarted`, and what ended it otherwise than by itself:
    /// `ProgramTimedOut`, `ProgramFlooded`, `ProgramMultiplied`. How it ended by itself is no error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the whole tree of processes.
    pub async fn run(&self, command: Command) -> Result<Finished, Error> {
        let (output, exit) = self.begin(command, Streams::Together).await?;
        Ok(finished(output, exit))
    }

    /// Runs a program whose answer is what it puts out on stdout, all of it: more than the command's
    /// `output_max_bytes` ends it.
    ///
    /// # Errors
    /// As [`Processes::run`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the whole tree of processes.
    pub async fn ask(&self, command: Command) -> Result<Answered, Error> {
        let (output, exit) = self.begin(command, Streams::Apart).await?;
        let (stdout, stderr) = output.into_streams();
        Ok(Answered { stdout, stderr, exit })
    }

    /// Starts a program that goes on until it ends or is ended, with its streams.
    ///
    /// # Errors
    /// `WallMissing` when there is none here, `ProgramNotStarted`. What goes wrong later is told by [`Running::ended`].
    ///
    /// # Cancel safety
    /// Dropping the future, or [`Live::running`], ends the whole tree of processes.
    pub async fn open(&self, command: Command) -> Result<Live, Error> {
        let (isolation, nested) = self.ready().await?;
        let (plan, _) = planned(&self.settings, isolation, nested, command, Streams::Live)?;
        running::open(plan).await
    }

    async fn begin(&self, command: Command, streams: Streams) -> Result<(Output, Exit), Error> {
        let (isolation, nested) = self.ready().await?;
        start(&self.settings, isolation, nested, command, streams).await.map(|(output, exit, _)| (output, exit))
    }

    /// The layers of the next program, and what is hidden from it beside what the settings name.
    async fn ready(&self) -> Result<(Isolation, Vec<PathBuf>), Error> {
        undumpable();
        if !self.settings.sandbox {
            return Ok((Isolation::Off, Vec::new()));
        }
        let wall = self.self_test().await;
        let isolation = wall.isolation.ok_or_else(|| wall.refusal())?;
        let (nested, settings) = (Arc::clone(&self.nested), Arc::clone(&self.settings));
        let looked = tokio::task::spawn_blocking(move || nested.look(&settings.workspace)).await;
        let nested =
            looked.map_err(|error| not_started(format!("the workspace could not be looked through: {error}")))?;
        Ok((isolation, nested?))
    }
}

fn finished(output: Output, exit: Exit) -> Finished {
    let (output, left_out_bytes) = output.into_text();
    Finished { output, left_out_bytes, exit }
}

/// Runs a program behind these layers, with `nested` hidden as well: what it put out, how it ended, and the version of
/// Landlock in force, as the launcher told it.
async fn start(
    settings: &ProcessSettings,
    isolation: Isolation,
    nested: Vec<PathBuf>,
    command: Command,
    streams: Streams,
) -> Result<(Output, Exit, Option<u8>), Error> {
    let output = Output::new(streams, command.output_max_bytes, &command.redactor);
    let timeout = command.timeout;
    let (plan, stdin) = planned(settings, isolation, nested, command, streams)?;
    running::run(&plan, &stdin, timeout, output).await
}

/// What the launcher is told, and what the program is to read.
fn planned(
    settings: &ProcessSettings,
    isolation: Isolation,
    nested: Vec<PathBuf>,
    command: Command,
    streams: Streams,
) -> Result<(Plan, Vec<u8>), Error> {
    let failed = |error: std::io::Error| not_started(format!("the program could not be started: {error}"));
    let Command { argv, stdin, working_dir, env: extra, has_safe_imports, access, limits, .. } = command;
    if argv.first().is_none_or(String::is_empty) {
        return Err(not_started("there is no program to start: argv is empty"));
    }
    let workspace = settings.workspace.canonicalize().map_err(failed)?;
    let hidden = outermost(settings.hidden.iter().map(|path| real(path)).chain([workspace.join(".git")]).chain(nested));
    let working_dir = match working_dir {
        WorkingDir::Private => None,
        WorkingDir::Folder(path) => Some(beneath(&workspace, &hidden, &path)?),
    };
    let mut env = settings.env.clone();
    env.extend(extra);
    let path = env.entry("PATH".to_owned()).or_default();
    *path = absolute_path(path);
    if has_safe_imports {
        let (name, value) = PYTHON_SAFE_PATH;
        env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    let read = settings.read.iter().map(|path| workspace.join(path)).collect();
    let plan = Plan {
        isolation,
        streams,
        launcher: settings.launcher.clone(),
        argv,
        env,
        working_dir,
        workspace,
        writable: Writable::Nothing,
        read,
        write: Vec::new(),
        hidden,
        temporary: std::env::temp_dir(),
        private: PathBuf::new(),
        limits,
    };
    Ok((folder::with_access(plan, access, &settings.write), stdin))
}

/// What is granted for writing: of the workspace, and outside it.
fn granted(workspace: &Path, write: &[PathBuf]) -> (Writable, Vec<PathBuf>) {
    let joined = write.iter().map(|path| workspace.join(path)).map(|path| path.canonicalize().unwrap_or(path));
    let (inside, outside): (Vec<PathBuf>, Vec<PathBuf>) = joined.partition(|path| path.starts_with(workspace));
    if inside.iter().chain(&outside).any(|path| workspace.starts_with(path)) {
        return (Writable::Workspace, outside);
    }
    let beneath = inside.iter().filter_map(|path| path.strip_prefix(workspace).ok().map(Path::to_path_buf));
    let beneath: Vec<PathBuf> = beneath.collect();
    (if beneath.is_empty() { Writable::Nothing } else { Writable::Paths(beneath) }, outside)
}

/// The paths that lie in no other of them, in order: nothing can be masked in what is masked.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let sorted: std::collections::BTreeSet<PathBuf> = paths.collect();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in sorted {
        // Paths are ordered part by part, so that what lies in a folder follows right after it.
        if !outermost.last().is_some_and(|last| path.starts_with(last)) {
            outermost.push(path);
        }
    }
    outermost
}

fn not_started(message: impl Into<String>) -> Error {
    Error::new(Code::ProgramNotStarted, message)
}

/// The path without links as far as it exists, so that it is hidden by whichever name it is reached.
fn real(path: &Path) -> PathBuf {
    if path.is_symlink() {
        // The link itself is what is hidden; the launcher refuses it with a reason.
        let parent = path.parent().map(real);
        return parent.zip(path.file_name()).map_or_else(|| path.to_path_buf(), |(parent, name)| parent.join(name));
    }
    path.canonicalize().unwrap_or_else(|_| {
        let parent = path.parent().map(real);
        parent.zip(path.file_name()).map_or_else(|| path.to_path_buf(), |(parent, name)| parent.join(name))
    })
}

/// The folder `path` below the workspace. What happens to it between here and the start gains nobody anything: being
/// in a folder gives no right to what is in it.
fn beneath(workspace: &Path, hidden: &[PathBuf], path: &Path) -> Result<PathBuf, Error> {
    let shown = path.display();
    let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain {
        return Err(not_started(format!("the working folder {shown} is not below the workspace; give it without ..")));
    }
    let folder = workspace.join(path).canonicalize();
    let folder = folder.map_err(|error| not_started(format!("there is no working folder {shown}: {error}")))?;
    let is_hidden = hidden.iter().any(|hidden| folder.starts_with(hidden));
    if !folder.starts_with(workspace) || is_hidden || !folder.is_dir() {
        return Err(not_started(format!("{shown} is not a folder of the workspace that a program may work in")));
    }
    Ok(folder)
}

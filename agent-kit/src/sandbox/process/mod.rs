//! The sandbox around a program: what it may reach, how much it may use, and that nothing of it is left behind.
//!
//! A program is not started by this process but by the launcher, this same binary with a hidden verb ([`entered`]),
//! which confines itself and then becomes the program: no code of ours runs between a fork and an exec, and nothing of
//! this process is inherited. See [`launch`] for the stages.
//!
//! Laws:
//! - A program reads the folders of the system, the workspace and what was granted; it writes the workspace (or less,
//!   [`Access`]), what was granted and a private folder that is gone afterwards. What is hidden it neither reads,
//!   writes, replaces nor creates; what is read-only it neither writes, replaces nor creates. The workspace's `.git` is
//!   hidden always.
//! - Protected names ([`PROTECTED`](super::PROTECTED) unless the operator says otherwise), and folders that git takes for
//!   a repository, are held wherever below a granted folder they are when a program starts; see [`nested`]. What is
//!   missing is kept from being made right in each folder that is granted for writing, as far as the table says so.
//!   What is made deeper down is not prevented: it is told ([`Finished::made`]), and held from then on.
//! - Where the host itself replaces what is masked or held in a namespace, that falls off, and the program is ended
//!   within a moment (50 ms).
//! - What it starts and imports is not taken from the folder that it happens to start in: its `PATH` has no relative
//!   part, and Python is told so, unless the operator's variables or the command say otherwise.
//! - It has no socket but, where hosts were given to it ([`Processes::with_hosts`]), those that lead to a proxy of ours,
//!   and through that to these hosts. It has no privilege, no file but its three streams, and no variable but those that
//!   were allowed.
//! - When [`Processes::run`] returns, and at the latest two seconds after its future was dropped or this process was
//!   killed, no process of the tree is alive, whatever it did to detach itself.
//! - Its output is kept within a bound, and is cut in the middle with a mark.
//! - Where the kernel offers no such sandbox nothing is started, unless the operator switched the sandbox off. Then the
//!   environment and the limits still hold, and the tree still ends with its call unless a program detaches itself and
//!   kills what watches over it.
//! - Without a PID namespace (Landlock alone, or no sandbox) the command lines of other processes can be read.
//!
//! This module knows nothing of tools, roles or who asked.

mod apart;
mod folder;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod launch;
mod live;
mod nested;
mod output;
mod plan;
#[cfg(target_os = "linux")]
mod proxy;
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
pub use self_test::Sandbox;

use super::environment::{PYTHON_SAFE_PATH, absolute_path};
use super::http::Gate;
use super::names::Names;
use super::objects::names_of;
use super::protected::{Kept, Protection};
use crate::error::Error;
use crate::redact::Redactor;
use nested::{Nested, ProtectedPaths, Roots};
use output::Output;
use plan::{Plan, Streams, Writable};

/// What confines every program.
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
    /// Files and folders that are out of reach, whether they exist or not: the store, the operator's settings. Of a link
    /// what it leads to; one that lies where a program may write is refused when that is to start. The workspace's `.git`
    /// is out of reach without being named.
    pub hidden: Vec<PathBuf>,
    /// Files and folders that are not written, whether they exist or not, and read as far as granted. Links as in
    /// `hidden`.
    pub read_only: Vec<PathBuf>,
    /// Names and relative paths that are protected at any depth below what is granted, as in
    /// [`files::Access`](super::files::Access).
    pub protected: Vec<String>,
    /// Whether there is a sandbox; `false` only on the operator's word.
    pub sandbox: bool,
    /// What every program may use at most, whatever its call says.
    pub ceilings: Limits,
    /// The variables that programs see. `HOME` and `TMPDIR` are a private folder unless they are named here.
    pub env: BTreeMap<String, String>,
}

/// Starts programs in the sandbox. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    settings: Arc<ProcessSettings>,
    /// Chosen by the self-test at the first start, or given.
    sandbox: Arc<OnceCell<Sandbox>>,
    nested: Arc<Nested>,
    /// The hosts that programs may reach; `None` = they have no network.
    gate: Option<Arc<Gate>>,
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
    /// Protected names that were made or replaced while it ran, where that could not be prevented, and folders that were
    /// made repositories.
    pub made: Vec<PathBuf>,
}

/// A program that has ended, its two streams told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Every byte that it put out on stdout.
    pub stdout: Vec<u8>,
    /// What it put out on stderr, redacted, cut in the middle where that was much, and a line on protected names that it
    /// made.
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
            output_max_bytes: crate::bound::STORED_MAX_BYTES,
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
    /// The same kind of sandbox with other settings; it is tried once for both.
    #[must_use]
    pub fn with_settings(&self, settings: ProcessSettings) -> Self {
        let nested = Arc::new(Nested::new(&settings.protected));
        Self { settings: Arc::new(settings), sandbox: Arc::clone(&self.sandbox), nested, gate: None }
    }

    /// The same sandbox, through which programs reach the hosts of this gate by a proxy that their variables name
    /// (`HTTPS_PROXY` and its kin). It needs namespaces: without them nothing is started. With the sandbox off programs
    /// have the network anyway, and no proxy.
    #[must_use]
    pub fn with_hosts(self, gate: Gate) -> Self {
        Self { gate: Some(Arc::new(gate)), ..self }
    }

    /// A sandbox with these settings. Nothing is started yet.
    pub fn new(settings: ProcessSettings) -> Self {
        let nested = Arc::new(Nested::new(&settings.protected));
        Self { settings: Arc::new(settings), sandbox: Arc::default(), nested, gate: None }
    }

    /// The same with these layers, without a self-test: for tests of one kind of sandbox on a machine that has another.
    #[must_use]
    pub fn with_isolation(self, isolation: Isolation) -> Self {
        Self { sandbox: Arc::new(OnceCell::new_with(Some(Sandbox::assumed(isolation)))), ..self }
    }

    /// What the sandbox is made of here, tried out by a probe that attacks it from within. It is tried once.
    pub async fn self_test(&self) -> &Sandbox {
        self.sandbox.get_or_init(|| self_test::choose(&self.settings)).await
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// `SandboxMissing` when there is none here, `ProgramNotStarted`, and what ended it otherwise than by itself:
    /// `ProgramTimedOut`, `ProgramFlooded`, `ProgramMultiplied`. How it ended by itself is no error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the whole tree of processes.
    pub async fn run(&self, command: Command) -> Result<Finished, Error> {
        let (output, exit, made) = self.begin(command, Streams::Together).await?;
        let (output, left_out_bytes) = output.into_text();
        Ok(Finished { output, left_out_bytes, exit, made })
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
        let (output, exit, made) = self.begin(command, Streams::Apart).await?;
        let (stdout, mut stderr) = output.into_streams();
        stderr.extend(told(&made).map(|told| format!("\n{told}\n")));
        Ok(Answered { stdout, stderr, exit })
    }

    /// Starts a program that goes on until it ends or is ended, with its streams.
    ///
    /// # Errors
    /// `SandboxMissing` when there is none here, `ProgramNotStarted`. What goes wrong later is told by [`Running::ended`].
    ///
    /// # Cancel safety
    /// Dropping the future, or [`Live::running`], ends the whole tree of processes.
    pub async fn open(&self, command: Command) -> Result<Live, Error> {
        let Ready { isolation, found, kept, .. } = self.ready(&command.access).await?;
        let gate = self.gate(isolation)?;
        let (mut plan, _) = planned(&self.settings, isolation, found, &kept, command, Streams::Live)?;
        plan.has_proxy = gate.is_some();
        running::open(plan, gate).await
    }

    async fn begin(&self, command: Command, streams: Streams) -> Result<(Output, Exit, Vec<PathBuf>), Error> {
        let Ready { isolation, roots, found, kept } = self.ready(&command.access).await?;
        let gate = self.gate(isolation)?;
        let ended = start(&self.settings, isolation, found.clone(), &kept, command, streams, gate).await;
        if roots.write.is_empty() {
            return ended.map(|(output, exit, _)| (output, exit, Vec::new()));
        }
        let made = self.looked(move |nested| nested.made_since(&found, &roots)).await?;
        match ended {
            Ok((output, exit, _)) => Ok((output, exit, made)),
            Err(mut error) => {
                error.message.extend(told(&made).map(|told| format!("; {told}")));
                Err(error)
            }
        }
    }

    /// What a program behind these layers reaches hosts by; `None` = it has no proxy.
    fn gate(&self, isolation: Isolation) -> Result<Option<Arc<Gate>>, Error> {
        match &self.gate {
            Some(gate) if isolation.has_namespaces() => Ok(Some(Arc::clone(gate))),
            Some(_) if isolation == Isolation::Landlock => {
                let message = "a program can be given hosts only where it has a network of its own, and this system \
                               offers no namespaces; take `hosts` out of its sandbox, or install bubblewrap";
                Err(Error::new(Code::SandboxMissing, message))
            }
            _ => Ok(None),
        }
    }

    /// Looks at what the next program of this access is to be held to.
    async fn ready(&self, access: &Access) -> Result<Ready, Error> {
        undumpable();
        if !self.settings.sandbox {
            return Ok(Ready::default());
        }
        let sandbox = self.self_test().await;
        let isolation = sandbox.isolation.ok_or_else(|| sandbox.refusal())?;
        let roots = Arc::new(roots(&self.settings, access)?);
        let found = self.looked({
            let roots = Arc::clone(&roots);
            move |nested| nested.look(&roots)
        });
        let found = found.await??;
        let kept = kept(self.nested.names(), &self.settings, &roots, access);
        refuse_protected(self.nested.names(), &roots, access)?;
        Ok(Ready { isolation, roots, found, kept })
    }

    async fn looked<T: Send + 'static>(&self, look: impl FnOnce(&Nested) -> T + Send + 'static) -> Result<T, Error> {
        let nested = Arc::clone(&self.nested);
        let looked = tokio::task::spawn_blocking(move || look(&nested)).await;
        looked.map_err(|error| not_started(format!("the granted folders could not be looked through: {error}")))
    }
}

/// In a line, what is to be known of protected names that a program made.
pub(crate) fn told(made: &[PathBuf]) -> Option<String> {
    let first = made.first()?;
    let more = made.len().saturating_sub(1);
    let others = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!(
        "note: {}{others} was made or replaced, which other programs take commands from; a person should look at it, and \
         it is out of reach from now on",
        super::files::escaped(first)
    ))
}

/// Where a program of this access may write and read.
fn roots(settings: &ProcessSettings, access: &Access) -> Result<Roots, Error> {
    let workspace = settings.workspace.canonicalize();
    let workspace =
        workspace.map_err(|error| not_started(format!("the workspace {}: {error}", settings.workspace.display())))?;
    let resolved = |paths: &[PathBuf]| -> Vec<PathBuf> {
        outermost(paths.iter().filter_map(|path| workspace.join(path).canonicalize().ok()))
    };
    let write = match access {
        Access::Read => Vec::new(),
        // What is missing of them is made; what lies elsewhere is refused by the launcher, with a reason.
        Access::Paths(paths) => {
            let paths = paths.iter().map(|path| super::objects::real(&workspace.join(path)));
            outermost(paths.filter(|path| path.starts_with(&workspace)))
        }
        Access::Write | Access::Granted => resolved(&settings.write),
    };
    let others = if matches!(access, Access::Write | Access::Granted) { &[][..] } else { &settings.write };
    let read: Vec<PathBuf> = resolved(&settings.read).into_iter().chain(resolved(others)).collect();
    let elsewhere = read.into_iter().filter(|path| !path.starts_with(&workspace));
    Ok(Roots { read: outermost(elsewhere), workspace, write })
}

/// What the next program is held to. The default is that of no sandbox.
struct Ready {
    isolation: Isolation,
    roots: Arc<Roots>,
    /// What was found in the folders that it is granted.
    found: ProtectedPaths,
    /// What is kept from being made.
    kept: Vec<KeptName>,
}

impl Default for Ready {
    fn default() -> Self {
        Self { isolation: Isolation::Off, roots: Arc::default(), found: ProtectedPaths::default(), kept: Vec::new() }
    }
}

/// A name that is kept from being made, where it is missing.
struct KeptName {
    path: PathBuf,
    protection: Protection,
}

/// The protected names of each folder that may be written, and of the home if that lies in one.
fn kept(names: &Names, settings: &ProcessSettings, roots: &Roots, access: &Access) -> Vec<KeptName> {
    let home = settings.env.get("HOME").map(PathBuf::from).or_else(|| std::env::var_os("HOME").map(PathBuf::from));
    let home = home.and_then(|home| home.canonicalize().ok());
    let home = home.filter(|home| roots.write.iter().any(|root| home.starts_with(root)));
    // The folders that a declared tool writes are its own, and nobody starts there.
    let is_granted = |root: &&PathBuf| !matches!(access, Access::Paths(_)) || **root == roots.workspace;
    let granted: Vec<&PathBuf> =
        roots.write.iter().filter(is_granted).chain(&home).filter(|root| root.is_dir()).collect();
    let mut kept = Vec::new();
    for (path, pattern) in names.plain() {
        let (folders, path) = match pattern.kept {
            Kept::InFolders => (granted.clone(), Path::new(&path)),
            Kept::WithFolder => (granted.clone(), Path::new(&path).parent().unwrap_or(Path::new(&path))),
            Kept::InHome => (home.iter().collect(), Path::new(&path)),
            Kept::Nowhere => continue,
        };
        let protection = pattern.protection;
        kept.extend(folders.into_iter().map(|folder| KeptName { path: folder.join(path), protection }));
    }
    kept
}

/// Declared paths may come from a model.
fn refuse_protected(names: &Names, roots: &Roots, access: &Access) -> Result<(), Error> {
    let Access::Paths(paths) = access else { return Ok(()) };
    for path in paths {
        let real = super::objects::real(&roots.workspace.join(path));
        if names.protection(&real, roots.workspace.iter().count()).is_some() {
            let message = format!("{} cannot be written: its name is protected", path.display());
            return Err(not_started(message));
        }
    }
    Ok(())
}

/// Runs a program behind these layers, with `found` held as well, and `kept` kept from being made: what it put out, how
/// it ended, and the version of Landlock in force, as the launcher told it.
async fn start(
    settings: &ProcessSettings,
    isolation: Isolation,
    found: ProtectedPaths,
    kept: &[KeptName],
    command: Command,
    streams: Streams,
    gate: Option<Arc<Gate>>,
) -> Result<(Output, Exit, Option<u8>), Error> {
    let output = Output::new(streams, command.output_max_bytes, &command.redactor);
    let timeout = command.timeout;
    let (mut plan, stdin) = planned(settings, isolation, found, kept, command, streams)?;
    plan.has_proxy = gate.is_some();
    running::run(&plan, &stdin, timeout, output, gate).await
}

/// What the launcher is told, and what the program is to read.
fn planned(
    settings: &ProcessSettings,
    isolation: Isolation,
    found: ProtectedPaths,
    kept: &[KeptName],
    command: Command,
    streams: Streams,
) -> Result<(Plan, Vec<u8>), Error> {
    let failed = |error: std::io::Error| not_started(format!("the program could not be started: {error}"));
    let Command { argv, stdin, working_dir, env: extra, has_safe_imports, access, limits, .. } = command;
    if argv.first().is_none_or(String::is_empty) {
        return Err(not_started("there is no program to start: argv is empty"));
    }
    let workspace = settings.workspace.canonicalize().map_err(failed)?;
    let names =
        |paths: &[PathBuf]| -> Vec<PathBuf> { paths.iter().flat_map(|path| names_of(&workspace.join(path))).collect() };
    let closed = kept.iter().filter(|kept| kept.protection == Protection::Closed).map(|kept| kept.path.clone());
    let hidden = names(&settings.hidden).into_iter().chain([workspace.join(".git")]).chain(closed).chain(found.closed);
    let hidden = outermost(hidden);
    // A protected name that is a link is held where that leads; that it is made anew is told like any that is made.
    let not_written = kept.iter().filter(|kept| kept.protection == Protection::ReadOnly);
    let not_written = not_written.flat_map(|kept| names_of(&kept.path)).filter(|path| !path.is_symlink());
    let held = names(&settings.read_only).into_iter().chain(found.read_only).chain(not_written);
    // What exists is held. The place of what is missing is kept, and an empty folder may be what keeps it.
    let (held, missing): (Vec<PathBuf>, Vec<PathBuf>) = held.partition(|path| path.exists() && !is_empty(path));
    let is_seen = |path: &PathBuf| !hidden.iter().any(|hidden| path.starts_with(hidden));
    let read_only = outermost(held.into_iter().filter(is_seen));
    let is_free = |path: &PathBuf| is_seen(path) && !read_only.iter().any(|held| path.starts_with(held));
    let kept = outermost(missing.into_iter().filter(is_free));
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
    let limits = limits.at_most(&settings.ceilings);
    let plan = Plan {
        isolation,
        streams,
        has_proxy: false,
        launcher: settings.launcher.clone(),
        argv,
        env,
        working_dir,
        workspace,
        writable: Writable::Nothing,
        read,
        write: Vec::new(),
        hidden,
        read_only,
        kept,
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

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
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

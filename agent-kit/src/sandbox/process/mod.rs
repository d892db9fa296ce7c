//! Runs programs in a sandbox: limits what a program can access and use, and ends all of its processes.
//!
//! Programs are started by the launcher, which is this binary with a hidden verb ([`entered`]). It confines itself and
//! then executes the program: none of our code runs between a fork and an exec, and the program inherits nothing from
//! this process. See [`launch`] for the stages.
//!
//! Laws:
//! - A program reads the system's folders, the workspace and what was granted. It writes the workspace (or less,
//!   [`Access`]), what was granted, and a private folder that is deleted afterwards. Hidden paths cannot be read,
//!   written, replaced or created; read-only paths cannot be written, replaced or created. The workspace's `.git` is
//!   always hidden.
//! - Protected names ([`PROTECTED`](super::PROTECTED) by default) are protected directly in a granted folder and in the
//!   home folder, not deeper: existing ones are masked or bound read-only, and missing ones cannot be created, as far as
//!   the table says so.
//! - A mask holds what exists when the program starts. If another process replaces that path meanwhile, the program can
//!   access the new one.
//! - Programs and modules are not loaded from the working folder: `PATH` has no relative part and Python's safe path is
//!   set, unless the operator's variables or the command override it.
//! - A program has no network except, with [`Processes::with_hosts`], through our proxy to those hosts. It has no
//!   privileges, no open files except its three streams, and only the allowed variables.
//! - When [`Processes::run`] returns, and at most two seconds after its future was dropped or this process was killed,
//!   every process of the tree is dead, also if it detached itself.
//! - Output is bounded, and cut in the middle with a mark.
//! - If the kernel supports no such sandbox, nothing is started, unless the operator switched the sandbox off. Then the
//!   environment and the limits still apply, and the tree still ends with its call unless a program detaches itself and
//!   kills its supervisor.
//! - Without a PID namespace (Landlock alone, or no sandbox) the command lines of other processes can be read.
//!
//! This module knows nothing of tools, roles or callers.

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod launch;
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
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

pub use plan::{Exit, Isolation, Limits};
pub use self_test::Sandbox;

use super::environment::{PYTHON_SAFE_PATH, absolute_path};
use super::http::Gate;
use super::names::Names;
use super::objects::names_of;
use super::protected::{Kept, Protection};
use crate::error::Error;
use crate::pinned::Pinned;
use crate::redact::Redactor;
use output::Output;
use plan::Plan;

/// The maximum number of protected names that a program finds in its folders.
const PROTECTED_MAX: usize = 1_000;

#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// The binary whose `main` begins with [`entered`]: this one (`std::env::current_exe`). Empty if its does not:
    /// programs are then refused.
    pub launcher: PathBuf,
    pub workspace: PathBuf,
    /// Files and folders outside the workspace that programs may read and execute, such as a toolchain.
    pub read: Vec<PathBuf>,
    /// Files and folders that programs may write, relative to the workspace; `.` is all of it.
    pub write: Vec<PathBuf>,
    /// Files and folders that are inaccessible, whether or not they exist: the store, the operator's settings. A link
    /// is followed; a link in a writable place is refused at the start of a program. The workspace's `.git` is always
    /// hidden.
    pub hidden: Vec<PathBuf>,
    /// Files and folders that cannot be written, whether or not they exist. Links as in `hidden`.
    pub read_only: Vec<PathBuf>,
    /// Names and relative paths that are protected in granted folders, written as in
    /// [`files::Access`](super::files::Access).
    pub protected: Vec<String>,
    /// Whether the sandbox is on; only the operator switches it off.
    pub sandbox: bool,
    /// The maximum of every command's limits.
    pub ceilings: Limits,
    /// The variables of all programs. `HOME` and `TMPDIR` are a private folder unless set here.
    pub env: BTreeMap<String, String>,
}

/// Starts programs in the sandbox. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Processes {
    settings: Arc<ProcessSettings>,
    /// Chosen by the self-test at the first start, or set.
    sandbox: Arc<OnceCell<Sandbox>>,
    names: Arc<Names>,
    gate: Option<Arc<Gate>>,
}

/// The working folder of a program or a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkingDir {
    /// A private empty folder, deleted afterwards, so that no module, setting or command of a project is loaded from
    /// it.
    Private,
    /// Below the workspace.
    Folder(PathBuf),
}

impl WorkingDir {
    pub fn workspace() -> Self {
        Self::Folder(PathBuf::from("."))
    }
}

#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments. A name without a slash is searched in `PATH`.
    pub argv: Vec<String>,
    pub stdin: Vec<u8>,
    pub working_dir: WorkingDir,
    pub env: BTreeMap<String, String>,
    /// Whether Python does not import from the working folder or the folder of the script.
    pub has_safe_imports: bool,
    pub access: Access,
    pub timeout: Duration,
    pub output_max_bytes: usize,
    /// Redacts the output before it is cut.
    pub redactor: Redactor,
    pub limits: Limits,
    /// Files that are compared directly before it starts.
    pub pinned: Pinned,
}

/// What a program may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Read,
    /// Only these paths below the workspace. A missing one is created as a folder, with its parents, and is not
    /// removed.
    Paths(Vec<PathBuf>),
    /// The whole workspace and what was granted.
    Write,
    /// What was granted and nothing else: the rest of the workspace cannot even be read.
    Granted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The output of both streams in order of arrival, redacted.
    pub output: String,
    pub exit: Exit,
}

/// A program that has ended, with separate streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub stdout: Vec<u8>,
    /// stderr, redacted and cut in the middle.
    pub stderr: String,
    pub exit: Exit,
}

/// A program that keeps running and is talked to, until it ends or is ended.
pub struct Live {
    /// Its standard input, closed when dropped.
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
    /// Its standard error. It must be read, or the program blocks.
    pub stderr: Pin<Box<dyn AsyncRead + Send>>,
    /// Dropping it ends the program.
    pub running: Running,
}

#[derive(Debug)]
pub struct Running {
    stop: CancellationToken,
    /// How it ended, as soon as it has.
    ended: watch::Receiver<Option<Result<Exit, Error>>>,
}

impl Running {
    /// A handle, what it is told to end by, and where to say how the program ended.
    pub(crate) fn new() -> (Self, CancellationToken, watch::Sender<Option<Result<Exit, Error>>>) {
        let (stop, (over, ended)) = (CancellationToken::new(), watch::channel(None));
        (Self { stop: stop.clone(), ended }, stop, over)
    }

    /// Ends the program: closes its input, and kills the whole process tree if it is still alive after half a second.
    pub fn end(&self) {
        self.stop.cancel();
    }

    /// Waits until every process of it is dead and returns how it ended. The future does not borrow this handle.
    pub fn ended(&self) -> impl Future<Output = Result<Exit, Error>> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            ended.unwrap_or_else(|| Err(not_started("the supervisor of the program has ended")))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Command {
    /// A program with the default limits that may write the workspace.
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
            pinned: Pinned::default(),
        }
    }
}

/// If this process was started as the launcher: runs its stage and returns the exit code, or becomes the program and
/// never returns; `None` otherwise. Call it first in `main`, before any thread is started or file is opened.
pub fn entered() -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    return launch::entered();
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// Prevents other processes of this user from reading the memory and variables of this one, which contain the
/// operator's keys: from here on its files in `/proc` belong to root, and only root can trace it
/// (<https://man7.org/linux/man-pages/man2/PR_SET_DUMPABLE.2const.html>). Call it in `main` after [`entered`]; it is
/// called again before each program or server is started. It holds until this process executes another program and is
/// not inherited: a launcher has none of the keys. It does not protect against root.
pub fn undumpable() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};

        // The kernel accepts every known value.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

impl Processes {
    /// Lets programs connect to the hosts of `gate`, through a proxy named by their variables (`HTTPS_PROXY` etc.).
    /// This requires namespaces: without them nothing is started. With the sandbox off, programs have the network
    /// without a proxy.
    #[must_use]
    pub fn with_hosts(self, gate: Gate) -> Self {
        Self { gate: Some(Arc::new(gate)), ..self }
    }

    pub fn new(settings: ProcessSettings) -> Self {
        let names = Arc::new(Names::new(&settings.protected));
        let sandbox = self_test::of(&settings.launcher);
        Self { settings: Arc::new(settings), sandbox, names, gate: None }
    }

    /// Uses these layers without a self-test.
    #[must_use]
    pub fn with_isolation(self, isolation: Isolation) -> Self {
        let sandbox = Sandbox { isolation: Some(isolation), landlock: None, missing: Vec::new() };
        Self { sandbox: Arc::new(OnceCell::new_with(Some(sandbox))), ..self }
    }

    /// Finds the best sandbox of this machine with a probe that tries to escape. Runs once in a process.
    pub async fn self_test(&self) -> &Sandbox {
        self.sandbox.get_or_init(|| self_test::choose(&self.settings)).await
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// `SandboxMissing`, `ProgramNotStarted`, `ProgramTimedOut`, `ProgramFlooded`, `ProgramMultiplied`. A failing exit
    /// code is no error.
    ///
    /// # Cancel safety
    /// Dropping the future ends the process tree.
    pub async fn run(&self, command: Command) -> Result<Finished, Error> {
        let output = Output::together(command.output_max_bytes, &command.redactor);
        let (output, exit) = self.begin(command, output).await?;
        Ok(Finished { output: output.into_text(), exit })
    }

    /// Runs a program as [`Processes::run`] does, but its answer is its whole stdout: more than the command's
    /// `output_max_bytes` ends it.
    pub async fn ask(&self, command: Command) -> Result<Answered, Error> {
        let output = Output::apart(command.output_max_bytes, &command.redactor);
        let (output, exit) = self.begin(command, output).await?;
        let (stdout, stderr) = output.into_streams();
        Ok(Answered { stdout, stderr, exit })
    }

    /// Starts a program that runs until it ends or is ended.
    ///
    /// # Errors
    /// `SandboxMissing`, `ProgramNotStarted`. Later errors are returned by [`Running::ended`].
    ///
    /// # Cancel safety
    /// Dropping the future, or [`Live::running`], ends the process tree.
    pub async fn open(&self, command: Command) -> Result<Live, Error> {
        let (plan, _, gate) = self.ready(command).await?;
        running::open(&plan, gate)
    }

    async fn begin(&self, command: Command, output: Output) -> Result<(Output, Exit), Error> {
        let timeout = command.timeout;
        let (plan, stdin, gate) = self.ready(command).await?;
        running::run(&plan, &stdin, timeout, output, gate).await
    }

    /// The plan and the standard input of a program that may be started, and the gate of its proxy.
    async fn ready(&self, command: Command) -> Result<(Plan, Vec<u8>, Option<Arc<Gate>>), Error> {
        undumpable();
        if self.settings.launcher.as_os_str().is_empty() {
            let message = "programs are started by a second copy of this program, which does not begin as their launcher: \
                           its `main` has to call `rondo::launcher()` first";
            return Err(Error::new(Code::SandboxMissing, message));
        }
        let isolation = if self.settings.sandbox {
            let sandbox = self.self_test().await;
            sandbox.isolation.ok_or_else(|| sandbox.refusal())?
        } else {
            Isolation::Off
        };
        if isolation == Isolation::Landlock && self.gate.is_some() {
            let message = "a program can be given hosts only where it has a network of its own, and this system \
                           offers no namespaces; take `hosts` out of its sandbox, or install bubblewrap";
            return Err(Error::new(Code::SandboxMissing, message));
        }
        command.pinned.check()?;
        let gate = self.gate.clone().filter(|_| isolation.has_namespaces());
        let (plan, stdin) = planned(&self.settings, &self.names, isolation, command, gate.is_some())?;
        Ok((plan, stdin, gate))
    }
}

/// The granted folders of one program, without links.
struct Roots {
    workspace: PathBuf,
    write: Vec<PathBuf>,
    /// The readable ones outside the workspace.
    read: Vec<PathBuf>,
}

/// The folders that a program with this access may write and read.
fn roots(settings: &ProcessSettings, access: &Access) -> Result<Roots, Error> {
    let workspace = settings.workspace.canonicalize();
    let workspace =
        workspace.map_err(|error| not_started(format!("the workspace {}: {error}", settings.workspace.display())))?;
    let resolved = |paths: &[PathBuf]| -> Vec<PathBuf> {
        outermost(paths.iter().filter_map(|path| workspace.join(path).canonicalize().ok()))
    };
    let write = match access {
        Access::Read => Vec::new(),
        // Missing ones are created; the launcher refuses those outside the workspace.
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

/// The protected paths in each granted folder, and in the home folder if it is writable, and the missing ones that cannot
/// be created.
fn protected(
    names: &Names,
    settings: &ProcessSettings,
    roots: &Roots,
    access: &Access,
) -> Result<Vec<(PathBuf, Protection)>, Error> {
    // Declared paths may come from a model.
    let declared = if let Access::Paths(paths) = access { paths.as_slice() } else { &[] };
    for path in declared {
        let real = super::objects::real(&roots.workspace.join(path));
        if names.protection(&real, roots.workspace.iter().count()).is_some() {
            return Err(not_started(format!("{} cannot be written: its name is protected", path.display())));
        }
    }
    let home = settings.env.get("HOME").map(PathBuf::from).or_else(|| std::env::var_os("HOME").map(PathBuf::from));
    let home = home.and_then(|home| home.canonicalize().ok());
    let home = home.filter(|home| roots.write.iter().any(|root| home.starts_with(root)));
    // Of what is only read, closed names matter, and an empty folder has nothing to read.
    let read = [&roots.workspace].into_iter().chain(&roots.read).flat_map(|root| names.found_in(root));
    let mut protected: Vec<_> =
        read.filter(|(path, protection)| *protection == Protection::Closed && !is_empty(path)).collect();
    protected.extend(roots.write.iter().chain(&home).flat_map(|root| names.found_in(root)));
    if protected.len() > PROTECTED_MAX {
        let message = format!(
            "the granted folders hold {} protected names such as .git and .github, more than the {PROTECTED_MAX} that can \
             be held; grant less, or shorten the list of protected names",
            protected.len()
        );
        return Err(not_started(message));
    }
    // No other program starts in the folders of a declared tool.
    let is_granted = |root: &&PathBuf| !matches!(access, Access::Paths(_)) || **root == roots.workspace;
    let granted: Vec<&PathBuf> =
        roots.write.iter().filter(is_granted).chain(&home).filter(|root| root.is_dir()).collect();
    for (path, pattern) in names.plain() {
        let (folders, path) = match pattern.kept {
            Kept::InFolders => (granted.clone(), Path::new(&path)),
            Kept::WithFolder => (granted.clone(), Path::new(&path).parent().unwrap_or(Path::new(&path))),
            Kept::InHome => (home.iter().collect(), Path::new(&path)),
            Kept::Nowhere => continue,
        };
        protected.extend(folders.into_iter().map(|folder| (folder.join(path), pattern.protection)));
    }
    Ok(protected)
}

/// The plan for the launcher, and the standard input of the program.
fn planned(
    settings: &ProcessSettings,
    names: &Names,
    isolation: Isolation,
    command: Command,
    has_proxy: bool,
) -> Result<(Plan, Vec<u8>), Error> {
    let Command { argv, stdin, working_dir, env: extra, has_safe_imports, access, limits, .. } = command;
    if argv.first().is_none_or(String::is_empty) {
        return Err(not_started("there is no program to start: argv is empty"));
    }
    let roots = roots(settings, &access)?;
    let protected = match isolation {
        Isolation::Off => Vec::new(),
        _ => protected(names, settings, &roots, &access)?,
    };
    let workspace = roots.workspace;
    let all_names =
        |paths: &[PathBuf]| -> Vec<PathBuf> { paths.iter().flat_map(|path| names_of(&workspace.join(path))).collect() };
    let of = |wanted| protected.iter().filter(move |(_, protection)| *protection == wanted).map(|(path, _)| path);
    let hidden = all_names(&settings.hidden).into_iter().chain([workspace.join(".git")]);
    let hidden = outermost(hidden.chain(of(Protection::Closed).cloned()));
    // Of a link, the target is protected.
    let not_written = of(Protection::ReadOnly).flat_map(|path| names_of(path)).filter(|path| !path.is_symlink());
    let held = all_names(&settings.read_only).into_iter().chain(not_written);
    // Existing paths are held. A missing path is reserved, possibly by an empty folder.
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
    let mut plan = Plan {
        isolation,
        has_proxy,
        launcher: settings.launcher.clone(),
        argv,
        env,
        working_dir,
        read: settings.read.iter().map(|path| workspace.join(path)).collect(),
        write: settings.write.iter().map(|path| canonical(workspace.join(path))).collect(),
        declared: Vec::new(),
        workspace,
        hidden,
        read_only,
        kept,
        temporary: std::env::temp_dir(),
        private: PathBuf::new(),
        limits: limits.at_most(&settings.ceilings),
    };
    let lies_in = |path: &PathBuf, roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
    match access {
        Access::Read => plan.write.clear(),
        Access::Paths(paths) => (plan.write, plan.declared) = (Vec::new(), paths),
        Access::Write => {
            let is_whole = lies_in(&plan.workspace, &plan.write);
            let beneath = |path: &PathBuf| path.strip_prefix(&plan.workspace).ok().map(Path::to_path_buf);
            let declared = plan.write.iter().filter_map(beneath).collect();
            plan.write.retain(|path| !path.starts_with(&plan.workspace));
            if is_whole {
                plan.write.push(plan.workspace.clone());
            } else {
                plan.declared = declared;
            }
        }
        Access::Granted => {
            plan.workspace = PathBuf::new();
            let granted: Vec<PathBuf> = plan.read.iter().cloned().map(canonical).collect();
            // A missing path is reserved for the whole run of a server, so only where this program could create it.
            plan.hidden.retain(|path| lies_in(path, &plan.write) || (path.exists() && lies_in(path, &granted)));
            plan.read_only.retain(|path| lies_in(path, &plan.write));
            plan.kept.retain(|path| lies_in(path, &plan.write));
        }
    }
    Ok((plan, stdin))
}

fn canonical(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

/// Removes paths inside others, because a mask can contain no other mask.
fn outermost(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let sorted: std::collections::BTreeSet<PathBuf> = paths.collect();
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in sorted {
        // Paths sort by components, so the contents of a folder follow it directly.
        if !outermost.last().is_some_and(|last| path.starts_with(last)) {
            outermost.push(path);
        }
    }
    outermost
}

fn not_started(message: impl Into<String>) -> Error {
    Error::new(Code::ProgramNotStarted, message)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err calls")]
fn failed(error: std::io::Error) -> Error {
    not_started(format!("the program could not be started: {error}"))
}

fn timed_out(time: Duration, kept: Output) -> Error {
    let message = format!("the program was still running after {} s and was ended", time.as_secs_f64());
    Error::new(Code::ProgramTimedOut, message).with_output(kept.into_text())
}

fn flooded(plan: &Plan, kept: Output) -> Error {
    let most = kept.most_bytes(plan.limits.output_bytes);
    let message = format!("the program put out more than {most} bytes and was ended; make it say less");
    Error::new(Code::ProgramFlooded, message).with_output(kept.into_text())
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// The folder `path` below the workspace. Replacing it before the start gains nothing: a working folder grants no
/// access to its contents.
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

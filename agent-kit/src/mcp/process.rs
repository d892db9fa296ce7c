//! The process of a server that uses its standard input and output: our child, or a program in a sandbox.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::settings::ServerProgram;
use super::supervisor;
use crate::bound;
use crate::sandbox::environment::{PYTHON_SAFE_PATH, absolute_path};
use crate::sandbox::private;
use crate::sandbox::process::{self, Access, Exit, Limits, Live, Processes, Running, WorkingDir};
use crate::tool::Error;

/// The variables that every server inherits. None of them names code that an interpreter loads before or beside its
/// program, as `NODE_PATH`, `PYTHONPATH`, `BASH_ENV`, `LD_PRELOAD` and `GIT_EXTERNAL_DIFF` do.
const ENVIRONMENT: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER"];
const TAIL_BYTES: usize = 4 << 10;
/// How many of its lines are shown.
const TAIL_LINES: usize = 5;
/// How long a server may take to end on request.
pub const GRACE: Duration = Duration::from_secs(1);
/// The additional time for its supervisor.
const SUPERVISOR_GRACE: Duration = Duration::from_millis(700);
/// How long to wait for the end of a server and of its standard error. One in a sandbox ends in several stages.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The processor time of a server in a sandbox: it lives as long as its run.
const CPU: Duration = Duration::from_hours(24);

/// A running server. Dropping it ends everything that it started.
#[derive(Debug)]
pub struct Process {
    running: Running,
    tail: Tail,
}

pub type Output = Pin<Box<dyn AsyncRead + Send>>;
pub type Input = Pin<Box<dyn AsyncWrite + Send>>;

impl Process {
    pub async fn start(program: &ServerProgram) -> Result<(Self, Output, Input), Error> {
        let Live { stdin, stdout, stderr, running } = match &program.sandbox {
            Some(sandbox) => sandboxed(program, sandbox).await?,
            None => unconfined(program).map_err(|error| {
                let mut why = error.to_string();
                let is_relative = program.command.contains('/') && !program.command.starts_with('/');
                if is_relative && program.working_dir == WorkingDir::Private {
                    why.push_str(
                        "; it starts in an empty folder of its own, so write the whole path, or cwd = \"workspace\"",
                    );
                }
                Error::new(Code::McpStart, why)
            })?,
        };
        let process = Self { running, tail: Tail::default() };
        tokio::spawn(process.tail.clone().read(stderr));
        Ok((process, stdout, stdin))
    }

    /// How it ended, if it did, and the last lines of its standard error, in words that complete "the server ...".
    pub async fn last_words(&self) -> String {
        let ended = async {
            self.tail.ended.cancelled().await;
            self.running.ended().await
        };
        let words = match tokio::time::timeout(LAST_WORDS, ended).await {
            Ok(Ok(Exit::Code(code))) => format!("ended with exit code {code}"),
            Ok(Ok(Exit::Signal(signal))) => format!("was ended by signal {signal}"),
            Ok(Err(error)) => format!("was ended: {}", error.message),
            Err(_) => "closed its output".to_owned(),
        };
        words + &self.wrote()
    }

    /// The last lines of its standard error so far, as the end of a sentence.
    pub fn wrote(&self) -> String {
        let lines = self.tail.lines();
        if lines.is_empty() { lines } else { format!("; it last wrote: {lines}") }
    }

    /// Ends it and everything that it started. The future waits until that is done.
    pub fn end(&self) -> impl Future<Output = Result<Exit, Error>> + Send + use<> {
        self.running.end();
        self.running.ended()
    }
}

async fn sandboxed(program: &ServerProgram, sandbox: &Processes) -> Result<Live, Error> {
    let argv = [&program.command].into_iter().chain(&program.args).cloned();
    let ours = ENVIRONMENT.iter().filter(|name| **name != "HOME");
    let ours = ours.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let stated = program.env.iter().map(|variable| (variable.name.clone(), variable.value.clone()));
    let command = process::Command {
        env: ours.chain(stated).collect::<BTreeMap<_, _>>(),
        working_dir: program.working_dir.clone(),
        access: Access::Granted,
        limits: Limits { cpu: CPU, output_bytes: u64::MAX, ..Limits::default() },
        ..process::Command::new(argv.collect())
    };
    sandbox.open(command).await
}

/// Starts a server as our child, which leads a process group.
fn unconfined(program: &ServerProgram) -> io::Result<Live> {
    process::undumpable();
    let folder = private::make(&std::env::temp_dir())?;
    let mut child = match command(program, &folder).spawn() {
        Ok(child) => child,
        Err(error) => {
            private::remove(&folder);
            return Err(error);
        }
    };
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (running, stop, over) = Running::new();
    let group = Group { child, pid, private: Some(folder), has_supervisor: program.launcher.is_some() };
    tokio::spawn(async move {
        let exit = group.until_ended(&stop).await;
        over.send_replace(Some(exit.map_err(|error| Error::new(Code::McpEnded, error.to_string()))));
    });
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(io::Error::other("a pipe is missing"));
    };
    Ok(Live { stdin: Box::pin(stdin), stdout: Box::pin(stdout), stderr: Box::pin(stderr), running })
}

struct Group {
    child: Child,
    pid: Option<Pid>,
    /// Until it is ended.
    private: Option<PathBuf>,
    has_supervisor: bool,
}

impl Group {
    /// Waits until the server ends. When it is to end, sends SIGTERM, and SIGKILL to what is left after a second; a
    /// supervisor does the same to the group that it watches.
    async fn until_ended(mut self, stop: &CancellationToken) -> io::Result<Exit> {
        let grace = if self.has_supervisor { GRACE + SUPERVISOR_GRACE } else { GRACE };
        let ended = tokio::select! {
            status = self.child.wait() => Some(status),
            () = stop.cancelled() => {
                self.send(Signal::TERM);
                tokio::time::timeout(grace, self.child.wait()).await.ok()
            }
        };
        self.send(Signal::KILL);
        let status = match ended {
            Some(status) => status,
            None => self.child.wait().await,
        };
        if let Some(folder) = self.private.take() {
            let _ = tokio::task::spawn_blocking(move || private::remove(&folder)).await;
        }
        status.map(Exit::from)
    }

    fn send(&self, signal: Signal) {
        let _ = self.pid.map(|pid| kill_process_group(pid, signal));
    }
}

/// Ends what is left when the runtime goes. A supervisor takes its time and clears up.
impl Drop for Group {
    fn drop(&mut self) {
        match self.private.take() {
            Some(_) if self.has_supervisor => self.send(Signal::TERM),
            Some(folder) => {
                self.send(Signal::KILL);
                private::remove(&folder);
            }
            None => {}
        }
    }
}

fn command(program: &ServerProgram, private: &Path) -> Command {
    let mut command = match &program.launcher {
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.arg(supervisor::VERB).arg(std::process::id().to_string()).arg(private).arg(&program.command);
            command
        }
        None => Command::new(&program.command),
    };
    let ours = ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(&program.args)
        .env_clear()
        .envs(ours)
        .env("PATH", absolute_path(&path))
        .env("TMPDIR", private)
        .envs([PYTHON_SAFE_PATH])
        .envs(program.env.iter().map(|variable| (&variable.name, &variable.value)))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(match &program.working_dir {
            WorkingDir::Private => private,
            WorkingDir::Folder(folder) => folder,
        });
    command
}

/// The end of a server's standard error.
#[derive(Debug, Clone, Default)]
struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// Cancelled when the output has ended.
    ended: CancellationToken,
}

impl Tail {
    async fn read(self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; TAIL_BYTES];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.extend(buffer.get(..read).unwrap_or_default());
            let surplus = bytes.len().saturating_sub(TAIL_BYTES);
            bytes.drain(..surplus);
        }
        self.ended.cancel();
    }

    fn lines(&self) -> String {
        let bytes: Vec<u8> = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<String> = text.lines().map(|line| bound::line(line, 200)).collect();
        lines.retain(|line| !line.is_empty());
        lines.split_off(lines.len().saturating_sub(TAIL_LINES)).join(" | ")
    }
}

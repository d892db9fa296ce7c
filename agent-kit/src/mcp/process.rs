//! The process of a server that uses its standard input and output: our child, or a program in a sandbox.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::supervisor;
use crate::bound;
use crate::redact::Secret;
use crate::sandbox::environment::{PYTHON_SAFE_PATH, absolute_path};
use crate::sandbox::private::Private;
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
/// The interval at which its end is polled.
const GRACE_STEP: Duration = Duration::from_millis(10);
/// How long to wait for the standard error of a server that has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// The same for a server in a sandbox, which ends in several stages.
const WALLED_LAST_WORDS: Duration = Duration::from_secs(2);
/// The processor time of a server in a sandbox: it lives as long as its run.
const CPU: Duration = Duration::from_hours(24);

/// The program to start, as in [`super::Transport::Stdio`].
pub struct Program<'a> {
    pub command: &'a str,
    pub args: &'a [String],
    pub env: &'a [Secret],
    pub working_dir: &'a WorkingDir,
    pub sandbox: Option<&'a Processes>,
    pub launcher: Option<&'a Path>,
}

/// A running server. Dropping it ends everything that it started.
#[derive(Debug)]
pub struct Process {
    kind: Kind,
    tail: Tail,
}

#[derive(Debug)]
enum Kind {
    /// Our child, which leads a process group.
    Group(Group),
    /// A program in a sandbox, which ends it.
    Sandboxed(Running),
}

#[derive(Debug)]
struct Group {
    /// Not reaped before the group is dead: until then its id names this group and no other.
    child: Mutex<Option<(Child, Private)>>,
    pid: Option<Pid>,
    /// How long it may take to end.
    grace: Duration,
}

pub type Output = Pin<Box<dyn AsyncRead + Send>>;
pub type Input = Pin<Box<dyn AsyncWrite + Send>>;

impl Process {
    pub async fn start(program: &Program<'_>) -> Result<(Self, Output, Input), Error> {
        match program.sandbox {
            Some(sandbox) => Self::sandboxed(program, sandbox).await,
            None => Self::group(program).map_err(|error| {
                let mut why = error.to_string();
                let is_relative = program.command.contains('/') && !program.command.starts_with('/');
                if is_relative && *program.working_dir == WorkingDir::Private {
                    why.push_str(
                        "; it starts in an empty folder of its own, so write the whole path, or cwd = \"workspace\"",
                    );
                }
                Error::new(Code::McpStart, why)
            }),
        }
    }

    fn group(program: &Program<'_>) -> io::Result<(Self, Output, Input)> {
        process::undumpable();
        let private = Private::make(&std::env::temp_dir())?;
        let mut child = match command(program, private.path()).spawn() {
            Ok(child) => child,
            Err(error) => {
                private.remove();
                return Err(error);
            }
        };
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (tail, child) = (Tail::default(), Mutex::new(Some((child, private))));
        // From here on, dropping it ends the program.
        let grace = if program.launcher.is_some() { GRACE + SUPERVISOR_GRACE } else { GRACE };
        let process = Self { kind: Kind::Group(Group { child, pid, grace }), tail };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a pipe is missing"));
        };
        tokio::spawn(process.tail.clone().read(ChildStderr::from_std(stderr)?));
        Ok((process, Box::pin(ChildStdout::from_std(stdout)?), Box::pin(ChildStdin::from_std(stdin)?)))
    }

    async fn sandboxed(program: &Program<'_>, sandbox: &Processes) -> Result<(Self, Output, Input), Error> {
        let argv = [program.command].into_iter().map(str::to_owned).chain(program.args.iter().cloned());
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
        let Live { stdin, stdout, stderr, running } = sandbox.open(command).await?;
        let process = Self { kind: Kind::Sandboxed(running), tail: Tail::default() };
        tokio::spawn(process.tail.clone().read(stderr));
        Ok((process, stdout, stdin))
    }

    /// How it ended, if it did, and the last lines of its standard error, in words that complete "the server ...".
    pub async fn last_words(&self) -> String {
        let mut words = match &self.kind {
            Kind::Group(group) => {
                let exited = async {
                    self.tail.ended.cancelled().await;
                    while group.pid.and_then(exit).is_none() {
                        tokio::time::sleep(GRACE_STEP).await;
                    }
                };
                let _ = tokio::time::timeout(LAST_WORDS, exited).await;
                group.pid.and_then(exit).map(exit_words)
            }
            Kind::Sandboxed(running) => {
                let ended = async {
                    self.tail.ended.cancelled().await;
                    running.ended().await
                };
                match tokio::time::timeout(WALLED_LAST_WORDS, ended).await {
                    Ok(Ok(exit)) => Some(exit_words(exit)),
                    Ok(Err(error)) => Some(format!("was ended: {}", error.message)),
                    Err(_) => None,
                }
            }
        }
        .unwrap_or_else(|| "closed its output".to_owned());
        words.push_str(&self.wrote());
        words
    }

    /// The last lines of its standard error so far, as the end of a sentence.
    pub fn wrote(&self) -> String {
        let lines = self.tail.lines();
        if lines.is_empty() { lines } else { format!("; it last wrote: {lines}") }
    }

    /// Ends it and everything that it started. The receiver is notified when that is done.
    pub fn end(&self) -> oneshot::Receiver<()> {
        match &self.kind {
            Kind::Group(group) => group.end(),
            Kind::Sandboxed(running) => {
                let (over, told) = oneshot::channel();
                running.end();
                let ended = running.ended();
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        let _ = ended.await;
                        let _ = over.send(());
                    });
                }
                told
            }
        }
    }
}

impl Group {
    /// Sends SIGTERM, and SIGKILL to what is left after a second. A supervisor does the same to the group that it
    /// watches.
    fn end(&self) -> oneshot::Receiver<()> {
        let (over, told) = oneshot::channel();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        let grace = self.grace;
        if let (Some((mut child, private)), Some(pid)) = (child, self.pid) {
            let _ = rustix::process::kill_process_group(pid, Signal::TERM);
            // A thread, because there may be no runtime any longer.
            let ending = std::thread::Builder::new().name("mcp-end".to_owned()).spawn(move || {
                let began = Instant::now();
                while exit(pid).is_none() && began.elapsed() < grace {
                    std::thread::sleep(GRACE_STEP);
                }
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                let _ = child.wait();
                private.remove();
                let _ = over.send(());
            });
            if ending.is_err() {
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            }
        }
        told
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.end());
    }
}

fn command(program: &Program<'_>, private: &Path) -> Command {
    let mut command = match program.launcher {
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.arg(supervisor::VERB).arg(std::process::id().to_string()).arg(private).arg(program.command);
            command
        }
        None => Command::new(program.command),
    };
    let ours = ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let path = std::env::var("PATH").unwrap_or_default();
    command
        .args(program.args)
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
        .current_dir(match program.working_dir {
            WorkingDir::Private => private,
            WorkingDir::Folder(folder) => folder,
        });
    command
}

fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
    }
}

/// How a child ended, without reaping it.
fn exit(pid: Pid) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(pid), options).ok().flatten()?;
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
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

//! The process of a server that speaks on its standard input and output.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::supervisor;
use crate::redact::Secret;
use crate::tool::bound;

/// The variables of ours that every server sees.
const ENVIRONMENT: [&str; 7] = ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER"];
/// How much of the end of its standard error is kept.
const TAIL_BYTES: usize = 4 << 10;
/// How much of it is shown.
const TAIL_LINES: usize = 5;
/// How long a server may take to end when it is told to.
pub const GRACE: Duration = Duration::from_secs(1);
/// How much longer its supervisor may take.
const SUPERVISOR_GRACE: Duration = Duration::from_millis(700);
/// How often it is looked whether it has.
const GRACE_STEP: Duration = Duration::from_millis(10);
/// How long the last words of a server that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What is started, as in [`super::Transport::Stdio`].
pub struct Program<'a> {
    pub command: &'a str,
    pub args: &'a [String],
    pub env: &'a [Secret],
    pub working_dir: Option<&'a Path>,
    pub launcher: Option<&'a Path>,
}

/// A running server. It leads a process group of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    /// Not waited for before its group is dead: until then its id names this group and no other.
    child: Mutex<Option<Child>>,
    pid: Option<Pid>,
    /// How long it may take to end.
    grace: Duration,
    tail: Tail,
}

impl Process {
    /// Starts it, with its ends of the two pipes.
    pub fn start(program: &Program<'_>) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut child = command(program).spawn()?;
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (tail, child) = (Tail::default(), Mutex::new(Some(child)));
        // From here on a drop ends it.
        let grace = if program.launcher.is_some() { GRACE + SUPERVISOR_GRACE } else { GRACE };
        let process = Self { child, pid, grace, tail };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a pipe is missing"));
        };
        tokio::spawn(process.tail.clone().read(ChildStderr::from_std(stderr)?));
        Ok((process, ChildStdout::from_std(stdout)?, ChildStdin::from_std(stdin)?))
    }

    /// How it ended, if it did, and the last lines of its standard error, in words that complete "the server ...".
    pub async fn last_words(&self) -> String {
        let exited = async {
            self.tail.ended.cancelled().await;
            while self.pid.and_then(exit).is_none() {
                tokio::time::sleep(GRACE_STEP).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, exited).await;
        let mut words = match self.pid.and_then(exit) {
            Some(Exit::Code(code)) => format!("ended with exit code {code}"),
            Some(Exit::Signal(signal)) => format!("was ended by signal {signal}"),
            None => "closed its output".to_owned(),
        };
        words.push_str(&self.wrote());
        words
    }

    /// The last lines of its standard error so far, as the end of a sentence.
    pub fn wrote(&self) -> String {
        let lines = self.tail.lines();
        if lines.is_empty() { lines } else { format!("; it last wrote: {lines}") }
    }

    /// Ends it and everything in its group: SIGTERM, and SIGKILL for what is left after a second. A supervisor does the
    /// same to the group that it watches. The receiver is told
    /// when all is over.
    pub fn end(&self) -> oneshot::Receiver<()> {
        let (over, told) = oneshot::channel();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        let grace = self.grace;
        if let (Some(mut child), Some(pid)) = (child, self.pid) {
            let _ = rustix::process::kill_process_group(pid, Signal::TERM);
            // A thread, because there may be no runtime any longer.
            let ending = std::thread::Builder::new().name("mcp-end".to_owned()).spawn(move || {
                let began = Instant::now();
                while exit(pid).is_none() && began.elapsed() < grace {
                    std::thread::sleep(GRACE_STEP);
                }
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                let _ = child.wait();
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

fn command(program: &Program<'_>) -> Command {
    let mut command = match program.launcher {
        Some(launcher) => {
            let mut command = Command::new(launcher);
            command.arg(supervisor::VERB).arg(std::process::id().to_string()).arg(program.command);
            command
        }
        None => Command::new(program.command),
    };
    let ours = ENVIRONMENT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    command
        .args(program.args)
        .env_clear()
        .envs(ours)
        .envs(program.env.iter().map(|variable| (&variable.name, &variable.value)))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(working_dir) = program.working_dir {
        command.current_dir(working_dir);
    }
    command
}

enum Exit {
    Code(i32),
    Signal(i32),
}

/// How a child ended, without taking its id from it.
fn exit(pid: Pid) -> Option<Exit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(pid), options).ok().flatten()?;
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}

/// The end of what a server wrote to its standard error.
#[derive(Debug, Clone, Default)]
struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// Nothing more will come.
    ended: CancellationToken,
}

impl Tail {
    async fn read(self, mut stderr: ChildStderr) {
        let mut buffer = vec![0; TAIL_BYTES];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.extend(buffer.get(..read).unwrap_or_default());
            let surplus = bytes.len().saturating_sub(TAIL_BYTES);
            bytes.drain(..surplus);
        }
        self.ended.cancel();
    }

    /// The last lines, in one.
    fn lines(&self) -> String {
        let bytes: Vec<u8> = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<String> = text.lines().map(|line| bound::line(line, 200)).collect();
        lines.retain(|line| !line.is_empty());
        lines.split_off(lines.len().saturating_sub(TAIL_LINES)).join(" | ")
    }
}

//! The real binary as a child process, seen from outside: what it writes, how it ends, and within what time.
//!
//! Laws: a child has an environment of its own and a folder of its own; each wait has an end, after which the child is
//! killed and the test fails; no child outlives its test; whatever a child was given, it never says that it panicked.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long any child may take. Machines under load are slow; what must be fast is measured by its own test.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The binary, which stands beside the tests' own folder.
pub fn binary() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("rondo");
    assert!(path.is_file(), "{} is missing: build the whole workspace first", path.display());
    path
}

/// A file or folder of the fixtures.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    path.to_str().unwrap().to_owned()
}

/// A folder of its own, with a store in it, and beside it the home of its user.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A new folder; in memory where the system has such a place, because a test of what a killed process left does not
    /// need a device.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        for part in ["work", "home"] {
            std::fs::create_dir(folder.path().join(part)).unwrap();
        }
        Self { folder }
    }

    /// The folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The home of whoever runs a command.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Writes the project's settings, and agrees to them.
    pub fn settings(&self, text: impl AsRef<[u8]>) {
        self.file("rondo.toml", text);
        self.trust(&[]);
    }

    /// Agrees to what the settings ask for, and the workflow that `words` name.
    #[track_caller]
    pub fn trust(&self, words: &[&str]) {
        let shown = self.run([&["trust", "--json"], words].concat());
        let digest = shown.event("trust")["digest"].as_str().unwrap().to_owned();
        self.run([&["trust", "--yes", &digest], words].concat()).exits(0);
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.path().join(".rondo")
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The command, not yet started.
    pub fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new(binary());
        command.args(words).current_dir(self.path()).env_clear().env("HOME", self.home());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a command.
    pub fn start<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Running {
        Running::of(self.command(words))
    }

    /// Runs a command to its end.
    pub fn run<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Finished {
        self.start(words).finish()
    }
}

/// A child that runs.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
    told: Option<JoinHandle<String>>,
    since: Instant,
}

impl Running {
    /// Starts `command`, whose stdout and stderr are pipes.
    pub fn of(mut command: Command) -> Self {
        Self::child(command.spawn().unwrap())
    }

    /// A child whose stdout and stderr are pipes.
    pub fn child(mut child: Child) -> Self {
        let (sender, lines) = channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n') {
                let Ok(line) = line else { break };
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let told = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { child, lines, heard: Vec::new(), told: Some(told), since: Instant::now() }
    }

    /// The child's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line of stdout until `end`. `None` when there is none by then, or none will follow.
    pub fn line_until(&mut self, end: Instant) -> Option<&str> {
        let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
        self.heard.push(line);
        self.heard.last().map(String::as_str)
    }

    /// Waits for the next line of stdout.
    pub fn line(&mut self) -> Option<&str> {
        self.line_until(self.since + PATIENCE)
    }

    /// Waits for an event of that name and gives it.
    pub fn event(&mut self, name: &str) -> Value {
        while let Some(line) = self.line() {
            let event = json(line);
            if event["event"] == name {
                return event;
            }
        }
        panic!("no event {name:?} came; {:?}", self.stop());
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // A child that has ended and was not waited for yet takes it without a word.
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it and gives what it had written.
    pub fn kill(mut self) -> Finished {
        self.stop()
    }

    /// Waits until it has ended.
    pub fn finish(self) -> Finished {
        self.finish_within(PATIENCE)
    }

    /// Waits until it has ended, which must be within `limit` of now.
    pub fn finish_within(mut self, limit: Duration) -> Finished {
        let end = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Disconnected) => return self.collect(),
                Err(RecvTimeoutError::Timeout) => {
                    let stopped = self.stop();
                    panic!("it did not end within {limit:?}: {stopped:?}");
                }
            }
        }
    }

    fn stop(&mut self) -> Finished {
        let _ = self.child.kill();
        self.collect()
    }

    /// What it wrote and how it ended. It has ended, or is about to.
    fn collect(&mut self) -> Finished {
        let status = self.child.wait().unwrap();
        self.heard.extend(self.lines.iter());
        let stderr = self.told.take().and_then(|told| told.join().ok()).unwrap_or_default();
        // Where memory runs out, Rust's allocator ends the process with a note on backtraces, too.
        let is_out_of_memory = stderr.contains("memory allocation of ");
        for word in ["panicked", "internal fault", "RUST_BACKTRACE", "stack backtrace", "overflowed its stack"] {
            assert!(!stderr.contains(word) || is_out_of_memory && word == "RUST_BACKTRACE", "{stderr}");
        }
        Finished {
            code: status.code(),
            signal: status.signal(),
            lines: std::mem::take(&mut self.heard),
            stderr,
            took: self.since.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The lines of stdout.
    pub lines: Vec<String>,
    /// All of stderr.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Finished {
    /// Holds the exit code to `code`.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.lines.join("\n"), self.stderr);
        self
    }

    /// Each line of stdout as JSON. Of a child that was killed the last line may be cut off.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let whole =
            if self.signal.is_some() { self.lines.split_last().map_or(&[][..], |(_, rest)| rest) } else { &self.lines };
        let last = self.lines.last().filter(|_| self.signal.is_some()).and_then(|line| serde_json::from_str(line).ok());
        whole.iter().map(|line| json(line)).chain(last).collect()
    }

    /// The events of that name.
    #[track_caller]
    pub fn events(&self, name: &str) -> Vec<Value> {
        self.json().into_iter().filter(|event| event["event"] == name).collect()
    }

    /// The one event of that name.
    #[track_caller]
    pub fn event(&self, name: &str) -> Value {
        let mut events = self.events(name);
        assert_eq!(events.len(), 1, "events {name:?} in {self:?}");
        events.remove(0)
    }

    /// All of stdout.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// A line of stdout as JSON.
#[track_caller]
pub fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?} is not JSON: {error}"))
}

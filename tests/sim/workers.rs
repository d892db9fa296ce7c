//! Processes that do one piece of work after the other, so that one which hangs or dies takes nothing else with it.
//!
//! A worker is this test binary again, in one ignored test. It gets a line for each piece of work and gives a line back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What came of a piece of work.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Said(String),
    /// Nothing within the limit. The worker has been killed.
    Hung,
    /// The worker ended; its stderr.
    Died(String),
}

/// In front of a worker's answers, because the test harness writes lines of its own.
const MARK: &str = "@ ";

pub struct Worker {
    test: &'static str,
    process: Option<(Child, ChildStdin, Receiver<String>)>,
}

impl Worker {
    /// A worker in the ignored test of that name, started with the first piece of work.
    pub fn new(test: &'static str) -> Self {
        Self { test, process: None }
    }

    /// Gives a piece of work and waits for its answer.
    pub fn ask(&mut self, work: &str, limit: Duration) -> Answer {
        let (child, requests, answers) = self.process.get_or_insert_with(|| started(self.test));
        // One that has died is told by its missing answer.
        let _ = writeln!(requests, "{work}");
        match answers.recv_timeout(limit) {
            Ok(said) => Answer::Said(said),
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                self.process = None;
                Answer::Hung
            }
            Err(RecvTimeoutError::Disconnected) => {
                let _ = child.wait();
                let mut told = String::new();
                let _ = child.stderr.take().map(|mut errors| errors.read_to_string(&mut told));
                self.process = None;
                Answer::Died(told)
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((mut child, requests, _)) = self.process.take() {
            // Without further work it ends by itself.
            drop(requests);
            let _ = child.wait();
        }
    }
}

fn started(test: &str) -> (Child, ChildStdin, Receiver<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--ignored", "--nocapture"]).env("RUST_BACKTRACE", "0").env(WORKER, "1");
    // What a worker copies is gone when it is answered; it needs no device.
    if Path::new(MEMORY).is_dir() {
        command.env("TMPDIR", MEMORY);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (sender, answers) = channel();
    let output = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            if let Some((_, answer)) = line.split_once(MARK)
                && sender.send(answer.to_owned()).is_err()
            {
                break;
            }
        }
    });
    let requests = child.stdin.take().unwrap();
    (child, requests, answers)
}

/// A folder in memory, where the system has one.
const MEMORY: &str = "/dev/shm";

/// Set for a worker.
const WORKER: &str = "RONDO_SIM_WORKER";

/// Does work until there is no more. Does nothing where this process was not started as a worker.
pub fn work(mut answer: impl FnMut(&str) -> String) {
    if std::env::var_os(WORKER).is_none() {
        return;
    }
    for line in std::io::stdin().lines() {
        let said = answer(&line.unwrap()).replace('\n', " ");
        println!("{MARK}{said}");
    }
}

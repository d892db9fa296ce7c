//! The program of the self-test: it tries to get out and tells how far it got.

use std::io;
use std::net::UdpSocket;
use std::process::ExitCode;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::PROBE;

/// In which ways the probe got out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Escaped {
    /// It wrote a file outside.
    pub wrote: bool,
    /// It read what is hidden.
    pub read: bool,
    /// It opened a socket.
    pub connected: bool,
    /// It could have signalled the process that wanted it.
    pub signalled: bool,
}

/// The arguments that start the probe: it tries to write `outside`, to read `hidden` and to signal `process`.
pub(in super::super) fn probe(launcher: &str, outside: &str, hidden: &str, process: u32) -> Vec<String> {
    let [verb, stage] = PROBE;
    [launcher, verb, stage, outside, hidden, &process.to_string()].map(str::to_owned).to_vec()
}

/// The probe.
pub(super) fn attack(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().unwrap_or_default();
    let (outside, hidden, process) = (next(), next(), next());
    let process = process.parse().ok().and_then(Pid::from_raw);
    let escaped = Escaped {
        wrote: std::fs::write(outside, "escaped").is_ok(),
        read: std::fs::read(hidden).is_ok(),
        connected: UdpSocket::bind("127.0.0.1:0").is_ok(),
        signalled: process.is_some_and(|pid| test_kill_process(pid).is_ok()),
    };
    match serde_json::to_writer(io::stdout(), &escaped) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

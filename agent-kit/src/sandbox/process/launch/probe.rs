//! The program of the self-test: tries to escape and reports how.

use std::io;
use std::net::UdpSocket;
use std::process::ExitCode;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::PROBE;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Escape {
    Wrote,
    Read,
    Connected,
    /// It could have signalled our process.
    Signalled,
}

/// The arguments that start the probe: it tries to write `outside`, to read `hidden` and to signal `process`.
pub(in super::super) fn probe(launcher: &str, outside: &str, hidden: &str, process: u32) -> Vec<String> {
    let [verb, stage] = PROBE;
    [launcher, verb, stage, outside, hidden, &process.to_string()].map(str::to_owned).to_vec()
}

pub(super) fn attack(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().unwrap_or_default();
    let (outside, hidden, process) = (next(), next(), next());
    let process = process.parse().ok().and_then(Pid::from_raw);
    let tried = [
        (Escape::Wrote, std::fs::write(outside, "escaped").is_ok()),
        (Escape::Read, std::fs::read(hidden).is_ok()),
        (Escape::Connected, UdpSocket::bind("127.0.0.1:0").is_ok()),
        (Escape::Signalled, process.is_some_and(|pid| test_kill_process(pid).is_ok())),
    ];
    let escaped: Vec<Escape> = tried.into_iter().filter(|(_, got_out)| *got_out).map(|(way, _)| way).collect();
    match serde_json::to_writer(io::stdout(), &escaped) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

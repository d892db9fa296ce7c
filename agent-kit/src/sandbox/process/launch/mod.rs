//! The launcher: this binary, started again to become a program in the sandbox.
//!
//! Its stages are processes, each started by the previous one with only its three streams: the plan on stdin, reports
//! on stdout, and on stderr the socket that brings the program's streams ([`descriptors`](super::descriptors)).
//!
//! - *outer*: creates the private folder and missing declared paths, reserves hidden paths, waits, cleans up. It runs
//!   outside the sandbox and ends everything when its stdin is closed, because the caller is gone.
//! - *namespaces*: makes them and waits; or bubblewrap instead. It has no threads, because a process that unshared its
//!   PID namespace cannot start any.
//! - *inner*: the first process in the namespaces, so that all others die with it. Without namespaces, the outer stage
//!   does its work and kills every remaining descendant.
//! - *program*: applies limits, Landlock and seccomp and becomes the program.
//! - *probe*: the program of the self-test.

mod bubblewrap;
mod declared;
mod entrance;
mod hidden;
mod landlock;
mod mounts;
mod namespaces;
mod probe;
mod program;
mod seccomp;
mod supervise;

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::stat::{Mode, umask};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::plan::{Isolation, Plan, Report};
use crate::sandbox::private;
use hidden::Places;

pub(super) use bubblewrap::program as bubblewrap_program;
pub(super) use landlock::version as landlock_version;
pub(super) use probe::{Escape, probe};

const CLEARING_MAX: Duration = Duration::from_mins(10);

const VERB: &str = "__sandboxed";

/// The arguments that start the outer stage.
pub(super) const OUTER: [&str; 2] = [VERB, "outer"];
const NAMESPACES: [&str; 2] = [VERB, "namespaces"];
const INNER: [&str; 2] = [VERB, "inner"];
const PROGRAM: [&str; 2] = [VERB, "program"];
pub(super) const PROBE: [&str; 2] = [VERB, "probe"];

pub(super) fn entered() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != VERB {
        return None;
    }
    let stage = arguments.next().unwrap_or_default();
    let end = match stage.as_str() {
        "outer" => outer(),
        "namespaces" => in_namespaces(),
        "inner" => inner(),
        "program" => program::become_program(),
        "probe" => return Some(probe::attack(arguments)),
        _ => Err(Report::NotStarted("this verb is not for people".to_owned())),
    };
    // Nobody listens any more when this cannot be written.
    let _ = end.err().map(|report| report.write(&mut io::stdout()));
    Some(ExitCode::SUCCESS)
}

fn outer() -> Result<(), Report> {
    close_all_others()?;
    // The plan contains the program's variables, among them keys of a server.
    super::undumpable();
    // A new session: no terminal, and one process group.
    let _ = nix::unistd::setsid();
    umask(Mode::from_bits_truncate(0o022));
    let (mut plan, stdin) = Plan::read(&mut io::stdin()).map_err(not_started)?;
    plan.private = private::make(&plan.temporary).map_err(not_started)?;
    if plan.workspace.as_os_str().is_empty() {
        plan.workspace = plan.home();
    }
    let mut folders = [plan.home(), plan.void()].into_iter();
    let made = folders.try_for_each(|folder| DirBuilder::new().mode(0o700).create(folder)).map_err(not_started);
    let ended = made.and_then(|()| supervised(&plan, &stdin));
    // Nobody listens any more when this cannot be written.
    let _ = ended.err().map(|report| report.write(&mut io::stdout()));
    // Closing these streams shows the caller that the processes are dead; the removal need not be waited for.
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").map_err(not_started)?;
    let _ = nix::unistd::dup2_stdout(&nowhere).and_then(|()| nix::unistd::dup2_stderr(&nowhere));
    std::thread::spawn(|| {
        std::thread::sleep(CLEARING_MAX);
        std::process::exit(0)
    });
    private::remove(&plan.private);
    Ok(())
}

fn supervised(plan: &Plan, stdin: &[u8]) -> Result<(), Report> {
    if plan.isolation == Isolation::Off {
        return supervise::as_ancestor(plan, stdin);
    }
    declared::make_missing(plan).map_err(|error| Report::NotStarted(error.to_string()))?;
    if plan.isolation == Isolation::Landlock {
        return supervise::as_ancestor(plan, stdin);
    }
    let places = Places::keep(plan)?;
    let ended = started_in_namespaces(plan, stdin).and_then(supervise::until_ended);
    places.clear();
    ended
}

fn started_in_namespaces(plan: &Plan, stdin: &[u8]) -> Result<Child, Report> {
    if plan.isolation == Isolation::Bubblewrap {
        let mut bubblewrap = bubblewrap::command(plan).map_err(no_sandbox)?;
        return start(bubblewrap.args(INNER), plan, stdin);
    }
    start(Command::new(&plan.launcher).args(NAMESPACES), plan, stdin)
}

fn in_namespaces() -> Result<(), Report> {
    close_all_others()?;
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let (plan, stdin) = Plan::read(&mut io::stdin()).map_err(not_started)?;
    namespaces::enter(&plan).map_err(no_sandbox)?;
    let mut inner = start(Command::new(&plan.launcher).args(INNER), &plan, &stdin)?;
    // The end of this process closes the lifeline.
    let lifeline = inner.stdin.take();
    inner.wait().map_err(no_sandbox)?;
    drop(lifeline);
    Ok(())
}

fn inner() -> Result<(), Report> {
    close_all_others()?;
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let (plan, stdin) = Plan::read(&mut io::stdin()).map_err(not_started)?;
    namespaces::settle(&plan).map_err(no_sandbox)?;
    supervise::as_first(&plan, &stdin)
}

/// Starts the next stage with the plan. Its stdin stays open as its lifeline.
fn start(command: &mut Command, plan: &Plan, stdin: &[u8]) -> Result<Child, Report> {
    let spawned = command.env_clear().stdin(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| {
        let program = command.get_program().display();
        Report::NotStarted(format!("{program} cannot be started: {error}"))
    })?;
    let frame = plan.frame(stdin).map_err(not_started)?;
    if let Some(to) = &mut child.stdin {
        // A stage that does not read has ended and reports why.
        let _ = to.write_all(&frame);
    }
    Ok(child)
}

/// Closes every inherited descriptor except the three streams.
fn close_all_others() -> Result<(), Report> {
    let entries = std::fs::read_dir("/proc/self/fd").map_err(no_sandbox)?;
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for number in open.into_iter().filter(|number| *number > 2) {
        // The list's own descriptor is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err calls")]
fn no_sandbox(error: io::Error) -> Report {
    Report::NoSandbox(format!("the sandbox could not be put up: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err calls")]
fn not_started(error: io::Error) -> Report {
    Report::NotStarted(format!("the program could not be started: {error}"))
}

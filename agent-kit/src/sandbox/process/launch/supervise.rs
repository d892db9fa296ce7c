//! Supervises a program until it ends, and ends the processes that it left behind.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal, set_child_subreaper,
};

use super::super::plan::{Exit, Plan, Report};
use super::{PROGRAM, no_sandbox, start};

/// The interval of checking the number of processes.
const LOOK: Duration = Duration::from_millis(50);
/// The pause between two rounds of killing processes, which may have started others meanwhile.
const ROUND: Duration = Duration::from_millis(2);
const ROUNDS: u32 = 1000;

static MULTIPLIED: AtomicBool = AtomicBool::new(false);

/// Supervises the program as the first process of a PID namespace: the kernel ends all others with it.
pub(super) fn as_first(plan: &Plan, stdin: &[u8]) -> Result<(), Report> {
    let child = start(Command::new(&plan.launcher).args(PROGRAM), plan, stdin)?;
    at_end_of_lifeline(|| std::process::exit(0));
    let most = plan.limits.processes;
    at_each_look(move || {
        if processes().len() > usize::try_from(most).unwrap_or(usize::MAX).saturating_add(2) {
            let _ = Report::Multiplied.write(&mut io::stdout());
            std::process::exit(0);
        }
    });
    report(wait_for(child)?)
}

/// Supervises the program without namespaces: orphans become children of this process.
pub(super) fn as_ancestor(plan: &Plan, stdin: &[u8]) -> Result<(), Report> {
    set_child_subreaper(Some(getpid())).map_err(|error| no_sandbox(error.into()))?;
    let child = start(Command::new(&plan.launcher).args(PROGRAM), plan, stdin)?;
    at_end_of_lifeline(|| end_descendants(|| {}));
    let most = plan.limits.processes;
    at_each_look(move || {
        if descendants().len() > usize::try_from(most).unwrap_or(usize::MAX) {
            MULTIPLIED.store(true, Ordering::SeqCst);
            end_descendants(|| {});
        }
    });
    let ended = wait_for(child);
    end_descendants(reap);
    if MULTIPLIED.load(Ordering::SeqCst) { Err(Report::Multiplied) } else { report(ended?) }
}

/// Waits for the inner stage, and ends it on request.
pub(super) fn until_ended(mut child: Child) -> Result<(), Report> {
    let lifeline = child.stdin.take();
    let handle = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = handle.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    at_end_of_lifeline(move || {
        drop(lifeline);
        let _ = handle.map(|handle| pidfd_send_signal(handle, Signal::KILL));
    });
    child.wait().map_err(no_sandbox)?;
    Ok(())
}

fn at_end_of_lifeline(end: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        end();
    });
}

fn at_each_look(look: impl Fn() + Send + 'static) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            look();
        }
    });
}

/// Waits for the program, and for every orphan that ends before it.
fn wait_for(mut child: Child) -> Result<Exit, Report> {
    // Closing its stdin marks the end of the plan.
    drop(child.stdin.take());
    let program = i32::try_from(child.id()).unwrap_or_default();
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid.as_raw() == program => return Ok(Exit::Code(code)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid.as_raw() == program => {
                return Ok(Exit::Signal(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(no_sandbox(error.into())),
        }
    }
}

fn report(exit: Exit) -> Result<(), Report> {
    Report::Ended(exit).write(&mut io::stdout()).map_err(no_sandbox)
}

/// Kills every descendant of this process, in rounds, until there is none. Only the thread that waits for them may pass
/// `reap`: a child waited for twice would be missed.
fn end_descendants(reap: impl Fn()) {
    for _ in 0..ROUNDS {
        let descendants = descendants();
        for pid in &descendants {
            let _ = Pid::from_raw(*pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        reap();
        if descendants.is_empty() {
            return;
        }
        std::thread::sleep(ROUND);
    }
}

fn reap() {
    while matches!(waitpid(None, Some(WaitPidFlag::WNOHANG)), Ok(status) if status != WaitStatus::StillAlive) {}
}

/// Every process in `/proc` with its parent.
fn processes() -> BTreeMap<i32, i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may contain brackets; the state and the parent follow. The state is ignored: a
        // process whose main thread has ended looks like a zombie and continues.
        let (_, rest) = stat.rsplit_once(')')?;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?))
    };
    numbers.filter_map(parent).collect()
}

fn descendants() -> Vec<i32> {
    let processes = processes();
    let us = getpid().as_raw_nonzero().get();
    let descends = |pid: i32| {
        let mut at = pid;
        // A chain is no longer than the number of processes, even if it changed while being read.
        for _ in 0..processes.len() {
            match processes.get(&at) {
                Some(parent) if *parent == us => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    processes.keys().copied().filter(|pid| *pid != us && descends(*pid)).collect()
}

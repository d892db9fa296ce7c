//! A small process between us and a server, so that the server never outlives us.
//!
//! A server may have children, and this process may end without a chance to clean up. The supervisor puts the server
//! into a process group, waits for both, and ends the group on request, when the server has ended, and when we are
//! gone. Then it removes the server's folder.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, kill_process_group};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::process::GRACE;
use crate::sandbox::{private, process};

/// The first argument that makes a binary a supervisor.
pub const VERB: &str = "__mcp_server";

/// The exit code of a shell for a missing command.
const NOT_FOUND: u8 = 127;

/// The interval of checking whether our parent is still there.
const LOOK: Duration = Duration::from_millis(200);

/// If this process was started as a supervisor, acts as one until the server ends. A binary that serves as
/// [launcher](super::ServerProgram::launcher) calls this first in its `main` and returns the exit code, if any.
pub fn entered() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == VERB).then(|| supervise(arguments))
}

fn supervise(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(folder), Some(command)) = (parent, arguments.next(), arguments.next()) else {
        return ExitCode::from(NOT_FOUND);
    };
    // Its own memory holds the variables of the server.
    process::undumpable();
    let end = watched_over(parent, &command, arguments);
    private::remove(Path::new(&folder));
    end
}

fn watched_over(parent: i32, command: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    runtime.block_on(async {
        let Ok(mut told) = signal(SignalKind::terminate()) else { return ExitCode::FAILURE };
        let mut child = match Command::new(command).args(arguments).process_group(0).spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("cannot start {}: {error}", command.display());
                return ExitCode::from(NOT_FOUND);
            }
        };
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let end_by = |signal| group.map(|group| kill_process_group(group, signal));
        let status = tokio::select! {
            status = child.wait() => status.ok(),
            _ = told.recv() => {
                end_by(Signal::TERM);
                tokio::time::timeout(GRACE, child.wait()).await.ok().and_then(Result::ok)
            }
            () = without(Pid::from_raw(parent)) => None,
        };
        // Ends whatever the server left running.
        end_by(Signal::KILL);
        let code = status.and_then(|status| u8::try_from(status.code()?).ok());
        code.map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

/// Waits until we have another parent. A process learns of the end of its parent in no better way that every system has.
async fn without(parent: Option<Pid>) {
    while getppid() == parent {
        tokio::time::sleep(LOOK).await;
    }
}

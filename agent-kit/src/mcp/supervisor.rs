//! A small process between us and a server, so that the server never outlives us.
//!
//! A server may have children, and this process may end without a chance to clean up. The supervisor puts the server
//! into a process group, waits for both, and ends the group on request, when the server has ended, and when we are
//! gone. Then it removes the server's folder.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::process::GRACE;
use crate::sandbox::private::Private;
use crate::sandbox::process;

/// The first argument that makes a binary a supervisor.
pub const VERB: &str = "__mcp_server";

/// The exit code of a shell for a missing command.
const NOT_FOUND: u8 = 127;

/// If this process was started as a supervisor, acts as one until the server ends. A binary that serves as
/// [launcher](super::Transport::Stdio::launcher) calls this first in its `main` and returns the exit code, if any.
pub fn entered() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == VERB).then(|| supervise(arguments))
}

fn supervise(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
    let (Some(parent), Some(private), Some(command)) = (parent, arguments.next(), arguments.next()) else {
        return ExitCode::from(NOT_FOUND);
    };
    // Its own memory holds the variables of the server.
    process::undumpable();
    let end = watched_over(parent, &command, arguments);
    Private::adopt(private.into()).remove();
    end
}

fn watched_over(parent: i32, command: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    runtime.block_on(async {
        let watched = parent::Watched::new(parent);
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
            () = watched.gone() => None,
        };
        // Ends whatever the server left running.
        end_by(Signal::KILL);
        let code = status.and_then(|status| u8::try_from(status.code()?).ok());
        code.map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

#[cfg(target_os = "linux")]
mod parent {
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// The process that started us.
    pub struct Watched {
        pid: Option<Pid>,
        /// `None` if the kernel does not support it.
        pidfd: Option<AsyncFd<OwnedFd>>,
    }

    impl Watched {
        #[expect(
            deprecated,
            reason = "the newer one is unsafe, because a type may lie about its descriptor; ours does not"
        )]
        pub fn new(parent: i32) -> Self {
            let pid = Pid::from_raw(parent);
            let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok());
            Self { pid, pidfd: pidfd.and_then(|pidfd| AsyncFd::with_interest(pidfd, Interest::READABLE).ok()) }
        }

        /// Waits until it is gone; its pidfd becomes readable then.
        pub async fn gone(&self) {
            // If it ended before the pidfd was opened, we have another parent by now.
            if getppid() != self.pid {
                return;
            }
            match &self.pidfd {
                Some(pidfd) => drop(pidfd.readable().await),
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod parent {
    /// Other systems do not report the end of a process that is no child.
    pub struct Watched;

    impl Watched {
        pub fn new(_parent: i32) -> Self {
            Self
        }

        pub async fn gone(&self) {
            std::future::pending().await
        }
    }
}

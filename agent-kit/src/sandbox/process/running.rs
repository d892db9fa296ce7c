//! Runs a program: the launcher's streams, the time limit, and the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Sender;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::output::{Output, pipe};
use super::plan::{Exit, Plan, Report};
use super::{Live, Running, descriptors, failed, flooded, launch, not_started, proxy, timed_out};
use crate::error::Error;
use crate::sandbox::http::Gate;

/// How long the launcher may take to end the processes before it is killed.
const GRACE: Duration = Duration::from_millis(1500);

const REPORTS_MAX_BYTES: u64 = 64 << 10;

/// How long to wait for the removal of the private folder, which then continues in the background.
const CLEARING: Duration = Duration::from_secs(1);

/// How long a program may take to end after its input was closed.
const FOLLOWING: Duration = Duration::from_millis(500);

const SAID_MAX_BYTES: usize = 4 << 10;

/// Runs the program of `plan` to its end.
pub(super) async fn run(
    plan: &Plan,
    stdin: &[u8],
    time: Duration,
    mut kept: Output,
    gate: Option<Arc<Gate>>,
) -> Result<(Output, Exit), Error> {
    let most = plan.limits.output_bytes;
    let (mut pipes, theirs) = kept.pipes().map_err(failed)?;
    let running = launch(plan, stdin, theirs, gate, Duration::ZERO).map_err(failed)?;
    let over = async { Ok(running.ended().await) };
    let ending = timeout(time, async { tokio::try_join!(kept.collect(&mut pipes, most), over) }).await;
    running.end();
    let end = running.ended().await;
    if ending.is_err() {
        let _ = timeout(GRACE, kept.collect(&mut pipes, most)).await;
    }
    match end {
        _ if kept.is_full(most) => Err(flooded(plan, kept)),
        Ok(exit) => Ok((kept, exit)),
        Err(_) if ending.is_err() => Err(timed_out(time, kept)),
        Err(error) => Err(Error { output: kept.into_text() + &error.output, ..error }),
    }
}

/// Starts the program of `plan`, which keeps running.
pub(super) fn open(plan: &Plan, gate: Option<Arc<Gate>>) -> Result<Live, Error> {
    let (stdout, their_stdout) = pipe().map_err(failed)?;
    let (stderr, their_stderr) = pipe().map_err(failed)?;
    let (their_stdin, stdin) = io::pipe().map_err(failed)?;
    let stdin = Sender::from_owned_fd(stdin.into()).map_err(failed)?;
    let theirs = vec![their_stdout, their_stderr, their_stdin.into()];
    let running = launch(plan, &[], theirs, gate, FOLLOWING).map_err(failed)?;
    Ok(Live { stdin: Box::pin(stdin), stdout: Box::pin(stdout), stderr: Box::pin(stderr), running })
}

/// Starts the launcher with the program's ends of its pipes, and a socket that it has open until it has ended. A program
/// that is to end gets `following` to do so itself.
fn launch(
    plan: &Plan,
    stdin: &[u8],
    pipes: Vec<OwnedFd>,
    gate: Option<Arc<Gate>>,
    following: Duration,
) -> io::Result<Running> {
    let frame = plan.frame(stdin)?;
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let socket = UnixStream::from_std(ours)?;
    descriptors::send(&socket, &pipes.iter().map(OwnedFd::as_fd).collect::<Vec<_>>())?;
    drop(pipes);
    let mut child = Command::new(&plan.launcher)
        .args(launch::OUTER)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(OwnedFd::from(theirs))
        .spawn()?;
    // The launcher ends everything when its lifeline is closed, by us or by our death.
    let (Some(mut lifeline), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("a pipe is missing"));
    };
    let processes = plan.limits.processes;
    let (running, stop, over) = Running::new();
    tokio::spawn(async move {
        let ended = async {
            // One that does not read has ended and reports why.
            let _ = lifeline.write_all(&frame).await;
            Some(until_ended(&socket, gate).await)
        };
        let said = {
            let mut ended = std::pin::pin!(ended);
            tokio::select! {
                said = &mut ended => said,
                // A caller that ends it has dropped its input.
                () = stop.cancelled() => timeout(following, &mut ended).await.unwrap_or_default(),
            }
        };
        drop(lifeline);
        let report = Report::first(&wound_up(child, reports).await);
        over.send_replace(Some(match (said, report) {
            (None, _) => Err(not_started("the program was ended")),
            (Some(_), Some(Report::Ended(exit))) => Ok(exit),
            (Some(_), Some(Report::NoSandbox(why))) => Err(Error::new(Code::SandboxMissing, why)),
            (Some(_), Some(Report::NotStarted(why))) => Err(not_started(why)),
            (Some(_), Some(Report::Multiplied)) => {
                let message = format!("the program had more than {processes} processes and was ended with all of them");
                Err(Error::new(Code::ProgramMultiplied, message))
            }
            (Some(said), None) => {
                let error = not_started("the program's launcher ended without a word; something outside ended it");
                Err(error.with_output(String::from_utf8_lossy(&said).into_owned()))
            }
        }));
    });
    Ok(running)
}

/// Waits for the end of every process and a while for the cleanup, and returns the reports. The launcher is killed only
/// if it does not end, because it cleans up.
async fn wound_up(mut child: Child, reports: ChildStdout) -> Vec<u8> {
    let mut lines = Vec::new();
    if timeout(GRACE, reports.take(REPORTS_MAX_BYTES).read_to_end(&mut lines)).await.is_err() {
        if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill().await;
    } else if timeout(CLEARING, child.wait()).await.is_err() {
        // The launcher limits its cleanup itself.
        tokio::spawn(async move { child.wait().await });
    }
    lines
}

/// Serves the program's proxy until every stage of the launcher has ended. Returns what they said, which only one that
/// fails does.
async fn until_ended(socket: &UnixStream, gate: Option<Arc<Gate>>) -> Vec<u8> {
    let (mut proxy, mut said, mut buffer) = (JoinSet::new(), Vec::new(), [0; 1 << 10]);
    while socket.readable().await.is_ok() {
        match socket.try_io(Interest::READABLE, || descriptors::receive(socket, &mut buffer)) {
            Ok((count @ 1.., files)) => {
                if let (Some(port), Some(gate)) = (files.into_iter().next(), &gate) {
                    proxy.spawn(proxy::serve(Arc::clone(gate), port));
                } else {
                    said.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    said.truncate(SAID_MAX_BYTES);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => break,
        }
    }
    said
}

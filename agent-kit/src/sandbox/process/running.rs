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
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

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

/// A running launcher. Dropping it ends the process tree.
struct Launched {
    child: Option<Child>,
    /// Its reports. The processes are dead when this ends.
    reports: Option<ChildStdout>,
    /// The launcher ends everything when this is closed, by a drop or by the death of this process.
    lifeline: Option<ChildStdin>,
}

impl Launched {
    /// Ends the process tree, waits for its end and up to `clearing` for the cleanup, and returns the reports. The
    /// launcher is not killed, because it cleans up.
    async fn end(mut self, clearing: Duration) -> Vec<u8> {
        self.lifeline = None;
        match (self.child.take(), self.reports.take()) {
            (Some(child), Some(reports)) => wound_up(child, reports, clearing).await,
            _ => Vec::new(),
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.lifeline = None;
        let (Some(child), Some(reports)) = (self.child.take(), self.reports.take()) else { return };
        // Without a runtime, the closed lifeline alone ends the tree.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(wound_up(child, reports, Duration::ZERO));
        }
    }
}

async fn wound_up(mut child: Child, reports: ChildStdout, clearing: Duration) -> Vec<u8> {
    let mut lines = Vec::new();
    if timeout(GRACE, reports.take(REPORTS_MAX_BYTES).read_to_end(&mut lines)).await.is_err() {
        if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill().await;
    } else if timeout(clearing, child.wait()).await.is_err() {
        // The launcher limits its cleanup itself.
        tokio::spawn(async move { child.wait().await });
    }
    lines
}

/// Runs the program of `plan`. Returns its output, its exit status and the Landlock version in force.
pub(super) async fn run(
    plan: &Plan,
    stdin: &[u8],
    time: Duration,
    mut kept: Output,
    gate: Option<Arc<Gate>>,
) -> Result<(Output, Exit, Option<u8>), Error> {
    let deadline = Instant::now() + time;
    let frame = plan.frame(stdin).map_err(failed)?;
    let (mut pipes, theirs) = kept.pipes().map_err(failed)?;
    let (mut launched, socket) = launch(plan, &theirs).map_err(failed)?;
    drop(theirs);
    let most = plan.limits.output_bytes;

    let work = async {
        if let Some(lifeline) = &mut launched.lifeline {
            lifeline.write_all(&frame).await?;
        }
        let stages = async { Ok(until_ended(&socket, gate).await) };
        tokio::try_join!(kept.collect(&mut pipes, most), stages)
    };
    let ending = timeout_at(deadline, work).await;

    // The launcher closes its socket last, so its reports are complete by then.
    let is_late = ending.is_err();
    let lines = launched.end(if is_late { Duration::ZERO } else { CLEARING }).await;
    if is_late {
        let _ = timeout(GRACE, kept.collect(&mut pipes, most)).await;
    }
    let (landlock, end) = Report::read_all(&lines);
    match (ending, end) {
        _ if is_late => Err(timed_out(time, kept)),
        _ if kept.is_full(most) => Err(flooded(plan, kept)),
        (Ok(Err(error)), None | Some(Report::Ended(_))) => Err(failed(error)),
        (_, Some(Report::Ended(exit))) => Ok((kept, exit, landlock)),
        (_, Some(report @ Report::Multiplied)) => Err(refused(plan, report).with_output(kept.into_text().0)),
        (_, Some(report)) => Err(refused(plan, report)),
        (ending, None) => {
            if let Ok(Ok(((), said))) = ending {
                kept.take(&said);
            }
            Err(not_started("the program's launcher ended without a word; something outside ended it")
                .with_output(kept.into_text().0))
        }
    }
}

fn refused(plan: &Plan, report: Report) -> Error {
    match report {
        Report::Multiplied => {
            let most = plan.limits.processes;
            let message = format!("the program had more than {most} processes and was ended with all of them");
            Error::new(Code::ProgramMultiplied, message)
        }
        Report::NoSandbox(why) => Error::new(Code::SandboxMissing, why),
        Report::NotStarted(why) => not_started(why),
        Report::Sandboxed(_) | Report::Ended(_) => not_started("it ended"),
    }
}

/// Starts the launcher with the program's ends of its pipes, and a socket that it has open until it has ended.
fn launch(plan: &Plan, pipes: &[OwnedFd]) -> io::Result<(Launched, UnixStream)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    descriptors::send(&ours, &pipes.iter().map(OwnedFd::as_fd).collect::<Vec<_>>())?;
    let mut child = Command::new(&plan.launcher)
        .args(launch::OUTER)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(OwnedFd::from(theirs))
        .spawn()?;
    let (lifeline, reports) = (child.stdin.take(), child.stdout.take());
    Ok((Launched { child: Some(child), reports, lifeline }, UnixStream::from_std(ours)?))
}

/// Serves the program's proxy until every stage of the launcher has ended. Returns what they said, which only one that
/// fails does.
async fn until_ended(socket: &UnixStream, gate: Option<Arc<Gate>>) -> Vec<u8> {
    let (mut proxy, mut said, mut buffer) = (JoinSet::new(), Vec::new(), [0; 1 << 10]);
    while socket.readable().await.is_ok() {
        match socket.try_io(Interest::READABLE, || descriptors::receive(socket, &mut buffer)) {
            Ok((count @ 1.., files)) => match (files.into_iter().next(), &gate) {
                (Some(port), Some(gate)) => drop(proxy.spawn(proxy::serve(Arc::clone(gate), port))),
                _ => {
                    said.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    said.truncate(SAID_MAX_BYTES);
                }
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => break,
        }
    }
    said
}

/// Starts the program of `plan`, which keeps running.
pub(super) async fn open(plan: Plan, gate: Option<Arc<Gate>>) -> Result<Live, Error> {
    let frame = plan.frame(&[]).map_err(failed)?;
    let (stdout, their_stdout) = pipe().map_err(failed)?;
    let (stderr, their_stderr) = pipe().map_err(failed)?;
    let (their_stdin, stdin) = io::pipe().map_err(failed)?;
    let stdin = Sender::from_owned_fd(stdin.into()).map_err(failed)?;
    let theirs = [their_stdout, their_stderr, their_stdin.into()];
    let (mut launched, socket) = launch(&plan, &theirs).map_err(failed)?;
    drop(theirs);
    if let Some(lifeline) = &mut launched.lifeline {
        lifeline.write_all(&frame).await.map_err(failed)?;
    }
    let (running, stop, over) = Running::new();
    tokio::spawn(async move {
        let mut stages = std::pin::pin!(until_ended(&socket, gate));
        tokio::select! {
            _ = &mut stages => {}
            // A caller that ends it has dropped its input.
            () = stop.cancelled() => drop(timeout(FOLLOWING, &mut stages).await),
        }
        let (_, end) = Report::read_all(&launched.end(CLEARING).await);
        over.send_replace(Some(match end {
            Some(Report::Ended(exit)) => Ok(exit),
            Some(report) => Err(refused(&plan, report)),
            None => Err(not_started("the program was ended")),
        }));
    });
    Ok(Live { stdin: Box::pin(stdin), stdout: Box::pin(stdout), stderr: Box::pin(stderr), running })
}

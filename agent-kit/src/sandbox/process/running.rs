//! Runs a program: the launcher's streams, the time limit, and the end.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::frames::{Frame, Frames};
use super::launch;
use super::output::{Output, Stream};
use super::plan::{Exit, Plan, Report, Streams};
use super::proxy::Proxy;
use super::{Live, Running, failed, flooded, not_started, timed_out};
use crate::error::Error;
use crate::sandbox::http::Gate;

/// How long the launcher may take to end the processes before it is killed.
const GRACE: Duration = Duration::from_millis(1500);

const REPORTS_MAX_BYTES: u64 = 64 << 10;

/// How long to wait for the removal of the private folder, which then continues in the background.
const CLEARING: Duration = Duration::from_secs(1);

/// How long a program may take to end after its input was closed.
const FOLLOWING: Duration = Duration::from_millis(500);

const WAITING_MAX_BYTES: usize = 64 << 10;

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
    let (mut output, writer) = Source::new(plan.streams, gate).map_err(failed)?;
    let mut launched = launch(plan, writer).map_err(failed)?;

    let work = async {
        if let Some(lifeline) = &mut launched.lifeline {
            lifeline.write_all(&frame).await.map_err(failed)?;
        }
        collect(&mut output, &mut kept, plan.limits.output_bytes).await.map_err(failed)
    };
    let ending = timeout_at(deadline, work).await;

    // The launcher closes the output last, so its reports are complete by then.
    let is_late = ending.is_err();
    let lines = launched.end(if is_late { Duration::ZERO } else { CLEARING }).await;
    if is_late {
        let _ = timeout(GRACE, collect(&mut output, &mut kept, plan.limits.output_bytes)).await;
    }
    let (landlock, end) = Report::read_all(&lines);
    match (ending, end) {
        _ if is_late => Err(timed_out(time, kept)),
        (Ok(Err(error)), None | Some(Report::Ended(_))) => Err(error),
        (Ok(Ok(true)), _) => Err(flooded(plan, kept)),
        (Ok(_), Some(Report::Ended(exit))) => Ok((kept, exit, landlock)),
        (_, Some(report @ Report::Multiplied)) => Err(refused(plan, report).with_output(kept.into_text().0)),
        (_, Some(report)) => Err(refused(plan, report)),
        _ => Err(not_started("the program's launcher ended without a word; something outside ended it")
            .with_output(kept.into_text().0)),
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

/// Starts the launcher. The program's output goes through its stderr: one pipe for both streams keeps their order.
fn launch(plan: &Plan, output: OwnedFd) -> std::io::Result<Launched> {
    let mut child = Command::new(&plan.launcher)
        .args(launch::OUTER)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(output)
        .spawn()?;
    let (lifeline, reports) = (child.stdin.take(), child.stdout.take());
    Ok(Launched { child: Some(child), reports, lifeline })
}

/// Starts the program of `plan`, which keeps running.
pub(super) async fn open(plan: Plan, gate: Option<Arc<Gate>>) -> Result<Live, Error> {
    let frame = plan.frame(&[]).map_err(failed)?;
    let (frames, stdin, theirs) = Frames::pair().map_err(failed)?;
    let mut launched = launch(&plan, theirs).map_err(failed)?;
    if let Some(lifeline) = &mut launched.lifeline {
        lifeline.write_all(&frame).await.map_err(failed)?;
    }
    let (stdout, to_stdout) = duplex(WAITING_MAX_BYTES);
    let (stderr, to_stderr) = duplex(WAITING_MAX_BYTES);
    let (stop, (over, ended)) = (CancellationToken::new(), watch::channel(None));
    let running = Running { stop: stop.clone(), ended };
    tokio::spawn(async move {
        let mut passing = std::pin::pin!(pass_on(frames, gate.map(Proxy::new), to_stdout, to_stderr));
        tokio::select! {
            () = &mut passing => {}
            // A caller that ends it has dropped its input.
            () = stop.cancelled() => drop(timeout(FOLLOWING, &mut passing).await),
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

/// Forwards both streams until their end or invalid data. Ignores streams that are no longer read.
async fn pass_on(
    mut frames: Frames,
    mut proxy: Option<Proxy>,
    mut stdout: impl AsyncWrite + Unpin,
    mut stderr: impl AsyncWrite + Unpin,
) {
    while let Ok(Some(frame)) = frames.next().await {
        match (frame, &mut proxy) {
            (Frame::Part(Stream::Stderr, part), _) => drop(stderr.write_all(&part).await),
            (Frame::Part(_, part), _) => drop(stdout.write_all(&part).await),
            (Frame::Connection(socket), Some(proxy)) => proxy.serve(socket),
            // The program has no proxy.
            (Frame::Connection(_), None) => {}
        }
    }
}

enum Source {
    Pipe(Receiver, Vec<u8>),
    /// A socket with frames, among them connections to a proxy if there is one.
    Frames(Frames, Option<Proxy>),
}

impl Source {
    /// The source and its other end.
    fn new(streams: Streams, gate: Option<Arc<Gate>>) -> std::io::Result<(Self, OwnedFd)> {
        if streams == Streams::Together && gate.is_none() {
            let (output, writer) = std::io::pipe()?;
            return Ok((Self::Pipe(Receiver::from_owned_fd(output.into())?, vec![0; 64 << 10]), writer.into()));
        }
        let (frames, _, theirs) = Frames::pair()?;
        Ok((Self::Frames(frames, gate.map(Proxy::new)), theirs))
    }

    /// Reads the next part; false at the end.
    async fn read(&mut self, kept: &mut Output) -> std::io::Result<bool> {
        match self {
            Self::Pipe(pipe, buffer) => {
                let count = pipe.read(buffer).await?;
                kept.take(Stream::Stdout, buffer.get(..count).unwrap_or_default());
                return Ok(count > 0);
            }
            Self::Frames(frames, proxy) => match (frames.next().await?, proxy) {
                (Some(Frame::Part(stream, part)), _) => kept.take(stream, &part),
                (Some(Frame::Connection(socket)), Some(proxy)) => proxy.serve(socket),
                (Some(Frame::Connection(_)), None) => {}
                (None, _) => return Ok(false),
            },
        }
        Ok(true)
    }
}

/// Reads until every writer has ended, or the limit is reached, which is `true`.
async fn collect(output: &mut Source, kept: &mut Output, most: u64) -> std::io::Result<bool> {
    while output.read(kept).await? {
        if kept.is_full(most) {
            return Ok(true);
        }
    }
    Ok(false)
}

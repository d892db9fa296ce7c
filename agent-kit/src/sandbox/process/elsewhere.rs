//! Runs programs on systems without a sandbox, when it is switched off.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use tokio::time::timeout;

use super::output::{Output, Stream};
use super::plan::{Exit, Plan, Streams};
use super::{failed, flooded, not_started, timed_out};
use crate::error::Error;
use crate::sandbox::http::Gate;

struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Servers are only started on Linux.
pub(super) async fn open(_: Plan, _: Option<Arc<Gate>>) -> Result<super::Live, Error> {
    Err(Error::new(Code::SandboxMissing, "a server with a sandbox is started on Linux only"))
}

/// Runs the program of `plan` in a process group of its own.
pub(super) async fn run(
    plan: &Plan,
    stdin: &[u8],
    time: Duration,
    mut kept: Output,
    _: Option<Arc<Gate>>,
) -> Result<(Output, Exit, Option<u8>), Error> {
    use std::os::unix::process::ExitStatusExt;

    let (name, arguments) = plan.argv.split_first().ok_or_else(|| not_started("argv is empty"))?;
    let (output, writer) = std::io::pipe().map_err(failed)?;
    // The second pipe is only for separate streams; else it is closed at once.
    let (errors, errors_writer) = std::io::pipe().map_err(failed)?;
    let stderr = if plan.streams == Streams::Together {
        drop(errors_writer);
        writer.try_clone().map_err(failed)?
    } else {
        errors_writer
    };
    let mut child = Command::new(name)
        .args(arguments)
        .env_clear()
        .env("TMPDIR", &plan.temporary)
        .env("HOME", &plan.temporary)
        .envs(&plan.env)
        .current_dir(plan.working_dir.as_ref().unwrap_or(&plan.temporary))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(writer)
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let mut output = Receiver::from_owned_fd(output.into()).map_err(failed)?;
    let mut errors = Receiver::from_owned_fd(errors.into()).map_err(failed)?;
    let input = child.stdin.take();
    let most = plan.limits.output_bytes;
    let feed = async {
        if let Some(mut input) = input {
            let _ = input.write_all(stdin).await;
        }
    };
    let collect = async {
        let (mut stdout_buffer, mut stderr_buffer) = (vec![0; 64 << 10], vec![0; 64 << 10]);
        let (mut is_open, mut has_errors) = (true, true);
        while (is_open || has_errors) && !kept.is_full(most) {
            let (stream, part) = tokio::select! {
                read = output.read(&mut stdout_buffer), if is_open => {
                    let count = read.unwrap_or_default();
                    is_open = count > 0;
                    (Stream::Stdout, stdout_buffer.get(..count).unwrap_or_default())
                }
                read = errors.read(&mut stderr_buffer), if has_errors => {
                    let count = read.unwrap_or_default();
                    has_errors = count > 0;
                    (Stream::Stderr, stderr_buffer.get(..count).unwrap_or_default())
                }
            };
            kept.take(stream, part);
        }
    };
    let ended = timeout(time, async {
        tokio::select! {
            ((), ()) = async { tokio::join!(feed, collect) } => {}
            _ = child.wait() => {}
        }
    })
    .await;
    drop(group);
    let status = child.wait().await.map_err(failed)?;
    if ended.is_err() {
        return Err(timed_out(time, kept));
    }
    if kept.is_full(most) {
        return Err(flooded(plan, kept));
    }
    let exit = status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or_default()), Exit::Code);
    Ok((kept, exit, None))
}

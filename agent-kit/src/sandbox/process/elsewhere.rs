//! Runs programs on systems without a sandbox, when it is switched off.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::output::Output;
use super::plan::{Exit, Plan};
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
pub(super) fn open(_: &Plan, _: Option<Arc<Gate>>) -> Result<super::Live, Error> {
    Err(Error::new(Code::SandboxMissing, "a server with a sandbox is started on Linux only"))
}

/// Runs the program of `plan` in a process group of its own.
pub(super) async fn run(
    plan: &Plan,
    stdin: &[u8],
    time: Duration,
    mut kept: Output,
    _: Option<Arc<Gate>>,
) -> Result<(Output, Exit), Error> {
    let (name, arguments) = plan.argv.split_first().ok_or_else(|| not_started("argv is empty"))?;
    let (mut pipes, theirs) = kept.pipes().map_err(failed)?;
    let mut theirs = theirs.into_iter();
    let stdout = theirs.next().ok_or_else(|| not_started("there is nowhere to write to"))?;
    let stderr = theirs.next().map_or_else(|| stdout.try_clone(), Ok).map_err(failed)?;
    let mut child = Command::new(name)
        .args(arguments)
        .env_clear()
        .env("TMPDIR", &plan.temporary)
        .env("HOME", &plan.temporary)
        .envs(&plan.env)
        .current_dir(plan.working_dir.as_ref().unwrap_or(&plan.temporary))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let input = child.stdin.take();
    let most = plan.limits.output_bytes;
    let feed = async {
        if let Some(mut input) = input {
            let _ = input.write_all(stdin).await;
        }
    };
    let ended = timeout(time, async {
        tokio::select! {
            ((), _) = async { tokio::join!(feed, kept.collect(&mut pipes, most)) } => {}
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
    Ok((kept, status.into()))
}

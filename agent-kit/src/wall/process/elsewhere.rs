//! A program that runs where no wall is known. It is reached with the sandbox off only.

use std::process::Stdio;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use tokio::time::timeout;

use super::output::Kept;
use super::plan::{Exit, Plan};
use super::{Finished, not_started};
use crate::tool::Error;

/// Ends a group of processes when it is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs the program of `plan` in a process group of its own.
pub(super) async fn run(
    plan: &Plan,
    stdin: &[u8],
    time: Duration,
    output_max_bytes: usize,
) -> Result<(Finished, Option<u8>), Error> {
    use std::os::unix::process::ExitStatusExt;

    let failed = |error: std::io::Error| not_started(format!("the program could not be started: {error}"));
    let (name, arguments) = plan.argv.split_first().ok_or_else(|| not_started("argv is empty"))?;
    let (output, writer) = std::io::pipe().map_err(failed)?;
    let mut child = Command::new(name)
        .args(arguments)
        .env_clear()
        .env("TMPDIR", &plan.temporary)
        .env("HOME", &plan.temporary)
        .envs(&plan.env)
        .current_dir(&plan.working_dir)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(writer.try_clone().map_err(failed)?)
        .stderr(writer)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let mut output = Receiver::from_owned_fd(output.into()).map_err(failed)?;
    let mut kept = Kept::new(output_max_bytes);
    let input = child.stdin.take();
    let most = plan.limits.output_bytes;
    let feed = async {
        if let Some(mut input) = input {
            let _ = input.write_all(stdin).await;
        }
    };
    let collect = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = output.read(&mut buffer).await {
            kept.push(buffer.get(..count).unwrap_or_default());
            if kept.seen() > most {
                break;
            }
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
    let flooded = kept.seen() > most;
    let (text, left_out_bytes) = kept.into_text();
    if ended.is_err() {
        let message = format!("the program was still running after {} s and was ended", time.as_secs_f64());
        return Err(Error::new(Code::ProgramTimedOut, message).with_output(text));
    }
    if flooded {
        let message = format!("the program put out more than {most} bytes and was ended; make it say less");
        return Err(Error::new(Code::ProgramFlooded, message).with_output(text));
    }
    let exit = status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or_default()), Exit::Code);
    Ok((Finished { output: text, left_out_bytes, exit }, None))
}

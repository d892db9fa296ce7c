//! Runs between a program and the socket that leads out of the sandbox, to separate its two streams.
//!
//! For a program that keeps running, input arrives through the same socket and is forwarded, because the program has no
//! socket itself.
//!
//! The relay is in the same sandbox as the program and ends as it ended. Output of processes that the program left
//! behind is read only briefly, because they are ended with it.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};

use super::super::frames::{PART_MAX_BYTES, frame};
use super::super::output::Stream;
use super::super::plan::Streams;
use super::entrance::{Entrance, pump};

/// The interval of checking whether a program with open streams has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How long streams are read after the program has ended.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// The exit code of a relay whose output is not read.
const UNHEARD: i32 = 125;

const PARTS: usize = 4;

/// Starts the program and ends as it ends.
pub(super) fn become_relay(
    mut command: Command,
    streams: Streams,
    entrance: Option<Entrance>,
) -> io::Result<Infallible> {
    let mut said = None;
    if streams == Streams::Live {
        said = Some(File::from(io::stderr().as_fd().try_clone_to_owned()?));
        command.stdin(Stdio::piped());
    }
    let (sender, parts) = sync_channel(PARTS);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if streams == Streams::Together {
        // One pipe for both keeps their order.
        let (reader, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        read(reader, Stream::Stdout, sender.clone());
    }
    let mut child = command.spawn()?;
    // It holds the program's ends of the pipes.
    drop(command);
    if let Some(entrance) = entrance {
        entrance.serve();
    }
    if let Some(stdout) = child.stdout.take() {
        read(stdout, Stream::Stdout, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        read(stderr, Stream::Stderr, sender.clone());
    }
    drop(sender);
    if let (Some(said), Some(stdin)) = (said, child.stdin.take()) {
        std::thread::spawn(move || pump(&said, &stdin));
    }
    // An error after the start is no failure to start.
    let Ok(status) = passed_on(&mut child, &parts) else { std::process::exit(UNHEARD) };
    if let Some(signal) = status.signal().and_then(|number| Signal::try_from(number).ok()) {
        // Twice: the first one only removes the runtime's handler for stack overflows.
        let _ = signal::raise(signal);
        let _ = signal::raise(signal);
    }
    // A signal that does not end this process is reported as a shell does.
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}

fn passed_on(child: &mut Child, parts: &Receiver<(Stream, Vec<u8>)>) -> io::Result<ExitStatus> {
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match parts.recv_timeout(LOOK) {
            // A failed write means that no process reads it, and everything is about to end.
            Ok((stream, part)) => io::stderr().write_all(&frame(stream, &part)?)?,
            Err(RecvTimeoutError::Disconnected) => return child.wait(),
            Err(RecvTimeoutError::Timeout) if ended.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() {
            ended = child.try_wait()?.map(|status| (status, Instant::now()));
        }
        if ended.is_some_and(|(_, since)| since.elapsed() > AFTERWARDS) {
            break;
        }
    }
    ended.map_or_else(|| child.wait(), |(status, _)| Ok(status))
}

fn read(mut from: impl Read + Send + 'static, stream: Stream, to: SyncSender<(Stream, Vec<u8>)>) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; PART_MAX_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let part = buffer.get(..count).unwrap_or_default().to_vec();
            if to.send((stream, part)).is_err() {
                break;
            }
        }
    });
}

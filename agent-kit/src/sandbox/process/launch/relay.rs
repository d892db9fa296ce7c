//! Standing between a program and the pipe that leads out, to tell its two streams apart.
//!
//! Where the program goes on and is spoken to, the pipe is a pair of sockets, and what comes in by it is passed on to
//! the program, which has none itself.
//!
//! The relay stands behind the same sandbox as the program and ends as the program ended. What is written after that by
//! processes that the program left behind is waited for only a moment: they are ended with it.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};

use super::super::apart::{self, PART_MAX_BYTES, Stream};
use super::super::plan::Streams;
use super::entrance::Entrance;

/// How often it is looked whether a program has ended whose streams are still open.
const LOOK: Duration = Duration::from_millis(20);

/// How long streams are read after the program has ended.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// The exit code of a relay that nobody listens to.
const UNHEARD: i32 = 125;

/// How many parts may wait to be written.
const PARTS: usize = 4;

/// Starts the program and ends as it ends.
///
/// # Errors
/// When it cannot be started.
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
    // It holds ends of pipes that are the program's now.
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
    if let (Some(mut said), Some(mut stdin)) = (said, child.stdin.take()) {
        std::thread::spawn(move || {
            let mut buffer = vec![0; PART_MAX_BYTES];
            // By hand: `io::copy` would splice, which keeps the program from reading for as long as nothing more comes.
            while let Ok(count @ 1..) = said.read(&mut buffer) {
                // A program that does not read any more is no fault.
                if stdin.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
                    break;
                }
            }
        });
    }
    // When what it puts out cannot be passed on, it was started all the same: this is no failure to start it.
    let Ok(status) = passed_on(&mut child, &parts) else { std::process::exit(UNHEARD) };
    if let Some(signal) = status.signal().and_then(|number| Signal::try_from(number).ok()) {
        // Twice: the first one only takes away the handler by which the language's runtime tells an overflowed stack.
        let _ = signal::raise(signal);
        let _ = signal::raise(signal);
    }
    // A signal that this process does not die of is told as a shell tells it.
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}

/// Passes on what the program puts out until it has ended.
fn passed_on(child: &mut Child, parts: &Receiver<(Stream, Vec<u8>)>) -> io::Result<ExitStatus> {
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match parts.recv_timeout(LOOK) {
            // Nobody reads any more when it cannot be written, and then everything is about to end.
            Ok((stream, part)) => apart::write(&mut io::stderr(), stream, &part)?,
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

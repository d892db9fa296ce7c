//! Keeps the beginning and the end of a program's output.
//!
//! The end of a test run says what failed, the beginning what was run. The middle is counted and dropped, so that
//! memory stays small. Output is redacted as it arrives, so that no cut leaves half a key.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::bound;
use crate::redact::{Redactor, StreamRedactor};

/// The maximum bytes held back for a pattern match. A longer match is not redacted.
const HELD_MAX_BYTES: usize = 1 << 20;

const MARK_MAX_BYTES: usize = 64;

const STDERR_MAX_BYTES: usize = 64 << 10;

const READ_BYTES: usize = 64 << 10;

/// What is kept of a program's output.
#[derive(Debug)]
pub(super) struct Output {
    /// Both streams, in order of arrival, or stderr.
    text: BoundedOutput,
    /// All of stdout, unchanged, and its limit, where the streams are separate.
    stdout: Option<(Vec<u8>, usize)>,
    seen: u64,
    is_flooded: bool,
}

/// Our ends of a program's pipes.
pub(super) struct Pipes {
    /// Of both streams, where they are not separate.
    stdout: Receiver,
    stderr: Option<Receiver>,
}

/// A pipe, and the program's end of it.
pub(super) fn pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (ours, theirs) = io::pipe()?;
    Ok((Receiver::from_owned_fd(ours.into())?, theirs.into()))
}

impl Output {
    /// Keeps at most `max_bytes` of both streams, cut in the middle.
    pub fn together(max_bytes: usize, redactor: &Redactor) -> Self {
        Self { text: BoundedOutput::new(max_bytes, redactor), stdout: None, seen: 0, is_flooded: false }
    }

    /// Keeps at most `max_bytes` of stdout, where more is an error.
    pub fn apart(max_bytes: usize, redactor: &Redactor) -> Self {
        Self { stdout: Some((Vec::new(), max_bytes)), ..Self::together(STDERR_MAX_BYTES, redactor) }
    }

    /// Pipes for this output, and the program's ends of them: stdout and stderr, or one for both.
    pub fn pipes(&self) -> io::Result<(Pipes, Vec<OwnedFd>)> {
        let (stdout, their_stdout) = pipe()?;
        let errors = self.stdout.is_some().then(pipe).transpose()?;
        let (stderr, their_stderr) = errors.unzip();
        Ok((Pipes { stdout, stderr }, [their_stdout].into_iter().chain(their_stderr).collect()))
    }

    /// Reads until every writer has ended, or a limit is exceeded, which is an error; `most` is that for both streams.
    pub async fn collect(&mut self, pipes: &mut Pipes, most: u64) -> io::Result<()> {
        let (mut stdout_buffer, mut stderr_buffer) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        let (mut is_open, mut has_errors) = (true, pipes.stderr.is_some());
        while is_open || has_errors {
            tokio::select! {
                count = pipes.stdout.read(&mut stdout_buffer), if is_open => {
                    let part = stdout_buffer.get(..count?).unwrap_or_default();
                    is_open = !part.is_empty();
                    self.take_stdout(part);
                }
                count = read(pipes.stderr.as_mut(), &mut stderr_buffer), if has_errors => {
                    let part = stderr_buffer.get(..count?).unwrap_or_default();
                    has_errors = !part.is_empty();
                    self.take(part);
                }
            }
            if self.is_full(most) {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        Ok(())
    }

    fn take_stdout(&mut self, part: &[u8]) {
        let Some((stdout, max)) = &mut self.stdout else { return self.take(part) };
        self.seen = self.seen.saturating_add(length(part.len()));
        if stdout.len() + part.len() <= *max {
            stdout.extend_from_slice(part);
        } else {
            self.is_flooded = true;
        }
    }

    /// Takes a part of stderr, or of both streams.
    pub fn take(&mut self, part: &[u8]) {
        self.seen = self.seen.saturating_add(length(part.len()));
        self.text.push(part);
    }

    /// Whether the limits are exceeded, `most` being that for both streams.
    pub fn is_full(&self, most: u64) -> bool {
        self.is_flooded || self.seen > most
    }

    /// The limit, `most` being that for both streams.
    pub fn most_bytes(&self, most: u64) -> u64 {
        self.stdout.as_ref().map_or(most, |(_, max)| most.min(length(*max)))
    }

    /// The kept text; of stderr if the streams are separate.
    pub fn into_text(self) -> String {
        self.text.into_text()
    }

    /// All of stdout, and what is kept of stderr.
    pub fn into_streams(self) -> (Vec<u8>, String) {
        (self.stdout.unwrap_or_default().0, self.text.into_text())
    }
}

async fn read(from: Option<&mut Receiver>, buffer: &mut [u8]) -> io::Result<usize> {
    match from {
        Some(from) => from.read(buffer).await,
        None => Ok(0),
    }
}

/// The beginning and the end of the pushed bytes, within a limit.
#[derive(Debug)]
struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    stream: StreamRedactor,
    /// An incomplete character at the end.
    begun: Vec<u8>,
    /// The number of bytes received, after redaction.
    redacted: u64,
}

impl BoundedOutput {
    /// Keeps at most `max_bytes` including the mark, a quarter of it from the beginning.
    pub fn new(max_bytes: usize, redactor: &Redactor) -> Self {
        let kept_max = max_bytes.saturating_sub(MARK_MAX_BYTES);
        let head_max = kept_max / 4;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max,
            tail_max: kept_max - head_max,
            stream: redactor.stream(),
            begun: Vec::new(),
            redacted: 0,
        }
    }

    /// Adds bytes. Invalid UTF-8 becomes a question mark, so that the text is not longer than the bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut come = std::mem::take(&mut self.begun);
        come.extend_from_slice(bytes);
        self.begun = come.split_off(come.len() - bound::begun_character(&come));
        let redacted = self.stream.push(&text(&come));
        self.keep(redacted.as_bytes());
        if self.stream.held_bytes() > HELD_MAX_BYTES {
            let redacted = self.stream.give_way();
            self.keep(redacted.as_bytes());
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.redacted = self.redacted.saturating_add(length(bytes.len()));
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_max));
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    pub fn into_text(mut self) -> String {
        let begun = std::mem::take(&mut self.begun);
        let rest = self.stream.push(&text(&begun)) + &self.stream.finish();
        self.keep(rest.as_bytes());
        let Self { mut head, tail, redacted, .. } = self;
        let tail = Vec::from(tail);
        if redacted == length(head.len() + tail.len()) {
            head.extend_from_slice(&tail);
            return text(&head);
        }
        // A character split by the cut is left out.
        let last = head.iter().rposition(|byte| (*byte & 0xC0) != 0x80).unwrap_or(0);
        if std::str::from_utf8(head.split_at(last).1).is_err() {
            head.truncate(last);
        }
        let rest = tail.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
        let (_, tail) = tail.split_at(rest);
        let left_out = redacted.saturating_sub(length(head.len() + tail.len()));
        format!("{}\n[... {left_out} bytes left out ...]\n{}", text(&head), text(tail))
    }
}

fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push('?');
        }
    }
    text
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! The two streams of a program as frames on the one socket that leads out of the sandbox.
//!
//! A frame is the number of the stream, the length of the data as four bytes in big-endian order, and the data. Frames
//! are written inside the sandbox, so they are untrusted.

use std::io::{self, Write};

use super::output::BoundedOutput;
use crate::redact::Redactor;

pub(super) const PART_MAX_BYTES: usize = 64 << 10;

pub(super) const HEADER_BYTES: usize = 5;

const STDERR_MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
    /// A connection to the proxy: a socket attached to a frame without data.
    Connection,
}

/// The stream and data length of a frame; `None` = an invalid header.
pub(super) fn header(bytes: [u8; HEADER_BYTES]) -> Option<(Stream, usize)> {
    let [number, length @ ..] = bytes;
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    Stream::of(number).filter(|_| length <= PART_MAX_BYTES).map(|stream| (stream, length))
}

impl Stream {
    fn number(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Connection => 3,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::Stdout, Self::Stderr, Self::Connection].into_iter().find(|stream| stream.number() == number)
    }
}

/// Writes a part of a stream, at most [`PART_MAX_BYTES`], as a frame.
pub(super) fn write(to: &mut impl Write, stream: Stream, part: &[u8]) -> io::Result<()> {
    to.write_all(&frame(stream, part)?)
}

pub(super) fn frame(stream: Stream, part: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(part.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut frame = Vec::with_capacity(HEADER_BYTES + part.len());
    frame.push(stream.number());
    frame.extend_from_slice(&length);
    frame.extend_from_slice(part);
    Ok(frame)
}

/// The two streams so far: all of stdout up to a limit, and the beginning and the end of stderr.
#[derive(Debug)]
pub(super) struct Apart {
    stdout: Vec<u8>,
    stdout_max_bytes: usize,
    stderr: BoundedOutput,
    seen: u64,
    is_flooded: bool,
}

impl Apart {
    /// Keeps at most `stdout_max_bytes` of stdout, unchanged, and redacts stderr.
    pub(super) fn new(stdout_max_bytes: usize, redactor: &Redactor) -> Self {
        let stderr = BoundedOutput::new(STDERR_MAX_BYTES, redactor);
        Self { stdout: Vec::new(), stdout_max_bytes, stderr, seen: 0, is_flooded: false }
    }

    pub(super) fn push(&mut self, stream: Stream, part: &[u8]) {
        self.seen = self.seen.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        match stream {
            Stream::Connection => {}
            Stream::Stderr => self.stderr.push(part),
            Stream::Stdout if self.stdout.len() + part.len() <= self.stdout_max_bytes => {
                self.stdout.extend_from_slice(part);
            }
            Stream::Stdout => self.is_flooded = true,
        }
    }

    /// The limit of stdout.
    pub(super) fn most_bytes(&self) -> u64 {
        u64::try_from(self.stdout_max_bytes).unwrap_or(u64::MAX)
    }

    /// Whether stdout exceeded its limit, or both streams together exceeded `most`.
    pub(super) fn is_full(&self, most: u64) -> bool {
        self.is_flooded || self.seen > most
    }

    /// All of stdout, and the kept part of stderr as text.
    pub(super) fn into_streams(self) -> (Vec<u8>, String) {
        (self.stdout, self.stderr.into_text().0)
    }
}

//! The two streams of a program that are told apart: frames in the one pipe that leads out of the sandbox.
//!
//! A frame is the number of the stream, the length of what follows as four bytes, big end first, and so many bytes.
//! Frames are written by a stage that stands in the sandbox with the program, so they are read as something that
//! anybody may have written.

use std::io::{self, Write};

use super::output::BoundedOutput;
use crate::redact::Redactor;

/// The longest part of a stream in one frame.
pub(super) const PART_MAX_BYTES: usize = 64 << 10;

pub(super) const HEADER_BYTES: usize = 5;

const STDERR_MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
    /// None, but a connection to the proxy: a socket comes with the frame, and no part.
    Connection,
}

/// Which stream the frame with this header is of, and how long its part is; `None` = it is no header.
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

/// What has come of both streams: of stdout every byte up to a bound, of stderr its beginning and its end.
#[derive(Debug)]
pub(super) struct Apart {
    stdout: Vec<u8>,
    stdout_max_bytes: usize,
    stderr: BoundedOutput,
    header: Vec<u8>,
    stream: Stream,
    /// Bytes of the frame that are still to come.
    missing: usize,
    seen: u64,
    fault: Option<StreamFault>,
}

/// Why what has come cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamFault {
    /// More came on stdout than may.
    Flooded,
    /// It is no sequence of frames.
    Broken,
}

impl Apart {
    /// Keeps at most so much of stdout, all of it as it is; stderr is redacted.
    pub(super) fn new(stdout_max_bytes: usize, redactor: &Redactor) -> Self {
        Self {
            stdout: Vec::new(),
            stdout_max_bytes,
            stderr: BoundedOutput::new(STDERR_MAX_BYTES, redactor),
            header: Vec::new(),
            stream: Stream::Stdout,
            missing: 0,
            seen: 0,
            fault: None,
        }
    }

    /// Takes what came through the pipe, however it was cut on the way.
    pub(super) fn push_frames(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.fault.is_none() {
            if self.missing > 0 {
                let (part, rest) = bytes.split_at(self.missing.min(bytes.len()));
                self.missing -= part.len();
                self.push(self.stream, part);
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at((HEADER_BYTES - self.header.len()).min(bytes.len()));
            self.header.extend_from_slice(part);
            bytes = rest;
            if let Ok(whole) = <[u8; HEADER_BYTES]>::try_from(self.header.as_slice()) {
                match header(whole) {
                    Some(next) => (self.stream, self.missing) = next,
                    None => self.fault = Some(StreamFault::Broken),
                }
                self.header.clear();
            }
        }
    }

    /// Takes a part of a stream.
    pub(super) fn push(&mut self, stream: Stream, part: &[u8]) {
        self.seen = self.seen.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        match stream {
            // Where there is a proxy, they are taken out before.
            Stream::Connection => self.fault = Some(StreamFault::Broken),
            Stream::Stderr => self.stderr.push(part),
            Stream::Stdout if self.stdout.len() + part.len() <= self.stdout_max_bytes => {
                self.stdout.extend_from_slice(part);
            }
            Stream::Stdout => self.fault = Some(StreamFault::Flooded),
        }
    }

    /// How much may come on stdout.
    pub(super) fn most_bytes(&self) -> u64 {
        u64::try_from(self.stdout_max_bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Why it cannot be taken, if so.
    pub(super) fn fault(&self) -> Option<StreamFault> {
        self.fault
    }

    /// All of stdout, and what is kept of stderr as text.
    pub(super) fn into_streams(self) -> (Vec<u8>, String) {
        (self.stdout, self.stderr.into_text().0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_streams_come_out_as_they_went_in_however_they_were_cut(
            parts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
            cut in 1_usize..9,
        ) {
            let mut pipe = Vec::new();
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            for (is_stdout, part) in &parts {
                let (stream, all) =
                    if *is_stdout { (Stream::Stdout, &mut stdout) } else { (Stream::Stderr, &mut stderr) };
                write(&mut pipe, stream, part).unwrap();
                all.extend_from_slice(part);
            }
            let mut apart = Apart::new(1 << 20, &Redactor::default());
            pipe.chunks(cut).for_each(|bytes| apart.push_frames(bytes));
            prop_assert_eq!(apart.fault(), None);
            prop_assert_eq!(apart.seen(), u64::try_from(stdout.len() + stderr.len()).unwrap());
            let (out, err) = apart.into_streams();
            prop_assert_eq!(out, stdout);
            let mut text = BoundedOutput::new(STDERR_MAX_BYTES, &Redactor::default());
            text.push(&stderr);
            prop_assert_eq!(err, text.into_text().0);
        }

        #[test]
        fn whatever_comes_is_taken_or_is_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut apart = Apart::new(64, &Redactor::default());
            bytes.chunks(7).for_each(|bytes| apart.push_frames(bytes));
            let (stdout, stderr) = apart.into_streams();
            prop_assert!(stdout.len() <= 64 && stderr.len() <= STDERR_MAX_BYTES);
        }
    }

    #[test]
    fn a_byte_too_many_on_stdout_is_a_flood_and_a_long_frame_is_broken() {
        let mut apart = Apart::new(3, &Redactor::default());
        apart.push(Stream::Stdout, b"abc");
        assert_eq!(apart.fault(), None);
        apart.push(Stream::Stdout, b"d");
        assert_eq!(apart.fault(), Some(StreamFault::Flooded));

        let mut apart = Apart::new(3, &Redactor::default());
        apart.push_frames(&[1, 0xFF, 0xFF, 0xFF, 0xFF, 0]);
        assert_eq!(apart.fault(), Some(StreamFault::Broken));
        let mut apart = Apart::new(3, &Redactor::default());
        apart.push_frames(&[4, 0, 0, 0, 1, 0]);
        assert_eq!(apart.fault(), Some(StreamFault::Broken));
    }
}

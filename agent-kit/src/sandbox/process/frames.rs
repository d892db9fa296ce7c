//! The output of a sandbox as frames on the one socket that leads out of it: parts of both streams, and connections to
//! the proxy.
//!
//! A frame is the number of the stream, the length of the data as four bytes in big-endian order, and the data. A
//! connection is a frame without data that has an open socket attached: the program's end of a connection to its proxy.
//! The sender is inside the sandbox, so both are untrusted.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;

use bytes::{Bytes, BytesMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::output::Stream;

pub(super) const PART_MAX_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 5;
const READ_BYTES: usize = 64 << 10;
/// The maximum sockets attached to one message; the kernel allows no more.
const SOCKETS_MAX: usize = 253;

/// The frame of a part of a stream, at most [`PART_MAX_BYTES`].
pub(super) fn frame(stream: Stream, part: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(part.len()).map_err(io::Error::other)?.to_be_bytes();
    Ok([&[stream as u8], &length[..], part].concat())
}

/// The stream and data length of a frame; `None` = an invalid header.
fn header([number, length @ ..]: [u8; HEADER_BYTES]) -> Option<(Stream, usize)> {
    let stream = [Stream::Stdout, Stream::Stderr, Stream::Connection].into_iter().find(|of| *of as u8 == number)?;
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    (length <= PART_MAX_BYTES).then_some((stream, length))
}

#[derive(Debug)]
pub(super) enum Frame {
    Part(Stream, Bytes),
    Connection(OwnedFd),
}

pub(super) struct Frames {
    socket: OwnedReadHalf,
    received: Received,
}

/// What was received and not read yet.
#[derive(Default)]
struct Received {
    bytes: BytesMut,
    sockets: VecDeque<OwnedFd>,
}

impl Received {
    fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some(first) = self.bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let broken = || io::Error::other("its output could not be split into stdout and stderr");
        let (stream, length) = header(*first).ok_or_else(broken)?;
        if self.bytes.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        let part = self.bytes.split_to(HEADER_BYTES + length).freeze().slice(HEADER_BYTES..);
        Ok(Some(match stream {
            Stream::Connection => Frame::Connection(self.sockets.pop_front().ok_or_else(broken)?),
            stream => Frame::Part(stream, part),
        }))
    }
}

impl Frames {
    /// Frames from a new socket, the way to its other end, and that end.
    pub(super) fn pair() -> io::Result<(Self, OwnedWriteHalf, OwnedFd)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (socket, to_theirs) = UnixStream::from_std(ours)?.into_split();
        Ok((Self { socket, received: Received::default() }, to_theirs, theirs.into()))
    }

    /// The next frame; `None` = there are no more.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.received.next()? {
                return Ok(Some(frame));
            }
            if self.receive().await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn receive(&mut self) -> io::Result<usize> {
        let stream: &UnixStream = self.socket.as_ref();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            stream.readable().await?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = stream.try_io(Interest::READABLE, || {
                let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
                Ok(recvmsg(stream, &mut [IoSliceMut::new(&mut buffer)], &mut control, flags)?.bytes)
            });
            let count = match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                // The other end was closed with unread data in it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                received => received?,
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(sockets) = message {
                    self.received.sockets.extend(sockets);
                }
            }
            self.received.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests;

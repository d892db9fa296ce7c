//! What comes out of a sandbox by a pair of sockets: parts of both streams as frames, and connections that a program wants.
//!
//! A connection is a frame without a part that brings an open socket along: what the program says to its proxy. The
//! sender stands in the sandbox, so both are read as something that anybody may have written.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use super::apart::{HEADER_BYTES, Stream, header};

const READ_BYTES: usize = 64 << 10;
/// The most sockets that one message brings along; the kernel takes no more.
const SOCKETS_MAX: usize = 253;

pub(super) enum Frame {
    Part(Stream, Vec<u8>),
    Connection(OwnedFd),
}

pub(super) struct Frames {
    socket: OwnedReadHalf,
    bytes: Vec<u8>,
    sockets: VecDeque<OwnedFd>,
}

impl Frames {
    pub(super) fn new(socket: OwnedReadHalf) -> Self {
        Self { socket, bytes: Vec::new(), sockets: VecDeque::new() }
    }

    /// The next one; `None` = there are no more.
    ///
    /// # Errors
    /// What comes is no sequence of frames.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some((bytes, rest)) = self.bytes.split_first_chunk::<HEADER_BYTES>() {
                let broken = || io::Error::other("what the program put out could not be told apart");
                let (stream, length) = header(*bytes).ok_or_else(broken)?;
                if let Some(part) = rest.get(..length) {
                    let part = part.to_vec();
                    self.bytes.drain(..HEADER_BYTES + length);
                    return Ok(Some(match stream {
                        Stream::Connection => Frame::Connection(self.sockets.pop_front().ok_or_else(broken)?),
                        stream => Frame::Part(stream, part),
                    }));
                }
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
                // The other end is gone with something unread in it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                received => received?,
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(sockets) = message {
                    self.sockets.extend(sockets);
                }
            }
            self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            return Ok(count);
        }
    }
}

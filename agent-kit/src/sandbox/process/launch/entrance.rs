//! The program's end of its proxy: a port on its own loopback, and the way from there out of the sandbox.
//!
//! Each connection gets a socket pair, of which one end is sent out with a frame; data is forwarded between the port
//! and the other end. The decision about the host is made outside.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    netlink::SocketAddrNetlink, recv, sendmsg, sendto, socket_with,
};

use super::super::frames::{self, PART_MAX_BYTES};
use super::super::output::Stream;
use super::super::proxy::CONNECTIONS_MAX;

/// The variables that name a proxy. `NODE_USE_ENV_PROXY` makes Node use the others
/// (<https://nodejs.org/api/cli.html#node_use_env_proxy1>).
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/// A port that only the program can connect to, opened before the sandbox is set up.
pub(super) struct Entrance {
    listener: TcpListener,
    pub port: u16,
}

impl Entrance {
    pub fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    pub fn name_to(&self, command: &mut Command) {
        let address = format!("http://127.0.0.1:{}", self.port);
        command.env("NODE_USE_ENV_PROXY", "1");
        for name in VARIABLES {
            command.env(name, &address);
        }
    }

    pub fn serve(self) {
        std::thread::spawn(move || {
            let places = Arc::new(());
            for connection in self.listener.incoming().map_while(Result::ok) {
                // Each connection holds two references, one per direction.
                if Arc::strong_count(&places) > 2 * CONNECTIONS_MAX {
                    continue;
                }
                let _ = pass_on(connection, &places);
            }
        });
    }
}

fn pass_on(connection: TcpStream, places: &Arc<()>) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    {
        // The lock keeps frames whole.
        let stderr = io::stderr().lock();
        let frame = frames::frame(Stream::Connection, &[])?;
        let sockets = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&sockets));
        let sent = sendmsg(stderr.as_fd(), &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)?;
        // A socket writes so few bytes at once or not at all.
        debug_assert_eq!(sent, frame.len());
    }
    let (to_server, to_program) = (ours.try_clone()?, connection.try_clone()?);
    let (place, other) = (Arc::clone(places), Arc::clone(places));
    std::thread::spawn(move || {
        pump(&connection, &to_server);
        let _ = to_server.shutdown(Shutdown::Write);
        drop(place);
    });
    std::thread::spawn(move || {
        pump(&ours, &to_program);
        let _ = to_program.shutdown(Shutdown::Write);
        drop(other);
    });
    Ok(())
}

/// Copies until either side is closed. Not `io::copy`, which would splice: a reader would then get nothing until more
/// data arrives.
pub(super) fn pump<'a, F, T>(mut from: &'a F, mut to: &'a T)
where
    &'a F: Read,
    &'a T: Write,
{
    let mut buffer = vec![0; PART_MAX_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
            break;
        }
    }
}

/// Brings up the loopback device of our network namespace (<https://man7.org/linux/man-pages/man7/rtnetlink.7.html>).
pub(super) fn switch_loopback_on() -> io::Result<()> {
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const UP: u32 = 1;
    const LOOPBACK: i32 = 1;
    let request = [
        &32_u32.to_ne_bytes()[..],
        &NEW_LINK.to_ne_bytes(),
        &REQUEST_AND_ACK.to_ne_bytes(),
        // Sequence and port, then family and kind of device.
        &[0; 12],
        &LOOPBACK.to_ne_bytes(),
        &UP.to_ne_bytes(),
        &UP.to_ne_bytes(),
    ]
    .concat();
    // Protocol 0 is that of routes.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 64];
    recv(&socket, &mut answer, rustix::net::RecvFlags::empty())?;
    // The error follows the header of 16 bytes; 0 means none.
    match answer.get(16..20).and_then(|error| <[u8; 4]>::try_from(error).ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::Error::other("the kernel does not answer")),
    }
}

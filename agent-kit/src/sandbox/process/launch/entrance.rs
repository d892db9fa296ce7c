//! The program's end of its proxy: a port on its own loopback. Its connections are accepted outside the sandbox, where
//! the decision about the host is made.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, netlink::SocketAddrNetlink, recv, sendto, socket_with,
};

use super::super::descriptors;

/// The variables that name a proxy. `NODE_USE_ENV_PROXY` makes Node use the others
/// (<https://nodejs.org/api/cli.html#node_use_env_proxy1>).
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"];

/// Opens a port that only the program can connect to, hands it out and names it to the program. The sandbox, once set
/// up, forbids it.
pub(super) fn open(command: &mut Command) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    descriptors::send(io::stderr(), &[listener.as_fd()])?;
    let address = format!("http://127.0.0.1:{port}");
    command.env("NODE_USE_ENV_PROXY", "1").envs(VARIABLES.map(|name| (name, &address)));
    Ok(port)
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

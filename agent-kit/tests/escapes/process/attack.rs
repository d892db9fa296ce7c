//! This binary as the attacking program, and as a host that is killed.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::process::ExitCode;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sendto, socket, socketpair};

/// The verb by which this binary attacks.
pub const VERB: &str = "__attack";

/// When this process was started to attack: does it, and tells with `out` and exit code 0 that it got out.
pub fn entered() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = arguments.split_first()?;
    if verb == super::endings::HOST {
        return Some(super::endings::host(rest));
    }
    if verb == super::hosts::VERB {
        super::hosts::say(rest);
        return Some(ExitCode::SUCCESS);
    }
    if verb != VERB {
        return None;
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let out = match rest.as_slice() {
        ["tcp", address] => TcpStream::connect(address).is_ok(),
        ["listen"] => TcpListener::bind("127.0.0.1:0").is_ok(),
        ["udp", address] => {
            let here = if address.starts_with('[') { "[::1]:0" } else { "127.0.0.1:0" };
            UdpSocket::bind(here).and_then(|socket| socket.send_to(b"out", address)).is_ok()
        }
        ["unix", path] => UnixStream::connect(path).is_ok(),
        ["abstract", name] => {
            SocketAddr::from_abstract_name(name).and_then(|name| UnixStream::connect_addr(&name)).is_ok()
        }
        ["datagram", path] => UnixDatagram::unbound().and_then(|socket| socket.send_to(b"out", path)).is_ok(),
        // A pair of datagram sockets needs no `socket`, and each can be pointed elsewhere.
        ["pair", path] => {
            let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::empty(), None);
            pair.is_ok_and(|(one, _)| {
                let to = SocketAddrUnix::new(*path).unwrap();
                sendto(&one, b"out", rustix::net::SendFlags::empty(), &to).is_ok()
            })
        }
        ["netlink"] => socket(AddressFamily::NETLINK, SocketType::RAW, None).is_ok(),
        ["packet"] => socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).is_ok(),
        _ => return Some(ExitCode::from(2)),
    };
    if out {
        println!("out");
    }
    Some(if out { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

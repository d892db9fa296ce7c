//! The socket beside a store, over which the process that holds the store serves it to the others.
//!
//! Each process drives its own threads. What goes over the socket is what a store is asked: reads, commits, journal
//! records, values of hooks; and who drives which thread, so that a thread can be cancelled from anywhere. No setting
//! and no key does. Only processes of the same user and version are served. Frames are bounded, and large scans are
//! paged.
//!
//! This module knows nothing of workflows, engines or terminals.

mod client;
mod drivers;
mod frame;
mod server;
mod wire;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use client::{Client, Lost, driven};
pub use drivers::{Drivers, GuestId};
pub use frame::MAX_FRAME_BYTES;
pub use server::{Server, answer};
pub use wire::{Answer, Ask, Durable, Freed};

/// The socket's name in the folder of a store.
const FILE: &str = "socket";

/// The longest path that an address holds everywhere: 104 bytes on BSD systems, with the closing zero.
const MAX_PATH_BYTES: usize = 103;

/// How long the process that holds the store may take to show that it is there.
pub const ANSWER: Duration = Duration::from_secs(2);

/// Listens beside the store in `folder`, in place of a socket that a killed process left there: so whoever calls this
/// holds the store's lock.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = at_address(folder, |address| UnixListener::bind(address))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the process that holds the store in `folder`.
fn connect(folder: &Path) -> io::Result<UnixStream> {
    let stream = at_address(folder, |address| UnixStream::connect(address))?;
    if is_own(&stream) { Ok(stream) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Whether the other side is of the same user.
fn is_own(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Uses the address of the socket in `folder`. A path that is too long for an address is reached through the folder's
/// descriptor.
fn at_address<T>(folder: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = folder.join(FILE);
    if path.as_os_str().len() <= MAX_PATH_BYTES {
        return with(&path);
    }
    let opened = std::fs::File::open(folder)?;
    with(&PathBuf::from(format!("/proc/self/fd/{}/{FILE}", opened.as_raw_fd())))
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

//! The socket in the folder of a store.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

pub(super) const FILE: &str = "socket";

/// The longest path that fits an address on all systems: 104 bytes on BSD systems, with the terminating zero.
const MAX_PATH_BYTES: usize = 103;

/// Listens at the store in `folder`, and replaces a socket left by a killed process. The caller holds the store's
/// lock.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
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
pub(super) fn connect(folder: &Path) -> io::Result<UnixStream> {
    let stream = at_address(folder, |address| UnixStream::connect(address))?;
    if is_own(&stream) { Ok(stream) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Whether the other side runs as the same user.
pub(super) fn is_own(stream: &UnixStream) -> bool {
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

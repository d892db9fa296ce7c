//! The socket beside a store, over which one process hands a request to the one that holds the store.
//!
//! Frames are lines of JSON, bounded in size; what they mean is for whoever sends them. Only processes of the same
//! user are served. Closing a connection is how a request is taken back.
//!
//! This module knows nothing of workflows, engines or terminals.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// The socket's name in the folder of a store.
const FILE: &str = "socket";

/// The most bytes of a frame.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// The longest path that an address holds everywhere: 104 bytes on BSD systems, with the closing zero.
const MAX_PATH_BYTES: usize = 103;

/// Why a frame could not be had or sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system.
    #[error("the socket of the store: {0}")]
    Io(#[from] io::Error),
    /// A frame is longer than [`MAX_FRAME_BYTES`].
    #[error("a message on the socket of the store is larger than {MAX_FRAME_BYTES} bytes")]
    TooLarge,
    /// The other side belongs to another user.
    #[error("the other side of the socket belongs to another user")]
    OtherUser,
}

/// The holder's side. Dropping it takes the socket away.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Listens beside the store in `folder`, in place of a socket that a killed process left there: so whoever calls
    /// this holds the store's lock.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn bind(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = at_address(folder, |address| UnixListener::bind(address))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path })
    }

    /// The next connection of this user; others are closed without a word.
    ///
    /// # Errors
    /// When the system can give no more.
    pub async fn accept(&self) -> io::Result<Connection> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if let Ok(connection) = Connection::new(stream) {
                return Ok(connection);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever opens the store next replaces what is left.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connects to the holder of the store in `folder`.
///
/// # Errors
/// [`Error::Io`] when nobody listens, [`Error::OtherUser`].
///
/// # Panics
/// Outside a tokio runtime.
pub fn connect(folder: &Path) -> Result<Connection, Error> {
    let stream = at_address(folder, |address| std::os::unix::net::UnixStream::connect(address))?;
    stream.set_nonblocking(true)?;
    Connection::new(UnixStream::from_std(stream)?)
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

/// A connection between two processes of one user.
#[derive(Debug)]
pub struct Connection {
    /// What comes in.
    pub incoming: Incoming,
    /// What goes out.
    pub outgoing: Outgoing,
}

impl Connection {
    fn new(stream: UnixStream) -> Result<Self, Error> {
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::OtherUser);
        }
        let (reader, writer) = stream.into_split();
        Ok(Self { incoming: Incoming(BufReader::new(reader)), outgoing: Outgoing(writer) })
    }
}

/// Frames that come in.
#[derive(Debug)]
pub struct Incoming(BufReader<OwnedReadHalf>);

impl Incoming {
    /// The next frame, or `None` when the other side has closed. A frame that was cut off is none.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Io`].
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut frame = Vec::new();
        let limit = u64::try_from(MAX_FRAME_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        (&mut self.0).take(limit).read_until(b'\n', &mut frame).await?;
        if frame.pop() == Some(b'\n') {
            return Ok(Some(frame));
        }
        if frame.len() >= MAX_FRAME_BYTES { Err(Error::TooLarge) } else { Ok(None) }
    }
}

/// Frames that go out.
#[derive(Debug)]
pub struct Outgoing(OwnedWriteHalf);

impl Outgoing {
    /// Sends a frame, which holds no newline.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Io`], also when the other side has closed.
    pub async fn send(&mut self, mut frame: Vec<u8>) -> Result<(), Error> {
        if frame.len() > MAX_FRAME_BYTES {
            return Err(Error::TooLarge);
        }
        frame.push(b'\n');
        self.0.write_all(&frame).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_go_both_ways_and_end_with_the_connection() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::bind(folder.path()).unwrap();
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let asking = async {
            let mut client = connect(folder.path()).unwrap();
            client.outgoing.send(b"{\"a\":1}".to_vec()).await.unwrap();
            client.incoming.next().await.unwrap()
        };
        let answering = async {
            let mut peer = server.accept().await.unwrap();
            let asked = peer.incoming.next().await.unwrap();
            peer.outgoing.send(b"{}".to_vec()).await.unwrap();
            (asked, peer.incoming.next().await.unwrap())
        };
        let (answer, (asked, after)) = tokio::join!(asking, answering);
        assert_eq!(answer.as_deref(), Some(b"{}".as_slice()));
        assert_eq!(asked.as_deref(), Some(b"{\"a\":1}".as_slice()));
        assert_eq!(after, None);
        drop(server);
        assert!(matches!(connect(folder.path()), Err(Error::Io(_))));
    }

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_a_long_path_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(60)).join("b".repeat(60));
        std::fs::create_dir_all(&deep).unwrap();
        let left = Server::bind(&deep).unwrap();
        std::mem::forget(left);
        let server = Server::bind(&deep).unwrap();
        let (client, peer) = (connect(&deep), server.accept().await);
        assert!(client.is_ok() && peer.is_ok());
    }

    #[tokio::test]
    async fn a_frame_that_is_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::bind(folder.path()).unwrap();
        let mut client = connect(folder.path()).unwrap();
        let mut peer = server.accept().await.unwrap();
        let frame = vec![b'x'; MAX_FRAME_BYTES + 1];
        assert!(matches!(client.outgoing.send(frame.clone()).await, Err(Error::TooLarge)));
        let sending = tokio::spawn(async move { client.outgoing.0.write_all(&frame).await });
        assert!(matches!(peer.incoming.next().await, Err(Error::TooLarge)));
        drop(peer);
        let _ = sending.await;
    }
}

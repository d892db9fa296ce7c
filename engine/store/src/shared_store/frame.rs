//! Frames: a four-byte big-endian length, and a message of that length encoded with postcard.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes of a frame: more than the largest commit needs.
pub(super) const MAX_FRAME_BYTES: usize = 512 << 20;

/// How much of a frame is read at a time, so that a false length costs nothing.
const CHUNK_BYTES: usize = 64 << 10;

/// Sends a message. Calls `patience` each time the other side accepts nothing during the stream's timeout.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is too large, and any error of the system.
pub(super) fn send<T: Serialize>(
    mut stream: &UnixStream,
    message: &T,
    patience: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME_BYTES);
    let Some(length) = length else {
        let what = format!("a message of {} bytes is too large for the socket of the store", bytes.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    };
    let mut frame = Vec::with_capacity(bytes.len() + 4);
    frame.extend(length.to_be_bytes());
    frame.extend(bytes);
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => patience()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives the next message; `None` if the other side has closed.
///
/// # Errors
/// [`ErrorKind::InvalidData`] if it is not a message, and any error of the system.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
    patience: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Option<T>> {
    let Some(length) = read(stream, 4, patience)? else { return Ok(None) };
    let length = length.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(ErrorKind::InvalidData, "a message on the socket of the store is too large"));
    }
    let Some(bytes) = read(stream, length, patience)? else { return Ok(None) };
    postcard::from_bytes(&bytes).map(Some).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

fn read(
    mut stream: &UnixStream,
    length: usize,
    patience: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; length.min(CHUNK_BYTES)];
    while bytes.len() < length {
        let room = chunk.get_mut(..length.saturating_sub(bytes.len()).min(CHUNK_BYTES)).unwrap_or_default();
        match stream.read(room) {
            Ok(0) => return Ok(None),
            Ok(read) => bytes.extend_from_slice(room.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => patience()?,
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A `patience` that does not wait.
pub(super) fn at_once() -> io::Result<()> {
    Err(ErrorKind::TimedOut.into())
}

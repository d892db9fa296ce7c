//! What a process has besides its store: its runtime and its working folder.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rondo_protocol::diagnostic::Code;

use crate::failure::Failure;

/// How many descriptors the runtime needs, at least. It panics where it gets none for signals.
const DESCRIPTORS: usize = 16;

/// The runtime for servers, programs and threads.
///
/// # Errors
/// [`Code::WriteFailed`] if the system gives no threads or descriptors.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let tried: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    tried
        .map(drop)
        .and_then(|()| tokio::runtime::Builder::new_multi_thread().enable_all().build())
        .map_err(|error| Failure::new(Code::WriteFailed, format!("the process cannot start its threads: {error}")))
}

/// The working folder.
///
/// # Errors
/// [`Code::WriteFailed`] if it is gone.
pub fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::new(Code::WriteFailed, format!("the working folder: {error}")))
}

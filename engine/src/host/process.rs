//! What a process has besides its store: its runtime and its working folder.

use std::path::PathBuf;

use rondo_protocol::diagnostic::Code;

use crate::failure::Failure;

/// The runtime for servers, programs and threads.
///
/// # Errors
/// [`Code::InternalFault`] if the system gives no threads.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::InternalFault, format!("no runtime: {error}")))
}

/// The working folder.
///
/// # Errors
/// [`Code::WriteFailed`] if it is gone.
pub fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::new(Code::WriteFailed, format!("the working folder: {error}")))
}

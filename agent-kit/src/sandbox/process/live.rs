//! A program that keeps running and is talked to, until it ends or is ended.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::plan::Exit;
use crate::error::Error;

/// A program with its streams.
pub struct Live {
    /// Its standard input, closed when dropped.
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
    /// Its standard error. It must be read, or the program blocks.
    pub stderr: Pin<Box<dyn AsyncRead + Send>>,
    /// Dropping it ends the program.
    pub running: Running,
}

/// The handle that ends a running program.
#[derive(Debug)]
pub struct Running {
    pub(super) stop: CancellationToken,
    /// How it ended, as soon as it has.
    pub(super) ended: watch::Receiver<Option<Result<Exit, Error>>>,
}

impl Running {
    /// Ends the program: closes its input, and kills the whole process tree if it is still alive after half a second.
    pub fn end(&self) {
        self.stop.cancel();
    }

    /// Waits until every process of it is dead and returns how it ended. The future does not borrow this handle.
    ///
    /// # Errors
    /// Why it was not started, or was ended.
    pub fn ended(&self) -> impl Future<Output = Result<Exit, Error>> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            ended.unwrap_or_else(|| Err(super::not_started("the supervisor of the program has ended")))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

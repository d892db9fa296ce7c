//! A program that goes on: spoken to while it runs, until it ends or is ended.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::plan::Exit;
use crate::error::Error;

/// A program with its streams.
pub struct Live {
    /// What the program reads. It is closed by being dropped.
    pub stdin: Pin<Box<dyn AsyncWrite + Send>>,
    /// What it puts out on stdout.
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
    /// What it puts out on stderr. A program whose stderr is not read blocks in the end.
    pub stderr: Pin<Box<dyn AsyncRead + Send>>,
    /// Dropping it ends the program.
    pub running: Running,
}

/// The end of a program that goes on.
#[derive(Debug)]
pub struct Running {
    told: CancellationToken,
    ended: watch::Receiver<Option<Result<Exit, Error>>>,
}

impl Running {
    /// With what tells the program to end, and what tells that it has.
    pub(super) fn new(told: CancellationToken, ended: watch::Receiver<Option<Result<Exit, Error>>>) -> Self {
        Self { told, ended }
    }

    /// Ends the program: closes its input, and kills the whole process tree if it is still alive after half a second.
    pub fn end(&self) {
        self.told.cancel();
    }

    /// Waits until every process of it is dead, and tells how it ended. The future does not hold on to this.
    ///
    /// # Errors
    /// What kept it from being started, or ended it otherwise than by itself.
    pub fn ended(&self) -> impl Future<Output = Result<Exit, Error>> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
            ended.unwrap_or_else(|| Err(super::not_started("nobody watches over the program any more")))
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.told.cancel();
    }
}

//! The host: what a process that runs threads has once, and shares between them.

pub(crate) mod recording;
pub(crate) mod run_config;
pub(crate) mod tooling;

use std::sync::Arc;

use rondo_protocol::event::EventId;
use rondo_protocol::id::ThreadId;

use crate::env::Env;
use crate::hook::Registry;
use crate::local::{Engine, Running, SubscribeError, Subscription};
pub use crate::shared_store::Opening;
use crate::shared_store::{Cancel, SharedStore};
use crate::store::{self, Row};
use crate::trust::secret::Secret;

/// What a process that runs threads has once.
#[derive(Clone)]
pub struct Host {
    engine: Engine,
    shared: Option<SharedStore>,
}

impl Host {
    /// A host over a store that processes share. Gives what is to be said of its opening as well, a sentence each.
    ///
    /// # Errors
    /// [`store::Error::Busy`] when the process that holds the store does not answer, or the store cannot be opened.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(
        opening: Opening,
        env: Arc<dyn Env>,
        registry: Registry,
    ) -> Result<(Self, Vec<String>), store::Error> {
        let running = Arc::new(Running::default());
        let ending = Arc::clone(&running);
        let cancel: Cancel = Arc::new(move |thread| ending.cancel(thread));
        let opening = tokio::task::spawn_blocking(move || SharedStore::open(opening, cancel)).await;
        let (shared, notices) = opening.unwrap_or_else(|error| Err(broke_off(&error)))?;
        let engine = Engine::shared(shared.clone(), running, env, registry);
        Ok((Self { engine, shared: Some(shared) }, notices))
    }

    /// A host over what `engine` runs on.
    pub fn new(engine: Engine) -> Self {
        Self { engine, shared: None }
    }

    /// The same host, whose engine has the user's secret: see [`Engine::with_secret`].
    #[must_use]
    pub fn with_secret(self, secret: Secret) -> Self {
        Self { engine: self.engine.with_secret(secret), ..self }
    }

    /// What runs its threads.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Threads with their rows, oldest first: at most `limit`, and only those behind `after`.
    ///
    /// # Errors
    /// When the store is damaged.
    pub fn list(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, store::Error> {
        self.engine.store().rows(after, limit)
    }

    /// As [`Engine::subscribe`].
    ///
    /// # Errors
    /// As [`Engine::subscribe`].
    pub fn subscribe(&self, thread: &ThreadId, after: EventId) -> Result<Subscription, SubscribeError> {
        self.engine.subscribe(thread, after)
    }

    /// Gives the store to other processes. Threads that still run here stop with a fault of the store.
    pub async fn leave(&self) {
        let Some(shared) = self.shared.clone() else { return };
        // A panic in it has been reported where it happened.
        let _ = tokio::task::spawn_blocking(move || shared.leave()).await;
    }
}

fn broke_off(error: &tokio::task::JoinError) -> store::Error {
    store::Error::Poisoned { what: format!("the opening broke off: {error}") }
}

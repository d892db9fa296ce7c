//! The host: the resources that a process has once and shares between its threads.

pub mod answering;
pub mod answers_from;
pub mod batch;
pub mod consent;
pub mod continuing;
pub mod find_thread;
pub mod key_command;
pub mod known_keys;
pub mod labels;
pub mod launcher;
pub mod limit_choice;
pub(crate) mod model_choice;
pub mod operator;
pub mod picture;
pub mod process;
pub mod recording;
pub mod resources;
pub mod run_config;
pub mod settings_files;
pub mod starting;
pub mod store_access;
pub mod thread_row;
pub mod tooling;
pub mod trial;
pub mod untaken;
pub mod workflow;

use std::sync::Arc;

use rondo_core::env::Env;
use rondo_core::hook::Registry;
use rondo_core::local::{Engine, Running};
use rondo_protocol::event::Durability;
use rondo_store as store;
use rondo_store::replicated::{Copied, ReplicatedStore, is_copy};
use rondo_store::shared_store::{Opening, OwnThreads, SharedStore};
use store_access::{DrivenThreads, TrustedStore};

use crate::failure::Failure;

#[derive(Clone)]
pub struct Host {
    engine: Engine,
    shared: Option<SharedStore>,
}

impl Host {
    /// A host over a store that processes share. Also returns notices about its opening, one sentence each.
    ///
    /// # Errors
    /// [`store::Error::Busy`] if the process that holds the store does not answer, or any error of opening the store.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open(
        TrustedStore { opening, secret }: TrustedStore,
        env: Arc<dyn Env>,
        registry: Registry,
    ) -> Result<(Self, Vec<String>), store::Error> {
        let (running, shared, notices) = opened(opening).await?;
        let engine = Engine::shared(Arc::new(shared.clone()), running, env, registry).with_secret(secret);
        Ok((Self { engine, shared: Some(shared) }, notices))
    }

    /// The same, whose threads are written to a log; their store is a copy of it.
    pub async fn open_replicated(
        TrustedStore { opening, secret }: TrustedStore,
        env: Arc<dyn Env>,
        registry: Registry,
        log: Arc<dyn store::WriteLog>,
    ) -> Result<(Self, Copied, Vec<String>), store::Error> {
        let (running, shared, notices) = opened(Opening { durability: Durability::Log, ..opening }).await?;
        let store = ReplicatedStore::new(shared.clone(), log);
        let engine = Engine::shared(Arc::new(store), running, env, registry).with_secret(secret);
        Ok((Self { engine, shared: Some(shared.clone()) }, Copied::new(shared), notices))
    }

    pub fn new(engine: Engine) -> Self {
        Self { engine, shared: None }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store, if processes share it.
    #[cfg(feature = "restate")]
    pub(crate) fn shared(&self) -> Option<&SharedStore> {
        self.shared.as_ref()
    }

    /// The threads that run in any process that uses the store.
    pub fn driven(&self) -> DrivenThreads {
        // A copy does not know who drives the threads that were copied.
        if is_copy(&**self.engine.store()).unwrap_or(true) {
            return DrivenThreads::Unknown;
        }
        let driven = self.shared.as_ref().map_or_else(|| Ok(self.engine.driven()), SharedStore::driven);
        driven.map_or(DrivenThreads::Unknown, DrivenThreads::These)
    }

    /// What `read` finds, with the threads that run meanwhile.
    pub fn with_driven<T>(&self, read: impl FnOnce() -> Result<T, Failure>) -> Result<(T, DrivenThreads), Failure> {
        DrivenThreads::during(|| Ok(self.driven()), read)
    }

    /// Releases the store to other processes. Threads that still run here stop with a fault of the store.
    pub async fn leave(&self) {
        let Some(shared) = self.shared.clone() else { return };
        // A panic in it was reported where it happened.
        let _ = tokio::task::spawn_blocking(move || shared.leave()).await;
    }
}

/// A store that processes share, and the threads of it that run in this one. Also returns notices about its opening.
pub(crate) async fn opened(opening: Opening) -> Result<(Arc<Running>, SharedStore, Vec<String>), store::Error> {
    let running = Arc::new(Running::default());
    let (cancelled, lost) = (Arc::clone(&running), Arc::clone(&running));
    let own_threads = OwnThreads {
        cancel: Box::new(move |thread| cancelled.cancel(thread)),
        taken_over: Box::new(move |thread| lost.abandon(thread)),
    };
    let opening = tokio::task::spawn_blocking(move || SharedStore::open(opening, own_threads)).await;
    let broke_off = |error| Err(store::Error::Poisoned { what: format!("the opening broke off: {error}") });
    let (shared, notices) = opening.unwrap_or_else(broke_off)?;
    Ok((running, shared, notices))
}

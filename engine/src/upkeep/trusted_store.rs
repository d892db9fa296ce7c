//! The store of the work that writes it without an engine.

use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_store::shared_store::{Opening, OwnThreads, SharedStore};

use crate::failure::Failure;
use crate::host::store_access::TrustedStore;
use crate::tell::tell;

/// Opens a store, or joins the process that holds it, for `work`, and releases it afterwards.
///
/// # Errors
/// If it cannot be opened.
pub(super) async fn with_store<T>(
    TrustedStore { folder, owner, .. }: TrustedStore,
    durability: Durability,
    work: impl AsyncFnOnce(&SharedStore) -> T,
) -> Result<T, Failure> {
    let opening = Opening { folder, owner, durability };
    let idle = OwnThreads { cancel: Box::new(|_| ()), taken_over: Box::new(|_| ()) };
    let open = tokio::task::spawn_blocking(move || SharedStore::open(opening, idle)).await;
    let (shared, notices) = open.map_err(|error| Failure::new(Code::InternalFault, error.to_string()))??;
    for notice in notices {
        tell(&format!("store: {notice}\n"));
    }
    let done = work(&shared).await;
    // Releases the store, which may have to be written.
    let left = tokio::task::spawn_blocking(move || shared.leave()).await;
    left.map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
    Ok(done)
}

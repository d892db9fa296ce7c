//! The store of the work that writes it without an engine.

use rondo_protocol::event::Durability;
use rondo_store::shared_store::SharedStore;

use crate::failure::Failure;
use crate::host::store_access::{TrustedStore, tell_store};
use crate::host::{Opening, opened};

/// Opens a store, or joins the process that holds it, for `work`, and releases it afterwards.
pub(super) async fn with_store<T>(
    TrustedStore { folder, owner, .. }: TrustedStore,
    durability: Durability,
    work: impl AsyncFnOnce(&SharedStore) -> T,
) -> Result<T, Failure> {
    let (_, shared, notices) = opened(Opening { folder, owner, durability }).await?;
    tell_store(&notices);
    let done = work(&shared).await;
    // Releases the store, which may have to be written.
    let left = tokio::task::spawn_blocking(move || shared.leave()).await;
    left.map_err(Failure::internal)?;
    Ok(done)
}

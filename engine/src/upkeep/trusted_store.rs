//! The store of the work that writes it without an engine.

use rondo_store::shared_store::SharedStore;

use crate::failure::Failure;
use crate::host::opened;
use crate::host::store_access::{TrustedStore, tell_store};

/// Opens a store, or joins the process that holds it, for `work`, and releases it afterwards.
pub(super) async fn with_store<T>(
    store: TrustedStore,
    work: impl AsyncFnOnce(&SharedStore) -> T,
) -> Result<T, Failure> {
    let (_, shared, notices) = opened(store.opening).await?;
    tell_store(&notices);
    let done = work(&shared).await;
    // Releases the store, which may have to be written.
    let left = tokio::task::spawn_blocking(move || shared.leave()).await;
    left.map_err(Failure::internal)?;
    Ok(done)
}

//! Deletes threads.

use std::collections::BTreeSet;

use rondo_protocol::id::{BatchId, ThreadId};

use super::{Engine, Error};
use crate::store::Deletion;

impl Engine {
    /// Deletes threads with all that belongs to them, and replaces lines of batches. All is written or nothing. Every
    /// fork and every child of these threads must be among them.
    ///
    /// # Errors
    /// [`Error::Running`] for a thread that any process drives, [`Error::NoThread`], and
    /// [`Conflict`](crate::store::Error::Conflict) if a thread that stays needs one of these.
    ///
    /// # Durability
    /// The deletion is durable when this returns.
    pub async fn delete(&self, threads: &BTreeSet<ThreadId>, lines: Vec<(BatchId, u32, Vec<u8>)>) -> Result<(), Error> {
        let mut leases = Vec::with_capacity(threads.len());
        let mut versions = Vec::with_capacity(threads.len());
        for thread in threads {
            // From here on nobody else changes it.
            leases.push(self.claim(thread).await?);
            versions.push((thread.clone(), self.row(thread)?.0.version));
        }
        Ok(self.parts.store.delete(Deletion { threads: versions, lines }).await?)
    }
}

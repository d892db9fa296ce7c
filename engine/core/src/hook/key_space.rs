//! The keys and values of one hook kind in the store.

use std::sync::Arc;

use crate::secret::Secret;
use crate::store::{Entries, Error, Read, StepStore};

/// Keys and values that one hook kind keeps. No other kind and no thread sees them; all of it can be lost.
#[derive(Clone)]
pub struct KeySpace {
    store: Arc<dyn Read>,
    /// The same store, if it may be written.
    writable: Option<Arc<dyn StepStore>>,
    name: String,
    secret: Secret,
}

impl KeySpace {
    /// The space of the kind `name`.
    pub fn new(store: Arc<dyn StepStore>, name: &str) -> Self {
        Self { writable: Some(Arc::clone(&store)), ..Self::reading(store, name) }
    }

    /// The space of the kind `name`, read-only.
    pub fn reading(store: Arc<dyn Read>, name: &str) -> Self {
        Self { store, writable: None, name: name.to_owned(), secret: Secret::default() }
    }

    /// The same space, in which values are authenticated with `secret`.
    #[must_use]
    pub fn with_secret(self, secret: Secret) -> Self {
        Self { secret, ..self }
    }

    /// The key that authenticates values: the user's secret, or zeros where none was given.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// A value.
    ///
    /// # Errors
    /// When the store is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.store.hook_value(&self.name, key)
    }

    /// Keys and values from `from` on, at most `limit`.
    ///
    /// # Errors
    /// When the store is damaged.
    pub fn scan(&self, from: &[u8], limit: usize) -> Result<Entries, Error> {
        self.store.hook_values(&self.name, from, limit)
    }

    /// Keeps a value, or forgets it with `None`.
    ///
    /// # Durability
    /// None: it rides with the next commit that is synced.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn put(&self, key: Vec<u8>, value: Option<Vec<u8>>) -> Result<(), Error> {
        self.writable.as_ref().ok_or(Error::ReadOnly)?.put_hook_value(&self.name, key, value).await
    }
}

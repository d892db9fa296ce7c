//! What a server keeps of requests, in spaces of the store beside those of hooks: of each the latest.

use rondo::core::Engine;
use rondo::core::hook::KeySpace;
use rondo::core::local::Reservation;
use rondo::failure::Failure;
use rondo::protocol::canonical;
use rondo::protocol::id::ThreadId;
use rondo::store::{self, Damage};
use serde::de::DeserializeOwned;

use super::Server;

/// The most values of a space. Beyond it, those of the oldest threads are forgotten, a tenth at once.
const MOST: usize = 50_000;

impl Server {
    /// Keeps a value that names a thread.
    pub(super) async fn keep(&self, space: &'static str, key: Vec<u8>, value: Vec<u8>) -> Result<(), Failure> {
        let kept = self.host.engine().space(space);
        let is_new = kept.get(&key)?.is_none();
        kept.put(key, Some(value)).await?;
        let known = self.kept.lock().get(space).copied();
        let count = match known {
            Some(count) => count + usize::from(is_new),
            None => kept.scan(&[], MOST + 1)?.len(),
        };
        let left = if count > MOST { forget_oldest(&kept, MOST / 10).await? } else { count };
        self.kept.lock().insert(space, left);
        Ok(())
    }
}

/// Waits until no request with this key looks for its thread or begins it, in any process with the store. The next one
/// waits until the result is dropped.
pub(super) async fn reserved(engine: &Engine, key: &[u8]) -> Result<Reservation, Failure> {
    let random = key.iter().take(10).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    // No thread began in 1970.
    Ok(engine.reserve(&ThreadId::from_parts(0, random)).await?)
}

/// A value that is kept; a failure if it is damaged: what was done for its key would be done again.
pub(super) fn known<T: DeserializeOwned>(space: &KeySpace, key: &[u8]) -> Result<Option<T>, Failure> {
    let Some(bytes) = space.get(key)? else { return Ok(None) };
    let damaged = |error| store::Error::from(Damage::new(format!("what is kept of a request: {error}")));
    Ok(Some(canonical::from_slice(&bytes).map_err(damaged)?))
}

/// Forgets the values of the oldest threads. Returns how many are left.
async fn forget_oldest(space: &KeySpace, count: usize) -> Result<usize, Failure> {
    let mut all: Vec<(u64, Vec<u8>)> =
        space.scan(&[], usize::MAX)?.into_iter().map(|(key, value)| (begun_ms(&value), key)).collect();
    all.sort_unstable();
    let left = all.len().saturating_sub(count);
    for (_, key) in all.into_iter().take(count) {
        space.put(key, None).await?;
    }
    Ok(left)
}

/// When the thread that a value names began; 0 if it names none.
fn begun_ms(value: &[u8]) -> u64 {
    let words = value.split(|byte| !byte.is_ascii_alphanumeric());
    let mut threads = words.filter_map(|word| ThreadId::new(std::str::from_utf8(word).ok()?).ok());
    threads.next().map_or(0, |thread| thread.unix_ms())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use rondo::protocol::diagnostic::Code;
    use rondo::store::MemoryStore;

    #[tokio::test]
    async fn the_values_of_the_oldest_threads_are_forgotten() {
        let space = KeySpace::new(Arc::new(MemoryStore::new()), "requests");
        for number in [7, 3, 9, 1] {
            let thread = ThreadId::from_parts(number, 0);
            let value = format!("{{\"request\":\"{}\",\"thread\":\"{thread}\"}}", "a".repeat(64));
            space.put(vec![u8::try_from(number).unwrap()], Some(value.into_bytes())).await.unwrap();
        }
        assert_eq!(forget_oldest(&space, 2).await.unwrap(), 2);
        let left: Vec<Vec<u8>> = space.scan(&[], 9).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(left, [[7], [9]]);
    }

    #[tokio::test]
    async fn a_damaged_value_is_told_and_not_taken_for_none() {
        let space = KeySpace::new(Arc::new(MemoryStore::new()), "requests");
        assert_eq!(known::<ThreadId>(&space, b"key").unwrap(), None);
        space.put(b"key".to_vec(), Some(b"{\"thread\":".to_vec())).await.unwrap();
        assert_eq!(known::<ThreadId>(&space, b"key").unwrap_err().code(), Code::StoreDamaged);
    }
}

//! The places for connections. Clients that have not shown a key yet have at most three quarters of them; where these are
//! taken, and where all are, the oldest of them gives way. So nobody without a key keeps others out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

const GIVING_WAY: Duration = Duration::from_secs(1);

pub struct Places {
    all: Arc<Semaphore>,
    most_unknown: usize,
    next: AtomicU64,
    /// The connections that no request with a key came on, the oldest first.
    unknown: Mutex<VecDeque<(u64, CancellationToken)>>,
}

/// The place of one connection, which its requests name.
#[derive(Clone)]
pub struct Place {
    places: Weak<Places>,
    number: u64,
    /// Cancelled when it gives way to another one.
    pub gives_way: CancellationToken,
}

impl Places {
    pub fn new(connections: usize) -> Arc<Self> {
        let (all, most_unknown) = (Arc::new(Semaphore::new(connections)), (connections - connections / 4).max(1));
        Arc::new(Self { all, most_unknown, next: AtomicU64::new(0), unknown: Mutex::default() })
    }

    /// A place for a new connection; `None` if clients that showed a key have all.
    pub fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut unknown = self.unknown.lock();
        if unknown.len() >= self.most_unknown || self.all.available_permits() == 0 {
            let (_, oldest) = unknown.pop_front()?;
            oldest.cancel();
        }
        let (number, gives_way) = (self.next.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        unknown.push_back((number, gives_way.clone()));
        Some(Place { places: Arc::downgrade(self), number, gives_way })
    }

    /// What a connection holds while it is served. Waits for one that gives way.
    pub async fn hold(&self) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(GIVING_WAY, Arc::clone(&self.all).acquire_owned()).await.ok()?.ok()
    }
}

impl Place {
    /// Its client has shown a key, or the connection has ended: it gives way to none.
    pub fn is_settled(&self) {
        let Some(places) = self.places.upgrade() else { return };
        places.unknown.lock().retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_client_without_a_key_gives_way() {
        let places = Places::new(4);
        let taken: Vec<Place> = (0..3).map(|_| places.enter().unwrap()).collect();
        let held = [places.hold().await, places.hold().await, places.hold().await];
        taken[0].is_settled();
        let [third, fourth] = [places.enter().unwrap(), places.enter().unwrap()];
        let gave_way = |place: &Place| place.gives_way.is_cancelled();
        assert!(!gave_way(&taken[0]) && gave_way(&taken[1]) && !gave_way(&taken[2]) && !gave_way(&third));
        for place in [&taken[2], &third, &fourth] {
            place.is_settled();
        }
        // All places are held by clients with a key.
        let _more = places.hold().await;
        assert!(places.enter().is_none());
        drop(held);
        assert!(places.enter().is_some());
    }
}

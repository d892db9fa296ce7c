//! Telling the backing what it is owed: by one at a time, oldest first, and never for longer than there is time.
//!
//! Whoever changed the stock comes here and writes what is owed by then, whosever it is. What is not written in time, or
//! fails, is not lost sight of: a removal stays owed, and in the place of an entry its removal.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::entry::Content;
use super::figures::Figures;
use super::owed::{Errand, Wish};
use super::record::{card_key, payload_key};
use super::stock::Stock;
use super::{Backing, WAIT};

/// How many writes are on their way at once.
const AT_ONCE: usize = 32;
/// How long a backing that did not answer in time is left alone, so that a run does not wait for it again and again.
const REST: Duration = Duration::from_secs(5);

/// What one must hold to write.
pub(super) struct Pen {
    turn: Semaphore,
    /// Until when nothing is written.
    rests_until: Mutex<Option<Instant>>,
}

impl Pen {
    /// Free to be taken.
    pub(super) fn new() -> Self {
        Self { turn: Semaphore::new(1), rests_until: Mutex::new(None) }
    }

    /// Writes what the stock owes and, if they are given, the figures that changed.
    ///
    /// # Cancel safety
    /// What was not written is still owed.
    pub(super) async fn write<T: Content>(
        &self,
        backing: &dyn Backing,
        stock: &Stock<T>,
        figures: Option<&Figures>,
        deadline: Instant,
    ) {
        if !self.may_begin(deadline) {
            return;
        }
        let Ok(Ok(_turn)) = timeout_at(deadline, self.turn.acquire()).await else { return };
        self.write_owed(backing, stock, deadline).await;
        if let Some(figures) = figures {
            self.write_figures(backing, figures, deadline).await;
        }
    }

    async fn write_owed<T: Content>(&self, backing: &dyn Backing, stock: &Stock<T>, deadline: Instant) {
        while self.may_begin(deadline) {
            let errands = stock.oldest_owed(AT_ONCE);
            if errands.is_empty() {
                return;
            }
            let all = join_all(errands.iter().map(|errand| run(backing, stock, errand)));
            match timeout_at(deadline, all).await {
                Ok(done) if done.iter().all(|done| *done) => {}
                // The others may fail for the same reason; they are tried again by a later operation.
                Ok(_) => return,
                Err(_elapsed) => {
                    for errand in &errands {
                        stock.failed(errand);
                    }
                    self.rest();
                }
            }
        }
    }

    async fn write_figures(&self, backing: &dyn Backing, figures: &Figures, deadline: Instant) {
        let mut changed = figures.changed();
        for some in changed.chunks_mut(AT_ONCE) {
            if !self.may_begin(deadline) {
                return;
            }
            let all = join_all(some.iter_mut().map(|figures| async {
                let put = backing.put(figures.record_key.clone(), Some(figures.record()));
                figures.written = put.await.is_ok();
            }));
            if timeout_at(deadline, all).await.is_err() {
                self.rest();
            }
        }
    }

    /// Whether there is still time to begin a write: one that is begun has half of [`WAIT`], or it would be the late
    /// beginning and not the backing that makes it fail.
    fn may_begin(&self, deadline: Instant) -> bool {
        let now = Instant::now();
        let rests_until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        now + WAIT / 2 <= deadline && rests_until.is_none_or(|until| until <= now)
    }

    fn rest(&self) {
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
    }
}

/// Runs one errand. A card is written before its payload and removed after it: whatever is cut off in between, no
/// payload stands without a card, and a card without its payload is found out when it is used.
async fn run<T: Content>(backing: &dyn Backing, stock: &Stock<T>, errand: &Errand) -> bool {
    let (card, payload) = (card_key(&errand.key), payload_key(&errand.key));
    let (first, second) = match &errand.wish {
        Wish::Write { records, .. } => {
            let card = backing.put(card, Some(records.card.clone()));
            join(card, backing.put(payload, Some(records.payload.clone()))).await
        }
        Wish::Remove => join(backing.put(payload, None), backing.put(card, None)).await,
    };
    let done = first.is_ok() && second.is_ok();
    if done {
        stock.done(errand);
    } else {
        stock.failed(errand);
    }
    done
}

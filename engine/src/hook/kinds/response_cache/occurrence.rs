//! How often a thread has asked a request: the k-th equal request of a lane is given the k-th answer.
//!
//! All nodes of a run count together, each call once, however many nodes it passes. What was asked before this run is
//! read from the steps and the journal, once for each lane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use rondo_protocol::Digest;
use rondo_protocol::call::Site;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};

use crate::hook::Past;
use crate::hook::shelf::WAIT;

/// The counters of the threads that this process runs.
#[derive(Debug, Default)]
pub struct Counters {
    by_thread: Mutex<BTreeMap<ThreadId, Weak<Counter>>>,
}

impl Counters {
    /// The counter of a thread's run, which lives as long as one of the run's nodes holds it.
    pub fn of(&self, thread: &ThreadId) -> Arc<Counter> {
        let mut by_thread = self.by_thread.lock().unwrap_or_else(PoisonError::into_inner);
        by_thread.retain(|_, counter| counter.strong_count() > 0);
        let known = by_thread.get(thread).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let counter = Arc::default();
            by_thread.insert(thread.clone(), Arc::downgrade(&counter));
            counter
        })
    }
}

/// What one run of a thread has asked.
#[derive(Default)]
pub struct Counter {
    state: Mutex<State>,
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// What was asked before this run, by lane.
    past: BTreeMap<LanePath, Before>,
    /// How often each request was asked in this run.
    asked: BTreeMap<(LanePath, Digest), u32>,
    /// The numbers of the calls of visits under way, each by what it asks too.
    numbered: BTreeMap<(Site, Digest), u32>,
}

type Before = Shared<BoxFuture<'static, Option<Arc<BTreeMap<Digest, u32>>>>>;

impl Counter {
    /// Which equal request of its lane a call is, from 1; `None` where the past could not be read in time. Asked again
    /// for the same call it gives the same number. `of_kind` are the roles whose requests count.
    pub async fn number(
        &self,
        site: &Site,
        request: Digest,
        past: &Arc<dyn Past>,
        of_kind: &BTreeSet<RoleName>,
    ) -> Option<u32> {
        let (number, before) = {
            let mut state = self.state();
            let before = state.past.entry(site.lane.clone()).or_insert_with(|| read(past, site, of_kind)).clone();
            let call = (site.clone(), request);
            let known = state.numbered.get(&call).copied();
            let number = known.unwrap_or_else(|| state.count(site, request));
            state.numbered.insert(call, number);
            (number, before)
        };
        let before = tokio::time::timeout(WAIT, before).await.ok().flatten()?;
        Some(before.get(&request).copied().unwrap_or_default().saturating_add(number))
    }

    /// Counts requests that were answered without passing a node: those of a turn that was given whole.
    pub fn given(&self, site: &Site, requests: impl Iterator<Item = Digest>) {
        let mut state = self.state();
        requests.for_each(|request| {
            state.count(site, request);
        });
    }

    /// A visit has ended: its calls are not asked again.
    pub fn ended(&self, site: &Site) {
        self.state().numbered.retain(|(call, _), _| call.role != site.role || call.lane != site.lane);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn count(&mut self, site: &Site, request: Digest) -> u32 {
        let asked = self.asked.entry((site.lane.clone(), request)).or_default();
        *asked = asked.saturating_add(1);
        *asked
    }
}

/// Reads the past of a lane on a thread of its own.
fn read(past: &Arc<dyn Past>, site: &Site, of_kind: &BTreeSet<RoleName>) -> Before {
    let (past, lane, role, of_kind) = (Arc::clone(past), site.lane.clone(), site.role.clone(), of_kind.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let by_role = past.requests(&lane, &role).ok()?;
        let mut all: BTreeMap<Digest, u32> = BTreeMap::new();
        for (request, count) in by_role.into_iter().filter(|(role, _)| of_kind.contains(role)).flat_map(|(_, of)| of) {
            let sum = all.entry(request).or_default();
            *sum = sum.saturating_add(count);
        }
        Some(Arc::new(all))
    });
    reading.map(|read| read.ok().flatten()).boxed().shared()
}

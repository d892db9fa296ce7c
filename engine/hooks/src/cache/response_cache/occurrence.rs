//! How often a thread has asked a request: the k-th equal request of a lane is given the k-th answer.
//!
//! All nodes of a run count together, each call once, however many nodes it passes. What was asked before this run is
//! read from the steps and the journal, once for each lane.
//!
//! Counts are bounded: the key of each is the first eight bytes of a digest over lane and request, and a run holds at most
//! [`COUNTS_MAX`] of them, about 8 MB. A request for which there is no room has no number, so that it is neither looked
//! up nor kept; those that are counted go on. Two requests with the same eight bytes would count as one, which can only
//! make them miss: what is looked up has the whole digest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use rondo_core::hook;
use rondo_protocol::Digest;
use rondo_protocol::call::Site;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};

use crate::cache::WAIT;

/// The most counts that a run holds, those of its past among them: more than a run of 100,000 steps asks.
const COUNTS_MAX: usize = 250_000;

/// The warning, given once, when there is no room for more counts.
pub const TOO_MANY: &str = "this run has asked more different requests than are counted; those that are new are neither \
                            looked up nor kept";

/// The counters of the threads that this process runs.
#[derive(Default)]
pub struct Counters {
    by_thread: Mutex<BTreeMap<ThreadId, Weak<Counter>>>,
}

impl Counters {
    /// The counter of a thread's run, which lives as long as one of the run's nodes holds it.
    pub fn of(&self, thread: &ThreadId) -> Arc<Counter> {
        let mut by_thread = self.by_thread.lock();
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

/// Which equal request a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbered {
    /// This one, from 1.
    As(u32),
    /// The past could not be read in time.
    Unknown,
    Full {
        /// Whether this is the first warning.
        is_news: bool,
    },
}

#[derive(Default)]
struct State {
    /// What was asked before this run, by lane.
    past: BTreeMap<LanePath, Past>,
    /// How often each request was asked in this run.
    asked: BTreeMap<Short, u32>,
    /// The numbers of the calls of visits under way, each by what it asks too.
    numbered: BTreeMap<(Site, Digest), u32>,
    /// How many counts there are, of [`COUNTS_MAX`].
    used: usize,
    is_warned: bool,
}

/// A lane and a request: the beginning of a digest over both.
type Short = u64;

/// What was asked in a lane before this run.
#[derive(Clone)]
struct Past {
    counts: Shared<BoxFuture<'static, Option<Arc<Counts>>>>,
    /// Whether it has taken its room.
    is_paid: bool,
}

struct Counts {
    by_request: BTreeMap<Short, u32>,
    /// Whether all requests had room.
    is_whole: bool,
}

impl Counter {
    /// Which equal request of its lane a call is. Asked again for the same call it gives the same number. `of_kind` are
    /// the roles whose requests count.
    pub async fn number(
        &self,
        site: &Site,
        request: Digest,
        past: &Arc<dyn hook::Past>,
        of_kind: &BTreeSet<RoleName>,
    ) -> Numbered {
        let (number, counts) = {
            let mut state = self.state.lock();
            let call = (site.clone(), request);
            let known = state.numbered.get(&call).copied().or_else(|| state.count(site, request));
            let Some(number) = known.filter(|_| state.used < COUNTS_MAX || state.past.contains_key(&site.lane)) else {
                return state.full();
            };
            state.numbered.insert(call, number);
            let read = || Past { counts: read(past, site, of_kind, COUNTS_MAX), is_paid: false };
            (number, state.past.entry(site.lane.clone()).or_insert_with(read).counts.clone())
        };
        let Some(counts) = tokio::time::timeout(WAIT, counts).await.ok().flatten() else { return Numbered::Unknown };
        self.state.lock().pay(&site.lane, counts.by_request.len());
        match counts.by_request.get(&short(&site.lane, request)) {
            None if !counts.is_whole => self.state.lock().full(),
            before => Numbered::As(before.copied().unwrap_or_default().saturating_add(number)),
        }
    }

    /// Counts requests that were answered without passing a node: those of a turn that was given whole.
    pub fn given(&self, site: &Site, requests: impl Iterator<Item = Digest>) {
        let mut state = self.state.lock();
        requests.for_each(|request| {
            state.count(site, request);
        });
    }

    /// A visit has ended: its calls are not asked again.
    pub fn ended(&self, site: &Site) {
        self.state.lock().numbered.retain(|(call, _), _| call.role != site.role || call.lane != site.lane);
    }
}

impl State {
    /// Counts a request; `None` where it is new and there is no room. Once it has no count it never has one, so that no
    /// number is given twice.
    fn count(&mut self, site: &Site, request: Digest) -> Option<u32> {
        let short = short(&site.lane, request);
        if !self.asked.contains_key(&short) {
            self.used = Some(self.used + 1).filter(|used| *used <= COUNTS_MAX)?;
        }
        let asked = self.asked.entry(short).or_default();
        *asked = asked.saturating_add(1);
        Some(*asked)
    }

    /// Takes the room of a lane's past, once.
    fn pay(&mut self, lane: &LanePath, counts: usize) {
        if let Some(past) = self.past.get_mut(lane)
            && !std::mem::replace(&mut past.is_paid, true)
        {
            self.used = self.used.saturating_add(counts.saturating_add(1)).min(COUNTS_MAX);
        }
    }

    fn full(&mut self) -> Numbered {
        Numbered::Full { is_news: !std::mem::replace(&mut self.is_warned, true) }
    }
}

fn short(lane: &LanePath, request: Digest) -> Short {
    let digest = Digest::sha256(&[request.as_bytes().as_slice(), lane.to_string().as_bytes()].concat());
    u64::from_be_bytes(digest.as_bytes().first_chunk().copied().unwrap_or_default())
}

/// Reads the past of a lane on a thread of its own, at most `most` counts of it.
fn read(
    past: &Arc<dyn hook::Past>,
    site: &Site,
    of_kind: &BTreeSet<RoleName>,
    most: usize,
) -> Shared<BoxFuture<'static, Option<Arc<Counts>>>> {
    let (past, lane, role, of_kind) = (Arc::clone(past), site.lane.clone(), site.role.clone(), of_kind.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let by_role = past.requests(&lane, &role).ok()?;
        let mut counts = Counts { by_request: BTreeMap::new(), is_whole: true };
        for (request, count) in by_role.into_iter().filter(|(role, _)| of_kind.contains(role)).flat_map(|(_, of)| of) {
            let short = short(&lane, request);
            if counts.by_request.len() >= most && !counts.by_request.contains_key(&short) {
                counts.is_whole = false;
                continue;
            }
            let sum = counts.by_request.entry(short).or_default();
            *sum = sum.saturating_add(count);
        }
        Some(Arc::new(counts))
    });
    reading.map(|read| read.ok().flatten()).boxed().shared()
}

#[cfg(test)]
mod tests {
    use rondo_protocol::digest::Kind;

    use super::*;
    use rondo_core::hook::Requests;
    use rondo_core::store;

    struct Asked(u32);

    impl hook::Past for Asked {
        fn requests(&self, _: &LanePath, role: &RoleName) -> Result<Requests, store::Error> {
            Ok(BTreeMap::from([(role.clone(), (0..self.0).map(|n| (request(n), 1)).collect())]))
        }
    }

    fn request(n: u32) -> Digest {
        Digest::of_bytes(Kind::Request, &n.to_be_bytes())
    }

    fn site(position: u32) -> Site {
        let thread = ThreadId::from_parts(0, 0);
        Site { thread, role: RoleName::new("a").unwrap(), lane: LanePath::trunk(), visit: 1, position }
    }

    #[tokio::test]
    async fn counts_are_bounded_and_what_has_no_room_has_no_number() {
        let counter = Counter::default();
        counter.state.lock().used = COUNTS_MAX - 10;
        let past: Arc<dyn hook::Past> = Arc::new(Asked(3));
        let of_kind = BTreeSet::from([site(0).role]);
        let number = async |n: u32, position: u32| counter.number(&site(position), request(n), &past, &of_kind).await;
        assert_eq!(number(0, 0).await, Numbered::As(2));
        // One count and a past of four: for five more there is room.
        for n in 10..15 {
            assert_eq!(number(n, n).await, Numbered::As(1));
        }
        assert_eq!(number(20, 20).await, Numbered::Full { is_news: true });
        assert_eq!(number(21, 21).await, Numbered::Full { is_news: false });
        // Known requests are still counted.
        assert_eq!(number(10, 30).await, Numbered::As(2));
        assert_eq!(number(10, 30).await, Numbered::As(2));
        assert_eq!(counter.state.lock().asked.len(), 6);
    }

    #[tokio::test]
    async fn of_a_past_that_has_no_room_only_what_is_known_has_a_number() {
        let past: Arc<dyn hook::Past> = Arc::new(Asked(100));
        let counts = read(&past, &site(0), &BTreeSet::from([site(0).role]), 10).await.unwrap();
        assert_eq!((counts.by_request.len(), counts.is_whole), (10, false));
    }
}

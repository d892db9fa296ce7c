use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use proptest::prelude::*;
use rondo_core::store::{
    Base, Commit, Entries, Error, JournalRecord, LaneRow, MemoryStore, NewStep, Read, Row, StepBytes, StepStore,
    StoredRecord, VisitIndex, VisitKey,
};
use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Note, Step};

use super::*;
use crate::steps::{row, step, thread};

/// A thread in a store, step by step.
struct Built<'s> {
    store: &'s MemoryStore,
    thread: ThreadId,
    base: Option<Base>,
    version: u64,
    seq: u64,
    head: Option<Digest>,
    visits: BTreeMap<String, u64>,
}

impl<'s> Built<'s> {
    fn new(store: &'s MemoryStore, number: u8) -> Self {
        let (thread, visits) = (thread(number), BTreeMap::new());
        Self { store, thread, base: None, version: 0, seq: 0, head: None, visits }
    }

    /// A thread that continues from where `self` stands.
    fn fork(&self, number: u8) -> Self {
        let base = Some(Base { thread: self.thread.clone(), seq: self.seq });
        let (thread, visits) = (thread(number), self.visits.clone());
        let mut fork = Self { store: self.store, thread, base, version: 0, seq: self.seq, head: self.head, visits };
        fork.commit(None);
        fork
    }

    fn commit(&mut self, step: Option<NewStep>) {
        self.version += 1;
        let row = Row { base: self.base.clone(), ..row(self.version, self.seq, self.head) };
        let mut commit = Commit::of_row(self.thread.clone(), row);
        commit.step = step;
        self.store.commit(commit).now_or_never().unwrap().unwrap();
    }

    /// Adds a step that says `text` in a lane that the step `opened_by` opened.
    fn say(&mut self, lane: &LanePath, opened_by: u64, prev: Vec<Digest>, text: &str) -> Digest {
        let step = Step { prev, ..step(None, text, lane) };
        let (digest, bytes) = Digest::of(Kind::Step, &step).unwrap();
        let visit = self.visits.entry(lane.to_string()).or_default();
        *visit += 1;
        let key = VisitKey { index: VisitIndex::Steps, lane: lane.clone(), role: step.role.clone(), visit: *visit };
        let opened_by = if lane.is_trunk() { Vec::new() } else { vec![opened_by] };
        let note = Note { opened_by, ..Note::default() };
        self.seq += 1;
        if lane.is_trunk() {
            self.head = Some(digest);
        }
        self.commit(Some(NewStep { seq: self.seq, digest, bytes, found_by: Some(key), note }));
        digest
    }

    fn trunk(&mut self, text: &str) {
        self.say(&LanePath::trunk(), 0, self.head.into_iter().collect(), text);
    }

    /// Opens lanes of these lengths, lets them speak in the order that `order` gives, and joins them. `text` gives what
    /// is said in a lane at a place.
    fn fan_out(&mut self, lengths: &[usize], mut order: u64, text: &dyn Fn(usize, usize) -> String, joined: bool) {
        let (opened_by, head) = (self.seq, self.head);
        let mut said = vec![Vec::new(); lengths.len()];
        loop {
            let open: Vec<usize> = (0..lengths.len()).filter(|lane| said[*lane].len() < lengths[*lane]).collect();
            let Some(turn) = u64::try_from(open.len()).ok().filter(|count| *count > 0) else { break };
            let lane = open[usize::try_from(order % turn).unwrap()];
            order = order / turn + 7;
            let path = LanePath::trunk().child(&RoleName::new("writer").unwrap(), u32::try_from(lane).unwrap());
            let prev = said[lane].last().copied().or(head).into_iter().collect();
            let at = said[lane].len();
            let digest = self.say(&path, opened_by, prev, &text(lane, at));
            said[lane].push(digest);
        }
        if joined {
            let ends: Vec<Digest> = said.iter().filter_map(|lane| lane.last().copied()).collect();
            let prev = if ends.is_empty() { head.into_iter().collect() } else { ends };
            self.say(&LanePath::trunk(), 0, prev, "joined");
        }
    }

    fn side(&self) -> Side<'_> {
        Side { thread: &self.thread, seq: self.seq }
    }

    /// The digests in order.
    fn digests(&self) -> Vec<Digest> {
        let mut digests = Vec::new();
        self.store
            .steps(&self.thread, 1..=u64::MAX, &mut |stored, _| {
                digests.push(stored.digest);
                true
            })
            .unwrap();
        digests
    }
}

/// The pairs after the parting: the answers of both sides.
fn said(a: &Built<'_>, b: &Built<'_>) -> Vec<(Option<String>, Option<String>)> {
    let parting = parting(a.store, a.side(), b.side()).unwrap();
    let mut said = Vec::new();
    let answer = |step: NotedStep| Some(step.0.step.answer);
    pairs(a.store, a.side(), b.side(), &parting, &mut |pair| {
        said.push(match pair {
            Pair::A(a) => (answer(a), None),
            Pair::B(b) => (None, answer(b)),
            Pair::Both(a, b) => (answer(a), answer(b)),
        });
        true
    })
    .unwrap();
    said
}

fn common(a: &Built<'_>, b: &Built<'_>) -> Option<u64> {
    parting(a.store, a.side(), b.side()).unwrap().common.map(|(seq, _)| seq)
}

fn both(a: &str, b: &str) -> (Option<String>, Option<String>) {
    (Some(a.to_owned()), Some(b.to_owned()))
}

#[test]
fn threads_part_after_their_last_common_step_and_go_on_in_pairs() {
    let store = MemoryStore::new();
    let (mut a, mut b) = (Built::new(&store, 1), Built::new(&store, 2));
    for text in ["one", "two"] {
        a.trunk(text);
        b.trunk(text);
    }
    assert_eq!((common(&a, &b), said(&a, &b)), (Some(2), Vec::new()), "equal threads have nothing apart");
    a.trunk("three");
    assert_eq!((common(&a, &b), common(&b, &a)), (Some(2), Some(2)), "one thread may be the beginning of the other");
    assert_eq!(said(&b, &a), [(None, Some("three".to_owned()))]);
    b.trunk("3");
    b.trunk("4");
    assert_eq!(common(&a, &b), Some(2));
    assert_eq!(said(&a, &b), [both("three", "3"), (None, Some("4".to_owned()))]);
    let mut other = Built::new(&store, 3);
    other.trunk("1");
    assert_eq!((common(&a, &other), said(&other, &a).len()), (None, 3));
    assert_eq!(common(&other, &Built::new(&store, 4)), None);
}

#[test]
fn a_fork_shares_the_steps_of_its_base_and_of_its_forks() {
    let store = MemoryStore::new();
    let mut a = Built::new(&store, 1);
    (0..10).for_each(|at| a.trunk(&at.to_string()));
    let mut b = a.fork(2);
    b.trunk("b");
    let mut c = b.fork(3);
    (0..3).for_each(|_| c.trunk("c"));
    a.trunk("a");
    assert_eq!((common(&a, &b), common(&a, &c), common(&c, &b)), (Some(10), Some(10), Some(11)));
    assert_eq!(said(&a, &c)[0], both("a", "b"));
}

#[test]
fn lanes_are_paired_whatever_their_order_and_common_ones_are_left_out() {
    let store = MemoryStore::new();
    let (mut a, mut b) = (Built::new(&store, 1), Built::new(&store, 2));
    for (built, order, word) in [(&mut a, 0, "old"), (&mut b, 5, "new")] {
        built.trunk("begin");
        let text = |lane: usize, at: usize| if (lane, at) == (1, 1) { word.to_owned() } else { format!("{lane}.{at}") };
        built.fan_out(&[2, 2], order, &text, true);
    }
    assert_ne!(a.digests()[1..4], b.digests()[1..4], "the lanes spoke in another order");
    assert_eq!(said(&a, &b), [both("old", "new"), both("joined", "joined")]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The law of the search, held to a reading of all steps.
    #[test]
    fn the_search_finds_what_reading_everything_finds(
        shape in proptest::collection::vec(proptest::collection::vec(0_usize..4, 0..4), 0..6),
        orders in (0_u64..10_000, 0_u64..10_000),
        change in (0_usize..8, 0_usize..4, 0_usize..4),
        cut in 0_usize..2,
    ) {
        let store = MemoryStore::new();
        let (mut a, mut b) = (Built::new(&store, 1), Built::new(&store, 2));
        for (built, order, word) in [(&mut a, orders.0, "old"), (&mut b, orders.1, "new")] {
            for (at, lengths) in shape.iter().enumerate() {
                let word = |lane, place| if (at, lane, place) == change { word.to_owned() } else { "same".to_owned() };
                if lengths.is_empty() {
                    built.trunk(&word(0, 0));
                } else {
                    let is_last = at + 1 == shape.len();
                    built.fan_out(lengths, order, &word, !(is_last && cut == 1));
                }
            }
        }
        let (of_a, of_b) = (a.digests(), b.digests());
        let (in_a, in_b): (BTreeSet<_>, BTreeSet<_>) = (of_a.iter().collect(), of_b.iter().collect());
        let shared = of_a.iter().take_while(|digest| in_b.contains(digest)).count();
        prop_assert_eq!(common(&a, &b).unwrap_or(0), u64::try_from(shared).unwrap());
        // Every step that is not common is passed once.
        let said = said(&a, &b);
        let count = |is_there: fn(&(Option<String>, Option<String>)) -> bool| said.iter().filter(|pair| is_there(pair)).count();
        prop_assert_eq!(count(|pair| pair.0.is_some()), in_a.difference(&in_b).count());
        prop_assert_eq!(count(|pair| pair.1.is_some()), in_b.difference(&in_a).count());
    }
}

/// Counts what is read of steps.
struct Counting<'s> {
    store: &'s MemoryStore,
    reads: AtomicU64,
}

impl Counting<'_> {
    fn count(&self) -> &MemoryStore {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store
    }
}

impl Read for Counting<'_> {
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        self.count().row(thread)
    }

    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error> {
        self.count().rows(after, limit)
    }

    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error> {
        self.count().lanes(thread, after, limit)
    }

    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error> {
        self.count().list(thread, opened_by)
    }

    fn lists(&self, thread: &ThreadId) -> Result<Vec<u64>, Error> {
        self.count().lists(thread)
    }

    fn own_records(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StepBytes<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.store.own_records(thread, seqs, &mut |step| {
            self.count();
            visit(step)
        })
    }

    fn own_record(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredRecord, Note)>, Error> {
        self.count().own_record(thread, seq)
    }

    fn own_visits(
        &self,
        thread: &ThreadId,
        index: VisitIndex,
        of: (&LanePath, &RoleName),
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        self.count().own_visits(thread, index, of, visits)
    }

    fn own_place(&self, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error> {
        self.count().own_place(thread, digest)
    }

    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error> {
        self.count().locate(digest)
    }

    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        self.count().object(kind, digest)
    }

    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error> {
        self.count().journal(thread, lane)
    }

    fn journaled_lanes(&self, thread: &ThreadId) -> Result<Vec<LanePath>, Error> {
        self.count().journaled_lanes(thread)
    }

    fn batch(&self, batch: &BatchId) -> Result<Option<Vec<u8>>, Error> {
        self.count().batch(batch)
    }

    fn batches(&self, after: Option<&BatchId>, limit: usize) -> Result<Vec<BatchId>, Error> {
        self.count().batches(after, limit)
    }

    fn batch_lines(&self, batch: &BatchId, from: u32, limit: usize) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        self.count().batch_lines(batch, from, limit)
    }

    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.count().hook_value(space, key)
    }

    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error> {
        self.count().hook_values(space, from, limit)
    }
}

#[test]
fn threads_that_part_at_their_end_are_not_read_from_their_beginning() {
    const STEPS: u64 = 4096;
    let store = MemoryStore::new();
    let (mut a, mut b) = (Built::new(&store, 1), Built::new(&store, 2));
    for (built, word) in [(&mut a, "old"), (&mut b, "new")] {
        (1..STEPS).for_each(|at| built.trunk(&at.to_string()));
        built.trunk(word);
    }
    let counting = Counting { store: &store, reads: AtomicU64::new(0) };
    let parting = parting(&counting, a.side(), b.side()).unwrap();
    assert_eq!(parting.common.map(|(seq, _)| seq), Some(STEPS - 1));
    let mut count = 0;
    pairs(&counting, a.side(), b.side(), &parting, &mut |_| {
        count += 1;
        true
    })
    .unwrap();
    assert_eq!(count, 1);
    // A few reads for each of the 12 halvings, and for the last pair.
    let reads = counting.reads.load(Ordering::Relaxed);
    assert!(reads < 64, "{reads} reads");
}

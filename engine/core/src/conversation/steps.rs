//! Earlier steps of a thread: the newest from memory, the others from the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use rondo_agent_kit::conversation::{Episode, Past, PastStep, Round, StepLocation};
use rondo_protocol::call::Fault;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Compaction, Note, Record};
use rondo_protocol::workflow::Workflow;
use rondo_protocol::{Digest, Value, canonical};

use super::{Binding, Bindings};
use crate::graph::EdgeId;
use crate::resolved_roles;
use crate::store::{Damage, Error, Read, StoredRecord, StoredStep};
use crate::thread::{self, EdgeCount, OwnVisits, PastLane, StepLookup};

/// How many bytes of steps stay in memory.
const AT_HAND_BYTES: usize = 8 << 20;

/// How many steps stay in memory.
const AT_HAND: usize = 4096;

/// How many steps are worth a thread that reads them.
const READS_A_THREAD: usize = 16;

/// The steps of one thread.
pub struct Steps<'a> {
    store: &'a dyn Read,
    thread: ThreadId,
    roles: Vec<RoleName>,
    /// The start that new records name.
    start: Digest,
    bindings: Bindings,
    at_hand: Mutex<StepCache>,
    /// Rounds derived from the steps alone, without trusting notes.
    proven: Mutex<BTreeMap<u64, Vec<u64>>>,
}

#[derive(Default)]
struct StepCache {
    steps: BTreeMap<u64, PastStep>,
    seqs: HashMap<Digest, u64>,
    size_bytes: usize,
    /// Later steps may not be in the store yet.
    synced: u64,
}

impl StepCache {
    fn add(&mut self, step: PastStep) {
        let seq = step.place.seq;
        self.size_bytes += size_bytes(&step);
        self.seqs.insert(step.digest, seq);
        if let Some(before) = self.steps.insert(seq, step) {
            self.size_bytes = self.size_bytes.saturating_sub(size_bytes(&before));
        }
        while (self.size_bytes > AT_HAND_BYTES || self.steps.len() > AT_HAND)
            && self.steps.first_key_value().is_some_and(|(oldest, _)| *oldest < seq && *oldest <= self.synced)
        {
            let Some((_, oldest)) = self.steps.pop_first() else { return };
            self.seqs.remove(&oldest.digest);
            self.size_bytes = self.size_bytes.saturating_sub(size_bytes(&oldest));
        }
    }
}

fn size_bytes(step: &PastStep) -> usize {
    // The fields are in the answer too.
    let texts = |episode: &Arc<Episode>| episode.prompt.len() + 2 * episode.answer.len() + episode.body.len();
    step.episode.as_ref().map_or(0, texts) + size_of::<PastStep>()
}

impl<'a> Steps<'a> {
    /// The steps of `thread`, whose latest records name `start`, of `workflow`.
    pub fn new(
        store: &'a dyn Read,
        thread: ThreadId,
        start: Digest,
        workflow: &Workflow,
    ) -> Result<Self, resolved_roles::Error> {
        let roles = workflow.roles.iter().map(|(name, _)| name.clone()).collect();
        let bindings = Bindings::new(start, workflow)?;
        Ok(Self { store, thread, roles, start, bindings, at_hand: Mutex::default(), proven: Mutex::default() })
    }

    /// The definition that a step names.
    pub fn binding(&self, start: Digest) -> Result<Arc<Binding>, Error> {
        self.bindings.of(start, self.store)
    }

    /// The store.
    pub fn store(&self) -> &'a dyn Read {
        self.store
    }

    /// Keeps a new step in memory.
    pub fn add(&self, step: PastStep) {
        self.at_hand.lock().add(step);
    }

    /// Records which steps opened the rounds of step `seq`, regardless of its note.
    pub fn prove(&self, seq: u64, opened_by: Vec<u64>) {
        if !opened_by.is_empty() {
            self.proven.lock().insert(seq, opened_by);
        }
    }

    /// Records that the store has every step up to `seq`.
    pub fn synced(&self, seq: u64) {
        let mut at_hand = self.at_hand.lock();
        at_hand.synced = at_hand.synced.max(seq);
    }

    /// Keeps a stored record in memory.
    pub fn keep(&self, stored: &StoredRecord, note: &Note) -> Result<PastStep, Error> {
        let StoredRecord { seq, digest, record, .. } = stored;
        let proven = self.proven.lock().get(seq).cloned();
        let opened_by = proven.unwrap_or_else(|| note.opened_by.clone());
        let step = match record {
            Record::Step(step) => {
                let body = self.binding(step.start)?.body(&step.role, &step.answer);
                let episode = Arc::new(thread::episode(*seq, (**step).clone(), body, opened_by));
                let place = episode.place();
                PastStep { place, episode: Some(episode), digest: *digest, prev: step.prev.as_slice().into() }
            }
            other => {
                let lane = other.lane().cloned().unwrap_or_else(LanePath::trunk);
                let place = StepLocation { seq: *seq, round: Round { lane, opened_by } };
                PastStep { place, episode: None, digest: *digest, prev: other.prev().into() }
            }
        };
        let mut at_hand = self.at_hand.lock();
        at_hand.synced = at_hand.synced.max(*seq);
        at_hand.add(step.clone());
        Ok(step)
    }

    /// The stored step with a number, with its note.
    pub fn stored(&self, seq: u64) -> Result<(StoredStep, Note), Error> {
        self.store.step(&self.thread, seq)?.ok_or_else(|| self.missing(seq))
    }

    /// The stored steps with these numbers, with their notes, in this order. Many are read on all cores: reading and
    /// verifying takes most of the time of rebuilding a history.
    pub fn stored_all(&self, seqs: &[u64]) -> Vec<Result<(StoredStep, Note), Error>> {
        let read = |seqs: &[u64]| seqs.iter().map(|seq| self.stored(*seq)).collect::<Vec<_>>();
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let each = seqs.len().div_ceil(cores).max(READS_A_THREAD);
        let Some((own, others)) = seqs.split_at_checked(each) else { return read(seqs) };
        std::thread::scope(|scope| {
            let others: Vec<_> = others.chunks(each).map(|seqs| scope.spawn(|| read(seqs))).collect();
            let own = read(own);
            let others = others.into_iter().flat_map(|read| read.join().unwrap_or_else(|why| resume_unwind(why)));
            own.into_iter().chain(others).collect()
        })
    }

    fn missing(&self, seq: u64) -> Error {
        Damage::new(format!("step {seq} of thread {} is missing", self.thread)).of_thread(&self.thread).into()
    }

    /// A role's visits in a lane up to step `through`, oldest first: visit and number.
    pub fn visits_of(&self, lane: &LanePath, role: &RoleName, through: u64) -> Result<Vec<(u64, u64)>, Error> {
        let mut visits = self.store.visits(&self.thread, lane, role, 1..=u64::MAX)?;
        visits.retain(|(_, seq)| *seq <= through);
        Ok(visits)
    }

    /// The compactions of a role's history in a lane up to record `through`, oldest first: the last visit that each
    /// covers, and its number.
    pub fn compactions_of(&self, lane: &LanePath, role: &RoleName, through: u64) -> Result<Vec<(u64, u64)>, Error> {
        let mut compactions = self.store.compactions(&self.thread, lane, role)?;
        compactions.retain(|(_, seq)| *seq <= through);
        Ok(compactions)
    }

    /// The compaction with a number.
    pub fn compaction(&self, seq: u64) -> Result<Compaction, Error> {
        match self.store.record_at(&self.thread, seq)? {
            Some((StoredRecord { record: Record::Compaction(compaction), .. }, _)) => Ok(*compaction),
            _ => Err(self.missing(seq)),
        }
    }

    fn past_lane(&self, lane: &LanePath) -> Result<Option<PastLane>, Error> {
        let mut seqs: BTreeSet<u64> = BTreeSet::new();
        let mut past = PastLane::default();
        for role in &self.roles {
            let visits = self.visits_of(lane, role, u64::MAX)?;
            if let Some((_, latest)) = visits.last() {
                let covered =
                    self.store.compactions(&self.thread, lane, role)?.last().map_or(0, |(through, _)| *through);
                let count = u64::try_from(visits.len()).unwrap_or(u64::MAX);
                let own = OwnVisits { visits: count, attempts: 0, latest: *latest, covered };
                past.own.insert(role.clone(), own);
            }
            seqs.extend(visits.into_iter().map(|(_, seq)| seq));
        }
        for (index, seq) in seqs.iter().enumerate() {
            let Some((stored, note)) = self.store.step(&self.thread, *seq)? else { continue };
            if let Some(own) = past.own.get_mut(&stored.step.role) {
                own.attempts += note.attempts;
            }
            // The numbers of edges are those of the step's own definition.
            if let Some(left_by) = note.left_by.filter(|_| stored.step.start == self.start) {
                past.taken.insert(EdgeId(left_by.edge), EdgeCount { count: left_by.count, mark: left_by.mark });
            }
            if index == 0 {
                past.first_opened_by =
                    if note.first_opened_by.is_empty() { note.opened_by } else { note.first_opened_by };
            }
        }
        Ok(Some(past).filter(|past| !past.own.is_empty()))
    }
}

impl Past for Steps<'_> {
    type Error = Error;

    fn step(&self, seq: u64) -> Result<PastStep, Error> {
        if let Some(step) = self.at_hand.lock().steps.get(&seq) {
            return Ok(step.clone());
        }
        let (stored, note) = self.store.record_at(&self.thread, seq)?.ok_or_else(|| self.missing(seq))?;
        self.keep(&stored, &note)
    }

    fn seq(&self, digest: Digest, before: u64) -> Result<u64, Error> {
        if let Some(seq) = self.at_hand.lock().seqs.get(&digest) {
            return Ok(*seq);
        }
        // In a thread without lanes it is the previous one.
        if before > 1 && self.step(before - 1)?.digest == digest {
            return Ok(before - 1);
        }
        let found = self.store.place(&self.thread, digest)?.filter(|seq| *seq < before);
        found.ok_or_else(|| {
            let what = format!("step {digest}, which step {before} of thread {} follows, is missing", self.thread);
            Damage::new(what).of_thread(&self.thread).into()
        })
    }
}

impl StepLookup for Steps<'_> {
    fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault> {
        self.step(seq)?.episode.ok_or_else(|| self.missing(seq).into())
    }

    fn past(&self, lane: &LanePath) -> Result<Option<PastLane>, Fault> {
        Ok(self.past_lane(lane)?)
    }

    fn visits(&self, role: &RoleName) -> Result<Vec<u64>, Fault> {
        let visits = self.visits_of(&LanePath::trunk(), role, u64::MAX)?;
        Ok(visits.into_iter().map(|(_, seq)| seq).collect())
    }

    fn list(&self, opened_by: u64) -> Result<Option<Arc<Value>>, Fault> {
        let list = self.store.list(&self.thread, opened_by)?;
        let read = |bytes: Vec<u8>| {
            canonical::from_slice(&bytes).map(Arc::new).map_err(|error| {
                let what = format!("the list of step {opened_by} of thread {}: {error}", self.thread);
                Error::from(Damage::new(what).of_thread(&self.thread)).into()
            })
        };
        list.map(read).transpose()
    }
}

//! The in-memory store: the contract of [`StepStore`] without files. For tests, benchmarks and `--store :memory:`.
//!
//! It keeps values as they are instead of encoded, because encoding row and note would be a large part of a step that
//! costs a few microseconds. Acknowledged data lives as long as the process, as [`Durability::Memory`] says. Steps and
//! objects are verified when read, as in every store, so that all stores fail in the same way on a wrong digest.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::event::Durability;
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;

use super::chain::{verified, verified_object};
use super::{
    Commit, Deletion, Entries, Error, JournalRecord, LaneRow, NewStep, Read, Row, StepBytes, StepStore, StoredRecord,
    VisitIndex, VisitKey,
};

/// How many steps a scan copies at a time; the store is not locked while a visitor runs.
const SCAN_STEPS: u64 = 256;

/// A store that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    contents: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    threads: BTreeMap<ThreadId, Thread>,
    objects: HashMap<Digest, (Kind, Arc<[u8]>)>,
    places: HashMap<Digest, Vec<(ThreadId, u64)>>,
    journal: BTreeMap<(ThreadId, LanePath), BTreeMap<u32, Vec<u8>>>,
    hooks: BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>,
    batches: BTreeMap<BatchId, Batch>,
}

#[derive(Debug, Default)]
struct Batch {
    record: Option<Vec<u8>>,
    lines: BTreeMap<u32, Vec<u8>>,
}

#[derive(Debug)]
struct Thread {
    row: Row,
    /// Those after its base, in order.
    steps: Vec<Arc<NewStep>>,
    /// For each index, lane and role the visits and their records, in order.
    visits: BTreeMap<(VisitIndex, LanePath, RoleName), BTreeMap<u64, u64>>,
    lanes: BTreeMap<LanePath, LaneRow>,
    /// The evaluated lists, by the step that opened their lanes.
    lists: BTreeMap<u64, Vec<u8>>,
}

impl Thread {
    fn new(row: Row) -> Self {
        Self { row, steps: Vec::new(), visits: BTreeMap::new(), lanes: BTreeMap::new(), lists: BTreeMap::new() }
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Contents {
    fn commit(&mut self, commit: Commit) -> Result<(), Error> {
        let stored = self.threads.get(&commit.thread).map_or((0, 0), |thread| (thread.row.version, thread.row.seq));
        commit.check()?;
        commit.header().check_follows(stored.0, stored.1)?;
        let Commit { thread, row, step, objects, lanes, lists, clear_journal, expected: _ } = commit;
        if let (0, Some(base)) = (stored.0, &row.base)
            && !self.threads.contains_key(&base.thread)
        {
            return Err(Error::Conflict { thread: base.thread.clone() });
        }
        for (kind, digest, bytes) in objects {
            self.objects.entry(digest).or_insert_with(|| (kind, Arc::from(bytes)));
        }
        for lane in clear_journal {
            self.journal.remove(&(thread.clone(), lane));
        }
        if let Some(step) = &step {
            self.places.entry(step.digest).or_default().push((thread.clone(), step.seq));
        }
        let entry = match self.threads.get_mut(&thread) {
            Some(entry) => {
                entry.row = row;
                entry
            }
            None => self.threads.entry(thread).or_insert_with(|| Thread::new(row)),
        };
        for (lane, row) in lanes {
            put(&mut entry.lanes, lane, row);
        }
        for (opened_by, list) in lists {
            put(&mut entry.lists, opened_by, list);
        }
        if let Some(step) = step {
            if let Some(VisitKey { index, lane, role, visit }) = &step.found_by {
                let found = (*index, lane.clone(), role.clone());
                entry.visits.entry(found).or_default().insert(*visit, step.seq);
            }
            entry.steps.push(Arc::new(step));
        }
        Ok(())
    }

    fn delete(&mut self, Deletion { threads, lines }: Deletion) -> Result<(), Error> {
        let deleted: BTreeSet<&ThreadId> = threads.iter().map(|(thread, _)| thread).collect();
        for (thread, version) in &threads {
            if self.threads.get(thread).map_or(0, |stored| stored.row.version) != *version {
                return Err(Error::Conflict { thread: thread.clone() });
            }
        }
        let stays = self.threads.iter().filter(|(thread, _)| !deleted.contains(thread));
        if let Some(needed) = stays.flat_map(|(_, stored)| stored.row.needs()).find(|needed| deleted.contains(needed)) {
            return Err(Error::Conflict { thread: needed.clone() });
        }
        self.threads.retain(|thread, _| !deleted.contains(thread));
        self.journal.retain(|(thread, _), _| !deleted.contains(thread));
        self.places.retain(|_, places| {
            places.retain(|(thread, _)| !deleted.contains(thread));
            !places.is_empty()
        });
        for (batch, line, bytes) in lines {
            self.batches.entry(batch).or_default().lines.insert(line, bytes);
        }
        Ok(())
    }

    fn record(&mut self, thread: &ThreadId, records: Vec<JournalRecord>) {
        for record in records {
            self.journal.entry((thread.clone(), record.lane)).or_default().insert(record.position, record.bytes);
        }
    }
}

fn put<K: Ord, V>(values: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => {
            values.insert(key, value);
        }
        None => {
            values.remove(&key);
        }
    }
}

impl Thread {
    fn step(&self, seq: u64) -> Option<&Arc<NewStep>> {
        let shared = self.row.shared();
        self.steps.get(usize::try_from(seq.checked_sub(shared + 1)?).ok()?)
    }

    /// At most [`SCAN_STEPS`] steps within `seqs`.
    fn some_steps(&self, seqs: RangeInclusive<u64>) -> Vec<Arc<NewStep>> {
        let last = (*seqs.end()).min(seqs.start().saturating_add(SCAN_STEPS - 1));
        (*seqs.start()..=last).map_while(|seq| self.step(seq).cloned()).collect()
    }
}

/// A range that starts after `after`.
fn behind<K>(after: Option<K>) -> Bound<K> {
    after.map_or(Bound::Unbounded, Bound::Excluded)
}

impl Read for MemoryStore {
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        Ok(self.contents.lock().threads.get(thread).map(|thread| thread.row.clone()))
    }

    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error> {
        let contents = self.contents.lock();
        let threads = contents.threads.range::<ThreadId, _>((behind(after), Bound::Unbounded)).take(limit);
        Ok(threads.map(|(id, thread)| (id.clone(), thread.row.clone())).collect())
    }

    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error> {
        let contents = self.contents.lock();
        let lanes = contents
            .threads
            .get(thread)
            .map(|thread| thread.lanes.range::<LanePath, _>((behind(after), Bound::Unbounded)));
        Ok(lanes.into_iter().flatten().take(limit).map(|(lane, row)| (lane.clone(), row.clone())).collect())
    }

    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.contents.lock().threads.get(thread).and_then(|thread| thread.lists.get(&opened_by).cloned()))
    }

    fn lists(&self, thread: &ThreadId) -> Result<Vec<u64>, Error> {
        let contents = self.contents.lock();
        Ok(contents.threads.get(thread).map(|thread| thread.lists.keys().copied().collect()).unwrap_or_default())
    }

    fn own_records(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StepBytes<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (mut next, last) = seqs.into_inner();
        loop {
            let contents = self.contents.lock();
            let steps = contents.threads.get(thread).map(|thread| thread.some_steps(next..=last)).unwrap_or_default();
            drop(contents);
            let Some(read) = steps.last() else { return Ok(()) };
            next = read.seq.saturating_add(1);
            for step in steps {
                let NewStep { seq, digest, bytes, note, .. } = &*step;
                let (number, note) = (step.visit(), note.clone());
                if !visit(StepBytes { seq: *seq, digest: *digest, visit: number, bytes, note })? {
                    return Ok(());
                }
            }
        }
    }

    fn own_record(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredRecord, Note)>, Error> {
        let step = self.contents.lock().threads.get(thread).and_then(|thread| thread.step(seq).cloned());
        let Some(step) = step else { return Ok(None) };
        let record = verified(thread, seq, step.digest, &step.bytes)?;
        Ok(Some((StoredRecord { seq, digest: step.digest, visit: step.visit(), record }, step.note.clone())))
    }

    fn own_visits(
        &self,
        thread: &ThreadId,
        index: VisitIndex,
        (lane, role): (&LanePath, &RoleName),
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        if visits.is_empty() {
            return Ok(Vec::new());
        }
        let contents = self.contents.lock();
        let key = (index, lane.clone(), role.clone());
        let places = contents.threads.get(thread).and_then(|thread| thread.visits.get(&key));
        Ok(places.map(|places| places.range(visits).map(|(visit, seq)| (*visit, *seq)).collect()).unwrap_or_default())
    }

    fn own_place(&self, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error> {
        let contents = self.contents.lock();
        let places = contents.places.get(&digest).map_or(&[][..], Vec::as_slice);
        Ok(places.iter().rev().find(|(holder, _)| holder == thread).map(|(_, seq)| *seq))
    }

    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error> {
        let mut places = self.contents.lock().places.get(&digest).cloned().unwrap_or_default();
        places.sort();
        Ok(places)
    }

    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let stored = self.contents.lock().objects.get(&digest).cloned();
        let Some((stored_kind, bytes)) = stored else { return Ok(None) };
        verified_object(kind, digest, stored_kind, &bytes)?;
        Ok(Some(bytes.to_vec()))
    }

    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error> {
        let contents = self.contents.lock();
        let records = contents.journal.get(&(thread.clone(), lane.clone()));
        Ok(records
            .into_iter()
            .flatten()
            .map(|(position, bytes)| JournalRecord { lane: lane.clone(), position: *position, bytes: bytes.clone() })
            .collect())
    }

    fn journaled_lanes(&self, thread: &ThreadId) -> Result<Vec<LanePath>, Error> {
        let contents = self.contents.lock();
        let lanes = contents.journal.iter().filter(|((of, _), records)| of == thread && !records.is_empty());
        Ok(lanes.map(|((_, lane), _)| lane.clone()).collect())
    }

    fn batch(&self, batch: &BatchId) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.contents.lock().batches.get(batch).and_then(|batch| batch.record.clone()))
    }

    fn batches(&self, after: Option<&BatchId>, limit: usize) -> Result<Vec<BatchId>, Error> {
        let contents = self.contents.lock();
        let batches = contents.batches.range::<BatchId, _>((behind(after), Bound::Unbounded));
        let stored = batches.filter(|(_, batch)| batch.record.is_some());
        Ok(stored.take(limit).map(|(id, _)| id.clone()).collect())
    }

    fn batch_lines(&self, batch: &BatchId, from: u32, limit: usize) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        let contents = self.contents.lock();
        let lines = contents.batches.get(batch).map(|batch| batch.lines.range(from..));
        Ok(lines.into_iter().flatten().take(limit).map(|(line, bytes)| (*line, bytes.clone())).collect())
    }

    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.contents.lock().hooks.get(space).and_then(|values| values.get(key).cloned()))
    }

    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Entries, Error> {
        let contents = self.contents.lock();
        let values = contents.hooks.get(space).map(|values| values.range(from.to_vec()..));
        Ok(values.into_iter().flatten().take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl StepStore for MemoryStore {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(future::ready(self.contents.lock().commit(commit)))
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(future::ready(self.contents.lock().delete(deletion)))
    }

    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, _: bool) -> BoxFuture<'_, Result<(), Error>> {
        self.contents.lock().record(&thread, records);
        Box::pin(future::ready(Ok(())))
    }

    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>> {
        let mut contents = self.contents.lock();
        put(contents.hooks.entry(space.to_owned()).or_default(), key, value);
        Box::pin(future::ready(Ok(())))
    }

    fn put_batch(
        &self,
        batch: &BatchId,
        lines: Vec<(u32, Vec<u8>)>,
        record: Option<Vec<u8>>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        let mut contents = self.contents.lock();
        let stored = contents.batches.entry(batch.clone()).or_default();
        stored.lines.extend(lines);
        stored.record = record.or(stored.record.take());
        Box::pin(future::ready(Ok(())))
    }

    fn durability(&self) -> Durability {
        Durability::Memory
    }

    fn has_room(&self) -> bool {
        true
    }
}

//! Writes threads as lines.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use data_encoding::BASE64;
use rondo_core::secret::Secret;
use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::{BatchId, ThreadId};
use rondo_protocol::object::Note;
use rondo_store::{
    Damage, Error, JournalRecord, LaneRow, Read, Row, StoredRecord, note_json, pages, pages_from, references,
    rows_after,
};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::line::{Line, ThreadLine, ThreadState, seal_message};
use super::{FORMAT, MAX_LINE_BYTES};
use crate::failure::Failure;
use crate::host::batch;

/// How many lanes or lines of a batch are read at a time.
const PAGE: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    All,
    /// These, and all that they need: the threads that they were forked from, the threads whose visits started them,
    /// and the children of each.
    These(BTreeSet<ThreadId>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    pub threads: u64,
    /// Steps, rebinds and compactions.
    pub steps: u64,
    pub objects: u64,
    pub batches: u64,
}

/// Where lines go; `false` stops the export.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<bool, Failure> + 'a;

/// Writes threads of a store, verified, as JSON Lines to `sink`. A batch is written with the last of its threads that
/// began, and without any only if all are. `seal` is the secret of the user whose own store it is. Memory grows with the
/// number of threads and objects, not with their size. Returns `None` if `sink` stopped it.
///
/// # Errors
/// [`Code::StoreDamaged`]; [`Code::WriteFailed`] if a value is too large for a line; any error of the store or of `sink`.
pub fn export(
    store: &dyn Read,
    chosen: &Chosen,
    seal: Option<&Secret>,
    sink: &mut Sink<'_>,
) -> Result<Option<Exported>, Failure> {
    let threads = in_order(store, chosen)?;
    let (hash, written, sum) = (Sha256::new(), HashSet::new(), Exported::default());
    let mut writer = Writer { store, seal, sink, hash, written, sum };
    match writer.write_all(&threads, chosen) {
        Ok(()) => Ok(Some(writer.sum)),
        Err(Stop::Sink) => Ok(None),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// The chosen threads: each after those that it needs, otherwise oldest first.
fn in_order(store: &dyn Read, chosen: &Chosen) -> Result<Vec<ThreadId>, Failure> {
    let mut needs: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
    let mut children: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
    for row in rows_after(store, None) {
        let (thread, row) = row?;
        if let Some(parent) = &row.parent {
            children.entry(parent.thread.clone()).or_default().push(thread.clone());
        }
        needs.insert(thread, row.needs().cloned().collect());
    }
    let wanted: BTreeSet<&ThreadId> = match chosen {
        Chosen::All => needs.keys().collect(),
        Chosen::These(threads) => {
            let mut wanted: BTreeSet<&ThreadId> = BTreeSet::new();
            let mut open: Vec<&ThreadId> = threads.iter().collect();
            while let Some(thread) = open.pop() {
                if wanted.insert(thread) {
                    open.extend(needs.get(thread).into_iter().flatten());
                    open.extend(children.get(thread).into_iter().flatten());
                }
            }
            wanted
        }
    };
    let (mut order, mut placed) = (Vec::with_capacity(wanted.len()), BTreeSet::new());
    for thread in wanted {
        let mut open = vec![thread];
        while let Some(next) = open.pop() {
            let lacking: Vec<&ThreadId> =
                needs.get(next).into_iter().flatten().filter(|needed| !placed.contains(needed)).collect();
            if placed.contains(next) {
                continue;
            }
            if lacking.is_empty() || open.len() > needs.len() {
                placed.insert(next);
                order.push(next.clone());
            } else {
                open.push(next);
                open.extend(lacking);
            }
        }
    }
    Ok(order)
}

enum Stop {
    /// Nobody takes more lines.
    Sink,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Writer<'a, 's> {
    store: &'a dyn Read,
    seal: Option<&'a Secret>,
    sink: &'a mut Sink<'s>,
    hash: Sha256,
    /// The objects that stand in the file already.
    written: HashSet<Digest>,
    sum: Exported,
}

impl Writer<'_, '_> {
    fn write_all(&mut self, threads: &[ThreadId], chosen: &Chosen) -> Result<(), Stop> {
        self.line(&Line::Export { format: FORMAT })?;
        for thread in threads {
            let row = self.store.row(thread)?.ok_or_else(|| {
                Error::from(Damage::new(format!("thread {thread}, which another one needs, is missing")))
            })?;
            self.thread(thread, row)?;
        }
        let threads: BTreeSet<&ThreadId> = threads.iter().collect();
        for id in self.store.batches(None, usize::MAX)? {
            if *chosen == Chosen::All || self.is_complete(&id, &threads)? {
                self.batch(&id)?;
            }
        }
        let sha256 = Digest(self.hash.clone().finalize().into());
        let Exported { threads, steps, objects, batches } = self.sum;
        let seal = self.seal.map(|secret| Digest(secret.tag(&seal_message(sha256))));
        self.line(&Line::End { threads, steps, objects, batches, sha256, seal })
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let no_json = |error| Failure::internal(format!("a line has no JSON form: {error}"));
        let mut bytes = serde_json::to_vec(line).map_err(no_json)?;
        bytes.push(b'\n');
        if bytes.len() >= MAX_LINE_BYTES {
            let message = format!("a line of {} bytes is longer than an import takes", bytes.len());
            let hint = Hint::from(Operation::new(Verb::Backup)).words(" copies stores with values of any size");
            return Err(Failure::new(Code::WriteFailed, message).with_hint(hint).into());
        }
        self.hash.update(&bytes);
        if (self.sink)(&bytes)? { Ok(()) } else { Err(Stop::Sink) }
    }

    /// Writes objects and all that they name, unless they stand in the file.
    fn objects(&mut self, named: impl IntoIterator<Item = (Kind, Digest)>) -> Result<(), Stop> {
        for (kind, digest) in named {
            if self.written.contains(&digest) {
                continue;
            }
            let missing = || Damage::new(format!("the {} object {digest} is missing", kind.name())).of_object(digest);
            let bytes = self.store.object(kind, digest)?.ok_or_else(|| Error::from(missing()))?;
            let unreadable =
                |error| Damage::new(format!("the {} object {digest} cannot be read: {error}", kind.name()));
            let needed = references::of_object(kind, &bytes).map_err(|error| Error::from(unreadable(error)))?;
            // At most a start, a transcript and a request stand above one another.
            self.objects(needed)?;
            let is_file = kind == Kind::File;
            let value = if is_file { format!("\"{}\"", BASE64.encode(&bytes)).into_bytes() } else { bytes };
            self.line(&Line::Object { kind: kind.name(), digest, value: raw(&value)? })?;
            self.written.insert(digest);
            self.sum.objects += 1;
        }
        Ok(())
    }

    fn thread(&mut self, thread: &ThreadId, row: Row) -> Result<(), Stop> {
        self.objects(references::of_row(&row))?;
        let own = row.shared().saturating_add(1)..=row.seq;
        let checkpoint = Some(row.checkpoint).filter(|bytes| !bytes.is_empty()).map(ThreadState);
        let origin = if row.origin.is_empty() { None } else { Some(raw(&row.origin)?) };
        self.line(&Line::Thread(Box::new(ThreadLine {
            thread: thread.clone(),
            version: row.version,
            status: row.status,
            seq: row.seq,
            head: row.head,
            workflow: row.workflow,
            policy: row.policy,
            start: row.start,
            base: row.base,
            parent: row.parent,
            label: row.label,
            tags: row.tags,
            raised: row.raised,
            checkpoint,
            origin,
        })))?;
        self.sum.threads += 1;
        self.open_lanes(thread)?;
        let (store, mut outcome) = (self.store, Ok(()));
        store.scan(thread, own, &mut |stored, note| {
            outcome = self.step(&stored, &note);
            outcome.is_ok()
        })?;
        outcome
    }

    /// The open lanes of a thread, its lists and its journals.
    fn open_lanes(&mut self, thread: &ThreadId) -> Result<(), Stop> {
        let store = self.store;
        for lane in pages(PAGE, None, |after, limit| store.lanes(thread, after, limit)) {
            let (lane, LaneRow { frontier, fold, opened_by, index }) = lane?;
            self.line(&Line::Lane { lane, frontier, opened_by, index, fold: ThreadState(fold) })?;
        }
        for opened_by in store.lists(thread)? {
            let list = store.list(thread, opened_by)?.unwrap_or_default();
            self.line(&Line::List { opened_by, value: raw(&list)? })?;
        }
        for lane in store.journaled_lanes(thread)? {
            for JournalRecord { lane, position, bytes } in store.journal(thread, &lane)? {
                self.line(&Line::Journal { lane, position, value: raw(&bytes)? })?;
            }
        }
        Ok(())
    }

    fn step(&mut self, stored: &StoredRecord, note: &Note) -> Result<(), Stop> {
        self.objects(references::of_record(&stored.record))?;
        let StoredRecord { seq, visit, .. } = *stored;
        let unreadable = |error| Damage::new(format!("step {seq} has no canonical form: {error}"));
        let (digest, bytes) = stored.record.digest().map_err(|error| Error::from(unreadable(error)))?;
        let note = note_json(note)?;
        self.sum.steps += 1;
        self.line(&Line::Step { seq, digest, visit, value: raw(&bytes)?, note: raw(&note)? })
    }

    /// Whether the export has every thread of a batch that began, and any.
    fn is_complete(&self, id: &BatchId, threads: &BTreeSet<&ThreadId>) -> Result<bool, Failure> {
        let mut has_any = false;
        for line in batch::Line::all(self.store, id.clone(), 1, PAGE) {
            let batch::Line::Valid { thread, .. } = line?.1 else { continue };
            if threads.contains(&thread) {
                has_any = true;
            } else if self.store.row(&thread)?.is_some() {
                return Ok(false);
            }
        }
        Ok(has_any)
    }

    fn batch(&mut self, id: &BatchId) -> Result<(), Stop> {
        let store = self.store;
        let Some(batch) = store.batch(id)? else { return Ok(()) };
        self.line(&Line::Batch { batch: id.clone(), value: raw(&batch)? })?;
        self.sum.batches += 1;
        for line in pages_from(PAGE, 0, |from, limit| store.batch_lines(id, from, limit)) {
            let (line, value) = line?;
            self.line(&Line::BatchInput { line, value: raw(&value)? })?;
        }
        Ok(())
    }
}

/// Stored JSON as it stands in a line.
fn raw(bytes: &[u8]) -> Result<&RawValue, Failure> {
    let damaged = |what: String| Failure::from(Error::from(Damage::new(what)));
    if bytes.contains(&b'\n') {
        return Err(damaged("a stored value has several lines".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| damaged(format!("a stored value is not JSON: {error}")))
}

//! Makes a whole store from what is left of a damaged one.
//!
//! Laws. The damaged store is not changed. What is kept is verified as that of an import is (`staging.rs`). Every whole
//! thread is kept as it is. Of a damaged one the steps before the damage are kept, and it can go on from there; its
//! index is made anew from its steps. Whatever is not kept is told.
//!
//! Memory grows with the objects (a digest each) and the threads, not with steps.

mod lost_rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::Record;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::check::Progress;
use super::check::entries::{self, Counted};
use super::check::faults::Faults;
use super::codec::{self, Ledger, StepValue};
use super::keys::{self, Family};
use super::rocks::{Examined, Remnants as _, examine};
use super::staging::{Refused, Staging};
use super::tables::Tables as _;
use super::{Base, Error, LaneRow, Read as _, Row, Status, folder, import, pages_from, references};

const LINES: usize = 256;

/// What was not kept. The fields are those of a line of `rondo repair --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    pub kind: LossKind,
    pub thread: Option<ThreadId>,
    /// The number of its step: of the first one if several are lost of which nothing else is known.
    pub seq: Option<u64>,
    /// The number of the last of these.
    pub through: Option<u64>,
    pub step: Option<Digest>,
    pub role: Option<RoleName>,
    /// The role's visit in its lane.
    pub visit: Option<u64>,
    pub lane: Option<LanePath>,
    /// Why, or what follows from it; for people.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// A thread of which nothing is kept.
    Thread,
    Step,
    /// The times, usage and cost of a step that is kept.
    Note,
    /// Answers to a step that was not committed.
    Journal,
    /// A thread's row, which was made again from its steps: its label, tags and raised limits, and the link of a child to
    /// its parent.
    Row,
    /// The link of a child to its parent.
    Parent,
    /// A batch; its threads are kept.
    Batch,
    /// Values of hooks, such as cached answers.
    Hooks,
}

impl Loss {
    fn of(kind: LossKind, thread: &ThreadId, what: impl Into<String>) -> Self {
        Self { thread: Some(thread.clone()), ..Self::without_thread(kind, what) }
    }

    fn without_thread(kind: LossKind, what: impl Into<String>) -> Self {
        let (thread, seq, through, step, role, visit, lane) = (None, None, None, None, None, None, None);
        Self { kind, thread, seq, through, step, role, visit, lane, what: what.into() }
    }

    /// Adds what is known of the step that it is about.
    fn at(self, seq: u64, step: Option<StepValue<'_>>) -> Self {
        let record = step.as_ref().and_then(|step| Record::from_slice(step.bytes).ok());
        let (role, lane) = match &record {
            Some(Record::Step(step)) => (Some(step.role.clone()), Some(step.lane.clone())),
            Some(Record::Compaction(compaction)) => (Some(compaction.role.clone()), Some(compaction.lane.clone())),
            Some(Record::Rebind(_)) | None => (None, None),
        };
        let visit = step.as_ref().filter(|_| role.is_some()).map(|step| step.visit);
        let step = step.map(|step| step.digest);
        Self { seq: Some(seq), through: Some(seq), step, role, visit, lane, ..self }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The number of threads that are as they were.
    pub whole: u64,
    /// The number of threads that lost their last steps.
    pub shortened: u64,
    /// The number of threads of which nothing is kept.
    pub lost: u64,
    pub lost_steps: u64,
}

/// Makes the origin of a thread that continues after another last step than its own.
type StoppedOrigin = dyn Fn(&ThreadId, &Row, u64) -> Result<Vec<u8>, Error>;

/// Makes the origin of a thread whose row is lost.
type RebuiltOrigin = dyn Fn(&ThreadId, &[u8], Option<Digest>) -> Result<Vec<u8>, Error>;

/// How the values are read that are opaque here.
pub struct Opaque<'a> {
    /// The origin of a thread, given its row and the number of the step that is its last now.
    pub stopped: &'a StoppedOrigin,
    /// The origin of a thread whose row is lost, given the bytes of its workflow and its head.
    pub rebuilt: &'a RebuiltOrigin,
    /// Whether the bytes of a policy are of a workflow, given the bytes of this first.
    pub fits: &'a dyn Fn(&[u8], &[u8]) -> bool,
    /// The number of lines of a batch; `None` if its record cannot be read.
    pub batch_lines: &'a dyn Fn(&[u8]) -> Option<u32>,
}

/// Writes what is left of the store in `from` to a new store in the folder `to`, with the same owner. Everything that
/// is not kept is passed to `lost`. `progress` is called every few thousand entries.
///
/// # Errors
/// [`Error::Io`], [`Error::Unsafe`], [`Error::Format`], [`Error::Version`]; [`Error::Damaged`] if nothing can be read.
pub fn repair(
    from: &Path,
    to: &Path,
    opaque: &Opaque<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
    lost: &mut dyn FnMut(Loss),
) -> Result<Repaired, Error> {
    let Examined { reader, damage, may_be_older, .. } = examine(from)?;
    let Some(reader) = reader else {
        let first = damage.into_iter().next().map(|(damage, _)| damage);
        return Err(first.map_or(Error::ReadOnly, Error::from));
    };
    let mut store = Counted::new(&reader.tables, progress)?;
    if let Some(mark) = readable(import::mark(&store))?.flatten() {
        store.pass_over(mark.threads);
    }
    let mut repair = Repair {
        from: &store,
        to: Staging::of_new_store(to)?,
        may_be_older,
        opaque,
        lost,
        told: BTreeSet::new(),
        objects: HashMap::new(),
        policies: BTreeMap::new(),
        kept: BTreeMap::new(),
        open: BTreeSet::new(),
        steps: 0,
        sum: Repaired::default(),
    };
    repair.threads()?;
    repair.hooks()?;
    for (_, touched) in damage {
        repair.tell_unknown(&touched);
    }
    let Repair { to: made, steps, sum, .. } = repair;
    let before = readable(reader.tables.ledger())?.unwrap_or_default();
    made.finish(after(before, steps))?;
    folder::sign_as(from, to)?;
    Ok(sum)
}

/// The ledger of a store with that many steps, made from one with the ledger `before`.
fn after(before: Ledger, steps: u64) -> Ledger {
    let chain = Sha256::new().chain_update(before.chain).chain_update(b"repair").finalize().into();
    Ledger { batches: before.batches.saturating_add(1), steps: before.steps.max(steps), chain }
}

struct Repair<'a, 'c> {
    from: &'a Counted<'c>,
    to: Staging,
    /// Whether entries may be there again that newer ones deleted or replaced.
    may_be_older: bool,
    opaque: &'a Opaque<'a>,
    lost: &'a mut dyn FnMut(Loss),
    /// The threads of which a loss was told.
    told: BTreeSet<ThreadId>,
    objects: HashMap<Digest, bool>,
    /// The policy for threads of a workflow whose rows are lost; `None` if there is none.
    policies: BTreeMap<Digest, Option<Digest>>,
    /// The last step that is kept of each thread; `None` of one that is not kept.
    kept: BTreeMap<ThreadId, Option<u64>>,
    /// The lanes of the current thread that had steps and were not joined.
    open: BTreeSet<String>,
    /// How many steps are kept under their own threads.
    steps: u64,
    sum: Repaired,
}

/// A thread's steps that were kept, and why no more.
struct KeptSteps {
    through: u64,
    head: Option<Digest>,
    why_no_more: Option<String>,
}

impl Repair<'_, '_> {
    fn tell(&mut self, loss: Loss) {
        self.told.extend(loss.thread.clone());
        if let (LossKind::Step, Some((first, last))) = (loss.kind, loss.seq.zip(loss.through)) {
            self.sum.lost_steps += last.saturating_sub(first).saturating_add(1);
        }
        (self.lost)(loss);
    }

    /// Tells of threads whose records in a log cannot be read, where it is not known what they were.
    fn tell_unknown(&mut self, threads: &BTreeSet<ThreadId>) {
        for thread in threads.iter().filter(|thread| !self.told.contains(*thread)).cloned().collect::<Vec<_>>() {
            let what = "records in a log cannot be read; what they held of the step that was begun is asked for again";
            self.tell(Loss::of(LossKind::Journal, &thread, what));
        }
    }

    fn threads(&mut self) -> Result<(), Error> {
        let (from, mut faults) = (self.from, Faults::default());
        let mut batches = Vec::new();
        entries::read(from, Family::Threads, &mut faults, &mut |key, _, _| {
            batches.extend(keys::batch_of(key));
            keys::thread_of_row(key).map_or(Ok(()), |thread| self.thread_and_what_it_needs(thread))
        })?;
        if !std::mem::take(&mut faults).into_list().is_empty() {
            let what =
                "records of batches may be lost, because a part of their table cannot be read; their threads are kept";
            self.tell(Loss::without_thread(LossKind::Batch, what));
        }
        // A damaged table hides the rows of others in its range from a scan, but not from a look by key.
        entries::threads_with_steps(from, &mut faults, &mut |thread, _| self.thread_and_what_it_needs(thread.clone()))?;
        batches.iter().try_for_each(|batch| self.batch(batch))
    }

    fn thread_and_what_it_needs(&mut self, thread: ThreadId) -> Result<(), Error> {
        let mut open = vec![thread];
        while let Some(thread) = open.pop() {
            if self.kept.contains_key(&thread) {
                continue;
            }
            let missing = || Some("its row is missing".to_owned());
            let (row, why) = match damage_of(self.from.row(&thread))? {
                Ok(Some(row)) => (Some(row), None),
                // Steps without a row may be those of a deleted thread that are there again.
                Ok(None) if self.may_be_older => (None, missing()),
                Ok(None) => (self.row_of_steps(&thread)?, missing()),
                Err(what) => (self.row_of_steps(&thread)?, Some(what)),
            };
            let Some(row) = row else {
                self.lose(&thread, None, &why.unwrap_or_default())?;
                continue;
            };
            let is_rebuilt = why.is_some();
            if let Some(why) = why {
                let what = format!(
                    "{why}; it is made again from its steps, without label, tags, raised limits, script and folder; to resume \
                     it asks for consent, as if it were imported"
                );
                self.tell(Loss::of(LossKind::Row, &thread, what));
            }
            let is_lacking = |needed: &&ThreadId| !self.kept.contains_key(*needed) && !open.contains(needed);
            let lacking: Vec<ThreadId> = row.needs().filter(is_lacking).cloned().collect();
            if lacking.is_empty() {
                self.thread(&thread, row, is_rebuilt)?;
            } else {
                open.push(thread);
                open.extend(lacking);
            }
        }
        Ok(())
    }

    /// Tells that nothing is kept of a thread, of which perhaps no row is known.
    fn lose(&mut self, thread: &ThreadId, row: Option<&Row>, why: &str) -> Result<(), Error> {
        self.kept.insert(thread.clone(), None);
        self.sum.lost += 1;
        self.tell(Loss::of(LossKind::Thread, thread, why));
        // What it shares with a base is that one's.
        let first = row.map(|row| row.shared().saturating_add(1));
        self.lose_steps(thread, first, row.map_or(0, |row| row.seq), "its thread is lost")
    }

    /// Tells each step from `first` on that is stored under the thread, and those up to `last` that are not. Without
    /// `first` it begins with the first that is stored.
    fn lose_steps(&mut self, thread: &ThreadId, first: Option<u64>, last: u64, why: &str) -> Result<(), Error> {
        let (from, mut next, mut why) = (self.from, first.unwrap_or(0), why);
        let behind = "it follows a step that is lost";
        let read = from.range(Family::Steps, keys::steps(thread, next), &mut |key, value| {
            let Some(seq) = keys::seq(key) else { return Ok(ControlFlow::Continue(())) };
            if next > 0 && next < seq {
                self.tell(gap(thread, next, seq.saturating_sub(1), std::mem::replace(&mut why, behind)));
            }
            let loss = Loss::of(LossKind::Step, thread, std::mem::replace(&mut why, behind));
            self.tell(loss.at(seq, codec::read_step(value).ok()));
            next = seq.saturating_add(1);
            Ok(ControlFlow::Continue(()))
        });
        // A damaged block hides the steps in it, and perhaps others behind it.
        readable(read)?;
        if (1..=last).contains(&next) {
            self.tell(gap(thread, next, last, why));
        }
        Ok(())
    }

    fn thread(&mut self, thread: &ThreadId, mut row: Row, is_rebuilt: bool) -> Result<(), Error> {
        let of_row = references::of_row(&row);
        let base = row.base.take();
        row.base = base.as_ref().and_then(|base| {
            let kept = self.kept.get(&base.thread).copied().flatten()?;
            Some(Base { thread: base.thread.clone(), seq: base.seq.min(kept) })
        });
        let are_inherited = base.as_ref().map(|base| base.seq) == row.base.as_ref().map(|base| base.seq);
        if let Some(parent) = row.parent.take_if(|parent| self.kept.get(&parent.thread).is_none_or(Option::is_none)) {
            let what = format!("thread {} is lost, so it is a thread of its own now", parent.thread);
            self.tell(Loss::of(LossKind::Parent, thread, what));
        }
        let mut has_objects = true;
        for (kind, digest) in of_row {
            has_objects &= self.object(kind, digest)?;
        }
        if !has_objects {
            return self.lose(thread, Some(&row), "its workflow, policy or input is missing or cannot be read");
        }
        // Steps behind the end of the row belong to a later one, which is lost.
        let open = Row { seq: u64::MAX, ..row.clone() };
        if let Some(why) = refusal(self.to.thread(thread.clone(), open))? {
            return self.lose(thread, Some(&row), &why);
        }
        let why_inherited = (!are_inherited).then(|| "the thread that it was forked from lost it".to_owned());
        let KeptSteps { through, head, why_no_more } = self.own_steps(thread, &row, why_inherited)?;
        self.kept.insert(thread.clone(), Some(through));
        self.steps += through.saturating_sub(row.shared());
        // A row that was made again ends in front of the first step that cannot be read.
        if through == row.seq && head == row.head && !(is_rebuilt && why_no_more.is_some()) {
            self.sum.whole += 1;
            row.checkpoint = self.state(thread, &row)?;
        } else {
            self.sum.shortened += 1;
            let why = why_no_more.unwrap_or_else(|| "it is missing".to_owned());
            self.lose_steps(thread, Some(through.saturating_add(1)), row.seq, &why)?;
            if readable(self.from.journaled_lanes(thread))?.is_none_or(|lanes| !lanes.is_empty()) {
                self.tell(Loss::of(LossKind::Journal, thread, "the step that was begun begins anew"));
            }
            row = self.shortened(thread, row, through, head)?;
        }
        fit(self.to.set_row(row))?;
        fit(self.to.end_thread())
    }

    /// The row of a thread that continues after step `through`.
    fn shortened(&self, thread: &ThreadId, row: Row, through: u64, head: Option<Digest>) -> Result<Row, Error> {
        let origin = (self.opaque.stopped)(thread, &row, through)?;
        let mut row = Row { status: Status::Stopped, seq: through, head, checkpoint: Vec::new(), origin, ..row };
        row.version = row.version.saturating_add(1);
        // Without a step of its own a fork has not moved to another definition yet.
        let base = row.base.as_ref().filter(|base| base.seq == through);
        if let Some(base) = base.map(|base| self.to.store().row(&base.thread)).transpose()?.flatten() {
            (row.workflow, row.policy, row.start, row.raised) = (base.workflow, base.policy, base.start, base.raised);
        }
        Ok(row)
    }

    /// Keeps the steps that are stored under the thread itself up to the first damaged one, unless `why_none`.
    fn own_steps(&mut self, thread: &ThreadId, row: &Row, why_none: Option<String>) -> Result<KeptSteps, Error> {
        let (from, mut why_no_more) = (self.from, why_none);
        self.open.clear();
        if why_no_more.is_none() {
            let next = row.shared().saturating_add(1);
            let read = from.range(Family::Steps, keys::steps(thread, next), &mut |key, value| {
                why_no_more = self.step(thread, key, value)?;
                Ok(if why_no_more.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            });
            why_no_more = damage_of(read)?.err().or(why_no_more);
        }
        let (through, head) = self.to.so_far().unwrap_or_default();
        Ok(KeptSteps { through, head, why_no_more })
    }

    /// Keeps the next step, or says why not.
    fn step(&mut self, thread: &ThreadId, key: &[u8], value: &[u8]) -> Result<Option<String>, Error> {
        let next = self.to.so_far().map_or(1, |(seq, _)| seq.saturating_add(1));
        let Some(seq) = keys::seq(key).filter(|seq| *seq == next) else {
            return Ok(Some(format!("step {next} is missing")));
        };
        let step = match damage_of(codec::read_step(value))? {
            Ok(step) => step,
            Err(what) => return Ok(Some(what)),
        };
        let Ok(record) = Record::from_slice(step.bytes) else { return Ok(Some("it cannot be read".to_owned())) };
        for (kind, object) in references::of_record(&record) {
            if !self.object(kind, object)? {
                return Ok(Some(format!("its {} is missing or cannot be read", kind.name())));
            }
        }
        let note = readable(self.from.get(Family::Notes, &keys::note(thread, seq)))?.flatten();
        let note = note.and_then(|value| codec::read_note(&value).ok());
        let has_note = note.is_some();
        let refused = refusal(self.to.step(seq, step.digest, step.visit, step.bytes, note.unwrap_or_default()))?;
        if refused.is_none() {
            self.follow(&record);
            if !has_note {
                let what = "its times, usage and cost are lost, and count as none";
                self.tell(Loss::of(LossKind::Note, thread, what).at(seq, Some(step)));
            }
        }
        Ok(refused)
    }

    /// Follows which lanes are open: one ends when a step of a lane around it joins it.
    fn follow(&mut self, record: &Record) {
        match record.lane().filter(|lane| !lane.is_trunk()) {
            None => self.open.clear(),
            Some(lane) => {
                let within = format!("{lane}/");
                // By range: a thread may have thousands of open lanes.
                let ended = self.open.range(within.clone()..).take_while(|open| open.starts_with(&within)).cloned();
                for ended in ended.collect::<Vec<_>>() {
                    self.open.remove(&ended);
                }
                self.open.insert(lane.to_string());
            }
        }
    }

    /// Keeps an object and all that it names. Returns whether it is there.
    fn object(&mut self, kind: Kind, digest: Digest) -> Result<bool, Error> {
        if let Some(is_kept) = self.objects.get(&digest) {
            return Ok(*is_kept);
        }
        let mut is_kept = false;
        if let Some(bytes) = readable(self.from.object(kind, digest))?.flatten()
            && let Ok(names) = references::of_object(kind, &bytes)
        {
            is_kept = true;
            // At most a start, a transcript and a request stand above one another.
            for (kind, digest) in names {
                is_kept &= self.object(kind, digest)?;
            }
            is_kept = is_kept && refusal(self.to.object(kind, digest, &bytes))?.is_none();
        }
        self.objects.insert(digest, is_kept);
        Ok(is_kept)
    }

    /// Keeps the open lanes, lists and journals of a whole thread. Returns its checkpoint, which is empty if it has to
    /// be made anew from the steps.
    fn state(&mut self, thread: &ThreadId, row: &Row) -> Result<Vec<u8>, Error> {
        let from = self.from;
        let lists = readable(from.lists(thread))?;
        let mut are_whole = lists.is_some();
        for opened_by in lists.unwrap_or_default() {
            match readable(from.list(thread, opened_by))?.flatten() {
                Some(list) => fit(self.to.list(opened_by, &list))?,
                None => are_whole = false,
            }
        }
        let lanes = readable(from.lanes(thread, None, usize::MAX))?;
        let is_open = |lane: &LaneRow| match lane.frontier {
            Some(frontier) => self.to.store().place(thread, frontier).map(|place| place.is_some()),
            None => Ok(true),
        };
        // An open lane without a row would begin again.
        let rows: BTreeSet<&str> = lanes.iter().flatten().map(|(path, _)| path.as_str()).collect();
        let has_row = |open: &String| rows.contains(open.as_str());
        are_whole &= row.status.has_ended() || !self.may_be_older && self.open.iter().all(has_row);
        match lanes {
            Some(lanes) if are_whole && lanes.iter().all(|(_, lane)| is_open(lane) == Ok(true)) => {
                for (path, lane) in lanes {
                    fit(self.to.lane(&path, &lane))?;
                }
            }
            _ => are_whole = false,
        }
        let journaled = readable(from.journaled_lanes(thread))?;
        let mut is_lost = journaled.is_none() && !row.status.has_ended();
        for lane in journaled.unwrap_or_default() {
            // Old answers must not become those of a later step.
            let records = readable(from.journal(thread, &lane))?.filter(|_| !self.may_be_older);
            is_lost |= records.is_none();
            for record in records.unwrap_or_default() {
                fit(self.to.record(&record))?;
            }
        }
        if is_lost {
            let what = "answers to the step that was begun are lost, and are asked for again";
            self.tell(Loss::of(LossKind::Journal, thread, what));
        }
        Ok(if are_whole { row.checkpoint.clone() } else { Vec::new() })
    }

    fn batch(&mut self, id: &BatchId) -> Result<(), Error> {
        let from = self.from;
        let record = readable(from.batch(id))?.flatten();
        let lines = record.as_deref().and_then(self.opaque.batch_lines);
        let mut is_whole = lines.is_some();
        // First all are read, then all are kept.
        for is_kept in [false, true] {
            let mut found = 0_u32;
            for line in pages_from(LINES, 0, |first, limit| from.batch_lines(id, first, limit)) {
                let Some((number, line)) = readable(line)?.filter(|_| is_whole) else {
                    is_whole = false;
                    break;
                };
                found = found.saturating_add(1);
                if is_kept {
                    fit(self.to.batch_line(id, number, &line))?;
                }
            }
            is_whole &= lines == Some(found);
        }
        if let Some(record) = record.filter(|_| is_whole) {
            return fit(self.to.batch(id, &record));
        }
        let what = format!("batch {id} cannot be read whole; its threads are kept");
        self.tell(Loss::without_thread(LossKind::Batch, what));
        Ok(())
    }

    fn hooks(&mut self) -> Result<(), Error> {
        let mut faults = Faults::default();
        entries::read(self.from, Family::Hooks, &mut faults, &mut |key, value, _| {
            codec::check_entry(Family::Hooks, key, value)?;
            self.to.hook_value(key, value)
        })?;
        if !faults.into_list().is_empty() {
            let what = "values of hooks are lost, such as cached answers; they are made again where they are needed";
            self.tell(Loss::without_thread(LossKind::Hooks, what));
        }
        Ok(())
    }
}

/// Steps of which nothing but their numbers is known.
fn gap(thread: &ThreadId, from: u64, through: u64, why: &str) -> Loss {
    Loss { seq: Some(from), through: Some(through), ..Loss::of(LossKind::Step, thread, why) }
}

/// What was read, or what is damaged.
fn damage_of<V>(read: Result<V, Error>) -> Result<Result<V, String>, Error> {
    match read {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Damaged(damage)) => Ok(Err(damage.what)),
        Err(error) => Err(error),
    }
}

/// What was read; `None` if it is damaged.
fn readable<V>(read: Result<V, Error>) -> Result<Option<V>, Error> {
    Ok(damage_of(read)?.ok())
}

/// Why a part was refused, if it was.
fn refusal(added: Result<(), Refused>) -> Result<Option<String>, Error> {
    match added {
        Ok(()) => Ok(None),
        Err(Refused::Unfit { what }) => Ok(Some(what)),
        Err(Refused::Store(error)) => Err(error),
    }
}

/// Adds a part that was read and checked, so that a refusal is a fault of rondo.
fn fit(added: Result<(), Refused>) -> Result<(), Error> {
    refusal(added)?.map_or(Ok(()), |what| Err(Error::Malformed { what }))
}

#[cfg(test)]
mod tests;

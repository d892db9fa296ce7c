//! Deleting threads: which go together, what is deleted, and the question before it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rondo::core::Error;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::{BatchId, ThreadId};
use rondo::store::folder::disk_usage;
use rondo::store::{Read, Row, Status, StepStore, rows_after};
use rondo::tell::{plural, size, tell};
use rondo::upkeep::Collected;
use rondo::views::lines::{ThreadLine, thread_line};

use super::batch::numbers;
use super::named_command::completed;
use super::person::{answer_to, is_attended};
use super::runner::{Session, Writing, with_session};
use super::store_access::{DrivenThreads, StoreView, TrustedStore};
use super::stored_batch::{Line, encode};
use super::threads::{begun_ms, cells, listed};
use super::{Exit, Failure, Output, StoreArgs, gc, json, json_line, now_ms};

const MAX_SHOWN: usize = 20;

/// About how many threads are deleted at once. A thread and its children are never parted.
const CHUNK: usize = 1000;

/// A collection of garbage reads the whole store: it follows a deletion of at least this part of all steps (1 of 10), or
/// in a small store.
const LARGE_SHARE: u64 = 10;

const SMALL_BYTES: u64 = 64 << 20;

/// What is told where no collection followed.
const LATER: &str = "deleted; `rondo gc` gives their space back";

#[derive(Debug, Clone, clap::Args)]
#[command(arg = json())]
pub struct DeletionArgs {
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Delete without a question
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, Default)]
pub struct Deleted {
    pub threads: BTreeSet<ThreadId>,
    /// The store that was written; `None` if nothing was deleted.
    pub store: Option<TrustedStore>,
    /// Whether a collection of garbage costs little beside the deletion.
    is_large: bool,
}

impl Deleted {
    /// Gives the space back, where that costs little beside the deletion.
    pub fn give_back(self, output: &Output) -> Result<Exit, Failure> {
        let Some(store) = self.store else {
            output.tell("nothing was deleted\n");
            return Ok(Exit::Done);
        };
        let is_worth_it = self.is_large || disk_usage(&store.opening.folder)?.bytes <= SMALL_BYTES;
        let told = match is_worth_it.then(|| gc::collect(store)) {
            None => format!("{}\n", completed(LATER)),
            Some(Ok(Collected { garbage, before, after })) => format!(
                "deleted, with {} that no other thread needs; the store took {} and takes {}\n",
                plural(garbage.count(), "object"),
                size(before.bytes),
                size(after.bytes)
            ),
            Some(Err(failure)) if failure.exit() == Exit::Damaged => return Err(failure),
            // The threads are gone for good, which is what was asked for.
            Some(Err(failure)) => format!("{}, which failed now: {failure}\n", completed(LATER)),
        };
        output.tell(&told);
        Ok(Exit::Done)
    }
}

/// The threads of a store that are to be deleted, and what else has to be known of all.
pub struct Deletion {
    pub view: StoreView,
    pub threads: BTreeSet<ThreadId>,
    /// The threads that need others: forks and children.
    needs: BTreeMap<ThreadId, Needs>,
    steps: u64,
}

struct Needs {
    base: Option<ThreadId>,
    parent: Option<ThreadId>,
}

impl Deletion {
    pub fn of(view: StoreView, is_chosen: impl Fn(&DrivenThreads, &ThreadId, &Row) -> bool) -> Result<Self, Failure> {
        let (mut threads, mut needs, mut steps) = (BTreeSet::new(), BTreeMap::new(), 0_u64);
        for row in rows_after(view.store.as_ref(), None) {
            let (thread, row) = row?;
            steps = steps.saturating_add(row.seq.saturating_sub(row.shared()));
            if is_chosen(&view.driven, &thread, &row) {
                threads.insert(thread.clone());
            }
            let (base, parent) = (row.base.map(|base| base.thread), row.parent.map(|parent| parent.thread));
            if base.is_some() || parent.is_some() {
                needs.insert(thread, Needs { base, parent });
            }
        }
        Ok(Self { view, threads, needs, steps })
    }

    pub fn parent(&self, thread: &ThreadId) -> Option<&ThreadId> {
        self.needs.get(thread)?.parent.as_ref()
    }

    /// These threads, the children below them, and with `with_forks` the forks.
    pub fn with_what_needs(&self, mut threads: BTreeSet<ThreadId>, with_forks: bool) -> BTreeSet<ThreadId> {
        loop {
            let before = threads.len();
            for (thread, Needs { base, parent }) in &self.needs {
                let base = base.as_ref().filter(|_| with_forks);
                if parent.iter().chain(base).any(|needed| threads.contains(needed)) {
                    threads.insert(thread.clone());
                }
            }
            if threads.len() == before {
                return threads;
            }
        }
    }

    /// The threads that stay and were forked from one of the threads, each with that thread.
    pub fn forks(&self) -> Vec<(&ThreadId, &ThreadId)> {
        let stays = self.needs.iter().filter(|(thread, _)| !self.threads.contains(*thread));
        stays.filter_map(|(fork, needs)| Some((fork, self.threads.get(needs.base.as_ref()?)?))).collect()
    }

    /// Shows what is to be deleted, asks, and deletes it. `None` if that is declined.
    ///
    /// # Errors
    /// [`Code::NotConfirmed`] where nobody can be asked, [`Code::StoreBusy`] if a thread is running.
    pub fn carry_out(self, args: &DeletionArgs, output: &mut Output) -> Result<Option<Deleted>, Failure> {
        let (mut lines, mut newest, now_ms) = (Vec::new(), VecDeque::new(), now_ms());
        let (mut count, mut all_steps, mut all_bytes) = (0_u64, 0_u64, 0_u64);
        let store = self.view.store.as_ref();
        for thread in &self.threads {
            let Some(row) = store.row(thread)? else { continue };
            let line = thread_line(store, &self.view.driven, thread, &row)?;
            if line.status == Status::Running && matches!(self.view.driven, DrivenThreads::These(_)) {
                return Err(running(thread));
            }
            let (steps, size_bytes) = own(store, thread)?;
            (count, all_steps, all_bytes) = (count + 1, all_steps + steps, all_bytes + size_bytes);
            if output.is_json() {
                lines.push((line, steps, size_bytes));
                continue;
            }
            newest.push_back(cells(&line, now_ms.saturating_sub(begun_ms(&row, now_ms))));
            if newest.len() > MAX_SHOWN {
                newest.pop_front();
            }
        }
        let all = format!("{} with {} ({})", plural(count, "thread"), plural(all_steps, "step"), size(all_bytes));
        if !output.is_json() {
            listed(|| newest.iter().rev().cloned().map(Ok), usize::MAX, &mut |text| output.text(text))?;
            let older = count.saturating_sub(newest.len() as u64);
            let older = if older > 0 { format!("and {older} older ones\n") } else { String::new() };
            output.text(&format!("{older}{all}\n"))?;
        }
        if !args.dry_run && !args.yes {
            if !is_attended(output) {
                return Err(Failure::new(Code::NotConfirmed, format!("nobody confirmed to delete {all}"))
                    .with_hint("look at it with --dry-run, or add --yes to delete it"));
            }
            if !matches!(answer_to("delete them for good? [y/N] ").to_lowercase().as_str(), "y" | "yes") {
                tell("nothing was deleted\n");
                return Ok(None);
            }
        }
        let is_large = all_steps.saturating_mul(LARGE_SHARE) >= self.steps;
        let threads = self.threads.clone();
        let store = if args.dry_run { None } else { Some(self.delete(args, output)?) };
        let deleted = Deleted { threads, store, is_large };
        for (ThreadLine { thread, name, label, status, .. }, steps, size_bytes) in lines {
            let deleted = deleted.store.is_some();
            output.line(&json_line!("deletion", thread, name, label, status, steps, size_bytes, deleted))?;
        }
        Ok(Some(deleted))
    }

    fn delete(self, args: &DeletionArgs, output: &Output) -> Result<TrustedStore, Failure> {
        let (rondo, store) = args.store.trusted(output)?;
        let writing = Writing { rondo, to_open: Some(store.clone()) };
        let chunks = self.chunks();
        drop(self);
        with_session(writing, async |Session { host, .. }| {
            let engine = host.engine();
            let all = chunks.iter().flatten().collect();
            let mut lines = lines_of(engine.store(), &all)?;
            for threads in chunks {
                let lines = threads.iter().flat_map(|thread| lines.remove(thread).unwrap_or_default()).collect();
                engine.delete(&threads, lines).await.map_err(|error| match error {
                    Error::Running { thread } => running(&thread),
                    other => other.into(),
                })?;
            }
            Ok(Exit::Done)
        })?;
        Ok(store)
    }

    /// The threads in the order of their deletion: a fork before its base, a child together with its parent.
    fn chunks(&self) -> Vec<BTreeSet<ThreadId>> {
        let mut trees: BTreeMap<&ThreadId, BTreeSet<ThreadId>> = BTreeMap::new();
        let mut roots: BTreeMap<&ThreadId, &ThreadId> = BTreeMap::new();
        // Oldest first: the root of a parent is known before its children come.
        for thread in &self.threads {
            let root = self.parent(thread).and_then(|parent| roots.get(parent).copied()).unwrap_or(thread);
            roots.insert(thread, root);
            trees.entry(root).or_default().insert(thread.clone());
        }
        let mut chunks: Vec<BTreeSet<ThreadId>> = Vec::new();
        for (_, mut tree) in trees.into_iter().rev() {
            match chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
                Some(chunk) => chunk.append(&mut tree),
                None => chunks.push(tree),
            }
        }
        chunks
    }
}

fn running(thread: &ThreadId) -> Failure {
    Failure::new(Code::StoreBusy, format!("thread {thread} is running, so nothing was deleted"))
        .with_hint(format!("wait until it has ended, or end it with `rondo cancel {thread}`"))
}

fn own(store: &dyn Read, thread: &ThreadId) -> Result<(u64, u64), Failure> {
    let (mut steps, mut bytes) = (0, 0_u64);
    store.own_records(thread, 0..=u64::MAX, &mut |stored| {
        steps += 1;
        bytes = bytes.saturating_add(stored.bytes.len() as u64);
        Ok(true)
    })?;
    Ok((steps, bytes))
}

type ChangedLine = (BatchId, u32, Vec<u8>);

/// The lines of batches whose threads are deleted, by thread. Each says so from now on: resuming the batch must not run
/// it again.
fn lines_of(
    store: &Arc<dyn StepStore>,
    threads: &BTreeSet<&ThreadId>,
) -> Result<BTreeMap<ThreadId, Vec<ChangedLine>>, Failure> {
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for batch in store.batches(None, usize::MAX)? {
        for line in numbers(Arc::clone(store), batch.clone()) {
            let (number, line) = line?;
            if let Line::Valid { thread, .. } = line
                && threads.contains(&thread)
            {
                let message = format!("its thread {thread} was deleted");
                let line = Line::Invalid { code: Code::ThreadUnknown.to_string(), message };
                lines.entry(thread).or_default().push((batch.clone(), number, encode(&line)?));
            }
        }
    }
    Ok(lines)
}

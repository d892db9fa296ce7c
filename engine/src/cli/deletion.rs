//! Deleting threads: which go together, what is deleted, and the question before it.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{BatchId, ThreadId};
use serde::Serialize;

use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, Style};
use super::person::{answer_to, consent_by, is_attended};
use super::runner::{Session, with_session};
use super::store_access::{DrivenThreads, StoreView, own_store};
use super::stored_batch::Line;
use super::thread_row::origin;
use super::threads::listed;
use super::{JsonArgs, StoreArgs, settings_files};
use crate::Error;
use crate::store::{Read, Row, StepStore};
use crate::tell::{plural, size, tell};
use crate::views::lines::{ThreadLine, thread_line};

/// How many threads are shown before the question.
const MAX_SHOWN: usize = 20;

/// About how many threads are deleted at once. A thread and its children are never parted.
const CHUNK: usize = 1000;

/// How many lines of a batch are read at a time.
const LINES: usize = 256;

/// How a deletion is confirmed.
#[derive(Debug, Clone, clap::Args)]
pub struct DeletionArgs {
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete without a question
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

/// All threads of a store, oldest first, and which of them are to be deleted.
pub struct Deletion {
    pub view: StoreView,
    pub rows: Vec<(ThreadId, Row)>,
    pub threads: BTreeSet<ThreadId>,
}

/// The line of a thread that is deleted, or would be.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "deletion")]
struct DeletionLine<'a> {
    thread: &'a ThreadId,
    name: &'a str,
    label: Option<&'a str>,
    status: crate::store::Status,
    steps: u64,
    size_bytes: u64,
    deleted: bool,
}

impl Deletion {
    /// Nothing is to be deleted yet.
    pub fn new(view: StoreView) -> Result<Self, Failure> {
        let rows = view.store.rows(None, usize::MAX)?;
        Ok(Self { view, rows, threads: BTreeSet::new() })
    }

    /// Adds the children of the threads and all below them, and with `with_forks` the forks.
    pub fn add_what_needs_them(&mut self, with_forks: bool) {
        self.threads = self.with_what_needs(self.threads.clone(), with_forks);
    }

    /// These threads, the children below them, and with `with_forks` the forks.
    pub fn with_what_needs(&self, mut threads: BTreeSet<ThreadId>, with_forks: bool) -> BTreeSet<ThreadId> {
        loop {
            let before = threads.len();
            for (thread, row) in &self.rows {
                let parent = row.parent.as_ref().map(|parent| &parent.thread);
                let base = row.base.as_ref().map(|base| &base.thread).filter(|_| with_forks);
                if parent.into_iter().chain(base).any(|needed| threads.contains(needed)) {
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
        let stays = self.rows.iter().filter(|(thread, _)| !self.threads.contains(thread));
        let base = |row: &'_ Row| row.base.as_ref().map(|base| base.thread.clone());
        let found = stays.filter_map(|(fork, row)| self.threads.get(&base(row)?).map(|base| (fork, base)));
        found.collect()
    }

    fn doomed(&self) -> impl Iterator<Item = &(ThreadId, Row)> {
        self.rows.iter().filter(|(thread, _)| self.threads.contains(thread))
    }

    /// Shows what is to be deleted, asks, and deletes it.
    ///
    /// # Errors
    /// [`Code::NotConfirmed`] where nobody can be asked, [`Code::StoreBusy`] if a thread is running.
    pub fn carry_out(self, args: &DeletionArgs, now_ms: u64, output: &mut Output) -> Result<Exit, Failure> {
        if let DrivenThreads::These(driven) = &self.view.driven
            && let Some(thread) = self.threads.intersection(driven).next()
        {
            return Err(running(thread));
        }
        let mut sized = Vec::new();
        for (thread, row) in self.doomed() {
            let line = thread_line(self.view.store.as_ref(), &self.view.driven, thread, row)?;
            let begun = origin(row).map_or(now_ms, |origin| origin.started_at_ms);
            sized.push(((line, now_ms.saturating_sub(begun)), own(self.view.store.as_ref(), thread)?));
        }
        let (steps, bytes) = sized.iter().fold((0, 0), |sum, (_, own)| (sum.0 + own.0, sum.1 + own.1));
        let count = u64::try_from(sized.len()).unwrap_or(u64::MAX);
        let all = format!("{} with {} ({})", plural(count, "thread"), plural(steps, "step"), size(bytes));
        if !output.is_json() {
            output.text(&shown(&sized))?;
            output.text(&format!("{all}\n"))?;
        }
        if !args.dry_run && !args.yes {
            if output.is_json() || !is_attended() {
                return Err(Failure::new(Code::NotConfirmed, format!("nobody confirmed to delete {all}"))
                    .with_hint("look at it with --dry-run, or add --yes to delete it"));
            }
            if !matches!(answer_to("delete them for good? [y/N] ").to_lowercase().as_str(), "y" | "yes") {
                tell("nothing was deleted\n");
                return Ok(Exit::Done);
            }
        }
        let exit = if args.dry_run { Exit::Done } else { self.delete(args, output)? };
        if !output.is_json() {
            let done = if args.dry_run { "nothing was deleted" } else { "deleted" };
            tell(&format!(
                "{done}; transcripts, which threads may share, are not part of this and stay in the store\n"
            ));
            return Ok(exit);
        }
        for ((line, _), (steps, bytes)) in &sized {
            let label = line.label.as_deref();
            let (thread, name, deleted) = (&line.thread, line.name.as_str(), !args.dry_run);
            let (steps, size_bytes) = (*steps, *bytes);
            output.line(&DeletionLine { thread, name, label, status: line.status, steps, size_bytes, deleted })?;
        }
        Ok(exit)
    }

    fn delete(self, args: &DeletionArgs, output: &Output) -> Result<Exit, Failure> {
        let files = settings_files::read(&args.store.flags())?;
        files.refuse_unsafe()?;
        let settings = files.in_force()?;
        let store = own_store(&settings, consent_by(false, !output.is_json() && is_attended()))?;
        let chunks = self.chunks();
        drop(self);
        with_session(store, settings.durability.value, async |Session { engine, .. }| {
            for threads in chunks {
                let lines = lines_of(&**engine.store(), &threads)?;
                engine.delete(&threads, lines).await.map_err(|error| match error {
                    Error::Running { thread } => running(&thread),
                    other => other.into(),
                })?;
            }
            Ok(Exit::Done)
        })
    }

    /// The threads in the order of their deletion: a fork before its base, a child together with its parent.
    fn chunks(&self) -> Vec<BTreeSet<ThreadId>> {
        let mut trees: BTreeMap<&ThreadId, BTreeSet<ThreadId>> = BTreeMap::new();
        let mut roots: BTreeMap<&ThreadId, &ThreadId> = BTreeMap::new();
        // Oldest first: the root of a parent is known before its children come.
        for (thread, row) in self.doomed() {
            let root = row.parent.as_ref().and_then(|parent| roots.get(&parent.thread).copied()).unwrap_or(thread);
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

/// The steps that are stored under a thread itself, and their size in bytes.
fn own(store: &dyn Read, thread: &ThreadId) -> Result<(u64, u64), Failure> {
    let (mut steps, mut bytes) = (0, 0_u64);
    store.own_records(thread, 0..=u64::MAX, &mut |stored| {
        steps += 1;
        bytes = bytes.saturating_add(u64::try_from(stored.bytes.len()).unwrap_or(u64::MAX));
        Ok(true)
    })?;
    Ok((steps, bytes))
}

/// A thread's line and age, with the number and the bytes of its steps.
type SizedThread = ((ThreadLine, u64), (u64, u64));

/// The first threads as a table, newest first.
fn shown(sized: &[SizedThread]) -> String {
    let style = Style::stdout();
    let width = if style.is_terminal { style.width } else { usize::MAX };
    let newest: Vec<_> = sized.iter().rev().take(MAX_SHOWN).map(|(line, _)| line).collect();
    let text = listed(&newest.into_iter(), usize::MAX, width);
    match sized.len().checked_sub(MAX_SHOWN) {
        None | Some(0) => text,
        Some(more) => format!("{text}and {more} older ones\n"),
    }
}

/// The lines of batches whose threads are deleted. Each says so from now on: resuming the batch must not run it again.
fn lines_of(store: &dyn StepStore, threads: &BTreeSet<ThreadId>) -> Result<Vec<(BatchId, u32, Vec<u8>)>, Failure> {
    let mut lines = Vec::new();
    for batch in store.batches(None, usize::MAX)? {
        let mut next = Some(1);
        while let Some(from) = next {
            let page = Line::page(store, &batch, from, LINES)?;
            next = page.last().filter(|_| page.len() == LINES).and_then(|(last, _)| last.checked_add(1));
            for (number, line) in page {
                if let Line::Valid { thread, .. } = line
                    && threads.contains(&thread)
                {
                    let message = format!("its thread {thread} was deleted");
                    let line = Line::Invalid { code: Code::ThreadUnknown.to_string(), message };
                    lines.push((batch.clone(), number, line.to_bytes()?));
                }
            }
        }
    }
    Ok(lines)
}

//! Reads threads from lines, and takes them into a store.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{BufRead, Read as _};

use data_encoding::BASE64;
use rondo_core::env::{Env as _, SystemEnv};
use rondo_core::secret::Secret;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::{BatchId, ThreadId};
use rondo_protocol::{Digest, canonical};
use rondo_store::import::{self, ImportError, Imported};
use rondo_store::staging::{Refused, Staging, unfit};
use rondo_store::{JournalRecord, LaneRow, Read, Row};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::super::trusted_store::with_store;
use super::claim;
use super::export::Exported;
use super::line::{Line, ThreadLine, seal_message};
use super::{FORMAT, MAX_LINE_BYTES, OLDEST_FORMAT};
use crate::failure::Failure;
use crate::host::batch;
use crate::host::store_access::TrustedStore;
use crate::host::thread_row;

/// Verified threads and batches that can be taken into a store.
pub struct Staged {
    staging: Staging,
    /// The threads, each after those that it needs.
    pub threads: Vec<ThreadId>,
    sha256: Digest,
    seal: Option<Digest>,
}

impl Staged {
    /// Whether a store of the user with this secret was exported.
    pub fn is_sealed_by(&self, secret: &Secret) -> bool {
        self.seal.is_some_and(|seal| secret.verifies(&seal_message(self.sha256), seal.as_bytes()))
    }

    /// Reduces it to what steps prove.
    pub(in super::super) fn claimed(&self, now_ms: u64) -> Result<(), Failure> {
        claim::claim(&self.staging, &self.threads, now_ms)
    }

    /// Checks that no new thread would stand for the child of one that is there.
    fn adds_no_child(&self, store: &dyn Read) -> Result<(), Failure> {
        for thread in &self.threads {
            let parent = self.staging.store().row(thread)?.and_then(|row| row.parent);
            let Some(parent) = parent.filter(|_| matches!(store.row(thread), Ok(None))) else { continue };
            if store.row(&parent.thread)?.is_some() {
                let what = format!("thread {thread} would be a child of {}, which is in the store", parent.thread);
                return Err(claim::refused(&what));
            }
        }
        Ok(())
    }
}

#[cfg(any(test, fuzzing))]
impl Staged {
    pub(in super::super) fn store(&self) -> &dyn rondo_store::Read {
        self.staging.store()
    }
}

/// Reads and verifies an export. Nothing is written but a temporary database; memory is bounded by the longest line.
///
/// # Errors
/// [`Code::ImportUnreadable`] with the number of the line, [`Code::ImportVersion`], [`Code::FileRefused`].
pub fn stage(mut input: impl BufRead) -> Result<Staged, Failure> {
    let staging = Staging::new()?;
    let (number, hash, sum, threads, thread_line, batch, end) = Default::default();
    let mut reader = Reader { staging, number, hash, sum, threads, thread_line, batch, end };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        let read = input.by_ref().take(limit).read_until(b'\n', &mut bytes);
        read.map_err(|error| Failure::new(Code::FileRefused, error.to_string()))?;
        reader.number += 1;
        match bytes.strip_suffix(b"\n") {
            None if bytes.is_empty() => break,
            None if bytes.len() >= MAX_LINE_BYTES => return reader.fault("the line is too long"),
            None => return reader.fault("the file was cut: its last line has no end"),
            Some(line) => reader.line(line, &bytes)?,
        }
    }
    let Some((sha256, seal)) = reader.end else {
        return reader.fault("the file was cut: its last line is missing");
    };
    Ok(Staged { staging: reader.staging, threads: reader.threads, sha256, seal })
}

/// Takes everything that was staged into a store, or nothing: see [`import::import`]. Of a file without the seal of this
/// user it is what its steps prove. Blocks.
pub async fn import(staged: &Staged, store: TrustedStore) -> Result<Imported, Failure> {
    let env = SystemEnv::default();
    let is_own = staged.is_sealed_by(&store.secret);
    if !is_own {
        staged.claimed(env.now_ms())?;
    }
    let imported = with_store(store, async |shared| {
        if !is_own {
            staged.adds_no_child(shared)?;
        }
        import::import(&staged.staging, shared, || env.random().to_le_bytes()).await.map_err(refused)
    });
    imported.await?
}

fn refused(error: ImportError) -> Failure {
    let message = format!("{error}; nothing was imported");
    let elsewhere = Hint::from(Operation::new(Verb::Again).with("store", "DIR")).words(" imports into another store");
    let hint = match error {
        ImportError::ThreadDiffers(thread) => {
            elsewhere.words("; ").operation(Operation::on(Verb::Rm, &thread)).words(" deletes the thread that is here")
        }
        ImportError::BatchDiffers(_) => elsewhere,
        ImportError::Store(error) => return error.into(),
    };
    Failure::new(Code::ImportDiffers, message).with_hint(hint)
}

struct Reader {
    staging: Staging,
    /// The line that is being read, from 1.
    number: u64,
    hash: Sha256,
    sum: Exported,
    threads: Vec<ThreadId>,
    /// Where the current thread began.
    thread_line: u64,
    batch: Option<OpenBatch>,
    /// What the last line says: the digest of those before it, and the seal.
    end: Option<(Digest, Option<Digest>)>,
}

struct OpenBatch {
    id: BatchId,
    batch: batch::Batch,
    /// The numbers of its lines so far.
    found: BTreeSet<u32>,
}

impl Reader {
    fn fault<T>(&self, what: impl std::fmt::Display) -> Result<T, Failure> {
        let message = format!("line {}: {what}; nothing was imported", self.number);
        let failure = Failure::new(Code::ImportUnreadable, message);
        Err(failure.with_hint("export it again, and copy the file as it is"))
    }

    fn line(&mut self, line: &[u8], whole: &[u8]) -> Result<(), Failure> {
        if self.end.is_some() {
            return self.fault("unexpected content after the last line");
        }
        let before = self.hash.clone();
        self.hash.update(whole);
        if self.number == 1 {
            return self.first(line);
        }
        self.part(line, before).or_else(|refused| match refused {
            Refused::Unfit { what } => self.fault(what),
            Refused::Store(error) => Err(error.into()),
        })
    }

    /// Adds what a line holds. `before` is the hash of those before it.
    fn part(&mut self, line: &[u8], before: Sha256) -> Result<(), Refused> {
        let line = serde_json::from_slice(line).or_else(|error| unfit(format!("it cannot be read: {error}")))?;
        match line {
            Line::Export { .. } => unfit("a second export begins"),
            Line::Object { kind, digest, value } => {
                let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) else {
                    return unfit(format!("there is no object of kind {kind:?}"));
                };
                self.sum.objects += 1;
                let bytes = if kind == Kind::File {
                    let text: Option<String> = serde_json::from_str(value.get()).ok();
                    let Some(bytes) = text.and_then(|text| BASE64.decode(text.as_bytes()).ok()) else {
                        return unfit("the file is not base64");
                    };
                    Cow::Owned(bytes)
                } else {
                    Cow::Borrowed(value.get().as_bytes())
                };
                self.staging.object(kind, digest, &bytes)
            }
            Line::Thread(thread) => self.thread(*thread),
            Line::Lane { lane, frontier, opened_by, index, fold } => {
                let row = LaneRow { frontier, fold: fold.0, opened_by, index };
                self.staging.lane(&lane, &row)
            }
            Line::List { opened_by, value } => self.staging.list(opened_by, value.get().as_bytes()),
            Line::Journal { lane, position, value } => {
                let record = JournalRecord { lane, position, bytes: bytes(value) };
                self.staging.record(&record)
            }
            Line::Step { seq, digest, visit, value, note } => {
                let note = serde_json::from_str(note.get())
                    .or_else(|error| unfit(format!("the note cannot be read: {error}")))?;
                self.sum.steps += 1;
                self.staging.step(seq, digest, visit, value.get().as_bytes(), note)
            }
            Line::Batch { batch, value } => self.batch(batch, value),
            Line::BatchInput { line, value } => self.batch_line(line, value),
            Line::End { threads, steps, objects, batches, sha256, seal } => {
                self.end_thread()?;
                self.end_batch()?;
                let counted = Exported { threads, steps, objects, batches };
                if Digest(before.finalize().into()) != sha256 || counted != self.sum {
                    return unfit("the lines before it are not those that were exported");
                }
                self.end = Some((sha256, seal));
                Ok(())
            }
        }
    }

    fn first(&self, line: &[u8]) -> Result<(), Failure> {
        // A newer format may say more in its first line.
        let first: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        match first.and_then(|first| u32::try_from(first.get("export")?.get("format")?.as_u64()?).ok()) {
            Some(OLDEST_FORMAT..=FORMAT) => Ok(()),
            Some(format) => {
                let known = format!("this rondo reads formats {OLDEST_FORMAT} to {FORMAT}");
                Err(Failure::new(Code::ImportVersion, format!("line 1: the file has format {format}, and {known}"))
                    .with_hint("import it with the version that wrote it"))
            }
            None => self.fault("this is no export: `rondo export` writes one"),
        }
    }

    fn thread(&mut self, line: ThreadLine<'_>) -> Result<(), Refused> {
        self.end_thread()?;
        self.end_batch()?;
        let thread = line.thread;
        let row = Row {
            version: line.version,
            status: line.status,
            seq: line.seq,
            head: line.head,
            workflow: line.workflow,
            policy: line.policy,
            start: line.start,
            base: line.base,
            parent: line.parent,
            label: line.label,
            tags: line.tags,
            raised: line.raised,
            checkpoint: line.checkpoint.map(|state| state.0).unwrap_or_default(),
            origin: line.origin.map(bytes).unwrap_or_default(),
        };
        if !row.origin.is_empty() && thread_row::origin(&row).is_none() {
            return unfit("the origin of the thread cannot be read");
        }
        self.sum.threads += 1;
        self.thread_line = self.number;
        self.threads.push(thread.clone());
        self.staging.thread(thread, row)
    }

    fn end_thread(&mut self) -> Result<(), Refused> {
        // No single line is to blame, so it is told where the thread begins.
        self.staging.end_thread().inspect_err(|_| self.number = self.thread_line)
    }

    fn batch(&mut self, id: BatchId, value: &RawValue) -> Result<(), Refused> {
        self.end_thread()?;
        self.end_batch()?;
        let batch = canonical::from_slice(value.get().as_bytes())
            .or_else(|error| unfit(format!("the batch cannot be read: {error}")))?;
        self.sum.batches += 1;
        self.staging.batch(&id, value.get().as_bytes())?;
        self.batch = Some(OpenBatch { id, batch, found: BTreeSet::new() });
        Ok(())
    }

    fn batch_line(&mut self, line: u32, value: &RawValue) -> Result<(), Refused> {
        if let Err(error) = canonical::from_slice::<batch::Line>(value.get().as_bytes()) {
            return unfit(format!("the line of the batch cannot be read: {error}"));
        }
        let Some(batch) = self.batch.as_mut().filter(|batch| batch.found.last() < Some(&line)) else {
            return unfit(format!("line {line} is not the next one of a batch"));
        };
        batch.found.insert(line);
        self.staging.batch_line(&batch.id, line, value.get().as_bytes())
    }

    fn end_batch(&mut self) -> Result<(), Refused> {
        let lacking = self.batch.take().and_then(|OpenBatch { id, batch, found, .. }| batch.lacks(&id, &found));
        lacking.map_or(Ok(()), unfit)
    }
}

fn bytes(value: &RawValue) -> Vec<u8> {
    value.get().as_bytes().to_vec()
}

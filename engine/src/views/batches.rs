//! How far batches have come: their JSON lines, which `rondo batches` prints and the API answers with.

use rondo_core::local::spent;
use rondo_protocol::id::{BatchId, ThreadId};
use rondo_protocol::object::KnownCost;
use rondo_store::{Read, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::event;
use crate::failure::Failure;
use crate::host::batch::{Batch, Line};
use crate::host::store_access::DrivenThreads;
use crate::host::thread_row::status;

/// How many lines are read at a time.
const PAGE: usize = 256;

/// A batch, and what has become of its lines.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "batch")]
#[schemars(rename = "BatchLine", transform = event("batch"))]
pub struct BatchLine {
    pub batch: BatchId,
    /// The workflow.
    pub name: String,
    pub tags: Vec<String>,
    pub started_at_ms: u64,
    pub lines: u32,
    /// How many lines have each status.
    pub statuses: Statuses,
    #[serde(flatten)]
    pub cost: KnownCost,
}

/// What has become of a line: of its thread, which may not have begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LineStatus {
    Done,
    Failed,
    Cancelled,
    Stopped,
    Waiting,
    Running,
    Invalid,
    NotBegun,
}

impl From<Status> for LineStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Stopped => Self::Stopped,
            Status::Done => Self::Done,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

/// How many lines have each status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statuses {
    done: u32,
    failed: u32,
    cancelled: u32,
    stopped: u32,
    waiting: u32,
    running: u32,
    invalid: u32,
    not_begun: u32,
}

impl Statuses {
    fn counts(&mut self) -> [(LineStatus, &mut u32, &'static str); 8] {
        [
            (LineStatus::Done, &mut self.done, "done"),
            (LineStatus::Failed, &mut self.failed, "failed"),
            (LineStatus::Cancelled, &mut self.cancelled, "cancelled"),
            (LineStatus::Stopped, &mut self.stopped, "stopped"),
            (LineStatus::Waiting, &mut self.waiting, "waiting"),
            (LineStatus::Running, &mut self.running, "running"),
            (LineStatus::Invalid, &mut self.invalid, "invalid"),
            (LineStatus::NotBegun, &mut self.not_begun, "not begun"),
        ]
    }

    fn add(&mut self, status: LineStatus) {
        let of_status = self.counts().into_iter().filter(|(of, ..)| *of == status);
        of_status.for_each(|(_, count, _)| *count += 1);
    }

    /// Those that a line has, with their words.
    pub fn some(mut self) -> impl Iterator<Item = (u32, &'static str)> {
        self.counts().map(|(_, count, word)| (*count, word)).into_iter().filter(|(count, _)| *count > 0)
    }
}

/// A line of a batch.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LineView {
    /// Its number in the file, from 1.
    line: u32,
    /// Its thread, which may not have begun; `None` of an invalid line.
    thread: Option<ThreadId>,
    status: LineStatus,
    /// What is wrong with an invalid line.
    message: Option<String>,
}

/// The line of batch `id`.
pub fn batch_line(store: &dyn Read, driven: &DrivenThreads, id: &BatchId, batch: Batch) -> Result<BatchLine, Failure> {
    let mut line = BatchLine {
        batch: id.clone(),
        name: batch.workflow.name,
        tags: batch.tags,
        started_at_ms: batch.started_at_ms,
        lines: batch.lines,
        statuses: Statuses::default(),
        cost: KnownCost::default(),
    };
    for of in Line::all(store, id.clone(), 1, PAGE) {
        let (status, cost) = state(store, driven, &of?.1)?;
        line.statuses.add(status);
        line.cost += cost;
    }
    Ok(line)
}

/// At most `limit` lines of a batch from number `from` on.
pub fn lines(
    store: &dyn Read,
    driven: &DrivenThreads,
    (id, from): (&BatchId, u32),
    limit: usize,
) -> Result<Vec<LineView>, Failure> {
    let page = Line::page(store, id, from, limit)?.into_iter();
    page.map(|(line, of)| {
        let (status, _) = state(store, driven, &of)?;
        let (thread, message) = match of {
            Line::Valid { thread, .. } => (Some(thread), None),
            Line::Invalid { message, .. } => (None, Some(message)),
        };
        Ok(LineView { line, thread, status, message })
    })
    .collect()
}

/// What has become of a line, and what its thread cost.
fn state(store: &dyn Read, driven: &DrivenThreads, line: &Line) -> Result<(LineStatus, KnownCost), Failure> {
    let Line::Valid { thread, .. } = line else { return Ok((LineStatus::Invalid, KnownCost::default())) };
    let Some(row) = store.row(thread)? else { return Ok((LineStatus::NotBegun, KnownCost::default())) };
    Ok((status(thread, &row, driven).into(), spent(store, thread, &row)?.cost()))
}

//! How the lines of a batch ended, and what that makes of the process.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rondo::protocol::Value;
use rondo::protocol::event::Outcome;
use rondo::protocol::id::{Status, ThreadId};
use rondo::store::Read;
use rondo::tell::one_line;
use serde::Serialize;

use super::super::stored_batch::Line;
use super::super::thread_row::origin;

use crate::{Exit, Failure};

const MAX_CAUSES: usize = 20;

const MAX_NAMED: usize = 5;

const CAUSE_CHARS: usize = 80;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    /// Its thread has ended; the store knows how.
    Ended(Outcome),
    /// Its thread has stopped and can continue, or the line is invalid.
    Stopped { exit: Exit, error: LineError },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LineError {
    /// The code of the fault; `fail`, `cancelled` or `waiting` where there is none.
    pub(super) code: String,
    pub(super) message: String,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct LineResult {
    line: u32,
    thread: Option<ThreadId>,
    status: Option<Status>,
    outcome: Option<Outcome>,
    result: Value,
    error: Option<LineError>,
}

impl LineResult {
    pub(super) fn read(store: &dyn Read, (number, line): (u32, &Line), end: &End) -> Result<Self, Failure> {
        let error = if let End::Stopped { error, .. } = end { Some(error.clone()) } else { None };
        let mut read = Self { line: number, thread: None, status: None, outcome: None, result: Value::Null, error };
        let Line::Valid { thread, .. } = line else { return Ok(read) };
        read.thread = Some(thread.clone());
        let Some(row) = store.row(thread)? else { return Ok(read) };
        read.status = store.step(thread, row.seq)?.map(|(stored, _)| stored.step.status);
        if let (End::Ended(_), Some(ending)) = (end, origin(&row).and_then(|origin| origin.ending)) {
            read.outcome = Some(ending.outcome);
            read.result = Arc::unwrap_or_clone(ending.result);
            read.error = (ending.outcome != Outcome::Done).then(|| {
                let code = if ending.outcome == Outcome::Failed { "fail" } else { "cancelled" };
                LineError { code: code.to_owned(), message: ending.reason.unwrap_or_default() }
            });
        }
        Ok(read)
    }

    /// The word and the reason by which lines without a result are grouped.
    pub(super) fn cause(&self) -> Option<String> {
        let LineError { code, message } = self.error.as_ref()?;
        let message: String = one_line(message).chars().take(CAUSE_CHARS).collect();
        Some(if message == *code { message } else { format!("{code}  {message}") })
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: u32,
    /// Failed or cancelled.
    pub(super) failed: u32,
    /// Stopped or waiting; they can continue.
    pub(super) stopped: u32,
    pub(super) invalid: u32,
    /// The first line that stopped, in input order, with its exit.
    first_stopped: Option<(u32, Exit)>,
    /// By cause: how many lines, and the first of them.
    causes: BTreeMap<String, (u32, Vec<u32>)>,
}

impl Tally {
    pub(super) fn add(&mut self, line: u32, end: &End) {
        match end {
            End::Ended(Outcome::Done) => self.done += 1,
            End::Ended(_) => self.failed += 1,
            End::Stopped { exit, .. } => {
                let count = if *exit == Exit::Invalid { &mut self.invalid } else { &mut self.stopped };
                *count += 1;
                let is_first = self.first_stopped.is_none_or(|(first, _)| line < first);
                // A line that stopped because of another one says nothing itself.
                if is_first && *exit != Exit::Interrupted {
                    self.first_stopped = Some((line, *exit));
                }
            }
        }
    }

    pub(super) fn count_cause(&mut self, line: u32, cause: String) {
        let is_known = self.causes.len() < MAX_CAUSES || self.causes.contains_key(&cause);
        let cause = if is_known { cause } else { "other causes".to_owned() };
        let (count, named) = self.causes.entry(cause).or_default();
        *count += 1;
        if named.len() < MAX_NAMED {
            named.push(line);
        }
    }

    /// The ends other than `done`, in words.
    pub(super) fn others(&self) -> impl Iterator<Item = String> + use<> {
        let counts = [(self.failed, "failed"), (self.stopped, "stopped"), (self.invalid, "invalid")];
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"))
    }

    pub(super) fn ended(&self) -> u32 {
        self.done + self.failed + self.stopped + self.invalid
    }

    /// 0 if all lines are done; 1 if any failed; else the exit of the first line that stopped.
    pub(super) fn exit(&self, lines: u32) -> Exit {
        match self.first_stopped {
            _ if self.failed > 0 => Exit::Failed,
            Some((_, exit)) => exit,
            None if self.done == lines => Exit::Done,
            None => Exit::Interrupted,
        }
    }

    /// A line for each cause, the most frequent first.
    pub(super) fn table(&self) -> String {
        let mut causes: Vec<_> = self.causes.iter().collect();
        causes.sort_by_key(|(_, (count, named))| (Reverse(*count), named));
        let row = |(cause, (count, named)): (&String, &(u32, Vec<u32>))| {
            let lines: Vec<String> = named.iter().map(u32::to_string).collect();
            let more = if *count as usize > named.len() { ", ..." } else { "" };
            let noun = if *count == 1 { "line" } else { "lines" };
            format!("{count:>7}  {cause}  ({noun} {}{more})\n", lines.join(", "))
        };
        causes.into_iter().map(row).collect()
    }
}

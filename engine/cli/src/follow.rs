//! `rondo show --follow`: prints the steps of a thread as the process that drives it commits them.
//!
//! The store is opened again for each look: the process that holds it may end and another take its place at any time,
//! and a reader holds no lock that would be noticed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::store::Row;
use tokio::runtime::Runtime;

use super::find_thread::no_threads;
use super::signals::Signals;
use super::store_access::{StoreView, view_store_again};
use super::{Exit, Failure};

const INTERVAL: Duration = Duration::from_millis(500);

/// How many looks in a row may fail: files change while one holder of the store follows another.
const MAX_FAILURES: u32 = 4;

pub struct Follower {
    folder: PathBuf,
    thread: ThreadId,
    signals: Signals,
    runtime: Runtime,
}

impl Follower {
    pub fn new(folder: PathBuf, thread: ThreadId) -> Result<Self, Failure> {
        let runtime = super::runtime()?;
        let signals = runtime.block_on(async { Signals::listen("") })?;
        Ok(Self { folder, thread, signals, runtime })
    }

    pub fn exit(&self) -> Option<Exit> {
        self.signals.exit()
    }

    /// Waits, and opens the store again. `None` after a signal.
    pub fn next(&self) -> Result<Option<(StoreView, Row)>, Failure> {
        let mut failures = 0;
        loop {
            self.runtime.block_on(async {
                let _ = tokio::time::timeout(INTERVAL, self.signals.stop.cancelled()).await;
            });
            if self.exit().is_some() {
                return Ok(None);
            }
            failures += 1;
            match look(&self.folder, &self.thread) {
                Err(_) if failures < MAX_FAILURES => {}
                looked => return looked.map(Some),
            }
        }
    }
}

fn look(folder: &Path, thread: &ThreadId) -> Result<(StoreView, Row), Failure> {
    let view = view_store_again(folder)?.ok_or_else(no_threads)?;
    let row = view.store.row(thread)?;
    let row = row.ok_or_else(|| Failure::new(Code::ThreadUnknown, format!("thread {thread} no longer exists")))?;
    Ok((view, row))
}

use std::collections::BTreeSet;

use rondo::protocol::id::ThreadId;
use rondo::protocol::workflow::read::duration_ms;
use rondo::store::{Row, Status};
use rondo::tell::plural;

use super::deletion::{Deleted, Deletion, DeletionArgs};
use super::thread_row::{name, origin, status};
use super::{Exit, Failure, Output, now_ms, threads};

/// Delete old threads with their steps and children
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)))]
pub struct PruneArgs {
    /// Only threads that ended longer ago, such as 30d; of those that have not ended, threads that started longer ago
    #[arg(long, value_name = "TIME", value_parser = age, group = "which")]
    older_than: Option<u64>,
    /// Only threads with this status; can be given several times [default: done, failed, cancelled]
    #[arg(long, value_name = "STATUS", value_parser = threads::status, group = "which")]
    status: Vec<Status>,
    /// Only threads of the workflow with this name
    #[arg(long, value_name = "NAME", group = "which")]
    workflow: Option<String>,
    /// Only threads with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "WORD", group = "which")]
    tags: Vec<String>,
    /// Keep this many of the newest
    #[arg(long, value_name = "COUNT", group = "which")]
    keep: Option<usize>,
    #[command(flatten)]
    pub(super) deletion: DeletionArgs,
}

pub(super) fn age(text: &str) -> Result<u64, String> {
    duration_ms(text).ok_or_else(|| "write digits and a unit, such as 12h or 30d".to_owned())
}

pub fn prune(args: &PruneArgs, output: &mut Output) -> Result<Exit, Failure> {
    match delete_old(args, output)? {
        Some(deleted) if !deleted.threads.is_empty() => deleted.give_back(output),
        _ => Ok(Exit::Done),
    }
}

/// Deletes old threads. `None` if that is declined.
pub(super) fn delete_old(args: &PruneArgs, output: &mut Output) -> Result<Option<Deleted>, Failure> {
    let now_ms = now_ms();
    let view = args.deletion.store.existing()?;
    let mut deletion = Deletion::of(view, |driven, thread, row| {
        let status = status(thread, row, driven);
        // A child goes with its parent, and a running thread stays, whatever is asked for.
        row.parent.is_none() && status != Status::Running && args.wants(row, status, now_ms)
    })?;
    for _ in 0..args.keep.unwrap_or(0).min(deletion.threads.len()) {
        deletion.threads.pop_last();
    }
    deletion.threads = deletion.with_what_needs(deletion.threads.clone(), false);
    let kept = keep_needed(&mut deletion);
    if kept > 0 {
        let kept = plural(kept, "thread");
        output.tell(&format!("{kept} not deleted, because threads that stay were forked from them\n"));
    }
    if deletion.threads.is_empty() {
        output.tell("there is no thread to delete\n");
        return Ok(Some(Deleted::default()));
    }
    deletion.carry_out(&args.deletion, output)
}

impl PruneArgs {
    pub(super) fn of_ended(older_than: Option<u64>, keep: Option<usize>, deletion: &DeletionArgs) -> Self {
        let deletion = deletion.clone();
        Self { older_than, status: Vec::new(), workflow: None, tags: Vec::new(), keep, deletion }
    }

    fn wants(&self, row: &Row, status: Status, now_ms: u64) -> bool {
        let origin = origin(row);
        let ended_ms = origin.as_ref().and_then(|origin| origin.ending.as_ref().map(|ending| ending.at_ms));
        let since_ms = ended_ms.or(origin.map(|origin| origin.started_at_ms)).unwrap_or(now_ms);
        let has_status = if self.status.is_empty() { status.has_ended() } else { self.status.contains(&status) };
        has_status
            && self.older_than.is_none_or(|age_ms| now_ms.saturating_sub(since_ms) > age_ms)
            && self.workflow.as_ref().is_none_or(|workflow| *workflow == name(row))
            && self.tags.iter().all(|tag| row.tags.contains(tag))
    }
}

/// Takes out the threads that a fork needs which stays, with all threads of their trees. Returns their number.
fn keep_needed(deletion: &mut Deletion) -> u64 {
    let mut kept = 0;
    loop {
        let needed: BTreeSet<ThreadId> = deletion.forks().into_iter().map(|(_, base)| base.clone()).collect();
        if needed.is_empty() {
            return kept;
        }
        for thread in needed {
            // The thread that nobody's visit started, above this one.
            let root = std::iter::successors(Some(&thread), |thread| deletion.parent(thread)).last().unwrap_or(&thread);
            kept += u64::from(deletion.threads.contains(root));
            let tree = deletion.with_what_needs([root.clone()].into(), false);
            deletion.threads.retain(|thread| !tree.contains(thread));
        }
    }
}

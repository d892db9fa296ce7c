//! Finds the thread that a command line names.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::workflow::{MAX_CHILD_DEPTH, RoleKind, Workflow};

use super::store_access::{DrivenThreads, StoreView};
use super::thread_row::{name, status};
use crate::failure::Failure;
use crate::store::{Parent, Read, Row, Status};
use crate::tell::word;

/// How many threads are listed for an ambiguous word.
const MAX_LISTED: usize = 10;
/// How many rows are read at a time to find children.
const CHILDREN_PAGE: usize = 1000;

/// Finds a thread by its id, by its name, by a prefix of its id, or by the word `last`: the youngest that is no child.
/// No name looks like the beginning of an id.
///
/// # Errors
/// [`Code::ThreadUnknown`], [`Code::ThreadAmbiguous`], or a fault of the store.
pub fn find_thread(store: &dyn Read, word: &str) -> Result<(ThreadId, Row), Failure> {
    if let Ok(id) = ThreadId::new(word)
        && let Some(row) = store.row(&id)?
    {
        return Ok((id, row));
    }
    let mut rows = store.rows(None, usize::MAX)?;
    if word == "last" {
        // The children of a thread are younger than it, and nobody started them.
        let started = rows.iter().rposition(|(_, row)| row.parent.is_none());
        return started.map(|at| rows.swap_remove(at)).or_else(|| rows.pop()).ok_or_else(no_threads);
    }
    let is_name = rows.iter().any(|(_, row)| row.label.as_deref() == Some(word));
    let start = word.to_lowercase();
    let is_meant = |id: &ThreadId, row: &Row| {
        if is_name { row.label.as_deref() == Some(word) } else { !start.is_empty() && id.as_str().starts_with(&start) }
    };
    rows.retain(|(id, row)| is_meant(id, row));
    match rows.len() {
        0 => {
            let shown: String = word.chars().take(40).collect();
            Err(Failure::new(Code::ThreadUnknown, format!("no thread has the name {shown:?} or an id that begins so"))
                .with_hint("`rondo threads` lists them; `rondo doctor` tells which store is in use"))
        }
        1 => rows.pop().ok_or_else(no_threads),
        count => {
            let what = if is_name { format!("have the name {word:?}") } else { format!("begin with {start:?}") };
            Err(Failure::new(Code::ThreadAmbiguous, format!("{count} threads {what}")).with_hint(listed(&rows)))
        }
    }
}

/// Like [`find_thread`], in a store that may not exist.
pub fn find_thread_in(view: Option<StoreView>, word: &str) -> Result<(StoreView, ThreadId, Row), Failure> {
    let view = view.ok_or_else(no_threads)?;
    let (id, row) = find_thread(view.store.as_ref(), word)?;
    Ok((view, id, row))
}

/// The child threads of a thread and of those it was forked from, by the visit that started each.
///
/// # Errors
/// A fault of the store.
pub fn child_threads(
    store: &dyn Read,
    thread: &ThreadId,
    row: &Row,
    workflow: &Workflow,
) -> Result<BTreeMap<(RoleName, LanePath, u64), ThreadId>, Failure> {
    let mut children = BTreeMap::new();
    if !workflow.roles.iter().any(|(_, role)| matches!(role.kind, RoleKind::Workflow(_))) {
        return Ok(children);
    }
    let (mut parents, mut base) = (BTreeSet::from([thread.clone()]), row.base.clone());
    while let Some(before) = base {
        base = store.row(&before.thread)?.and_then(|row| row.base);
        parents.insert(before.thread);
    }
    // A child is younger than its parent, and ids sort by age.
    let mut last = parents.first().cloned();
    loop {
        let page = store.rows(last.as_ref(), CHILDREN_PAGE)?;
        let Some((newest, _)) = page.last() else { return Ok(children) };
        last = Some(newest.clone());
        for (id, row) in page {
            if let Some(Parent { role, lane, visit, .. }) = row.parent.filter(|of| parents.contains(&of.thread)) {
                children.insert((role, lane, visit), id);
            }
        }
    }
}

/// The only thread that has not ended.
///
/// # Errors
/// [`Code::ResumeUnclear`] if there is none or more than one.
pub fn find_unfinished(store: &dyn Read) -> Result<(ThreadId, Row), Failure> {
    let mut rows = store.rows(None, usize::MAX)?;
    // A child goes on with the thread above it.
    rows.retain(|(_, row)| {
        row.parent.is_none() && matches!(row.status, Status::Running | Status::Waiting | Status::Stopped)
    });
    match rows.len() {
        0 => Err(Failure::new(Code::ResumeUnclear, "every thread has ended; there is nothing to resume")),
        1 => rows.pop().ok_or_else(no_threads),
        count => Err(Failure::new(Code::ResumeUnclear, format!("{count} threads have not ended; which one?"))
            .with_hint(listed(&rows))),
    }
}

/// The thread at the top of the tree that a thread belongs to.
///
/// # Errors
/// A fault of the store.
pub fn root(store: &dyn Read, (mut thread, mut row): (ThreadId, Row)) -> Result<(ThreadId, Row), Failure> {
    for _ in 0..=MAX_CHILD_DEPTH {
        let Some(above) = row.parent.as_ref().map(|parent| parent.thread.clone()) else { break };
        let Some(its) = store.row(&above)? else { break };
        (thread, row) = (above, its);
    }
    Ok((thread, row))
}

pub fn no_threads() -> Failure {
    Failure::new(Code::ThreadUnknown, "the store holds no threads")
        .with_hint("`rondo run` starts one; `rondo doctor` tells which store is in use")
}

fn listed(rows: &[(ThreadId, Row)]) -> String {
    let newest = rows.iter().rev().take(MAX_LISTED);
    let mut lines: Vec<String> = newest
        .map(|(id, row)| {
            let status = word(&status(id, row, &DrivenThreads::Unknown));
            let label = row.label.as_ref().map(|label| format!("  {label}")).unwrap_or_default();
            format!("{id}  {}  {status}{label}", name(row))
        })
        .collect();
    if rows.len() > MAX_LISTED {
        lines.push(format!("and {} older ones", rows.len() - MAX_LISTED));
    }
    lines.join("\n")
}

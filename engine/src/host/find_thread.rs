//! Finds the thread that a command line names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::workflow::{MAX_CHILD_DEPTH, RoleKind, Workflow};
use rondo_store::{Error, Parent, Read, Row, rows_after};

use super::store_access::{DrivenThreads, StoreView};
use super::thread_row::{name, status};
use crate::failure::Failure;
use crate::tell::word;

/// How many threads are listed for an ambiguous word.
const MAX_LISTED: usize = 10;

/// The threads that may be meant: how many there are, and the newest of them, of which more than these are never
/// shown.
#[derive(Debug, Default)]
pub struct Candidates {
    pub count: usize,
    newest: VecDeque<(ThreadId, Row)>,
}

impl Candidates {
    /// The threads of a store that are like that.
    pub fn among(store: &dyn Read, is_meant: impl Fn(&ThreadId, &Row) -> bool) -> Result<Self, Error> {
        let mut candidates = Self::default();
        for row in rows_after(store, None) {
            let (thread, row) = row?;
            if is_meant(&thread, &row) {
                candidates.add(thread, row);
            }
        }
        Ok(candidates)
    }

    fn add(&mut self, thread: ThreadId, row: Row) {
        self.count += 1;
        self.newest.push_back((thread, row));
        self.newest.drain(..self.newest.len().saturating_sub(MAX_LISTED));
    }

    /// The only one.
    ///
    /// # Errors
    /// All of them, if there is none or more than one.
    pub fn only(mut self) -> Result<(ThreadId, Row), Self> {
        if self.count == 1 { self.newest.pop_back().ok_or(self) } else { Err(self) }
    }

    fn listed(&self) -> String {
        let line = |(id, row): &(ThreadId, Row)| {
            let status = word(&status(id, row, &DrivenThreads::Unknown));
            let label = row.label.as_ref().map(|label| format!("  {label}")).unwrap_or_default();
            format!("{id}  {}  {status}{label}", name(row))
        };
        let mut lines: Vec<String> = self.newest.iter().rev().map(line).collect();
        if self.count > self.newest.len() {
            lines.push(format!("and {} older ones", self.count - self.newest.len()));
        }
        lines.join("\n")
    }
}

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
    if word == "last" {
        return find_last(store);
    }
    let start = word.to_lowercase();
    let (mut named, mut begun) = (Candidates::default(), Candidates::default());
    for row in rows_after(store, None) {
        let (id, row) = row?;
        if row.label.as_deref() == Some(word) {
            named.add(id, row);
        } else if !start.is_empty() && id.as_str().starts_with(&start) {
            begun.add(id, row);
        }
    }
    let is_name = named.count > 0;
    let meant = if is_name { named } else { begun };
    meant.only().map_err(|meant| match meant.count {
        0 => {
            let shown: String = word.chars().take(40).collect();
            Failure::new(Code::ThreadUnknown, format!("no thread has the name {shown:?} or an id that begins so"))
                .with_hint(listing(Verb::Threads, " lists them; "))
        }
        count => {
            let what = if is_name { format!("have the name {word:?}") } else { format!("begin with {start:?}") };
            Failure::new(Code::ThreadAmbiguous, format!("{count} threads {what}")).with_hint(meant.listed())
        }
    })
}

fn find_last(store: &dyn Read) -> Result<(ThreadId, Row), Failure> {
    let (mut started, mut youngest) = (None, None);
    for row in rows_after(store, None) {
        let row = row?;
        // The children of a thread are younger than it, and nobody started them.
        let place = if row.1.parent.is_none() { &mut started } else { &mut youngest };
        *place = Some(row);
    }
    started.or(youngest).ok_or_else(no_threads)
}

pub fn find_thread_in(view: StoreView, word: &str) -> Result<(StoreView, ThreadId, Row), Failure> {
    let (id, row) = find_thread(view.store.as_ref(), word)?;
    Ok((view, id, row))
}

/// The child threads of a thread and of those it was forked from, by the visit that started each.
pub(crate) fn child_threads(
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
    for row in rows_after(store, parents.first().cloned()) {
        let (id, row) = row?;
        if let Some(Parent { role, lane, visit, .. }) = row.parent.filter(|of| parents.contains(&of.thread)) {
            children.insert((role, lane, visit), id);
        }
    }
    Ok(children)
}

/// The only thread that has not ended.
pub fn find_unfinished(store: &dyn Read) -> Result<(ThreadId, Row), Failure> {
    unfinished(store)?.only().map_err(|unfinished| match unfinished.count {
        0 => Failure::new(Code::ResumeUnclear, "every thread has ended; there is nothing to resume"),
        count => Failure::new(Code::ResumeUnclear, format!("{count} threads have not ended; which one?"))
            .with_hint(unfinished.listed()),
    })
}

/// The thread that a word names; without a word the only one that has not ended, or the last if all have.
pub fn find_current(store: &dyn Read, word: Option<&str>) -> Result<(ThreadId, Row), Failure> {
    if let Some(word) = word {
        return find_thread(store, word);
    }
    if unfinished(store)?.count == 0 { find_last(store) } else { find_unfinished(store) }
}

fn unfinished(store: &dyn Read) -> Result<Candidates, Error> {
    // A child continues with the thread above it.
    Candidates::among(store, |_, row| row.parent.is_none() && !row.status.has_ended())
}

/// The thread at the top of the tree that a thread belongs to.
pub fn root(store: &dyn Read, (mut thread, mut row): (ThreadId, Row)) -> Result<(ThreadId, Row), Failure> {
    for _ in 0..=MAX_CHILD_DEPTH {
        let Some(above) = row.parent.as_ref().map(|parent| parent.thread.clone()) else { break };
        let Some(its) = store.row(&above)? else { break };
        (thread, row) = (above, its);
    }
    Ok((thread, row))
}

fn listing(verb: Verb, does: &str) -> Hint {
    let hint = Hint::from(Operation::new(verb)).words(does);
    hint.operation(Operation::new(Verb::Doctor)).words(" tells which store is in use")
}

pub fn no_threads() -> Failure {
    Failure::new(Code::ThreadUnknown, "the store holds no threads").with_hint(listing(Verb::Run, " starts one; "))
}

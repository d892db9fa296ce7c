//! The steps of two threads after they parted, side by side.

use std::ops::RangeInclusive;

use rondo_core::store::{Error, Read, StoredStep};
use rondo_protocol::object::Note;

use super::parting::holds;
use super::{Parting, Side};

/// A step with what is known of it beside its digest.
pub type NotedStep = Box<(StoredStep, Note)>;

/// The same visit of a role in the same lane, in one thread or in both.
#[derive(Debug, Clone, PartialEq)]
pub enum Pair {
    /// Only the first thread has it.
    A(NotedStep),
    /// Only the second thread has it.
    B(NotedStep),
    /// Both have it, with different digests.
    Both(NotedStep, NotedStep),
}

/// Passes the visits after the parting to `each`, in the order of the first thread and between them those that only the
/// second has, until it returns `false`. Common steps in lanes are left out. At most two steps are in memory.
pub fn pairs(
    store: &dyn Read,
    a: Side<'_>,
    b: Side<'_>,
    parting: &Parting,
    each: &mut dyn FnMut(Pair) -> bool,
) -> Result<(), Error> {
    let first = parting.common.map_or(0, |(seq, _)| seq).saturating_add(1);
    let mut next_of_b = parting.trunk_of_b.saturating_add(1);
    for seq in first..=a.seq {
        let Some(step) = own(store, a, b, seq)? else { continue };
        let pair = match counterpart(store, b, &step.0)? {
            None => Pair::A(step),
            Some(other) => {
                let seq_of_b = other.0.seq;
                if !only_b(store, a, b, next_of_b..=seq_of_b, each)? {
                    return Ok(());
                }
                next_of_b = next_of_b.max(seq_of_b.saturating_add(1));
                Pair::Both(step, other)
            }
        };
        if !each(pair) {
            return Ok(());
        }
    }
    only_b(store, a, b, next_of_b..=b.seq, each)?;
    Ok(())
}

/// Passes the steps within `seqs` that only the second thread has; returns whether to continue.
fn only_b(
    store: &dyn Read,
    a: Side<'_>,
    b: Side<'_>,
    seqs: RangeInclusive<u64>,
    each: &mut dyn FnMut(Pair) -> bool,
) -> Result<bool, Error> {
    for seq in seqs {
        let Some(step) = own(store, b, a, seq)? else { continue };
        if seq_of_counterpart(store, a, &step.0)?.is_none() && !each(Pair::B(step)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The step at `seq` of `side`, unless the other thread has it too.
fn own(store: &dyn Read, side: Side<'_>, other: Side<'_>, seq: u64) -> Result<Option<NotedStep>, Error> {
    match store.step(side.thread, seq)? {
        Some(step) if !holds(store, other, step.0.digest)? => Ok(Some(Box::new(step))),
        _ => Ok(None),
    }
}

fn counterpart(store: &dyn Read, side: Side<'_>, of: &StoredStep) -> Result<Option<NotedStep>, Error> {
    match seq_of_counterpart(store, side, of)? {
        Some(seq) => Ok(store.step(side.thread, seq)?.map(Box::new)),
        None => Ok(None),
    }
}

fn seq_of_counterpart(store: &dyn Read, side: Side<'_>, of: &StoredStep) -> Result<Option<u64>, Error> {
    let found = store.visits(side.thread, &of.step.lane, &of.step.role, of.visit..=of.visit)?;
    Ok(found.first().map(|(_, seq)| *seq).filter(|seq| *seq <= side.seq))
}

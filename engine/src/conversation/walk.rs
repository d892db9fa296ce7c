//! What happened since a role's last visit, newest first: a walk back along what each step follows.
//!
//! The order is causal; lanes of one fan-out stand in declared order. Only what the role sees now and did not see then is
//! given.

use std::sync::Arc;

use rondo_agent_kit::history::Episode;
use rondo_protocol::Digest;
use rondo_protocol::id::LanePath;

use super::steps::{PastStep, Steps};
use crate::store::Error;

/// The steps that a visit comes after and that `seen_from` did not see, newest first.
pub struct Walk<'a> {
    steps: &'a Steps<'a>,
    seen_from: Option<PastStep>,
    /// What is still to be walked, the newest last.
    chains: Vec<Chain>,
    /// What could not be read: an iterator can only end.
    pub fault: Option<Error>,
}

/// Steps of which each follows the next, down to where a fan-out was opened.
struct Chain {
    next: Digest,
    /// A step after `next`.
    before: u64,
    /// The step that the chain ends at, itself not of it; 0 = the beginning.
    until: u64,
}

impl<'a> Walk<'a> {
    /// A walk back from the steps `prev` that step `before` follows. `seen_from` is the last visit of the role's own
    /// history.
    ///
    /// # Errors
    /// When a step is missing or damaged.
    pub fn new(steps: &'a Steps<'a>, prev: &[Digest], before: u64, seen_from: u64) -> Result<Self, Error> {
        let seen_from = if seen_from > 0 { Some(steps.step(seen_from)?) } else { None };
        let mut walk = Self { steps, seen_from, chains: Vec::new(), fault: None };
        walk.push(prev, before, 0)?;
        Ok(walk)
    }

    /// Adds what stands before a step: its predecessor, or the lanes that it joined and then what they left.
    fn push(&mut self, prev: &[Digest], before: u64, until: u64) -> Result<(), Error> {
        if let [next] = prev {
            self.chains.push(Chain { next: *next, before, until });
        } else if let Some(last) = prev.last() {
            let seq = self.steps.seq(*last, before)?;
            let opened_by = self.steps.step(seq)?.opened_by.last().copied().unwrap_or(0);
            if opened_by > until {
                let next = self.steps.step(opened_by)?.digest;
                self.chains.push(Chain { next, before, until });
            }
            self.chains.extend(prev.iter().map(|next| Chain { next: *next, before, until: opened_by }));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Arc<Episode>>, Error> {
        while let Some(Chain { next, before, until }) = self.chains.pop() {
            let seq = self.steps.seq(next, before)?;
            if seq <= until {
                continue;
            }
            let step = self.steps.step(seq)?;
            if self.seen_from.as_ref().is_some_and(|from| sees(from, &step)) {
                // What it follows was seen too.
                continue;
            }
            self.push(&step.prev, seq, until)?;
            return Ok(Some(step.episode));
        }
        Ok(None)
    }
}

impl Iterator for Walk<'_> {
    type Item = Arc<Episode>;

    fn next(&mut self) -> Option<Arc<Episode>> {
        if self.fault.is_some() {
            return None;
        }
        self.step().unwrap_or_else(|fault| {
            self.fault = Some(fault);
            None
        })
    }
}

/// Whether `step` lies before `from`, or is it.
fn sees(from: &PastStep, step: &PastStep) -> bool {
    let own: Vec<(&str, u32)> = from.episode.lane.segments().collect();
    let other: Vec<(&str, u32)> = step.episode.lane.segments().collect();
    let both = own.iter().zip(&from.opened_by[..]).zip(other.iter().zip(&step.opened_by[..]));
    let common = both.take_while(|(own, other)| own == other).count();
    // The last step of the lane that both are in which `from` comes after.
    let bound = from.opened_by.get(common).copied().unwrap_or(from.episode.seq);
    match step.opened_by.get(common) {
        // A lane that was opened before that has been joined before it.
        Some(opened_by) => *opened_by < bound,
        None => step.episode.seq <= bound,
    }
}

/// A lane and those around it, the trunk first.
pub fn around(lane: &LanePath) -> Vec<LanePath> {
    let mut lanes: Vec<LanePath> = std::iter::successors(Some(lane.clone()), LanePath::parent).collect();
    lanes.reverse();
    lanes
}

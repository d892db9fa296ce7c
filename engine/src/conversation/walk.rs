//! What happened since a role's last visit, newest first: a walk back along what each step follows.
//!
//! The order is causal; lanes of one fan-out stand in declared order. Only what the role sees now and did not see then is
//! given.

use std::sync::Arc;

use rondo_agent_kit::conversation::{Episode, Place};
use rondo_protocol::Digest;
use rondo_protocol::id::LanePath;

use super::steps::Steps;
use crate::store::Error;

/// The steps that a visit comes after and that `seen_from` did not see, newest first.
pub struct Walk<'a> {
    steps: &'a Steps<'a>,
    seen_from: Option<&'a Place>,
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
    pub fn new(
        steps: &'a Steps<'a>,
        prev: &[Digest],
        before: u64,
        seen_from: Option<&'a Place>,
    ) -> Result<Self, Error> {
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
            let opened_by = self.steps.step(seq)?.episode.opened_by.last().copied().unwrap_or(0);
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
            let place = step.episode.place();
            if self.seen_from.is_some_and(|from| from.round.sees(&place) && place.position() <= from.position()) {
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

/// A lane and those around it, the trunk first.
pub fn around(lane: &LanePath) -> Vec<LanePath> {
    let mut lanes: Vec<LanePath> = std::iter::successors(Some(lane.clone()), LanePath::parent).collect();
    lanes.reverse();
    lanes
}

//! What happened since a role's last visit, newest first: walks back along the predecessors of each step.
//!
//! The order is causal; lanes of one fan-out come in declared order. The walk yields only steps that the role knows now
//! and did not know then, and reads no more steps than the caller asks for.

use std::sync::Arc;

use rondo_protocol::Digest;

use super::{Episode, StepLocation};

pub trait Past {
    type Error;

    fn step(&self, seq: u64) -> Result<PastStep, Self::Error>;

    /// Returns the number of the step with that digest, which a step before `before` names as its predecessor.
    fn seq(&self, digest: Digest, before: u64) -> Result<u64, Self::Error>;
}

#[derive(Debug, Clone)]
pub struct PastStep {
    pub place: StepLocation,
    /// The step as templates and histories see it; `None` for a rebind or a compaction.
    pub episode: Option<Arc<Episode>>,
    pub digest: Digest,
    pub prev: Arc<[Digest]>,
}

/// The steps that precede a visit and that the role did not know at its last visit, newest first.
pub struct Walk<'a, P: Past> {
    past: &'a P,
    /// The last visit of the role's own history.
    last: Option<&'a StepLocation>,
    /// The chains left to walk, the newest last.
    chains: Vec<Chain>,
    /// The error that stopped the walk: an iterator can only end.
    pub fault: Option<P::Error>,
}

/// A chain of predecessors, down to the step that opened the fan-out.
struct Chain {
    next: Digest,
    /// The number of a step after `next`.
    before: u64,
    /// The step that the chain ends before; 0 = the beginning.
    until: u64,
}

impl<'a, P: Past> Walk<'a, P> {
    /// Starts a walk back from the steps `prev`, all before step `before`.
    pub fn new(past: &'a P, prev: &[Digest], before: u64, last: Option<&'a StepLocation>) -> Result<Self, P::Error> {
        let mut walk = Self { past, last, chains: Vec::new(), fault: None };
        walk.push(prev, before, 0)?;
        Ok(walk)
    }

    /// Adds the predecessors of a step: one step, or the lanes that it joined and then the step that opened them.
    fn push(&mut self, prev: &[Digest], before: u64, until: u64) -> Result<(), P::Error> {
        if let [next] = prev {
            self.chains.push(Chain { next: *next, before, until });
        } else if let Some(last) = prev.last() {
            let seq = self.past.seq(*last, before)?;
            let opened_by = self.past.step(seq)?.place.round.opened_by.last().copied().unwrap_or(0);
            if opened_by > until {
                let next = self.past.step(opened_by)?.digest;
                self.chains.push(Chain { next, before, until });
            }
            self.chains.extend(prev.iter().map(|next| Chain { next: *next, before, until: opened_by }));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Arc<Episode>>, P::Error> {
        while let Some(Chain { next, before, until }) = self.chains.pop() {
            let seq = self.past.seq(next, before)?;
            if seq <= until {
                continue;
            }
            let step = self.past.step(seq)?;
            if self.last.is_some_and(|last| last.knows(&step.place)) {
                // Its predecessors were known too.
                continue;
            }
            self.push(&step.prev, seq, until)?;
            if step.episode.is_some() {
                return Ok(step.episode);
            }
        }
        Ok(None)
    }
}

impl<P: Past> Iterator for Walk<'_, P> {
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

//! What happened since a role's last visit, newest first: a walk back along what each step follows.
//!
//! The order is causal; lanes of one fan-out stand in declared order. Only what the role knows of now and did not know
//! of then is given, and no more steps are read than are asked for.

use std::sync::Arc;

use rondo_protocol::Digest;

use super::{Episode, StepLocation};

/// Earlier steps of a thread, wherever they are kept.
pub trait Past {
    /// Why a step cannot be had.
    type Error;

    /// The step of that number.
    ///
    /// # Errors
    /// When it is missing or damaged.
    fn step(&self, seq: u64) -> Result<PastStep, Self::Error>;

    /// The number of the step of that digest, which a step before `before` names as the one it follows.
    ///
    /// # Errors
    /// When there is none.
    fn seq(&self, digest: Digest, before: u64) -> Result<u64, Self::Error>;
}

/// A step with its place among the others.
#[derive(Debug, Clone)]
pub struct PastStep {
    /// As templates and histories see it.
    pub episode: Arc<Episode>,
    /// Its digest.
    pub digest: Digest,
    /// The steps that it follows.
    pub prev: Arc<[Digest]>,
}

/// The steps that a visit comes after and that were not known at the role's last one, newest first.
pub struct Walk<'a, P: Past> {
    past: &'a P,
    /// The last visit of the role's own history.
    last: Option<&'a StepLocation>,
    /// What is still to be walked, the newest last.
    chains: Vec<Chain>,
    /// What could not be read: an iterator can only end.
    pub fault: Option<P::Error>,
}

/// Steps of which each follows the next, down to where a fan-out was opened.
struct Chain {
    next: Digest,
    /// A step after `next`.
    before: u64,
    /// The step that the chain ends at, itself not of it; 0 = the beginning.
    until: u64,
}

impl<'a, P: Past> Walk<'a, P> {
    /// A walk back from the steps `prev`, all before step `before`.
    ///
    /// # Errors
    /// When a step cannot be had.
    pub fn new(past: &'a P, prev: &[Digest], before: u64, last: Option<&'a StepLocation>) -> Result<Self, P::Error> {
        let mut walk = Self { past, last, chains: Vec::new(), fault: None };
        walk.push(prev, before, 0)?;
        Ok(walk)
    }

    /// Adds what stands before a step: its predecessor, or the lanes that it joined and then what they left.
    fn push(&mut self, prev: &[Digest], before: u64, until: u64) -> Result<(), P::Error> {
        if let [next] = prev {
            self.chains.push(Chain { next: *next, before, until });
        } else if let Some(last) = prev.last() {
            let seq = self.past.seq(*last, before)?;
            let opened_by = self.past.step(seq)?.episode.opened_by.last().copied().unwrap_or(0);
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
            let place = step.episode.place();
            if self.last.is_some_and(|last| last.knows(&place)) {
                // What it follows was known too.
                continue;
            }
            self.push(&step.prev, seq, until)?;
            return Ok(Some(step.episode));
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

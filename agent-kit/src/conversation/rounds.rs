//! Finds the step that opened the round of lanes of each step, from the predecessors that each step names.

use std::collections::BTreeMap;

use rondo_protocol::Digest;
use rondo_protocol::id::LanePath;

use super::{Round, StepLocation};

/// The rounds of a thread whose steps are added in order.
#[derive(Debug, Default)]
pub struct Rounds {
    last: BTreeMap<LanePath, (Digest, StepLocation)>,
}

impl Rounds {
    /// Adds the next step and returns its location.
    pub fn step(&mut self, seq: u64, digest: Digest, lane: &LanePath, prev: &[Digest]) -> StepLocation {
        let place = StepLocation { seq, round: Round { lane: lane.clone(), opened_by: self.opened_by(lane, prev) } };
        self.last.insert(lane.clone(), (digest, place.clone()));
        place
    }

    fn opened_by(&self, lane: &LanePath, prev: &[Digest]) -> Vec<u64> {
        let Some(parent) = lane.parent() else { return Vec::new() };
        let left = match self.last.get(&parent) {
            Some((digest, opener)) => prev.first().is_none_or(|prev| prev == digest).then(|| opener.clone()),
            None => prev.is_empty().then(|| StepLocation { seq: 0, round: Round::trunk() }),
        };
        match (left, self.last.get(lane)) {
            (Some(opener), _) => opener.round.opened_by.into_iter().chain([opener.seq]).collect(),
            (None, Some((_, before))) => before.round.opened_by.clone(),
            // No step opened this lane: the thread is damaged, which its reader reports.
            (None, None) => vec![0; lane.parts().count()],
        }
    }
}

//! The locations of steps among the lanes of their thread: which step precedes which, and which is visible to which.

use std::collections::BTreeMap;

use rondo_protocol::Digest;
use rondo_protocol::id::LanePath;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLocation {
    /// Its number in the thread, from 1. Between steps of concurrent lanes it tells which came first, which is chance.
    pub seq: u64,
    /// Its lane, in one round.
    pub round: Round,
}

/// A lane in one of its rounds: each entry into its fan-out starts another round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    pub lane: LanePath,
    /// For each part of the lane's path, the number of the step that opened its round; 0 = the beginning of the thread.
    pub opened_by: Vec<u64>,
}

/// The position of a step in causal order, with ties broken by lane path. It does not depend on which lane was faster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(Vec<(u64, u64)>);

impl StepLocation {
    /// Its position in causal order: for each part of the lane's path the opening step of the round and the index,
    /// then its own number. The steps of a lane come after the step that opened it and before the next of the outer
    /// lane.
    pub fn position(&self) -> Position {
        Position(self.order().collect())
    }

    fn order(&self) -> impl Iterator<Item = (u64, u64)> {
        let Round { lane, opened_by } = &self.round;
        let lanes = opened_by.iter().zip(lane.parts());
        lanes.map(|(opened_by, (_, index))| (*opened_by, u64::from(index) + 1)).chain([(self.seq, 0)])
    }

    /// Whether the role at this location could know of `step`, a step of the past, or `step` is this one.
    pub fn knows(&self, step: &Self) -> bool {
        self.round.sees(step) && step.order().le(self.order())
    }
}

impl Round {
    pub fn trunk() -> Self {
        Self { lane: LanePath::trunk(), opened_by: Vec::new() }
    }

    /// Whether a step of this round can know of a step of the past. It knows the trunk up to the step that opened the
    /// round, with the lanes joined before it, and its own lane in all its rounds; never another open lane. The same
    /// holds within a lane for the lanes that it opened.
    pub fn sees(&self, step: &StepLocation) -> bool {
        let mut own = self.lane.parts().zip(&self.opened_by);
        let mut its = step.round.lane.parts().zip(&step.round.opened_by);
        loop {
            match (own.next(), its.next()) {
                // Lanes that were opened from here are joined by now.
                (None, _) => return true,
                (Some((_, opened_by)), None) => return step.seq <= *opened_by,
                (Some((part, opened_by)), Some((its_part, its_opened_by))) => {
                    if opened_by != its_opened_by {
                        return its_opened_by < opened_by;
                    }
                    if part != its_part {
                        return false;
                    }
                }
            }
        }
    }
}

/// The rounds of a thread whose steps are added in order: the step that opened each is found from the predecessors that
/// every step names.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn place(seq: u64, lane: &str, opened_by: &[u64]) -> StepLocation {
        StepLocation { seq, round: Round { lane: LanePath::new(lane).unwrap(), opened_by: opened_by.to_vec() } }
    }

    /// Trunk 1; a fan-out with two lanes, of which the first opens two more; trunk 10; the same fan-out again.
    fn steps() -> Vec<StepLocation> {
        vec![
            place(1, "", &[]),
            place(3, "a[0]", &[1]),
            place(4, "a[0]/c[0]", &[1, 3]),
            place(7, "a[0]/d[1]", &[1, 3]),
            place(8, "a[0]", &[1]),
            place(2, "b[2]", &[1]),
            place(5, "b[2]", &[1]),
            place(6, "b[10]", &[1]),
            place(10, "", &[]),
            place(12, "a[0]", &[10]),
            place(11, "b[2]", &[10]),
        ]
    }

    #[test]
    fn causal_order_does_not_ask_who_was_faster() {
        let mut sorted = steps();
        sorted.sort_by_key(|step| step.seq);
        sorted.sort_by_key(StepLocation::position);
        assert_eq!(sorted, steps());
    }

    #[test]
    fn an_open_lane_is_seen_by_nobody_else() {
        let seen = |by: &StepLocation| -> Vec<u64> {
            let earlier = steps().into_iter().filter(|step| step.seq < by.seq);
            earlier.filter(|step| by.round.sees(step)).map(|step| step.seq).collect()
        };
        assert_eq!(seen(&place(9, "", &[])), [1, 3, 4, 7, 8, 2, 5, 6]);
        assert_eq!(seen(&place(8, "a[0]", &[1])), [1, 3, 4, 7]);
        assert_eq!(seen(&place(7, "a[0]/d[1]", &[1, 3])), [1, 3]);
        assert_eq!(seen(&place(5, "b[2]", &[1])), [1, 2]);
        assert_eq!(seen(&place(13, "b[2]", &[10])), [1, 3, 4, 7, 8, 2, 5, 6, 10, 11]);
        assert_eq!(seen(&place(11, "b[2]", &[1])), [1, 2, 5]);
    }

    #[test]
    fn news_are_what_could_not_be_known_before() {
        let news = |by: &StepLocation, last: &StepLocation| -> Vec<u64> {
            let earlier = steps().into_iter().filter(|step| step.seq < by.seq);
            earlier.filter(|step| by.round.sees(step) && !last.knows(step)).map(|step| step.seq).collect()
        };
        assert_eq!(news(&place(10, "", &[]), &place(1, "", &[])), [3, 4, 7, 8, 2, 5, 6]);
        // Sibling lanes are news once they are joined, whether they come before or after in order.
        assert_eq!(news(&place(13, "b[2]", &[10]), &place(5, "b[2]", &[1])), [3, 4, 7, 8, 6, 10, 11]);
    }
}

//! Replays committed steps in a machine.

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::id::LanePath;
use rondo_protocol::object::{Record, Step};

use super::decide::Consequences;
use super::fan::FanOutcome;
use super::lane::{Lane, LanePhase};
use super::lanes::{end_leaving, is_ending, stay};
use super::machine::{Machine, episode};
use super::message::{Definition, InFlight, PastStep, ReachedBy};
use super::recall::StepLookup;
use super::route::Decided;
use super::scope::DecisionInput;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The definitions that a thread has followed, by start.
pub type Definitions = BTreeMap<Digest, Definition>;

impl Machine {
    /// Follows a committed step. Returns how the machine reached it, or `None` if it does not follow.
    ///
    /// # Errors
    /// If an earlier step cannot be recalled, or a template has no value.
    pub fn follow(&mut self, step: &Step, of: PastStep, recall: &dyn StepLookup) -> Result<Option<ReachedBy>, Fault> {
        self.pending.all_rows = true;
        self.replaying(|machine| {
            if machine.seq == 0 && machine.trunk.last.is_none() && matches!(machine.trunk.phase, LanePhase::Deciding) {
                machine.begin(recall)?;
            }
            machine.follow_in(step, of, recall)
        })
    }

    /// Decides without limits and consequences: they were those of an earlier process.
    fn replaying<T>(&mut self, follow: impl FnOnce(&mut Self) -> Decided<T>) -> Result<T, Fault> {
        self.is_replaying = true;
        let followed = follow(self);
        self.given.clear();
        self.out.clear();
        self.after = Consequences::default();
        self.is_replaying = false;
        followed.map_err(|halt| self.halted(halt))
    }

    /// Follows a committed record of any kind; `false` if it does not follow.
    pub fn follow_record(
        &mut self,
        record: &Record,
        of: PastStep,
        definitions: &Definitions,
        recall: &dyn StepLookup,
    ) -> Result<bool, Fault> {
        match record {
            Record::Step(step) => self.follow(step, of, recall).map(|reached| reached.is_some()),
            Record::Compaction(compaction) => self.replaying(|machine| machine.follow_compaction(compaction, of)),
            Record::Rebind(rebind) => {
                let Some(to) = definitions.get(&rebind.to).cloned() else { return Ok(false) };
                let followed = self.follow_rebind(rebind, to, &of);
                if followed {
                    self.go_on(recall)?;
                }
                Ok(followed)
            }
        }
    }

    /// Decides what follows the last step, without its consequences.
    pub(super) fn go_on(&mut self, recall: &dyn StepLookup) -> Result<(), Fault> {
        let begun = self.replaying(|machine| machine.begin(recall));
        self.ending = self.pending.ending.take();
        begun
    }

    fn follow_in(&mut self, step: &Step, of: PastStep, recall: &dyn StepLookup) -> Decided<Option<ReachedBy>> {
        let is_expected = |machine: &Self| {
            let visiting = machine.lane(&step.lane).and_then(Lane::visiting);
            visiting.is_some_and(|dispatch| dispatch.role == step.role)
        };
        let input = Arc::clone(&self.definition.input);
        let context = DecisionInput { input: &input, recall, fresh: None };
        while !is_expected(self) {
            // Lanes that were being cancelled had ended when this step was made.
            let mut fans: Vec<LanePath> =
                self.lanes().into_iter().filter(|lane| is_ending(lane)).map(|lane| lane.path.clone()).collect();
            fans.sort_by_key(|path| path.parts().count());
            let Some(path) = fans.pop() else { return Ok(None) };
            let fan = self.fan_mut(&path)?;
            if fan.then.is_none() {
                let is_joined = path == step.lane && fan.is_joined_by(step);
                let then = if is_joined { FanOutcome::Join } else { FanOutcome::Unmet };
                self.follow_with(&path, Some(then))?;
            }
            let fan = self.fan_mut(&path)?;
            fan.lanes.values_mut().for_each(end_leaving);
            fan.count();
            if !fan.have_all_ended() {
                return Ok(None);
            }
            self.complete_if_ended(&path, context)?;
        }
        let Some(lane) = self.lane(&step.lane) else { return Ok(None) };
        let LanePhase::Visiting(dispatch) = &lane.phase else { return Ok(None) };
        if dispatch.role != step.role || self.seq + 1 != of.seq {
            return Ok(None);
        }
        let mut reached = ReachedBy {
            part: Arc::clone(&dispatch.part),
            prompt: dispatch.edge.prompt.clone(),
            opened_by: lane.opened_by.clone(),
            first_opened_by: lane.first_opened_by.clone(),
            after: Vec::new(),
            left_by: None,
        };
        let mut note = of.note;
        let is_join = dispatch.joins.is_some();
        if let Some(fan) = self.lane_mut(&step.lane)?.joined.as_deref_mut().filter(|_| is_join) {
            fan.lost = std::mem::take(&mut note.cancelled);
        }
        self.add(&step.lane, of.digest, step, &mut note)?;
        let episode = Arc::new(episode(self.seq, step.clone(), of.body, note.opened_by.clone()));
        self.version += 1;
        // What led here was told before.
        self.after = Consequences::default();
        match self.decide(&step.lane, DecisionInput { fresh: Some(&episode), ..context }) {
            Ok(()) => {}
            // Nothing followed it originally either.
            Err(halt) => {
                let fault = self.halted(halt);
                if fault.class != FaultClass::Limit {
                    return Err(fault.into());
                }
            }
        }
        self.ending = self.pending.ending.take();
        self.pending.list = None;
        (reached.after, reached.left_by) = (std::mem::take(&mut self.after.notices), self.left_by(&step.lane));
        Ok(Some(reached))
    }

    /// Adds the state that an earlier process left of visits in flight.
    #[must_use]
    pub fn with_recovered(self, recovered: BTreeMap<LanePath, InFlight>) -> Self {
        Self { recovered, ..self }
    }

    /// Ends following: limits apply again, and decisions are made from here.
    #[must_use]
    pub fn resumed(mut self, version: u64) -> Self {
        self.version = version;
        self.is_resumed = true;
        stay(&mut self.trunk);
        self
    }
}

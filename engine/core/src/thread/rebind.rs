//! Rebinds: from here on, a thread follows another definition.

use rondo_agent_kit::conversation::{Round, StepLocation};
use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::object::{Note, Rebind, Record, RecordKind};

use super::lane::LanePhase;
use super::machine::{Machine, Pending, no_form};
use super::message::{Action, Commit, Definition, Input, NewEpoch, PastStep};
use super::recall::StepLookup;
use crate::graph::{EdgeId, Graph};

impl Machine {
    /// Whether no lane is open, so that the thread can move to another definition.
    pub fn can_rebind(&self) -> bool {
        self.trunk.last.is_some() && self.trunk.fan().is_none()
    }

    /// Remembers every visit of these roles, because a later definition reads them.
    #[must_use]
    pub fn keeping(mut self, definition: &Definition) -> Self {
        let mut keep_all = self.keep_all.to_vec();
        keep_all.extend(definition.graph.roles_told_whole().iter().cloned());
        keep_all.sort();
        keep_all.dedup();
        self.keep_all = keep_all.into();
        self
    }

    /// Moves the thread to another definition. Returns the commit; what follows is decided when the thread resumes.
    ///
    /// # Errors
    /// If a lane is open, or if the thread cannot go on from its last step under that definition.
    pub fn rebind(&mut self, to: Definition, at_ms: u64, recall: &dyn StepLookup) -> Result<Commit, Fault> {
        let prev: Vec<Digest> = self.trunk.last.iter().map(|last| last.digest).collect();
        if !self.can_rebind() {
            let why = "a fan-out is open, whose lanes would need both definitions";
            return Err(Fault::new(Code::ForkRefused, FaultClass::Denied, why));
        }
        let rebind = Rebind { kind: RecordKind::Rebind, prev, start: self.definition.start, to: to.start };
        let record = Record::Rebind(rebind);
        let (digest, bytes) = record.digest().map_err(|error| no_form(&error))?;
        let seq = self.seq + 1;
        self.move_to(to);
        self.seq = seq;
        self.trunk.follow_record(seq, digest);
        let mut onward = self.clone().resumed(self.version);
        for action in onward.on(Input::Begin { at_ms }, 0, recall) {
            if let Action::Stop(fault) = action {
                return Err(fault);
            }
        }
        let note = Note { started_at_ms: at_ms, ended_at_ms: at_ms, ..Note::default() };
        let place = StepLocation { seq, round: Round::trunk() };
        let checkpoint = self.checkpoint()?;
        self.version += 1;
        let epoch = Some(NewEpoch { seq, digest, bytes, record, place, note });
        Ok(Commit { epoch, checkpoint, ..self.commit_of_row() })
    }

    /// The same thread under another definition, as if it had moved there now.
    pub fn moved(&self, to: Definition, recall: &dyn StepLookup) -> Result<Self, Fault> {
        let mut moved = self.clone().keeping(&to);
        moved.move_to(to);
        moved.go_on(recall)?;
        Ok(moved)
    }

    /// Follows a committed rebind to `to`; `false` if it does not follow.
    pub(super) fn follow_rebind(&mut self, rebind: &Rebind, to: Definition, of: &PastStep) -> bool {
        if !self.can_rebind() || rebind.to != to.start || self.seq + 1 != of.seq {
            return false;
        }
        self.move_to(to);
        self.seq = of.seq;
        self.trunk.follow_record(of.seq, of.digest);
        self.version += 1;
        true
    }

    fn move_to(&mut self, to: Definition) {
        let (old, new) = (&self.definition.graph, &to.graph);
        let taken = self.trunk.taken.iter();
        self.trunk.taken = taken.filter_map(|(edge, count)| Some((same_edge(old, new, *edge)?, *count))).collect();
        self.definition = to;
        self.trunk.phase = LanePhase::Deciding;
        (self.ending, self.end, self.pending) = (None, None, Pending::default());
    }
}

/// The edge of another definition that stands in the same place, so that its count continues.
fn same_edge(old: &Graph, new: &Graph, edge: EdgeId) -> Option<EdgeId> {
    let part = old.edges().get(&edge).map(|edge| edge.part.clone())?;
    new.edges().into_iter().find(|(_, edge)| edge.part == part && edge.bound.is_some()).map(|(id, _)| id)
}

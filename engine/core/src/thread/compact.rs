//! Compaction: a text replaces a role's older visits, and a new epoch of its history begins.
//!
//! A role is compacted only between two visits of one lane, and never at a join: the record takes the place of the
//! visit's predecessor, of which there must be one.

use rondo_agent_kit::conversation::{Round, StepLocation};
use rondo_protocol::call::FaultClass;
use rondo_protocol::event::CommittedSite;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::{Compaction, Note, Record, RecordKind};
use rondo_protocol::workflow::{Compact, History};

use super::lane::Lane;
use super::machine::{Machine, lost, no_form, no_lane};
use super::message::{Action, Answered, Commit, CompactOffer, NewEpoch, Notice, Object, PastStep, Visit, VisitEnd};
use super::recall::StepLookup;
use super::route::{Compacting, Decided, Dispatch};
use super::task::Task;

impl Machine {
    /// How a role is compacted, and its visits in a lane that would leave.
    fn compaction(&self, path: &LanePath, dispatch: &Dispatch) -> Option<(&Compact, u64)> {
        let lane = self.lane(path)?;
        let (role, _) = self.definition.graph.role(&dispatch.role)?;
        let model = role.kind.model().filter(|model| model.history != History::None)?;
        let compact = model.compact.as_ref().filter(|_| dispatch.task == Task::Model)?;
        let own = lane.own.get(&dispatch.role).filter(|_| dispatch.joins.is_none() && lane.last.is_some())?;
        let through = own.visits.saturating_sub(compact.keep);
        (through > own.covered).then_some((compact, through))
    }

    /// When the history of a visit is compacted first.
    pub(super) fn compact_offer(&self, path: &LanePath, dispatch: &Dispatch) -> Option<CompactOffer> {
        let is_open = dispatch.compacting == Compacting::IfTooLong;
        let (compact, through_visit) = self.compaction(path, dispatch).filter(|_| is_open)?;
        Some(CompactOffer { at_tokens: compact.at, through_visit })
    }

    /// Has the text written that replaces the older visits.
    pub(super) fn too_long(&mut self, path: &LanePath, leaving_bytes: usize) -> Decided {
        let lane = self.lane(path).ok_or_else(|| no_lane(path))?;
        let dispatch = lane.visiting().ok_or_else(|| no_lane(path))?;
        let (compact, through_visit) = self.compaction(path, dispatch).ok_or_else(|| no_lane(path))?;
        let visit = Visit {
            role: compact.by.clone(),
            attempts: lane.own.get(&compact.by).map_or(0, |own| own.attempts),
            task: Task::Compact { of: dispatch.role.clone(), through_visit },
            compact: None,
            ..self.visit(path, dispatch)?
        };
        self.visiting_mut(path)?.compacting = Compacting::Running { leaving_bytes };
        self.emit(vec![Action::Visit(Box::new(visit))]);
        Ok(())
    }

    /// Handles the end of the visit that wrote the text. A text that is empty or no shorter than what it replaces, or
    /// that broke its contract, is refused, and the visit continues without it; any other fault is one of the visit.
    pub(super) fn compacted(
        &mut self,
        path: &LanePath,
        leaving_bytes: usize,
        end: VisitEnd,
        recall: &dyn StepLookup,
    ) -> Decided {
        let dispatch = self.lane(path).and_then(Lane::visiting).ok_or_else(|| no_lane(path))?;
        let (compact, through_visit) = self.compaction(path, dispatch).ok_or_else(|| no_lane(path))?;
        let by = compact.by.clone();
        match end.outcome {
            Ok(text) if !text.body.trim().is_empty() && text.body.len() < leaving_bytes => {
                self.commit_compaction(path, (text, through_visit), (end.note, end.objects))?;
            }
            Err(fault) if !matches!(fault.class, FaultClass::Contract | FaultClass::Refused) => {
                return self.commit_visit(path, VisitEnd { outcome: Err(fault), ..end }, recall);
            }
            _ => {
                let refused = Box::new(lost(path, &by, &end.note, None));
                self.visiting_mut(path)?.compacting = Compacting::Refused(refused);
            }
        }
        if !self.ignores_limits {
            self.clock.working += 1;
        }
        let dispatch = self.lane(path).and_then(Lane::visiting).ok_or_else(|| no_lane(path))?;
        let visit = Action::Visit(Box::new(self.visit(path, dispatch)?));
        self.emit(vec![visit]);
        Ok(())
    }

    fn commit_compaction(
        &mut self,
        path: &LanePath,
        (text, through_visit): (Answered, u64),
        (mut note, objects): (Note, Vec<Object>),
    ) -> Decided {
        let dispatch = self.visiting_mut(path)?;
        let record = Compaction {
            kind: RecordKind::Compaction,
            lane: path.clone(),
            prev: dispatch.prev.clone(),
            role: dispatch.role.clone(),
            start: self.definition.start,
            text: text.body,
            through_visit,
            transcript: text.transcript,
        };
        let site = CommittedSite { role: Some(record.role.clone()), visit: None, lane: Some(path.clone()) };
        let prev = record.prev.clone();
        let record = Record::Compaction(Box::new(record));
        let (digest, bytes) = record.digest().map_err(|error| no_form(&error))?;
        let Record::Compaction(compaction) = &record else { return Ok(()) };
        let seq = self.seq + 1;
        let place = self.add_compaction(path, (seq, digest), compaction, &mut note)?;
        let at_ms = note.ended_at_ms;
        let ((lanes, lists), checkpoint) = (self.rows(path, &[])?, self.checkpoint()?);
        self.version += 1;
        let commit = Commit {
            checkpoint,
            lanes,
            lists,
            objects,
            clear_journal: vec![path.clone()],
            epoch: Some(NewEpoch { seq, digest, bytes, record, place, note }),
            ..self.commit_of_row()
        };
        let told = Notice::Committed { site, seq, step: digest, prev, status: None, at_ms };
        self.unsynced.push_back((self.version, vec![Action::Tell(told)]));
        self.out.push(Action::Commit(Box::new(commit)));
        Ok(())
    }

    /// Adds a compaction to the fold.
    fn add_compaction(
        &mut self,
        path: &LanePath,
        (seq, digest): (u64, rondo_protocol::Digest),
        compaction: &Compaction,
        note: &mut Note,
    ) -> Decided<StepLocation> {
        let by = self.compacting_role(&compaction.role).ok_or_else(|| no_lane(path))?;
        self.recovered.remove(path);
        let lane = self.lane_mut(path)?;
        lane.follow_record(seq, digest);
        lane.own.entry(compaction.role.clone()).or_default().covered = compaction.through_visit;
        lane.own.entry(by.clone()).or_default().attempts += note.attempts;
        note.opened_by.clone_from(&lane.opened_by);
        let round = Round { lane: path.clone(), opened_by: lane.opened_by.clone() };
        let dispatch = self.visiting_mut(path)?;
        (dispatch.prev, dispatch.compacting) = (vec![digest], Compacting::IfTooLong);
        self.seq = seq;
        self.budget.commit(path, &by, note);
        if self.is_replaying {
            self.clock.follow(note);
        }
        Ok(StepLocation { seq, round })
    }

    /// The role that writes the text for `role`.
    fn compacting_role(&self, role: &RoleName) -> Option<RoleName> {
        let (role, _) = self.definition.graph.role(role)?;
        Some(role.kind.model()?.compact.as_ref()?.by.clone())
    }

    /// Follows a committed compaction; `false` if it does not follow.
    pub(super) fn follow_compaction(&mut self, compaction: &Compaction, of: PastStep) -> Decided<bool> {
        let visiting = self.lane(&compaction.lane).and_then(Lane::visiting);
        if visiting.is_none_or(|dispatch| dispatch.role != compaction.role) || self.seq + 1 != of.seq {
            return Ok(false);
        }
        let mut note = of.note;
        self.add_compaction(&compaction.lane, (of.seq, of.digest), compaction, &mut note)?;
        self.version += 1;
        Ok(true)
    }
}

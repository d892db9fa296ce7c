//! A simulated thread: its machine, driven without a store, and its steps.

use std::sync::Arc;

use rondo_agent_kit::conversation::Episode;
use rondo_core::graph::{EdgeId, Graph};
use rondo_core::thread::{
    Action, Answered, Definition, Dispatch, EdgeCount, Input, Machine, PastLane, StepLookup, Undecided, VisitEnd,
};
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::Note;
use rondo_protocol::{Digest, Value};

use super::answers::Answer;

/// Placeholder for the digest of the start: nothing here is stored, so nothing reads it.
const NOWHERE: Digest = Digest([0; 32]);

/// A simulated thread after some step.
#[derive(Clone)]
pub struct Run {
    pub machine: Machine,
    steps: Steps,
}

pub struct Next {
    pub edge: Option<EdgeId>,
    pub edges: Vec<EdgeId>,
    /// The new steps: the answer's own, then those without a visit.
    pub steps: Vec<Arc<Episode>>,
    pub fault: Option<Undecided>,
}

impl Run {
    pub fn new(graph: &Arc<Graph>, input: &Arc<Value>) -> (Self, Next) {
        let limits = graph.policy().limits.clone();
        let definition = Definition { graph: Arc::clone(graph), start: NOWHERE, input: Arc::clone(input), limits };
        let mut run = Self { machine: Machine::new(definition, 1).ignoring_limits(), steps: Steps::default() };
        let next = run.on(Input::Begin { at_ms: 0 });
        (run, next)
    }

    /// The next visit to answer: among open lanes the one at `place`, or the first if there are not as many.
    pub fn visiting(&self, place: usize) -> Option<(LanePath, &Dispatch)> {
        let mut open = self.machine.visiting();
        let place = place.min(open.len().checked_sub(1)?);
        Some(open.swap_remove(place))
    }

    pub fn visiting_in(&self, lane: &LanePath) -> Option<&Dispatch> {
        self.machine.lane(lane)?.visiting()
    }

    pub fn episode(&self, seq: u64) -> Option<Arc<Episode>> {
        self.steps.episode(seq).ok()
    }

    /// The limit that a lane's visit would break.
    pub fn broken(&self, lane: &LanePath) -> Option<Fault> {
        self.machine.broken(lane, &self.visiting_in(lane)?.role)
    }

    /// The thread after a lane's visit was answered.
    pub fn answered(&self, lane: &LanePath, answer: &Answer) -> (Self, Next) {
        let mut run = self.clone();
        let answered = Answered {
            status: answer.status.clone(),
            output: answer.output.clone(),
            answer: answer.text(),
            body: answer.body.as_ref().to_owned(),
            transcript: None,
            observations: Vec::new(),
        };
        let next = run.on(ended(lane.clone(), Ok(answered)));
        (run, next)
    }

    fn on(&mut self, input: Input) -> Next {
        let mut inputs = vec![input];
        let mut edges = Vec::new();
        let mut steps = Vec::new();
        let mut has_stopped = false;
        while let Some(input) = inputs.pop() {
            let actions = self.machine.on(input, 0, &self.steps);
            edges.extend(self.machine.chosen());
            for action in actions {
                match action {
                    Action::Commit(commit) => {
                        if let Some(step) = commit.step {
                            self.steps.add(&step.episode, &step.note);
                            steps.push(step.episode);
                        }
                        inputs.insert(0, Input::Synced { version: commit.version });
                    }
                    Action::CancelLane(lane) => {
                        let what = "the lane is not needed any more";
                        let fault = Fault::new(Code::Interrupted, FaultClass::Cancelled, what);
                        inputs.insert(0, ended(lane, Err(fault)));
                    }
                    Action::Stop(_) => has_stopped = true,
                    Action::Visit(_) | Action::Tell(_) | Action::Finish(_) => {}
                }
            }
        }
        Next {
            edge: edges.first().copied(),
            edges,
            steps,
            fault: self.machine.undecided().filter(|_| has_stopped).cloned(),
        }
    }
}

fn ended(lane: LanePath, outcome: Result<Answered, Fault>) -> Input {
    let (note, objects) = (Note::default(), Vec::new());
    Input::Ended { lane, end: Box::new(VisitEnd { outcome, note, objects, waited_ms: 0, effect_unknown: None }) }
}

/// The steps of a simulated thread. Threads with a common beginning share them.
#[derive(Clone, Default)]
struct Steps {
    newest: Option<Arc<StepNode>>,
}

struct StepNode {
    episode: Arc<Episode>,
    note: Note,
    before: Option<Arc<StepNode>>,
}

impl Steps {
    fn add(&mut self, episode: &Arc<Episode>, note: &Note) {
        let (episode, note, before) = (Arc::clone(episode), note.clone(), self.newest.take());
        self.newest = Some(Arc::new(StepNode { episode, note, before }));
    }

    fn newest_first(&self) -> impl Iterator<Item = &StepNode> {
        std::iter::successors(self.newest.as_deref(), |made| made.before.as_deref())
    }
}

impl Drop for StepNode {
    fn drop(&mut self) {
        // Dropping a long chain recursively would overflow the stack.
        let mut next = self.before.take();
        while let Some(mut made) = next.and_then(Arc::into_inner) {
            next = made.before.take();
        }
    }
}

impl StepLookup for Steps {
    fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault> {
        let mut found = self.newest_first().filter(|made| made.episode.seq == seq);
        found
            .next()
            .map(|made| Arc::clone(&made.episode))
            .ok_or_else(|| Fault::new(Code::StoreDamaged, FaultClass::Store, format!("step {seq} was never made")))
    }

    fn past(&self, lane: &LanePath) -> Result<Option<PastLane>, Fault> {
        let own: Vec<&StepNode> = self.newest_first().filter(|made| made.episode.lane == *lane).collect();
        let mut past = PastLane::default();
        for made in own.iter().rev() {
            let of_role = past.own.entry(made.episode.role.clone()).or_default();
            of_role.visits += 1;
            of_role.latest = made.episode.seq;
            if let Some(left_by) = made.note.left_by {
                past.taken.insert(EdgeId(left_by.edge), EdgeCount { count: left_by.count, mark: left_by.mark });
            }
            if past.first_opened_by.is_empty() {
                let note = &made.note;
                let first = if note.first_opened_by.is_empty() { &note.opened_by } else { &note.first_opened_by };
                past.first_opened_by.clone_from(first);
            }
        }
        Ok(Some(past).filter(|past| !past.own.is_empty()))
    }

    fn visits(&self, role: &RoleName) -> Result<Vec<u64>, Fault> {
        let own = self.newest_first().filter(|made| made.episode.lane.is_trunk() && made.episode.role == *role);
        let mut seqs: Vec<u64> = own.map(|made| made.episode.seq).collect();
        seqs.reverse();
        Ok(seqs)
    }

    fn list(&self, _: u64) -> Result<Option<Arc<Value>>, Fault> {
        Ok(None)
    }
}

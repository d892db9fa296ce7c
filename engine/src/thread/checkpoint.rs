//! The fold over a thread's steps as its row keeps it.
//!
//! It holds counts and places, never texts: what they point to is read from the steps. It is not hashed, so its form
//! may change with its version; a checkpoint of another version is folded anew from the steps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_agent_kit::history::Episode;
use rondo_protocol::id::RoleName;
use rondo_protocol::object::{Note, Usage};
use rondo_protocol::{Digest, Value};
use serde::{Deserialize, Serialize};

use super::{Last, Spent, State, Taken, Visited};
use crate::graph::{EdgeId, Graph};
use crate::moderator::{self, Decision};
use crate::store::{Error, Read, StoredStep};

const VERSION: u32 = 1;

/// What a row keeps of the fold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    /// Of each role: visits, attempts, the number of its latest step.
    roles: BTreeMap<RoleName, (u64, u64, u64)>,
    /// Of each bounded edge that was taken: count and mark.
    edges: BTreeMap<u32, (u64, u64)>,
    model_calls: u64,
    tool_calls: u64,
    usage: Usage,
    cost_usd: Option<f64>,
    active_ms: u64,
}

/// What a checkpoint is loaded with.
pub struct Loaded<'a> {
    /// The steps.
    pub steps: &'a dyn Read,
    /// Whose.
    pub thread: &'a rondo_protocol::id::ThreadId,
    /// What an answer says beside its fields.
    pub body: &'a dyn Fn(&StoredStep) -> String,
}

impl Checkpoint {
    /// What of `state` a row keeps.
    pub fn of(state: &State) -> Self {
        Self {
            version: VERSION,
            roles: state
                .roles
                .iter()
                .map(|(role, visited)| (role.clone(), (visited.visits, visited.attempts, visited.latest.seq)))
                .collect(),
            edges: state.taken.iter().map(|(edge, taken)| (edge.0, (taken.count, taken.mark))).collect(),
            model_calls: state.spent.model_calls,
            tool_calls: state.spent.tool_calls,
            usage: state.spent.usage,
            cost_usd: state.spent.cost_usd,
            active_ms: state.spent.active_ms,
        }
    }

    /// The bytes of a row.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Numbers and names always have a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What a row's bytes say, or `None` when they are of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|checkpoint: &Self| checkpoint.version == VERSION)
    }

    /// What was spent.
    pub fn spent(&self) -> Spent {
        Spent {
            model_calls: self.model_calls,
            tool_calls: self.tool_calls,
            usage: self.usage,
            cost_usd: self.cost_usd,
            active_ms: self.active_ms,
        }
    }

    /// The state at step `seq`: one read for each role that has run.
    ///
    /// # Errors
    /// When a step that the checkpoint names is missing or damaged.
    pub fn load(
        &self,
        from: &Loaded<'_>,
        seq: u64,
        start: Digest,
        input: Arc<Value>,
        keep_all: Arc<[RoleName]>,
    ) -> Result<State, Error> {
        let mut state = State::new(start, input, keep_all);
        state.seq = seq;
        state.spent = self.spent();
        state.taken = self
            .edges
            .iter()
            .map(|(edge, (count, mark))| (EdgeId(*edge), Taken { count: *count, mark: *mark }))
            .collect();
        for (role, (visits, attempts, latest)) in &self.roles {
            let (stored, _) = from.read(*latest)?;
            let latest = from.episode(&stored);
            let all =
                if state.keep_all.contains(role) { from.all(role, &stored.step.lane, *visits)? } else { Vec::new() };
            state.roles.insert(role.clone(), Visited { visits: *visits, attempts: *attempts, latest, all });
        }
        if seq > 0 {
            let (stored, _) = from.read(seq)?;
            state.head = Some(stored.digest);
            let episode = from.episode(&stored);
            state.recent = VecDeque::from([Arc::clone(&episode)]);
            state.last = Some(Last { episode, entered_from: stored.step.edge.from });
        }
        Ok(state)
    }
}

impl Loaded<'_> {
    /// Folds all steps up to `seq` into `state`, asking the moderator again which edge each was entered by.
    ///
    /// # Errors
    /// When a step is missing or damaged, or does not follow from the ones before it.
    pub fn fold(&self, seq: u64, graph: &Graph, mut state: State) -> Result<State, Error> {
        let mut fault = None;
        self.steps.scan(self.thread, 1..=seq, &mut |stored, note| {
            match moderator::decide(graph, &state) {
                Ok(Decision::Dispatch(dispatch)) if dispatch.role == stored.step.role => {
                    state.take(&dispatch.chosen.bounded);
                }
                _ => {
                    let what = format!("step {} of thread {} does not follow", stored.seq, self.thread);
                    fault = Some(Error::Damaged { what });
                    return false;
                }
            }
            let body = (self.body)(&stored);
            state.add(stored.digest, &stored.step, body, &note);
            true
        })?;
        fault.map_or(Ok(state), Err)
    }

    fn read(&self, seq: u64) -> Result<(StoredStep, Note), Error> {
        let Self { thread, .. } = self;
        self.steps
            .step(thread, seq)?
            .ok_or_else(|| Error::Damaged { what: format!("step {seq} of thread {thread} is missing") })
    }

    fn episode(&self, stored: &StoredStep) -> Arc<Episode> {
        Arc::new(super::episode(stored.seq, &stored.step, (self.body)(stored)))
    }

    fn all(
        &self,
        role: &RoleName,
        lane: &rondo_protocol::id::LanePath,
        visits: u64,
    ) -> Result<Vec<Arc<Episode>>, Error> {
        self.steps
            .visits(self.thread, lane, role, 1..=visits)?
            .into_iter()
            .map(|(_, seq)| Ok(self.episode(&self.read(seq)?.0)))
            .collect()
    }
}

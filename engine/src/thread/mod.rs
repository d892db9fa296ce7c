//! A thread's state: a fold over its steps, with a checkpoint so that nobody has to fold them all again.
//!
//! The state holds what routing and prompts can ask for and nothing that grows with the thread, but for the lists that
//! a template names (`steps.ROLE.all`). It knows no clock, no store and no provider.

mod checkpoint;
mod origin;
mod scope;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_agent_kit::history::Episode;
use rondo_protocol::id::RoleName;
use rondo_protocol::object::{Note, Step, Usage};
use rondo_protocol::{Digest, Value};

use crate::graph::EdgeId;

pub use checkpoint::{Checkpoint, Loaded};
pub use origin::{Ending, Origin, Stop};
pub use scope::ThreadScope;

/// How many of the newest episodes stay at hand for *what happened since*; older ones are read from the store.
pub const RECENT: usize = 32;

/// A thread's state after some step.
#[derive(Debug, Clone)]
pub struct State {
    /// The beginning.
    pub start: Digest,
    /// The input, an object.
    pub input: Arc<Value>,
    /// The number of the last step, 0 before the first.
    pub seq: u64,
    /// The digest of the trunk's last step.
    pub head: Option<Digest>,
    /// The trunk's last step.
    pub last: Option<Last>,
    /// What each role that has run has done.
    pub roles: BTreeMap<RoleName, Visited>,
    /// How often bounded edges were taken.
    pub taken: BTreeMap<EdgeId, Taken>,
    /// What was spent.
    pub spent: Spent,
    /// The newest episodes, oldest first.
    pub recent: VecDeque<Arc<Episode>>,
    /// Roles whose every episode a template asks for.
    pub keep_all: Arc<[RoleName]>,
}

/// The trunk's last step.
#[derive(Debug, Clone)]
pub struct Last {
    /// What it said.
    pub episode: Arc<Episode>,
    /// The role that its own was entered from, or `start`.
    pub entered_from: String,
}

/// What a role has done.
#[derive(Debug, Clone)]
pub struct Visited {
    /// How often it was visited.
    pub visits: u64,
    /// Attempts at a port, failed ones too.
    pub attempts: u64,
    /// Its latest visit.
    pub latest: Arc<Episode>,
    /// All of them, oldest first, if a template asks for them.
    pub all: Vec<Arc<Episode>>,
}

/// How often a bounded edge was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// This often since `mark`.
    pub count: u64,
    /// The visits of the edge's `per` role when counting began.
    pub mark: u64,
}

/// What a thread has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Model replies that entered it.
    pub model_calls: u64,
    /// Tool results that entered it.
    pub tool_calls: u64,
    /// Tokens, as far as they were counted.
    pub usage: Usage,
    /// US dollars, as far as prices are known.
    pub cost_usd: Option<f64>,
    /// Milliseconds in which steps were worked on.
    pub active_ms: u64,
}

impl State {
    /// The state before the first step.
    pub fn new(start: Digest, input: Arc<Value>, keep_all: Arc<[RoleName]>) -> Self {
        Self {
            start,
            input,
            seq: 0,
            head: None,
            last: None,
            roles: BTreeMap::new(),
            taken: BTreeMap::new(),
            spent: Spent::default(),
            recent: VecDeque::new(),
            keep_all,
        }
    }

    /// How often a role was visited.
    pub fn visits(&self, role: &RoleName) -> u64 {
        self.roles.get(role).map_or(0, |visited| visited.visits)
    }

    /// How often a bounded edge was taken since `per` last stepped.
    pub fn times_taken(&self, edge: EdgeId, per: Option<&RoleName>) -> u64 {
        let Some(taken) = self.taken.get(&edge) else { return 0 };
        match per {
            Some(role) if self.visits(role) != taken.mark => 0,
            _ => taken.count,
        }
    }

    /// Counts bounded edges that were taken.
    pub fn take(&mut self, edges: &[(EdgeId, Option<RoleName>)]) {
        for (edge, per) in edges {
            let count = self.times_taken(*edge, per.as_ref()) + 1;
            let mark = per.as_ref().map_or(0, |role| self.visits(role));
            self.taken.insert(*edge, Taken { count, mark });
        }
    }

    /// Adds a step. `body` is what its answer says beside the fields.
    pub fn add(&mut self, digest: Digest, step: &Step, body: String, note: &Note) {
        self.seq += 1;
        self.head = Some(digest);
        let episode = Arc::new(episode(self.seq, step, body));
        let visited = self.roles.entry(step.role.clone()).or_insert_with(|| Visited {
            visits: 0,
            attempts: 0,
            latest: Arc::clone(&episode),
            all: Vec::new(),
        });
        visited.visits += 1;
        visited.attempts += note.attempts;
        visited.latest = Arc::clone(&episode);
        if self.keep_all.contains(&step.role) {
            visited.all.push(Arc::clone(&episode));
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::clone(&episode));
        self.last = Some(Last { episode, entered_from: step.edge.from.clone() });
        self.spent.model_calls += note.model_calls;
        self.spent.tool_calls += note.tool_calls;
        if let Some(usage) = note.usage {
            self.spent.usage += usage;
        }
        if let Some(cost) = note.cost_usd {
            *self.spent.cost_usd.get_or_insert_default() += cost;
        }
        self.spent.active_ms += note.ended_at_ms.saturating_sub(note.started_at_ms);
    }
}

/// A step as history and templates see it.
pub fn episode(seq: u64, step: &Step, body: String) -> Episode {
    Episode {
        seq,
        role: step.role.clone(),
        lane: step.lane.clone(),
        prompt: step.edge.prompt.clone(),
        answer: step.answer.clone(),
        status: step.status.clone(),
        output: step.output.clone(),
        body,
        // A role's own visits are told from its memory or from the store, and no other needs it.
        transcript: None,
    }
}

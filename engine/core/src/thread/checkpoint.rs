//! The fold over a thread's steps as stored in its rows, so that a resume need not read every step.
//!
//! It holds counts and numbers, never texts. It is not hashed, so its form may change with its version: a byte, behind
//! which the fields stand as postcard writes them. Version 4 was JSON. A checkpoint of another version is ignored, and
//! the steps are followed again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::budget::{Amount, Spent};
use super::fan::Fan;
use super::lane::{EdgeCount, Lane, LaneError, LanePhase, Last, OwnVisits, VisibleRoles};
use super::lanes::reads_branches;
use super::machine::Machine;
use super::message::{Definition, InFlight, LaneState};
use super::recall::StepLookup;
use crate::graph::{Edge, EdgeId, Graph};

/// The first byte of a checkpoint and of a lane's fold.
const VERSION: u8 = 5;

/// The part of the fold in a thread's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint<'a> {
    trunk: LaneFold<'a>,
    spent: Spent,
    roles: Cow<'a, BTreeMap<RoleName, Amount>>,
}

/// A checkpoint of version 4, which was JSON.
#[derive(Deserialize)]
struct CheckpointV4 {
    version: u32,
    trunk: LaneFold<'static>,
    spent: Spent,
    roles: BTreeMap<RoleName, Amount>,
}

/// The part of the fold in a lane's row. It borrows from the lane whose fold is written, and owns what was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LaneFold<'a> {
    own: Cow<'a, BTreeMap<RoleName, OwnVisits>>,
    seen: Cow<'a, VisibleRoles>,
    taken: Cow<'a, BTreeMap<EdgeId, EdgeCount>>,
    fanned: Cow<'a, BTreeSet<RoleName>>,
    last: Cow<'a, Option<Last>>,
    /// Whether the last step is that of a join role.
    after_join: bool,
    /// The fan-out open in it, by its edge.
    fan: Option<EdgeId>,
    end: Option<EndFold>,
    first_opened_by: Cow<'a, [u64]>,
}

/// How a lane ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EndFold {
    /// At its join, by this edge.
    Arrived(EdgeId),
    Failed(LaneError),
}

impl Checkpoint<'_> {
    /// Reads a checkpoint, or `None` if it is of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if let Some(checkpoint) = read(bytes) {
            return Some(checkpoint);
        }
        let CheckpointV4 { version, trunk, mut spent, roles } = serde_json::from_slice(bytes).ok()?;
        if spent.cost_usd.is_none() {
            // Checkpoints of earlier versions lack this count.
            spent.unpriced_calls = spent.model_calls;
        }
        (version == 4).then_some(Self { trunk, spent, roles: Cow::Owned(roles) })
    }

    /// What was spent.
    pub fn spent(&self) -> Spent {
        self.spent
    }
}

/// The stored form of a checkpoint or of a lane's fold.
fn written(fields: &impl Serialize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(VERSION);
    postcard::to_extend(fields, bytes).map_err(|error| {
        let message = format!("the thread's state cannot be written: {error}");
        Fault::new(Code::ContractBroken, FaultClass::Contract, message)
    })
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let fields = bytes.strip_prefix(&[VERSION])?;
    postcard::from_bytes(fields).ok()
}

/// A thread's rows.
pub struct Stored<'a> {
    /// The thread's checkpoint.
    pub checkpoint: &'a [u8],
    /// The rows of its lanes.
    pub lanes: Vec<(LanePath, LaneState)>,
    /// The state that an earlier process left of visits in flight.
    pub recovered: BTreeMap<LanePath, InFlight>,
    /// The row's version.
    pub version: u64,
    /// The number of the last step.
    pub seq: u64,
}

impl Lane {
    /// Its row; the trunk has none.
    pub(super) fn row(&self) -> Result<Option<(LanePath, LaneState)>, Fault> {
        let Some(opened_by) = self.opened_by.last() else { return Ok(None) };
        let state = LaneState {
            frontier: self.last.as_ref().map(|last| last.digest),
            fold: written(&LaneFold::of(self))?,
            opened_by: *opened_by,
            index: self.path.last_index().unwrap_or(0),
        };
        Ok(Some((self.path.clone(), state)))
    }
}

impl Machine {
    /// The bytes of the thread's checkpoint.
    pub fn checkpoint(&self) -> Result<Vec<u8>, Fault> {
        let spent = Spent { active_ms: self.clock.active_ms, ..self.budget.spent };
        written(&Checkpoint { trunk: LaneFold::of(&self.trunk), spent, roles: Cow::Borrowed(&self.budget.roles) })
    }

    /// Restores the machine of a thread; `None` if its rows are not sufficient, so that its steps have to be followed.
    ///
    /// # Errors
    /// If a step that they name cannot be recalled.
    pub fn restore(definition: Definition, stored: Stored<'_>, recall: &dyn StepLookup) -> Result<Option<Self>, Fault> {
        let Some(Checkpoint { trunk: fold, spent, roles }) = Checkpoint::from_bytes(stored.checkpoint) else {
            return Ok(None);
        };
        let graph = Arc::clone(&definition.graph);
        let edges = graph.edges();
        let mut machine = Self::new(definition, stored.version);
        let keep_all = Arc::clone(&machine.keep_all);
        if graph.fans().next().is_some() && !keep_all.is_empty() {
            return Ok(None);
        }
        machine.seq = stored.seq;
        machine.recovered = stored.recovered;
        machine.budget.spent = spent;
        machine.budget.roles = roles.into_owned();
        machine.clock.active_ms = spent.active_ms;
        let mut trunk = Lane::trunk();
        let restoring = Restoring { graph: &graph, edges: &edges, recall };
        if !restoring.fold(fold, &mut trunk)? {
            return Ok(None);
        }
        for role in keep_all.iter() {
            if let Some(seen) = trunk.seen.get_mut(role) {
                seen.all = recall.visits(role)?;
            }
        }
        machine.trunk = trunk;
        let mut lanes = stored.lanes;
        lanes.sort_by_key(|(path, _)| path.parts().count());
        for (path, state) in lanes {
            let fold = read(&state.fold).or_else(|| serde_json::from_slice(&state.fold).ok());
            let Some(fold): Option<LaneFold<'_>> = fold else { return Ok(None) };
            let Some(parent) = path.parent() else { continue };
            let Some(mut lane) = machine.new_lane(&path, &parent, &state) else {
                // A row of a round that was already joined.
                continue;
            };
            if !restoring.fold(fold, &mut lane)? {
                return Ok(None);
            }
            if let Ok(fan) = machine.fan_mut(&parent) {
                fan.to_open.remove(&state.index);
                fan.add(state.index, lane);
            }
        }
        let ends = machine.lanes().into_iter().filter_map(|lane| lane.last.as_ref()).map(|last| last.ended_at_ms);
        machine.clock.latest_ms = ends.max().unwrap_or(0);
        Ok(Some(machine))
    }

    /// A lane of the fan-out open in `parent`, if the row is of that round.
    fn new_lane(&self, path: &LanePath, parent: &LanePath, state: &LaneState) -> Option<Lane> {
        let around = self.lane(parent)?;
        let fan = around.fan().filter(|fan| fan.opened_by() == state.opened_by)?;
        Some(around.child(fan, path.clone(), state.index))
    }
}

struct Restoring<'a> {
    graph: &'a Graph,
    edges: &'a BTreeMap<EdgeId, &'a Arc<Edge>>,
    recall: &'a dyn StepLookup,
}

impl Restoring<'_> {
    /// Loads a row into `lane`; `false` if the row is not sufficient.
    fn fold(&self, fold: LaneFold<'_>, lane: &mut Lane) -> Result<bool, Fault> {
        let LaneFold { own, seen, taken, fanned, last, after_join, fan, end, first_opened_by } = fold;
        lane.own = own.into_owned();
        lane.seen = seen.into_owned();
        lane.taken = taken.into_owned();
        lane.fanned = fanned.into_owned();
        lane.last = last.into_owned();
        lane.first_opened_by = first_opened_by.into_owned();
        if after_join && lane.last.as_ref().is_some_and(|last| reads_branches(self.graph, &last.role)) {
            return Ok(false);
        }
        let edge = |id: EdgeId| self.edges.get(&id).map(|edge| Arc::clone(edge));
        lane.phase = match (end, fan) {
            (Some(EndFold::Arrived(id)), _) => match edge(id) {
                Some(edge) => LanePhase::Arrived(edge),
                None => return Ok(false),
            },
            (Some(EndFold::Failed(error)), _) => LanePhase::Failed(error),
            (None, Some(id)) => {
                let Some(edge) = edge(id) else { return Ok(false) };
                let Some(fan) = self.fan(edge, lane)? else { return Ok(false) };
                LanePhase::Fanned(Box::new(fan))
            }
            (None, None) => LanePhase::Deciding,
        };
        Ok(true)
    }

    /// The fan-out open in a lane. The rows of its lanes show its branches only if no branch has a condition:
    /// otherwise the steps are followed.
    fn fan(&self, edge: Arc<Edge>, lane: &Lane) -> Result<Option<Fan>, Fault> {
        let Some(out) = edge.fan().cloned() else { return Ok(None) };
        if out.branches.iter().any(|branch| branch.when.is_some()) {
            return Ok(None);
        }
        let opened_by = lane.last_seq();
        let list = match &out.each {
            None => Arc::default(),
            Some(_) => match self.recall.list(opened_by)? {
                Some(list) => list,
                None => return Ok(None),
            },
        };
        let count = match &*list {
            Value::List(items) => items.len(),
            _ => out.branches.len(),
        };
        let to_open = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
        Ok(Some(Fan::new(edge, out, lane, list, to_open)))
    }
}

impl<'a> LaneFold<'a> {
    fn of(lane: &'a Lane) -> Self {
        Self {
            own: Cow::Borrowed(&lane.own),
            seen: Cow::Borrowed(&lane.seen),
            taken: Cow::Borrowed(&lane.taken),
            fanned: Cow::Borrowed(&lane.fanned),
            last: Cow::Borrowed(&lane.last),
            after_join: lane.joined.is_some() && lane.joining().is_none(),
            fan: lane.stored_fan().map(|fan| fan.edge.id),
            end: match &lane.phase {
                LanePhase::Arrived(edge) => Some(EndFold::Arrived(edge.id)),
                LanePhase::Failed(error) => Some(EndFold::Failed(error.clone())),
                _ => None,
            },
            first_opened_by: Cow::Borrowed(&lane.first_opened_by),
        }
    }
}

#[cfg(test)]
mod tests;

//! Chooses the next edge of a lane and renders its prompt.

use std::sync::Arc;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Visit;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{CancelledLane, EdgeTaken, FaultKind, Observation};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::template::{Expr, RenderError, Template, ValueTemplate, kind_name};
use rondo_protocol::{Digest, Value};

use super::lane::Lane;
use super::message::Answered;
use super::scope::LaneScope;
use super::task::Task;
use crate::graph::{Condition, Edge, EdgeId, Graph};

/// The most bytes of a prompt, a line for the user or a result.
pub const MAX_RENDERED_BYTES: usize = 1 << 20;

/// A visit to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// The role.
    pub role: RoleName,
    /// The edge, with its prompt.
    pub edge: EdgeTaken,
    /// The part of the workflow with that edge.
    pub part: Arc<str>,
    /// What the visit has to do.
    pub task: Task,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// The bounded edge that leads to it, with the role whose steps restart its count.
    pub bounded: Option<(EdgeId, Option<RoleName>)>,
    /// Observations that affect routing.
    pub observations: Vec<Observation>,
    /// For a join, the lanes that it ends.
    pub joins: Option<Joins>,
    /// The answer, for a role that makes no call.
    pub given: Option<Box<Answered>>,
    /// Whether the role's history is compacted first.
    pub compacting: Compacting,
}

impl Dispatch {
    /// The visit of a role by an edge of `part`, after the steps `prev`.
    pub(super) fn new(role: RoleName, edge: EdgeTaken, part: Arc<str>, task: Task, prev: Vec<Digest>) -> Self {
        Self {
            role,
            edge,
            part,
            task,
            prev,
            bounded: None,
            observations: Vec::new(),
            joins: None,
            given: None,
            compacting: Compacting::IfTooLong,
        }
    }
}

/// Whether a role's history is compacted before a visit.
#[derive(Debug, Clone, PartialEq)]
pub enum Compacting {
    /// It is, if its request is too long.
    IfTooLong,
    /// A text in place of so many bytes is being written.
    Running {
        /// The bytes.
        leaving_bytes: usize,
    },
    /// The text was not usable. What it cost is counted with the step of the visit.
    Refused(Box<CancelledLane>),
}

/// The lanes that a join ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joins {
    /// The step that opened them.
    pub opened_by: u64,
    /// The lanes that may have a row.
    pub lanes: Vec<LanePath>,
    /// The last visits of cancelled lanes.
    pub cancelled: Vec<Visit>,
}

/// What was decided, or why nothing was.
pub type Decided<T = ()> = Result<T, Undecided>;

/// Why a decision failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Undecided {
    /// A template or a condition has no value for the thread's data.
    #[error("{what} cannot be rendered: {error}")]
    Unrendered {
        /// The failed item, in words.
        what: String,
        /// Its path in the workflow, in the form of [`places`](rondo_protocol::workflow::places).
        part: String,
        /// The cause and its place in that part.
        error: RenderError,
    },
    /// The graph has no edge for an answer.
    #[error("the graph has no edge for {place}; the thread's workflow does not fit its steps")]
    NoEdge {
        /// The role and status, or `back`.
        place: String,
    },
    /// The value of an `each` is not a list.
    #[error("the `each` of {part} is a {found}, not a list")]
    NotAList {
        /// The part of the workflow.
        part: String,
        /// The type found.
        found: &'static str,
    },
    /// A rule or a selector that nobody is asked for gives no usable answer, and its graph does not route that.
    #[error("{fault}")]
    NoChoice {
        /// The role.
        role: RoleName,
        /// Why there is none.
        fault: Fault,
    },
    /// Anything else, such as a step that cannot be recalled.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Undecided {
    /// The same for another item.
    pub(super) fn of(self, what: String) -> Self {
        match self {
            Self::Unrendered { part, error, .. } => Self::Unrendered { what, part, error },
            other => other,
        }
    }
}

impl From<Undecided> for Fault {
    fn from(undecided: Undecided) -> Self {
        let (code, class) = match &undecided {
            Undecided::Fault(fault) | Undecided::NoChoice { fault, .. } => return fault.clone(),
            Undecided::Unrendered { .. } | Undecided::NotAList { .. } => (Code::RenderFailed, FaultClass::Limit),
            Undecided::NoEdge { .. } => (Code::RenderFailed, FaultClass::Denied),
        };
        Fault::new(code, class, undecided.to_string())
    }
}

/// Renders parts of one edge in one scope.
pub struct EdgeTexts<'a> {
    pub scope: &'a LaneScope<'a>,
    /// The source of the edge, for people.
    pub from: &'a str,
    /// The part of the workflow with the edge.
    pub part: &'a str,
}

impl EdgeTexts<'_> {
    pub fn text(&self, key_of: &str, template: &Template) -> Decided<String> {
        let rendered = template.render(self.scope, MAX_RENDERED_BYTES);
        self.scope.checked(rendered.map_err(|error| self.unrendered(key(self.part, key_of), error)))
    }

    pub fn value(&self, part: &str, template: &ValueTemplate) -> Decided<Value> {
        let rendered = template.render(self.scope, MAX_RENDERED_BYTES);
        self.scope.checked(rendered.map_err(|error| {
            // The leaf is located only after a fault.
            let leaf = template.failing_leaf(self.scope, &error).unwrap_or_default();
            self.unrendered(format!("{part}{leaf}"), error)
        }))
    }

    /// Whether a condition holds; a missing one does.
    pub fn holds(&self, condition: Option<&Condition>) -> Decided<bool> {
        let holds = condition.map_or(Ok(true), |condition| condition.expr.truth(self.scope));
        self.scope.checked(holds.map_err(|error| self.unrendered(key(self.part, "when"), error)))
    }

    pub fn list(&self, over: &Expr) -> Decided<Vec<Value>> {
        let value = over.eval(self.scope);
        let value = self.scope.checked(value.map_err(|error| self.unrendered(key(self.part, "each"), error)))?;
        match value {
            Value::List(items) => Ok(items),
            other => Err(Undecided::NotAList { part: self.part.to_owned(), found: kind_name(&other) }),
        }
    }

    fn unrendered(&self, part: String, error: RenderError) -> Undecided {
        Undecided::Unrendered { what: format!("the edge from {}", self.from), part, error }
    }
}

/// The edge from a lane's last step, or from `start`: the first whose condition holds, or its `on_max` edge once it
/// was taken as often as allowed. `None` if the status has no edge.
///
/// # Errors
/// If a condition has no value.
pub fn choose(graph: &Graph, scope: &LaneScope<'_>) -> Decided<Option<Arc<Edge>>> {
    let lane = scope.lane();
    let edges = match &lane.last {
        None => Some(graph.start()),
        Some(last) => {
            let otherwise = graph.otherwise(&last.role).filter(|_| is_broken_choice(scope));
            otherwise.or_else(|| graph.routes(&last.role, &last.status))
        }
    };
    let Some(edges) = edges else { return Ok(None) };
    let place = || match &lane.last {
        None => "start".to_owned(),
        Some(last) => format!("{}.{}", last.role, last.status),
    };
    for edge in edges {
        let holds = edge.when.is_none() || {
            let speaking = EdgeTexts { scope, from: &place(), part: &edge.part };
            speaking.holds(edge.when.as_ref())?
        };
        if holds {
            let may_be_taken = |edge: &&Arc<Edge>| match &edge.bound {
                Some(bound) => lane.times_taken(edge.id, bound.per.as_ref()) < u64::from(bound.max),
                None => true,
            };
            return Ok(edge.in_turn().find(may_be_taken).cloned());
        }
    }
    Err(Undecided::NoEdge { place: place() })
}

/// Whether the last step is a choice that broke its contract.
fn is_broken_choice(scope: &LaneScope<'_>) -> bool {
    let Some(last) = scope.last().filter(|last| last.status.as_str() == FaultKind::Error.status()) else {
        return false;
    };
    let code = last.output.get("code").and_then(Value::as_str);
    code.is_some_and(|code| [Code::ContractBroken, Code::RenderFailed].iter().any(|known| known.to_string() == code))
}

/// The bounded edge for `edge`, if it has a bound.
pub fn bounded(edge: &Edge) -> Option<(EdgeId, Option<RoleName>)> {
    edge.bound.as_ref().map(|bound| (edge.id, bound.per.clone()))
}

/// The role that entered a lane's last role.
pub fn back(lane: &Lane) -> Decided<RoleName> {
    let entered_from = lane.last.as_ref().and_then(|last| RoleName::new(&last.entered_from).ok());
    entered_from.filter(|role| role.as_str() != "start").ok_or_else(|| Undecided::NoEdge { place: "back".to_owned() })
}

/// The status that routes a fault, if the role has an edge for it.
pub fn routed(graph: &Graph, role: &RoleName, fault: &Fault) -> Option<Status> {
    let status = Status::new(fault.routed_by()?.status()).ok()?;
    let is_otherwise = fault.class == FaultClass::Contract && graph.otherwise(role).is_some();
    (is_otherwise || graph.routes(role, &status).is_some()).then_some(status)
}

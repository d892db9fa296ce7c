//! Chooses the next edge of a lane and renders its prompt.
//!
//! It sees the graph and what a lane sees, and nothing else: no clock, no store, no provider.

use std::sync::Arc;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Visit;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{EdgeTaken, Observation};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::template::{Expr, RenderError, Template, ValueTemplate, kind_name};
use rondo_protocol::{Digest, Value};

use super::lane::Lane;
use super::message::Answered;
use super::scope::LaneScope;
use crate::graph::{Condition, Edge, EdgeId, Graph};

/// The most bytes that a prompt, a line for the user or a result may have.
pub const MAX_RENDERED_BYTES: usize = 1 << 20;

/// A visit to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// Whose.
    pub role: RoleName,
    /// By which edge, with its prompt.
    pub edge: EdgeTaken,
    /// Which part of the workflow that edge is.
    pub part: Arc<str>,
    /// Of a tool role: what its tool is given, an object.
    pub args: Option<Value>,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    /// The bounded edge that leads to it, with the role whose steps count anew.
    pub bounded: Option<(EdgeId, Option<RoleName>)>,
    /// What happened around it that decides what follows.
    pub observations: Vec<Observation>,
    /// Of a join: the lanes that it ends.
    pub joins: Option<Joins>,
    /// The answer of a role that makes no call.
    pub given: Option<Box<Answered>>,
}

/// The lanes that a join ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joins {
    /// The step that opened them.
    pub opened_by: u64,
    /// Those that may have a row.
    pub lanes: Vec<LanePath>,
    /// The last visits of those that were cancelled.
    pub cancelled: Vec<Visit>,
}

/// Why nothing could be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// A template or a condition has no value on what the thread holds.
    #[error("{what} cannot be rendered: {error}")]
    Unrendered {
        /// Of what, in words.
        what: String,
        /// The part of the workflow that it is, a path as in [`places`](rondo_protocol::workflow::places).
        part: String,
        /// Why, and where in that part.
        error: RenderError,
    },
    /// The graph has no edge for what was answered.
    #[error("the graph has no edge for {place}; the thread's workflow does not fit its steps")]
    NoEdge {
        /// The role and status, or `back`.
        place: String,
    },
    /// What `each` goes over is not a list.
    #[error("the `each` of {part} is a {found}, not a list")]
    NotAList {
        /// The part of the workflow.
        part: String,
        /// What it is.
        found: &'static str,
    },
    /// A step that is needed could not be recalled.
    #[error("{0}")]
    StepLookup(Fault),
}

impl From<Undecided> for Fault {
    fn from(undecided: Undecided) -> Self {
        let (code, class) = match &undecided {
            Undecided::StepLookup(fault) => return fault.clone(),
            Undecided::Unrendered { .. } | Undecided::NotAList { .. } => (Code::RenderFailed, FaultClass::Limit),
            Undecided::NoEdge { .. } => (Code::RenderFailed, FaultClass::Denied),
        };
        Fault::new(code, class, undecided.to_string())
    }
}

/// Renders parts of one edge in one scope.
pub struct EdgeTexts<'a> {
    /// The scope.
    pub scope: &'a LaneScope<'a>,
    /// Where the edge comes from, for people.
    pub from: &'a str,
    /// Which part of the workflow the edge is.
    pub part: &'a str,
}

impl EdgeTexts<'_> {
    /// A text.
    pub fn text(&self, key_of: &str, template: &Template) -> Result<String, Undecided> {
        let rendered = template.render(self.scope, MAX_RENDERED_BYTES);
        self.scope.checked(rendered.map_err(|error| self.unrendered(key(self.part, key_of), error)))
    }

    /// A value.
    pub fn value(&self, part: &str, template: &ValueTemplate) -> Result<Value, Undecided> {
        let rendered = template.render(self.scope, MAX_RENDERED_BYTES);
        self.scope.checked(rendered.map_err(|error| {
            // The leaf is looked for only now that there is a fault.
            let leaf = template.failing_leaf(self.scope, &error).unwrap_or_default();
            self.unrendered(format!("{part}{leaf}"), error)
        }))
    }

    /// Whether a condition holds; without one it does.
    pub fn holds(&self, condition: Option<&Condition>) -> Result<bool, Undecided> {
        let holds = condition.map_or(Ok(true), |condition| condition.expr.truth(self.scope));
        self.scope.checked(holds.map_err(|error| self.unrendered(key(self.part, "when"), error)))
    }

    /// A list.
    pub fn list(&self, over: &Expr) -> Result<Value, Undecided> {
        let value = over.eval(self.scope);
        let value = self.scope.checked(value.map_err(|error| self.unrendered(key(self.part, "each"), error)))?;
        match value {
            Value::List(_) => Ok(value),
            other => Err(Undecided::NotAList { part: self.part.to_owned(), found: kind_name(&other) }),
        }
    }

    /// What a role is given by its arguments, if it is a tool's.
    pub fn args(&self, graph: &Graph, role: &RoleName) -> Result<Option<Value>, Undecided> {
        let Some(args) = graph.args(role) else { return Ok(None) };
        let value = self.value(&key(&key("roles", role.as_str()), "args"), args);
        value.map(Some).map_err(|undecided| match undecided {
            Undecided::Unrendered { part, error, .. } => {
                Undecided::Unrendered { what: format!("the arguments of {role}"), part, error }
            }
            other => other,
        })
    }

    fn unrendered(&self, part: String, error: RenderError) -> Undecided {
        Undecided::Unrendered { what: format!("the edge from {}", self.from), part, error }
    }
}

/// The edge that leaves a lane's last step, or `start`: the first whose condition holds, or what stands behind it once
/// it was taken as often as it may be. `None` = the status leads nowhere.
///
/// # Errors
/// When a condition has no value on these values.
pub fn choose(graph: &Graph, lane: &Lane, scope: &LaneScope<'_>) -> Result<Option<Arc<Edge>>, Undecided> {
    let (edges, place): (Vec<&Arc<Edge>>, _) = match &lane.last {
        None => (graph.start(), "start".to_owned()),
        Some(last) => {
            let Some(routes) = graph.routes(&last.role, &last.status) else { return Ok(None) };
            (routes.iter().collect(), format!("{}.{}", last.role, last.status))
        }
    };
    for edge in edges {
        let speaking = EdgeTexts { scope, from: &place, part: &edge.part };
        if speaking.holds(edge.when.as_ref())? {
            let mut edge = edge;
            while let Some(bound) = &edge.bound {
                if lane.times_taken(edge.id, bound.per.as_ref()) < u64::from(bound.max) {
                    break;
                }
                edge = &bound.on_max;
            }
            return Ok(Some(Arc::clone(edge)));
        }
    }
    Err(Undecided::NoEdge { place })
}

/// The bounded edge that `edge` is, if it is one.
pub fn bounded(edge: &Edge) -> Option<(EdgeId, Option<RoleName>)> {
    edge.bound.as_ref().map(|bound| (edge.id, bound.per.clone()))
}

/// The role that a lane's last role was entered from.
///
/// # Errors
/// When there is none.
pub fn back(lane: &Lane) -> Result<RoleName, Undecided> {
    let entered_from = lane.last.as_ref().and_then(|last| RoleName::new(&last.entered_from).ok());
    entered_from.filter(|role| role.as_str() != "start").ok_or_else(|| Undecided::NoEdge { place: "back".to_owned() })
}

/// The status by which a fault is routed, if the role has an edge for it.
pub fn routed(graph: &Graph, role: &RoleName, fault: &Fault) -> Option<Status> {
    let status = Status::new(fault.routed_by()?.status()).ok()?;
    graph.routes(role, &status).map(|_| status)
}

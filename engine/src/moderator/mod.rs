//! The moderator: a pure function that picks the next edge and speaks its prompt.
//!
//! It sees the graph and a thread's state and nothing else: no clock, no store, no provider. The same state gives the
//! same decision in every process.

pub mod limits;

use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Outcome;
use rondo_protocol::id::{RoleName, Status};
use rondo_protocol::object::EdgeTaken;
use rondo_protocol::workflow::places::key;
use rondo_protocol::workflow::template::{RenderError, Template, ValueTemplate};

use crate::graph::{Edge, EdgeId, Graph, To};
use crate::thread::{State, ThreadScope};

/// The most bytes that a prompt, a line for the user or a result may have.
pub const MAX_RENDERED_BYTES: usize = 1 << 20;

/// What happens next.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// A role is visited.
    Dispatch(Dispatch),
    /// The thread ends.
    Finish(Finish),
}

/// A visit to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// Whose.
    pub role: RoleName,
    /// By which edge, with its prompt.
    pub edge: EdgeTaken,
    /// Of a tool role: what its tool is given, an object.
    pub args: Option<Value>,
    /// What was chosen on the way.
    pub chosen: Chosen,
}

/// An end.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Which.
    pub outcome: Outcome,
    /// Why, at `fail`.
    pub reason: Option<String>,
    /// What the run gives back.
    pub result: Value,
    /// What was chosen on the way.
    pub chosen: Chosen,
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
    /// Several roles at once.
    #[error("the edge from {from} is a fan-out, which this version does not run")]
    FanOut {
        /// The role that it leaves.
        from: String,
    },
}

impl From<Undecided> for Fault {
    fn from(undecided: Undecided) -> Self {
        let (code, class) = match &undecided {
            Undecided::Unrendered { .. } => (Code::RenderFailed, FaultClass::Limit),
            Undecided::NoEdge { .. } => (Code::RenderFailed, FaultClass::Denied),
            Undecided::FanOut { .. } => (Code::NotYetRun, FaultClass::Denied),
        };
        Fault::new(code, class, undecided.to_string())
    }
}

/// What choosing an edge leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Which part of the workflow the edge is.
    pub part: Arc<str>,
    /// A line for the user.
    pub say: Option<String>,
    /// The bounded edge that was taken, with the role whose steps count anew.
    pub bounded: Vec<(EdgeId, Option<RoleName>)>,
}

impl Decision {
    /// What was chosen on the way.
    pub fn chosen(&self) -> &Chosen {
        match self {
            Self::Dispatch(dispatch) => &dispatch.chosen,
            Self::Finish(finish) => &finish.chosen,
        }
    }

    /// Where it leads: a role, `end` or `fail`.
    pub fn leads_to(&self) -> &str {
        match self {
            Self::Dispatch(dispatch) => dispatch.role.as_str(),
            Self::Finish(Finish { outcome: Outcome::Done, .. }) => "end",
            Self::Finish(_) => "fail",
        }
    }
}

/// Picks the edge that leaves the state's last step, or `start`, and renders its prompt.
///
/// # Errors
/// When a template cannot be rendered on these values, or the graph has no edge for the status: then the thread stops
/// and can be resumed.
pub fn decide(graph: &Graph, state: &State) -> Result<Decision, Fault> {
    choose(graph, state).and_then(|edge| take(graph, state, edge)).map_err(Fault::from)
}

/// The edge that leaves the state's last step, or `start`: the first whose condition holds, or what stands behind it
/// once it was taken as often as it may be.
///
/// # Errors
/// When a condition has no value on these values, or the graph has no edge for the status.
pub fn choose<'g>(graph: &'g Graph, state: &State) -> Result<&'g Edge, Undecided> {
    let scope = ThreadScope::new(state);
    let (edges, place): (Vec<&Arc<Edge>>, _) = match &state.last {
        None => (graph.start(), "start".to_owned()),
        Some(last) => {
            let (role, status) = (&last.episode.role, &last.episode.status);
            let routes = graph.routes(role, status).unwrap_or_default();
            (routes.iter().collect(), format!("{role}.{status}"))
        }
    };
    for edge in edges {
        let unclear = |error| Undecided::Unrendered {
            what: format!("the edge from {place}"),
            part: key(&edge.part, "when"),
            error,
        };
        if edge.when.as_ref().map_or(Ok(true), |condition| condition.expr.truth(&scope)).map_err(unclear)? {
            let mut edge = &**edge;
            while let Some(bound) = &edge.bound {
                if state.times_taken(edge.id, bound.per.as_ref()) < u64::from(bound.max) {
                    break;
                }
                edge = &bound.on_max;
            }
            return Ok(edge);
        }
    }
    Err(Undecided::NoEdge { place })
}

/// What follows when `edge`, which leaves the state's last step or `start`, is taken.
///
/// # Errors
/// When a template of it cannot be rendered on these values.
pub fn take(graph: &Graph, state: &State, edge: &Edge) -> Result<Decision, Undecided> {
    let scope = ThreadScope::new(state);
    let from = state.last.as_ref().map_or("start", |last| last.episode.role.as_str());
    let on_edge = |part: &str, error| Undecided::Unrendered {
        what: format!("the edge from {from}"),
        part: key(&edge.part, part),
        error,
    };
    let render = |part: &str, template: &Template| {
        template.render(&scope, MAX_RENDERED_BYTES).map_err(|error| on_edge(part, error))
    };
    let value = |part: String, template: &ValueTemplate| {
        template.render(&scope, MAX_RENDERED_BYTES).map_err(|error| {
            // The leaf is looked for only now that there is a fault.
            let leaf = template.failing_leaf(&scope, &error).unwrap_or_default();
            Undecided::Unrendered { what: format!("the edge from {from}"), part: format!("{part}{leaf}"), error }
        })
    };
    let chosen = Chosen {
        part: Arc::clone(&edge.part),
        say: edge.say.as_ref().map(|say| render("say", say)).transpose()?,
        bounded: edge.bound.as_ref().map(|bound| (edge.id, bound.per.clone())).into_iter().collect(),
    };
    let role = match &edge.to {
        To::Role(role) => role.clone(),
        To::Back => back(state)?,
        To::End => {
            let result = match (&edge.result, graph.result()) {
                (Some(own), _) => value(key(&edge.part, "result"), own)?,
                (None, Some(of_workflow)) => value("result".to_owned(), of_workflow)?,
                (None, None) => last_said(state),
            };
            return Ok(Decision::Finish(Finish { outcome: Outcome::Done, reason: None, result, chosen }));
        }
        To::Fail => {
            let reason = edge.reason.as_ref().map(|reason| render("reason", reason)).transpose()?;
            let result = edge.result.as_ref().map_or(Ok(Value::Null), |own| value(key(&edge.part, "result"), own))?;
            return Ok(Decision::Finish(Finish { outcome: Outcome::Failed, reason, result, chosen }));
        }
        To::Fan(_) => {
            return Err(Undecided::FanOut { from: from.to_owned() });
        }
    };
    let edge = EdgeTaken {
        from: from.to_owned(),
        prompt: render("prompt", &edge.prompt)?,
        status: state.last.as_ref().map(|last| last.episode.status.clone()),
    };
    let args = graph.args(&role).map(|args| {
        value(key(&key("roles", role.as_str()), "args"), args).map_err(|undecided| match undecided {
            Undecided::Unrendered { part, error, .. } => {
                Undecided::Unrendered { what: format!("the arguments of {role}"), part, error }
            }
            other => other,
        })
    });
    let args = args.transpose()?;
    Ok(Decision::Dispatch(Dispatch { role, edge, args, chosen }))
}

/// The role that the last step's role was entered from.
fn back(state: &State) -> Result<RoleName, Undecided> {
    state
        .last
        .as_ref()
        .and_then(|last| RoleName::new(&last.entered_from).ok())
        .filter(|role| role.as_str() != "start")
        .ok_or_else(|| Undecided::NoEdge { place: "back".to_owned() })
}

/// The result of a workflow that declares none.
fn last_said(state: &State) -> Value {
    state.last.as_ref().map_or(Value::Null, |last| {
        Value::from_iter([
            ("status", Value::from(last.episode.status.as_str())),
            ("output", last.episode.output.clone()),
            ("body", Value::from(last.episode.body.as_str())),
        ])
    })
}

/// The status by which a fault is routed, if the role has an edge for it.
pub fn routed(graph: &Graph, role: &RoleName, fault: &Fault) -> Option<Status> {
    let status = Status::new(fault.routed_by()?.status()).ok()?;
    graph.routes(role, &status).map(|_| status)
}

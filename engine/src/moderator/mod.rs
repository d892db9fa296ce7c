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
use rondo_protocol::workflow::template::{RenderError, Scope, Template, ValueTemplate};

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

/// What choosing an edge leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Where the edge stands in its file.
    pub path: Arc<str>,
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
    let scope = ThreadScope::new(state);
    let edge = match &state.last {
        None => {
            let start = graph.start();
            choose(start.iter().map(|edge| &***edge), state, &scope, "start")?
        }
        Some(last) => {
            let (role, status) = (&last.episode.role, &last.episode.status);
            let place = format_args!("{role}.{status}").to_string();
            let routes = graph.routes(role, status).ok_or_else(|| no_edge(&place))?;
            choose(routes.iter().map(Arc::as_ref), state, &scope, &place)?
        }
    };
    let from = state.last.as_ref().map_or("start", |last| last.episode.role.as_str());
    let render =
        |template: &Template| template.render(&scope, MAX_RENDERED_BYTES).map_err(|error| edge_fault(from, &error));
    let chosen = Chosen {
        path: Arc::clone(&edge.path),
        say: edge.say.as_ref().map(render).transpose()?,
        bounded: edge.bound.as_ref().map(|bound| (edge.id, bound.per.clone())).into_iter().collect(),
    };
    let role = match &edge.to {
        To::Role(role) => role.clone(),
        To::Back => back(state)?,
        To::End => {
            let result = result(graph, edge, state, &scope, from)?;
            return Ok(Decision::Finish(Finish { outcome: Outcome::Done, reason: None, result, chosen }));
        }
        To::Fail => {
            let reason = edge.reason.as_ref().map(render).transpose()?;
            let result = match &edge.result {
                Some(template) => value(template, &scope, from)?,
                None => Value::Null,
            };
            return Ok(Decision::Finish(Finish { outcome: Outcome::Failed, reason, result, chosen }));
        }
        To::Fan(_) => {
            let message = format!("the edge from {from} is a fan-out, which this version does not run");
            return Err(Fault::new(Code::NotYetRun, FaultClass::Denied, message));
        }
    };
    let edge = EdgeTaken {
        from: from.to_owned(),
        prompt: render(&edge.prompt)?,
        status: state.last.as_ref().map(|last| last.episode.status.clone()),
    };
    let args = graph.args(&role).map(|args| {
        let fault = |error| render_fault(format_args!("the arguments of {role}"), &error);
        args.render(&scope, MAX_RENDERED_BYTES).map_err(fault)
    });
    let args = args.transpose()?;
    Ok(Decision::Dispatch(Dispatch { role, edge, args, chosen }))
}

/// The first edge whose condition holds, or what stands behind it once it was taken as often as it may be.
fn choose<'a>(
    edges: impl Iterator<Item = &'a Edge>,
    state: &State,
    scope: &dyn Scope,
    place: &str,
) -> Result<&'a Edge, Fault> {
    for edge in edges {
        let holds = match &edge.when {
            Some(condition) => condition.expr.truth(scope).map_err(|error| edge_fault(place, &error))?,
            None => true,
        };
        if holds {
            let mut edge = edge;
            while let Some(bound) = &edge.bound {
                if state.times_taken(edge.id, bound.per.as_ref()) < u64::from(bound.max) {
                    break;
                }
                edge = &bound.on_max;
            }
            return Ok(edge);
        }
    }
    Err(no_edge(place))
}

/// The role that the last step's role was entered from.
fn back(state: &State) -> Result<RoleName, Fault> {
    state
        .last
        .as_ref()
        .and_then(|last| RoleName::new(&last.entered_from).ok())
        .filter(|role| role.as_str() != "start")
        .ok_or_else(|| no_edge("back"))
}

fn result(graph: &Graph, edge: &Edge, state: &State, scope: &dyn Scope, place: &str) -> Result<Value, Fault> {
    if let Some(template) = edge.result.as_ref().or_else(|| graph.result()) {
        return value(template, scope, place);
    }
    Ok(state.last.as_ref().map_or(Value::Null, |last| {
        Value::from_iter([
            ("status", Value::from(last.episode.status.as_str())),
            ("output", last.episode.output.clone()),
            ("body", Value::from(last.episode.body.as_str())),
        ])
    }))
}

fn value(template: &ValueTemplate, scope: &dyn Scope, place: &str) -> Result<Value, Fault> {
    template.render(scope, MAX_RENDERED_BYTES).map_err(|error| edge_fault(place, &error))
}

fn edge_fault(place: &str, error: &RenderError) -> Fault {
    render_fault(format_args!("the edge from {place}"), error)
}

fn render_fault(what: std::fmt::Arguments<'_>, error: &RenderError) -> Fault {
    Fault::new(Code::RenderFailed, FaultClass::Limit, format!("{what} cannot be rendered: {error}"))
}

fn no_edge(place: &str) -> Fault {
    let message = format!("the graph has no edge for {place}; the thread's workflow does not fit its steps");
    Fault::new(Code::RenderFailed, FaultClass::Denied, message)
}

/// The status by which a fault is routed, if the role has an edge for it.
pub fn routed(graph: &Graph, role: &RoleName, fault: &Fault) -> Option<Status> {
    let status = Status::new(fault.routed_by()?.status()).ok()?;
    graph.routes(role, &status).map(|_| status)
}

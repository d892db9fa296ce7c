//! What a visit has to do, and the answers of roles that need no call: rules, expressions and rotations.

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{RoleName, Status};
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::template::{Expr, RenderError};

use super::message::Answered;
use super::route::{Decided, EdgeTexts, Undecided};
use crate::graph::{Edge, Entry, Graph, Rule, To};
use std::sync::Arc;

/// What a visit has to do with its prompt.
#[derive(Debug, Clone, PartialEq)]
pub enum Task {
    /// A model answers.
    Model,
    /// A person fills in a form.
    Form,
    /// A tool runs with these arguments, an object.
    Tool(Value),
    /// A child workflow runs on this input, an object.
    Child(Value),
    /// A model writes a text in place of a role's older visits.
    Compact {
        /// The role whose visits they are.
        of: RoleName,
        /// The last of them.
        through_visit: u64,
    },
    /// Nothing: an expression gave the answer, or the fault.
    Computed(Result<Box<Answered>, Fault>),
}

impl EdgeTexts<'_> {
    /// The task of a role that the edge leads to.
    ///
    /// # Errors
    /// If a template has no value. Faults of a rule or choice are part of the task: they belong to that role's visit.
    pub fn task(&self, graph: &Graph, role: &RoleName) -> Decided<Task> {
        let part = key("roles", role.as_str());
        let decided = match graph.entry(role) {
            Entry::Prompt => return Ok(Task::Model),
            Entry::Form => return Ok(Task::Form),
            Entry::Args(args) => {
                let what = format!("the arguments of {role}");
                return self.value(&key(&part, "args"), args).map(Task::Tool).map_err(|error| error.of(what));
            }
            Entry::Input(input) => {
                let what = format!("the input of {role}");
                return self.value(&key(&part, "input"), input).map(Task::Child).map_err(|error| error.of(what));
            }
            Entry::Rules(rules) => self.ruled(role, &key(&part, "output"), rules),
            Entry::Choice(choice) => {
                let part = key(&key(&part, "by"), "expression");
                let chosen = self.eval(role, &part, &choice.expr);
                chosen.and_then(|status| selected(graph, role, status.as_str(), "expression"))
            }
            Entry::RoundRobin(statuses) => {
                let visits = usize::try_from(self.scope.lane().visits(role)).unwrap_or(usize::MAX);
                let next = visits.checked_rem(statuses.len()).and_then(|at| statuses.get(at));
                selected(graph, role, next.map(Status::as_str), "round_robin")
            }
            Entry::LeastRecent(statuses) => {
                let recency = |status: &&Status| self.latest(graph.routes(role, status).unwrap_or_default());
                let next = statuses.iter().min_by_key(recency);
                selected(graph, role, next.map(Status::as_str), "least_recent")
            }
        };
        match decided {
            // A step that cannot be read is no fault of the role.
            Err(fault) if fault.class == FaultClass::Store => Err(fault.into()),
            decided => Ok(Task::Computed(decided.map(Box::new))),
        }
    }

    fn ruled(&self, role: &RoleName, part: &str, rules: &[Rule]) -> Result<Answered, Fault> {
        for rule in rules {
            let part = key(part, rule.status.as_str());
            if let Some(when) = &rule.when {
                let holds = when.expr.truth(self.scope);
                if !self.evaluated(role, &key(&part, "when"), holds)? {
                    continue;
                }
            }
            let fields = rule.fields.iter().map(|(name, expr)| {
                let name = name.as_str();
                Ok((name, self.eval(role, &key(&part, name), expr)?))
            });
            let fields: Result<Value, Fault> = fields.collect();
            return Ok(Answered::uncalled(rule.status.clone(), fields?));
        }
        Err(broken(role, "none of its rules holds"))
    }

    fn eval(&self, role: &RoleName, part: &str, expr: &Expr) -> Result<Value, Fault> {
        self.evaluated(role, part, expr.eval(self.scope))
    }

    fn evaluated<T>(&self, role: &RoleName, part: &str, value: Result<T, RenderError>) -> Result<T, Fault> {
        let value = value.map_err(|error| Undecided::Unrendered {
            what: format!("the rule {role}"),
            part: part.to_owned(),
            error,
        });
        self.scope.checked(value).map_err(|undecided| match undecided {
            Undecided::Fault(fault) => fault,
            // In a role of its own, an expression without a value is an answer that breaks the contract.
            undecided => Fault::new(Code::RenderFailed, FaultClass::Contract, undecided.to_string()),
        })
    }

    /// The number of the latest step of the roles that these edges lead to; 0 if none has run.
    fn latest(&self, edges: &[Arc<Edge>]) -> u64 {
        let lane = self.scope.lane();
        let of_role = |role: &RoleName| lane.view(role.as_str()).map_or(0, |seen| seen.latest);
        let of_edge = |edge: &Arc<Edge>| match &edge.to {
            // The selector was entered from the role of the last step.
            To::Back => self.scope.last().map_or(0, |last| last.seq),
            to => to.roles().into_iter().map(of_role).max().unwrap_or(0),
        };
        edges.iter().map(of_edge).max().unwrap_or(0)
    }
}

/// The answer of a selector that no model or person gives.
fn selected(graph: &Graph, role: &RoleName, status: Option<&str>, by: &str) -> Result<Answered, Fault> {
    let known = graph.role(role).into_iter().flat_map(|(role, _)| &role.output).map(|(status, _)| status);
    let Some(status) = status else { return Err(broken(role, "it gives no status")) };
    let found = known.clone().find(|known| known.as_str() == status);
    let Some(found) = found else {
        let known: Vec<&str> = known.map(Status::as_str).collect();
        return Err(broken(role, &format!("it gives {status:?}, which is none of {}", known.join(", "))));
    };
    let output = Value::from_iter([("instruction", Value::from("")), ("reason", Value::from(by))]);
    Ok(Answered::uncalled(found.clone(), output))
}

fn broken(role: &RoleName, what: &str) -> Fault {
    Fault::new(Code::ContractBroken, FaultClass::Contract, format!("the choice of {role} is not usable: {what}"))
}

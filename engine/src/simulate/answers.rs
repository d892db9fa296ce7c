//! What each role may answer: generated values in the words of its contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::answer::Contract;
use rondo_protocol::Value;
use rondo_protocol::id::{FieldName, RoleName, Status};
use rondo_protocol::object::FaultKind;
use rondo_protocol::workflow::types::sample::{Objects, objects, words};
use rondo_protocol::workflow::{Field, ModelRole, Ordered, Role, RoleKind, Workflow};

use super::reads::Reads;
use crate::cast;
use crate::graph::Graph;

/// How long the longest text beside the fields is where the model has no `max_output_tokens`, in bytes.
pub const USUAL_BODY_BYTES: usize = 4_000;
/// The most bytes of such a text.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// The bytes of a token, as everywhere that tokens are estimated.
pub const BYTES_A_TOKEN: usize = 4;

/// An answer that a role may give.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: Status,
    /// The fields.
    pub output: Value,
    /// The text that enters the thread.
    pub text: String,
    /// What it says beside the fields.
    pub body: String,
}

/// The answers of one status.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// First the longest, then the shortest, then others.
    pub all: Vec<Arc<Answer>>,
}

/// The answers of every role of a workflow.
#[derive(Debug, Default)]
pub struct Repertoire {
    /// For each role its statuses in declared order, then those by which faults are routed.
    pub roles: BTreeMap<RoleName, Vec<(Status, Answers)>>,
    /// Fields without a value: role, status, field.
    pub unmade: Vec<(RoleName, Status, FieldName)>,
    /// Statuses whose fields have more values than were tried.
    pub cut: Vec<(RoleName, Status)>,
}

impl Repertoire {
    /// What the roles of `workflow` may answer.
    ///
    /// # Errors
    /// When the contract of a role cannot be made, which a checked workflow never leads to.
    pub fn new(workflow: &Workflow, graph: &Graph, reads: &Reads) -> Result<Self, cast::Error> {
        let contracts = cast::contracts(workflow)?;
        let mut repertoire = Self::default();
        for (name, role) in &workflow.roles {
            let mut statuses = Vec::new();
            for (status, fields) in &role.output {
                let made = objects(fields, reads.fields_of(name), &reads.constants);
                let unmade = made.unmade.iter().map(|field| (name.clone(), status.clone(), field.clone()));
                repertoire.unmade.extend(unmade);
                if made.is_cut {
                    repertoire.cut.push((name.clone(), status.clone()));
                }
                let part = Part { workflow, role, status, fields, bodies: reads.bodies_of(name) };
                statuses.push((status.clone(), part.answers(&made, contracts.get(name))));
            }
            statuses.extend(of_faults(graph, name));
            repertoire.roles.insert(name.clone(), statuses);
        }
        Ok(repertoire)
    }

    /// The answers of a role, status by status.
    pub fn of(&self, role: &RoleName) -> &[(Status, Answers)] {
        self.roles.get(role).map(Vec::as_slice).unwrap_or_default()
    }

    /// The most answers that one status has.
    pub fn widest(&self, roles: &BTreeSet<RoleName>) -> usize {
        let of_roles = self.roles.iter().filter(|(role, _)| roles.contains(*role)).flat_map(|(_, statuses)| statuses);
        of_roles.map(|(_, answers)| answers.all.len()).max().unwrap_or(1)
    }
}

/// One status of one role.
struct Part<'w> {
    workflow: &'w Workflow,
    role: &'w Role,
    status: &'w Status,
    fields: &'w Ordered<FieldName, Field>,
    /// Texts that conditions look for beside the fields.
    bodies: &'w [Value],
}

impl Part<'_> {
    fn answers(&self, made: &Objects, contract: Option<&Contract>) -> Answers {
        let mut all: Vec<Arc<Answer>> = Vec::new();
        let mut keep = |fields: &Value, body: &str| {
            let answer = match (&self.role.kind, contract) {
                (RoleKind::Model(_), Some(contract)) => self.of_model(contract, fields, body),
                (RoleKind::Tool(_), _) => Some(self.of_tool(fields, body)),
                _ => None,
            };
            if let Some(answer) = answer.filter(|answer| !all.iter().any(|known| **known == *answer)) {
                all.push(Arc::new(answer));
            }
        };
        let long = words(self.longest_body());
        if let Some(longest) = made.values.get(1).or(made.values.first()) {
            keep(longest, &long);
        }
        if let Some(shortest) = made.values.first() {
            keep(shortest, "");
        }
        for wanted in self.bodies.iter().filter_map(Value::as_str) {
            made.values.iter().take(2).for_each(|fields| keep(fields, wanted));
        }
        made.values.iter().skip(2).for_each(|fields| keep(fields, &long));
        Answers { all }
    }

    fn longest_body(&self) -> usize {
        let RoleKind::Model(ModelRole { model, .. }) = &self.role.kind else { return USUAL_BODY_BYTES };
        let parameters = self.workflow.models.get(model).map(|model| &model.parameters.0);
        match parameters.and_then(|parameters| parameters.get("max_output_tokens")) {
            Some(Value::Int(tokens)) => {
                let tokens = usize::try_from(*tokens).unwrap_or(MAX_BODY_BYTES);
                tokens.saturating_mul(BYTES_A_TOKEN).min(MAX_BODY_BYTES)
            }
            _ => USUAL_BODY_BYTES,
        }
    }

    /// The answer as the contract reads it back; `None` where its format cannot say it.
    fn of_model(&self, contract: &Contract, fields: &Value, body: &str) -> Option<Answer> {
        let text = contract.render(self.status.as_str(), fields, body);
        let read = contract.parse(&text).ok().filter(|read| read.status == *self.status)?;
        Some(Answer { status: read.status, output: read.output, body: read.body, text })
    }

    /// Fields are read from the text of a tool; without any, and where it failed, the text is free.
    fn of_tool(&self, fields: &Value, body: &str) -> Answer {
        let is_read = self.status.as_str() == "ok" && !self.fields.is_empty();
        let text = if is_read { fields.to_text() } else { body.to_owned() };
        Answer { status: self.status.clone(), output: fields.clone(), body: text.clone(), text }
    }
}

/// The steps that faults of a role come to where its graph routes them.
fn of_faults(graph: &Graph, role: &RoleName) -> Vec<(Status, Answers)> {
    let kinds = [(FaultKind::Error, "RN1005"), (FaultKind::Limit, "RN1203"), (FaultKind::Timeout, "RN1204")];
    let routed = kinds.into_iter().filter_map(|(kind, code)| {
        let status = Status::new(kind.status()).ok()?;
        graph.routes(role, &status)?;
        Some((status, code))
    });
    routed
        .map(|(status, code)| {
            let answer = |message: String| {
                let output =
                    Value::from_iter([("code", Value::from(code)), ("message", Value::from(message.as_str()))]);
                Arc::new(Answer { status: status.clone(), output, text: String::new(), body: String::new() })
            };
            (status.clone(), Answers { all: vec![answer(words(200)), answer(String::new())] })
        })
        .collect()
}

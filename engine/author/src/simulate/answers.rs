//! The possible answers of each role: generated values in the form of its contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::answer::Contract;
use rondo_core::graph::Graph;
use rondo_core::resolved_roles;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{FieldName, RoleName, Status};
use rondo_protocol::object::FaultKind;
use rondo_protocol::workflow::{Field, ModelRole, Ordered, Role, RoleKind, Workflow};

use super::child;
use super::reads::Reads;
use super::sample::{Objects, objects, words};

/// The bytes of the longest body if the model has no `max_output_tokens`.
pub const USUAL_BODY_BYTES: usize = 4_000;
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Bytes per token in all estimates.
pub const BYTES_A_TOKEN: usize = 4;

/// The most bytes of all answers; each status gets a share of what the ones before it left.
const MAX_HELD_BYTES: usize = 40 << 20;
/// Approximate upper bounds for an object without its members, and for a member without its text.
const OBJECT_BYTES: usize = 640;
const MEMBER_BYTES: usize = 128;

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: Status,
    pub output: Value,
    /// The body; equal bodies of a status are shared.
    pub body: Arc<str>,
    pub text_bytes: usize,
    /// Renders its text; for a tool and a fault the body is the text.
    contract: Option<Arc<Contract>>,
}

impl Answer {
    /// The text that enters the thread. It is rendered on demand: stored texts would take many times the space of the
    /// bodies.
    pub fn text(&self) -> String {
        match &self.contract {
            Some(contract) => contract.render(self.status.as_str(), &self.output, &self.body),
            None => self.body.as_ref().to_owned(),
        }
    }
}

/// The longest, the shortest, then others.
pub type Answers = Vec<Arc<Answer>>;

#[derive(Debug, Default)]
pub struct AnswerSet {
    /// For each role its statuses in declared order, then the fault statuses.
    pub roles: BTreeMap<RoleName, Vec<(Status, Answers)>>,
    /// Fields without a value: role, status, field.
    pub unmade: Vec<(RoleName, Status, FieldName)>,
    /// Statuses whose fields have untried values.
    pub cut: Vec<(RoleName, Status)>,
}

impl AnswerSet {
    pub fn new(workflow: &Workflow, graph: &Graph, reads: &Reads) -> Result<Self, resolved_roles::Error> {
        let contracts: BTreeMap<RoleName, Arc<Contract>> = resolved_roles::contracts(workflow)?
            .into_iter()
            .map(|(name, contract)| (name, Arc::new(contract)))
            .collect();
        let mut answer_set = Self::default();
        let mut left_statuses: usize = workflow.roles.iter().map(|(_, role)| role.output.len()).sum();
        let mut left_bytes = MAX_HELD_BYTES;
        let absorbed = graph.absorbed();
        for (name, role) in &workflow.roles {
            let mut statuses = Vec::new();
            for (status, fields) in &role.output {
                let fields = &child::fields(&role.kind, fields);
                let made = objects(fields, reads.fields_of(name), &reads.constants);
                let unmade = made.unmade.iter().map(|field| (name.clone(), status.clone(), field.clone()));
                answer_set.unmade.extend(unmade);
                let share = left_bytes / left_statuses.max(1);
                let part = StatusAnswers { workflow, role, status, fields, bodies: reads.bodies_of(name), share };
                let given = part.answers(&made, contracts.get(name));
                left_bytes = left_bytes.saturating_sub(given.held_bytes);
                left_statuses = left_statuses.saturating_sub(1);
                if made.is_cut || given.is_cut {
                    answer_set.cut.push((name.clone(), status.clone()));
                }
                statuses.push((status.clone(), given.all));
            }
            statuses.extend(of_faults(graph, name, absorbed.contains(name)));
            answer_set.roles.insert(name.clone(), statuses);
        }
        Ok(answer_set)
    }

    pub fn of(&self, role: &RoleName) -> &[(Status, Answers)] {
        self.roles.get(role).map(Vec::as_slice).unwrap_or_default()
    }

    /// The largest number of answers of one status.
    pub fn widest(&self, roles: &BTreeSet<RoleName>) -> usize {
        let of_roles = self.roles.iter().filter(|(role, _)| roles.contains(*role)).flat_map(|(_, statuses)| statuses);
        of_roles.map(|(_, answers)| answers.len()).max().unwrap_or(1)
    }
}

struct StatusAnswers<'w> {
    workflow: &'w Workflow,
    role: &'w Role,
    status: &'w Status,
    fields: &'w Ordered<FieldName, Field>,
    /// Texts that conditions compare the body with.
    bodies: &'w [Value],
    /// How many bytes its answers may hold.
    share: usize,
}

#[derive(Debug, Default)]
struct KeptAnswers {
    all: Vec<Arc<Answer>>,
    held_bytes: usize,
    /// Whether more or longer answers were left out.
    is_cut: bool,
}

impl KeptAnswers {
    /// Keeps an answer, unless it is a duplicate or would exceed `share`.
    fn keep(&mut self, mut answer: Answer, share: usize) {
        let mut bytes = OBJECT_BYTES + weight(&answer.output);
        match self.all.iter().find(|known| known.body == answer.body) {
            Some(known) => answer.body = Arc::clone(&known.body),
            None => bytes += answer.body.len(),
        }
        if self.all.iter().any(|known| known.output == answer.output && Arc::ptr_eq(&known.body, &answer.body)) {
            return;
        }
        if self.held_bytes.saturating_add(bytes) > share {
            self.is_cut = true;
            return;
        }
        self.held_bytes += bytes;
        self.all.push(Arc::new(answer));
    }
}

/// The approximate bytes of a value in memory, rather too many than too few.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => MEMBER_BYTES,
        Value::Str(text) => MEMBER_BYTES + text.len(),
        Value::List(items) => MEMBER_BYTES + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            OBJECT_BYTES
                + members.iter().map(|(name, member)| MEMBER_BYTES + name.len() + weight(member)).sum::<usize>()
        }
    }
}

impl StatusAnswers<'_> {
    fn answers(&self, made: &Objects, contract: Option<&Arc<Contract>>) -> KeptAnswers {
        let mut given = KeptAnswers::default();
        // Leaves room for fields next to the longest text.
        let longest = self.longest_body().min(self.share / 4);
        given.is_cut = longest < self.longest_body();
        let mut keep = |fields: &Value, body: &str| {
            let answer = match contract {
                Some(contract) => self.of_model(contract, fields, body),
                None if matches!(self.role.kind, RoleKind::Tool(_) | RoleKind::Workflow(_)) => {
                    Some(self.of_tool(fields, body))
                }
                None => None,
            };
            if let Some(answer) = answer {
                given.keep(answer, self.share);
            }
        };
        let long = words(longest);
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
        given
    }

    fn longest_body(&self) -> usize {
        let Some(ModelRole { model, .. }) = self.role.kind.model() else { return USUAL_BODY_BYTES };
        let parameters = self.workflow.models.get(model).map(|model| &model.parameters.0);
        match parameters.and_then(|parameters| parameters.get("max_output_tokens")) {
            Some(Value::Int(tokens)) => {
                let tokens = usize::try_from(*tokens).unwrap_or(MAX_BODY_BYTES);
                tokens.saturating_mul(BYTES_A_TOKEN).min(MAX_BODY_BYTES)
            }
            _ => USUAL_BODY_BYTES,
        }
    }

    /// The answer as the contract reads it back; `None` if its format cannot express it.
    fn of_model(&self, contract: &Arc<Contract>, fields: &Value, body: &str) -> Option<Answer> {
        let text = contract.render(self.status.as_str(), fields, body);
        let read = contract.parse(&text).ok().filter(|read| read.status == *self.status)?;
        Some(Answer {
            status: read.status,
            output: read.output,
            body: read.body.into(),
            text_bytes: text.len(),
            contract: Some(Arc::clone(contract)),
        })
    }

    /// Fields are read from a tool's text; without fields, and on failure, the text is free, as that of a child is.
    fn of_tool(&self, fields: &Value, body: &str) -> Answer {
        let is_tool = matches!(self.role.kind, RoleKind::Tool(_));
        let is_read = is_tool && self.status.as_str() == "ok" && !self.fields.is_empty();
        let text = if is_read { fields.to_text() } else { body.to_owned() };
        let text_bytes = text.len();
        Answer { status: self.status.clone(), output: fields.clone(), body: text.into(), text_bytes, contract: None }
    }
}

/// The steps for faults of a role, if its graph routes them or a fan-out continues without the lane.
fn of_faults(graph: &Graph, role: &RoleName, is_absorbed: bool) -> Vec<(Status, Answers)> {
    let kinds = [(FaultKind::Error, "RN1005"), (FaultKind::Limit, "RN1203"), (FaultKind::Timeout, "RN1204")];
    let routed = kinds.into_iter().filter_map(|(kind, code)| {
        let status = Status::new(kind.status()).ok()?;
        let is_routed = graph.routes(role, &status).is_some() || (is_absorbed && kind == FaultKind::Error);
        is_routed.then_some((status, code))
    });
    // A selector's last way out is taken for this code alone.
    let error = Status::new(FaultKind::Error.status()).ok().filter(|_| graph.otherwise(role).is_some());
    let broken = error.map(|error| (error, Code::ContractBroken.as_str()));
    let mut faults: Vec<(Status, Answers)> = Vec::new();
    for (status, code) in routed.chain(broken) {
        let answer = |message: String| {
            let output = Value::from_iter([("code", Value::from(code)), ("message", Value::from(message.as_str()))]);
            Arc::new(Answer { status: status.clone(), output, body: "".into(), text_bytes: 0, contract: None })
        };
        let answers = [answer(words(200)), answer(String::new())];
        match faults.iter_mut().find(|(known, _)| *known == status) {
            Some((_, known)) => known.extend(answers),
            None => faults.push((status.clone(), answers.into())),
        }
    }
    faults
}

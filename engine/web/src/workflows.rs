//! The workflows that can be started: those of the folder, and those that ship with rondo.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use rondo::failure::Failure;
use rondo::host::answers_from::SCRIPT_NAME;
use rondo::host::consent::{ConsentRequest, ConsentSource, Subject};
use rondo::host::picture::draw;
use rondo::host::workflow::{self, Loaded, Named};
use rondo::picture;
use rondo::protocol::diagnostic::Diagnostic;
use rondo::protocol::digest::Kind;
use rondo::protocol::hint::{Operation, Verb};
use rondo::protocol::workflow::{Policy, Workflow};
use rondo::protocol::{Digest, Value};
use rondo::tell;
use rondo::workflows::shipped;
use schemars::JsonSchema;
use serde::Serialize;

use super::body::{Json, typed};
use super::params::Path;
use super::problem::Problem;
use super::{Inner, Server};

/// A workflow in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowView {
    name: String,
    /// Its file; `None` if it ships with rondo.
    file: Option<String>,
    origin: &'static str,
    about: Option<String>,
    /// Why it cannot be started.
    faults: Vec<Diagnostic>,
}

impl WorkflowView {
    fn new(name: &str, found: &Named, loaded: Result<&Loaded, &Failure>) -> Self {
        let about = loaded.ok().map(|loaded| loaded.checked.policy.description.trim().to_owned());
        let faults = match loaded {
            Err(Failure::Diagnostics(faulty)) => faulty.faults.clone(),
            _ => Vec::new(),
        };
        let file = found.file.to_string_lossy().into_owned();
        let is_shipped = shipped::is_one(&file);
        Self {
            name: name.to_owned(),
            file: (!is_shipped).then_some(file),
            origin: if is_shipped { "shipped" } else { "folder" },
            about: about.filter(|about| !about.is_empty()),
            faults,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowList {
    workflows: Vec<WorkflowView>,
}

pub fn load(server: &Inner, name: &str) -> Result<Loaded, Failure> {
    workflow::read(workflow::named(name, server.rondo.folder())?.file)
}

pub async fn list(State(server): State<Server>) -> Result<Json<WorkflowList>, Problem> {
    server
        .json(|server, _| {
            let all = workflow::all(server.rondo.folder()).into_iter();
            let workflows = all.map(|found| {
                let loaded = workflow::read(found.file.clone());
                WorkflowView::new(&found.name, &found, loaded.as_ref())
            });
            Ok(WorkflowList { workflows: workflows.collect() })
        })
        .await
}

/// One workflow, with what a form to start it needs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkflowDetails {
    #[serde(flatten)]
    view: WorkflowView,
    digest: Digest,
    /// The JSON Schema of its input, an object.
    #[schemars(with = "BTreeMap<String, Value>")]
    input: Value,
    /// The names of the inputs in declared order.
    inputs: Vec<String>,
    roles: Vec<RoleView>,
    /// Whether a script beside it can answer in place of models.
    has_script: bool,
    consent: ConsentView,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RoleView {
    name: String,
    kind: &'static str,
    /// The logical model.
    model: Option<String>,
    statuses: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ConsentView {
    is_given: bool,
    /// The command that gives it.
    command: Option<String>,
}

pub async fn one(State(server): State<Server>, Path(name): Path<String>) -> Result<Json<WorkflowDetails>, Problem> {
    server.json(move |server, _| details(server, &name)).await
}

fn details(server: &Inner, name: &str) -> Result<WorkflowDetails, Failure> {
    let found = workflow::named(name, server.rondo.folder())?;
    let loaded = workflow::read(found.file.clone())?;
    let workflow = &loaded.checked.workflow;
    let roles = workflow.roles.iter().map(|(name, role)| RoleView {
        name: name.to_string(),
        kind: role.kind.name(),
        model: role.kind.model().map(|model| model.model.clone()),
        statuses: role.output.iter().map(|(status, _)| status.to_string()).collect(),
    });
    Ok(WorkflowDetails {
        view: WorkflowView::new(name, &found, Ok(&loaded)),
        digest: Digest::of(Kind::Workflow, workflow)?.0,
        input: input_schema(workflow),
        inputs: workflow.input.iter().map(|(name, _)| name.to_string()).collect(),
        roles: roles.collect(),
        has_script: has_script(server, &loaded),
        consent: consent(server, name, &loaded)?,
    })
}

pub(super) fn has_script(server: &Inner, loaded: &Loaded) -> bool {
    let script = loaded.folder().join(SCRIPT_NAME);
    shipped::text(&script).is_some() || server.rondo.folder().join(script).is_file()
}

pub fn input_schema(workflow: &Workflow) -> Value {
    let required = workflow.input.iter().filter(|(_, field)| !field.optional && field.default_value().is_none());
    Value::from_iter([
        ("type", Value::from("object")),
        ("properties", workflow.input.iter().map(|(name, field)| (name.to_string(), field.schema.clone())).collect()),
        ("required", Value::List(required.map(|(name, _)| Value::from(name.as_str())).collect())),
        ("additionalProperties", Value::Bool(false)),
    ])
}

fn consent(server: &Inner, name: &str, loaded: &Loaded) -> Result<ConsentView, Failure> {
    let checked = &loaded.checked;
    let file = rondo::files::absolute(&loaded.path, server.rondo.folder());
    let subject = Subject { workflow: &checked.workflow, policy: &checked.policy, file: &file, is_current: true };
    let is_given = matches!(server.rondo.operator().consent, ConsentSource::Flag)
        || ConsentRequest::of(&server.rondo.operator().files, &server.settings, Some(subject))?.is_agreed();
    let command = (!is_given).then(|| tell::command(&Operation::new(Verb::Trust).named(name)));
    Ok(ConsentView { is_given, command })
}

pub async fn graph(State(server): State<Server>, Path(name): Path<String>) -> Result<Response, Problem> {
    let picture = server.reading(move |server, _| {
        let checked = load(server, &name)?.checked;
        drawn(server, &checked.workflow, &checked.policy)
    });
    picture.await.map(|picture| typed(picture, "application/json"))
}

pub fn drawn(server: &Inner, workflow: &Workflow, policy: &Policy) -> Result<Vec<u8>, Failure> {
    draw((workflow, policy), &server.settings, picture::Format::Json, picture::Hooks::Full)
}

//! What the end-to-end suite and the benches share: a workflow from its text, models that are functions, and runs that
//! are followed to their end.

#![expect(clippy::panic, reason = "what cannot be set up fails its test")]

pub mod terminal;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::ResponseFormat;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::tool::{Content, Error, InDoubt, Invocation, Origin, Spec, Tool, ToolSet};
use rondo_core::grant::Grants;
use rondo_core::models::{Models, ResolvedModel, ServedBy};
use rondo_core::{Ended, Engine, NewThread, RunConfig, ThreadHandle};
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, ModelAnswer, ModelCall};
use rondo_protocol::event::Event;
use rondo_protocol::object::ModelReply;
use rondo_protocol::workflow::{Checked, Workflow};

/// The workflow of that text.
///
/// # Panics
/// When it has a fault.
pub fn checked(text: &str) -> Checked {
    rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()).unwrap_or_else(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        panic!("the workflow is faulty:\n{}", faults.join("\n"))
    })
}

/// A model that is a function of the call.
pub struct FnModel<F>(pub F);

impl<F> Model for FnModel<F>
where
    F: Fn(&ModelCall) -> Result<String, Fault> + Send + Sync,
{
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(std::future::ready((self.0)(call).map(answer)))
    }
}

/// A tool that is a function of its arguments and its idempotency key.
pub struct FnTool<F> {
    spec: Spec,
    effect: Effect,
    in_doubt: InDoubt,
    run: F,
}

impl<F: Fn(&Value, &str) -> Result<String, Error> + Send + Sync + 'static> FnTool<F> {
    /// A tool that takes any object.
    pub fn new(name: &str, effect: Effect, run: F) -> Self {
        let (name, description) = (name.to_owned(), format!("Does {name}."));
        let spec = Spec { name, description, parameters: r#"{"type":"object"}"#.to_owned(), origin: Origin::BuiltIn };
        Self { spec, effect, in_doubt: InDoubt::Ask, run }
    }

    /// The same with another policy for calls in doubt.
    #[must_use]
    pub fn in_doubt(self, in_doubt: InDoubt) -> Self {
        Self { in_doubt, ..self }
    }
}

impl<F: Fn(&Value, &str) -> Result<String, Error> + Send + Sync + 'static> Tool for FnTool<F> {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        self.effect.clone()
    }

    fn in_doubt(&self) -> InDoubt {
        self.in_doubt
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(std::future::ready((self.run)(&arguments, &invocation.idempotency_key).map(Content::from)))
    }
}

/// What a run is given, with these tools, all of them granted.
///
/// # Panics
/// When two tools have one name.
pub fn equipped(workflow: &Workflow, model: &Arc<dyn Model>, tools: Vec<Arc<dyn Tool>>) -> RunConfig {
    let mut set = ToolSet::default();
    for tool in tools {
        set.add(tool).unwrap_or_else(|error| panic!("{error}"));
    }
    RunConfig { tools: set, grants: Grants::everything(), ..run_config(workflow, model) }
}

/// A complete reply with that text.
pub fn answer(text: String) -> ModelAnswer {
    ModelAnswer { reply: ModelReply::said(text), usage: None, cost_usd: None }
}

/// Every logical model of `workflow` answered by `model`.
pub fn run_config(workflow: &Workflow, model: &Arc<dyn Model>) -> RunConfig {
    let named = workflow.models.keys().map(String::as_str).chain(["default"]);
    let resolved = |name: &str| {
        let model = ResolvedModel {
            id: format!("{name}-id"),
            provider: Arc::clone(model),
            price: None,
            is_price_claimed: false,
            served_by: ServedBy::default(),
            response_format: ResponseFormat::default(),
        };
        (name.to_owned(), model)
    };
    RunConfig { models: Models(named.map(resolved).collect::<BTreeMap<_, _>>()), ..RunConfig::default() }
}

/// Starts a thread of `checked` on `input`.
///
/// # Panics
/// When it cannot be started.
pub async fn start(engine: &Engine, checked: &Checked, input: Value, model: Arc<dyn Model>) -> ThreadHandle {
    let run_config = run_config(&checked.workflow, &model);
    start_with(engine, checked, input, run_config).await
}

/// A thread of `checked` on `input` that has not begun.
pub fn new_thread(checked: &Checked, input: Value) -> NewThread {
    NewThread {
        workflow: checked.workflow.clone(),
        policy: checked.policy.clone(),
        input,
        file: None,
        script: None,
        recorded: None,
        workspace: None,
        labels: rondo_core::Labels::default(),
    }
}

/// Starts a thread of `checked` on `input` with what `run_config` gives.
///
/// # Panics
/// When it cannot be started.
pub async fn start_with(engine: &Engine, checked: &Checked, input: Value, run_config: RunConfig) -> ThreadHandle {
    let new = new_thread(checked, input);
    engine.start(new, run_config).await.unwrap_or_else(|error| panic!("not started: {error}"))
}

/// Follows a run to its end.
pub async fn follow(mut handle: ThreadHandle) -> (Vec<Event>, Ended) {
    let mut events = Vec::new();
    while let Some(event) = handle.events.recv().await {
        events.push(event);
    }
    (events, handle.ended().await)
}

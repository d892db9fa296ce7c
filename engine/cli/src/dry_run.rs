//! `rondo run --dry-run`: the first requests as they would be sent, the tools that roles have, and the worst case in
//! tokens and money. Nothing is sent, started or stored.
//!
//! The workflow really starts, over a store in memory, with models that note the request and stop the thread, and tools
//! that do nothing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rondo::agent_kit::model::{Completion, Deltas, Model};
use rondo::agent_kit::tool::{Content, Error, Invocation, Spec, Tool, ToolSet};
use rondo::author::simulate::Worst;
use rondo::core::{Engine, NewThread, RunConfig, SystemEnv};
use rondo::host::answers_from::ReplaySource;
use rondo::protocol::call::{Effect, Fault, FaultClass, ModelCall};
use rondo::protocol::diagnostic::Code;
use rondo::protocol::event::What;
use rondo::protocol::id::{LanePath, RoleName};
use rondo::protocol::message::Message;
use rondo::protocol::object::{Dollars, Head, Usage};
use rondo::protocol::workflow::{Checked, Limits, RoleKind, Workflow};
use rondo::protocol::{Digest, Value, canonical};
use rondo::settings::{SCRIPTED_MODEL, Settings, list_price};
use rondo::store::MemoryStore;
use rondo::tell::plural;
use rondo::views::lines::who;
use serde::Serialize;

use super::messages::parts;
use super::run_config::{RunSpec, run_config};
use super::simulate::walk;
use super::{Exit, Failure, Output};

/// The kind of hook that is an outside program, which a dry run does not start.
const PROGRAM_HOOK: &str = "command";

const BYTES_A_TOKEN: usize = 4;

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename = "request")]
struct FirstRequest {
    role: RoleName,
    lane: LanePath,
    /// Estimated tokens: bytes / 4.
    prompt_tokens: u64,
    digest: Digest,
    head: Head,
    messages: Vec<Message>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename = "worst_case")]
struct WorstCase {
    steps: u64,
    prompt_tokens: u64,
    output_tokens: u64,
    /// US dollars without any prompt cache; `None` if a price is not known.
    cost_usd: Option<f64>,
    unpriced: Vec<String>,
    /// Whether the figures are exact for the answers that were tried.
    exact: bool,
    limits: Limits,
}

pub fn show(checked: &Checked, new: NewThread, run_spec: &RunSpec, output: &mut Output) -> Result<Exit, Failure> {
    let worst = worst(checked, &new, run_spec.equipment.settings())?;
    let runtime = super::runtime()?;
    let (requests, stopped) = runtime.block_on(first_requests(new, run_spec))?;
    output.show_all(&requests, || requests.iter().map(request_text).collect())?;
    if let Some(stopped) = stopped.filter(|_| requests.is_empty()) {
        output.aside(&format!("no model is asked before {stopped}\n"))?;
    }
    output.show(&worst, || worst_text(&worst)).map(|()| Exit::Done)
}

fn request_text(request: &FirstRequest) -> String {
    let FirstRequest { role, lane, digest, head, messages, prompt_tokens, .. } = request;
    let tools: Vec<&str> = head.tools.iter().map(|tool| tool.name.as_str()).collect();
    let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
    let (who, parts) = (who(role, lane), parts(head, messages));
    format!("first request of {who}: {digest}, about {prompt_tokens} tokens\ntools: {tools}\n{parts}\n")
}

/// The requests that would be sent first, and what would happen before any.
async fn first_requests(new: NewThread, run_spec: &RunSpec) -> Result<(Vec<FirstRequest>, Option<String>), Failure> {
    // With a script no server is started and no key is needed.
    let script = Some(run_spec.replay.script.clone().unwrap_or_default());
    let replay = RunSpec { replay: ReplaySource { script, ..run_spec.replay.clone() }, ..run_spec.clone() };
    let (run_config, _) = run_config(&new.workflow, &replay).await?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let run_config = harmless(run_config, &seen)?;
    let mut new = NewThread { script: None, recorded: None, ..new };
    without_programs(&mut new.workflow);
    let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(SystemEnv::default()), rondo::registry());
    let mut handle = engine.start(new, run_config).await?;
    let mut stopped = None;
    while let Some(event) = handle.events.recv().await {
        match event.what {
            What::ThreadWaiting { visit, .. } => stopped = Some(format!("role {} waits for a person", visit.role)),
            What::ToolStarted { visit, tool, .. } => {
                stopped = Some(format!("role {} runs {tool}", visit.role));
                handle.stopper.stop();
            }
            What::ThreadFinished { .. } => stopped = Some("the thread ends".to_owned()),
            What::Error { message, .. } if stopped.is_none() => stopped = Some(format!("the thread stops: {message}")),
            _ => {}
        }
    }
    handle.ended().await;
    let mut requests = std::mem::take(&mut *seen.lock());
    requests.sort_by(|a: &FirstRequest, b| (&a.lane, &a.role).cmp(&(&b.lane, &b.role)));
    Ok((requests, stopped))
}

fn without_programs(workflow: &mut Workflow) {
    workflow.hooks.retain(|hook| hook.kind != PROGRAM_HOOK);
    for (_, role) in &mut workflow.roles {
        if let RoleKind::Workflow(child) = &mut role.kind {
            without_programs(&mut child.workflow);
        }
    }
}

/// The configuration with models that note requests, and tools that do nothing; also for children.
fn harmless(run_config: RunConfig, seen: &Arc<Mutex<Vec<FirstRequest>>>) -> Result<RunConfig, Failure> {
    let RunConfig { mut models, tools, children, mut imposed, .. } = run_config.clone();
    for model in models.0.values_mut() {
        model.provider = Arc::new(Noting(Arc::clone(seen)));
    }
    imposed.retain(|hook| hook.kind != PROGRAM_HOOK);
    let mut pending = ToolSet::default();
    for (_, tool) in tools.iter() {
        let added = pending.add(Arc::new(Pending(Arc::clone(tool))));
        added.map_err(|clash| Failure::new(Code::InternalFault, clash.to_string()))?;
    }
    let children = children.into_iter().map(|(role, child)| Ok((role, harmless(child, seen)?)));
    let children = children.collect::<Result<_, Failure>>()?;
    Ok(RunConfig { models, tools: pending, script: None, imposed, children, ..run_config })
}

/// A model that notes the request and stops the thread.
struct Noting(Arc<Mutex<Vec<FirstRequest>>>);

impl Model for Noting {
    fn complete<'a>(&'a self, call: &'a ModelCall, _deltas: &'a dyn Deltas) -> Completion<'a> {
        let messages: Vec<Message> = call.conversation.messages().into_iter().cloned().collect();
        let bytes = canonical::to_bytes(&(&*call.head, &messages)).map_or(0, |bytes| bytes.len());
        self.0.lock().push(FirstRequest {
            role: call.site.role.clone(),
            lane: call.site.lane.clone(),
            prompt_tokens: (bytes / BYTES_A_TOKEN) as u64,
            digest: call.request(),
            head: Head::clone(&call.head),
            messages,
        });
        let stop = Fault::new(Code::Interrupted, FaultClass::Cancelled, "nothing is sent in a dry run".to_owned());
        Box::pin(std::future::ready(Err(stop)))
    }
}

/// A tool that looks like another and never ends, because what follows from its result is not known.
struct Pending(Arc<dyn Tool>);

impl Tool for Pending {
    fn spec(&self) -> &Spec {
        self.0.spec()
    }

    fn effect(&self, arguments: &Value) -> Effect {
        self.0.effect(arguments)
    }

    fn run<'a>(&'a self, _: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(std::future::pending())
    }
}

fn worst(checked: &Checked, new: &NewThread, settings: &Settings) -> Result<WorstCase, Failure> {
    let limits = settings.limits.over(&new.policy.limits);
    let found = walk(checked, vec![new.input.clone()], 1)?.worst;
    let mut unpriced = Vec::new();
    let cost_usd = money((&new.workflow, ""), &found, settings, &mut unpriced);
    Ok(WorstCase {
        steps: found.steps.min(limits.steps),
        prompt_tokens: found.prompt_tokens,
        output_tokens: found.output_tokens,
        cost_usd: Some(cost_usd).filter(|_| unpriced.is_empty()),
        unpriced,
        exact: found.is_exact && found.has_weighed_all,
        limits,
    })
}

/// The money of the worst case, with that of children. Roles of unknown price are noted, those of children as
/// `section/writer`.
fn money((workflow, path): (&Workflow, &str), worst: &Worst, settings: &Settings, unpriced: &mut Vec<String>) -> f64 {
    let mut cost_usd = 0.0;
    for (name, role) in &workflow.roles {
        let Some(spent) = worst.roles.get(name) else { continue };
        if let (RoleKind::Workflow(child), Some(of_child)) = (&role.kind, worst.children.get(name)) {
            let of_visit = money((&child.workflow, &format!("{path}{name}/")), of_child, settings, unpriced);
            #[expect(clippy::cast_precision_loss, reason = "visits are far below what a float cannot hold")]
            let visits = spent.visits as f64;
            cost_usd += visits * of_visit;
        }
        let Some(model) = role.kind.model() else { continue };
        let resolved = settings.model(&model.model, workflow.models.get(&model.model), Some(SCRIPTED_MODEL)).ok();
        let price = resolved.and_then(|resolved| resolved.price.or_else(|| list_price(&resolved.model)));
        let (prompt_tokens, output_tokens) = (spent.prompt_tokens, spent.output_tokens);
        match price {
            Some(price) => cost_usd += price.dollars.of(Usage { prompt_tokens, output_tokens, ..Usage::default() }),
            None => unpriced.push(format!("{path}{name}")),
        }
    }
    cost_usd
}

fn worst_text(worst: &WorstCase) -> String {
    let WorstCase { steps, prompt_tokens, output_tokens, cost_usd, unpriced, exact, limits, .. } = worst;
    let least = if *exact { "" } else { "at least " };
    let cost = match cost_usd {
        Some(cost) => format!(", {} if no prompt cache hits", Dollars(*cost)),
        None => format!("; the price is not known for {}", unpriced.join(", ")),
    };
    let mut most = vec![format!("{} steps", limits.steps)];
    most.extend(limits.tokens.map(|tokens| format!("{tokens} tokens")));
    most.extend(limits.cost_usd.map(|cost| format!("${cost}")));
    format!(
        "worst case without repairs and tool rounds: {least}{}, about {prompt_tokens} prompt tokens and \
         {output_tokens} output tokens{cost}\nlimits: {}; `--limit` sets them for one run\n",
        plural(*steps, "step"),
        most.join(", ")
    )
}

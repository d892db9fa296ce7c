//! `command`: an outside program that decides what becomes of a call. Altering.
//!
//! The file names a program that the operator has declared as `[hook.NAME]`, and can say nothing more of it. It runs
//! behind the same sandbox as programs that tools are, one process a call, with the call on its stdin and a decision on its
//! stdout: `engine/docs/hooks.md` holds the protocol.
//!
//! Laws:
//! - A program that does not decide in time, or not in a way that can be read, has failed; it never lets a call through
//!   by that unless `on_error: bypass` says so, and the operator's `on_error = "fail"` is stricter than the file.
//! - It is handed what the model or the tool would be handed, and no key of the operator: those never enter a thread.

mod decision;
mod question;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::sandbox::process::{self, Answered, Exit, Limits};
use rondo_agent_kit::tool::{self, cut};
use rondo_protocol::Value;
use rondo_protocol::call::{Call, CallKind, Fault, FaultClass, Reply, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{HookUse, OnHookError};
use serde::Serialize;
use tokio::sync::Semaphore;

use decision::{Decision, HookDecision};
use rondo_core::hook::visit_metrics::VisitMetrics;
use rondo_core::hook::{BuildContext, Context, Hook, HookKind, HookProgram, HookResources, Next, ShortCircuit};

/// How long a program may take where the operator does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

const DECISION_MAX_BYTES: usize = 8 << 20;

/// The most bytes that a program may put out on both streams.
const OUTPUT_MAX_BYTES: u64 = 16 << 20;

/// The exit code by which a program denies a call without a word of JSON.
const DENIED: i32 = 2;

/// How much of a program's stderr a fault repeats.
const SAID_MAX_BYTES: usize = 1 << 10;

/// How many programs run at once, over all threads. The time that one waits here is not its own.
const AT_ONCE: usize = 8;

/// The kind.
pub struct Command {
    at_once: Arc<Semaphore>,
}

impl Default for Command {
    fn default() -> Self {
        Self { at_once: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl HookKind for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn program<'h>(&self, hook: &'h HookUse) -> Option<&'h str> {
        hook.settings.get("name").and_then(Value::as_str)
    }

    fn on_error(&self, hook: &HookUse, resources: &HookResources) -> OnHookError {
        let program = self.program(hook).and_then(|name| resources.programs.get(name));
        stricter(program.is_some_and(|program| program.is_required), hook.on_error)
    }

    fn build(&self, build: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        let BuildContext { hook, roles, resources, .. } = build;
        let name = self.program(hook).ok_or("`name`, the program's table in rondo.toml, is missing")?;
        let program = resources.programs.get(name).ok_or_else(|| format!("rondo.toml has no [hook.{name}]"))?;
        let contracts = roles.iter().filter_map(|(role, view)| Some((role.clone(), view.contract.clone()?)));
        Ok(Arc::new(Asking {
            name: name.to_owned(),
            program: program.clone(),
            redactor: Arc::clone(&resources.redactor),
            contracts: if hook.at == CallKind::Turn { contracts.collect() } else { BTreeMap::new() },
            is_bypassed: self.on_error(hook, resources) == OnHookError::Bypass,
            at_once: Arc::clone(&self.at_once),
            visits: VisitMetrics::default(),
        }))
    }
}

/// The operator may be stricter than the file and not laxer.
fn stricter(is_required: bool, file: OnHookError) -> OnHookError {
    if is_required { OnHookError::Fail } else { file }
}

/// A hook that asks a program.
struct Asking {
    name: String,
    program: HookProgram,
    redactor: Arc<Redactor>,
    /// What the answers of each role must keep; only where it may answer whole turns.
    contracts: BTreeMap<RoleName, Contract>,
    /// Whether a call continues when the program fails.
    is_bypassed: bool,
    at_once: Arc<Semaphore>,
    visits: VisitMetrics<Metrics>,
}

/// What a program decided in a visit.
#[derive(Default, Serialize)]
struct Metrics {
    calls: u64,
    rewritten: u64,
    answered: u64,
    denied: u64,
    failed: u64,
}

impl Asking {
    /// Has the program decide what becomes of a call.
    async fn decided(&self, call: &Call) -> Result<HookDecision, Fault> {
        let unfit = |what: String| self.fault(Code::HookDecision, &what);
        let decision = self.asked(call).await?;
        decision.apply(call.clone(), self.contracts.get(&call.site().role)).map_err(unfit)
    }

    async fn asked(&self, call: &Call) -> Result<Decision, Fault> {
        let failed = |what: String| self.fault(Code::HookProgramFailed, &what);
        let stdin = question::line(call, &self.name).map_err(failed)?;
        // It is never closed, so that there is always a permit to come.
        let _permit = self.at_once.acquire().await;
        let command = process::Command {
            stdin,
            timeout: self.program.timeout.unwrap_or(DEFAULT_TIMEOUT),
            output_max_bytes: DECISION_MAX_BYTES,
            redactor: Redactor::clone(&self.redactor),
            limits: Limits { output_bytes: OUTPUT_MAX_BYTES, ..Limits::default() },
            working_dir: self.program.working_dir.clone(),
            access: self.program.access.clone(),
            pinned: self.program.pinned.clone(),
            ..process::Command::new(self.program.argv.clone())
        };
        let Answered { stdout, stderr, exit } = self.program.processes.ask(command).await.map_err(|error| {
            let tool::Error { code, message, output } = error;
            if code == Code::NotTrusted {
                return Fault::new(code, FaultClass::Denied, format!("[hook.{}]: {message}", self.name));
            }
            failed(format!("{code}: {message}{}", said(&output)))
        })?;
        match exit {
            Exit::Code(0) => Decision::read(&stdout).map_err(|what| self.fault(Code::HookDecision, &what)),
            Exit::Code(DENIED) => {
                let stdout = String::from_utf8_lossy(&stdout);
                Ok(Decision::denied(if stderr.trim().is_empty() { &stdout } else { &stderr }))
            }
            Exit::Code(code) => Err(failed(format!("it ended with exit code {code}{}", said(&stderr)))),
            Exit::Signal(signal) => Err(failed(format!("it was ended by signal {signal}{}", said(&stderr)))),
        }
    }

    fn fault(&self, code: Code, what: &str) -> Fault {
        Fault::new(code, FaultClass::Hook, format!("the program of [hook.{}]: {what}", self.name))
    }
}

/// What a program wrote to stderr, as the end of a sentence.
fn said(stderr: &str) -> String {
    let mut said = stderr.trim().to_owned();
    cut(&mut said, SAID_MAX_BYTES);
    if said.is_empty() { said } else { format!("; it said: {said}") }
}

impl Hook for Asking {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let decided = self.decided(&call).await;
            self.visits.count(call.site(), |metrics| metrics.count(&decided));
            match decided {
                Ok(HookDecision::Through(call) | HookDecision::Rewritten(call)) => next.run(call).await,
                Ok(HookDecision::Answered(reply) | HookDecision::DeniedTool(reply)) => {
                    Ok(next.answer(reply, ShortCircuit::default()))
                }
                Ok(HookDecision::Denied(reason)) => {
                    let message = format!("the hook {} denied the {} call: {reason}", context.node, call.kind().name());
                    Err(Fault::new(Code::HookDenied, FaultClass::Hook, message))
                }
                Err(fault) => {
                    if self.is_bypassed {
                        let warning = format!("{fault}; the call goes on without it");
                        context.reports.warn(&context.node, &call, warning);
                    }
                    Err(fault)
                }
            }
        })
    }

    fn visited<'a>(&'a self, site: &'a Site, _: &'a Context) -> BoxFuture<'a, Option<Value>> {
        let metrics = self.visits.ended(site).and_then(|metrics| Value::from_serialize(&metrics).ok());
        Box::pin(std::future::ready(metrics))
    }
}

impl Metrics {
    fn count(&mut self, decided: &Result<HookDecision, Fault>) {
        self.calls += 1;
        match decided {
            Ok(HookDecision::Through(_)) => {}
            Ok(HookDecision::Rewritten(_)) => self.rewritten += 1,
            Ok(HookDecision::Answered(_)) => self.answered += 1,
            Ok(HookDecision::Denied(_) | HookDecision::DeniedTool(_)) => self.denied += 1,
            Err(_) => self.failed += 1,
        }
    }
}

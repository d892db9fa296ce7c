//! A visit whose answer is the end of a child thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, ReachedLimit, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Outcome;
use rondo_protocol::id::{LanePath, Status, ThreadId};
use rondo_protocol::object::{Note, Observation};
use rondo_protocol::workflow::{MAX_CHILD_DEPTH, Role, RoleKind, WorkflowRole, types};

use super::account::Account;
use super::event_loop::{Ended, Parts, VisitOutcome};
use super::forms::PersonAnswer;
use super::journal::Record;
use super::past::{counted, spent};
use super::stop::cancelled;
use super::thread_handle::StopKind;
use super::tool_calls::ToolRunner;
use super::visit::VisitContext;
use super::{Error, NewThread, Resumed, RunConfig, ThreadHandle};
use crate::resolved_roles;
use crate::store::{self, Parent, Read};
use crate::thread::{Answered, Ending, OpenForm, Origin, Spent, VisitEnd};

/// The visit that runs a thread as a child.
#[derive(Clone)]
pub(super) struct ParentVisit {
    pub(super) parent: Parent,
    /// Its account, and those above.
    pub(super) account: Arc<Account>,
}

/// Carries out one visit of a role that runs a child workflow: starts the child, or continues it.
pub(super) async fn visit(
    context: &VisitContext<'_>,
    (role, input): (&Role, &Value),
    site: Site,
    answer: Option<PersonAnswer>,
) -> Result<VisitOutcome, Fault> {
    let parts = context.parts;
    let RoleKind::Workflow(child) = &role.kind else { return Err(unfit(&site)) };
    let depth = context.account.depth();
    let most = parts.run_config.ceilings.over(&parts.graph.policy().limits).depth;
    if depth > most {
        let message = format!("the child of {} would be deeper than the limit of {most} levels", site.role);
        #[expect(clippy::cast_precision_loss, reason = "a depth is a small number")]
        let limit = ReachedLimit { key: "depth", role: None, is_of_thread: true, needed: depth as f64 };
        return Err(Fault::of_limit(Code::ThreadLimit, limit, message));
    }
    let (thread, row) = identity(context, &site).await?;
    let parent =
        Parent { thread: site.thread.clone(), role: site.role.clone(), lane: site.lane.clone(), visit: site.visit };
    let above = ParentVisit { parent, account: Arc::new(context.account.clone()) };
    let run_config = parts.run_config.children.get(&site.role).cloned().ok_or_else(|| unfit(&site))?;
    let run_config = match &parts.run_config.script {
        Some(script) => run_config.scripted(&Arc::new(script.within(&site.role, &site.lane))),
        None => run_config,
    };
    let run_config = RunConfig { raised: parts.run_config.raised.clone(), ..run_config };
    let begun = begin(parts, child, input, (thread.clone(), row), (above, run_config, answer)).await;
    let handle = match begun.map_err(|error| fault_of(error, &site))? {
        Resumed::Running(handle) => handle,
        Resumed::Ended { ending } => return ended(parts, role, child, &thread, ending).map(VisitOutcome::of),
    };
    match follow(context, handle).await {
        Ended::Finished(ending) => ended(parts, role, child, &thread, ending).map(VisitOutcome::of),
        Ended::Stopped(fault) => {
            // Where the graph routes the fault, its step says what the child has used.
            let row = parts.store.row(&thread);
            let note = row.and_then(|row| row.map_or_else(|| Ok(Note::default()), |row| note(parts, &thread, &row)));
            Ok(VisitOutcome::of(VisitEnd::of(Err(fault), note?)))
        }
        Ended::Waiting(forms) => {
            let own = |open: OpenForm| OpenForm { thread: open.thread.or_else(|| Some(thread.clone())), ..open };
            Ok(VisitOutcome::Asleep(forms.into_iter().map(own).collect()))
        }
    }
}

/// The id of the child, and its row if it has started. A new id is synced before the row is written.
async fn identity(context: &VisitContext<'_>, site: &Site) -> Result<(ThreadId, Option<store::Row>), Fault> {
    let parts = context.parts;
    let mut tool_runner = ToolRunner::new(context, site)?;
    if let Some(known) = tool_runner.journal.child.clone() {
        let row = parts.store.row(&known)?;
        // One that was imported under this id is none of its children.
        let is_child = |row: &store::Row| row.parent.as_ref().is_some_and(|parent| parent.thread == site.thread);
        if row.as_ref().is_some_and(|row| !is_child(row)) {
            let what = format!("thread {known} is not the child of {} that it should be", site.role);
            return Err(store::Error::from(store::Damage::new(what).of_thread(&known)).into());
        }
        return Ok((known, row));
    }
    // Readers look for children among the threads after their parent.
    let thread = parts.env.thread_id_after(&site.thread);
    tool_runner.journal.add(Record::Child { thread: thread.clone() });
    tool_runner.keep(site).await?;
    Ok((thread, None))
}

async fn begin(
    parts: &Parts,
    child: &WorkflowRole,
    input: &Value,
    (thread, row): (ThreadId, Option<store::Row>),
    (above, run_config, answer): (ParentVisit, RunConfig, Option<PersonAnswer>),
) -> Result<Resumed, Error> {
    let engine = &parts.engine;
    if let Some(row) = row {
        let spent = spent(&*parts.store, &thread, &row).map_err(Error::Store)?;
        above.account.count(Some(spent.usage), spent.cost_usd);
        return Box::pin(engine.resume_with(&thread, (answer, Some(above)), |_, _| Ok(run_config))).await;
    }
    let given = match input {
        Value::Object(members) => members.clone(),
        _ => BTreeMap::new(),
    };
    let input = types::check_input(&child.workflow, given).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(|fault| fault.message.clone()).collect();
        let message = format!("the input of the child of {}: {}", above.parent.role, faults.join("; "));
        Error::Fault(Fault::new(Code::ContractBroken, FaultClass::Contract, message))
    })?;
    let policy = parts.graph.policy().children.get(above.parent.role.as_str()).cloned();
    let policy = policy.ok_or_else(|| Error::NoThread { thread: thread.clone() })?;
    let Origin { file, script, recorded, workspace, .. } = parts.origin.clone();
    let new = NewThread {
        workflow: child.workflow.clone(),
        policy,
        input,
        file,
        script,
        recorded,
        workspace,
        labels: super::Labels::default(),
    };
    Box::pin(engine.start_as(new, run_config, thread, Some(above))).await.map(Resumed::Running)
}

/// Passes on the child's events until its run ends. Stops it with the visit, and for good if only this lane ends.
async fn follow(context: &VisitContext<'_>, mut handle: ThreadHandle) -> Ended {
    let parts = context.parts;
    let (mut is_draining, mut is_stopping) = (false, false);
    loop {
        tokio::select! {
            event = handle.events.recv() => match event {
                Some(event) => parts.sink.pass_on_of_child(event),
                None => break,
            },
            () = context.stop.drain.cancelled(), if !is_draining => {
                is_draining = true;
                handle.stopper.stop_as(StopKind::Draining);
            }
            () = context.stop.cancel.cancelled(), if !is_stopping => {
                is_stopping = true;
                let kind = parts.stopper.kind();
                let is_lane_alone = kind < StopKind::Resumable && !context.stop.drain.is_cancelled();
                let is_for_good = is_lane_alone || kind == StopKind::ForGood;
                if is_for_good { handle.stopper.cancel() } else { handle.stopper.stop_at_once() }
            }
        }
    }
    handle.ended().await
}

/// The step of the parent for a child that has ended.
fn ended(
    parts: &Parts,
    role: &Role,
    child: &WorkflowRole,
    thread: &ThreadId,
    ending: Ending,
) -> Result<VisitEnd, Fault> {
    let row = parts.store.row(thread)?.ok_or_else(cancelled)?;
    let last = parts.store.step(thread, row.seq)?;
    let readers = resolved_roles::body_readers(&child.workflow)
        .map_err(|error| Fault::new(Code::InternalFault, FaultClass::Denied, error.to_string()))?;
    let body = last.as_ref().map_or_else(String::new, |(stored, _)| {
        readers.get(&stored.step.role).map_or_else(String::new, |reader| reader.body(&stored.step.answer))
    });
    let last_status = last.as_ref().map(|(stored, _)| &stored.step.status);
    let (status, output) = match ending.outcome {
        Outcome::Done => {
            let mapped = last_status.and_then(|status| child.statuses.get(status.as_str())).cloned();
            let status = mapped.map_or_else(|| named("done"), Ok)?;
            let declared = role.fields(status.as_str());
            let field = |name: &str| ending.result.get(name).filter(|value| !value.is_null()).cloned();
            let fields =
                declared.into_iter().flatten().filter_map(|(name, _)| Some((name.as_str(), field(name.as_str())?)));
            (status, fields.collect())
        }
        Outcome::Failed | Outcome::Cancelled => {
            let reason = ending.reason.unwrap_or_default();
            (named("failed")?, Value::from_iter([("reason", Value::from(reason))]))
        }
    };
    let child = Observation::Child { head: row.head, outcome: ending.outcome, start: row.start };
    let answered = Answered { status, output, answer: body.clone(), body, transcript: None, observations: vec![child] };
    Ok(VisitEnd::of(Ok(answered), note(parts, thread, &row)?))
}

/// What a child has used, for the note of its parent's step.
pub(super) fn note(parts: &Parts, thread: &ThreadId, row: &store::Row) -> Result<Note, store::Error> {
    let Spent { usage, cost_usd, unpriced_calls, model_calls, tool_calls, .. } = spent(&*parts.store, thread, row)?;
    let usage = (usage != rondo_protocol::object::Usage::default()).then_some(usage);
    Ok(counted(Note { usage, cost_usd, unpriced_calls, model_calls, tool_calls, ..Note::default() }))
}

/// The child of `above` that is `thread` or an ancestor of it, and the lane it runs in.
pub(super) fn child_of(
    store: &dyn Read,
    above: &ThreadId,
    thread: &ThreadId,
) -> Result<Option<(ThreadId, LanePath)>, store::Error> {
    let mut thread = thread.clone();
    for _ in 0..=MAX_CHILD_DEPTH {
        let Some(parent) = store.row(&thread)?.and_then(|row| row.parent) else { return Ok(None) };
        if parent.thread == *above {
            return Ok(Some((thread, parent.lane)));
        }
        thread = parent.thread;
    }
    Ok(None)
}

fn named(status: &str) -> Result<Status, Fault> {
    Status::new(status).map_err(|error| Fault::new(Code::InternalFault, FaultClass::Denied, error.to_string()))
}

fn fault_of(error: Error, site: &Site) -> Fault {
    match error {
        Error::Fault(fault) => fault,
        Error::Store(error) => error.into(),
        other => Fault::new(Code::InternalFault, FaultClass::Denied, format!("the child of {}: {other}", site.role)),
    }
}

fn unfit(site: &Site) -> Fault {
    let message = format!("the run has no configuration for the child workflow of {}", site.role);
    Fault::new(Code::InternalFault, FaultClass::Denied, message)
}

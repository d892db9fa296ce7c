//! Carries out one visit of a model role.
//!
//! From the loop outwards a call passes the journal, then retries and fallback, then its path of hooks, then the port.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_agent_kit::effects::Verdict;
use rondo_agent_kit::model::redacting;
use rondo_agent_kit::react;
use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::tool::Toolbox;
use rondo_protocol::Digest;
use rondo_protocol::call::{Call, CallKind, Fault, FaultClass, Reply, Site, TurnCall, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::Visit;
use rondo_protocol::message::Conversation;
use rondo_protocol::object::{AnsweredBy, Entry, Note};
use rondo_protocol::workflow::RolePolicy;

use super::account::Account;
use super::event_loop::Parts;
use super::forms::DeferredApproval;
use super::hook_notes::HookNotes;
use super::journal::JournalPart;
use super::model_calls::{VisitEffects, no_head};
use super::reply_memory::Reservation;
use super::retry::{Deadline, Waits};
use super::stop::{VisitStop, until_stopped};
use super::tool_calls::ToolRunner;
use crate::hook::CallPath;
use crate::hook::call_path::Answered;
use crate::resolved_roles::RoleRuntime;
use crate::store::JournalRecord;

pub(super) struct VisitContext<'a> {
    /// What the visits of the run share.
    pub(super) parts: &'a Parts,
    pub(super) policy: &'a RolePolicy,
    /// The tools that the role may call.
    pub(super) toolbox: &'a Toolbox,
    pub(super) paths: &'a BTreeMap<CallKind, CallPath>,
    pub(super) hook_notes: &'a HookNotes,
    /// Removes keys and an author's patterns from models' answers.
    pub(super) redactor: &'a Redactor,
    /// The same from tools' results.
    pub(super) tool_redactor: &'a Redactor,
    pub(super) stop: VisitStop,
    /// Whether an earlier run may have left a journal of this step.
    pub(super) may_be_journaled: bool,
    /// The part of that journal which belongs to this visit.
    pub(super) journal_part: JournalPart,
    /// The deadline of the step.
    pub(super) deadline: Deadline,
    /// The time spent waiting for a person.
    pub(super) waits: Waits,
    /// Admits calls and counts what they used.
    pub(super) account: Account,
    /// Where a person approves calls while no terminal is attached.
    pub(super) approval: &'a DeferredApproval<'a>,
    /// The memory for the visit's replies, until its commit.
    pub(super) memory: &'a tokio::sync::Mutex<Reservation>,
}

/// The answer of a visit, or its fault, with its usage.
pub(super) struct VisitResult {
    pub(super) result: Result<TurnReply, Fault>,
    /// The visit's usage, with or without an answer: calls, attempts of this and of earlier processes, tokens and
    /// money of every reply.
    pub(super) note: Note,
    /// Requests that hooks rewrote, and their heads; the files that tools returned.
    pub(super) objects: Vec<Object>,
    /// The tool that had started an effect when the visit was cancelled, and did not end in time.
    pub(super) effect_unknown: Option<String>,
    /// The records that the journal needs if no step follows.
    pub(super) unwritten: Vec<JournalRecord>,
}

/// Kind, digest, canonical bytes.
pub(super) type Object = (Kind, Digest, Vec<u8>);

/// Carries out one visit. `attempts` is the number of the role's earlier attempts in this lane.
pub(super) async fn visit(
    context: &VisitContext<'_>,
    runtime: &RoleRuntime,
    site: Site,
    conversation: Arc<Conversation>,
    attempts: u64,
) -> Result<VisitResult, Fault> {
    let tool_runner = ToolRunner::new(context, &site)?;
    let first = runtime.heads.first().ok_or_else(no_head)?;
    let at = site.clone();
    let call = TurnCall { site, head_digest: first.digest, head: Arc::clone(&first.head), conversation };
    let mut effects = VisitEffects::new(context, runtime, tool_runner, attempts);
    effects.count_given_up();
    let mut result = until_stopped(context, turn(context, call, &mut effects)).await;
    if let Err(fault) = &result
        && matches!(fault.class, FaultClass::Contract | FaultClass::Refused)
        && context.journal_part == JournalPart::Visit
    {
        // A resumed run requests an unusable reply again; its script entries stay used.
        effects.tool_runner.journal.give_up_pending();
    }
    let used = effects.note();
    if let Ok(reply) = &mut result {
        // A turn knows nothing of the answers that ended earlier runs of the visit.
        (reply.usage, reply.cost_usd) = (used.usage, used.cost_usd);
    }
    let VisitEffects { tool_runner, objects, .. } = effects;
    let mut visited = tool_runner.end(&at, result);
    visited.objects.extend(objects);
    let Note { tools, tool_calls, person, .. } = visited.note;
    let tool_calls = tool_calls.saturating_add(used.tool_calls);
    visited.note = Note { tools, tool_calls, person, ..used };
    Ok(visited)
}

async fn turn(context: &VisitContext<'_>, call: TurnCall, effects: &mut VisitEffects<'_>) -> Result<TurnReply, Fault> {
    // A turn that an earlier process started has passed its hooks: journaled answers do not pass them again.
    let path = context.paths.get(&CallKind::Turn).filter(|path| !path.is_empty());
    let Some(path) = path.filter(|_| !effects.tool_runner.journal.has_begun()) else {
        return react::run(&effects.runtime.agent, call.clone(), &call, effects).await;
    };
    let asked = call.clone();
    let performed = &mut *effects;
    let redact = |reply: &mut Reply| redact(context.redactor, reply);
    let port = |call: Call| -> BoxFuture<'_, Result<Reply, Fault>> {
        Box::pin(async move {
            let Call::Turn(call) = call else { return Err(wrong_kind()) };
            performed.turn_is_rewritten = call.conversation.chain() != asked.conversation.chain()
                || !Arc::ptr_eq(&call.head, &asked.head) && call.head != asked.head;
            let before = performed.attempts;
            let mut reply = react::run(&performed.runtime.agent, call, &asked, performed).await?;
            reply.attempts = performed.attempts.saturating_sub(before);
            Ok(Reply::Turn(Box::new(reply)))
        })
    };
    let seen = Call::Turn(call.clone());
    let Answered { reply, answered_by, short_circuit, passed, .. } =
        path.run_redacting(Call::Turn(call), Box::new(port), &redact).await?;
    let Reply::Turn(mut turn) = reply else { return Err(wrong_kind()) };
    if let AnsweredBy::Hook(node) = &answered_by {
        context.hook_notes.answered(&context.parts.sink, seen.site(), CallKind::Turn, node, short_circuit);
        turn.answered_by = Some(answered_by.clone());
        effects.count_turn(&turn);
    }
    let reply = Reply::Turn(turn);
    path.settle(passed, &seen, &reply, Verdict::Accepted).await;
    let Reply::Turn(turn) = reply else { return Err(wrong_kind()) };
    Ok(*turn)
}

/// Redacts a hook's reply.
pub(super) fn redact(redactor: &Redactor, reply: &mut Reply) {
    match reply {
        Reply::Model(answer) => redacting::reply(redactor, &mut answer.reply),
        Reply::Tool(reply) => redactor.string(&mut reply.text),
        Reply::Turn(turn) => {
            for entry in &mut turn.transcript.entries {
                match entry {
                    Entry::Model { reply, .. } => redacting::reply(redactor, reply),
                    Entry::Tool { id, name, arguments, text, files, failed: _ } => {
                        let of_files = files.iter_mut().flat_map(|file| [&mut file.name, &mut file.media_type]);
                        for text in [id, name, arguments, text].into_iter().chain(of_files) {
                            redactor.string(text);
                        }
                    }
                    Entry::Repair { text } => redactor.string(text),
                }
            }
            redactor.string(&mut turn.answer);
            redactor.string(&mut turn.body);
            redactor.value(&mut turn.output);
        }
    }
}

pub(super) fn visit_of(site: &Site) -> Visit {
    Visit { role: site.role.clone(), visit: site.visit, lane: site.lane.clone() }
}

pub(super) fn wrong_kind() -> Fault {
    Fault::new(Code::HookFailed, FaultClass::Hook, "a hook answered or let through a call of another kind")
}

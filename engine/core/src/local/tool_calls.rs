//! Tool calls of one visit: first the journal, then approval, the path of hooks, and the tool itself.
//!
//! Law `one_effect`, for tools with effects: an intent is synced before the tool is reached, and the result before its
//! event is emitted. An intent without a result is *in doubt*; a policy then decides, never a guess.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use rondo_agent_kit::effects::{Performed, Verdict};
use rondo_agent_kit::model::scripted::Scripted;
use rondo_agent_kit::tool::{self, Content, InDoubt, Invocation, STORED_MAX_BYTES, cut};
use rondo_protocol::call::{Call, CallKind, Fault, FaultClass, Reply, Site, ToolCall, ToolReply, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::What;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::{AnsweredBy, Entry, Note, ToolNote};
use rondo_protocol::{Digest, Value};

use super::RunConfig;
use super::files::{self, Held};
use super::forms;
use super::journal::{ApprovalDecision, Journal, JournalPart, JournaledCall, Record, ToolRecord};
use super::stop::cancelled;
use super::visit::{Object, VisitContext, VisitResult, visit_of, wrong_kind};
use crate::grant::Decision;

/// Calls tools for one visit and keeps its journal.
pub(super) struct ToolRunner<'a> {
    pub(super) context: &'a VisitContext<'a>,
    pub(super) journal: Journal,
    /// The contents of the files that the calls returned.
    pub(super) files: Held,
    /// The calls made, with their positions in the step.
    notes: Vec<(u32, ToolNote)>,
}

/// The policy for a call in doubt.
fn policy(context: &VisitContext<'_>, tool: &str) -> InDoubt {
    let declared = context.toolbox.find(tool).ok().and_then(Result::ok).map(|offer| offer.tool.in_doubt());
    context.parts.run_config.in_doubt.or(declared).unwrap_or_default()
}

struct ToolResult {
    reply: ToolReply,
    answered_by: AnsweredBy,
    duration_ms: u64,
    /// How many hooks the call reached.
    passed: usize,
}

impl<'a> ToolRunner<'a> {
    /// A runner with the journal that an earlier run may have left for the step in flight.
    pub(super) fn new(context: &'a VisitContext<'a>, site: &Site) -> Result<Self, Fault> {
        let journal = if context.may_be_journaled {
            Journal::read(&*context.parts.store, &site.thread, &site.lane, context.journal_part)?
        } else {
            Journal::default()
        };
        Ok(Self { context, journal, files: Held::new(), notes: Vec::new() })
    }

    /// The next answer of a script, in place of a port. `attempts` is the number of the role's earlier attempts in this
    /// lane.
    pub(super) async fn played(&mut self, script: &Scripted, site: &Site, attempts: u64) -> Result<String, Fault> {
        let played = script.play(site, attempts + self.journal.attempts).await;
        if played.as_ref().is_err_and(|fault| fault.class != FaultClass::ScriptEnd) {
            // The entry is used: a resumed run takes the next. If the script has ended, nothing is used.
            self.journal.failed_attempt();
        }
        let mut text = played?.parts.text().into_owned();
        self.context.tool_redactor.string(&mut text);
        Ok(text)
    }

    /// Ends the visit with the tool calls made, in the order requested, and with the files that its transcript names.
    pub(super) fn end(mut self, site: &Site, result: Result<TurnReply, Fault>) -> VisitResult {
        let stored = result.and_then(|turn| Ok((self.named_files(&turn)?, turn)));
        let (objects, result) = match stored {
            Ok((objects, turn)) => (objects, Ok(turn)),
            Err(fault) => (Vec::new(), Err(fault)),
        };
        let result = result.map_err(|fault| self.in_doubt_before(fault, &site.thread));
        // If a failed visit is not followed by a step, its journal must hold the answers, which were paid for.
        // Otherwise the step's commit stores them. The fault that ended the visit is more useful than an error about
        // malformed records.
        let is_compaction = self.context.journal_part == JournalPart::Compaction;
        let is_refusable = |fault: &Fault| matches!(fault.class, FaultClass::Contract | FaultClass::Refused);
        if is_compaction && result.as_ref().err().is_none_or(is_refusable) {
            self.journal.end_compaction();
        }
        let unwritten = if result.is_err() || is_compaction {
            self.journal.take_rest(&site.lane).unwrap_or_default()
        } else {
            Vec::new()
        };
        let effect_unknown = self.journal.open.values().next().cloned();
        self.notes.sort_by_key(|(position, _)| *position);
        let tools: Vec<ToolNote> = self.notes.into_iter().map(|(_, note)| note).collect();
        let tool_calls = u64::try_from(tools.len()).unwrap_or(u64::MAX);
        let person = self.journal.decided_by().filter(|person| !person.is_empty()).map(str::to_owned);
        let note = Note { tools, tool_calls, person, ..Note::default() };
        VisitResult { result, note, objects, effect_unknown, unwritten }
    }

    /// The files that a turn's transcript names: the step needs their contents.
    fn named_files(&self, turn: &TurnReply) -> Result<Vec<Object>, Fault> {
        let named = turn.transcript.entries.iter().flat_map(Entry::files);
        let digests: BTreeSet<Digest> = named.map(|file| file.digest).collect();
        let object = |digest| {
            let unknown = || {
                let message = "a hook answered with a file of a tool that no tool returned";
                Fault::new(Code::HookFailed, FaultClass::Hook, message)
            };
            Ok((Kind::File, digest, self.files.get(&digest).ok_or_else(unknown)?.to_vec()))
        };
        digests.into_iter().map(object).collect()
    }

    /// Holds the contents of a result's files until the step is committed.
    fn hold(&mut self, reply: &ToolReply) {
        self.files.extend(reply.files.iter().map(|file| (file.digest(), Arc::clone(&file.bytes))));
    }

    /// Writes what must not be lost before the next call.
    pub(super) async fn keep(&mut self, site: &Site) -> Result<(), Fault> {
        let records = self.journal.take_pending(&site.lane)?;
        if records.is_empty() {
            return Ok(());
        }
        Ok(self.context.parts.store.record(site.thread.clone(), records, true).await?)
    }

    /// Performs calls concurrently; replies are in the order of the calls.
    pub(super) async fn perform(&mut self, calls: Vec<ToolCall>) -> Result<Vec<Performed>, Fault> {
        let mut replies: Vec<Option<Performed>> = Vec::with_capacity(calls.len());
        let mut open = Vec::new();
        for call in calls {
            let known = self.journal.tool(call.site.position, &call.id);
            let is_in_doubt = matches!(known, JournaledCall::Intent);
            let kept = match known {
                JournaledCall::Result(record) => Some(self.replay(&call, record)),
                JournaledCall::Intent => self.in_doubt(&call)?,
                JournaledCall::Nothing => None,
            };
            let kept = match kept {
                None => self.refused(&call, is_in_doubt).await?,
                kept => kept,
            };
            if kept.is_none() {
                open.push(call);
            }
            replies.push(kept);
        }
        if !open.is_empty() {
            self.context.stop.check()?;
        }
        for call in open.iter().filter(|call| !call.effect.is_repeatable()) {
            let (position, id, tool) = (call.site.position, call.id.clone(), call.name.clone());
            self.journal.add(Record::Intent { position, id, tool });
        }
        if let Some(first) = open.first() {
            self.keep(&first.site).await?;
        }
        let context = self.context;
        // Held until their results are written.
        let changing = open.iter().any(|call| !call.effect.is_repeatable());
        let effect = changing.then(|| context.hook_notes.effect());
        // Each result is journaled as it comes, so that neither a fault beside it nor the end of the run loses it.
        let calls = open.iter().map(|call| async move {
            // Whether the tool may have started.
            let was_reached = AtomicBool::new(false);
            let made = through_hooks(context, call, &was_reached).await;
            (call, made, was_reached.into_inner())
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut performed: BTreeMap<u32, Performed> = BTreeMap::new();
        let mut faults: BTreeMap<u32, Fault> = BTreeMap::new();
        while let Some((call, made, was_reached)) = calls.next().await {
            let position = call.site.position;
            match made {
                Ok(made) => {
                    performed.insert(position, self.made(call, made).await?);
                }
                Err(fault) => {
                    if (fault.class == FaultClass::Denied || !was_reached) && !call.effect.is_repeatable() {
                        // A call that was denied, or got no further than a hook, had no effect.
                        self.journal.add(Record::Unmade { position });
                    }
                    faults.insert(position, fault);
                }
            }
        }
        drop(effect);
        if let Some((_, fault)) = faults.pop_first() {
            return Err(fault);
        }
        let mut performed = performed.into_values();
        // There is a reply for each open call.
        Ok(replies.into_iter().filter_map(|kept| kept.or_else(|| performed.next())).collect())
    }

    /// Answers a call from the journal and emits its events: the earlier process may have ended before it emitted
    /// them.
    fn replay(&mut self, call: &ToolCall, record: ToolRecord) -> Performed {
        self.hold(&record.reply);
        let note = note(call, &record.reply, AnsweredBy::Journal, record.duration_ms);
        self.tell(call, note);
        Performed { reply: Reply::Tool(record.reply), answered_by: AnsweredBy::Journal, sent: None }
    }

    /// Reports a call that was answered without being made.
    pub(super) fn answered(&mut self, call: &ToolCall, reply: &ToolReply, by: AnsweredBy) {
        let note = note(call, reply, by, 0);
        self.tell(call, note);
    }

    fn tell(&mut self, call: &ToolCall, note: ToolNote) {
        self.context.parts.sink.offer(|| started(call));
        self.context.parts.sink.offer(|| finished(call, &note));
        self.notes.push((call.site.position, note));
    }

    /// The fault that ends a visit. A call in doubt takes precedence, because the step that the graph would route to
    /// forgets the call.
    fn in_doubt_before(&self, fault: Fault, thread: &ThreadId) -> Fault {
        if fault.routed_by().is_none() {
            return fault;
        }
        let asks = |tool: &&String| policy(self.context, tool) == InDoubt::Ask;
        self.journal.open.values().find(asks).map_or(fault, |tool| in_doubt(tool, thread))
    }

    /// Applies the policy to a call that may have had its effect: `None` means it is made again.
    fn in_doubt(&mut self, call: &ToolCall) -> Result<Option<Performed>, Fault> {
        match policy(self.context, &call.name) {
            InDoubt::Retry => Ok(None),
            InDoubt::Skip => {
                let message = "the run was interrupted while this call was under way, and nobody knows whether it had its \
                               effect; look before you do it again";
                Ok(Some(self.answer(call, &tool::Error::new(Code::ToolInDoubt, message))))
            }
            InDoubt::Ask => Err(in_doubt(&call.name, &call.site.thread)),
        }
    }

    /// Checks a call against the grants, and asks a person if the operator wants that. Returns the answer if it is
    /// refused.
    async fn refused(&mut self, call: &ToolCall, is_in_doubt: bool) -> Result<Option<Performed>, Fault> {
        let run_config = &self.context.parts.run_config;
        match run_config.grants.decide(call) {
            Decision::Granted => return Ok(None),
            Decision::Asked => {}
            // This call is denied, not the tool: the role gets the error and continues.
            Decision::Denied(why) => {
                return Ok(Some(self.answer(call, &tool::Error::new(Code::ToolNotGranted, why))));
            }
        }
        // A person may take long, and the model's reply was paid for.
        self.keep(&call.site).await?;
        let form = forms::approval(call);
        if let Some(decision) = self.decision(call, &form).await? {
            return Ok(self.decided(call, &decision, is_in_doubt));
        }
        let Some(approver) = &run_config.approver else {
            self.context.approval.ask(form);
            let message = format!(
                "each call of {} needs a person's approval ([grant] approve in rondo.toml), and there is no terminal to \
                 ask at",
                call.name
            );
            return Err(Fault::new(Code::ApprovalMissing, FaultClass::Denied, message));
        };
        let is_wanted = {
            let _waiting = self.context.waits.begin();
            tokio::select! {
                is_wanted = approver.approve(call) => is_wanted?,
                () = self.context.stop.drain.cancelled() => return Err(cancelled()),
            }
        };
        let decision = ApprovalDecision { is_allowed: is_wanted, why: String::new(), person: String::new() };
        Ok(self.decided(call, &decision, is_in_doubt))
    }

    /// What a person has said of a call while the thread waited. It is journaled before anything follows from it.
    async fn decision(&mut self, call: &ToolCall, form: &Value) -> Result<Option<ApprovalDecision>, Fault> {
        let position = call.site.position;
        if let Some(decided) = self.journal.decided(position) {
            return Ok(Some(decided.clone()));
        }
        let Some(decision) = self.context.approval.decision(&call.site, form) else { return Ok(None) };
        self.journal.add(Record::Approval { position, decision: decision.clone() });
        self.keep(&call.site).await?;
        Ok(Some(decision))
    }

    /// The answer to a call that a person does not want; `None` if they do.
    fn decided(&mut self, call: &ToolCall, decision: &ApprovalDecision, is_in_doubt: bool) -> Option<Performed> {
        if decision.is_allowed {
            return None;
        }
        let mut message = if is_in_doubt {
            "a person does not want this call to be made again; nobody knows whether it had its effect before"
                .to_owned()
        } else {
            "a person looked at this call and does not want it; nothing was done".to_owned()
        };
        if !decision.why.is_empty() {
            message = format!("{message}: {}", decision.why);
        }
        Some(self.answer(call, &tool::Error::new(Code::ApprovalMissing, message)))
    }

    /// Answers a call without making it.
    fn answer(&mut self, call: &ToolCall, error: &tool::Error) -> Performed {
        let reply = failed(error);
        self.answered(call, &reply, AnsweredBy::Loop);
        self.journal.add(Record::Tool(ToolRecord {
            position: call.site.position,
            id: call.id.clone(),
            reply: reply.clone(),
            duration_ms: 0,
            is_repeatable: true,
        }));
        Performed { reply: Reply::Tool(reply), answered_by: AnsweredBy::Loop, sent: None }
    }

    /// Journals the result of a call and emits its event.
    async fn made(&mut self, call: &ToolCall, made: ToolResult) -> Result<Performed, Fault> {
        let ToolResult { reply, answered_by, duration_ms, passed } = made;
        self.hold(&reply);
        let is_repeatable = call.effect.is_repeatable();
        let verdict = if reply.failed { Verdict::Refused } else { Verdict::Accepted };
        self.journal.add(Record::Tool(ToolRecord {
            position: call.site.position,
            id: call.id.clone(),
            reply: reply.clone(),
            duration_ms,
            is_repeatable,
        }));
        if !is_repeatable {
            // Synced before the event: a call that was reported as ended is never in doubt again.
            self.keep(&call.site).await?;
        }
        let note = note(call, &reply, answered_by.clone(), duration_ms);
        self.context.parts.sink.offer(|| finished(call, &note));
        self.notes.push((call.site.position, note));
        let reply = Reply::Tool(reply);
        if let Some(path) = self.context.paths.get(&CallKind::Tool).filter(|_| passed > 0) {
            path.settle(passed, &Call::Tool(call.clone()), &reply, verdict).await;
        }
        Ok(Performed { reply, answered_by, sent: None })
    }
}

/// Makes a call through the hooks.
async fn through_hooks(
    context: &VisitContext<'_>,
    call: &ToolCall,
    was_reached: &AtomicBool,
) -> Result<ToolResult, Fault> {
    let VisitContext { parts, hook_notes, .. } = *context;
    parts.sink.offer(|| started(call));
    let started_ms = parts.env.elapsed_ms();
    let (mut reply, answered_by, passed) = match context.paths.get(&CallKind::Tool).filter(|path| !path.is_empty()) {
        None => {
            was_reached.store(true, Ordering::Relaxed);
            (reach(context, call).await?, AnsweredBy::Port, 0)
        }
        Some(path) => {
            let asked = call;
            let port = |call: Call| -> BoxFuture<'_, Result<Reply, Fault>> {
                Box::pin(async move {
                    let Call::Tool(call) = call else { return Err(wrong_kind()) };
                    let call = within(asked, call, context)?;
                    was_reached.store(true, Ordering::Relaxed);
                    reach(context, &call).await.map(Reply::Tool)
                })
            };
            let redact = |reply: &mut Reply| {
                if let Reply::Tool(reply) = reply {
                    enter(context, reply);
                }
            };
            let answered = path.run_redacting(Call::Tool(call.clone()), Box::new(port), &redact).await?;
            let Reply::Tool(reply) = answered.reply else { return Err(wrong_kind()) };
            if let AnsweredBy::Hook(node) = &answered.answered_by {
                hook_notes.answered(&parts.sink, &call.site, CallKind::Tool, node, answered.short_circuit);
            }
            (reply, answered.answered_by, answered.passed)
        }
    };
    cut(&mut reply.text, STORED_MAX_BYTES);
    Ok(ToolResult { reply, answered_by, passed, duration_ms: parts.env.elapsed_ms().saturating_sub(started_ms) })
}

/// The call as the hooks passed it, with its new effect.
fn within(asked: &ToolCall, call: ToolCall, context: &VisitContext<'_>) -> Result<ToolCall, Fault> {
    let refused = |what: String| Err(Fault::new(Code::HookFailed, FaultClass::Hook, what));
    if (&call.name, &call.arguments) != (&asked.name, &asked.arguments) {
        // The grant and the approval covered the call before the hooks.
        match context.parts.run_config.grants.decide(&call) {
            Decision::Granted => {}
            Decision::Asked => {
                return refused(format!(
                    "a hook made of a call of {} one of {} that a person has to approve",
                    asked.name, call.name
                ));
            }
            Decision::Denied(why) => return refused(format!("a hook made another call of what was asked: {why}")),
        }
    }
    let Ok(offer) = context.toolbox.find(&call.name)? else { return Ok(call) };
    let Ok(arguments) = offer.read(&call.arguments) else { return Ok(call) };
    let effect = offer.tool.effect(&arguments);
    if asked.effect.is_repeatable() && !effect.is_repeatable() {
        // The journal has no intent for it.
        return refused(format!("a hook made of a call that changes nothing one that does ({})", call.name));
    }
    Ok(ToolCall { effect, ..call })
}

async fn reach(context: &VisitContext<'_>, call: &ToolCall) -> Result<ToolReply, Fault> {
    let found = context.toolbox.find(&call.name)?;
    let read = found.and_then(|offer| Ok((offer, offer.read(&call.arguments)?)));
    let result = match read {
        Ok((offer, arguments)) => {
            let invocation = Invocation {
                redactor: context.tool_redactor.clone(),
                caller: Some(call.site.role.as_str().to_owned()),
                ..Invocation::new(call.idempotency_key.clone())
            };
            let said = offer.tool.run(arguments, &invocation).await;
            said.map(|Content { text, files }| {
                let seen = invocation.watch.take();
                ToolReply { files, seen, ..ToolReply::said(text) }
            })
        }
        Err(error) => Err(error),
    };
    let mut reply = match result {
        Ok(reply) => reply,
        // The tools differ from those a person agreed to: a model cannot handle that.
        Err(error) if matches!(error.code, Code::McpChanged | Code::NotTrusted) => {
            return Err(Fault::new(error.code, FaultClass::Denied, error.message));
        }
        Err(error) => failed(&error),
    };
    // Before any hook sees it, which may store it.
    enter(context, &mut reply);
    Ok(reply)
}

/// Takes out of a result what must not enter the thread: keys, and files against the rules.
fn enter(context: &VisitContext<'_>, reply: &mut ToolReply) {
    let redactor = context.tool_redactor;
    redactor.string(&mut reply.text);
    for file in &mut reply.files {
        redactor.string(&mut file.name);
        redactor.string(&mut file.media_type);
    }
    let RunConfig { files, redactor: keys, .. } = &context.parts.run_config;
    files::admit(reply, (files, keys));
}

fn started(call: &ToolCall) -> What {
    What::ToolStarted {
        visit: visit_of(&call.site),
        tool: call.name.clone(),
        call: call.id.clone(),
        effect: call.effect.name().to_owned(),
        argument_preview: tool::argument_preview(&call.arguments),
    }
}

fn finished(call: &ToolCall, note: &ToolNote) -> What {
    What::ToolFinished {
        visit: visit_of(&call.site),
        tool: call.name.clone(),
        call: call.id.clone(),
        effect: note.effect.clone(),
        bytes: note.bytes,
        duration_ms: note.duration_ms,
        failed: note.failed,
        answered_by: note.answered_by.clone(),
    }
}

/// The fault for a call of `tool` that may have had its effect, which a person has to decide.
pub(super) fn in_doubt(tool: &str, thread: &ThreadId) -> Fault {
    let message = format!(
        "the run was interrupted while a call of {tool} was under way, and nobody knows whether it had its effect"
    );
    let hint = Hint::from("look, then ")
        .operation(Operation::on(Verb::Resume, thread).with("in-doubt", "skip"))
        .words(" or ")
        .operation(Operation::new(Verb::Again).with("in-doubt", "retry"));
    Fault { hint: Some(hint), ..Fault::new(Code::ToolInDoubt, FaultClass::InDoubt, message) }
}

fn failed(error: &tool::Error) -> ToolReply {
    ToolReply::failed(error.to_string(), Some(error.code))
}

fn note(call: &ToolCall, reply: &ToolReply, answered_by: AnsweredBy, duration_ms: u64) -> ToolNote {
    ToolNote {
        call: call.id.clone(),
        tool: call.name.clone(),
        effect: call.effect.name().to_owned(),
        bytes: u64::try_from(reply.size_bytes()).unwrap_or(u64::MAX),
        duration_ms,
        failed: reply.failed,
        answered_by,
    }
}

//! One visit of a role, of any kind, and its end as the machine takes it.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use rondo_agent_kit::tool::Toolbox;
use rondo_protocol::Digest;
use rondo_protocol::call::{CallKind, Fault, FaultClass, Site, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::What;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::{Entry, HookNote, Note, Observation, Transcript};
use rondo_protocol::workflow::{History, RolePolicy};

use super::super::account::Account;
use super::super::child;
use super::super::forms::{self, DeferredApproval};
use super::super::hook_notes::HookNotes;
use super::super::journal::JournalPart;
use super::super::reply_memory::Reservation;
use super::super::retry::{Deadline, Waits};
use super::super::stop::VisitStop;
use super::super::thread_handle::StopKind;
use super::super::tool_role;
use super::super::visit::{self, VisitContext, VisitResult};
use super::{Driver, Parts, VisitOutcome, unknown_role};
use crate::conversation::{Opened, Opening};
use crate::hook::{CallPath, Node};
use crate::resolved_roles::RoleRuntime;
use crate::thread::{Answered, Object, OpenForm, Task, Visit, VisitEnd};

/// How many bytes count as a token where a workflow file says tokens of a request.
const BYTES_A_TOKEN: u64 = 4;

impl Driver<'_> {
    pub(super) async fn visit(&self, visit: Visit, stop: VisitStop) -> (LanePath, VisitOutcome) {
        let lane = visit.lane.clone();
        let (started_at_ms, started_ms) = (self.parts.env.now_ms(), self.parts.env.elapsed_ms());
        let waits = Waits::default();
        let visited = self.visited(visit, &stop, &waits).await;
        let visited = visited.unwrap_or_else(|fault| VisitOutcome::of(VisitEnd::of(Err(fault), Note::default())));
        let (mut end, unwritten, memory) = match visited {
            VisitOutcome::Ended { end, unwritten, memory } => (end, unwritten, memory),
            // The lane was cancelled just before, so that nobody waits for what the visit asks for.
            VisitOutcome::Asleep(open) if self.is_left(&stop) => return self.abandon(lane, open).await,
            VisitOutcome::TooLong(_) if self.is_left(&stop) => return self.abandon(lane, Vec::new()).await,
            visited => return (lane, visited),
        };
        let waited_ms = u64::try_from(waits.total().as_millis()).unwrap_or(u64::MAX);
        end.waited_ms = waited_ms;
        end.note.started_at_ms = started_at_ms;
        end.note.ended_at_ms = self.parts.env.now_ms();
        end.note.active_ms = self.parts.env.elapsed_ms().saturating_sub(started_ms).saturating_sub(waited_ms);
        (lane, VisitOutcome::Ended { end, unwritten, memory })
    }

    /// Whether the lane of a visit was cancelled while its run continues.
    fn is_left(&self, stop: &VisitStop) -> bool {
        stop.cancel.is_cancelled() && !self.drain.is_cancelled() && self.parts.stopper.kind() == StopKind::Going
    }

    async fn visited(&self, visit: Visit, stop: &VisitStop, waits: &Waits) -> Result<VisitOutcome, Fault> {
        let parts = self.parts;
        let (role, policy) = parts.graph.role(&visit.role).ok_or_else(|| unknown_role(&visit.role))?;
        let site = self.site(&visit);
        let hook_notes = HookNotes::default();
        let approval = DeferredApproval::new(&self.answer);
        let memory = tokio::sync::Mutex::new(parts.engine.parts.reply_memory.reservation());
        let context = |toolbox| self.context(&visit, policy, toolbox, (&hook_notes, &memory), (stop, waits, &approval));
        let at = site.clone();
        let started = || parts.sink.offer(|| What::StepStarted { visit: visit::visit_of(&at) });
        if let Task::Child(input) = &visit.task {
            started();
            let no_tools = Toolbox::default();
            let answer = self.answer_of_child(&visit.lane)?;
            return child::visit(&context(&no_tools), (role, input), site, answer).await;
        }
        let script = parts.run_config.script.as_ref().filter(|_| visit.task == Task::Form);
        let (visited, context_report) =
            if let Some((script, contract)) = script.zip(parts.resolved_roles.body_readers.get(&visit.role)) {
                started();
                let no_tools = Toolbox::default();
                (forms::play(&context(&no_tools), contract, script, site, visit.attempts).await, None)
            } else if let Some(runtime) = parts.resolved_roles.tool_roles.get(&visit.role) {
                started();
                let Task::Tool(args) = &visit.task else { return Err(unknown_role(&visit.role)) };
                (tool_role::visit(&context(&runtime.toolbox), runtime, site, args, visit.attempts).await, None)
            } else if let Some(runtime) = parts.resolved_roles.model_roles.get(&visit.role) {
                let opening = Opening {
                    lane: &visit.lane,
                    role: &visit.role,
                    prompt: &visit.prompt,
                    files: &visit.files,
                    prev: &visit.prev,
                    before: self.machine.lock().seq() + 1,
                    first_opened_by: &visit.first_opened_by,
                };
                let opened = if let Task::Compact { of, through_visit } = &visit.task {
                    self.leaving(of, &visit.lane, *through_visit)?
                } else {
                    let opened = self.conversations.lock().open(&opening, &runtime.history_policy, &self.steps);
                    opened?
                };
                if let Some(leaving_bytes) = self.too_long(&visit, runtime, opened.conversation.size_bytes()) {
                    return Ok(VisitOutcome::TooLong(leaving_bytes));
                }
                started();
                let context = context(&runtime.agent.tools);
                let context_report = opened.context_report;
                (visit::visit(&context, runtime, site, opened.conversation, visit.attempts).await, context_report)
            } else {
                let message = format!("{} is a {} role, which this version does not run", visit.role, role.kind.name());
                return Err(Fault::new(Code::UnfitThread, FaultClass::Denied, message));
            };
        let hooks = self.hook_notes(&at, hook_notes).await;
        let VisitResult { result, note, objects, effect_unknown, unwritten } = visited?;
        let asked = approval.asked();
        if let Some(form) = asked.filter(|_| result.is_err()) {
            return Ok(VisitOutcome::Asleep(vec![OpenForm { thread: None, visit: visit::visit_of(&at), form }]));
        }
        let mut end = Box::new(match result {
            Ok(turn) => self.answered(&visit, turn, note, objects)?,
            // Its step has no transcript, so nothing would name the objects.
            Err(fault) => VisitEnd::of(Err(fault), note),
        });
        (end.note.hooks, end.note.context_report, end.effect_unknown) = (hooks, context_report, effect_unknown);
        Ok(VisitOutcome::Ended { end, unwritten, memory: Some(memory.into_inner()) })
    }

    /// The bytes of a visit's history that could leave, if its request is too long and its role is to be compacted.
    fn too_long(&self, visit: &Visit, runtime: &RoleRuntime, messages_bytes: usize) -> Option<usize> {
        let offer = visit.compact?;
        let head_bytes = runtime.heads.first().map_or(0, |head| head.bytes.len());
        let bytes = u64::try_from(head_bytes.saturating_add(messages_bytes)).unwrap_or(u64::MAX);
        let is_too_long = bytes / BYTES_A_TOKEN > offer.at_tokens;
        let leaving = || self.conversations.lock().leaving(&visit.role, &visit.lane, offer.through_visit);
        is_too_long.then(leaving).flatten().map(|(_, bytes)| bytes)
    }

    /// The conversation for the text of a compaction. The visit that it makes room for was opened before.
    fn leaving(&self, of: &RoleName, lane: &LanePath, through_visit: u64) -> Result<Opened, Fault> {
        let leaving = self.conversations.lock().leaving(of, lane, through_visit);
        let (conversation, _) = leaving.ok_or_else(|| unknown_role(of))?;
        Ok(Opened { conversation: Arc::new(conversation), context_report: None })
    }

    /// The end of an answered visit, from its note and objects so far.
    fn answered(
        &self,
        visit: &Visit,
        turn: TurnReply,
        note: Note,
        mut objects: Vec<Object>,
    ) -> Result<VisitEnd, Fault> {
        // A form is answered without a call.
        let transcript = if visit.task == Task::Form {
            None
        } else {
            let (digest, bytes) = Digest::of(Kind::Transcript, &turn.transcript).map_err(|error| {
                let message = format!("the answer has no canonical form: {error}");
                Fault::new(Code::ContractBroken, FaultClass::Contract, message)
            })?;
            // The transcript does not name what a failed attempt sent.
            objects.retain(|(_, digest, _)| is_named(&turn.transcript, *digest));
            objects.push((Kind::Transcript, digest, bytes));
            Some(digest)
        };
        objects.extend(self.new_heads(&visit.role, &turn.transcript));
        let runtime = self.parts.resolved_roles.model_roles.get(&visit.role);
        let is_compaction = matches!(visit.task, Task::Compact { .. });
        if !is_compaction && runtime.is_some_and(|runtime| runtime.history_policy.history == History::Exact) {
            self.transcripts.lock().insert(visit.lane.clone(), turn.transcript);
        }
        let note = Note {
            usage: turn.usage,
            cost_usd: turn.cost_usd,
            answered_by: turn.answered_by,
            model: turn.model,
            served_by: runtime.and_then(|runtime| runtime.served_by.clone()),
            ..note
        };
        let fallback = turn.fallback.into_iter().map(|model| Observation::Fallback { model });
        let answered = Answered {
            status: turn.status,
            output: turn.output,
            answer: turn.answer,
            body: turn.body,
            transcript,
            observations: fallback.collect(),
        };
        Ok(VisitEnd { objects, ..VisitEnd::of(Ok(answered), note) })
    }

    /// The context for a role's visit.
    fn context<'s>(
        &'s self,
        visit: &Visit,
        policy: &'s RolePolicy,
        toolbox: &'s Toolbox,
        (hook_notes, memory): (&'s HookNotes, &'s tokio::sync::Mutex<Reservation>),
        (stop, waits, approval): (&VisitStop, &Waits, &'s DeferredApproval<'_>),
    ) -> VisitContext<'s> {
        let parts = self.parts;
        let is_left = self.journaled.lock().as_ref().is_some_and(|lanes| !lanes.contains(&visit.lane));
        let journal_part = match visit.task {
            Task::Compact { .. } => JournalPart::Compaction,
            _ => JournalPart::Visit,
        };
        let wall_time = Deadline::of_thread(visit.wall_time_left_ms, visit.wall_time_limit_ms);
        VisitContext {
            parts,
            policy,
            toolbox,
            paths: paths(parts, &visit.role),
            hook_notes,
            redactor: parts.redactors.model(&visit.role),
            tool_redactor: parts.redactors.tool(&visit.role),
            stop: stop.clone(),
            may_be_journaled: is_left || visit.is_uncompacted,
            journal_part,
            deadline: Deadline::of_step(policy.timeout_ms).or_earlier(wall_time).without(waits),
            waits: waits.clone(),
            account: Account {
                machine: Arc::clone(&self.machine),
                resume_hint: Arc::clone(&parts.resume_hint),
                lane: visit.lane.clone(),
                role: visit.role.clone(),
                above: parts.above.as_ref().map(|above| Arc::clone(&above.account)),
            },
            approval,
            memory,
        }
    }

    /// What the hooks did in an ended visit.
    async fn hook_notes(&self, site: &Site, hook_notes: HookNotes) -> Vec<HookNote> {
        let nodes: BTreeMap<&str, &Arc<Node>> = paths(self.parts, &site.role)
            .values()
            .flat_map(CallPath::nodes)
            .map(|node| (node.context.node.as_str(), node))
            .collect();
        let mut metrics = Vec::new();
        for (name, node) in nodes {
            let figures = AssertUnwindSafe(node.hook.visited(site, &node.context)).catch_unwind().await;
            let Ok(Some(figures)) = figures else { continue };
            self.parts.sink.offer(|| {
                let (visit, metrics) = (visit::visit_of(site), figures.clone());
                What::HookReport { visit, node: name.to_owned(), metrics }
            });
            metrics.push((name.to_owned(), figures));
        }
        hook_notes.into_notes(metrics)
    }
}

fn is_named(transcript: &Transcript, object: Digest) -> bool {
    transcript.entries.iter().any(|entry| match entry {
        Entry::Model { head, request, .. } => [*head, *request].contains(&object),
        Entry::Tool { files, .. } => files.iter().any(|file| file.digest == object),
        Entry::Repair { .. } => false,
    })
}

fn paths<'p>(parts: &'p Parts, role: &RoleName) -> &'p BTreeMap<CallKind, CallPath> {
    static NONE: BTreeMap<CallKind, CallPath> = BTreeMap::new();
    parts.paths.get(role).unwrap_or(&NONE)
}

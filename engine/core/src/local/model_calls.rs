//! Model calls of one visit: first the journal, then retries and fallback, then the path of hooks, then the provider.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rondo_agent_kit::effects::{Effects, Performed, Sent, Verdict};
use rondo_agent_kit::model::recorded::Recorder;
use rondo_agent_kit::model::{Deltas, redacting};
use rondo_agent_kit::redact::Redactor;
use rondo_protocol::call::{
    Billed, Call, CallKind, Fault, FaultClass, ModelAnswer, ModelCall, Reply, Site, ToolCall, ToolReply, TurnReply,
};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::{Visit, What};
use rondo_protocol::object::{AnsweredBy, Head, Note, Request};
use rondo_protocol::{Digest, Value, canonical};
use tokio_util::sync::CancellationToken;

use super::journal::{Journal, JournaledObject, ModelRecord, Record};
use super::past::{count, counted};
use super::reply_memory::Reservation;
use super::retry::{self, Deadline, Waits};
use super::sink::Sink;
use super::stop::cancelled;
use super::tool_calls::ToolRunner;
use super::visit::{Object, VisitContext, redact, visit_of, wrong_kind};
use crate::models::ResolvedModel;
use crate::resolved_roles::{ModelHead, RoleRuntime};
use crate::thread::CallEstimate;

pub(super) struct VisitEffects<'a> {
    context: &'a VisitContext<'a>,
    pub(super) runtime: &'a RoleRuntime,
    pub(super) tool_runner: ToolRunner<'a>,
    attempts_before: u64,
    pub(super) attempts: u64,
    /// The index of the role's head in use: a step stays with the model that answered it.
    model: usize,
    /// What its replies have used; the tool calls are those of a turn that a hook answered as a whole.
    used: Note,
    /// The last model call and its reply, until the loop settles it.
    last: Option<UnsettledCall>,
    pub(super) objects: Vec<Object>,
    /// Whether a hook rewrote the turn, so that no request of it follows from the steps.
    pub(super) turn_is_rewritten: bool,
}

/// A model call that was answered but not settled.
struct UnsettledCall {
    position: u32,
    /// How many hooks it reached, with the call and its answer, which they are told of; `None` without hooks.
    passed: Option<(usize, ModelCall, ModelAnswer)>,
    /// Its event, if somebody reads.
    settled: Option<What>,
}

impl Effects for VisitEffects<'_> {
    fn perform(&mut self, call: Call) -> BoxFuture<'_, Result<Performed, Fault>> {
        Box::pin(async move {
            match call {
                Call::Model(call) => self.model(call).await,
                Call::Tool(_) | Call::Turn(_) => Err(wrong_kind()),
            }
        })
    }

    fn perform_side_by_side(&mut self, calls: Vec<ToolCall>) -> BoxFuture<'_, Result<Vec<Performed>, Fault>> {
        Box::pin(async move {
            // Tools and the people who are asked about them may take long.
            self.context.memory.lock().await.release();
            self.tool_runner.perform(calls).await
        })
    }

    fn answered(&mut self, call: ToolCall, reply: ToolReply) -> BoxFuture<'_, ()> {
        self.tool_runner.answered(&call, &reply, AnsweredBy::Loop);
        Box::pin(std::future::ready(()))
    }

    fn settle(&mut self, refused: Option<String>) -> BoxFuture<'_, ()> {
        let is_told = |last: &UnsettledCall| refused.is_some() || last.passed.is_some() || last.settled.is_some();
        let Some(UnsettledCall { position, passed, settled }) = self.last.take().filter(is_told) else {
            return Box::pin(std::future::ready(()));
        };
        Box::pin(async move {
            if let Some((count, call, answer)) = passed
                && let Some(path) = self.context.paths.get(&CallKind::Model)
            {
                let verdict = if refused.is_some() { Verdict::Refused } else { Verdict::Accepted };
                path.settle(count, &Call::Model(call), &Reply::Model(answer), verdict).await;
            }
            if let Some(why) = &refused {
                self.tool_runner.journal.refuse(position, why);
            }
            if let Some(mut settled) = settled {
                if let What::CallSettled { refused: why, .. } = &mut settled {
                    *why = refused;
                }
                self.context.parts.sink.emit(settled);
            }
        })
    }
}

struct AttemptResult {
    answer: ModelAnswer,
    answered_by: AnsweredBy,
    /// How many hooks it reached.
    passed: usize,
    sent: Sent,
    attempt: u32,
    duration_ms: u64,
}

impl<'a> VisitEffects<'a> {
    /// The effects of a visit; `attempts_before` is the number of the role's earlier attempts in its lane.
    pub(super) fn new(
        context: &'a VisitContext<'a>,
        runtime: &'a RoleRuntime,
        tool_runner: ToolRunner<'a>,
        attempts_before: u64,
    ) -> Self {
        Self {
            context,
            runtime,
            attempts: tool_runner.journal.attempts,
            tool_runner,
            attempts_before,
            model: 0,
            used: Note::default(),
            last: None,
            objects: Vec::new(),
            turn_is_rewritten: false,
        }
    }

    /// Counts the contents of a turn that a hook answered as a whole, as if they had been requested: one attempt per
    /// reply, so that a script continues at the right entry.
    pub(super) fn count_turn(&mut self, turn: &TurnReply) {
        let (replies, uses) = turn.transcript.counts();
        self.attempts = self.attempts.saturating_add(turn.attempts.max(replies));
        self.used.model_calls = self.used.model_calls.saturating_add(replies);
        self.used.tool_calls = self.used.tool_calls.saturating_add(uses);
        (self.used.usage, self.used.cost_usd) = (turn.usage, turn.cost_usd);
        self.used.unpriced_calls = turn.cost_usd.map_or(replies, |_| 0);
    }

    /// Counts the answers that ended earlier runs of the visit, and failed attempts, where they were paid for.
    pub(super) fn count_given_up(&mut self) {
        let Journal { given_up, billed, .. } = &self.tool_runner.journal;
        for ModelRecord { answer, .. } in given_up {
            self.used.model_calls += 1;
            count(&mut self.used, answer.usage, answer.cost_usd);
            self.context.account.count(answer.usage, answer.cost_usd);
        }
        for Billed { usage, cost_usd } in billed {
            count(&mut self.used, Some(*usage), *cost_usd);
            self.context.account.count(Some(*usage), *cost_usd);
        }
    }

    /// What the visit used so far, and how many attempts it made, with those of earlier processes.
    pub(super) fn note(&self) -> Note {
        counted(Note { attempts: self.attempts, ..self.used.clone() })
    }

    fn count(&mut self, answer: &ModelAnswer) {
        self.used.model_calls += 1;
        count(&mut self.used, answer.usage, answer.cost_usd);
    }

    async fn model(&mut self, call: ModelCall) -> Result<Performed, Fault> {
        let asked = call.request();
        if let Some(record) = self.tool_runner.journal.model(call.site.position) {
            self.count(&record.answer);
            self.context.account.count(record.answer.usage, record.answer.cost_usd);
            let sent = record.sent();
            self.objects.extend(record.objects.iter().map(|kept| {
                let kind = if kept.is_head { Kind::Head } else { Kind::Request };
                (kind, kept.digest, kept.text.to_vec())
            }));
            if let Some(fallback) = &record.fallback {
                self.model = self.runtime.heads.iter().position(|head| head.model == *fallback).unwrap_or(0);
            }
            let attempt = u32::try_from(record.attempts.saturating_sub(1)).unwrap_or(u32::MAX);
            let settled = self.settled(&call.site, &record.answer, &record.model, (attempt, 0), &AnsweredBy::Journal);
            self.last = Some(UnsettledCall { position: call.site.position, passed: None, settled });
            return Ok(performed(record.answer, AnsweredBy::Journal, sent));
        }
        self.tool_runner.keep(&call.site).await?;
        let (attempts_before, objects_before) = (self.attempts, self.objects.len());
        let position = call.site.position;
        let made = self.attempts(&call, asked).await;
        let attempts = self.attempts - attempts_before;
        let AttemptResult { answer, answered_by, passed, sent, attempt, duration_ms } = match made {
            Ok(made) => made,
            Err(fault) => {
                if attempts > 0 {
                    self.tool_runner.journal.add(Record::Failed { attempts, answer: None });
                }
                return Err(fault);
            }
        };
        self.count(&answer);
        let mut objects: Vec<JournaledObject> = self.objects.iter().skip(objects_before).map(kept).collect();
        let own = self.runtime.heads.iter().find(|head| head.digest == sent.head);
        if let Some(head) = own.filter(|_| self.tool_runner.journal.lacks_head(sent.head)) {
            // A later process may have another head for the role; the step names this one.
            objects.push(JournaledObject { is_head: true, digest: head.digest, text: Arc::clone(&head.bytes) });
        }
        self.tool_runner.journal.add(Record::Model(Box::new(ModelRecord {
            position,
            asked,
            attempts,
            answer: answer.clone(),
            head: sent.head,
            request: sent.request,
            rewritten: sent.asked.is_some(),
            objects,
            model: sent.model.clone(),
            fallback: sent.fallback.clone(),
            visit: Some((call.site.role.clone(), call.site.visit)),
            refused: None,
        })));
        let settled = self.settled(&call.site, &answer, &sent.model, (attempt, duration_ms), &answered_by);
        let passed = (passed > 0).then(|| (passed, call, answer.clone()));
        self.last = Some(UnsettledCall { position, passed, settled });
        Ok(performed(answer, answered_by, sent))
    }

    /// The event of a call that was answered, until it is known whether the answer is refused; `None` if nobody reads.
    fn settled(
        &self,
        site: &Site,
        answer: &ModelAnswer,
        model: &str,
        (attempt, duration_ms): (u32, u64),
        answered_by: &AnsweredBy,
    ) -> Option<What> {
        let head = self.runtime.heads.get(self.model);
        let resolved = head.and_then(|head| self.context.parts.run_config.models.0.get(&head.model));
        self.context.parts.sink.has_readers().then(|| What::CallSettled {
            visit: visit_of(site),
            attempt,
            model: model.to_owned(),
            provider: resolved.map(|resolved| resolved.served_by.provider.clone()),
            finish: answer.reply.finish.as_str().to_owned(),
            usage: answer.usage,
            cached_tokens: answer.usage.map(|usage| usage.cached_tokens),
            cost_usd: answer.cost_usd,
            duration_ms,
            answered_by: answered_by.clone(),
            refused: None,
        })
    }

    /// Tries the role's model, then each fallback, until one answers or none is left.
    async fn attempts(&mut self, call: &ModelCall, asked: Digest) -> Result<AttemptResult, Fault> {
        let (context, parts) = (self.context, self.context.parts);
        let of_call = Deadline::of_call(parts.run_config.call_total_ms).without(&context.waits);
        let deadline = of_call.or_earlier(context.deadline.clone());
        let retry = &context.policy.retry;
        let mut attempt = 0_u32;
        let mut of_this_model = 1_u32;
        loop {
            let Some(head) = self.runtime.heads.get(self.model) else { return Err(no_head()) };
            let Some(resolved) = parts.run_config.models.0.get(&head.model) else { return Err(no_head()) };
            // A fallback has a head of its own.
            let request = if self.model == 0 { asked } else { call.conversation.request(head.digest) };
            // A hook that rewrote the turn changed the head of the first model; a fallback has its own.
            let (of_call, head_digest) =
                if self.model == 0 { (&call.head, call.head_digest) } else { (&head.head, head.digest) };
            let call = ModelCall {
                site: call.site.clone(),
                attempt,
                ordinal: self.attempts_before + self.attempts,
                model: head.model.clone(),
                head_digest,
                head: Arc::clone(of_call),
                conversation: Arc::clone(&call.conversation),
                files: super::files::read(&*parts.store, &self.tool_runner.files, &call.conversation)?,
                time_left: deadline.left(),
            };
            if !parts.store.has_room() {
                return Err(parts.resume_hint.with_hint(full()));
            }
            context.stop.check()?;
            let wanted = wanted(&call, resolved);
            // So may the model, before it says anything.
            context.memory.lock().await.release();
            let admitted = context.account.admit(&wanted)?;
            self.attempts += 1;
            let was_reached = AtomicBool::new(false);
            let drain = &context.stop.drain;
            let made = tokio::select! {
                biased;
                made = self.attempt((&call, request), head, resolved, &was_reached) => made,
                fault = deadline.passed() => Err(fault),
                () = drain.cancelled(), if !resolved.provider.is_paid() => Err(cancelled()),
                () = before(&was_reached, drain) => Err(cancelled()),
            };
            let (usage, cost_usd) = match &made {
                Ok(made) => (made.answer.usage, made.answer.cost_usd),
                Err(fault) => {
                    billed(fault, resolved).map_or((None, None), |billed| (Some(billed.usage), billed.cost_usd))
                }
            };
            context.account.settle(&admitted, usage, cost_usd);
            let fault = match made {
                Ok(made) => return Ok(made),
                Err(fault) => fault,
            };
            if let Some(usage) = usage {
                count(&mut self.used, Some(usage), cost_usd);
                self.tool_runner.journal.add(Record::Billed(Billed { usage, cost_usd }));
            }
            let is_unused = matches!(fault.class, FaultClass::ScriptEnd | FaultClass::Cancelled);
            if is_unused || !was_reached.into_inner() {
                // The script was not used: it has ended, and the entry that its author adds answers the resumed run; or
                // the call was broken off, or got no further than a hook.
                self.attempts -= 1;
            }
            let passed = deadline.left() == Duration::ZERO;
            // A provider times out at the deadline; the deadline names the limit.
            let fault = if passed && fault.class == FaultClass::Timeout { deadline.fault() } else { fault };
            let again = of_this_model < retry.attempts && retry::is_worth_another(&fault, retry);
            let pause = again.then(|| retry::pause(retry, of_this_model, &fault, parts.env.random()));
            // A pause that the deadline does not allow leaves the call to the next model.
            let wait = if let Some(wait) = pause.filter(|wait| *wait < deadline.left()) {
                of_this_model += 1;
                wait
            } else if !passed && retry::is_worth_another_model(&fault) && self.model + 1 < self.runtime.heads.len() {
                self.model += 1;
                of_this_model = 1;
                Duration::ZERO
            } else {
                return Err(fault);
            };
            parts.sink.offer(|| What::CallRetried {
                visit: visit_of(&call.site),
                attempt,
                model: call.model.clone(),
                code: fault.code.to_string(),
                message: fault.message.clone(),
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            });
            attempt = attempt.saturating_add(1);
            // Even no time at all would be up to a millisecond.
            if !wait.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = drain.cancelled() => {}
                }
            }
        }
    }

    async fn attempt(
        &mut self,
        (call, request): (&ModelCall, Digest),
        head: &ModelHead,
        resolved: &ResolvedModel,
        was_reached: &AtomicBool,
    ) -> Result<AttemptResult, Fault> {
        let VisitContext { parts, redactor, memory, hook_notes, ref waits, .. } = *self.context;
        let (sink, recorder) = (&parts.sink, parts.run_config.recorder.as_deref());
        let deltas = StepDeltas { sink, visit: visit_of(&call.site), attempt: call.attempt, memory, waits };
        let mut sent = Sent {
            head: call.head_digest,
            request,
            // After a fallback the request differs from the original only in its head, which is not a rewrite.
            asked: None,
            model: head.head.model.clone(),
            fallback: (self.model > 0).then(|| head.model.clone()),
        };
        let path = self.context.paths.get(&CallKind::Model).filter(|path| !path.is_empty());
        let started_ms = parts.env.elapsed_ms();
        let (reply, answered_by, passed) = match path {
            None => {
                was_reached.store(true, Ordering::Relaxed);
                (Reply::Model(complete(resolved, recorder, redactor, call, &deltas).await?), AnsweredBy::Port, 0)
            }
            Some(path) => {
                let port = |call: Call| -> BoxFuture<'_, Result<Reply, Fault>> {
                    let deltas = &deltas;
                    Box::pin(async move {
                        let Call::Model(call) = call else { return Err(wrong_kind()) };
                        was_reached.store(true, Ordering::Relaxed);
                        complete(resolved, recorder, redactor, &call, deltas).await.map(Reply::Model)
                    })
                };
                let redact = |reply: &mut Reply| redact(redactor, reply);
                let answered = path.run_redacting(Call::Model(call.clone()), Box::new(port), &redact).await?;
                if let AnsweredBy::Hook(node) = &answered.answered_by {
                    self.attempts += u64::from(answered.short_circuit.attempts.saturating_sub(1));
                    hook_notes.answered(sink, &call.site, CallKind::Model, node, answered.short_circuit);
                }
                if let Some(Call::Model(reached)) = &answered.reached {
                    let same_head = Arc::ptr_eq(&call.head, &reached.head) || call.head == reached.head;
                    if !same_head || call.conversation.chain() != reached.conversation.chain() {
                        sent.asked = Some(sent.request);
                        self.keep_rewritten(reached, &mut sent)?;
                    }
                }
                (answered.reply, answered.answered_by, answered.passed)
            }
        };
        if self.turn_is_rewritten && sent.asked.is_none() {
            self.keep_rewritten(call, &mut sent)?;
        }
        let Reply::Model(mut answer) = reply else { return Err(wrong_kind()) };
        if answered_by == AnsweredBy::Port {
            price(resolved, &mut answer);
        }
        let duration_ms = parts.env.elapsed_ms().saturating_sub(started_ms);
        Ok(AttemptResult { answer, answered_by, passed, sent, attempt: call.attempt, duration_ms })
    }

    /// Stores a request that does not follow from steps, and its head: as it was sent, under its digest.
    fn keep_rewritten(&mut self, call: &ModelCall, sent: &mut Sent) -> Result<(), Fault> {
        let object = |error: canonical::Error| Fault::new(Code::HookFailed, FaultClass::Hook, error.to_string());
        let (head, bytes) = Digest::of::<Head>(Kind::Head, &call.head).map_err(object)?;
        let request = call.conversation.request(head);
        let rewritten = Request { head, messages: call.conversation.messages().into_iter().cloned().collect() };
        self.objects.push((Kind::Head, head, bytes));
        self.objects.push((Kind::Request, request, canonical::to_bytes(&rewritten).map_err(object)?));
        (sent.head, sent.request, sent.model) = (head, request, call.head.model.clone());
        Ok(())
    }
}

/// Waits for the end of a call that no hook has let through to its provider by the time that no call may begin.
async fn before(was_reached: &AtomicBool, drain: &CancellationToken) {
    drain.cancelled().await;
    if was_reached.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// The most that a call may use, as known before it is made.
fn wanted(call: &ModelCall, resolved: &ResolvedModel) -> CallEstimate {
    let of_messages = call.conversation.size_bytes();
    let of_tools: usize = call.head.tools.iter().map(|tool| tool.description.len() + tool.parameters.len()).sum();
    let bytes = of_messages + of_tools + call.head.system.len();
    let max = call.head.parameters.0.get("max_output_tokens");
    let price = resolved.price.map(|price| price.highest());
    CallEstimate {
        prompt_bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        max_output_tokens: max.and_then(whole),
        input_usd: price.map(|(input, _)| input / 1e6),
        output_usd: price.map(|(_, output)| output / 1e6),
    }
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Asks a provider, and records the exchange if requested. What it says is redacted before any hook sees it.
async fn complete(
    resolved: &ResolvedModel,
    recorder: Option<&Recorder>,
    redactor: &Redactor,
    call: &ModelCall,
    deltas: &dyn Deltas,
) -> Result<ModelAnswer, Fault> {
    let provider = &*resolved.provider;
    let Some(recorder) = recorder else { return redacting::complete(provider, redactor, call, deltas).await };
    let attempt = recorder.attempt(call, redactor, deltas)?;
    let mut outcome = redacting::complete(provider, redactor, call, &attempt).await;
    if let Ok(answer) = &mut outcome {
        price(resolved, answer);
    }
    attempt.end(&outcome);
    outcome
}

/// What a provider billed for a failed attempt.
fn billed(fault: &Fault, resolved: &ResolvedModel) -> Option<Billed> {
    let Billed { usage, cost_usd } = *fault.billed.as_deref()?;
    Some(Billed { usage, cost_usd: cost_usd.or_else(|| resolved.price.map(|price| price.of(usage))) })
}

/// The cost of an answer, if its provider did not report it.
fn price(resolved: &ResolvedModel, answer: &mut ModelAnswer) {
    if answer.cost_usd.is_none() {
        answer.cost_usd = resolved.price.zip(answer.usage).map(|(price, usage)| price.of(usage));
    }
}

/// Emits the parts of a reply as provisional events, and reserves memory for it.
struct StepDeltas<'a> {
    sink: &'a Sink,
    visit: Visit,
    attempt: u32,
    memory: &'a tokio::sync::Mutex<Reservation>,
    waits: &'a Waits,
}

impl Deltas for StepDeltas<'_> {
    fn text(&self, text: &str) {
        let (visit, attempt) = (&self.visit, self.attempt);
        self.sink.offer(|| What::ModelDelta { visit: visit.clone(), attempt, text: text.to_owned() });
    }

    fn reserve(&self, reply_bytes: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut memory = self.memory.lock().await;
            if memory.grow_to(reply_bytes).now_or_never().is_none() {
                // For other replies, whose slowness is not this one's.
                let _waiting = self.waits.begin();
                memory.grow_to(reply_bytes).await;
            }
        })
    }
}

fn kept((kind, digest, bytes): &Object) -> JournaledObject {
    JournaledObject { is_head: *kind == Kind::Head, digest: *digest, text: bytes.as_slice().into() }
}

fn performed(answer: ModelAnswer, answered_by: AnsweredBy, sent: Sent) -> Performed {
    Performed { reply: Reply::Model(answer), answered_by, sent: Some(sent) }
}

fn full() -> Fault {
    let what = "the disk of the store is full, and an answer could not be written";
    Fault::new(Code::StoreFull, FaultClass::Store, what)
}

pub(super) fn no_head() -> Fault {
    Fault::new(Code::NoProvider, FaultClass::Refused, "no model is resolved for the role")
}

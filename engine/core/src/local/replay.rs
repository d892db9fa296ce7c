//! Sends the recorded calls of a thread's roles through the hooks of one kind again, with ports that return the
//! recorded answers: a kind that has lost its entries learns them again. No provider or tool is called, and the thread
//! is unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rondo_agent_kit::effects::Verdict;
use rondo_agent_kit::react::idempotency_key;
use rondo_protocol::call::{
    Call, CallKind, Effect, Files, ModelAnswer, ModelCall, Reply, Site, ToolCall, ToolReply, TurnCall, TurnReply,
};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{RoleName, ThreadId};
use rondo_protocol::object::{Entry, Note, Transcript};
use tokio::sync::mpsc;

use crate::conversation::rebuild::{self, Request};
use crate::env::Env;
use crate::hook::{CallPath, RoleView};
use crate::resolved_roles::ResolvedRoles;
use crate::store::{self, Row, StepStore, StoredStep};

/// How many rebuilt requests may be queued.
const WAITING: usize = 16;

/// The hooks of a thread, ready to receive its calls.
pub(crate) struct Replay {
    pub(crate) store: Arc<dyn StepStore>,
    pub(crate) thread: ThreadId,
    pub(crate) row: Row,
    /// Whether its past came with somebody else's export.
    pub(crate) is_imported: bool,
    pub(crate) paths: BTreeMap<RoleName, BTreeMap<CallKind, CallPath>>,
    pub(crate) views: BTreeMap<RoleName, RoleView>,
    pub(crate) resolved_roles: ResolvedRoles,
    pub(crate) then: Arc<ReplayClock>,
}

/// The time of a step: an answer keeps its age, regardless of when it is learned.
#[derive(Debug, Default)]
pub(crate) struct ReplayClock(AtomicU64);

impl Env for ReplayClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn elapsed_ms(&self) -> u64 {
        self.now_ms()
    }

    fn random(&self) -> u128 {
        0
    }
}

/// One step with its requests.
struct Visit {
    site: Site,
    stored: StoredStep,
    note: Note,
    transcript: Transcript,
    requests: Vec<Request>,
}

impl Replay {
    /// Sends every call; returns their number.
    pub(crate) async fn go(&self) -> Result<u64, rebuild::Error> {
        let (sender, mut requests) = mpsc::channel::<Request>(WAITING);
        let (store, thread, row) = (Arc::clone(&self.store), self.thread.clone(), self.row.clone());
        let rebuilding = tokio::task::spawn_blocking(move || {
            let mut send = |request| sender.blocking_send(request).is_ok();
            rebuild::requests(&*store, &thread, &row, &|_| true, &mut send)
        });
        let mut sent = 0;
        let mut next = requests.recv().await;
        for seq in 1..=self.row.seq {
            let step = self.store.step(&self.thread, seq)?;
            let mut of_step = Vec::new();
            while let Some(request) = next.take_if(|request| request.seq == seq) {
                of_step.push(request);
                next = requests.recv().await;
            }
            // The calls of a compaction are those of another role, at no visit of its own.
            if let Some((stored, note)) = step {
                sent += self.visit(stored, note, of_step).await?;
            }
        }
        drop(requests);
        // It cannot panic, and it ends when its receiver is dropped.
        rebuilding.await.unwrap_or(Ok(()))?;
        Ok(sent)
    }

    async fn visit(&self, stored: StoredStep, note: Note, requests: Vec<Request>) -> Result<u64, store::Error> {
        let Some(paths) = self.paths.get(&stored.step.role) else { return Ok(0) };
        let runtime = self.resolved_roles.model_roles.get(&stored.step.role);
        let served_by = runtime.and_then(|runtime| runtime.served_by.as_ref());
        // Who answered in an imported past is not known: somebody agreed to learn from it as it is.
        let is_imported = note.served_by.is_none() && self.is_imported;
        if served_by.is_some() && note.served_by.as_ref() != served_by && !is_imported {
            // Answered by another model than the current one, or by an unknown one.
            return Ok(0);
        }
        self.then.0.store(note.ended_at_ms, Ordering::Relaxed);
        let Some(digest) = stored.step.transcript.filter(|_| paths.values().any(|path| !path.is_empty())) else {
            return Ok(0);
        };
        let transcript: Transcript = rebuild::object(&*self.store, Kind::Transcript, digest)?;
        let site = Site {
            thread: self.thread.clone(),
            role: stored.step.role.clone(),
            lane: stored.step.lane.clone(),
            visit: stored.visit,
            position: 0,
        };
        let visit = Visit { site, stored, note, transcript, requests };
        let mut sent = 0;
        for (call, reply, verdict) in visit.turn().into_iter().chain(visit.calls(self.views.get(&visit.site.role))) {
            let Some(path) = paths.get(&call.kind()).filter(|path| !path.is_empty()) else { continue };
            let answer = reply.clone();
            let port = Box::new(move |_| -> futures_util::future::BoxFuture<'_, _> {
                Box::pin(std::future::ready(Ok(answer)))
            });
            // A hook that refuses a call has nothing to learn from it.
            if let Ok(answered) = path.run(call.clone(), port).await {
                path.settle(answered.passed, &call, &reply, verdict).await;
                sent += 1;
            }
        }
        for node in paths.values().flat_map(CallPath::nodes) {
            let _ = node.hook.visited(&visit.site, &node.context).await;
        }
        Ok(sent)
    }
}

impl Visit {
    /// The whole visit, if a model made it and no hook rewrote its requests.
    fn turn(&self) -> Option<(Call, Reply, Verdict)> {
        let Self { site, stored, note, transcript, requests } = self;
        let first = requests.first().filter(|_| requests.iter().all(|request| request.asked.is_none()))?;
        // The step names a fallback that answered; a turn answered as a whole has none.
        if requests.iter().any(|request| request.head_digest != first.head_digest)
            || !stored.step.observations.is_empty()
        {
            return None;
        }
        let call = TurnCall {
            site: site.clone(),
            head_digest: first.head_digest,
            head: Arc::clone(&first.head),
            conversation: Arc::new(first.messages().clone()),
        };
        let asked_tools = transcript.entries.iter().any(|entry| matches!(entry, Entry::Tool { .. }));
        let reply = TurnReply {
            transcript: transcript.clone(),
            output: stored.step.output.clone(),
            usage: note.usage,
            cost_usd: note.cost_usd,
            model: note.model.clone(),
            attempts: note.attempts,
            // The files that its tools read then are not stored.
            seen: (!asked_tools).then(Default::default),
            ..TurnReply::said(stored.step.status.clone(), stored.step.answer.clone())
        };
        Some((Call::Turn(call), Reply::Turn(Box::new(reply)), Verdict::Accepted))
    }

    /// Its model and tool calls, in order.
    fn calls(&self, view: Option<&RoleView>) -> Vec<(Call, Reply, Verdict)> {
        let Self { site, note, transcript, requests, .. } = self;
        let first_model = view.and_then(|view| view.models.first());
        let mut calls = Vec::new();
        let mut requests = requests.iter();
        let mut position = 0;
        let mut to_come = transcript.entries.iter().filter(|entry| matches!(entry, Entry::Model { .. })).count();
        for (entry, following) in
            transcript.entries.iter().zip(transcript.entries.iter().skip(1).map(Some).chain([None]))
        {
            let site = Site { position, ..site.clone() };
            match entry {
                Entry::Model { reply, asked, .. } => {
                    to_come -= 1;
                    position += 1;
                    let Some(request) = requests.next() else { continue };
                    // A fallback is never asked first, and a hook rewrites again what it rewrote then.
                    let Some(model) = first_model.filter(|model| asked.is_none() && model.id == request.head.model)
                    else {
                        continue;
                    };
                    let is_last = to_come == 0;
                    let call = ModelCall {
                        site,
                        attempt: 0,
                        ordinal: 0,
                        model: model.name.clone(),
                        head_digest: request.head_digest,
                        head: Arc::clone(&request.head),
                        conversation: Arc::new(request.messages().clone()),
                        files: Files::default(),
                        time_left: std::time::Duration::MAX,
                    };
                    // A step's usage does not tell which reply it was for.
                    let (usage, cost_usd) = (note.usage.filter(|_| is_last), note.cost_usd.filter(|_| is_last));
                    let answer = ModelAnswer { reply: reply.clone(), usage, cost_usd };
                    let is_refused = matches!(following, Some(Entry::Repair { .. }));
                    let verdict = if is_refused { Verdict::Refused } else { Verdict::Accepted };
                    calls.push((Call::Model(call), Reply::Model(answer), verdict));
                }
                Entry::Tool { id, arguments, text, failed, files, .. } => {
                    position += 1;
                    let Some(made) = note.tools.iter().find(|made| made.call == *id) else { continue };
                    let call = ToolCall {
                        id: id.clone(),
                        name: made.tool.clone(),
                        arguments: arguments.clone(),
                        effect: if made.effect == Effect::Pure.name() { Effect::Pure } else { Effect::External },
                        idempotency_key: idempotency_key(&site),
                        site,
                    };
                    // Only results that do not depend on anything else can be given again, and none with files is kept.
                    if call.effect == Effect::Pure && !failed && files.is_empty() {
                        calls.push((Call::Tool(call), Reply::Tool(ToolReply::said(text.clone())), Verdict::Accepted));
                    }
                }
                Entry::Repair { .. } => {}
            }
        }
        calls
    }
}

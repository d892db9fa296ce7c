//! The hook: looks an answer up, lets the call through, and keeps what the loop accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rondo_agent_kit::effects::Verdict;
use rondo_agent_kit::sandbox::files::Workspace;
use rondo_core::hook::visit_metrics::VisitMetrics;
use rondo_core::hook::{BuildContext, Context, Hook, ModelView, Next, RoleView};
use rondo_protocol::call::{Call, CallKind, Fault, ModelAnswer, Reply, Site, TurnReply};
use rondo_protocol::id::RoleName;
use rondo_protocol::message::Conversation;
use rondo_protocol::object::{AnsweredBy, Entry, Head};
use rondo_protocol::{Digest, Value};
use serde::Serialize;

use super::entry::{Answer, Content};
use super::key::{About, Facets, KeyParts};
use super::occurrence::{Counter, Counters, Numbered, TOO_MANY};
use crate::cache::explain::{HIT, LISTED_CALLS_MAX};
use crate::cache::set::{is_unchanged, look_up};
use crate::cache::settings::{self, Settings};
use crate::cache::{Cache, CacheSet, Guard, InsertOptions, Key, Label, Metric, Miss};

/// How long an asker waits for an equal one that has gone first. A model may take long; afterwards the asker goes by
/// itself.
const TURN_WAIT: Duration = Duration::from_mins(2);
/// The same before a whole turn, whose remaining time is unknown.
const WHOLE_TURN_WAIT: Duration = Duration::from_secs(30);

/// The outcome of a lookup that found a turn whose tools saw what is no longer so.
const CHANGED: &str = "changed";
/// That of one whose calls the role may not make, or not without asking a person.
const NOT_PERMITTED: &str = "not permitted";

/// What is held in memory at most: reading an answer from the store costs little beside the call that it saves.
const MEMORY_BYTES: u64 = 8 << 20;

pub struct ResponseCacheHook {
    settings: Settings,
    at: CallKind,
    /// How long an answer may be served; `None` = without end.
    ttl_ms: Option<u64>,
    roles: BTreeMap<RoleName, RoleView>,
    caches: Arc<CacheSet<Answer>>,
    counters: Arc<Counters>,
    counter: OnceLock<Arc<Counter>>,
    /// The roles that any node of the kind covers.
    of_kind: BTreeSet<RoleName>,
    /// Those between whom and the port something may change what is said: there is nothing to keep of them.
    altered: BTreeSet<RoleName>,
    cache: Cache<Answer>,
    files: Option<Arc<Workspace>>,
    /// Whether its calls count in no metric.
    is_replay: bool,
    /// Calls that were passed on and are not settled.
    unsettled: Mutex<BTreeMap<Site, PendingCall>>,
    visits: VisitMetrics<VisitCounts>,
}

struct PendingCall {
    key: Key,
    parts: KeyParts,
    head: Arc<Head>,
    conversation: Arc<Conversation>,
    attempts: u32,
    answer: Option<Reply>,
    /// Equal askers wait for it.
    turn: Option<Guard>,
}

#[derive(Default, Serialize)]
struct VisitCounts {
    lookups: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    kept: u64,
    calls: Vec<LookedUp>,
}

#[derive(Serialize)]
struct LookedUp {
    position: u32,
    key: String,
    outcome: &'static str,
}

/// A call as a key sees it.
struct Subject<'a> {
    site: &'a Site,
    model: &'a ModelView,
    request: Digest,
    head: &'a Arc<Head>,
    conversation: &'a Arc<Conversation>,
    attempt: u32,
    /// How long it may wait for an equal asker.
    wait: Duration,
}

impl ResponseCacheHook {
    pub fn new(
        caches: &Arc<CacheSet<Answer>>,
        counters: &Arc<Counters>,
        build: &BuildContext<'_>,
    ) -> Result<Self, String> {
        let settings = Settings::read(build, MEMORY_BYTES)?;
        Ok(Self {
            caches: Arc::clone(caches),
            counters: Arc::clone(counters),
            counter: OnceLock::new(),
            of_kind: build.of_kind.clone(),
            altered: build.altered.clone(),
            cache: caches.cache(build.space, settings.group(), settings.limits),
            settings,
            at: build.hook.at,
            ttl_ms: settings::number(&build.hook.settings, "ttl")?,
            roles: build.roles.clone(),
            files: build.resources.files.clone(),
            is_replay: build.is_replay,
            unsettled: Mutex::default(),
            visits: VisitMetrics::default(),
        })
    }

    fn subject<'a>(&'a self, call: &'a Call) -> Option<Subject<'a>> {
        let role = &call.site().role;
        let view = self.roles.get(role).filter(|_| !self.altered.contains(role))?;
        match call {
            Call::Model(call) if self.at == CallKind::Model => Some(Subject {
                site: &call.site,
                // A fallback is never asked first.
                model: view.models.first().filter(|model| model.name == call.model)?,
                request: call.request(),
                head: &call.head,
                conversation: &call.conversation,
                attempt: call.attempt,
                // What is left has to do for the call itself too.
                wait: TURN_WAIT.min(call.time_left / 2),
            }),
            Call::Turn(call) if self.at == CallKind::Turn => Some(Subject {
                site: &call.site,
                model: view.models.first()?,
                request: call.conversation.request(call.head_digest),
                head: &call.head,
                conversation: &call.conversation,
                attempt: 0,
                wait: WHOLE_TURN_WAIT,
            }),
            _ => None,
        }
    }

    /// The counter of the run, which its nodes share.
    fn counter(&self, site: &Site) -> &Counter {
        self.counter.get_or_init(|| self.counters.of(&site.thread))
    }

    fn parts(&self, subject: &Subject<'_>, occurrence: u32) -> KeyParts {
        let root = self.files.as_ref().filter(|_| self.at == CallKind::Turn && !subject.head.tools.is_empty());
        KeyParts {
            version: KeyParts::VERSION,
            at: self.at,
            scope: self.settings.scope.name().to_owned(),
            within: self.settings.within(&subject.site.thread).to_owned(),
            provider: subject.model.provider.clone(),
            address: subject.model.address.clone(),
            request: subject.request,
            lane: subject.site.lane.to_string(),
            occurrence,
            redaction: self.roles.get(&subject.site.role).map(|view| view.redaction.clone()).unwrap_or_default(),
            root: root.map(|files| files.path().to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }

    fn count(&self, role: &RoleName, metric: Metric, more: u64) {
        if !self.is_replay {
            self.cache.count(&Label::new(role.as_str(), ""), metric, more);
        }
    }

    fn count_outcome(&self, site: &Site, key: &Key, outcome: &'static str) {
        self.visits.count(site, |visit| {
            visit.lookups += 1;
            visit.hits += u64::from(outcome == HIT);
            visit.misses += u64::from(outcome != HIT);
            visit.expired += u64::from(outcome == Miss::Expired.words());
            if visit.calls.len() < LISTED_CALLS_MAX {
                visit.calls.push(LookedUp { position: site.position, key: key.to_string(), outcome });
            }
        });
        self.count(&site.role, Metric::Lookups, 1);
        self.count(&site.role, if outcome == HIT { Metric::Hits } else { Metric::Misses }, 1);
    }

    /// How a lookup ends that found this answer: [`HIT`] if it may be served to this role now, a turn only while what its
    /// tools read is unchanged, and only if the role may call each of them without approval.
    async fn outcome(&self, answer: &Arc<Answer>, role: &RoleName) -> &'static str {
        let Content::Turn(turn, seen) = &answer.said else { return HIT };
        if !self.may_call(turn, role) || self.is_beyond_limits(turn, role) {
            return NOT_PERMITTED;
        }
        if seen.read_entries.is_empty() {
            return HIT;
        }
        let Some(files) = &self.files else { return NOT_PERMITTED };
        match is_unchanged(files, answer, Answer::seen).await {
            Some(true) => HIT,
            Some(false) => CHANGED,
            None => "not looked at in time",
        }
    }

    /// Whether a turn makes more calls than the role may make in one now.
    fn is_beyond_limits(&self, turn: &TurnReply, role: &RoleName) -> bool {
        let (replies, uses) = turn.transcript.counts();
        self.roles.get(role).is_none_or(|view| replies > view.model_calls || uses > view.tool_calls)
    }

    fn may_call(&self, turn: &TurnReply, role: &RoleName) -> bool {
        let offers = self.roles.get(role).map(|view| view.offers.as_slice()).unwrap_or_default();
        turn.transcript.entries.iter().all(|entry| match entry {
            Entry::Tool { name, .. } => offers
                .iter()
                .find(|offer| offer.wire_name == *name || offer.name == *name)
                .is_some_and(|offer| offer.is_granted && !offer.needs_approval),
            Entry::Model { .. } | Entry::Repair { .. } => true,
        })
    }

    /// An answer that may be served, or the right to be asked first if others wait for it.
    async fn look_up(
        &self,
        subject: &Subject<'_>,
        key: Key,
        context: &Context,
        call: &Call,
    ) -> Result<Arc<Answer>, Option<Guard>> {
        let site = subject.site;
        if !self.settings.looks {
            return Err(None);
        }
        // Where nothing is kept equal calls have nothing to wait for.
        let wait = self.settings.keeps.then_some(subject.wait);
        let warn = |warning| context.reports.warn(&context.node, call, warning);
        match look_up(&self.cache, &key, wait, context, warn).await {
            Ok(found) => {
                let outcome = self.outcome(&found, &site.role).await;
                self.count_outcome(site, &key, outcome);
                if outcome == HIT {
                    self.count(&site.role, Metric::SavedTokens, found.tokens());
                    self.count(&site.role, Metric::SavedMicrousd, microusd(found.cost_usd));
                    return Ok(found);
                }
                if outcome == CHANGED {
                    self.cache.remove(&key);
                }
                Err(None)
            }
            Err((missing, turn)) => {
                self.count_outcome(site, &key, missing.words());
                Err(turn)
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, at 0 too")]
fn microusd(cost_usd: Option<f64>) -> u64 {
    (cost_usd.unwrap_or_default() * 1e6).round() as u64
}

impl Hook for ResponseCacheHook {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            if self.settings.is_off() {
                return next.run(call).await;
            }
            let Some(subject) = self.subject(&call) else { return next.run(call).await };
            let site = subject.site.clone();
            let earlier = self.unsettled.lock().remove(&site);
            // A further attempt at a call is the same request; it is asked, whatever is kept.
            let is_first = subject.attempt == 0;
            let numbered = match earlier {
                Some(open) if !is_first => Numbered::As(open.parts.occurrence),
                _ => {
                    let counter = self.counter(subject.site);
                    counter.number(subject.site, subject.request, &context.past, &self.of_kind).await
                }
            };
            if numbered == (Numbered::Full { is_news: true }) {
                context.reports.warn(&context.node, &call, TOO_MANY.to_owned());
            }
            let Numbered::As(occurrence) = numbered else { return next.run(call).await };
            let parts = self.parts(&subject, occurrence);
            let key = match parts.key() {
                Ok(key) => key,
                Err(error) => {
                    context.reports.warn(&context.node, &call, format!("the call has no key: {error}"));
                    return next.run(call).await;
                }
            };
            // A node further out has looked the same key up, and keeps what comes.
            let Some(_asking) = self.caches.begin(subject.site, key) else { return next.run(call).await };
            let looked = if is_first { self.look_up(&subject, key, context, &call).await } else { Err(None) };
            let turn = match looked {
                Ok(answer) => {
                    self.counter(subject.site).given(subject.site, answer.further_requests());
                    let reply = served(&answer, &context.node);
                    return Ok(next.answer(reply, answer.instead(&key)));
                }
                Err(turn) => turn,
            };
            let open = PendingCall {
                key,
                parts,
                head: Arc::clone(subject.head),
                conversation: Arc::clone(subject.conversation),
                attempts: subject.attempt.saturating_add(1),
                answer: None,
                turn,
            };
            self.unsettled.lock().insert(site.clone(), open);
            let result = next.run(call).await;
            match (&result, self.unsettled.lock().get_mut(&site)) {
                (Ok(reply), Some(open)) => open.answer = Some(reply.clone()),
                // The next attempt is the same request; equal askers need not wait for it.
                (Err(_), Some(open)) => open.turn = None,
                (_, None) => {}
            }
            result
        })
    }

    fn settle<'a>(
        &'a self,
        call: &'a Call,
        reply: &'a Reply,
        verdict: Verdict,
        context: &'a Context,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if call.kind() != self.at {
                return;
            }
            let site = call.site();
            let Some(open) = self.unsettled.lock().remove(site) else { return };
            let wanted = verdict == Verdict::Accepted && self.settings.keeps;
            let answer = open.answer.as_ref().filter(|_| wanted).and_then(|seen| kept(seen, reply));
            let answer = answer.filter(|answer| match &answer.said {
                Content::Turn(turn, _) => self.may_call(turn, &site.role),
                Content::Model(_) => true,
            });
            let about = Facets::of(&open.head, &open.conversation).and_then(|facets| {
                let thread = site.thread.to_string();
                let about = About { parts: open.parts, facets, thread, role: site.role.to_string(), visit: site.visit };
                about.to_bytes()
            });
            let (Some(answer), Ok(about)) = (answer, about) else {
                // Those who wait for it need not wait for one another: the next answer is not kept either.
                self.cache.abandon(&open.key);
                return;
            };
            let answer = Answer { attempts: open.attempts, ..answer };
            let terms = InsertOptions {
                label: Label::new(site.role.as_str(), ""),
                about,
                ttl_ms: self.ttl_ms,
                now_ms: context.env.now_ms(),
            };
            self.cache.insert(open.key, Arc::new(answer), terms).await;
            self.visits.count(site, |visit| visit.kept += 1);
        })
    }

    fn visited<'a>(&'a self, site: &'a Site, _: &'a Context) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            // A call that was never settled is not kept, and waits for it end.
            self.unsettled.lock().retain(|call, _| call.role != site.role || call.lane != site.lane);
            self.counter(site).ended(site);
            let visit = self.visits.ended(site);
            if !self.is_replay {
                self.cache.flush().await;
            }
            visit.and_then(|visit| Value::from_serialize(&visit).ok())
        })
    }
}

/// An answer as it is given again: it costs nothing.
fn served(answer: &Answer, node: &str) -> Reply {
    match &answer.said {
        Content::Model(reply) => {
            Reply::Model(ModelAnswer { reply: reply.clone(), usage: answer.free_usage(), cost_usd: Some(0.0) })
        }
        Content::Turn(turn, seen) => Reply::Turn(Box::new(TurnReply {
            usage: answer.free_usage(),
            cost_usd: Some(0.0),
            answered_by: Some(AnsweredBy::Hook(node.to_owned())),
            seen: Some(seen.clone()),
            ..TurnReply::clone(turn)
        })),
    }
}

/// The stored form of an answer: the reply as this node saw it, and its cost when it was settled.
fn kept(seen: &Reply, settled: &Reply) -> Option<Answer> {
    match (seen, settled) {
        (Reply::Model(seen), Reply::Model(settled)) => {
            let ModelAnswer { usage, cost_usd, .. } = settled;
            Some(Answer { usage: *usage, cost_usd: *cost_usd, ..Answer::of_model(seen)? })
        }
        (Reply::Turn(seen), Reply::Turn(_)) => Answer::of_turn(seen),
        _ => None,
    }
}

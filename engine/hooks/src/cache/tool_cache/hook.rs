//! The hook: looks a result up, lets the call through, keeps what was accepted, and drops what a write touches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use rondo_agent_kit::effects::Verdict;
use rondo_agent_kit::sandbox::files::Workspace;
use rondo_core::hook::visit_metrics::VisitMetrics;
use rondo_core::hook::{BuildContext, Context, Hook, Next, ShortCircuit};
use rondo_protocol::Value;
use rondo_protocol::call::{Call, Effect, Fault, Reply, Site, ToolCall, ToolReply};
use rondo_protocol::id::RoleName;

use super::dependencies::{Dependencies, WriteSet};
use super::eligibility::{Eligibility, EligibleTool, NO_FILES, NO_READ_SET, OVERLAPPED, Refusal};
use super::entry::ToolResult;
use super::key::{self, About};
use super::settings::{Mode, Settings};
use super::verify::difference;
use super::visit_metrics::{Outcome, VisitCounts};
use super::write_log::{WriteGuard, WriteLog};
use crate::cache::set::{is_unchanged, look_up};
use crate::cache::{self, Cache, CacheSet, Guard, InsertOptions, Key, Label, Metric};

/// How long an asker waits for an equal one that has gone first; afterwards it goes by itself.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// How long it may take to find out where a write leads. Afterwards it counts as leading anywhere.
const REACH_WAIT: Duration = Duration::from_millis(100);

/// What all nodes of a process share.
#[derive(Default)]
pub struct Shared {
    pub caches: Arc<CacheSet<ToolResult>>,
    writes: Arc<WriteLog>,
}

pub struct ToolCacheHook {
    settings: Settings,
    eligibility: Eligibility,
    cache: Cache<ToolResult>,
    files: Option<Arc<Workspace>>,
    shared: Arc<Shared>,
    /// Roles whose calls or results another hook may change: their results are not kept.
    altered: BTreeSet<RoleName>,
    /// Whether its calls count in no metric and change nothing.
    is_replay: bool,
    /// Results of calls that are not settled.
    unsettled: Mutex<BTreeMap<Site, PendingResult>>,
    visits: VisitMetrics<VisitCounts>,
}

/// A result that may be kept once its call is settled.
struct PendingResult {
    key: Key,
    about: About,
    ttl_ms: Option<u64>,
    result: Arc<ToolResult>,
    obtained_ms: u64,
    /// When its call began.
    reading: Instant,
}

/// A call that is on its way, with what it is looked up by.
struct Subject<'a> {
    call: &'a ToolCall,
    known: &'a EligibleTool,
    /// Its arguments as canonical JSON.
    arguments: String,
    key: Key,
}

impl ToolCacheHook {
    pub fn new(shared: &Arc<Shared>, settings: Settings, build: &BuildContext<'_>) -> Self {
        let files = build.resources.files.clone();
        Self {
            cache: shared.caches.cache(build.space, settings.common.group(), settings.common.limits),
            eligibility: Eligibility::new(&settings, build.roles, files.as_deref().map(Workspace::path)),
            settings,
            files,
            shared: Arc::clone(shared),
            altered: build.altered.clone(),
            is_replay: build.is_replay,
            unsettled: Mutex::default(),
            visits: VisitMetrics::default(),
        }
    }

    fn visit(&self, site: &Site, note: impl FnOnce(&mut VisitCounts)) {
        if !self.is_replay {
            self.visits.count(site, note);
        }
    }

    fn count_outcome(&self, subject: &Subject<'_>, outcome: Outcome) {
        let ToolCall { site, name, .. } = subject.call;
        if !self.is_replay {
            let label = Label::new(site.role.as_str(), name);
            for (metric, holds) in [
                (Metric::Lookups, outcome != Outcome::NotAsked),
                (Metric::Hits, outcome == Outcome::Hit),
                (Metric::Misses, outcome.is_miss()),
                (Metric::WouldHits, matches!(outcome, Outcome::WouldHit | Outcome::Mismatch)),
            ] {
                self.cache.count(&label, metric, u64::from(holds));
            }
        }
        self.visit(site, |visit| visit.looked_up(site.position, name, Some(subject.key), outcome));
    }

    fn subject<'a>(&'a self, call: &'a ToolCall) -> Result<Subject<'a>, Refusal> {
        let (known, arguments) = self.eligibility.check(call)?;
        let within = self.settings.common.within(&call.site.thread);
        let key = key::key(&known.digest, within, call.effect.name(), &arguments);
        Ok(Subject { call, known, arguments, key })
    }

    fn about(&self, subject: &Subject<'_>) -> About {
        let ToolCall { site, effect, .. } = subject.call;
        let (excerpt, arguments) = About::arguments(&subject.arguments);
        About {
            fixed: subject.known.fixed.clone(),
            within: self.settings.common.within(&site.thread).to_owned(),
            effect: effect.name().to_owned(),
            excerpt,
            arguments,
            thread: site.thread.to_string(),
            role: site.role.to_string(),
            visit: site.visit,
            dependencies: None,
        }
    }

    /// Whether everything that a result depends on is unchanged; `None` = not known in time.
    async fn is_valid(&self, result: &Arc<ToolResult>) -> Option<bool> {
        if result.seen.is_none() {
            return Some(true);
        }
        let Some(files) = &self.files else { return Some(false) };
        is_unchanged(files, result, |result| result.seen.as_ref()).await
    }

    /// Looks a result up. With `in_turn`, equal askers wait for the first of them.
    async fn look_up(
        &self,
        subject: &Subject<'_>,
        in_turn: bool,
        context: &Context,
    ) -> Result<Arc<ToolResult>, (Outcome, Option<Guard>)> {
        let warn = |warning| context.reports.warn(&context.node, &Call::Tool(subject.call.clone()), warning);
        let wait = in_turn.then_some(TURN_WAIT);
        let (missing, turn) = match look_up(&self.cache, &subject.key, wait, context, warn).await {
            Ok(found) => {
                return match self.is_valid(&found).await {
                    Some(true) => Ok(found),
                    Some(false) => {
                        self.cache.remove(&subject.key);
                        Err((Outcome::Changed, None))
                    }
                    None => Err((Outcome::Missing("not looked at in time"), None)),
                };
            }
            Err(missed) => missed,
        };
        // An equal call of the same reply may have its result already, which is kept when all of the reply's are there.
        match self.get_in_memory(&subject.key).filter(|_| in_turn) {
            Some(result) if self.is_valid(&result).await == Some(true) => Ok(result),
            _ => Err((Outcome::of(&missing), turn)),
        }
    }

    /// The result of a call that is not settled.
    fn get_in_memory(&self, key: &Key) -> Option<Arc<ToolResult>> {
        self.unsettled.lock().values().find(|open| open.key == *key).map(|open| Arc::clone(&open.result))
    }

    /// Lets a call through. What it may write to is dropped before it starts.
    async fn pass(&self, call: ToolCall, next: Next<'_>) -> Result<Reply, Fault> {
        let writing = self.writing(&call.effect).await;
        let result = next.run(Call::Tool(call)).await;
        if let Some(writing) = writing {
            writing.end();
        }
        result
    }

    /// Begins a write, if a call with this effect is one.
    async fn writing(&self, effect: &Effect) -> Option<WriteGuard> {
        if effect.is_repeatable() || self.is_replay {
            return None;
        }
        let write_set = match (effect, self.files.clone()) {
            (Effect::Writes(paths), Some(files)) => {
                let paths = paths.clone();
                let finding = tokio::task::spawn_blocking(move || WriteSet::of(&paths, &files));
                let found = tokio::time::timeout(REACH_WAIT, finding).await;
                found.ok().and_then(Result::ok).unwrap_or_else(WriteSet::anything)
            }
            _ => WriteSet::anything(),
        };
        let write_set = Arc::new(write_set);
        // Recorded first: what is kept from here on is kept in the knowledge of it, and all else is dropped below.
        let writing = self.shared.writes.writing(Arc::clone(&write_set));
        let caches = self.shared.caches.used();
        join_all(caches.iter().map(|cache| cache.remove_found(|dependents| dependents.touched(&write_set)))).await;
        Some(writing)
    }

    /// Lets a call through whose result may be kept. `turn` is given up once there is a result: those who wait for it
    /// find it, and none of them waits for what is settled only when they have ended themselves.
    async fn run(&self, subject: &Subject<'_>, next: Next<'_>, turn: Option<Guard>, context: &Context) -> Ran {
        let reading = Instant::now();
        let result = self.pass(subject.call.clone(), next).await;
        let fresh = match &result {
            Ok(Reply::Tool(reply)) => self.fresh(subject, reply),
            _ => None,
        };
        let open = fresh.map(|result| PendingResult {
            key: subject.key,
            about: self.about(subject),
            ttl_ms: subject.known.ttl_ms,
            result: Arc::new(result),
            obtained_ms: context.env.now_ms(),
            reading,
        });
        Ran { result, open, turn }
    }

    /// What of a reply may be kept once the call is settled.
    fn fresh(&self, subject: &Subject<'_>, reply: &ToolReply) -> Option<ToolResult> {
        let result = ToolResult::of(reply)?;
        let refusal = match (&subject.call.effect, &result.seen) {
            (Effect::Reads(_), None) => NO_READ_SET,
            (_, Some(_)) if self.files.is_none() => NO_FILES,
            _ => return Some(result),
        };
        self.visit(&subject.call.site, |visit| visit.refused(subject.call.site.position, refusal));
        None
    }

    fn open(&self, site: &Site, ran: Ran) -> Result<Reply, Fault> {
        let Ran { result, open, turn } = ran;
        if let Some(open) = open {
            self.unsettled.lock().insert(site.clone(), open);
        }
        drop(turn);
        result
    }

    async fn serve(&self, call: ToolCall, next: Next<'_>, context: &Context) -> Result<Reply, Fault> {
        if self.altered.contains(&call.site.role) {
            return self.pass(call, next).await;
        }
        let subject = match self.subject(&call) {
            Ok(subject) => subject,
            Err(refusal) => {
                self.visit(&call.site, |visit| {
                    visit.observed_calls += 1;
                    visit.looked_up(call.site.position, &call.name, None, Outcome::Refused(refusal));
                });
                return self.pass(call, next).await;
            }
        };
        // A node further out has looked the same key up, and keeps what comes.
        let Some(_asking) = self.shared.caches.begin(&call.site, subject.key) else {
            return self.pass(subject.call.clone(), next).await;
        };
        self.visit(&call.site, |visit| visit.observed_calls += 1);
        self.unsettled.lock().remove(&call.site);
        if !self.settings.common.looks {
            self.count_outcome(&subject, Outcome::NotAsked);
            let ran = self.run(&subject, next, None, context).await;
            return self.open(&call.site, ran);
        }
        let serves = self.settings.mode == Mode::Serve || self.is_replay;
        match self.look_up(&subject, serves, context).await {
            Err((outcome, turn)) => {
                self.count_outcome(&subject, outcome);
                let ran = self.run(&subject, next, turn, context).await;
                self.open(&call.site, ran)
            }
            Ok(kept) if serves => {
                self.count_outcome(&subject, Outcome::Hit);
                let short_circuit = ShortCircuit { key: Some(subject.key.to_string()), ..ShortCircuit::default() };
                Ok(next.answer(Reply::Tool(kept.reply()), short_circuit))
            }
            Ok(kept) => {
                let ran = self.run(&subject, next, None, context).await;
                if self.settings.mode == Mode::Observe {
                    self.count_outcome(&subject, Outcome::WouldHit);
                    return ran.result;
                }
                self.compared(&subject, &kept, ran, context).await
            }
        }
    }

    async fn compared(
        &self,
        subject: &Subject<'_>,
        kept: &Arc<ToolResult>,
        ran: Ran,
        context: &Context,
    ) -> Result<Reply, Fault> {
        let differs = match &ran.result {
            Ok(Reply::Tool(reply)) => difference(subject.call, kept, reply),
            _ => None,
        };
        let Some(differs) = differs else {
            self.count_outcome(subject, Outcome::WouldHit);
            return ran.result;
        };
        let site = &subject.call.site;
        if self.is_valid(kept).await != Some(true) {
            // It changed between the check and the call.
            self.count_outcome(subject, Outcome::Changed);
            return self.open(site, ran);
        }
        self.count_outcome(subject, Outcome::Mismatch);
        context.reports.warn(&context.node, &Call::Tool(subject.call.clone()), differs);
        if self.settings.common.keeps {
            self.cache.remove(&subject.key);
        }
        self.open(site, ran)
    }

    async fn keep(&self, open: PendingResult, site: &Site, tool: &str) -> Result<(), Refusal> {
        let PendingResult { key, mut about, ttl_ms, result, obtained_ms, reading } = open;
        let root = self.files.as_ref().map_or(Path::new(""), |files| files.path());
        let dependencies = result.seen.as_ref().map(|seen| Dependencies::of(seen, root));
        let is_overlapped =
            || dependencies.as_ref().is_some_and(|dependencies| self.shared.writes.overlap(reading, dependencies));
        if is_overlapped() {
            return Err(OVERLAPPED);
        }
        about.dependencies.clone_from(&dependencies);
        let terms = InsertOptions {
            label: Label::new(site.role.as_str(), tool),
            about: about.to_bytes(),
            ttl_ms,
            now_ms: obtained_ms,
        };
        let kept = self.cache.insert(key, result, terms).await;
        // A write that began meanwhile may have dropped what it touches before this was there.
        if is_overlapped() {
            self.cache.remove(&key);
            return Err(OVERLAPPED);
        }
        if kept == cache::InsertOutcome::Inserted {
            self.visit(site, |visit| visit.recorded_count += 1);
        }
        Ok(())
    }
}

struct Ran {
    result: Result<Reply, Fault>,
    /// What may be kept of it.
    open: Option<PendingResult>,
    /// Equal askers wait for it.
    turn: Option<Guard>,
}

impl Hook for ToolCacheHook {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            match call {
                Call::Tool(call) if self.settings.common.is_off() => self.pass(call, next).await,
                Call::Tool(call) => self.serve(call, next, context).await,
                call => next.run(call).await,
            }
        })
    }

    fn settle<'a>(&'a self, call: &'a Call, _: &'a Reply, verdict: Verdict, _: &'a Context) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Call::Tool(call) = call else { return };
            let Some(open) = self.unsettled.lock().remove(&call.site) else { return };
            if verdict != Verdict::Accepted || !self.settings.common.keeps {
                return;
            }
            if let Err(refusal) = self.keep(open, &call.site, &call.name).await {
                self.visit(&call.site, |visit| visit.refused(call.site.position, refusal));
            }
        })
    }

    fn visited<'a>(&'a self, site: &'a Site, _: &'a Context) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async move {
            // What was never settled is not kept.
            self.unsettled.lock().retain(|call, _| call.role != site.role || call.lane != site.lane);
            let visit = self.visits.ended(site);
            if self.settings.common.is_off() || self.is_replay {
                return None;
            }
            self.cache.flush().await;
            visit.unwrap_or_default().metrics(self.cache.totals())
        })
    }
}

//! `rate_limit`: lets calls through to a port only so fast, and so many at once. Transparent.
//!
//! A model is limited by provider (name and address) and id, a tool by its name, over all threads and nodes of this
//! process. It sees what reaches it: what a hook in front of it answers neither waits nor counts, and each attempt is a
//! call. Nothing is stored.
//!
//! A model call that would have to wait longer than it may take fails at once, as if its provider were busy; a tool
//! call is let through after a minute, and said to have been.

mod limiter;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use parking_lot::Mutex;
use rondo_protocol::Value;
use rondo_protocol::call::{Call, Fault, FaultClass, ModelCall, Reply, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::HookUse;
use tokio::time::Instant;

use limiter::{Hold, Limiter, Pass, Rate, TooLong};
use rondo_core::hook::visit_metrics::VisitMetrics;
use rondo_core::hook::{BuildContext, Context, Hook, HookKind, ModelView, Next};

const MINUTE: Duration = Duration::from_mins(1);

const TOOL_PATIENCE: Duration = MINUTE;

/// The most calls a minute: the start of each is remembered for so long.
const MAX_PER_MINUTE: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Model { provider: String, address: String, id: String },
    Tool(String),
}

type Limiters = Arc<Mutex<BTreeMap<Subject, Arc<Limiter>>>>;

/// The kind. It holds what all its nodes share.
#[derive(Default)]
pub struct RateLimit {
    limiters: Limiters,
}

impl HookKind for RateLimit {
    fn name(&self) -> &'static str {
        "rate_limit"
    }

    fn build(&self, build: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        let rate = rate(build.hook)?;
        let models = build.roles.iter().map(|(role, view)| (role.clone(), view.models.clone())).collect();
        let (held, visits) = (Mutex::default(), VisitMetrics::default());
        Ok(Arc::new(Limiting { rate, models, limiters: Arc::clone(&self.limiters), held, visits }))
    }
}

fn rate(hook: &HookUse) -> Result<Rate, String> {
    let count = |name: &str| match hook.settings.get(name) {
        Some(Value::Int(count)) => u64::try_from(*count).ok().filter(|count| *count > 0).map(Some),
        Some(_) => None,
        None => Some(None),
    };
    let read = |name: &str| count(name).ok_or_else(|| format!("`{name}` must be an integer from 1"));
    let rate = Rate { concurrent: read("concurrent")?, per_minute: read("per_minute")? };
    if rate == Rate::default() {
        return Err("it needs `concurrent` or `per_minute`, or both".to_owned());
    }
    if rate.per_minute.is_some_and(|most| most > MAX_PER_MINUTE) {
        return Err(format!("`per_minute` is at most {MAX_PER_MINUTE}"));
    }
    Ok(rate)
}

struct Limiting {
    rate: Rate,
    models: BTreeMap<RoleName, Vec<ModelView>>,
    limiters: Limiters,
    /// What this node has met so far.
    held: Mutex<BTreeMap<Subject, Arc<Hold>>>,
    visits: VisitMetrics<Metrics>,
}

#[derive(Default)]
struct Metrics {
    calls: u64,
    waited: u64,
    waited_for: Duration,
}

impl Limiting {
    fn subject(&self, call: &Call) -> Option<Subject> {
        match call {
            // A turn reaches no port; its calls do.
            Call::Turn(_) => None,
            Call::Model(call) => {
                let mut models = self.models.get(&call.site.role).into_iter().flatten();
                let (provider, address, id) = match models.find(|model| model.name == call.model) {
                    Some(model) => (model.provider.clone(), model.address.clone(), model.id.clone()),
                    None => (String::new(), String::new(), call.head.model.clone()),
                };
                Some(Subject::Model { provider, address, id })
            }
            Call::Tool(call) => Some(Subject::Tool(call.name.clone())),
        }
    }

    /// Holds a subject from its first call on, when idle ones are removed too.
    fn held(&self, subject: Subject) -> Arc<Hold> {
        let mut held = self.held.lock();
        let found = held.entry(subject).or_insert_with_key(|subject| {
            let (mut limiters, now) = (self.limiters.lock(), Instant::now());
            limiters.retain(|other, limiter| other == subject || !limiter.is_idle(now));
            Arc::new(limiters.entry(subject.clone()).or_insert_with(|| Limiter::new(MINUTE)).hold(self.rate))
        });
        Arc::clone(found)
    }

    /// Waits for the turn of a call.
    async fn pass(&self, limiter: &Arc<Limiter>, call: &Call, context: &Context) -> Result<Pass, Fault> {
        match call {
            Call::Model(call) => {
                let wait = call.time_left;
                limiter.enter(wait).await.map_err(|TooLong(needed)| self.busy(call, needed, context))
            }
            Call::Turn(_) | Call::Tool(_) => {
                if let Some(pass) = limiter.enter_within(TOOL_PATIENCE).await {
                    return Ok(pass);
                }
                let warning = format!("the call has waited for {} s and is let through", TOOL_PATIENCE.as_secs());
                context.reports.warn(&context.node, call, warning);
                Ok(limiter.enter_beyond())
            }
        }
    }

    /// The same, and how long the call has waited; `None` if it was admitted or refused at once.
    async fn pass_timed(
        &self,
        limiter: &Arc<Limiter>,
        call: &Call,
        context: &Context,
    ) -> (Result<Pass, Fault>, Option<Duration>) {
        let mut passing = pin!(self.pass(limiter, call, context));
        if let Some(passed) = passing.as_mut().now_or_never() {
            return (passed, None);
        }
        let begun = Instant::now();
        (passing.await, Some(begun.elapsed()))
    }

    fn busy(&self, call: &ModelCall, needed: Duration, context: &Context) -> Fault {
        let Rate { concurrent, per_minute } = self.rate;
        let number = |number: Option<u64>, what: &str| number.map(|number| format!("{number} {what}"));
        let most = [number(concurrent, "at once"), number(per_minute, "a minute")];
        let most = most.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        let message = format!(
            "the hook {} lets {most} through to the model {}; this call would have to wait for {:.1} s, and has {:.1} s left",
            context.node,
            call.head.model,
            needed.as_secs_f64(),
            call.time_left.as_secs_f64(),
        );
        let retry_after_ms = u64::try_from(needed.as_millis()).ok();
        Fault { retry_after_ms, ..Fault::new(Code::ProviderBusy, FaultClass::RateLimit, message) }
    }
}

impl Hook for Limiting {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let Some(subject) = self.subject(&call) else { return next.run(call).await };
            let held = self.held(subject);
            let (passed, waited_for) = self.pass_timed(&held.limiter, &call, context).await;
            self.visits.count(call.site(), |metrics| {
                metrics.calls += 1;
                metrics.waited += u64::from(waited_for.is_some());
                metrics.waited_for += waited_for.unwrap_or_default();
            });
            let _pass = passed?;
            next.run(call).await
        })
    }

    fn visited<'a>(&'a self, site: &'a Site, _: &'a Context) -> BoxFuture<'a, Option<Value>> {
        let metrics = self.visits.ended(site).map(|Metrics { calls, waited, waited_for }| {
            let waited_ms = u64::try_from(waited_for.as_millis()).unwrap_or(u64::MAX);
            Value::from_iter(
                [("calls", calls), ("waited", waited), ("waited_ms", waited_ms)]
                    .map(|(name, metric)| (name, Value::from(metric))),
            )
        });
        Box::pin(std::future::ready(metrics))
    }
}

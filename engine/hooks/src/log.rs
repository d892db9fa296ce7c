//! `log`: counts the calls that pass and reports metrics of each one. Transparent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use rondo_protocol::Value;
use rondo_protocol::call::{Call, Fault, Reply};

use rondo_core::hook::{BuildContext, Context, Hook, HookKind, Next};

pub struct Log;

impl HookKind for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn build(&self, _: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        Ok(Arc::new(Counter::default()))
    }
}

#[derive(Default)]
struct Counter {
    calls: AtomicU64,
    failed: AtomicU64,
}

impl Hook for Counter {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, context: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let seen = call.clone();
            let started_ms = context.env.elapsed_ms();
            let result = next.run(call).await;
            let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let failed = self.failed.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
            let metrics = Value::from_iter([
                ("calls", Value::from(calls)),
                ("failed", Value::from(failed + u64::from(result.is_err()))),
                ("kind", Value::from(seen.kind().name())),
                ("duration_ms", Value::from(context.env.elapsed_ms().saturating_sub(started_ms))),
            ]);
            context.reports.report(&context.node, &seen, metrics);
            result
        })
    }
}

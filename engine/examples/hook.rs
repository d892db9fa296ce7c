//! A hook of the program's own: it counts the calls of models and passes them on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rondo::Rondo;
use rondo::hook::{BoxFuture, BuildContext, Call, CallKind, Context, Fault, Hook, HookKind, Next, Reply};

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl HookKind for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn build(&self, _: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        Ok(Arc::new(self.clone()))
    }
}

impl Hook for Count {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        next.run(call)
    }
}

#[tokio::main]
async fn main() -> Result<(), rondo::Error> {
    let count = Count::default();
    let rondo = Rondo::builder().in_memory().offline().hook(CallKind::Model, count.clone()).open().await?;
    let run = rondo.workflow("review-loop")?.start().await?;
    println!("{}", run.end().await?.result()?["article"]);
    println!("{} calls of models", count.0.load(Ordering::Relaxed));
    Ok(())
}

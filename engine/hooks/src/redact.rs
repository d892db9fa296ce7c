//! `redact`: adds an author's patterns to the fixed redaction of keys, in everything that enters the thread: input,
//! model replies, also piece by piece, and tool results. Altering.
//!
//! What it adds acts at the port ([`rondo_core::hook::redactors`]), before any hook sees or keeps what comes from there; the
//! node itself lets calls through as they are. Redaction never acts on what is sent: what entered is what is sent.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rondo_agent_kit::redact::Pattern;
use rondo_protocol::Value;
use rondo_protocol::call::{Call, Fault, Reply};
use rondo_protocol::workflow::HookUse;

use rondo_core::hook::{BuildContext, Context, Hook, HookKind, Next};

const PATTERNS_MAX: usize = 64;

pub struct Redact;

impl HookKind for Redact {
    fn name(&self) -> &'static str {
        "redact"
    }

    fn patterns(&self, hook: &HookUse) -> Result<Vec<Pattern>, String> {
        let Some(Value::List(patterns)) = hook.settings.get("patterns") else {
            return Err("it has no `patterns`: a list of regular expressions".to_owned());
        };
        if patterns.is_empty() || patterns.len() > PATTERNS_MAX {
            return Err(format!("`patterns` holds {} expressions; 1 to {PATTERNS_MAX} can be", patterns.len()));
        }
        let read = |pattern: &Value| {
            let text = pattern.as_str().unwrap_or_default();
            let shown: String = text.chars().take(80).collect();
            Pattern::new(text).map_err(|error| format!("the pattern {shown:?} cannot be used: {error}"))
        };
        patterns.iter().map(read).collect()
    }

    fn build(&self, build: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        self.patterns(build.hook)?;
        Ok(Arc::new(Passing))
    }
}

struct Passing;

impl Hook for Passing {
    fn handle<'a>(&'a self, call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        next.run(call)
    }
}

//! Workflows and models that cost nothing, and how a figure is printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rondo_agent_kit::model::Model;
use rondo_engine::store::StepStore;
use rondo_engine::{Engine, SystemEnv, registry};
use rondo_protocol::call::ModelCall;
use rondo_protocol::workflow::Checked;
use rondo_tests::{FnModel, checked};

/// The body of each answer: with its front matter about 400 bytes, as a short chat turn has.
pub const BODY: &str = "The tide leaves the pool twice a day, and what lives in it has learnt to wait. Limpets clamp down, \
anemones fold in, and the crab goes under the weed. When the water comes back the pool is a garden again within minutes, \
and nobody who passes at low tide would guess how much of it was there all along, shut tight and wet.";

/// Two roles that answer each other `steps` times.
pub fn two_roles(steps: u64, context: &str) -> Checked {
    two_roles_with("none", steps, context)
}

/// The same, told their earlier visits as `history` says.
pub fn two_roles_with(history: &str, steps: u64, context: &str) -> Checked {
    checked(&format!(
        r#"
rondo: 1
name: bench
roles:
  a: {{ system: You are a., history: {history}, context: {context} }}
  b: {{ system: You are b., history: {history}, context: {context} }}
graph:
  start: {{ to: a, prompt: "Begin." }}
  a: {{ done: {{ to: b, prompt: "Go on with this: {{{{ body }}}}" }} }}
  b: {{ done: {{ to: a, prompt: "Go on with that: {{{{ body }}}}", max: {steps}, on_max: {{ to: end }} }} }}
limits: {{ steps: {steps} }}
"#
    ))
}

/// A model that answers at once, and counts.
pub fn quick(count: &Arc<AtomicU64>) -> Arc<dyn Model> {
    let count = Arc::clone(count);
    Arc::new(FnModel(move |_: &ModelCall| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(answer())
    }))
}

/// An answer in front matter.
pub fn answer() -> String {
    format!("---\nstatus: done\n---\n\n{BODY}")
}

/// An engine over `store`.
pub fn engine(store: Arc<dyn StepStore>) -> Engine {
    Engine::new(store, Arc::new(SystemEnv::default()), registry())
}

/// A runtime as the command line has it.
///
/// # Panics
/// Without threads.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// One line of the table.
pub fn print(name: &str, measured: &str, reference: &str) {
    println!("{name:<58} {measured:>14}   {reference}");
}

/// Microseconds with one digit.
pub fn us(duration: Duration) -> String {
    format!("{:.1} us", duration.as_secs_f64() * 1e6)
}

/// The middle one of some times.
pub fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    quantile(&sorted, 0.5)
}

/// Writes to so much memory and gives it back: the first touch of a page may cost a guest ten microseconds, which is
/// the host's doing and not to be measured.
pub fn touch_memory(bytes: usize) {
    const PAGE_BYTES: usize = 4096;
    let mut memory = vec![0_u8; bytes];
    for page in memory.chunks_mut(PAGE_BYTES) {
        page.fill(1);
    }
    std::hint::black_box(&memory);
}

/// The value below which `share` of `sorted` lies.
pub fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (last as f64 * share) as usize;
    sorted.get(index).copied().unwrap_or_default()
}

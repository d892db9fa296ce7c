//! Workflows and models that cost nothing, and how a figure is printed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rondo_agent_kit::model::Model;
use rondo_core::{Engine, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::workflow::Checked;
use rondo_store::StepStore;
use rondo_tests::{FnModel, checked, follow, start};

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

/// Runs so many threads at once to their ends.
///
/// # Panics
/// When one does.
pub async fn run_threads(engine: &Engine, checked: &Checked, threads: u64, model: &Arc<dyn Model>) {
    let mut runs = Vec::new();
    for _ in 0..threads {
        let mut handle = start(engine, checked, Value::empty_object(), Arc::clone(model)).await;
        handle.events.close();
        runs.push(tokio::spawn(follow(handle)));
    }
    for run in runs {
        run.await.expect("a run");
    }
}

/// The program, in the folder `work` of one that is all that it knows of its user.
///
/// # Panics
/// Without a place of its own.
pub fn rondo(folder: &Path) -> Command {
    let own = std::env::current_exe().expect("the path of this program");
    let program = own.parent().and_then(Path::parent).expect("its folder").join("rondo");
    let mut command = Command::new(program);
    command.current_dir(folder.join("work"));
    command.env("XDG_DATA_HOME", folder.join("data")).env("XDG_CONFIG_HOME", folder);
    command
}

/// The most memory that a process has had; 0 when it has ended, or where the system does not tell.
pub fn peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// How a process ended.
pub struct Watched {
    pub code: Option<i32>,
    pub elapsed: Duration,
    /// The most memory that it had.
    pub peak_bytes: u64,
}

/// Runs a process to its end, and drops what it says.
///
/// # Panics
/// When it cannot be started.
pub fn watched(command: &mut Command) -> Watched {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program: build it first");
    let mut peak = 0;
    loop {
        // The system forgets it with the process.
        peak = peak.max(peak_bytes(child.id()));
        if let Some(status) = child.try_wait().expect("a child") {
            return Watched { code: status.code(), elapsed: began.elapsed(), peak_bytes: peak };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A number from the environment.
pub fn from_environment(name: &str, without: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(without)
}

/// One line of the table.
struct Line {
    name: String,
    measured: String,
    reference: String,
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Prints a line of the table.
pub fn print(name: &str, measured: &str, reference: &str) {
    println!("{name:<58} {measured:>14}   {reference}");
    let [name, measured, reference] = [name, measured, reference].map(str::to_owned);
    LINES.lock().expect("the lines").push(Line { name, measured, reference });
}

/// Prints the median and the spread of each figure over the rounds, and writes them to the file `json`, a line each.
///
/// # Panics
/// When the file cannot be written.
pub fn summarise(json: Option<&Path>) {
    let lines = std::mem::take(&mut *LINES.lock().expect("the lines"));
    let mut names: Vec<&str> = Vec::new();
    for line in &lines {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    println!("\n{:<58} {:>14}   {:<40}", "figure", "median", "least to most");
    let mut text = String::new();
    for name in names {
        let of_name: Vec<&Line> = lines.iter().filter(|line| line.name == name).collect();
        let Some(last) = of_name.last() else { continue };
        let unit = last.measured.split_once(' ').map_or("", |(_, unit)| unit);
        let number = |line: &&Line| line.measured.split(' ').next()?.replace(',', "").parse::<f64>().ok();
        let mut measured: Vec<f64> = of_name.iter().filter_map(number).collect();
        measured.sort_by(f64::total_cmp);
        let (middle, smallest, largest) = (measured.get(measured.len() / 2), measured.first(), measured.last());
        if let (Some(middle), Some(smallest), Some(largest)) = (middle, smallest, largest) {
            println!("{name:<58} {:>14}   {smallest} to {largest}", format!("{middle} {unit}"));
        }
        let line = serde_json::json!({
            "figure": name, "unit": unit, "median": middle, "least": smallest, "most": largest,
            "rounds": of_name.len(), "reference": last.reference,
        });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    if let Some(json) = json {
        std::fs::write(json, text).expect("the file of figures");
    }
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

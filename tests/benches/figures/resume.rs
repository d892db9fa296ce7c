//! From process start to the first model call of a thread of 100,000 steps, whose next role has 1,000 messages in its
//! history: this program starts itself again as the process that resumes.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_core::Resumed;
use rondo_protocol::Value;
use rondo_protocol::call::{Fault, FaultClass, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use rondo_tests::{FnModel, checked, follow, run_config, start};

use crate::durable::open;
use crate::support::{answer, engine, print, quantile, runtime};

/// The argument by which this program knows that it is the process that resumes.
pub const CHILD: &str = "resume-child";

const STEPS: u64 = 100_000;
const VISITS: u64 = 500;
const ROUNDS: usize = 15;

pub fn first_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let between = STEPS / VISITS;
    let workflow = checked(&format!(
        r#"
rondo: 1
name: long
roles:
  a: {{ system: You are a., history: none, context: none, output: {{ done: {{}}, ask: {{}} }} }}
  b: {{ system: You are b., history: none, context: none }}
  lead: {{ system: You lead. }}
graph:
  start: {{ to: a, prompt: "Begin." }}
  a:
    done: {{ to: b, prompt: "Go on with this: {{{{ body }}}}" }}
    ask: {{ to: lead, prompt: "What now?" }}
  b: {{ done: {{ to: a, prompt: "Go on with that: {{{{ body }}}}", max: {STEPS}, on_max: {{ to: end }} }} }}
  lead: {{ done: {{ to: a, prompt: "Go on.", max: {STEPS}, on_max: {{ to: end }} }} }}
limits: {{ steps: 1000000 }}
"#
    ));
    // The lead speaks every `between` steps; the last call, which is the lead's, fails, and there the thread stops.
    let model = FnModel(move |call: &ModelCall| match call.site.role.as_str() {
        "lead" if call.site.visit > VISITS => Err(Fault::new(Code::KeyRefused, FaultClass::Refused, "stop here")),
        "a" if call.site.visit.is_multiple_of(between / 2) => Ok(answer().replace("done", "ask")),
        _ => Ok(answer()),
    });
    let store = open(folder.path(), Durability::Log);
    let thread = runtime().block_on(async {
        let mut handle = start(&engine(Arc::clone(&store)), &workflow, Value::empty_object(), Arc::new(model)).await;
        handle.events.close();
        let thread = handle.thread.clone();
        follow(handle).await;
        thread
    });
    let seq = store.row(&thread).expect("a row").map_or(0, |row| row.seq);
    drop(store);
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| child_time(folder.path(), &thread)).collect();
    times.sort();
    let empty = (0..ROUNDS).map(|_| process_time()).min().unwrap_or_default();
    let name = format!("process start to first call, {seq} steps, {} messages", VISITS * 2);
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let reference = format!("{} p90; {} for a process that does nothing", ms(quantile(&times, 0.9)), ms(empty));
    print(&name, &ms(quantile(&times, 0.5)), &reference);
}

fn child_time(folder: &Path, thread: &ThreadId) -> Duration {
    let program = std::env::current_exe().expect("this program");
    let started = Instant::now();
    let status = Command::new(program).arg(CHILD).arg(folder).arg(thread.as_str()).status().expect("a child");
    assert!(status.success(), "the child reached its first call");
    started.elapsed()
}

fn process_time() -> Duration {
    let program = std::env::current_exe().expect("this program");
    let started = Instant::now();
    Command::new(program).arg("no-such-figure").stdout(std::process::Stdio::null()).status().expect("a child");
    started.elapsed()
}

/// Resumes the thread and ends the process at its first model call.
pub fn child(folder: &str, thread: &str) {
    let thread = ThreadId::new(thread).expect("a thread");
    let model = FnModel(|call: &ModelCall| {
        let messages = call.conversation.messages().len() as u64;
        std::process::exit(i32::from(messages != VISITS * 2 + 1));
    });
    runtime().block_on(async {
        let engine = engine(open(Path::new(folder), Durability::Log));
        let model: Arc<dyn rondo_agent_kit::model::Model> = Arc::new(model);
        let resumed =
            engine.resume(&thread, |workflow, _| Ok::<_, rondo_core::Error>(run_config(workflow, &model))).await;
        if let Ok(Resumed::Running(handle)) = resumed {
            follow(handle).await;
        }
    });
    std::process::exit(3);
}

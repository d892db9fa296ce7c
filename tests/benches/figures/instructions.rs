//! The instructions of a step, which do not move with the machine's mood: callgrind counts them in a child process.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rondo_protocol::Value;
use rondo_store::MemoryStore;
use rondo_tests::{follow, start};

use crate::support::{engine, print, quick, two_roles};

/// The argument that makes this program the child.
pub const CHILD: &str = "instructions-of";

/// What starting, and growing to the size that a thread has from here on, takes is in both runs.
const FEW: u64 = 500;
const MANY: u64 = 2_500;

pub fn step() {
    let name = "instructions of a step without durability";
    match (counted(FEW), counted(MANY)) {
        (Some(few), Some(many)) => {
            let each = many.saturating_sub(few) / (MANY - FEW);
            print(name, &each.to_string(), "counted by callgrind, not timed");
        }
        _ => print(name, "not counted", "install valgrind"),
    }
}

/// Runs a thread of so many steps.
pub fn child(steps: &str) {
    let steps = steps.parse().expect("a number of steps");
    let model = quick(&Arc::<AtomicU64>::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = engine(Arc::new(MemoryStore::default()));
        let mut handle = start(&engine, &two_roles(steps, "outputs"), Value::empty_object(), model).await;
        handle.events.close();
        follow(handle).await;
    });
}

/// The instructions of a child that makes so many steps; `None` without callgrind.
fn counted(steps: u64) -> Option<u64> {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args([CHILD, &steps.to_string()]);
    let output = command.stdout(Stdio::null()).output().ok()?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    report.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

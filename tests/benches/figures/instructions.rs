//! The instructions of a step, which do not move with the machine's mood: callgrind counts them in a child process.

use std::process::{Command, ExitStatus, Stdio};
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
            print(name, &each.to_string(), "counted by callgrind, without those of SHA-256");
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

/// The instructions of a child that makes so many steps, without those of SHA-256, for which callgrind's processor has no
/// instructions of its own; `None` without callgrind.
fn counted(steps: u64) -> Option<u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = folder.path().join("counts");
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(program).args([CHILD, &steps.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().filter(ExitStatus::success)?;
    let report =
        Command::new("callgrind_annotate").args(["--threshold=100", "--auto=no"]).arg(&counts).output().ok()?;
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let of_line = |line: &str| line.split_whitespace().next()?.replace(',', "").parse::<u64>().ok();
    let total = report.lines().find(|line| line.contains("PROGRAM TOTALS")).and_then(of_line)?;
    let hashing: u64 = report.lines().filter(|line| line.contains("sha2::")).filter_map(of_line).sum();
    Some(total.saturating_sub(hashing))
}

//! How long the program takes from its start to its end, for what people type most.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{median, print, quantile, rondo};

const ROUNDS: usize = 21;

pub fn programs() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("work")).expect("its work");
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    for arguments in [&["--version"][..], &["validate", "review-loop"]] {
        let times = times(|| {
            let mut program = rondo(folder.path());
            program.args(arguments);
            program
        });
        let nothing = median(&self::times(|| Command::new("true")));
        let reference = format!("{} p90; {} a process that does nothing", ms(quantile(&times, 0.9)), ms(nothing));
        print(&format!("rondo {}", arguments.join(" ")), &ms(median(&times)), &reference);
    }
}

/// The sorted times of a program's runs.
fn times(program: impl Fn() -> Command) -> Vec<Duration> {
    let time = |_| {
        let mut program = program();
        let started = Instant::now();
        program.stdout(Stdio::null()).status().expect("the program: build it first");
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..ROUNDS).map(time).collect();
    times.sort();
    times
}

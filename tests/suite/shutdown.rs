//! What ends a run from outside while it works: signals that a tool does not heed, a disk that is full, and limits on what
//! the process may have.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::binary::{Finished, Place, Running};

/// How long a run may take to drain, whatever is running. The rest is for a machine under load.
const DRAINED: Duration = Duration::from_secs(10 + 5);

/// How long it may take after a second signal. The rest is for a machine under load.
const AT_ONCE: Duration = Duration::from_secs(1 + 5);

const TOOL: &str = r"
rondo: 1
name: deaf
roles:
  worker: { system: You work., tools: [shell] }
graph:
  start: { to: worker, prompt: Go. }
  worker: { done: { to: end } }
";

/// A folder whose only role starts a program that ignores signals, as do those that it starts. `marked` stands in the
/// words of each.
fn deaf(marked: &str) -> Place {
    let place = Place::new();
    place.file("deaf/workflow.yaml", TOOL);
    let script = format!("trap '' TERM INT HUP; (sleep {marked} & sleep {marked}); sleep {marked}");
    let entry =
        format!("{{ tools: [ {{ name: shell, args: {{ script: \"{script}\" }} }} ], then: {{ status: done }} }}");
    place.file("deaf/script.yaml", format!("worker: [ {entry} ]\n"));
    place.settings("[grant]\ntools = [\"shell\"]\n");
    place.trust(&["deaf"]);
    place
}

/// How many processes have `marked` among their words.
fn alive(marked: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("cmdline")));
    processes
        .filter_map(|words| std::fs::read(words).ok())
        .filter(|words| words.windows(marked.len()).any(|word| word == marked.as_bytes()))
        .count()
}

#[test]
fn a_signal_ends_a_tool_that_ignores_it_with_all_that_it_started() {
    for (number, more, limit) in [(1, 0, DRAINED), (2, 1, AT_ONCE)] {
        // A time that no other process sleeps for.
        let marked = format!("86{number}.{}", std::process::id());
        let place = deaf(&marked);
        let mut run = place.start(["run", "deaf", "--offline", "--json"]);
        run.event("tool_started");
        while alive(&marked) < 3 {
            std::thread::sleep(Duration::from_millis(10));
        }
        run.signal(Signal::TERM);
        // A signal that comes before the first was heard is the same one.
        for _ in 0..more * 5 {
            std::thread::sleep(Duration::from_millis(100));
            run.signal(Signal::TERM);
        }
        run.finish_within(limit).exits(143);
        // The kernel may still be taking them down.
        let end = std::time::Instant::now() + crate::binary::PATIENCE;
        while alive(&marked) > 0 {
            assert!(std::time::Instant::now() < end, "{} left", alive(&marked));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(place.run(["threads", "--json"]).exits(0).json()[0]["status"], "stopped");
    }
}

/// A file system in memory, of a size that can be changed.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn new(path: &'a Path, kib: u32) -> Self {
        std::fs::create_dir_all(path).unwrap();
        mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "rondo-test"], path);
        Self(path)
    }

    fn grow(&self) {
        mount(&["-o", "remount,size=64m"], self.0);
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn mount(words: &[&str], path: &Path) {
    let status = Command::new("mount").args(words).arg(path).status().unwrap();
    assert!(status.success(), "mount {words:?}");
}

fn head(run: &Finished) -> String {
    run.event("thread_finished")["head"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_on_a_full_disk_says_so_and_comes_to_the_same_head_when_there_is_room() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a file system of a given size");
        return;
    }
    let place = Place::new();
    let (disk, store) = (place.path().join("disk"), place.path().join("disk/store"));
    let rondo =
        |words: &[&str]| place.run([words, &["--offline", "--json", "--store", store.to_str().unwrap()]].concat());
    let whole = head(&place.run(["run", "review-loop", "--offline", "--json"]).exits(0));
    let (mut full, mut fitting) = (0, 0);
    for kib in [4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 256, 512, 4096] {
        let on = Disk::new(&disk, kib);
        let run = rondo(&["run", "review-loop"]);
        if run.code == Some(0) {
            fitting += 1;
        } else {
            let run = run.exits(9);
            let message = run.event("error")["message"].as_str().unwrap().to_owned();
            assert!(message.contains("No space left on device"), "{kib} KiB: {message}");
            full += 1;
        }
        on.grow();
        let listed = rondo(&["threads"]);
        let resumed = if listed.lines.is_empty() { rondo(&["run", "review-loop"]) } else { rondo(&["resume"]) };
        assert_eq!(head(&resumed.exits(0)), whole, "{kib} KiB");
    }
    assert!(full > 2 && fitting > 2, "{full} sizes were too small, {fitting} were not");
}

/// A loop of a hundred answers.
const LONG: &str = r#"
rondo: 1
name: long
roles:
  talker: { system: You talk. }
  listener: { system: You listen. }
graph:
  start: { to: talker, prompt: Begin. }
  talker: { done: { to: listener, prompt: "{{ body }}" } }
  listener:
    done: { to: talker, prompt: "{{ body }}", max: 50, on_max: { to: end } }
"#;

#[test]
fn on_a_disk_that_fills_up_what_is_in_flight_is_written_and_no_more_is_asked_for() {
    fills_up(false);
}

#[test]
fn on_a_disk_that_fills_up_a_process_beside_the_holder_asks_for_no_more() {
    fills_up(true);
}

/// Fills the disk under a run, which another process may hold the store for.
fn fills_up(has_holder: bool) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a file system of a given size");
        return;
    }
    let place = Place::new();
    place.file("long/workflow.yaml", LONG);
    let answers = |delay_ms: u64| {
        let body = "word ".repeat(40);
        format!("  - {{ delay_ms: {delay_ms}, status: done, body: \"{body}\" }}\n").repeat(60)
    };
    place.file("long/script.yaml", format!("talker:\n{0}listener:\n{0}", answers(20)));
    place.file("slow.yaml", format!("talker:\n{0}listener:\n{0}", answers(600_000)));
    let (disk, store) = (place.path().join("disk"), place.path().join("disk/store"));
    let words = |words: &[&str]| {
        let all = [words, &["--json", "--store", store.to_str().unwrap()]].concat();
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = head(&place.run(["run", "long", "--offline", "--json"]).exits(0));

    let on = Disk::new(&disk, 96 << 10);
    let holder = has_holder.then(|| {
        let mut holder = place.start(words(&["run", "long", "--script", "slow.yaml"]));
        holder.event("step_started");
        holder
    });
    let mut run = place.start(words(&["run", "long", "--offline"]));
    let thread = run.event("thread_started")["thread"].as_str().unwrap().to_owned();
    run.event("step_committed");
    let other = disk.join("other");
    let mut taken = std::fs::File::create(&other).unwrap();
    // Until nothing more fits.
    let mut fill = || while std::io::Write::write_all(&mut taken, &[1; 4096]).is_ok() {};
    fill();
    let stopped = run.finish().exits(9);
    let error = stopped.event("error");
    assert_eq!(error["code"], "RN1310", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("make room on that disk, then `rondo resume "), "{error}");
    // Every step that was asked for is there, and the thread says why it stopped.
    let shown = place.run(words(&["show", &thread])).exits(0);
    assert_eq!(shown.event("thread")["status"], "stopped");
    assert_eq!(shown.event("thread")["in_flight"], serde_json::Value::Null);
    // As long as almost nothing is free, nothing more is asked for.
    fill();
    let size = std::fs::metadata(&other).unwrap().len();
    std::fs::File::options().write(true).open(&other).unwrap().set_len(size - (6 << 20)).unwrap();
    let again = place.run(words(&["resume", &thread, "--offline"])).exits(9);
    assert_eq!(again.event("error")["code"], "RN1310");
    assert!(again.events("step_committed").is_empty());
    place.run(words(&["fsck"])).exits(0);
    std::fs::File::create(&other).unwrap();
    assert_eq!(head(&place.run(words(&["resume", &thread, "--offline"])).exits(0)), whole);
    if let Some(holder) = holder {
        holder.kill();
    }
    drop(on);
}

#[test]
fn a_run_with_too_few_descriptors_or_too_little_memory_is_resumed_to_the_same_head() {
    let words = ["run", "review-loop", "--offline", "--json"];
    let whole = head(&Place::new().run(words).exits(0));
    let limits = (4..40).step_by(2).map(|count| ("n", count)).chain((1..16).map(|step| ("v", step * 50_000)));
    let mut typed = 0;
    for (option, most) in limits {
        let place = Place::new();
        let rondo = place.command(words);
        let mut limited = Command::new("/bin/sh");
        limited.args(["-c", &format!("ulimit -{option} {most}; exec \"$@\""), "sh"]).arg(rondo.get_program());
        limited.args(rondo.get_args()).current_dir(place.path()).env_clear().env("HOME", place.home());
        limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = Running::of(limited).finish();
        typed += usize::from(run.code == Some(9));
        // Where memory runs out, the allocators of C and C++ end the process.
        assert!(matches!(run.code, Some(0 | 9)) || option == "v" && run.signal.is_some(), "{option} {most}: {run:?}");
        let listed = place.run(["threads", "--json"]).exits(0);
        let again = if listed.lines.is_empty() { place.run(words) } else { place.run(["resume", "last", "--json"]) };
        assert_eq!(head(&again.exits(0)), whole, "{option} {most}");
    }
    assert!(typed > 5, "{typed} runs had too little and said so");
}

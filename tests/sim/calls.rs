//! A fault at each call that a run makes to files: it is killed there, or the call fails.
//!
//! The calls are numbered, and one run after the other meets the fault at the next number, until a run has no such call.
//! Of each must hold: it ends with exit 0 or 9, or by the kill; the same command or `resume`, without a fault, comes to
//! the same head; every step that was acknowledged is there; and what was asked and is kept is never asked again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Finished, Place, Running};
use crate::disk::{self, Contents};
use crate::images::{damage_end, offline, resume, root_of};
use crate::injector::{Fault, Injector, Met, met};
use crate::random::{Random, seed};
use crate::server::{Act, Request, Server};

/// Ten steps, five of which are asked for twice.
const TRUNK: &str = r#"
rondo: 1
name: trunk
roles:
  writer: { system: You write., output: { drafted: {} } }
  editor: { system: You edit., output: { revise: {}, approved: {} } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { drafted: { to: editor, prompt: "Review this. {{ body }}" } }
  editor:
    revise: { to: writer, max: 4, on_max: { to: end }, prompt: "Again. {{ body }}" }
    approved: { to: end }
"#;

/// Eleven steps, six of them in three lanes.
const LANES: &str = r#"
rondo: 1
name: lanes
roles:
  planner: { system: You plan., output: { drafted: {} } }
  left: { system: You write the left part., output: { drafted: {} } }
  middle: { system: You write the middle part., output: { drafted: {} } }
  right: { system: You write the right part., output: { drafted: {} } }
  left_editor: { system: You edit the left part., output: { revise: {} } }
  middle_editor: { system: You edit the middle part., output: { revise: {} } }
  right_editor: { system: You edit the right part., output: { revise: {} } }
  merger: { system: You merge., output: { drafted: {} } }
  editor: { system: You edit., output: { revise: {} } }
  closer: { system: You close., output: { drafted: {} } }
graph:
  start: { to: planner, prompt: Plan. }
  planner:
    drafted:
      to:
        - { to: left, prompt: "Write. {{ body }}" }
        - { to: middle, prompt: "Write. {{ body }}" }
        - { to: right, prompt: "Write. {{ body }}" }
      join: merger
  left: { drafted: { to: left_editor, prompt: "Review this. {{ body }}" } }
  middle: { drafted: { to: middle_editor, prompt: "Review this. {{ body }}" } }
  right: { drafted: { to: right_editor, prompt: "Review this. {{ body }}" } }
  left_editor: { revise: { to: merger, prompt: "{{ body }}" } }
  middle_editor: { revise: { to: merger, prompt: "{{ body }}" } }
  right_editor: { revise: { to: merger, prompt: "{{ body }}" } }
  merger: { drafted: { to: editor, prompt: "Review this. {{ body }}" } }
  editor: { revise: { to: closer, prompt: "{{ body }}" } }
  closer: { drafted: { to: end } }
"#;

const PARTS: [&str; 3] = ["left", "middle", "right"];

/// An editor's first answer in a visit, which breaks the contract.
const BROKEN: &str = "It needs more work.";

/// What a model says depends on nothing but what it was asked.
fn answer(request: &Request) -> Act {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let is_editor = messages[0].to_string().contains("You edit");
    let is_asked_again = messages.iter().rev().nth(1).is_some_and(|message| message.to_string().contains(BROKEN));
    let status = if is_editor { "revise" } else { "drafted" };
    let text = format!("---\nstatus: {status}\n---\n\nAfter {} messages.\n", messages.len());
    Act::answer(if is_editor && !is_asked_again { BROKEN } else { &text }, [50, 0, 10])
}

/// The part that a request is about; none in the trunk.
fn part(body: &str) -> Option<&'static str> {
    let body: Value = serde_json::from_str(body).unwrap();
    let system = body["messages"][0].to_string();
    PARTS.into_iter().find(|part| system.contains(&format!("the {part} part")))
}

/// The requests whose answers a process must have kept: it asked for something that follows from them.
fn kept(asked: &[String]) -> BTreeSet<&str> {
    let parts: Vec<_> = asked.iter().map(|body| part(body)).collect();
    let follows = |first: usize, second: usize| {
        parts[first].is_none() || parts[second].is_none() || parts[first] == parts[second]
    };
    let is_kept = |at: &usize| (at + 1..asked.len()).any(|later| follows(*at, later));
    (0..asked.len()).filter(is_kept).map(|at| asked[at].as_str()).collect()
}

/// A command that is to meet faults.
pub struct Subject {
    name: &'static str,
    words: Vec<String>,
    /// The files before it.
    before: Vec<Contents>,
    /// Whether all is as it has to be after a fault, now and when it continues.
    holds: Box<Holds>,
    /// Where the files lie that it is given, which meet no fault.
    _inputs: TempDir,
}

type Holds = dyn Fn(&Attempt<'_>) -> Result<(), String> + Send + Sync;

type Make = fn(&'static str) -> Subject;

/// Every command that meets faults, by its name.
pub const SUBJECTS: [(&str, Make); 8] = [
    ("trunk", |name| Subject::run(name, TRUNK, 0, |_| {})),
    ("lanes", |name| Subject::run(name, LANES, 0, |_| {})),
    // Replays the log, writes tables from it, and begins another.
    ("resumed", |name| Subject::run(name, TRUNK, 5, |_| {})),
    // A copy takes the place of the database.
    ("recovered", |name| Subject::run(name, LANES, 4, damage_end)),
    ("rm", |name| Subject::upkeep(name, &["rm", "last", "--yes", "--json"], 1)),
    ("import", |name| Subject::upkeep(name, &["import", "FILE", "--json"], 3)),
    ("backup", |name| Subject::upkeep(name, &["backup", "copy", "--json"], 2)),
    ("fsck", |name| Subject::upkeep(name, &["fsck", "--json"], 2)),
];

/// A command that met a fault.
struct Attempt<'a> {
    subject: &'a Subject,
    place: Place,
    server: Server,
    finished: Finished,
}

/// What came of the faults.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// How many runs met a fault.
    runs: u64,
    /// How many of them at a call of that kind.
    kinds: BTreeMap<String, u64>,
    /// How many of them ended so.
    ends: BTreeMap<String, u64>,
    /// What was not as it has to be.
    faults: Vec<String>,
}

impl Counts {
    pub fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        let sums = [(&mut self.kinds, other.kinds), (&mut self.ends, other.ends)];
        for (sum, other) in sums {
            for (name, count) in other {
                *sum.entry(name).or_default() += count;
            }
        }
        self.faults.extend(other.faults);
    }

    pub fn shown(&self) -> String {
        let list = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        format!("{} runs ({}): {}; {} faults", self.runs, list(&self.kinds), list(&self.ends), self.faults.len())
    }

    /// # Panics
    /// If something was not as it has to be.
    pub fn holds(&self) {
        let first: Vec<_> = self.faults.iter().take(SHOWN).map(String::as_str).collect();
        assert!(self.faults.is_empty(), "{}\n{}", self.shown(), first.join("\n"));
    }
}

/// How many faults are told in full.
const SHOWN: usize = 20;

fn command(place: &Place, server: &Server, words: &[impl AsRef<str>]) -> Command {
    let mut command = place.command(words.iter().map(AsRef::as_ref));
    command.env("OPENAI_BASE_URL", server.base_url()).env("RONDO_MODEL", "fake-1");
    command
}

fn run(place: &Place, server: &Server, words: &[impl AsRef<str>]) -> Finished {
    Running::of(command(place, server, words)).finish()
}

fn served() -> Server {
    Server::reading(|_, request| answer(request))
}

/// What a server was asked after the first `known` requests.
fn asked(server: &Server, known: usize) -> Vec<String> {
    server.requests().into_iter().skip(known).map(|request| request.body).collect()
}

impl Subject {
    /// A run, or what resumes one that was killed after so many steps, in a place changed by `prepare`.
    fn run(name: &'static str, workflow: &str, steps: usize, prepare: impl Fn(&Place)) -> Self {
        let (place, server, inputs) = (Place::new(), served(), tempfile::tempdir().unwrap());
        let file = inputs.path().join("workflow.yaml");
        std::fs::write(&file, workflow).unwrap();
        let mut words = ["run", file.to_str().unwrap(), "--json"].map(str::to_owned).to_vec();
        if steps > 0 {
            let mut running = Running::of(command(&place, &server, &words));
            for _ in 0..steps {
                running.event("step_committed");
            }
            running.kill();
            words = resume();
        }
        prepare(&place);
        let (before, asked) = (disk::files(&root_of(&place)), asked(&server, 0));
        let whole = run(&place, &server, &words).exits(0);
        let head = whole.event("thread_finished")["head"].clone();
        let holds = Box::new(move |attempt: &Attempt<'_>| attempt.goes_on(&asked, &head));
        Self { name, words, before, holds, _inputs: inputs }
    }

    /// A command for a store with two threads, after which it has `threads`. `FILE` holds another one.
    fn upkeep(name: &'static str, words: &[&str], threads: usize) -> Self {
        let (place, inputs) = (Place::new(), tempfile::tempdir().unwrap());
        let file = inputs.path().join("other.jsonl");
        place.run(offline("relay")).exits(0);
        std::fs::write(&file, place.run(["export", "last"]).exits(0).text() + "\n").unwrap();
        place.run(["rm", "last", "--yes"]).exits(0);
        for _ in 0..2 {
            place.run(offline("relay")).exits(0);
        }
        let file = file.to_str().unwrap();
        let words = words.iter().map(|word| if *word == "FILE" { file } else { word }.to_owned()).collect();
        let before = disk::files(&root_of(&place));
        let holds = Box::new(move |attempt: &Attempt<'_>| attempt.is_all_or_nothing(threads));
        Self { name, words, before, holds, _inputs: inputs }
    }

    /// Runs it with a fault at its `number`-th call. `None` if it has fewer; else the call, how it ended, and what was not
    /// as it has to be.
    fn tried(&self, injector: &Injector, fault: Fault, number: usize) -> Option<(Met, String, Option<String>)> {
        let (place, server) = (Place::new(), served());
        let root = root_of(&place);
        disk::write(&self.before, &root);
        let report = tempfile::NamedTempFile::new_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        let command = command(&place, &server, &self.words);
        let finished = Running::of(injector.command(&command, &root, report.path(), fault, number)).finish();
        let met = met(report.path(), number)?;
        let end = finished.code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
        let has_ended_well = match finished.code {
            None => fault.is_kill(),
            Some(0) => !fault.is_kill(),
            Some(9) => !fault.is_kill() && !finished.events("error").is_empty(),
            Some(_) => false,
        };
        let attempt = Attempt { subject: self, place, server, finished };
        let held = if has_ended_well { (self.holds)(&attempt) } else { Err("it ended in another way".to_owned()) };
        let told = held.err().map(|why| {
            let path = met.path.strip_prefix(&root).unwrap_or(&met.path).display();
            let finished = attempt.finished;
            format!("{}, {} at call {number} ({} {path}): {why}; {finished:?}", self.name, fault.name, met.kind)
        });
        Some((met, end, told))
    }

    /// Puts a fault at every `stride`-th call from number `first` on, `most` times at most. Gives whether that was the last.
    pub fn sweep(
        &self,
        injector: &Injector,
        fault: Fault,
        (first, stride): (usize, usize),
        most: usize,
    ) -> (Counts, bool) {
        let (next, counts) = (AtomicUsize::new(0), Mutex::new((Counts::default(), false)));
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= most {
                    return;
                }
                let tried = self.tried(injector, fault, first + at * stride);
                let (counts, is_end) = &mut *counts.lock().unwrap();
                let Some((met, end, told)) = tried else {
                    *is_end = true;
                    next.store(most, Ordering::Relaxed);
                    return;
                };
                counts.runs += 1;
                *counts.kinds.entry(met.kind).or_default() += 1;
                *counts.ends.entry(end).or_default() += 1;
                counts.faults.extend(told);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(work);
            }
        });
        counts.into_inner().unwrap()
    }
}

impl Attempt<'_> {
    fn has_started(&self) -> bool {
        !self.finished.events("thread_started").is_empty()
    }

    /// The store is whole, and its threads.
    fn threads(&self, folder: &str) -> Result<usize, String> {
        let examined = self.place.run(["fsck", "--json", "--store", folder]);
        if examined.code != Some(0) {
            return Err(format!("fsck of {folder}: {examined:?}"));
        }
        Ok(self.place.run(["threads", "--json", "--store", folder]).exits(0).lines.len())
    }

    /// A run comes to its head, and loses and repeats nothing. `asked` was asked before it.
    fn goes_on(&self, asked_before: &[String], head: &Value) -> Result<(), String> {
        let Self { subject, place, server, finished } = self;
        let first = asked(server, 0);
        let listed = place.run(["threads", "--json"]);
        if listed.code != Some(0) || listed.lines.is_empty() && (self.has_started() || !asked_before.is_empty()) {
            return Err(format!("threads: {listed:?}"));
        }
        if !listed.lines.is_empty() {
            self.threads(".rondo")?;
        }
        let again = run(place, server, &if listed.lines.is_empty() { subject.words.clone() } else { resume() });
        if again.code != Some(0) || again.event("thread_finished")["head"] != *head {
            return Err(format!("continued: {again:?}"));
        }
        let committed = finished.events("step_committed");
        let shown = place.run(["show", "last", "--json"]).exits(0).events("step");
        if let Some(lost) = committed.iter().find(|event| shown.iter().all(|step| step["step"] != event["step"])) {
            return Err(format!("lost: {lost}"));
        }
        let (second, known) = (asked(server, first.len()), kept(asked_before));
        let repeated = first.iter().filter(|body| known.contains(body.as_str())).count();
        let known = &known | &kept(&first);
        let repeated = repeated + second.iter().filter(|body| known.contains(body.as_str())).count();
        let visit = |event: &Value| [&event["role"], &event["lane"], &event["visit"]].map(Value::to_string);
        let is_repeated =
            |call: &Value| call["answered_by"] == "port" && committed.iter().any(|event| visit(event) == visit(call));
        let of_steps = again.events("call_settled").iter().filter(|call| is_repeated(call)).count();
        if repeated + of_steps > 0 {
            return Err(format!("{repeated} calls and {of_steps} of committed steps were repeated: {again:?}"));
        }
        Ok(())
    }

    /// A command of upkeep, after which a store of two threads has so many, has done all or nothing, and can be repeated.
    fn is_all_or_nothing(&self, threads: usize) -> Result<(), String> {
        let Self { subject, place, finished, .. } = self;
        let there = self.threads(".rondo")?;
        let is_done = if subject.name == "backup" { place.path().join("copy").exists() } else { there == threads };
        if there != 2 && there != threads || finished.code == Some(0) && !is_done {
            return Err(format!("{there} threads"));
        }
        if !is_done || subject.name == "fsck" {
            let again = place.run(&subject.words);
            if again.code != Some(0) {
                return Err(format!("again: {again:?}"));
            }
        }
        let there = self.threads(if subject.name == "backup" { "copy" } else { ".rondo" })?;
        if there == threads { Ok(()) } else { Err(format!("{there} threads in the end")) }
    }
}

/// How many calls of a kind of fault are left out between two at each change of the code; `make soak` leaves out none.
const STRIDE: usize = 16;

#[track_caller]
fn survives(name: &str) {
    let Some(injector) = Injector::new() else { return };
    let (name, make) = SUBJECTS.into_iter().find(|(known, _)| *known == name).unwrap();
    let subject = make(name);
    let mut all = Counts::default();
    for (at, fault) in (0..).zip(Fault::ALL) {
        let first = 1 + Random::of(seed(), at).below(STRIDE);
        let (counts, _) = subject.sweep(&injector, fault, (first, STRIDE), usize::MAX);
        println!("{name}, {}: {}; RONDO_TEST_SEED={}", fault.name, counts.shown(), seed());
        all.merge(counts);
    }
    all.holds();
}

#[test]
fn a_run_survives_a_fault_at_any_call() {
    survives("trunk");
}

#[test]
fn a_run_with_lanes_survives_a_fault_at_any_call() {
    survives("lanes");
}

#[test]
fn a_resumed_run_survives_a_fault_at_any_call() {
    survives("resumed");
}

#[test]
fn a_recovery_survives_a_fault_at_any_call() {
    survives("recovered");
}

#[test]
fn upkeep_survives_a_fault_at_any_call() {
    for name in ["rm", "import", "backup", "fsck"] {
        survives(name);
    }
}

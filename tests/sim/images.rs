//! Crash images: what a loss of power may leave of a run is opened, read and continued.
//!
//! A run of the real binary is recorded ([`trace`]), and from the record the states of its folder are built
//! that a power loss allows ([`disk`]). Of each must hold: it can be opened, for reading and for writing; every step
//! whose event was written before the power loss is there, and what is there beyond these are the steps that the run
//! committed next; every request is proven; a resumed run reaches the same head.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use rondo_core::conversation::rebuild;
use rondo_store::folder::{self, FolderState};
use rondo_store::{Options, Read, RocksReader, RocksStore};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::binary::{Place, Running, fixture};
use crate::disk::{self, Change, Contents, Event, Image, Names, Run, What};
use crate::random::{Random, seed};
use crate::trace;

/// Of so many images one is continued by the real binary, which costs as much as reading ten.
const CONTINUED_OF: usize = 12;

/// Of so many images one is of the opening, which is short and makes every file.
const OPENINGS_OF: usize = 4;

/// A run whose power is lost.
pub struct Workload {
    name: &'static str,
    words: Vec<String>,
    run: Run,
    /// Where the record has got to when the run first says something.
    opening: usize,
    /// The thread's last step before the run, if it was there.
    before: Option<u64>,
    /// The digest of each step, by its number, as the whole run committed them.
    steps: BTreeMap<u64, Value>,
    head: Value,
}

/// What must be there.
#[derive(Debug, Default)]
struct Acknowledged {
    has_started: bool,
    /// The number of the last step.
    seq: u64,
}

/// What is kept of a recording, so that an image can be built again.
#[derive(Serialize, Deserialize)]
struct Recording {
    /// The folder whose files were followed; the record names them by their paths.
    root: PathBuf,
    words: Vec<String>,
    /// The digests of the steps before the run.
    steps: BTreeMap<u64, Value>,
}

/// Where the recording of a workload lies until the next.
fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sim-{}", name.replace(' ', "-")))
}

/// Asks for the kept recordings in place of new ones.
const KEPT: &str = "RONDO_SIM_KEPT";

impl Workload {
    /// Records the command `words` in a place; `None` where it cannot be recorded.
    pub fn recorded(name: &'static str, place: &Place, words: &[String]) -> Option<Self> {
        let folder = kept(name);
        if std::env::var_os(KEPT).is_some() {
            return Some(Self::of(name));
        }
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("before")).unwrap();
        let steps = if place.store().exists() { steps(place) } else { BTreeMap::new() };
        let root = root_of(place);
        disk::write(&disk::files(&root), &folder.join("before"));
        let command = trace::recorded(&place.command(words), &folder.join("calls"))?;
        Running::of(command).finish().exits(0);
        let recording = Recording { root, words: words.to_vec(), steps };
        std::fs::write(folder.join("recording.json"), serde_json::to_vec(&recording).unwrap()).unwrap();
        let workload = Self::of(name);
        workload.is_whole(place);
        Some(workload)
    }

    /// From the kept recording.
    fn of(name: &'static str) -> Self {
        let folder = kept(name);
        let recording = std::fs::read(folder.join("recording.json")).unwrap();
        let Recording { root, words, mut steps } = serde_json::from_slice(&recording).unwrap();
        let calls = trace::read(&std::fs::read_to_string(folder.join("calls")).unwrap());
        let run = Run::of(&root, disk::files(&folder.join("before")), &calls);
        let before = steps.last_key_value().map(|(seq, _)| *seq);
        let mut head = Value::Null;
        for event in events(&run.said(usize::MAX)) {
            match event["event"].as_str() {
                Some("step_committed") => {
                    steps.insert(event["seq"].as_u64().unwrap(), event["step"].clone());
                }
                Some("thread_finished") => head = event["head"].clone(),
                _ => {}
            }
        }
        let opening = (1..run.end()).find(|cut| !run.said(*cut).is_empty()).unwrap_or(run.end());
        Self { name, words, run, opening, before, steps, head }
    }

    /// Without a loss of power the record gives the files that are there, or it missed something.
    fn is_whole(&self, place: &Place) {
        let nothing = Image { cut: usize::MAX, names: Names::Any, lost: [].into(), torn: None, is_sized: false };
        let copy = Place::new();
        self.put(&nothing, &copy);
        let (built, found) = (disk::tree(&root_of(&copy)), disk::tree(&root_of(place)));
        for path in built.keys().chain(found.keys()) {
            assert!(built.get(path) == found.get(path), "{} is not as the record says", path.display());
        }
    }

    /// The same where nothing that the log held before the run had been synced, nor promised: after a loss of power the
    /// thread may have to begin again with `words`.
    fn with_unsynced_log(mut self, words: Vec<String>) -> Self {
        for node in self.run.files_with_ending(".log") {
            let Contents::File(bytes) = std::mem::replace(&mut self.run.before[node], Contents::File(Vec::new()))
            else {
                continue;
            };
            let what = What::Change(Change::Write { node, at: 0, bytes });
            self.run.events.insert(0, Event { begun: 0, ended: 0, what, shown: "what the log held before".to_owned() });
        }
        Self { before: None, words, ..self }
    }

    fn put(&self, image: &Image, place: &Place) {
        disk::write(&self.run.built(image), &root_of(place));
    }

    fn acknowledged(&self, cut: usize) -> Acknowledged {
        let mut acknowledged =
            Acknowledged { has_started: self.before.is_some(), seq: self.before.unwrap_or_default() };
        for event in events(&self.run.said(cut)) {
            match event["event"].as_str() {
                Some("thread_started") => acknowledged.has_started = true,
                Some("step_committed") => acknowledged.seq = event["seq"].as_u64().unwrap(),
                _ => {}
            }
        }
        acknowledged
    }

    /// The image of that number.
    pub fn image(&self, number: u64) -> Image {
        let mut random = Random::of(seed(), number);
        let of_opening = random.is_one_in(1, OPENINGS_OF);
        let cut = random.below(if of_opening { self.opening } else { self.run.end() });
        let names = if random.is_one_in(1, 2) { Names::Any } else { Names::Journaled };
        let pending = self.run.pending(cut, names);
        let mut image = Image { cut, names, lost: [].into(), torn: None, is_sized: random.is_one_in(1, 4) };
        if pending.is_empty() {
            return image;
        }
        let from = random.below(pending.len() + 1);
        let share = random.below(5);
        for (at, unit) in pending.iter().enumerate() {
            let is_lost = match share {
                // Everything from a point on, as where a device takes writes in order.
                0 => at >= from,
                share => random.is_one_in(share, 4),
            };
            if is_lost {
                image.lost.insert(*unit);
            }
        }
        if random.is_one_in(1, 2) {
            image.torn = pending.last().map(|unit| (*unit, random.below(512)));
        }
        if names == Names::Journaled {
            self.run.journal(&mut image, from, &pending);
        }
        image
    }

    /// What is wrong with an image.
    fn fault(&self, image: &Image, is_continued: bool) -> Option<String> {
        let place = Place::new();
        self.put(image, &place);
        let acknowledged = self.acknowledged(image.cut);
        let store = place.store();
        let read = self.read(&store, &acknowledged);
        let checked = read.and_then(|()| {
            if is_continued { self.continued(&place, &acknowledged) } else { self.opened(&store, &acknowledged) }
        });
        checked.err()
    }

    fn read(&self, store: &Path, acknowledged: &Acknowledged) -> Result<(), String> {
        let looked = folder::look(store).and_then(|found| Ok((found, rondo_store::is_unwritten(store)?)));
        let (found, is_unwritten) = looked.map_err(|error| format!("to look: {error}"))?;
        if found == FolderState::Nothing || is_unwritten {
            return if acknowledged.has_started { Err("there is no store".to_owned()) } else { Ok(()) };
        }
        let (reader, _) = RocksReader::open(store).map_err(|error| format!("to read: {error}"))?;
        self.holds(&reader, acknowledged).map_err(|fault| format!("read: {fault}"))
    }

    fn opened(&self, store: &Path, acknowledged: &Acknowledged) -> Result<(), String> {
        let (opened, _) = RocksStore::open(store, Options::default()).map_err(|error| format!("to open: {error}"))?;
        self.holds(&opened, acknowledged).map_err(|fault| format!("opened: {fault}"))
    }

    /// Compares the thread of a store with the run.
    fn holds(&self, store: &dyn Read, acknowledged: &Acknowledged) -> Result<(), String> {
        let rows = store.rows(None, 2).map_err(|error| error.to_string())?;
        let Some((thread, row)) = rows.first() else {
            return if acknowledged.has_started { Err("the thread is missing".to_owned()) } else { Ok(()) };
        };
        if rows.len() > 1 {
            return Err("there are two threads".to_owned());
        }
        if row.seq < acknowledged.seq {
            return Err(format!("{} steps are there of {} acknowledged ones", row.seq, acknowledged.seq));
        }
        let mut found = BTreeMap::new();
        if row.seq > 0 {
            let scanned = store.steps(thread, 1..=row.seq, &mut |step, _| {
                found.insert(step.seq, Value::String(step.digest.to_string()));
                true
            });
            scanned.map_err(|error| error.to_string())?;
        }
        if !found.iter().eq(self.steps.range(..=row.seq)) {
            return Err(format!("the first {} steps are not those that were committed", row.seq));
        }
        let mut wrong = None;
        let rebuilt = rebuild::requests(store, thread, row, &|_| true, &mut |request| {
            if !request.is_proven() {
                wrong = Some(format!("a request of step {} is not proven", request.seq));
            }
            wrong.is_none()
        });
        if row.seq > 0 {
            rebuilt.map_err(|error| error.to_string())?;
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Continues with the real binary, or begins again where nothing had been acknowledged.
    fn continued(&self, place: &Place, acknowledged: &Acknowledged) -> Result<(), String> {
        let listed = place.run(["threads", "--json"]);
        if listed.code != Some(0) {
            return Err(format!("threads: {listed:?}"));
        }
        if listed.lines.is_empty() && acknowledged.has_started {
            return Err("threads lists nothing".to_owned());
        }
        let resume = ["resume", "last", "--json"].map(str::to_owned).to_vec();
        let continued = place.run(if listed.lines.is_empty() { &self.words } else { &resume });
        let head = || continued.event("thread_finished")["head"].clone();
        if continued.code != Some(0) || head() != self.head {
            return Err(format!("continued: {continued:?}"));
        }
        let verified = place.run(["verify", "last", "--json"]);
        if verified.code == Some(0) { Ok(()) } else { Err(format!("verify: {verified:?}")) }
    }

    /// The least loss with a fault: what is not needed for it is put back, one unit after the other.
    fn shrunk(&self, image: &Image, is_continued: bool) -> (Image, String) {
        let mut least = image.clone();
        let mut fault = self.fault(&least, is_continued).unwrap_or_default();
        // With journaled names the last may be put back only after the first, so once is not enough.
        loop {
            let before = least.clone();
            let sized = Image { is_sized: false, ..before.clone() };
            let whole = Image { torn: None, ..before.clone() };
            let units = before.lost.iter().rev().map(|unit| {
                let mut smaller = before.lost.clone();
                smaller.remove(unit);
                Image { lost: smaller, ..before.clone() }
            });
            for candidate in [sized, whole].into_iter().chain(units) {
                // Each takes something away from what is the least by now.
                let candidate = Image {
                    lost: candidate.lost.intersection(&least.lost).copied().collect(),
                    torn: candidate.torn.and(least.torn),
                    is_sized: candidate.is_sized && least.is_sized,
                    ..least.clone()
                };
                if candidate == least || !self.run.allows(&candidate) {
                    continue;
                }
                if let Some(found) = self.fault(&candidate, is_continued) {
                    (least, fault) = (candidate, found);
                }
            }
            if least == before {
                return (least, fault);
            }
        }
    }

    /// Checks `count` images that differ, from number `first` on. Gives the number behind the last.
    ///
    /// # Panics
    /// When one is not what it must be, with the seed and the least loss that shows it.
    pub fn check(&self, first: u64, count: usize, seen: &mut HashSet<u64>) -> u64 {
        let (mut number, mut checked) = (first, 0);
        while checked < count {
            let image = self.image(number);
            number += 1;
            let mut hasher = DefaultHasher::new();
            (self.run.built(&image), self.acknowledged(image.cut).seq).hash(&mut hasher);
            if !seen.insert(hasher.finish()) {
                assert!(number - first < 100 * count as u64, "{} has fewer than {count} images", self.name);
                continue;
            }
            checked += 1;
            let is_continued = checked % CONTINUED_OF == 0;
            let Some(found) = self.fault(&image, is_continued) else { continue };
            let (least, fault) = self.shrunk(&image, is_continued);
            panic!(
                "image {} of {}: {found}\nleast loss with a fault: {fault}\n{}\nto build it again: {KEPT}=1 \
                 RONDO_TEST_SEED={}",
                number - 1,
                self.name,
                self.run.told(&least),
                seed(),
            );
        }
        number
    }
}

/// The folder of a place, with the home of its user.
pub fn root_of(place: &Place) -> PathBuf {
    place.path().parent().unwrap().to_owned()
}

/// The events in whole lines of stdout.
fn events(said: &[u8]) -> Vec<Value> {
    let lines = said.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The digests of the only thread of a place.
fn steps(place: &Place) -> BTreeMap<u64, Value> {
    let shown = place.run(["show", "last", "--json"]).exits(0).events("step");
    shown.iter().map(|step| (step["seq"].as_u64().unwrap(), step["step"].clone())).collect()
}

pub fn offline(name: &str) -> Vec<String> {
    ["run", &fixture(name), "--offline", "-i", "topic=tides", "--json"].map(str::to_owned).to_vec()
}

/// A place where a run was killed after `steps` steps.
pub fn killed(words: &[String], steps: usize) -> Place {
    let place = Place::new();
    let mut run = place.start(words);
    for _ in 0..steps {
        run.event("step_committed");
    }
    run.kill();
    place
}

/// Puts what RocksDB cannot read behind the end of the log.
pub fn damage_end(place: &Place) {
    let mut logs: Vec<_> =
        std::fs::read_dir(place.store().join("db")).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    let last = logs.iter().max().unwrap();
    let mut bytes = std::fs::read(last).unwrap();
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 1]);
    std::fs::write(last, bytes).unwrap();
}

pub fn resume() -> Vec<String> {
    ["resume", "last", "--json"].map(str::to_owned).to_vec()
}

type Record = fn(&'static str) -> Option<Workload>;

/// Every run whose power is lost, by its name.
pub const WORKLOADS: [(&str, Record); 5] = [
    ("trunk", |name| Workload::recorded(name, &Place::new(), &offline("relay"))),
    ("lanes", |name| Workload::recorded(name, &Place::new(), &offline("lanes"))),
    // Replays the log, writes tables from it, and begins another.
    ("resumed", |name| Workload::recorded(name, &killed(&offline("relay"), 5), &resume())),
    // What a killed process left to the system is found by the next one, and may be lost after that.
    ("resumed after --durability log", |name| {
        let place = killed(&[&offline("relay")[..], &["--durability", "log"].map(str::to_owned)].concat(), 5);
        let workload = Workload::recorded(name, &place, &resume())?;
        Some(workload.with_unsynced_log(offline("relay")))
    }),
    // The log ends in what RocksDB cannot read, so that a copy takes the place of the database.
    ("recovered", |name| {
        let place = killed(&offline("lanes"), 6);
        damage_end(&place);
        Workload::recorded(name, &place, &resume())
    }),
];

/// How many images of a workload are checked at each change of the code.
pub const IMAGES: usize = 625;

#[track_caller]
fn survives(name: &str) {
    let (name, record) = WORKLOADS.into_iter().find(|(known, _)| *known == name).unwrap();
    let Some(workload) = record(name) else { return };
    let tried = workload.check(0, IMAGES, &mut HashSet::new());
    println!("{IMAGES} images of {name}, of {tried} that were drawn; RONDO_TEST_SEED={}", seed());
}

#[test]
fn a_run_survives_any_loss_of_power() {
    survives("trunk");
}

#[test]
fn a_run_with_lanes_survives_any_loss_of_power() {
    survives("lanes");
}

#[test]
fn a_resumed_run_survives_any_loss_of_power() {
    survives("resumed");
}

#[test]
fn what_a_killed_run_left_unsynced_is_not_promised_by_the_next() {
    survives("resumed after --durability log");
}

#[test]
fn a_recovery_survives_any_loss_of_power() {
    survives("recovered");
}

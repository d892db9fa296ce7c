//! Damage to the bytes of a store: whatever bit is wrong, a reader gets what was stored or is told, in time.
//!
//! For each fault a copy of one store is damaged, opened for reading and read whole, then opened for writing and read
//! again. A thread that is not as it was stored, or not there, and of which nothing is said, is a wrong read; so is
//! damage that a reader meets and `fsck` does not name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rondo::upkeep;
use rondo_core::conversation::rebuild;
use rondo_store::{Options, Read, RocksReader, RocksStore};
use serde::{Deserialize, Serialize};

use crate::binary::Place;
use crate::images::{killed, offline, resume};
use crate::random::{Random, seed};
use crate::workers::{Answer, Worker, work};

/// How long a fault may take.
const LIMIT: Duration = Duration::from_secs(2);
/// For a second attempt: a machine under load is slow, a hang is endless.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bytes of a file's header, of which every bit is tried.
const HEAD_BYTES: usize = 64;
/// Those at its end: its footer, and what was written last.
const TAIL_BYTES: usize = 4 << 10;

/// The worker's test.
pub const WORKER: &str = "damage::worker";

/// What is wrong with a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fault {
    file: PathBuf,
    at: usize,
    how: How,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum How {
    Bit(u8),
    /// So many bytes are not there.
    Cut(usize),
}

impl Fault {
    /// Copies the store in `from` to `to`, and damages the copy.
    pub fn copied(&self, from: &Path, to: &Path) {
        copy(from, to, Some(&self.file));
        let damaged = to.join(&self.file);
        let mut bytes = std::fs::read(&damaged).unwrap();
        match self.how {
            How::Bit(bit) => bytes[self.at] ^= 1 << bit,
            How::Cut(count) => drop(bytes.drain(self.at..bytes.len().min(self.at + count))),
        }
        std::fs::write(&damaged, bytes).unwrap();
    }
}

/// A store to damage.
pub struct Subject {
    folder: PathBuf,
    files: Vec<(PathBuf, usize)>,
}

/// What came of the faults that were tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub tried: u64,
    /// Nothing that is read depends on the bit, or it was mended.
    pub harmless: u64,
    pub told: u64,
    pub wrong: u64,
    pub hung: u64,
    pub died: u64,
    /// The first of the last three, for people.
    pub examples: Vec<String>,
}

/// The most examples that are kept.
const EXAMPLES: usize = 20;

impl Counts {
    pub fn faults(&self) -> u64 {
        self.wrong + self.hung + self.died
    }

    fn add(&mut self, fault: &Fault, answer: &Answer) {
        self.tried += 1;
        let (count, example) = match answer {
            Answer::Said(said) if said == "harmless" => (&mut self.harmless, None),
            Answer::Said(said) if said == "told" => (&mut self.told, None),
            Answer::Said(said) => (&mut self.wrong, Some(said.as_str())),
            Answer::Hung => (&mut self.hung, Some("no answer in time")),
            Answer::Died(told) => (&mut self.died, Some(told.as_str())),
        };
        *count += 1;
        if let Some(example) = example.filter(|_| self.examples.len() < EXAMPLES) {
            self.examples.push(format!("{fault:?}: {example}"));
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.tried += other.tried;
        self.harmless += other.harmless;
        self.told += other.told;
        self.wrong += other.wrong;
        self.hung += other.hung;
        self.died += other.died;
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES);
    }

    pub fn shown(&self) -> String {
        let Self { tried, harmless, told, wrong, hung, died, examples } = self;
        let mut text = format!(
            "{tried} faults: {harmless} harmless, {told} told, {wrong} wrong reads, {hung} hangs, {died} panics"
        );
        for example in examples {
            write!(text, "\n  {example}").unwrap();
        }
        text
    }
}

/// Makes the store that is damaged: threads of two workflows, in tables and in a log.
pub fn make(folder: &Path) {
    let place = killed(&offline("relay"), 4);
    place.run(resume()).exits(0);
    place.run(offline("lanes")).exits(0);
    place.run(offline("relay")).exits(0);
    let mut stopped = place.start(offline("lanes"));
    for _ in 0..3 {
        stopped.event("step_committed");
    }
    stopped.kill();
    copy(&place.store(), folder, None);
}

impl Subject {
    /// The store in `folder`.
    pub fn of(folder: &Path) -> Self {
        let mut files = Vec::new();
        for part in ["", "db"] {
            for entry in std::fs::read_dir(folder.join(part)).unwrap() {
                let entry = entry.unwrap();
                let size = usize::try_from(entry.metadata().unwrap().len()).unwrap();
                let file = Path::new(part).join(entry.file_name());
                // What the lock and the owner say is checked elsewhere; nothing that is stored depends on it.
                let is_data = part == "db" || file == Path::new("anchor");
                if entry.file_type().unwrap().is_file() && size > 0 && is_data {
                    files.push((file, size));
                }
            }
        }
        files.sort();
        Self { folder: folder.to_owned(), files }
    }

    /// How large all files are together.
    pub fn size_bytes(&self) -> usize {
        self.files.iter().map(|(_, size)| size).sum()
    }

    /// The wrong bit of that number of a seed.
    pub fn drawn(&self, number: u64) -> Fault {
        let mut random = Random::of(seed(), number);
        // Files differ in size a thousandfold: half of the faults go by file, half by byte.
        let (file, at) = if random.is_one_in(1, 2) {
            let (file, size) = &self.files[random.below(self.files.len())];
            (file, random.below(*size))
        } else {
            self.place(random.below(self.size_bytes()))
        };
        Fault { file: file.clone(), at, how: How::Bit(u8::try_from(random.below(8)).unwrap()) }
    }

    /// 1, 10 and 100 missing bytes at so many places.
    pub fn cuts(&self, places: usize) -> Vec<Fault> {
        let at = |number: usize| self.size_bytes() * number / places;
        let cuts = (0..places)
            .map(at)
            .map(|at| self.place(at))
            .flat_map(|(file, at)| [1, 10, 100].map(|bytes| Fault { file: file.clone(), at, how: How::Cut(bytes) }));
        cuts.collect()
    }

    /// The file, and the place in it, of a byte that is counted through all files.
    fn place(&self, mut at: usize) -> (&PathBuf, usize) {
        let is_behind = |(_, size): &&(PathBuf, usize)| at.checked_sub(*size).map(|rest| at = rest).is_none();
        let (file, _) = self.files.iter().find(is_behind).unwrap();
        (file, at)
    }

    /// Every fault of the sweep: all bits of the head and tail of each file, and one bit of each byte. Mixed, always in
    /// the same order, so that a part of it has something of everything.
    pub fn sweep(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (file, size) in &self.files {
            let is_close = |at: usize| at < HEAD_BYTES || at + TAIL_BYTES >= *size;
            for at in (0..*size).filter(|at| is_close(*at)) {
                faults.extend((0..8).map(|bit| Fault { file: file.clone(), at, how: How::Bit(bit) }));
            }
        }
        for (file, size) in &self.files {
            faults.extend((0..*size).map(|at| {
                let bit = Random::of(0, at as u64).below(8);
                Fault { file: file.clone(), at, how: How::Bit(u8::try_from(bit).unwrap()) }
            }));
        }
        let mut random = Random::of(0, 0);
        for at in (1..faults.len()).rev() {
            faults.swap(at, random.below(at + 1));
        }
        faults
    }

    /// Tries faults with as many workers, in the ignored test `worker`, as there are processors.
    pub fn tried(&self, faults: &[Fault], worker: &'static str) -> Counts {
        let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let share = faults.len().div_ceil(workers).max(1);
        let mut counts = Counts::default();
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                faults.chunks(share).map(|part| scope.spawn(|| self.tried_by_one(part, worker))).collect();
            for part in parts {
                counts.merge(part.join().unwrap());
            }
        });
        counts
    }

    fn tried_by_one(&self, faults: &[Fault], worker: &'static str) -> Counts {
        let (mut counts, mut worker) = (Counts::default(), Worker::new(worker));
        for fault in faults {
            let work = serde_json::to_string(&(&self.folder, fault)).unwrap();
            let mut answer = worker.ask(&work, LIMIT);
            if answer == Answer::Hung {
                answer = worker.ask(&work, PATIENCE);
            }
            counts.add(fault, &answer);
        }
        counts
    }
}

/// Copies a store; tables, which nobody changes, are linked, but for the file `but`.
pub fn copy(from: &Path, to: &Path, but: Option<&Path>) {
    std::fs::create_dir_all(to.join("db")).unwrap();
    for part in ["", "db"] {
        for entry in std::fs::read_dir(from.join(part)).unwrap() {
            let entry = entry.unwrap();
            let file = Path::new(part).join(entry.file_name());
            if !entry.file_type().unwrap().is_file() {
                continue;
            }
            let is_table = file.extension().is_some_and(|extension| extension == "sst");
            let is_linked = is_table && but != Some(&file) && std::fs::hard_link(entry.path(), to.join(&file)).is_ok();
            if !is_linked {
                std::fs::copy(entry.path(), to.join(&file)).unwrap();
            }
        }
    }
}

/// A digest of everything that is read of each thread, or what is said instead.
type Contents = BTreeMap<String, Result<u64, String>>;

fn contents(store: &dyn Read) -> Result<Contents, String> {
    let rows = store.rows(None, 1000).map_err(|error| error.to_string())?;
    let digest = |thread: &_, row: &rondo_store::Row| -> Result<u64, String> {
        let told = |error: rondo_store::Error| error.to_string();
        let mut hasher = DefaultHasher::new();
        format!("{row:?}").hash(&mut hasher);
        format!("{:?}", store.lanes(thread, None, 1000).map_err(told)?).hash(&mut hasher);
        for lane in store.journaled_lanes(thread).map_err(told)? {
            format!("{:?}", store.journal(thread, &lane).map_err(told)?).hash(&mut hasher);
        }
        if row.seq > 0 {
            let steps = store.steps(thread, 1..=row.seq, &mut |step, note| {
                format!("{step:?} {note:?}").hash(&mut hasher);
                true
            });
            steps.map_err(told)?;
            let requests = rebuild::requests(store, thread, row, &|_| true, &mut |request| {
                format!("{request:?}").hash(&mut hasher);
                true
            });
            requests.map_err(|error| error.to_string())?;
        }
        Ok(hasher.finish())
    };
    Ok(rows.iter().map(|(thread, row)| (thread.to_string(), digest(thread, row))).collect())
}

/// What is wrong with what was read; `Ok(true)` where it is all that was stored.
fn compared(whole: &Contents, found: Result<Contents, String>) -> Result<bool, String> {
    let Ok(found) = found else { return Ok(false) };
    if let Some(strange) = found.keys().find(|thread| !whole.contains_key(*thread)) {
        return Err(format!("thread {strange} was never stored"));
    }
    let mut is_whole = true;
    for (thread, stored) in whole {
        match found.get(thread) {
            None => return Err(format!("thread {thread} has vanished")),
            Some(Err(_)) => is_whole = false,
            Some(read) if read != stored => return Err(format!("thread {thread} is read and not what was stored")),
            Some(_) => {}
        }
    }
    Ok(is_whole)
}

fn answered(whole: &Contents, store: &Path, fault: &Fault) -> Result<&'static str, String> {
    let copied = Place::new();
    let folder = copied.store();
    fault.copied(store, &folder);
    let read = RocksReader::open(&folder).map_err(|error| error.to_string());
    let is_read = compared(whole, read.and_then(|(reader, _)| contents(&reader)))?;
    if !is_read && upkeep::fsck(&folder, None, &mut |_| {}).is_ok_and(|examined| examined.faults.is_empty()) {
        return Err("fsck names no damage".to_owned());
    }
    let written = RocksStore::open(&folder, Options::default()).map_err(|error| error.to_string());
    let is_written = compared(whole, written.and_then(|(store, _)| contents(&store)));
    let is_written = is_written.map_err(|fault| format!("opened for writing: {fault}"))?;
    Ok(if is_read && is_written { "harmless" } else { "told" })
}

#[test]
#[ignore = "a worker of the tests beside it"]
fn worker() {
    let mut known: BTreeMap<PathBuf, Contents> = BTreeMap::new();
    work(|line| {
        let (store, fault): (PathBuf, Fault) = serde_json::from_str(line).unwrap();
        let whole = known.entry(store.clone()).or_insert_with(|| {
            let copied = Place::new();
            copy(&store, &copied.store(), None);
            let (reader, _) = RocksReader::open(&copied.store()).unwrap();
            let whole = contents(&reader).unwrap();
            assert!(whole.len() == 4 && whole.values().all(Result::is_ok), "{whole:?}");
            whole
        });
        answered(whole, &store, &fault).map_or_else(|wrong| wrong, str::to_owned)
    });
}

/// How many bits are tried at each change of the code.
const BITS: u64 = 2500;

#[test]
fn no_wrong_bit_is_believed() {
    let place = Place::new();
    let folder = place.path().join("store");
    make(&folder);
    let subject = Subject::of(&folder);
    let faults: Vec<Fault> = (0..BITS).map(|number| subject.drawn(number)).collect();
    let counts = subject.tried(&faults, WORKER);
    println!("{} bytes; {}; RONDO_TEST_SEED={}", subject.size_bytes(), counts.shown(), seed());
    assert_eq!(counts.faults(), 0, "{}", counts.shown());
    assert!(counts.told > BITS / 4, "so little is told that nothing can have been read: {}", counts.shown());
}

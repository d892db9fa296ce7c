//! Tests that only apply to a store with files: crashes, damaged files, other processes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::tests::steps::{Trunk, answers, thread};
use super::super::{Read, StepStore};
use super::*;

mod openings;

fn open(folder: &Path) -> Result<(RocksStore, Vec<String>), Error> {
    RocksStore::open(folder, Options::default())
}

/// A copy of a store's folder as a crash at this moment would leave it: files are copied during writes.
fn crash(folder: &Path) -> tempfile::TempDir {
    let crashed = tempfile::tempdir().unwrap();
    copy_folder(folder, crashed.path());
    crashed
}

/// Copies the anchor before the database: a database on a device is never behind its anchor.
fn copy_folder(from: &Path, to: &Path) {
    let mut entries: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_folder(&path, &target);
        } else if fs::copy(&path, &target).is_err() {
            assert!(!path.exists(), "{} vanished while it was copied, or else it can be read", path.display());
        }
    }
}

/// The database files with an extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(DATABASE)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

/// The log with the latest writes.
fn log(folder: &Path) -> PathBuf {
    let mut logs = files(folder, "log");
    logs.retain(|path| fs::metadata(path).unwrap().len() > 0);
    logs.pop().unwrap()
}

/// Every file and its bytes, except the lock.
fn contents(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut all = std::collections::BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if !path.ends_with("lock") {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// A store of `steps` steps whose process was killed.
async fn killed(steps: u64) -> (tempfile::TempDir, Trunk) {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    let mut trunk = Trunk::new(1);
    for number in 1..=steps {
        store.commit(trunk.next(&number.to_string())).await.unwrap();
    }
    (crash(folder.path()), trunk)
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn read_all(folder: &Path) -> Result<usize, Error> {
    let (reader, _) = RocksReader::open(folder)?;
    answers(&reader, &thread(1)).map(|answers| answers.len())
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    let mut trunk = Trunk::new(1);
    for round in 1..=5 {
        for number in 0..40 {
            store.commit(trunk.next(&format!("{round} {number}"))).await.unwrap();
        }
        let crashed = crash(folder.path());
        assert_eq!(read_all(crashed.path()), Ok(round * 40));
        let (again, notices) = open(crashed.path()).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        assert_eq!(answers(&again, &thread(1)).unwrap().len(), round * 40);
    }
}

#[tokio::test]
async fn a_store_that_was_closed_is_the_same_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut trunk = Trunk::new(1);
    for round in 1..=3 {
        let (store, notices) = open(folder.path()).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        store.commit(trunk.next("one")).await.unwrap();
        assert_eq!(answers(&store, &thread(1)).unwrap().len(), round);
    }
}

#[tokio::test]
async fn damage_that_loses_acknowledged_steps_is_refused_and_changes_nothing() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 7] = [
        ("a bit in the middle of the log", |folder| {
            let log = log(folder);
            flip(&log, fs::metadata(&log).unwrap().len() / 2);
        }),
        ("a bit in the last record", |folder| {
            let log = log(folder);
            flip(&log, fs::metadata(&log).unwrap().len() - 40);
        }),
        ("a zeroed record", |folder| {
            let log = log(folder);
            let middle = fs::metadata(&log).unwrap().len() / 2;
            OpenOptions::new().write(true).open(&log).unwrap().write_all_at(&[0; 1500], middle).unwrap();
        }),
        ("half of the log", |folder| {
            let log = log(folder);
            let length = fs::metadata(&log).unwrap().len();
            OpenOptions::new().write(true).open(&log).unwrap().set_len(length / 2).unwrap();
        }),
        ("the last bytes of the log", |folder| {
            let log = log(folder);
            let length = fs::metadata(&log).unwrap().len();
            OpenOptions::new().write(true).open(&log).unwrap().set_len(length - 50).unwrap();
        }),
        ("no log", |folder| fs::remove_file(log(folder)).unwrap()),
        ("no database", |folder| fs::remove_dir_all(folder.join(DATABASE)).unwrap()),
    ];
    for (name, harm) in harms {
        let (folder, _) = killed(100).await;
        harm(folder.path());
        let before = contents(folder.path());
        let refused = open(folder.path()).map(|_| ());
        let Err(Error::Damaged(damage)) = &refused else { panic!("{name}: {refused:?}") };
        let what = &damage.what;
        assert!(what.ends_with("of 100 acknowledged steps are missing"), "{name}: {what}");
        assert_eq!(contents(folder.path()), before, "{name}: a failed opening changed files");
        assert!(matches!(read_all(folder.path()), Err(Error::Damaged { .. })), "{name}: {:?}", read_all(folder.path()));
        assert_eq!(contents(folder.path()), before, "{name}: a reader changed files");
    }
}

#[tokio::test]
async fn a_damaged_end_that_nobody_was_promised_is_recovered_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    let mut trunk = Trunk::new(1);
    for number in 1..=20 {
        store.commit(trunk.next(&number.to_string())).await.unwrap();
    }
    let crashed = crash(folder.path());
    let promised = fs::read(crashed.path().join("anchor")).unwrap();
    for number in 21..=30 {
        store.commit(trunk.next(&number.to_string())).await.unwrap();
    }
    let crashed = crash(folder.path());
    fs::write(crashed.path().join("anchor"), promised).unwrap();
    let log = log(crashed.path());
    flip(&log, fs::metadata(&log).unwrap().len() - 40);

    assert!(read_all(crashed.path()).is_ok_and(|steps| (20..30).contains(&steps)));
    let (again, notices) = open(crashed.path()).unwrap();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].ends_with("the damaged files are in damaged-1"), "{notices:?}");
    let steps = answers(&again, &thread(1)).unwrap().len();
    assert!((20..30).contains(&steps), "{steps}");
    drop(again);
    assert_eq!(open(crashed.path()).unwrap().1, Vec::<String>::new());
}

#[tokio::test]
async fn two_openers_exclude_each_other_even_without_rocksdbs_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    fs::remove_file(folder.path().join(DATABASE).join("LOCK")).unwrap();
    assert_eq!(open(folder.path()).map(|_| ()), Err(Error::Busy { pid: std::process::id() }));
    store.commit(Trunk::new(1).next("one")).await.unwrap();
}

#[tokio::test]
async fn a_reader_beside_the_writer_sees_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    let mut trunk = Trunk::new(1);
    store.commit(trunk.next("one")).await.unwrap();
    for number in 2..50 {
        store.commit(trunk.next(&number.to_string())).await.unwrap();
        let (reader, notices) = RocksReader::open(folder.path()).unwrap();
        assert_eq!(notices, Vec::<String>::new());
        assert_eq!(answers(&reader, &trunk.thread).unwrap().len(), number);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_opens_while_logs_become_tables_sees_what_was_acknowledged() {
    const COMMITS: usize = 150;
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let committed = Arc::clone(&acknowledged);
    let writing = tokio::spawn(async move {
        let mut trunk = Trunk::new(1);
        for number in 1..=COMMITS {
            store.commit(trunk.next(&number.to_string())).await.unwrap();
            committed.store(number, Ordering::SeqCst);
            // A log is deleted with the last family that it was needed for.
            for family in Family::ALL {
                store.tables.db.flush_cf(&store.tables.family(family).unwrap()).unwrap();
            }
        }
    });
    while !writing.is_finished() {
        let before = acknowledged.load(Ordering::SeqCst);
        let folder = folder.path().to_owned();
        let read = tokio::task::spawn_blocking(move || read_all(&folder)).await.unwrap();
        match read {
            Ok(steps) => assert!(steps >= before, "{steps} of {before}"),
            // Tables came and went at each attempt.
            Err(Error::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    writing.await.unwrap();
    assert_eq!(read_all(folder.path()), Ok(COMMITS));
}

#[tokio::test]
async fn a_reader_tells_of_every_table_that_is_gone() {
    let (folder, _) = killed(5).await;
    // Opening for writing flushes the log to tables.
    drop(open(folder.path()).unwrap());
    let tables = files(folder.path(), "sst");
    assert!(!tables.is_empty());
    for table in tables {
        let kept = fs::read(&table).unwrap();
        fs::remove_file(&table).unwrap();
        assert!(matches!(read_all(folder.path()), Err(Error::Damaged { .. })), "{}", table.display());
        fs::write(&table, kept).unwrap();
    }
    assert_eq!(read_all(folder.path()), Ok(5));
}

#[tokio::test]
async fn a_missing_or_unreadable_anchor_is_said() {
    for harm in [None, Some(vec![0_u8; 100])] {
        let (folder, _) = killed(3).await;
        let anchor = folder.path().join("anchor");
        match harm {
            None => fs::remove_file(&anchor).unwrap(),
            Some(bytes) => fs::write(&anchor, bytes).unwrap(),
        }
        let (store, notices) = open(folder.path()).unwrap();
        assert_eq!(notices.len(), 1);
        assert_eq!(answers(&store, &thread(1)).unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_step_lost_from_the_tables_is_damage() {
    let (folder, trunk) = killed(5).await;
    let (store, _) = open(folder.path()).unwrap();
    let cut = |seq| {
        store
            .tables
            .write(vec![Change { family: Family::Steps, key: keys::step(&trunk.thread, seq), value: None }], true)
    };
    cut(5).unwrap();
    let missing = |seq| {
        let damage = Damage::new(format!("step {seq} of thread {} is missing", trunk.thread)).of_thread(&trunk.thread);
        Err(damage.at(Family::Steps, &keys::step(&trunk.thread, seq)).into())
    };
    assert_eq!(answers(&store, &trunk.thread), missing(5));
    assert_eq!(store.step(&trunk.thread, 5).map(|_| Vec::new()), missing(5));
    cut(3).unwrap();
    assert_eq!(answers(&store, &trunk.thread), missing(3));
}

#[test]
fn a_place_that_cannot_hold_a_store_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(open(&file), Err(Error::Io { .. })));
    assert!(matches!(open(&file.join("below")), Err(Error::Io { .. })));
    assert!(matches!(RocksReader::open(&folder.path().join("none")), Err(Error::Io { .. })));
    let made = folder.path().join("a/b");
    open(&made).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&made).unwrap().permissions()) & 0o777, 0o700);
}

/// A copy of a store made by an earlier version.
fn earlier(name: &str) -> tempfile::TempDir {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/stores").join(name);
    crash(&fixture)
}

#[tokio::test]
async fn a_store_of_the_first_format_is_refused_with_both_formats_named_and_left_as_it_is() {
    let folder = earlier("format-1");
    folder::make(folder.path()).unwrap();
    let before = contents(folder.path());
    let refused = Error::Format { found: 1, known: 2 };
    assert_eq!(open(folder.path()).map(|_| ()), Err(refused.clone()));
    assert_eq!(RocksReader::open(folder.path()).map(|_| ()), Err(refused.clone()));
    assert_eq!(refused.to_string(), "the store has format 1; this version of rondo reads format 2");
    assert_eq!(contents(folder.path()), before);
}

#[tokio::test]
async fn a_store_says_its_format_before_anything_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let (reader, _) = RocksReader::open(folder.path()).unwrap();
    assert_eq!(reader.get(Family::Meta, keys::FORMAT), Ok(Some(vec![0, 0, 0, 2])));
    drop(reader);
    let (store, _) = open(folder.path()).unwrap();
    let newer = Change { family: Family::Meta, key: keys::FORMAT.to_vec(), value: Some(vec![0, 0, 0, 3]) };
    store.tables.write(vec![newer], true).unwrap();
    drop(store);
    assert_eq!(open(folder.path()).map(|_| ()), Err(Error::Format { found: 3, known: 2 }));
}

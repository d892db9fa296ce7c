//! Openings: what they must not do to a damaged store, and which processes may hold it.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc;
use std::time::Duration;

use super::*;

/// How long an opening of invalid data may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The results of an opening for writing and of a reader, each within the time limit.
fn in_time(folder: &Path) -> [Result<usize, Error>; 2] {
    let (done, outcome) = mpsc::channel();
    let place = folder.to_owned();
    std::thread::spawn(move || {
        let read = read_all(&place);
        let written = open(&place).and_then(|(store, _)| answers(&store, &thread(1))).map(|answers| answers.len());
        done.send([read, written]).unwrap();
    });
    outcome.recv_timeout(PATIENCE).expect("an opening takes too long")
}

fn manifest_of(folder: &Path) -> PathBuf {
    manifest::current(&folder.join(DATABASE)).unwrap().unwrap().1
}

/// The offset of the last record of a log or manifest.
fn last_record(path: &Path) -> usize {
    let (bytes, mut at, mut last) = (fs::read(path).unwrap(), 0, 0);
    while let Some(header) = bytes.get(at..at + 7) {
        last = at;
        at += 7 + usize::from(u16::from_le_bytes([header[4], header[5]]));
    }
    last
}

fn flush(store: &RocksStore) {
    let families = Family::ALL.map(|family| store.tables.family(family).unwrap());
    store.tables.db.flush_cfs_opt(&families, &FlushOptions::default()).unwrap();
}

async fn flushed() -> tempfile::TempDir {
    flushed_with(Durability::Sync).await
}

/// A store of two threads whose process was killed: each of the first steps is in its own table.
async fn flushed_with(durability: Durability) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = RocksStore::open(folder.path(), Options { durability, owner: None }).unwrap();
    let (mut one, mut two) = (Trunk::new(1), Trunk::new(2));
    for number in 1..=3 {
        store.commit(one.next(&number.to_string())).await.unwrap();
        flush(&store);
    }
    for number in 1..=3 {
        store.commit(two.next(&number.to_string())).await.unwrap();
    }
    crash(folder.path())
}

/// Like [`crash`], while tables come and go: the manifest is copied before the files it names, none of which is
/// deleted.
fn crash_while_files_change(store: &RocksStore, folder: &Path) -> tempfile::TempDir {
    let crashed = tempfile::tempdir().unwrap();
    store.tables.db.disable_file_deletions().unwrap();
    fs::copy(folder.join("anchor"), crashed.path().join("anchor")).unwrap();
    fs::create_dir(crashed.path().join(DATABASE)).unwrap();
    let manifest = manifest_of(folder);
    for path in [&manifest, &folder.join(DATABASE).join(manifest::CURRENT)] {
        fs::copy(path, crashed.path().join(DATABASE).join(path.file_name().unwrap())).unwrap();
    }
    for path in ["sst", "log"].iter().flat_map(|extension| files(folder, extension)) {
        fs::copy(&path, crashed.path().join(DATABASE).join(path.file_name().unwrap())).unwrap();
    }
    store.tables.db.enable_file_deletions().unwrap();
    crashed
}

fn is_damaged(outcome: &Result<usize, Error>) -> bool {
    matches!(outcome, Err(Error::Damaged(_)))
}

#[tokio::test]
async fn a_manifest_that_lost_its_end_is_told_and_nothing_is_deleted() {
    let whole = flushed().await;
    let path = manifest_of(whole.path());
    let bytes = fs::read(&path).unwrap();
    for end in (0..bytes.len()).step_by(19).chain([last_record(&path), bytes.len() - 1]) {
        let folder = crash(whole.path());
        fs::write(manifest_of(folder.path()), &bytes[..end]).unwrap();
        let before = contents(folder.path());
        for outcome in in_time(folder.path()) {
            assert!(is_damaged(&outcome), "cut at {end} of {}: {outcome:?}", bytes.len());
        }
        assert_eq!(contents(folder.path()), before, "cut at {end}: files changed");
        // The error names the file, so that a person knows where to look.
        let Err(Error::Damaged(damage)) = open(folder.path()) else { panic!("cut at {end}") };
        assert!(damage.file.is_some_and(|file| file.starts_with("db/MANIFEST-")), "cut at {end}");
    }
    assert_eq!(in_time(whole.path()), [Ok(3), Ok(3)]);
}

#[tokio::test]
async fn without_an_anchor_a_manifest_that_lost_its_end_still_deletes_nothing() {
    let whole = flushed().await;
    let path = manifest_of(whole.path());
    let bytes = fs::read(&path).unwrap();
    for end in (0..bytes.len()).step_by(37) {
        let folder = crash(whole.path());
        fs::remove_file(folder.path().join("anchor")).unwrap();
        fs::write(manifest_of(folder.path()), &bytes[..end]).unwrap();
        let tables = files(folder.path(), "sst").len();
        for outcome in in_time(folder.path()) {
            // Possibly no table was named after the cut.
            assert!(is_damaged(&outcome) || outcome == Ok(3), "cut at {end}: {outcome:?}");
        }
        assert!(files(folder.path(), "sst").len() >= tables, "cut at {end}: a table was deleted");
    }
}

#[tokio::test]
async fn whichever_two_files_are_gone_the_steps_are_there_or_missing_and_told() {
    let whole = flushed().await;
    let all: Vec<_> = contents(whole.path()).into_keys().collect();
    let within = |path: &Path| path.strip_prefix(whole.path()).unwrap().to_owned();
    for (at, first) in all.iter().enumerate() {
        for second in &all[at..] {
            let lost = [within(first), within(second)];
            let is_lost = |ending: &str| lost.iter().any(|name| name.to_str().unwrap().ends_with(ending));
            if is_lost("anchor") && is_lost(".log") {
                // The anchor alone knew of the end. A notice says that it is gone.
                continue;
            }
            let folder = crash(whole.path());
            for name in &lost {
                let _ = fs::remove_file(folder.path().join(name));
            }
            let tables = files(folder.path(), "sst");
            let [read, written] = in_time(folder.path());
            for outcome in [&read, &written] {
                assert!(is_damaged(outcome) || *outcome == Ok(3), "without {lost:?}: {outcome:?}");
            }
            if is_damaged(&written) {
                assert_eq!(files(folder.path(), "sst"), tables, "without {lost:?}: a table was deleted");
            }
            assert_eq!(is_unwritten(folder.path()), Ok(false), "without {lost:?}");
        }
    }
}

#[tokio::test]
async fn a_manifest_that_lost_its_end_is_told_where_commits_are_not_synced_too() {
    let folder = flushed_with(Durability::Log).await;
    let path = manifest_of(folder.path());
    let end = last_record(&path) as u64;
    OpenOptions::new().write(true).open(&path).unwrap().set_len(end).unwrap();
    let before = contents(folder.path());
    for outcome in in_time(folder.path()) {
        assert!(is_damaged(&outcome), "{outcome:?}");
    }
    assert_eq!(contents(folder.path()), before);
}

#[tokio::test]
async fn an_older_manifest_is_told_by_its_number() {
    let folder = flushed().await;
    let older = fs::read(manifest_of(folder.path())).unwrap();
    let name = manifest_of(folder.path()).file_name().unwrap().to_owned();
    drop(open(folder.path()).unwrap());
    fs::write(folder.path().join(DATABASE).join(&name), older).unwrap();
    fs::write(folder.path().join(DATABASE).join(manifest::CURRENT), format!("{}\n", name.to_str().unwrap())).unwrap();
    let before = contents(folder.path());
    for outcome in in_time(folder.path()) {
        assert!(is_damaged(&outcome), "{outcome:?}");
    }
    assert_eq!(contents(folder.path()), before);
}

#[tokio::test]
async fn a_record_type_that_rocksdb_cannot_get_past_is_told_in_time() {
    let whole = flushed().await;
    for kind in [5, 6] {
        for is_log in [true, false] {
            let folder = crash(whole.path());
            let path = if is_log { log(folder.path()) } else { manifest_of(folder.path()) };
            let at = last_record(&path) as u64 + 6;
            OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[kind], at).unwrap();
            let before = contents(folder.path());
            for outcome in in_time(folder.path()) {
                assert!(is_damaged(&outcome), "type {kind} in {}: {outcome:?}", path.display());
            }
            assert_eq!(contents(folder.path()), before);
        }
    }
}

#[tokio::test]
async fn seven_bytes_behind_the_end_lose_nothing_or_are_told_in_time() {
    let whole = flushed().await;
    for kind in [0, 1, 5, 6, 11, 131] {
        for is_log in [true, false] {
            let folder = crash(whole.path());
            let path = if is_log { log(folder.path()) } else { manifest_of(folder.path()) };
            let mut bytes = fs::read(&path).unwrap();
            bytes.extend([0, 0, 0, 0, 0, 0, kind]);
            fs::write(&path, bytes).unwrap();
            for outcome in in_time(folder.path()) {
                let is_right = outcome == Ok(3) || !is_log && is_damaged(&outcome);
                assert!(is_right, "type {kind} in {}: {outcome:?}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn a_table_that_a_crash_left_is_no_damage_unless_the_anchor_is_gone() {
    let folder = flushed().await;
    let left = folder.path().join(DATABASE).join("000999.sst");
    fs::write(&left, b"half a table").unwrap();
    let without = crash(folder.path());
    assert_eq!(in_time(folder.path()), [Ok(3), Ok(3)]);

    fs::remove_file(without.path().join("anchor")).unwrap();
    let before = contents(without.path());
    let refused = open(without.path()).map(|_| ());
    let Err(Error::Damaged(damage)) = &refused else { panic!("{refused:?}") };
    assert_eq!(damage.file.as_deref(), Some("db/000999.sst"));
    assert_eq!(contents(without.path()), before);
}

#[tokio::test]
async fn a_killed_process_may_be_in_the_middle_of_a_flush_or_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path()).unwrap();
    let mut trunk = Trunk::new(1);
    for round in 1..=12_usize {
        for number in 0..5 {
            store.commit(trunk.next(&format!("{round} {number}"))).await.unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| flush(&store));
            let crashed = crash_while_files_change(&store, folder.path());
            for outcome in in_time(crashed.path()) {
                assert_eq!(outcome, Ok(round * 5));
            }
        });
    }
}

#[test]
fn deleting_the_locks_while_many_open_ruins_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (ends, inside, rounds) = (AtomicBool::new(false), AtomicU64::new(0), 40);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let _ = fs::remove_file(folder.path().join("lock"));
                let _ = fs::remove_file(folder.path().join(DATABASE).join("LOCK"));
                std::thread::yield_now();
            }
        });
        let openers: Vec<_> = (1..=2)
            .map(|number| {
                let (folder, inside) = (&folder, &inside);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let mut trunk = Trunk::new(number);
                    while trunk.seq < rounds {
                        match open(folder.path()) {
                            Ok((store, notices)) => {
                                assert_eq!(notices, Vec::<String>::new());
                                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                                runtime.block_on(store.commit(trunk.next("one"))).unwrap();
                                inside.fetch_sub(1, Ordering::SeqCst);
                            }
                            Err(Error::Busy { .. }) => std::thread::yield_now(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = openers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        ends.store(true, Ordering::Relaxed);
        for outcome in outcomes {
            outcome.unwrap();
        }
    });
    let (store, notices) = open(folder.path()).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    for number in 1..=2 {
        assert_eq!(answers(&store, &thread(number)).unwrap().len(), usize::try_from(rounds).unwrap());
    }
}

#[test]
fn a_database_whose_making_was_cut_short_is_no_store_yet_and_is_made_whole() {
    let folder = tempfile::tempdir().unwrap();
    for families in 1..=Family::ALL.len() {
        let place = folder.path().join(families.to_string());
        folder::make(&place).unwrap();
        let lock = FolderLock::take(&place).unwrap();
        drop(Anchor::claim(&place, codec::Ledger::default(), manifest::Position::default()).unwrap());
        drop(lock);
        let mut options = settings();
        options.create_if_missing(true);
        let mut db = DB::open(&options, place.join(DATABASE)).unwrap();
        for family in Family::ALL.iter().take(families - 1) {
            db.create_cf(family.name(), &settings()).unwrap();
        }
        drop(db);
        assert_eq!(is_unwritten(&place), Ok(true), "{families}");
        drop(open(&place).unwrap());
        assert_eq!(is_unwritten(&place), Ok(false));
        assert_eq!(read_all(&place), Ok(0));
    }
}

/// What an opening makes before the database.
const FIRST: [&str; 3] = ["lock", "owner", "anchor"];

#[test]
fn an_opening_that_lost_its_power_is_no_store_yet_whichever_files_are_left() {
    let around = tempfile::tempdir().unwrap();
    for left in 1..1_u8 << FIRST.len() {
        let place = around.path().join(left.to_string());
        std::fs::create_dir(&place).unwrap();
        for (at, name) in FIRST.iter().enumerate() {
            if left & 1 << at != 0 {
                std::fs::write(place.join(name), "").unwrap();
            }
        }
        assert_eq!(is_unwritten(&place), Ok(true), "{left:b}");
        drop(open(&place).unwrap());
        assert_eq!(is_unwritten(&place), Ok(false), "{left:b}");
    }
    // Another folder is not taken for one.
    let other = around.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("letter.txt"), "").unwrap();
    assert_eq!(is_unwritten(&other), Ok(false));
}

#[tokio::test]
async fn a_file_that_could_not_be_opened_once_is_no_damage() {
    let folder = flushed().await;
    let database = folder.path().join(DATABASE);
    for words in
        ["Direct I/O is not supported by the specified DB.", "Found options incompatible with filesystem: Busy"]
    {
        let error =
            opening::fault_of(&database, &rocksdb::ErrorKind::InvalidArgument, &format!("Invalid argument: {words}"));
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
    }
}

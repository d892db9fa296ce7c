pub(crate) mod simulated;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, ThreadId};

use super::super::codec;
use super::super::keys::{self, Family};
use super::super::manifest::Position;
use super::super::tables::{Change, Tables, Visited};
use super::super::tests::steps::{Trunk, answers, thread};
use super::super::{Commit, JournalRecord};
use super::*;
use simulated::Contents;

/// In-memory tables that fail on request, and delay writes while their gate is shut.
#[derive(Default)]
struct Disk {
    entries: Mutex<Contents>,
    fails: AtomicBool,
    writes: AtomicUsize,
    syncs: AtomicUsize,
    gate: Mutex<()>,
    reads: Reads,
    /// Writes that the writer's thread made.
    by_writer: AtomicUsize,
}

impl Tables for Disk {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.reads.gets.fetch_add(1, Ordering::SeqCst);
        self.entries.lock().unwrap().get(family, key)
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        self.reads.ranges.fetch_add(1, Ordering::SeqCst);
        let entries = self.entries.lock().unwrap().clone();
        entries.range(family, keys, visit)
    }
}

impl WriteTables for Disk {
    fn write(&self, changes: Vec<Change>, sync: bool) -> Result<(), String> {
        let _open = self.gate.lock().unwrap();
        self.writes.fetch_add(1, Ordering::SeqCst);
        let is_writer = std::thread::current().name() == Some("rondo-writer");
        self.by_writer.fetch_add(usize::from(is_writer), Ordering::SeqCst);
        self.syncs.fetch_add(usize::from(sync), Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err("no space left on device".to_owned());
        }
        self.entries.lock().unwrap().apply(&changes);
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Position>, Error> {
        Ok(None)
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Writer<Disk> {
    fn commit(&self, commit: Commit, durability: Durability) -> BoxFuture<'_, Result<(), Error>> {
        self.submit(Write::commit(commit, durability).unwrap())
    }

    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>> {
        self.submit(Write::records(thread, records, sync).unwrap())
    }
}

fn writer(folder: &tempfile::TempDir) -> (Writer<Disk>, Arc<Disk>) {
    writer_on(folder, Arc::default())
}

fn writer_on(folder: &tempfile::TempDir, disk: Arc<Disk>) -> (Writer<Disk>, Arc<Disk>) {
    let target = Target {
        tables: Arc::clone(&disk),
        anchor: Anchor::claim(folder.path(), Ledger::default(), Position::default()).unwrap(),
        ledger: Ledger::default(),
        displaced: Error::Busy { pid: 7 },
    };
    (Writer::start(target, Failure::default()).unwrap(), disk)
}

#[tokio::test]
async fn commits_that_wait_together_share_one_sync_and_losers_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    let shut = disk.gate.lock().unwrap();
    // The first is written alone, or with some of the others; all that arrive during its write share the next sync.
    let mut waiting = vec![(writer.commit(Trunk::new(0).next("first"), Durability::Sync), true)];
    for number in 1..=64 {
        waiting.push((writer.commit(Trunk::new(number).next("a"), Durability::Sync), true));
        waiting.push((writer.commit(Trunk::new(number).next("b"), Durability::Sync), false));
    }
    drop(shut);
    for (outcome, wins) in waiting {
        assert_eq!(outcome.await.is_ok(), wins);
    }
    assert!(disk.syncs.load(Ordering::SeqCst) <= 3, "{} syncs", disk.syncs.load(Ordering::SeqCst));
    for number in 1..=64 {
        assert_eq!(answers(&*disk, &thread(number)).unwrap(), ["a"]);
    }
}

#[tokio::test]
async fn a_failed_sync_leaves_everything_unknown_and_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    writer.commit(Trunk::new(1).next("one"), Durability::Sync).await.unwrap();
    disk.fails.store(true, Ordering::SeqCst);
    let shut = disk.gate.lock().unwrap();
    let waiting = [2, 3].map(|number| writer.commit(Trunk::new(number).next("one"), Durability::Sync));
    drop(shut);
    let poisoned = Err(Error::Poisoned { what: "no space left on device".to_owned() });
    for outcome in waiting {
        assert_eq!(outcome.await, poisoned);
    }
    let before = disk.writes.load(Ordering::SeqCst);
    disk.fails.store(false, Ordering::SeqCst);
    assert_eq!(writer.commit(Trunk::new(4).next("one"), Durability::Sync).await, poisoned);
    assert_eq!(writer.record(thread(4), Vec::new(), true).await, poisoned);
    drop(writer);
    assert_eq!(disk.writes.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn a_writer_that_was_displaced_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    writer.commit(Trunk::new(1).next("one"), Durability::Sync).await.unwrap();
    let before = disk.writes.load(Ordering::SeqCst);
    let _other = Anchor::claim(folder.path(), Ledger::default(), Position::default()).unwrap();
    assert_eq!(writer.commit(Trunk::new(2).next("one"), Durability::Sync).await, Err(Error::Busy { pid: 7 }));
    assert_eq!(disk.writes.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn only_what_must_be_safe_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let record = |position| JournalRecord { lane: LanePath::trunk(), position, bytes: b"reply".to_vec() };
    let hook = || Change { family: Family::Hooks, key: b"k".to_vec(), value: Some(b"v".to_vec()) };
    for (durability, expected) in [(Durability::Sync, [0, 0, 1, 2]), (Durability::Log, [0, 0, 0, 0])] {
        let (writer, disk) = writer(&folder);
        let mut syncs = Vec::new();
        writer.submit(Write::Changes { changes: vec![hook()], sync: false }).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        writer.record(thread(1), vec![record(0)], false).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        writer.record(thread(1), vec![record(1)], durability == Durability::Sync).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        writer.commit(Trunk::new(1).next("one"), durability).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        assert_eq!(syncs, expected, "{durability:?}");
    }
}

#[tokio::test]
async fn a_commit_whose_future_is_dropped_is_carried_out() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    drop(writer.commit(Trunk::new(1).next("one"), Durability::Sync));
    drop(writer);
    assert_eq!(answers(&*disk, &thread(1)).unwrap(), ["one"]);
}

/// The reads that a commit or a record costs.
#[derive(Default)]
struct Reads {
    gets: AtomicUsize,
    ranges: AtomicUsize,
}

#[tokio::test]
async fn rows_and_journals_are_read_once_and_never_where_this_process_wrote_them() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    let mut trunk = Trunk::new(1);
    let record = |position| JournalRecord { lane: LanePath::trunk(), position, bytes: b"reply".to_vec() };
    for number in 0..10 {
        writer.record(thread(1), vec![record(0), record(1)], true).await.unwrap();
        let clearing = Commit { clear_journal: vec![LanePath::trunk()], ..trunk.next(&number.to_string()) };
        writer.commit(clearing, Durability::Sync).await.unwrap();
        assert!(disk.entries.lock().unwrap().keys().all(|(family, _)| *family != Family::Journal));
    }
    assert_eq!(disk.reads.gets.load(Ordering::SeqCst), 1);
    assert_eq!(disk.reads.ranges.load(Ordering::SeqCst), 1);
    drop(writer);

    // Records that an earlier process left in a journal are cleared too.
    let (writer, disk) = writer_on(&folder, disk);
    writer.record(thread(1), vec![record(3)], true).await.unwrap();
    drop(writer);
    let (writer, disk) = writer_on(&folder, disk);
    writer
        .commit(Commit { clear_journal: vec![LanePath::trunk()], ..trunk.next("last") }, Durability::Sync)
        .await
        .unwrap();
    assert!(disk.entries.lock().unwrap().keys().all(|(family, _)| *family != Family::Journal));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_commits_alone_writes_on_its_own_thread_and_who_does_not_leaves_it_to_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    let by_writer = |disk: &Disk| disk.by_writer.load(Ordering::SeqCst);
    let mut trunk = Trunk::new(1);
    for number in 0..5 {
        writer.commit(trunk.next(&number.to_string()), Durability::Sync).await.unwrap();
    }
    assert_eq!(by_writer(&disk), 0);
    let waiting = [trunk.next("a"), trunk.next("b")].map(|commit| writer.commit(commit, Durability::Sync));
    for outcome in waiting {
        outcome.await.unwrap();
    }
    assert_eq!(by_writer(&disk), 1);
    let dropped = writer.commit(trunk.next("c"), Durability::Sync);
    drop(dropped);
    drop(writer);
    assert_eq!(by_writer(&disk), 2);
    assert_eq!(answers(&*disk, &thread(1)).unwrap().len(), 8);
}

#[tokio::test]
async fn a_runtime_of_one_thread_is_not_held_up() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    writer.commit(Trunk::new(1).next("one"), Durability::Sync).await.unwrap();
    assert_eq!(disk.by_writer.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commits_at_once_are_all_carried_out_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    let writer = Arc::new(writer);
    let running: Vec<_> = (0..32_u8)
        .map(|number| {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move {
                let mut trunk = Trunk::new(number);
                for step in 0..20 {
                    // Two are in progress at a time, and the later one is awaited first.
                    let pair = [trunk.next(&format!("{step} a")), trunk.next(&format!("{step} b"))];
                    let [first, second] = pair.map(|commit| writer.commit(commit, Durability::Sync));
                    second.await.unwrap();
                    first.await.unwrap();
                }
            })
        })
        .collect();
    for one in running {
        one.await.unwrap();
    }
    for number in 0..32 {
        assert_eq!(answers(&*disk, &thread(number)).unwrap().len(), 40);
    }
}

#[tokio::test]
async fn a_deletion_follows_the_commits_before_it_and_leaves_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, disk) = writer(&folder);
    let shut = disk.gate.lock().unwrap();
    let first = writer.commit(Trunk::new(0).next("first"), Durability::Sync);
    // All of these wait together: the deletion has to see what is written before it, and the last commit that it is gone.
    let mut trunk = Trunk::new(1);
    let mut waiting = vec![first];
    waiting.push(writer.commit(trunk.next("one"), Durability::Sync));
    let record = JournalRecord { lane: LanePath::trunk(), position: 0, bytes: b"reply".to_vec() };
    waiting.push(writer.record(thread(1), vec![record], true));
    waiting.push(writer.commit(trunk.next("two"), Durability::Sync));
    waiting.push(writer.submit(Write::Delete { threads: vec![(thread(1), 2)], lines: Vec::new(), sync: true }));
    let late = writer.commit(trunk.next("three"), Durability::Sync);
    drop(shut);
    for outcome in waiting {
        assert_eq!(outcome.await, Ok(()));
    }
    assert_eq!(late.await, Err(Error::Conflict { thread: thread(1) }));
    let id = keys::thread_bytes(&thread(1));
    let left = disk.entries.lock().unwrap().keys().filter(|(_, key)| key.windows(16).any(|part| part == id)).count();
    assert_eq!(left, 0);
    assert_eq!(answers(&*disk, &thread(0)).unwrap(), ["first"]);
    let ledger = disk.get(Family::Meta, keys::LEDGER).unwrap().unwrap();
    assert_eq!(codec::read_ledger(&ledger).unwrap().steps, 3);
}

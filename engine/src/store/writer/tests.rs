use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::super::contract::{Trunk, answers, thread};
use super::super::tables::{Tables, Visited};
use super::*;

type Entries = BTreeMap<(Family, Vec<u8>), Vec<u8>>;

/// Tables in memory that fail when they are told to, and hold a write back while their gate is shut.
#[derive(Default)]
struct Disk {
    entries: Mutex<Entries>,
    fails: AtomicBool,
    writes: AtomicUsize,
    syncs: AtomicUsize,
    gate: Mutex<()>,
}

impl Tables for Disk {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.entries.lock().unwrap().get(&(family, key.to_vec())).cloned())
    }

    fn range(
        &self,
        family: Family,
        keys: Range<Vec<u8>>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> Visited,
    ) -> Result<(), Error> {
        let entries = self.entries.lock().unwrap().clone();
        for ((_, key), value) in entries.range((family, keys.start)..(family, keys.end)) {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl WriteTables for Disk {
    fn write(&self, changes: &[Change], sync: bool) -> Result<(), String> {
        let _open = self.gate.lock().unwrap();
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.syncs.fetch_add(usize::from(sync), Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err("no space left on device".to_owned());
        }
        let mut entries = self.entries.lock().unwrap();
        for Change { family, key, value } in changes {
            match value {
                Some(value) => entries.insert((*family, key.clone()), value.clone()),
                None => entries.remove(&(*family, key.clone())),
            };
        }
        Ok(())
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

fn writer(folder: &tempfile::TempDir, durability: Durability) -> (Writer, Arc<Disk>) {
    let disk = Arc::new(Disk::default());
    let target = Target {
        tables: Arc::clone(&disk),
        anchor: Anchor::claim(folder.path(), Ledger::default()).unwrap(),
        ledger: Ledger::default(),
        durability,
        displaced: Error::Busy { pid: 7 },
    };
    (Writer::start(target, Failure::default()).unwrap(), disk)
}

#[tokio::test]
async fn commits_that_wait_together_share_one_sync_and_losers_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (pen, disk) = writer(&folder, Durability::Sync);
    let shut = disk.gate.lock().unwrap();
    // The first is taken alone, or with some of the others; all that come while it is written share the next sync.
    let mut waiting = vec![(pen.commit(Trunk::new(0).next("first")), true)];
    for number in 1..=64 {
        waiting.push((pen.commit(Trunk::new(number).next("a")), true));
        waiting.push((pen.commit(Trunk::new(number).next("b")), false));
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
    let (pen, disk) = writer(&folder, Durability::Sync);
    pen.commit(Trunk::new(1).next("one")).await.unwrap();
    disk.fails.store(true, Ordering::SeqCst);
    let shut = disk.gate.lock().unwrap();
    let waiting = [2, 3].map(|number| pen.commit(Trunk::new(number).next("one")));
    drop(shut);
    let poisoned = Err(Error::Poisoned { what: "no space left on device".to_owned() });
    for outcome in waiting {
        assert_eq!(outcome.await, poisoned);
    }
    let writes = disk.writes.load(Ordering::SeqCst);
    disk.fails.store(false, Ordering::SeqCst);
    assert_eq!(pen.commit(Trunk::new(4).next("one")).await, poisoned);
    assert_eq!(pen.record(thread(4), Vec::new(), true).await, poisoned);
    drop(pen);
    assert_eq!(disk.writes.load(Ordering::SeqCst), writes);
}

#[tokio::test]
async fn a_writer_that_was_displaced_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (pen, disk) = writer(&folder, Durability::Sync);
    pen.commit(Trunk::new(1).next("one")).await.unwrap();
    let writes = disk.writes.load(Ordering::SeqCst);
    let _other = Anchor::claim(folder.path(), Ledger::default()).unwrap();
    assert_eq!(pen.commit(Trunk::new(2).next("one")).await, Err(Error::Busy { pid: 7 }));
    assert_eq!(disk.writes.load(Ordering::SeqCst), writes);
}

#[tokio::test]
async fn only_what_must_be_safe_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let record = |position| JournalRecord { lane: LanePath::trunk(), position, bytes: b"reply".to_vec() };
    let hook = || Change { family: Family::Hooks, key: b"k".to_vec(), value: Some(b"v".to_vec()) };
    for (durability, expected) in [(Durability::Sync, [0, 0, 1, 2]), (Durability::Log, [0, 0, 0, 0])] {
        let (pen, disk) = writer(&folder, durability);
        let mut syncs = Vec::new();
        pen.change(hook()).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        pen.record(thread(1), vec![record(0)], false).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        pen.record(thread(1), vec![record(1)], true).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        pen.commit(Trunk::new(1).next("one")).await.unwrap();
        syncs.push(disk.syncs.load(Ordering::SeqCst));
        assert_eq!(syncs, expected, "{durability:?}");
    }
}

#[tokio::test]
async fn a_commit_whose_future_is_dropped_is_carried_out() {
    let folder = tempfile::tempdir().unwrap();
    let (pen, disk) = writer(&folder, Durability::Sync);
    drop(pen.commit(Trunk::new(1).next("one")));
    drop(pen);
    assert_eq!(answers(&*disk, &thread(1)).unwrap(), ["one"]);
}

use std::path::Path;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use rondo_protocol::digest::Digest;
use rondo_protocol::id::LanePath;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::StepStore;
use crate::shared_store::{Opening, OwnThreads};
use crate::tests::contract::{self, suite};
use crate::tests::steps::{Trunk, thread};

/// A log that writes each entry to its copy at once, and keeps it.
struct Loop {
    copy: Copied,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl<S> Copied<S> {
    /// A copy that no other process has: there is no file with locks.
    pub(crate) fn alone(store: S) -> Self {
        let locks = ThreadLocks::of(Path::new("/dev/null"));
        Self { store, roots: Arc::new(Roots { here: Mutex::default(), locks }) }
    }
}

/// The root of every thread here.
fn root() -> ThreadId {
    thread(99)
}

impl WriteLog for Loop {
    fn knows(&self, _: &ThreadId) -> bool {
        true
    }

    fn append(&self, _: &ThreadId, _: &[ThreadId], write: Vec<u8>, _: bool) -> BoxFuture<'static, Result<(), Error>> {
        let at = {
            let mut kept = self.kept.lock();
            kept.push(write.clone());
            u64::try_from(kept.len()).unwrap()
        };
        let copy = self.copy.clone();
        async move { copy.apply(&root(), at - 1..at, vec![write]).await }.boxed()
    }
}

fn open(folder: &Path) -> SharedStore {
    let opening = Opening { folder: folder.to_owned(), owner: None, durability: Durability::Log };
    let own_threads = OwnThreads { cancel: Box::new(|_| ()), taken_over: Box::new(|_| ()) };
    SharedStore::open(opening, own_threads).unwrap().0
}

fn looped(folder: &Path) -> (ReplicatedStore, Arc<Loop>) {
    let local = open(folder);
    let log = Arc::new(Loop { copy: Copied::new(local.clone()), kept: Mutex::default() });
    (ReplicatedStore::new(local, Arc::clone(&log) as _), log)
}

fn replicated() -> (Arc<dyn StepStore>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(looped(folder.path()).0), folder)
}

// Who loses a race is the log's to say: one writer at a time has a thread.
suite!(
    through_a_log,
    super::replicated,
    [
        what_is_committed_is_read_back,
        a_journal_is_read_in_order_and_cleared_by_its_commit,
        a_lane_clears_its_own_journal_only,
        hooks_have_private_key_spaces,
        a_batch_is_there_with_its_record,
        open_lanes_have_rows_until_a_commit_deletes_them,
        the_list_of_a_fan_out_is_kept_as_it_was,
        records_of_every_kind_are_read_back,
    ]
);

/// The writes of a thread with a journal record and two steps, and its head.
async fn written() -> (Vec<Vec<u8>>, Digest) {
    let folder = tempfile::tempdir().unwrap();
    let (store, log) = looped(folder.path());
    let mut trunk = Trunk::new(1);
    store.commit(trunk.next("one")).await.unwrap();
    let record = JournalRecord { lane: LanePath::trunk(), position: 0, bytes: b"reply".to_vec() };
    store.record(trunk.thread.clone(), vec![record], true).await.unwrap();
    let cleared = Commit { clear_journal: vec![LanePath::trunk()], ..trunk.next("two") };
    store.commit(cleared).await.unwrap();
    (std::mem::take(&mut log.kept.lock()), trunk.head.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_made_again_from_the_log_whatever_it_held() {
    let (writes, head) = written().await;
    for held in 0..=writes.len() {
        for is_position_lost in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let copy = Copied::new(open(folder.path()));
            for (at, write) in (0..).zip(&writes[..held]) {
                copy.apply(&root(), at..at + 1, vec![write.clone()]).await.unwrap();
            }
            if is_position_lost && held > 0 {
                // As a crash between the last entry and its number leaves it.
                let position = (u64::try_from(held).unwrap() - 1).to_be_bytes().to_vec();
                copy.store.put_hook_value(POSITIONS, root().as_str().into(), Some(position)).await.unwrap();
            }
            for (at, write) in (0..).zip(&writes) {
                copy.apply(&root(), at..at + 1, vec![write.clone()]).await.unwrap();
            }
            let row = copy.store.row(&thread(1)).unwrap().unwrap();
            assert_eq!((row.seq, row.head), (2, Some(head)));
            assert_eq!(copy.store.journal(&thread(1), &LanePath::trunk()).unwrap(), [], "what was cleared stays so");
            assert!(is_copy(&copy.store).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_with_a_record_and_the_commit_that_clears_it_can_be_written_twice() {
    let (writes, head) = written().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = Copied::new(open(folder.path()));
    for _ in 0..2 {
        copy.apply(&root(), 0..1, writes.clone()).await.unwrap();
        copy.store.put_hook_value(POSITIONS, root().as_str().into(), None).await.unwrap();
    }
    assert_eq!(copy.store.row(&thread(1)).unwrap().unwrap().head, Some(head));
    assert_eq!(copy.store.journal(&thread(1), &LanePath::trunk()).unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_continue_the_log_is_damage_and_what_is_newer_says_so() {
    let (writes, _) = written().await;
    let folder = tempfile::tempdir().unwrap();
    let copy = Copied::new(open(folder.path()));
    let apply = |at: u64, write: Vec<u8>| {
        let copy = copy.clone();
        async move { copy.apply(&root(), at..at + 1, vec![write]).await }
    };
    assert!(matches!(apply(1, writes[1].clone()).await, Err(Error::Damaged(_))), "a gap");
    assert!(matches!(apply(0, Vec::new()).await, Err(Error::Damaged(_))));
    assert!(matches!(apply(0, vec![VERSION, 7, 7, 7]).await, Err(Error::Damaged(_))));
    let newer = [&[VERSION + 1], &writes[0][1..]].concat();
    assert!(matches!(apply(0, newer).await, Err(Error::Version { found, .. }) if found == VERSION + 1));
    apply(0, writes[0].clone()).await.unwrap();
    // Another history of the same thread.
    let other = logged(Trunk::new(1).next("other")).unwrap();
    assert!(matches!(apply(1, other).await, Err(Error::Damaged(_))));
    apply(1, writes[1].clone()).await.unwrap();
    assert_eq!(copy.position(&root()), Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_bring_one_copy_up_to_the_same_log() {
    let (writes, head) = written().await;
    let folder = tempfile::tempdir().unwrap();
    // Each handle stands for a process; the first holds the store.
    let copies: Vec<Copied> = (0..4).map(|_| Copied::new(open(folder.path()))).collect();
    let bringing = copies.iter().map(|copy| {
        let (copy, writes) = (copy.clone(), writes.clone());
        tokio::spawn(async move {
            for (at, write) in (0..).zip(writes) {
                copy.apply(&root(), at..at + 1, vec![write]).await.unwrap();
            }
        })
    });
    for brought in bringing.collect::<Vec<_>>() {
        brought.await.unwrap();
    }
    assert_eq!(copies[3].store.row(&thread(1)).unwrap().unwrap().head, Some(head));
    assert_eq!(copies[3].store.journal(&thread(1), &LanePath::trunk()).unwrap(), []);
}

/// What a log was told of the threads above, which it knows none of.
#[derive(Default)]
struct Told(Mutex<Vec<Vec<ThreadId>>>);

impl WriteLog for Told {
    fn knows(&self, _: &ThreadId) -> bool {
        false
    }

    fn append(&self, _: &ThreadId, above: &[ThreadId], _: Vec<u8>, _: bool) -> BoxFuture<'static, Result<(), Error>> {
        self.0.lock().push(above.to_vec());
        async { Ok(()) }.boxed()
    }
}

/// After another worker, a child goes on whose first write this one has not made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_told_every_thread_above_one_that_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let (local, log) = (open(folder.path()), Arc::new(Told::default()));
    let child_of = |number: u8, above: ThreadId| {
        let mut trunk = Trunk::new(number);
        let mut commit = trunk.row_alone();
        let (role, lane) = (crate::tests::steps::writer(), LanePath::trunk());
        commit.row.parent = Some(crate::Parent { thread: above, role, lane, visit: 1 });
        commit
    };
    local.commit(Trunk::new(1).row_alone()).await.unwrap();
    local.commit(child_of(2, thread(1))).await.unwrap();
    local.commit(child_of(3, thread(2))).await.unwrap();
    let store = ReplicatedStore::new(local, Arc::clone(&log) as _);
    let record = JournalRecord { lane: LanePath::trunk(), position: 0, bytes: b"reply".to_vec() };
    store.record(thread(3), vec![record], true).await.unwrap();
    store.commit(child_of(4, thread(3))).await.unwrap();
    assert_eq!(*log.0.lock(), [vec![thread(2), thread(1)], vec![thread(3), thread(2), thread(1)]]);
}

/// Logs outlive versions of rondo: these bytes never change without a version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_form_of_a_write_is_frozen() {
    let (writes, _) = written().await;
    let digest = |write: &Vec<u8>| Digest(Sha256::digest(write).into()).to_string();
    insta::assert_json_snapshot!("writes_in_a_log", writes.iter().map(digest).collect::<Vec<_>>());
    insta::assert_snapshot!("a_record_in_a_log", format!("{:02x?}", writes[1]));
}

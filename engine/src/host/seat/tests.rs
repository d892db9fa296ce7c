use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::socket::testing::{self, Told};
use crate::store::Options;
use crate::store::contract::{Trunk, thread};

fn seat(folder: &Path, durability: Durability) -> Seat {
    let opening = Opening { folder: folder.to_owned(), owner: None, durability };
    Seat::open(opening, Arc::new(|_| ())).unwrap().0
}

/// A store that another seat holds, asked over its socket.
pub(crate) fn guest() -> (Arc<dyn StepStore>, (Seat, tempfile::TempDir)) {
    let folder = tempfile::tempdir().unwrap();
    let holder = seat(folder.path(), Durability::Sync);
    let guest = seat(folder.path(), Durability::Sync);
    assert!(holder.is_here() && !guest.is_here());
    (Arc::new(guest), (holder, folder))
}

fn anchor(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("anchor")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_goes_on_when_the_holder_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let seats: Vec<Seat> = (0..3).map(|_| seat(folder.path(), Durability::Sync)).collect();
    let mut trunk = Trunk::new(1);
    for (at, holder) in seats.iter().enumerate() {
        let last = &seats[2];
        last.commit(trunk.next("one")).await.unwrap();
        let record = JournalRecord { lane: LanePath::trunk(), position: 0, bytes: b"reply".to_vec() };
        last.record(thread(2), vec![record.clone()], true).await.unwrap();
        assert_eq!(last.journal(&thread(2), &LanePath::trunk()).unwrap(), [record]);
        if at < 2 {
            tokio::task::block_in_place(|| holder.leave());
        }
        last.commit(trunk.next("two")).await.unwrap();
        assert_eq!(last.row(&thread(1)).unwrap().unwrap().seq, trunk.seq);
    }
    assert_eq!(seats[0].row(&thread(1)), Err(left()));
    assert!(seats[2].is_here());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_commits_is_as_safe_as_the_guest_asks() {
    let folder = tempfile::tempdir().unwrap();
    let holder = seat(folder.path(), Durability::Log);
    let guest = seat(folder.path(), Durability::Sync);
    // The anchor is written with each commit that is synced, and with no other.
    let before = anchor(folder.path());
    holder.commit(Trunk::new(1).next("one")).await.unwrap();
    assert_eq!(anchor(folder.path()), before);
    guest.commit(Trunk::new(2).next("one")).await.unwrap();
    assert_ne!(anchor(folder.path()), before);
    assert_eq!((holder.durability(), guest.durability()), (Durability::Log, Durability::Sync));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_sent_again_only_if_it_is_absent() {
    for is_stored in [true, false] {
        for has_step in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
            // A holder that ends on the first commit, before it answers.
            let runtime = Handle::current();
            let mut store = Some(store);
            let holder = testing::serve(folder.path(), move |told| match told {
                Told::Commit(commit) => {
                    let store = store.take().unwrap();
                    if is_stored {
                        runtime.block_on(store.commit(*commit)).unwrap();
                    }
                    None
                }
                Told::Other(ask) => Some(socket::answer(store.as_ref().unwrap(), &runtime, ask)),
            });
            let guest = seat(folder.path(), Durability::Sync);
            let mut trunk = Trunk::new(1);
            let commit = if has_step { trunk.next("one") } else { Commit { step: None, ..trunk.row_alone() } };
            guest.commit(commit.clone()).await.unwrap();
            holder.join().unwrap();
            assert!(guest.is_here());
            assert_eq!(guest.row(&thread(1)).unwrap(), Some(commit.row.clone()), "{is_stored} {has_step}");
            assert_eq!(guest.commit(commit).await, Err(Error::Conflict { thread: thread(1) }));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_socket_was_deleted_ends_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let holder = seat(folder.path(), Durability::Sync);
    std::fs::remove_file(folder.path().join("socket")).unwrap();
    holder.leave();
    assert!(seat(folder.path(), Durability::Sync).is_here());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_ended_by_whoever_drives_it_and_driven_by_nobody_who_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let holder = seat(folder.path(), Durability::Sync);
    let ended = Arc::new(AtomicUsize::new(0));
    let driver: Arc<std::sync::OnceLock<Seat>> = Arc::default();
    let (counted, told) = (Arc::clone(&ended), Arc::clone(&driver));
    let cancel: Cancel = Arc::new(move |thread| {
        counted.fetch_add(1, Ordering::SeqCst);
        told.get().unwrap().let_go(thread);
    });
    let opening = Opening { folder: folder.path().to_owned(), owner: None, durability: Durability::Sync };
    let (guest, _) = Seat::open(opening, cancel).unwrap();
    assert!(driver.set(guest.clone()).is_ok());
    let third = seat(folder.path(), Durability::Sync);

    assert!(guest.drive(&thread(1)).unwrap());
    assert!(!holder.drive(&thread(1)).unwrap() && !third.drive(&thread(1)).unwrap());
    assert_eq!(socket::driven(folder.path()).unwrap(), [thread(1)].into());
    assert_eq!(third.free(&thread(2)), Ok(Freed::Nobody));
    assert_eq!(third.free(&thread(1)), Ok(Freed::Left));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert_eq!(socket::driven(folder.path()).unwrap(), [].into());

    // Who drives what is known to the next holder.
    assert!(guest.drive(&thread(3)).unwrap());
    holder.leave();
    guest.commit(Trunk::new(3).next("one")).await.unwrap();
    assert!(!third.drive(&thread(3)).unwrap());
    guest.leave();
    third.commit(Trunk::new(4).next("one")).await.unwrap();
    // A holder sees that a guest is gone when its connection ends.
    let since = Instant::now();
    while !third.drive(&thread(3)).unwrap() {
        assert!(since.elapsed() < FREEING);
        std::thread::yield_now();
    }
}

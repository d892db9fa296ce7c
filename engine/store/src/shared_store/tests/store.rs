use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, ThreadId};
use tokio::runtime::Handle;

use super::super::drivers::Drivers;
use super::super::message::Request;
use super::super::server::Service;
use super::super::*;
use super::holder;
use crate::tests::contract::{self, suite};
use crate::tests::steps::{Trunk, thread};
use crate::{CancelOutcome, ThreadDrivers as _};
use crate::{Commit, Error, JournalRecord, Options, Read as _, RocksStore, StepStore, Write};

fn open(folder: &Path, durability: Durability) -> SharedStore {
    open_with(folder, durability, unheard())
}

fn open_with(folder: &Path, durability: Durability, own_threads: OwnThreads) -> SharedStore {
    let opening = Opening { folder: folder.to_owned(), owner: None, durability };
    SharedStore::open(opening, own_threads).unwrap().0
}

/// For a process that other processes do not concern.
fn unheard() -> OwnThreads {
    OwnThreads { cancel: Box::new(|_| ()), taken_over: Box::new(|_| ()) }
}

suite!(over_the_socket, super::client);

/// A store that another process holds, and the handle of that process.
fn client() -> (Arc<dyn StepStore>, (SharedStore, tempfile::TempDir)) {
    let folder = tempfile::tempdir().unwrap();
    let holder = open(folder.path(), Durability::Sync);
    let client = open(folder.path(), Durability::Sync);
    assert!(holder.is_holder() && !client.is_holder());
    (Arc::new(client), (holder, folder))
}

fn anchor(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("anchor")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_goes_on_when_the_holder_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let stores: Vec<SharedStore> = (0..3).map(|_| open(folder.path(), Durability::Sync)).collect();
    let mut trunk = Trunk::new(1);
    for (at, holder) in stores.iter().enumerate() {
        let last = &stores[2];
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
    assert_eq!(
        stores[0].row(&thread(1)),
        Err(Error::Poisoned { what: "this process has given the store to others".to_owned() })
    );
    assert!(stores[2].is_holder());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_commits_is_as_safe_as_the_client_asks() {
    let folder = tempfile::tempdir().unwrap();
    let holder = open(folder.path(), Durability::Log);
    let client = open(folder.path(), Durability::Sync);
    // The anchor is written with each synced commit, and with no other.
    let before = anchor(folder.path());
    holder.commit(Trunk::new(1).next("one")).await.unwrap();
    assert_eq!(anchor(folder.path()), before);
    client.commit(Trunk::new(2).next("one")).await.unwrap();
    assert_ne!(anchor(folder.path()), before);
    assert_eq!((holder.durability(), client.durability()), (Durability::Log, Durability::Sync));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_sent_again_only_if_it_is_absent() {
    for is_stored in [true, false] {
        for has_step in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
            // A holder that ends on the first commit, before it answers.
            let (drivers, runtime) = (Arc::new(Drivers::default()), Handle::current());
            let mut service = Some(Service { store, drivers, own_threads: Arc::new(unheard()), runtime });
            let holder = holder::serve(folder.path(), move |request| match request {
                Request::Write(Write::Commit { .. }) => {
                    let service = service.take().unwrap();
                    if is_stored {
                        service.respond(None, request).unwrap();
                    }
                    None
                }
                request => service.as_ref().unwrap().respond(None, request),
            });
            let client = open(folder.path(), Durability::Sync);
            let mut trunk = Trunk::new(1);
            let commit = if has_step { trunk.next("one") } else { Commit { step: None, ..trunk.row_alone() } };
            client.commit(commit.clone()).await.unwrap();
            holder.join().unwrap();
            assert!(client.is_holder());
            assert_eq!(client.row(&thread(1)).unwrap(), Some(commit.row.clone()), "{is_stored} {has_step}");
            assert_eq!(client.commit(commit).await, Err(Error::Conflict { thread: thread(1) }));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_socket_was_deleted_ends_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let holder = open(folder.path(), Durability::Sync);
    std::fs::remove_file(folder.path().join("socket")).unwrap();
    holder.leave();
    assert!(open(folder.path(), Durability::Sync).is_holder());
}

/// A client that hears of its holder's end opens the store itself, on a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_closed_when_its_last_handle_is_dropped() {
    for pause in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let holder = open(folder.path(), Durability::Sync);
        let client = open(folder.path(), Durability::Sync);
        drop(holder);
        std::thread::sleep(Duration::from_micros(pause * 100));
        drop(client);
        let (_store, _) = RocksStore::open(folder.path(), Options::default()).expect("the store is closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_ended_by_whoever_drives_it_and_driven_by_nobody_who_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let holder = open(folder.path(), Durability::Sync);
    let ended = Arc::new(AtomicUsize::new(0));
    let driver: Arc<std::sync::OnceLock<SharedStore>> = Arc::default();
    let (counted, told) = (Arc::clone(&ended), Arc::clone(&driver));
    let cancel = Box::new(move |thread: &ThreadId| {
        counted.fetch_add(1, Ordering::SeqCst);
        told.get().unwrap().release(thread);
    });
    let client = open_with(folder.path(), Durability::Sync, OwnThreads { cancel, ..unheard() });
    assert!(driver.set(client.clone()).is_ok());
    let third = open(folder.path(), Durability::Sync);

    assert!(client.drive(&thread(1)).unwrap());
    assert!(!holder.drive(&thread(1)).unwrap() && !third.drive(&thread(1)).unwrap());
    assert_eq!(driven(folder.path()).unwrap(), [thread(1)].into());
    assert_eq!(third.cancel(&thread(2)), Ok(CancelOutcome::NotDriven));
    assert_eq!(third.cancel(&thread(1)), Ok(CancelOutcome::Left));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert_eq!(driven(folder.path()).unwrap(), [].into());

    // The next holder knows which process drives which thread.
    assert!(client.drive(&thread(3)).unwrap());
    holder.leave();
    client.commit(Trunk::new(3).next("one")).await.unwrap();
    assert!(!third.drive(&thread(3)).unwrap());
    client.leave();
    third.commit(Trunk::new(4).next("one")).await.unwrap();
    // A holder detects that a client has gone when its connection ends.
    let since = Instant::now();
    while !third.drive(&thread(3)).unwrap() {
        assert!(since.elapsed() < CANCEL_TIMEOUT);
        std::thread::yield_now();
    }
}

/// The next holder does not know yet who drives what: the thread is still its driver's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_stays_with_its_driver_whoever_holds_the_store_next() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let holder = open(folder.path(), Durability::Sync);
        let driver = open(folder.path(), Durability::Sync);
        assert!(driver.drive(&thread(1)).unwrap());
        holder.leave();
        let others: Vec<SharedStore> = (0..3).map(|_| open(folder.path(), Durability::Sync)).collect();
        for other in &others {
            assert!(!other.drive(&thread(1)).unwrap());
        }
        driver.release(&thread(1));
        assert!(others[0].drive(&thread(1)).unwrap() && !others[1].drive(&thread(1)).unwrap());
    }
}

/// Which of its threads a client hears to be taken over when its holder ends with `end`, which it does before anyone
/// can hear that it ends. The client drives the threads 1 and 2, with one step each.
async fn taken_over(end: impl FnOnce(&Path, Service) + Send + 'static) -> Vec<ThreadId> {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let (drivers, runtime) = (Arc::new(Drivers::default()), Handle::current());
    let mut service = Some(Service { store, drivers, own_threads: Arc::new(unheard()), runtime });
    let (mut end, place) = (Some(end), folder.path().to_owned());
    let holder = holder::serve(folder.path(), move |request| {
        if matches!(request, Request::Driven) {
            end.take().unwrap()(&place, service.take().unwrap());
            return None;
        }
        service.as_ref().unwrap().respond(None, request)
    });
    let (sender, taken) = mpsc::channel();
    let taken_over = Box::new(move |thread: &ThreadId| sender.send(thread.clone()).unwrap());
    let client = open_with(folder.path(), Durability::Sync, OwnThreads { taken_over, ..unheard() });
    let mut trunks = [1, 2].map(Trunk::new);
    for trunk in &mut trunks {
        assert!(client.drive(&trunk.thread).unwrap());
        client.commit(trunk.next("one")).await.unwrap();
    }
    assert_eq!(driven(folder.path()), None, "the holder ends");
    holder.join().unwrap();
    // What it commits itself is no news to it.
    client.commit(trunks[1].next("two")).await.unwrap();
    drop(client);
    taken.iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_another_process_wrote_while_the_holder_changed_is_given_up() {
    let taken = taken_over(|_, service| {
        let mut trunk = Trunk::new(1);
        let _own = trunk.next("one");
        service.runtime.block_on(service.store.commit(trunk.next("of another"))).unwrap();
    });
    assert_eq!(taken.await, [thread(1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_has_not_heard_of_the_driver_cannot_drive_its_thread() {
    let next: Arc<std::sync::OnceLock<SharedStore>> = Arc::default();
    let kept = Arc::clone(&next);
    let taken = taken_over(move |folder, service| {
        let runtime = service.runtime.clone();
        drop(service);
        let _entered = runtime.enter();
        let other = open(folder, Durability::Sync);
        assert!(other.is_holder() && !other.drive(&thread(1)).unwrap_or(true));
        assert!(kept.set(other).is_ok());
    });
    assert_eq!(taken.await, []);
}

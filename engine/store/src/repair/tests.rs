//! Each entry of a store is taken away or made unreadable: the repaired store is whole, and what it lacks was told.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::check::check;
use super::super::check::tests::stored::fixture;
use super::super::check::tests::{entries, put};
use super::super::{Options, RocksReader, RocksStore};
use super::*;

/// Repairs the store in `folder` to `to`. Every step that is not in it is among the losses.
fn repaired(folder: &Path, to: &Path, steps: &BTreeSet<(ThreadId, u64)>) -> (Repaired, Vec<Loss>) {
    let opaque = Opaque {
        stopped: &|_, row, _| Ok(row.origin.clone()),
        rebuilt: &|_, _, _| Ok(Vec::new()),
        fits: &|_, _| false,
        batch_lines: &|_| None,
    };
    let mut losses = Vec::new();
    let repaired = repair(folder, to, &opaque, &mut |_| {}, &mut |loss| losses.push(loss)).unwrap();
    let kept = steps_of(to);
    for (thread, seq) in steps {
        let is_told = losses.iter().any(|loss| {
            let range = loss.seq.zip(loss.through).map(|(first, last)| first..=last);
            loss.kind == LossKind::Step
                && loss.thread.as_ref() == Some(thread)
                && range.is_some_and(|range| range.contains(seq))
        });
        assert_ne!(is_told, kept.contains(&(thread.clone(), *seq)), "step {seq} of {thread}: {losses:?}");
    }
    (repaired, losses)
}

fn steps_of(folder: &Path) -> BTreeSet<(ThreadId, u64)> {
    let steps = entries(folder).into_iter().filter(|(family, ..)| *family == Family::Steps);
    steps.map(|(_, key, _)| (keys::thread_of(&key).unwrap(), keys::seq(&key).unwrap())).collect()
}

#[tokio::test]
async fn whichever_entry_is_gone_the_repaired_store_is_whole() {
    let folder = fixture();
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let waiting = store.rows(None, usize::MAX).unwrap().into_iter().find(|(_, row)| row.status == Status::Waiting);
    let record = keys::record(&waiting.unwrap().0, &LanePath::trunk(), 1);
    put(&store, Family::Journal, &record, Some(&codec::write_bytes(codec::RECORD, b"{}"))).await;
    let kept = codec::write_bytes(codec::HOOK, b"kept");
    put(&store, Family::Hooks, &keys::hook("space", b"key").unwrap(), Some(&kept)).await;
    let all = entries(folder.path());
    let steps = steps_of(folder.path());
    let mut kinds = BTreeSet::new();
    for (number, (family, key, value)) in all.iter().filter(|(family, ..)| *family != Family::Meta).enumerate() {
        // Every third one, which is taken away or made unreadable; what nobody misses is only made unreadable.
        if number % 3 > 0 && !matches!(family, Family::Journal | Family::Hooks) {
            continue;
        }
        let is_missed = !matches!(family, Family::Journal | Family::Hooks);
        let mut unreadable = value.clone();
        if let Some(version) = unreadable.first_mut() {
            *version = 0;
        }
        let damaged = (!is_missed || number % 2 == 0).then_some(&*unreadable);
        let to = tempfile::tempdir().unwrap();
        put(&store, *family, key, damaged).await;
        let before = check(folder.path(), &mut |_| {}).unwrap();
        let (repaired, losses) = repaired(folder.path(), to.path(), &steps);
        put(&store, *family, key, Some(value)).await;
        let after = check(to.path(), &mut |_| {}).unwrap();
        let what = || format!("{} {}: {before:?}\n{losses:?}", family.name(), key.escape_ascii());
        assert_eq!(after.faults, Vec::new(), "{}", what());
        assert!(repaired.whole >= before.whole_threads, "{}", what());
        assert_eq!(after.threads, repaired.whole + repaired.shortened, "{}", what());
        // An index is made anew, and nothing is lost with it.
        assert!(*family != Family::Index || losses.is_empty(), "{}", what());
        // A row is made again from steps.
        let row = codec::read_row(value).ok().filter(|_| *family == Family::Threads);
        let is_kept = losses.iter().all(|loss| loss.kind != LossKind::Thread);
        assert!(row.is_none_or(|row| row.seq == row.shared()) || is_kept, "{}", what());
        kinds.extend(losses.iter().map(|loss| format!("{:?}", loss.kind)));
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["Hooks", "Journal", "Note", "Parent", "Row", "Step", "Thread"]);
}

/// The lines of a batch have the numbers of their file, with gaps.
#[tokio::test]
async fn a_batch_is_kept_if_it_has_as_many_lines_as_it_says() {
    let folder = fixture();
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let batch = BatchId::new("01arz3ndektsv4rrffq69g5fav").unwrap();
    put(&store, Family::Threads, &keys::batch(&batch), Some(&codec::write_bytes(codec::BATCH, b"{}"))).await;
    for line in [2, 5, 9] {
        let value = codec::write_bytes(codec::BATCH_LINE, b"{}");
        put(&store, Family::Threads, &keys::batch_line(&batch, line), Some(&value)).await;
    }
    drop(store);
    for (says, is_kept) in [(3, true), (4, false)] {
        let opaque = Opaque {
            stopped: &|_, row, _| Ok(row.origin.clone()),
            rebuilt: &|_, _, _| Ok(Vec::new()),
            fits: &|_, _| false,
            batch_lines: &|_| Some(says),
        };
        let (to, mut losses) = (tempfile::tempdir().unwrap(), Vec::new());
        repair(folder.path(), to.path(), &opaque, &mut |_| {}, &mut |loss| losses.push(loss.kind)).unwrap();
        assert_eq!(losses.contains(&LossKind::Batch), !is_kept, "{losses:?}");
        let lines = entries(to.path()).into_iter().filter(|(_, key, _)| keys::batch_of_line(key).is_some());
        assert_eq!(lines.count(), if is_kept { 3 } else { 0 });
    }
}

#[tokio::test]
async fn a_row_that_is_older_than_its_steps_is_followed_by_them() {
    let folder = fixture();
    let all = entries(folder.path());
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let is_plain = |row: &Row| row.seq > 1 && row.base.is_none();
    let rows = all.iter().filter(|(_, key, _)| keys::thread_of_row(key).is_some());
    let rows = rows.map(|(_, key, value)| (key, codec::read_row(value).unwrap()));
    let (key, row) = rows.into_iter().find(|(_, row)| is_plain(row)).unwrap();
    let thread = keys::thread_of_row(key).unwrap();
    let older = Row { seq: 1, head: store.trunk_head(&thread, 1).unwrap(), status: Status::Running, ..row.clone() };
    put(&store, Family::Threads, key, Some(&codec::write_row(&older))).await;
    let to = tempfile::tempdir().unwrap();
    repaired(folder.path(), to.path(), &steps_of(folder.path()));
    let (reader, _) = RocksReader::open(to.path()).unwrap();
    let kept = reader.row(&thread).unwrap().unwrap();
    assert_eq!((kept.seq, kept.head, kept.status), (row.seq, row.head, Status::Stopped));
}

//! One suite for every store: the contract of [`StepStore`]. The tests of each store name this file.

use std::sync::Arc;

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::{Compaction, Rebind, Record, RecordKind, Step};

use rondo_core::store::{
    Base, Commit, Damage, Deletion, Error, JournalRecord, LaneRow, NewStep, Parent, Row, StepStore, StoredRecord,
    VisitIndex, VisitKey,
};

use super::steps::{Trunk, answers, damage, row, step, thread, writer};

/// A store and its folder.
pub(crate) type Opened = (Arc<dyn StepStore>, Option<tempfile::TempDir>);

/// Runs the whole suite in a module `$module`, on stores from `$open`, each with a guard that must outlive it.
macro_rules! suite {
    ($module:ident, $open:path) => {
        suite!($module, $open, [
            what_is_committed_is_read_back,
            a_commit_that_expects_another_version_loses,
            a_commit_that_would_leave_a_gap_is_refused,
            of_commits_on_one_row_at_once_exactly_one_wins,
            many_threads_commit_at_once,
            a_journal_is_read_in_order_and_cleared_by_its_commit,
            a_lane_clears_its_own_journal_only,
            hooks_have_private_key_spaces,
            a_batch_is_there_with_its_record,
            rows_come_oldest_first,
            rows_come_in_pages,
            open_lanes_have_rows_until_a_commit_deletes_them,
            a_lost_commit_leaves_lanes_and_lists_as_they_are,
            the_list_of_a_fan_out_is_kept_as_it_was,
            a_thread_commits_without_waiting_for_its_earlier_commits,
            a_scan_visits_its_range_until_it_is_told_to_stop,
            a_step_under_a_wrong_digest_is_damage,
            a_step_that_does_not_follow_is_damage,
            a_lane_step_names_earlier_steps_of_its_thread,
            an_object_under_a_wrong_digest_is_damage,
            a_row_that_names_another_end_is_damage,
            records_of_every_kind_are_read_back,
            a_fork_shares_the_records_of_its_base,
            a_deleted_thread_leaves_only_objects,
            a_thread_is_deleted_with_those_that_need_it_or_not_at_all,
        ]);
    };
    ($module:ident, $open:path, [$($law:ident,)*]) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                let (store, _alive) = $open();
                super::contract::$law(store).await;
            })*
        }
    };
}

pub(crate) use suite;

fn record(lane: &str, position: u32, text: &str) -> JournalRecord {
    JournalRecord { lane: LanePath::new(lane).unwrap(), position, bytes: text.as_bytes().to_vec() }
}

pub(crate) async fn what_is_committed_is_read_back(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let object = br#"{"text":"hello"}"#.to_vec();
    let digest = Digest::of_bytes(Kind::Message, &object);
    let mut first = trunk.next("one");
    first.objects.push((Kind::Message, digest, object.clone()));
    let second = trunk.next("two");
    store.commit(first.clone()).await.unwrap();
    store.commit(second.clone()).await.unwrap();

    assert_eq!(store.row(&trunk.thread), Ok(Some(second.row.clone())));
    assert_eq!(store.object(Kind::Message, digest), Ok(Some(object)));
    assert_eq!(answers(&*store, &trunk.thread).unwrap(), ["one", "two"]);
    let (stored, note) = store.step(&trunk.thread, 2).unwrap().unwrap();
    let committed = second.step.unwrap();
    assert_eq!((stored.seq, stored.digest, stored.visit), (2, committed.digest, 2));
    assert_eq!(note, committed.note);
    assert_eq!(store.locate(committed.digest), Ok(vec![(trunk.thread.clone(), 2)]));
    let lane = LanePath::trunk();
    assert_eq!(store.visits(&trunk.thread, &lane, &writer(), 1..=9), Ok(vec![(1, 1), (2, 2)]));
    assert_eq!(store.visits(&trunk.thread, &lane, &writer(), 2..=2), Ok(vec![(2, 2)]));

    assert_eq!(store.row(&thread(9)), Ok(None));
    assert_eq!(store.step(&trunk.thread, 3), Ok(None));
    assert_eq!(store.step(&trunk.thread, 0), Ok(None));
    assert_eq!(store.object(Kind::Message, Digest([1; 32])), Ok(None));
    assert_eq!(store.locate(Digest([1; 32])), Ok(Vec::new()));
    assert_eq!(answers(&*store, &thread(9)), Ok(Vec::new()));
}

pub(crate) async fn a_commit_that_expects_another_version_loses(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let first = trunk.next("one");
    store.commit(first.clone()).await.unwrap();
    let conflict = Err(Error::Conflict { thread: trunk.thread.clone() });
    assert_eq!(store.commit(first.clone()).await, conflict);
    let mut ahead = Trunk::new(1);
    (ahead.seq, ahead.version, ahead.head) = (5, 5, trunk.head);
    assert_eq!(store.commit(ahead.next("six")).await, conflict);
    assert_eq!(store.row(&trunk.thread), Ok(Some(first.row)));
    assert_eq!(answers(&*store, &trunk.thread).unwrap(), ["one"]);
}

pub(crate) async fn a_commit_that_would_leave_a_gap_is_refused(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    store.commit(trunk.next("one")).await.unwrap();
    let good = trunk.next("two");
    let broken: [fn(&mut Commit); 5] = [
        |commit| commit.row.version += 1,
        |commit| commit.row.seq += 1,
        |commit| commit.step = None,
        |commit| {
            commit.row.seq += 1;
            commit.step.as_mut().unwrap().seq += 1;
        },
        |commit| {
            commit.step.as_mut().unwrap().found_by.as_mut().unwrap().role = RoleName::new(&"a".repeat(5000)).unwrap();
        },
    ];
    for (case, broken_by) in broken.iter().enumerate() {
        let mut commit = good.clone();
        broken_by(&mut commit);
        let refused = store.commit(commit).await;
        assert!(matches!(refused, Err(Error::Malformed { .. })), "case {case}: {refused:?}");
    }
    store.commit(good).await.unwrap();
    store.commit(trunk.row_only()).await.unwrap();
    assert_eq!(answers(&*store, &trunk.thread).unwrap(), ["one", "two"]);
}

pub(crate) async fn of_commits_on_one_row_at_once_exactly_one_wins(store: Arc<dyn StepStore>) {
    let commits: Vec<Commit> = (0..16).map(|number| Trunk::new(1).next(&format!("answer {number}"))).collect();
    let running: Vec<_> = commits
        .into_iter()
        .map(|commit| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    let mut won = 0;
    for outcome in running {
        match outcome.await.unwrap() {
            Ok(()) => won += 1,
            Err(error) => assert_eq!(error, Error::Conflict { thread: thread(1) }),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(answers(&*store, &thread(1)).unwrap().len(), 1);
}

pub(crate) async fn many_threads_commit_at_once(store: Arc<dyn StepStore>) {
    let running: Vec<_> = (0..64_u8)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut trunk = Trunk::new(number);
                for step in 0..10 {
                    store.commit(trunk.next(&format!("answer {step}"))).await.unwrap();
                }
            })
        })
        .collect();
    for one in running {
        one.await.unwrap();
    }
    for number in 0..64 {
        assert_eq!(answers(&*store, &thread(number)).unwrap().len(), 10);
    }
}

pub(crate) async fn a_journal_is_read_in_order_and_cleared_by_its_commit(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let lane = LanePath::trunk();
    // Not awaited one by one: the unsynced record is written with what follows.
    let records = [(1, false), (0, false), (2, true)];
    for (position, sync) in records {
        store.record(trunk.thread.clone(), vec![record("", position, "reply")], sync).await.unwrap();
    }
    let positions = |store: &dyn StepStore| -> Vec<u32> {
        store.journal(&thread(1), &lane).unwrap().into_iter().map(|record| record.position).collect()
    };
    assert_eq!(positions(&*store), [0, 1, 2]);
    assert_eq!(store.journal(&trunk.thread, &lane).unwrap()[0], record("", 0, "reply"));
    assert_eq!(store.journal(&thread(2), &lane), Ok(Vec::new()));

    // A record that waits together with the commit that clears it is cleared too; a later one stays.
    let clearing = Commit { clear_journal: vec![lane.clone()], ..trunk.next("one") };
    let before = store.record(trunk.thread.clone(), vec![record("", 3, "last reply")], true);
    let commit = store.commit(clearing);
    let after = store.record(trunk.thread.clone(), vec![record("", 0, "next step")], true);
    before.await.unwrap();
    commit.await.unwrap();
    after.await.unwrap();
    assert_eq!(store.journal(&trunk.thread, &lane), Ok(vec![record("", 0, "next step")]));
}

pub(crate) async fn a_lane_clears_its_own_journal_only(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let lanes = ["a[1]", "a[10]", ""];
    let records = lanes.map(|lane| record(lane, 0, lane)).to_vec();
    store.record(trunk.thread.clone(), records, true).await.unwrap();
    store.record(trunk.thread.clone(), vec![record("a[1]", 1, "")], true).await.unwrap();
    store.record(thread(2), vec![record("b[1]", 0, "")], true).await.unwrap();
    let journaled = || -> Vec<String> {
        let lanes = store.journaled_lanes(&thread(1)).unwrap();
        lanes.iter().map(ToString::to_string).collect()
    };
    assert_eq!(journaled(), ["", "a[10]", "a[1]"]);
    let lane = LanePath::new("a[1]").unwrap();
    let clearing = Commit { clear_journal: vec![lane.clone()], ..trunk.next("one") };
    store.commit(clearing).await.unwrap();
    assert_eq!(store.journal(&trunk.thread, &lane), Ok(Vec::new()));
    for lane in ["a[10]", ""] {
        assert_eq!(store.journal(&trunk.thread, &LanePath::new(lane).unwrap()), Ok(vec![record(lane, 0, lane)]));
    }
    assert_eq!(journaled(), ["", "a[10]"]);
}

pub(crate) async fn hooks_have_private_key_spaces(store: Arc<dyn StepStore>) {
    for (space, key, value) in [("kind", "k2", "2"), ("kind", "k1", "1"), ("kind2", "k1", "other"), ("", "k", "x")] {
        store.put_hook_value(space, key.into(), Some(value.into())).await.unwrap();
    }
    store.put_hook_value("kind", b"k3".to_vec(), Some(b"3".to_vec())).await.unwrap();
    store.put_hook_value("kind", b"k3".to_vec(), None).await.unwrap();
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(store.hook_value("kind", b"k1"), Ok(Some(b"1".to_vec())));
    assert_eq!(store.hook_value("kind", b"k3"), Ok(None));
    assert_eq!(store.hook_values("kind", b"", 9), Ok(vec![pair("k1", "1"), pair("k2", "2")]));
    assert_eq!(store.hook_values("kind", b"k1\0", 9), Ok(vec![pair("k2", "2")]));
    assert_eq!(store.hook_values("kind", b"", 1), Ok(vec![pair("k1", "1")]));
    assert_eq!(store.hook_values("kind", b"", 0), Ok(Vec::new()));
    assert_eq!(store.hook_values("nobody", b"", 9), Ok(Vec::new()));
}

pub(crate) async fn a_batch_is_there_with_its_record(store: Arc<dyn StepStore>) {
    let [one, two] = [1, 2].map(|number| BatchId::from_parts(number, 7));
    let line = |number: u32, text: &str| (number, text.as_bytes().to_vec());
    for batch in [&two, &one] {
        store.put_batch(batch, vec![line(1, "a"), line(256, "b")], None).await.unwrap();
    }
    assert_eq!((store.batch(&one), store.batches(None, 9)), (Ok(None), Ok(Vec::new())));
    store.put_batch(&two, vec![line(2, "c")], Some(b"two".to_vec())).await.unwrap();
    store.put_batch(&one, Vec::new(), Some(b"one".to_vec())).await.unwrap();
    assert_eq!(store.batch(&one), Ok(Some(b"one".to_vec())));
    assert_eq!(store.batches(None, 9), Ok(vec![one.clone(), two.clone()]));
    assert_eq!((store.batches(None, 1), store.batches(Some(&one), 9)), (Ok(vec![one.clone()]), Ok(vec![two.clone()])));
    assert_eq!(store.batch_lines(&one, 1, 9), Ok(vec![line(1, "a"), line(256, "b")]));
    assert_eq!(store.batch_lines(&two, 2, 1), Ok(vec![line(2, "c")]));
    assert_eq!(store.rows(None, 9), Ok(Vec::new()));
}

pub(crate) async fn rows_come_oldest_first(store: Arc<dyn StepStore>) {
    for number in [7, 2, 5] {
        store.commit(Trunk::new(number).next("one")).await.unwrap();
    }
    let rows = store.rows(None, usize::MAX).unwrap();
    assert_eq!(rows.iter().map(|(thread, _)| thread.clone()).collect::<Vec<_>>(), [2, 5, 7].map(thread));
    assert!(rows.iter().all(|(_, row)| row.version == 1));
}

pub(crate) async fn rows_come_in_pages(store: Arc<dyn StepStore>) {
    for number in 1..=5 {
        store.commit(Trunk::new(number).next("one")).await.unwrap();
    }
    let page = |after: Option<u8>, limit| -> Vec<ThreadId> {
        let after = after.map(thread);
        store.rows(after.as_ref(), limit).unwrap().into_iter().map(|(thread, _)| thread).collect()
    };
    assert_eq!(page(None, 2), [1, 2].map(thread));
    assert_eq!(page(Some(2), 2), [3, 4].map(thread));
    assert_eq!(page(Some(4), 2), [5].map(thread));
    assert_eq!(page(Some(5), 2), []);
    assert_eq!(page(None, 0), []);
    // The key to continue after need not exist any more.
    assert_eq!(page(Some(0), 1), [1].map(thread));
}

fn lane(frontier: u8, index: u64) -> LaneRow {
    LaneRow { frontier: Some(Digest([frontier; 32])), fold: vec![frontier; 3], opened_by: 1, index }
}

fn row_of_lane(store: &dyn StepStore, thread: &ThreadId, path: &LanePath) -> Result<Option<LaneRow>, Error> {
    let lanes = store.lanes(thread, None, usize::MAX)?;
    Ok(lanes.into_iter().find(|(lane, _)| lane == path).map(|(_, row)| row))
}

pub(crate) async fn open_lanes_have_rows_until_a_commit_deletes_them(store: Arc<dyn StepStore>) {
    let paths = ["a[0]", "a[1]", "a[1]/b[0]", "c[0]"].map(|path| LanePath::new(path).unwrap());
    let (mut trunk, mut other) = (Trunk::new(1), Trunk::new(2));
    let opened = paths.iter().zip(0..).map(|(path, index)| (path.clone(), Some(lane(1, index)))).collect();
    store.commit(Commit { lanes: opened, ..trunk.next("fork") }).await.unwrap();
    store.commit(Commit { lanes: vec![(paths[0].clone(), Some(lane(9, 0)))], ..other.next("fork") }).await.unwrap();
    let page = |after: Option<&LanePath>, limit| -> Vec<(LanePath, LaneRow)> {
        store.lanes(&trunk.thread.clone(), after, limit).unwrap()
    };
    let all: Vec<_> = paths.iter().zip(0..).map(|(path, index)| (path.clone(), lane(1, index))).collect();
    assert_eq!(page(None, usize::MAX), all);
    assert_eq!(page(None, 2), all[..2]);
    assert_eq!(page(Some(&paths[1]), 9), all[2..]);
    assert_eq!(page(None, 0), []);
    assert_eq!(row_of_lane(&*store, &thread(1), &paths[2]), Ok(Some(lane(1, 2))));
    assert_eq!(row_of_lane(&*store, &thread(2), &paths[0]), Ok(Some(lane(9, 0))));
    assert_eq!(row_of_lane(&*store, &thread(2), &paths[1]), Ok(None));
    assert_eq!(row_of_lane(&*store, &thread(3), &paths[1]), Ok(None));

    let goes_on = vec![(paths[1].clone(), Some(lane(2, 1)))];
    store.commit(Commit { lanes: goes_on, ..trunk.row_only() }).await.unwrap();
    assert_eq!(row_of_lane(&*store, &thread(1), &paths[1]), Ok(Some(lane(2, 1))));
    let joined = paths.iter().map(|path| (path.clone(), None)).collect();
    store.commit(Commit { lanes: joined, ..trunk.next("join") }).await.unwrap();
    assert_eq!(store.lanes(&thread(1), None, 9), Ok(Vec::new()));
    assert_eq!(store.lanes(&thread(2), None, 9).unwrap().len(), 1);
}

pub(crate) async fn a_lost_commit_leaves_lanes_and_lists_as_they_are(store: Arc<dyn StepStore>) {
    let path = LanePath::new("a[0]").unwrap();
    let mut trunk = Trunk::new(1);
    let first = Commit {
        lanes: vec![(path.clone(), Some(lane(1, 0)))],
        lists: vec![(1, Some(b"[1]".to_vec()))],
        ..trunk.next("fork")
    };
    store.commit(first.clone()).await.unwrap();
    let late = Commit { lanes: vec![(path.clone(), None)], lists: vec![(1, None)], ..first };
    assert_eq!(store.commit(late).await, Err(Error::Conflict { thread: thread(1) }));
    assert_eq!(row_of_lane(&*store, &thread(1), &path), Ok(Some(lane(1, 0))));
    assert_eq!(store.list(&thread(1), 1), Ok(Some(b"[1]".to_vec())));
}

pub(crate) async fn the_list_of_a_fan_out_is_kept_as_it_was(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let lists = vec![(1, Some(b"[\"a\"]".to_vec())), (256, Some(Vec::new()))];
    store.commit(Commit { lists, ..trunk.next("fork") }).await.unwrap();
    assert_eq!(store.list(&thread(1), 1), Ok(Some(b"[\"a\"]".to_vec())));
    assert_eq!(store.list(&thread(1), 256), Ok(Some(Vec::new())));
    assert_eq!(store.list(&thread(1), 2), Ok(None));
    assert_eq!(store.lists(&thread(1)), Ok(vec![1, 256]));
    assert_eq!(store.lists(&thread(2)), Ok(Vec::new()));
    assert_eq!(store.list(&thread(2), 1), Ok(None));
    store.commit(Commit { lists: vec![(1, None)], ..trunk.row_only() }).await.unwrap();
    assert_eq!(store.list(&thread(1), 1), Ok(None));
}

pub(crate) async fn a_thread_commits_without_waiting_for_its_earlier_commits(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let commits: Vec<Commit> = (0..100).map(|number| trunk.next(&number.to_string())).collect();
    let refused = Trunk { thread: thread(1), head: None, seq: 49, version: 49 }.next("late");
    // All are submitted before the first is awaited, and they are awaited in reverse.
    let mut waiting: Vec<_> = commits.into_iter().map(|commit| store.commit(commit)).collect();
    let late = store.commit(refused);
    waiting.reverse();
    for outcome in waiting {
        assert_eq!(outcome.await, Ok(()));
    }
    assert_eq!(late.await, Err(Error::Conflict { thread: thread(1) }));
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(answers(&*store, &trunk.thread), Ok(expected));
}

pub(crate) async fn a_scan_visits_its_range_until_it_is_told_to_stop(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    for number in 1..=600 {
        store.commit(trunk.next(&number.to_string())).await.unwrap();
    }
    let scan = |seqs, stop_at: u64| {
        let mut seen = Vec::new();
        let outcome = store.steps(&trunk.thread, seqs, &mut |stored, note| {
            assert_eq!((stored.step.answer, note.started_at_ms), (stored.seq.to_string(), stored.seq));
            seen.push(stored.seq);
            stored.seq != stop_at
        });
        outcome.map(|()| seen)
    };
    assert_eq!(scan(1..=u64::MAX, 0), Ok((1..=600).collect()));
    assert_eq!(scan(0..=2, 0), Ok(vec![1, 2]));
    assert_eq!(scan(255..=258, 0), Ok(vec![255, 256, 257, 258]));
    assert_eq!(scan(599..=700, 0), Ok(vec![599, 600]));
    assert_eq!(scan(10..=600, 11), Ok(vec![10, 11]));
    assert_eq!(scan(601..=700, 0), Ok(Vec::new()));
    #[expect(clippy::reversed_empty_ranges, reason = "a range without steps is what is asked for")]
    let backwards = 5..=4;
    assert_eq!(scan(backwards, 0), Ok(Vec::new()));
    assert_eq!(scan(u64::MAX..=u64::MAX, 0), Ok(Vec::new()));
}

pub(crate) async fn a_step_under_a_wrong_digest_is_damage(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let mut commit = trunk.next("one");
    let answer = commit.step.as_mut().unwrap();
    let digest = answer.digest;
    answer.bytes = String::from_utf8(answer.bytes.clone()).unwrap().replace("one", "two").into_bytes();
    store.commit(commit).await.unwrap();
    let what = format!("step 1 of thread {} is not what its digest says", trunk.thread);
    assert_eq!(damage(answers(&*store, &trunk.thread)), what);
    assert_eq!(damage(store.step(&trunk.thread, 1)), what);
    let Err(Error::Damaged(damage)) = store.step(&trunk.thread, 1) else { unreachable!() };
    assert_eq!(damage.thread, Some(trunk.thread));
    assert_eq!(damage.object, Some(digest));
}

pub(crate) async fn a_step_that_does_not_follow_is_damage(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    store.commit(trunk.next("one")).await.unwrap();
    let second = trunk.next("two");
    let mut lost = Trunk::new(1);
    (lost.seq, lost.version, lost.head) = (1, 1, Some(Digest([9; 32])));
    store.commit(lost.next("two")).await.unwrap();
    drop(second);
    let what = format!("step 2 of thread {} does not follow its predecessor", trunk.thread);
    assert_eq!(damage(answers(&*store, &trunk.thread)), what);
    // A scan from this step checks it against the previous one, which it does not return.
    let from_second = store.steps(&trunk.thread, 2..=2, &mut |_, _| true);
    assert_eq!(damage(from_second), what);
}

pub(crate) async fn a_lane_step_names_earlier_steps_of_its_thread(store: Arc<dyn StepStore>) {
    let lanes = ["a[0]", "a[1]"].map(|lane| LanePath::new(lane).unwrap());
    let mut trunk = Trunk::new(1);
    let fork = trunk.next("fork");
    let fork_digest = trunk.head;
    store.commit(fork).await.unwrap();
    let mut arrived = Vec::new();
    for lane in &lanes {
        let commit = trunk.with(&step(fork_digest, "lane", lane));
        arrived.push(commit.step.as_ref().unwrap().digest);
        store.commit(commit).await.unwrap();
    }
    let join = Step { prev: arrived, ..step(None, "join", &LanePath::trunk()) };
    store.commit(trunk.with(&join)).await.unwrap();
    assert_eq!(answers(&*store, &trunk.thread).unwrap(), ["fork", "lane", "lane", "join"]);
    assert!(store.steps(&trunk.thread, 3..=4, &mut |_, _| true).is_ok());

    store.commit(trunk.with(&step(Some(Digest([8; 32])), "stranger", &lanes[0]))).await.unwrap();
    let what = format!("step 5 of thread {} does not follow its predecessor", trunk.thread);
    assert_eq!(damage(answers(&*store, &trunk.thread)), what);
}

pub(crate) async fn an_object_under_a_wrong_digest_is_damage(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let bytes = b"{}".to_vec();
    let (right, wrong) = (Digest::of_bytes(Kind::Head, &bytes), Digest([7; 32]));
    let objects = vec![(Kind::Head, right, bytes.clone()), (Kind::Head, wrong, bytes.clone())];
    store.commit(Commit { objects, ..trunk.next("one") }).await.unwrap();
    assert_eq!(store.object(Kind::Head, right), Ok(Some(bytes)));
    for (kind, digest) in [(Kind::Head, wrong), (Kind::Message, right)] {
        let what = format!("the object {digest} is not the {} that its digest says", kind.name());
        let expected = Damage::new(what).of_object(digest);
        let Err(Error::Damaged(found)) = store.object(kind, digest) else { panic!("{kind:?}") };
        assert_eq!((found.what, found.object, found.thread), (expected.what, expected.object, None));
    }
}

pub(crate) async fn a_row_that_names_another_end_is_damage(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let mut commit = trunk.next("one");
    commit.row.head = Some(Digest([6; 32]));
    store.commit(commit).await.unwrap();
    let what = format!("the row of thread {} does not end at its last step 1", trunk.thread);
    assert_eq!(damage(answers(&*store, &trunk.thread)), what);
}

pub(crate) async fn records_of_every_kind_are_read_back(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    store.commit(trunk.next("one")).await.unwrap();
    let prev: Vec<Digest> = trunk.head.into_iter().collect();
    let compaction = Record::Compaction(Box::new(Compaction {
        kind: RecordKind::Compaction,
        lane: LanePath::trunk(),
        prev,
        role: writer(),
        start: Digest([5; 32]),
        text: "All of it.".to_owned(),
        through_visit: 1,
        transcript: None,
    }));
    let (digest, bytes) = compaction.digest().unwrap();
    let mut second = trunk.next("");
    let key = VisitKey { index: VisitIndex::Compactions, lane: LanePath::trunk(), role: writer(), visit: 1 };
    second.step = second.step.map(|step| NewStep { digest, bytes, found_by: Some(key), ..step });
    (second.row.head, trunk.head) = (Some(digest), Some(digest));
    store.commit(second).await.unwrap();
    let to = Digest([6; 32]);
    let rebind = Record::Rebind(Rebind { kind: RecordKind::Rebind, prev: vec![digest], start: Digest([5; 32]), to });
    let (digest, bytes) = rebind.digest().unwrap();
    let mut third = trunk.next("");
    third.step = third.step.map(|step| NewStep { digest, bytes, found_by: None, ..step });
    (third.row.head, trunk.head) = (Some(digest), Some(digest));
    store.commit(third).await.unwrap();
    store.commit(trunk.next("four")).await.unwrap();

    let mut read = Vec::new();
    let each = &mut |stored: StoredRecord, _| {
        read.push(stored);
        true
    };
    store.scan(&trunk.thread, 1..=9, each).unwrap();
    assert_eq!(read.iter().map(|stored| stored.visit).collect::<Vec<_>>(), [1, 1, 0, 4]);
    assert_eq!((&read[1].record, &read[2].record), (&compaction, &rebind));
    assert_eq!(answers(&*store, &trunk.thread).unwrap(), ["one", "four"]);
    assert_eq!(store.step(&trunk.thread, 2), Ok(None));
    assert_eq!(store.record_at(&trunk.thread, 3).unwrap().map(|(stored, _)| stored), Some(read[2].clone()));
    let lane = LanePath::trunk();
    assert_eq!(store.visits(&trunk.thread, &lane, &writer(), 1..=9), Ok(vec![(1, 1), (4, 4)]));
    assert_eq!(store.compactions(&trunk.thread, &lane, &writer()), Ok(vec![(1, 2)]));
    assert_eq!(store.place(&trunk.thread, read[2].digest), Ok(Some(3)));
}

/// The fork of `trunk` after its step `seq`, and the commit of its row.
fn fork(trunk: &Trunk, number: u8, seq: u64, head: Option<Digest>) -> (Trunk, Commit) {
    let fork = Trunk { thread: thread(number), head, seq, version: 1 };
    let base = Some(Base { thread: trunk.thread.clone(), seq });
    let row = Row { base, ..row(1, seq, head) };
    let commit = Commit::of_row(fork.thread.clone(), row);
    (fork, commit)
}

pub(crate) async fn a_fork_shares_the_records_of_its_base(store: Arc<dyn StepStore>) {
    let mut trunk = Trunk::new(1);
    let mut heads = Vec::new();
    for answer in ["one", "two", "three", "four"] {
        store.commit(trunk.next(answer)).await.unwrap();
        heads.push(trunk.head);
    }
    let commit_fork = |trunk: &Trunk, number, seq: u64| {
        let (fork, commit) = fork(trunk, number, seq, heads.get(usize::try_from(seq).unwrap() - 1).copied().flatten());
        (fork, store.commit(commit))
    };
    let (mut second, committed) = commit_fork(&trunk, 2, 3);
    committed.await.unwrap();
    let with_base = |commit: Commit, trunk: &Trunk, seq| Commit {
        row: Row { base: Some(Base { thread: trunk.thread.clone(), seq }), ..commit.row.clone() },
        ..commit
    };
    let next = with_base(second.next("other"), &trunk, 3);
    store.commit(next).await.unwrap();
    // A fork of the fork, from a step of the base.
    let (mut third, committed) = commit_fork(&second, 3, 2);
    committed.await.unwrap();
    let next = with_base(third.next("third"), &second, 2);
    store.commit(next).await.unwrap();

    assert_eq!(answers(&*store, &trunk.thread).unwrap(), ["one", "two", "three", "four"]);
    assert_eq!(answers(&*store, &second.thread).unwrap(), ["one", "two", "three", "other"]);
    assert_eq!(answers(&*store, &third.thread).unwrap(), ["one", "two", "third"]);
    let scan = |seqs| {
        let mut seen = Vec::new();
        let scanned = store.scan(&second.thread, seqs, &mut |stored, _| {
            seen.push(stored.seq);
            stored.seq < 3
        });
        scanned.map(|()| seen)
    };
    assert_eq!(scan(2..=9), Ok(vec![2, 3]));
    assert_eq!(scan(4..=4), Ok(vec![4]));
    let lane = LanePath::trunk();
    assert_eq!(store.visits(&third.thread, &lane, &writer(), 1..=9), Ok(vec![(1, 1), (2, 2), (3, 3)]));
    assert_eq!(store.place(&third.thread, heads[1].unwrap()), Ok(Some(2)));
    assert_eq!(store.place(&third.thread, heads[2].unwrap()), Ok(None));
    assert_eq!(store.step(&third.thread, 2).unwrap().unwrap().0.step.answer, "two");
    assert_eq!(store.step(&third.thread, 4), Ok(None));

    // A fork of a thread that is not there, and one that leaves a gap.
    let (_, commit) = fork(&Trunk::new(8), 7, 2, heads[1]);
    assert_eq!(store.commit(commit).await, Err(Error::Conflict { thread: thread(8) }));
    let (gap, commit) = fork(&trunk, 9, 3, heads[2]);
    store.commit(commit).await.unwrap();
    let mut ahead = Trunk { seq: 4, ..gap };
    assert!(matches!(store.commit(ahead.next("gap")).await, Err(Error::Malformed { .. })));
}

pub(crate) async fn a_deleted_thread_leaves_only_objects(store: Arc<dyn StepStore>) {
    let (mut kept, mut trunk) = (Trunk::new(1), Trunk::new(2));
    store.commit(kept.next("kept")).await.unwrap();
    let object = (Kind::Transcript, Digest::of_bytes(Kind::Transcript, b"{}"), b"{}".to_vec());
    let path = LanePath::new("writer[0]").unwrap();
    let first = Commit {
        objects: vec![object.clone()],
        lanes: vec![(path.clone(), Some(lane(1, 0)))],
        lists: vec![(1, Some(b"[1]".to_vec()))],
        ..trunk.next("one")
    };
    let digest = first.step.as_ref().unwrap().digest;
    store.commit(first).await.unwrap();
    for lane in [LanePath::trunk(), path.clone()] {
        let records = vec![JournalRecord { lane, position: 0, bytes: b"{}".to_vec() }];
        store.record(trunk.thread.clone(), records, true).await.unwrap();
    }

    let batch = BatchId::from_parts(1, 1);
    let line = b"{\"input\":1}".to_vec();
    store.put_batch(&batch, vec![(1, line.clone()), (2, line.clone())], Some(b"{}".to_vec())).await.unwrap();
    let lines = vec![(batch.clone(), 1, b"{}".to_vec())];
    let threads = vec![(trunk.thread.clone(), 1)];
    assert_eq!(store.delete(Deletion { threads: threads.clone(), lines: lines.clone() }).await, Ok(()));
    assert_eq!(store.batch_lines(&batch, 1, 9), Ok(vec![(1, b"{}".to_vec()), (2, line)]));
    let deleted = trunk.thread.clone();
    assert_eq!(store.row(&deleted), Ok(None));
    assert_eq!(store.rows(None, 9).unwrap().len(), 1);
    assert_eq!(store.step(&deleted, 1), Ok(None));
    assert_eq!(store.locate(digest), Ok(Vec::new()));
    assert_eq!(store.own_place(&deleted, digest), Ok(None));
    assert_eq!(store.own_visits(&deleted, VisitIndex::Steps, (&LanePath::trunk(), &writer()), 0..=9), Ok(Vec::new()));
    assert_eq!(store.lanes(&deleted, None, 9), Ok(Vec::new()));
    assert_eq!(store.list(&deleted, 1), Ok(None));
    assert_eq!(store.journal(&deleted, &LanePath::trunk()), Ok(Vec::new()));
    assert_eq!(store.journal(&deleted, &path), Ok(Vec::new()));
    assert_eq!(store.object(object.0, object.1), Ok(Some(object.2)));
    assert_eq!(answers(&*store, &kept.thread).unwrap(), ["kept"]);

    // A commit of a run that does not know it loses, and so does another deletion.
    let conflict = Err(Error::Conflict { thread: deleted.clone() });
    assert_eq!(store.commit(trunk.next("two")).await, conflict);
    assert_eq!(store.delete(Deletion { threads, lines }).await, conflict);
    let mut again = Trunk::new(2);
    store.commit(again.next("again")).await.unwrap();
    assert_eq!(answers(&*store, &deleted).unwrap(), ["again"]);
}

pub(crate) async fn a_thread_is_deleted_with_those_that_need_it_or_not_at_all(store: Arc<dyn StepStore>) {
    let (mut trunk, mut parent) = (Trunk::new(1), Trunk::new(3));
    store.commit(trunk.next("one")).await.unwrap();
    let (_, commit) = fork(&trunk, 2, 1, trunk.head);
    store.commit(commit).await.unwrap();
    store.commit(parent.next("asks")).await.unwrap();
    let above = Parent { thread: thread(3), role: writer(), lane: LanePath::trunk(), visit: 1 };
    let child = Commit::of_row(thread(4), Row { parent: Some(above), ..row(1, 0, None) });
    store.commit(child).await.unwrap();

    for (alone, with) in [(1, 2), (3, 4)] {
        let delete = |numbers: &[u8]| {
            let threads = numbers.iter().map(|number| (thread(*number), 1)).collect();
            store.delete(Deletion { threads, lines: Vec::new() })
        };
        assert_eq!(delete(&[alone]).await, Err(Error::Conflict { thread: thread(alone) }));
        // One of the versions is wrong, so nothing is deleted.
        let threads = vec![(thread(alone), 1), (thread(with), 2)];
        assert_eq!(
            store.delete(Deletion { threads, lines: Vec::new() }).await,
            Err(Error::Conflict { thread: thread(with) })
        );
        assert!(store.row(&thread(alone)).unwrap().is_some() && store.row(&thread(with)).unwrap().is_some());
        assert_eq!(delete(&[alone, with]).await, Ok(()));
    }
    assert_eq!(store.rows(None, 9), Ok(Vec::new()));
}

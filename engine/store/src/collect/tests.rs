use std::path::Path;

use rondo_protocol::Value;
use rondo_protocol::id::LanePath;
use rondo_protocol::object::{LAYOUT, Start, Step, digest_of};

use super::super::codec::ImportMark;
use super::super::import::ImportWrite;
use super::super::tests::steps::{Trunk, answers, damage, step, thread};
use super::super::{Commit, Deletion, Options, RocksStore, StepStore as _};
use super::*;

const FIRST: [u8; 16] = [1; 16];
const SECOND: [u8; 16] = [2; 16];

fn open(folder: &Path) -> RocksStore {
    RocksStore::open(folder, Options::default()).unwrap().0
}

fn object(kind: Kind, text: &str) -> (Kind, Digest, Vec<u8>) {
    (kind, digest_of(kind, text.as_bytes()).unwrap(), text.as_bytes().to_vec())
}

/// A transcript that names a head, and with `rewritten` also a request.
fn transcript(answer: &str, head: Digest, rewritten: Option<Digest>) -> (Kind, Digest, Vec<u8>) {
    let asked = rewritten.map_or_else(|| "null".to_owned(), |_| format!("\"{head}\""));
    let (request, parts) = (rewritten.unwrap_or(head), format!(r#"[{{"kind":"text","text":"{answer}"}}]"#));
    let reply = format!(r#"{{"finish":"stop","parts":{parts}}}"#);
    let entry = format!(r#"{{"asked":{asked},"head":"{head}","kind":"model","reply":{reply},"request":"{request}"}}"#);
    object(Kind::Transcript, &format!(r#"{{"entries":[{entry}]}}"#))
}

/// The next commit of a thread, with all objects that it names. Threads of one definition share it.
fn next(trunk: &mut Trunk, definition: &str, answer: &str) -> Commit {
    let workflow = object(Kind::Workflow, &format!("\"workflow of {definition}\""));
    let policy = object(Kind::Policy, &format!("\"policy of {definition}\""));
    let head = object(Kind::Head, &format!("\"head of {definition}\""));
    let start = Start { input: Value::empty_object(), layout: LAYOUT, workflow: workflow.1 };
    let (start, start_bytes) = Digest::of(Kind::Start, &start).unwrap();
    let said = transcript(answer, head.1, None);
    let step = Step { start, transcript: Some(said.1), ..step(trunk.head, answer, &LanePath::trunk()) };
    let mut commit = trunk.with(&step);
    (commit.row.workflow, commit.row.policy, commit.row.start) = (workflow.1, policy.1, start);
    commit.objects = vec![workflow, policy, head, (Kind::Start, start, start_bytes), said];
    commit
}

async fn submit(store: &RocksStore, write: CollectWrite) -> Result<(), Error> {
    WriteStore::submit(store, Write::Collect(write)).await
}

async fn collect(store: &RocksStore) -> Result<Garbage, Error> {
    super::collect(store, || FIRST, &mut |_| ()).await
}

async fn delete(store: &RocksStore, trunk: &Trunk) {
    let threads = vec![(trunk.thread.clone(), trunk.version)];
    store.delete(Deletion { threads, lines: Vec::new() }).await.unwrap();
}

/// Writes or deletes an entry, past all checks.
async fn put(store: &RocksStore, family: Family, key: Vec<u8>, value: Option<Vec<u8>>) {
    let changes = vec![Change { family, key, value }];
    WriteStore::submit(store, Write::Changes { changes, sync: false }).await.unwrap();
}

fn stored(store: &RocksStore) -> BTreeSet<Digest> {
    let mut stored = BTreeSet::new();
    let mut each = |key: &[u8], _: &[u8]| {
        stored.extend(keys::object_of(key));
        Ok(ControlFlow::Continue(()))
    };
    store.range(Family::Objects, keys::objects(), &mut each).unwrap();
    stored
}

fn digests(objects: &[(Kind, Digest, Vec<u8>)]) -> BTreeSet<Digest> {
    objects.iter().map(|(_, digest, _)| *digest).collect()
}

#[tokio::test]
async fn what_a_thread_names_stays_and_everything_else_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (mut kept, mut gone) = (Trunk::new(1), Trunk::new(2));
    let first = next(&mut kept, "both", "one");
    // A request that a hook rewrote, with a head that only it names.
    let other_head = object(Kind::Head, "\"rewritten\"");
    let rewritten = object(Kind::Request, &format!(r#"{{"head":"{}","messages":[]}}"#, other_head.1));
    let said = transcript("two", first.objects[2].1, Some(rewritten.1));
    let transcript = Some(said.1);
    let step = Step { start: first.row.start, transcript, ..step(kept.head, "two", &LanePath::trunk()) };
    let mut second = kept.with(&step);
    (second.row.workflow, second.row.policy, second.row.start) =
        (first.row.workflow, first.row.policy, first.row.start);
    second.objects = vec![said, rewritten, other_head];
    let needed: BTreeSet<Digest> = &digests(&first.objects) | &digests(&second.objects);
    for commit in [first, second, next(&mut gone, "both", "only here"), next(&mut gone, "both", "one")] {
        store.commit(commit).await.unwrap();
    }
    // Nothing names what a failed attempt left.
    let lost = object(Kind::Head, "\"lost\"");
    put(&store, Family::Objects, keys::object(lost.1), Some(codec::write_object(lost.0, &lost.2))).await;
    let mut of = 0;
    let found = find(&store, &BTreeSet::new(), &mut |at| of = at.of).unwrap();
    assert_eq!(found, Garbage { objects: vec![lost.1], size_bytes: found.size_bytes });
    let without = find(&store, &BTreeSet::from([gone.thread.clone()]), &mut |_| ()).unwrap();
    assert_eq!(without.count(), 2);
    assert_eq!(collect(&store).await.unwrap(), found);

    delete(&store, &gone).await;
    assert_eq!(collect(&store).await.unwrap().count(), 1);
    assert_eq!(stored(&store), needed);
    assert_eq!(collect(&store).await, Ok(Garbage::default()));
    assert_eq!(answers(&store, &kept.thread).unwrap(), ["one", "two"]);
    delete(&store, &kept).await;
    assert_eq!(collect(&store).await.unwrap().count(), needed.len() as u64);
    assert_eq!(stored(&store), BTreeSet::new());
}

#[tokio::test]
async fn an_object_that_is_written_again_meanwhile_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut gone = Trunk::new(1);
    store.commit(next(&mut gone, "both", "one")).await.unwrap();
    delete(&store, &gone).await;
    submit(&store, CollectWrite::Begin { token: FIRST }).await.unwrap();
    let garbage = find(&store, &BTreeSet::new(), &mut |_| ()).unwrap();
    let mut new = Trunk::new(2);
    let commit = next(&mut new, "both", "two");
    let needed = digests(&commit.objects);
    store.commit(commit).await.unwrap();
    // Of an import too, whose rows come last.
    let mut brought = Trunk::new(3);
    let part = next(&mut brought, "both", "one");
    let mark = ImportMark { token: SECOND, threads: vec![brought.thread.clone()], batches: Vec::new() };
    let change = |(kind, digest, bytes): &(Kind, Digest, Vec<u8>)| {
        let value = Some(codec::write_object(*kind, bytes));
        Change { family: Family::Objects, key: keys::object(*digest), value }
    };
    let parts = ImportWrite::Part { token: SECOND, changes: part.objects.iter().map(change).collect() };
    for write in [ImportWrite::Begin(mark), parts] {
        WriteStore::submit(&store, Write::Import(Box::new(write))).await.unwrap();
    }
    assert_eq!(garbage.objects.len(), 5);
    submit(&store, CollectWrite::Sweep { token: FIRST, objects: garbage.objects }).await.unwrap();
    assert_eq!(stored(&store), &needed | &digests(&part.objects));
}

#[tokio::test]
async fn a_collection_that_was_ended_deletes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let mut trunk = Trunk::new(1);
    store.commit(next(&mut trunk, "one", "one")).await.unwrap();
    delete(&store, &trunk).await;
    let before = stored(&store);
    let sweep = |token| CollectWrite::Sweep { token, objects: before.iter().copied().collect() };
    assert_eq!(submit(&store, sweep(FIRST)).await, Err(Error::CollectionEnded));
    submit(&store, CollectWrite::Begin { token: FIRST }).await.unwrap();
    submit(&store, CollectWrite::Begin { token: SECOND }).await.unwrap();
    assert_eq!(submit(&store, sweep(FIRST)).await, Err(Error::CollectionEnded));
    // The end of the first one is none of the second.
    submit(&store, CollectWrite::End { token: FIRST }).await.unwrap();
    drop(store);
    store = open(folder.path());
    assert_eq!(submit(&store, sweep(SECOND)).await, Err(Error::CollectionEnded));
    assert_eq!(stored(&store), before);
    submit(&store, CollectWrite::Begin { token: SECOND }).await.unwrap();
    submit(&store, sweep(SECOND)).await.unwrap();
    assert_eq!(stored(&store), BTreeSet::new());
}

#[tokio::test]
async fn what_an_import_has_written_is_not_collected_before_it_ends_and_is_when_it_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut brought = Trunk::new(1);
    let (_, digest, bytes) = next(&mut brought, "one", "one").objects.remove(0);
    let mark = ImportMark { token: FIRST, threads: vec![brought.thread.clone()], batches: Vec::new() };
    let value = Some(codec::write_object(Kind::Workflow, &bytes));
    let changes = vec![Change { family: Family::Objects, key: keys::object(digest), value }];
    for write in [ImportWrite::Begin(mark), ImportWrite::Part { token: FIRST, changes }] {
        WriteStore::submit(&store, Write::Import(Box::new(write))).await.unwrap();
    }
    assert_eq!(collect(&store).await, Err(Error::ImportUnderWay));
    assert_eq!(stored(&store), BTreeSet::from([digest]));
    drop(store);
    let store = open(folder.path());
    assert_eq!(collect(&store).await.unwrap().objects, [digest]);
    assert_eq!(stored(&store), BTreeSet::new());
}

#[tokio::test]
async fn where_something_is_damaged_or_missing_nothing_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (mut kept, mut gone) = (Trunk::new(1), Trunk::new(2));
    let commits = [next(&mut kept, "kept", "one"), next(&mut kept, "kept", "two")];
    for commit in commits.clone().into_iter().chain([next(&mut gone, "gone", "one")]) {
        store.commit(commit).await.unwrap();
    }
    delete(&store, &gone).await;
    let object = |of: usize| (Family::Objects, keys::object(commits[0].objects[of].1));
    let step = |seq| (Family::Steps, keys::step(&thread(1), seq));
    let places = [object(0), object(2), object(4), step(1), step(2), (Family::Threads, keys::row(&thread(1)))];
    for (family, key) in places {
        let whole = store.get(family, &key).unwrap().unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let is_row = family == Family::Threads;
        // A thread whose row is missing is no thread, and the origin at the end of a row is not the store's to read.
        let damaged = [(!is_row).then_some(None), Some(Some(if is_row { whole[..9].to_vec() } else { flipped }))];
        for value in damaged.into_iter().flatten() {
            put(&store, family, key.clone(), value).await;
            let before = stored(&store);
            let what = damage(collect(&store).await);
            assert!(!what.is_empty());
            assert_eq!(stored(&store), before, "{what}");
        }
        put(&store, family, key, Some(whole)).await;
    }
    assert_eq!(collect(&store).await.unwrap().count(), 5);
}

#[test]
fn a_collection_ends_when_more_was_written_than_is_remembered() {
    let mut collection = Collection::new(FIRST);
    let change = |number: u64, value| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_be_bytes());
        Change { family: Family::Objects, key: keys::object(Digest(digest)), value }
    };
    let written = |range: std::ops::Range<u64>| range.map(|number| change(number, Some(Vec::new()))).collect();
    let most = MAX_WRITTEN as u64;
    let changes: Vec<Change> = written(0..most);
    assert!(collection.remember(&changes));
    assert!(collection.remember(&[change(most, None)]), "a deletion names nothing");
    assert!(!collection.remember(&[change(most, Some(Vec::new()))]));
}

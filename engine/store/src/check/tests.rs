//! Damage that no checksum can tell: each entry of a store with children, forks, lanes and a compaction is taken away
//! or changed, as a fault in rondo itself would do it.

pub(crate) mod stored;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use super::super::tables::Change;
use super::super::write::{Write, WriteStore as _};
use super::super::{Options, RocksReader, RocksStore, Tables as _};
use super::*;
use stored::fixture;

/// The faults of tables that can be read.
pub(crate) fn faults_of(tables: &dyn Remnants) -> Result<Vec<Fault>, Error> {
    let (mut faults, mut save) = (Faults::default(), |_: &Checkpoint| {});
    let mut checkpoints = Checkpoints::new(None, Duration::MAX, &mut save);
    run(tables, &mut faults, &mut Examination::default(), (&mut checkpoints, &mut |_| {}))?;
    Ok(faults.into_list())
}

fn examined(folder: &Path) -> Examination {
    check(folder, &mut |_| {}).unwrap()
}

pub(crate) fn entries(folder: &Path) -> Vec<(Family, Vec<u8>, Vec<u8>)> {
    let (reader, _) = RocksReader::open(folder).unwrap();
    let mut all = Vec::new();
    for family in Family::ALL {
        let each = &mut |key: &[u8], value: &[u8]| {
            all.push((family, key.to_vec(), value.to_vec()));
            Ok(ControlFlow::Continue(()))
        };
        reader.range(family, Vec::new()..vec![u8::MAX], each).unwrap();
    }
    all
}

pub(crate) async fn put(store: &RocksStore, family: Family, key: &[u8], value: Option<&[u8]>) {
    let changes = vec![Change { family, key: key.to_vec(), value: value.map(<[u8]>::to_vec) }];
    store.submit(Write::Changes { changes, sync: false }).await.unwrap();
}

/// Whether the store may lack an entry: nothing tells that it ever was there.
fn may_be_missing(family: Family, key: &[u8]) -> bool {
    matches!(family, Family::Journal | Family::Hooks | Family::Meta) || key.starts_with(b"tl") || key.starts_with(b"te")
}

#[test]
fn a_whole_store_is_proven_and_left_as_it_is() {
    let folder = fixture();
    let files = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder.join("db")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files(folder.path());
    let mut reports = 0;
    let examination = check(folder.path(), &mut |_| reports += 1).unwrap();
    assert_eq!(examination.faults, Vec::new());
    assert_eq!(examination.threads, examination.whole_threads);
    let steps = entries(folder.path()).iter().filter(|(family, ..)| *family == Family::Steps).count();
    assert_eq!(usize::try_from(examination.steps), Ok(steps));
    assert_eq!(files(folder.path()), before);
}

#[tokio::test]
async fn an_entry_that_is_gone_is_named() {
    let folder = fixture();
    let all = entries(folder.path());
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let mut named = BTreeSet::new();
    for (family, key, value) in all.iter().filter(|(family, key, _)| !may_be_missing(*family, key)) {
        put(&store, *family, key, None).await;
        let examination = examined(folder.path());
        put(&store, *family, key, Some(value)).await;
        let thread = super::super::keys::thread_of(key);
        let is_named = |fault: &Fault| thread.as_ref().is_none_or(|thread| fault.threads.contains(thread));
        assert!(
            examination.faults.iter().any(is_named),
            "{} {} is gone: {examination:?}",
            family.name(),
            key.escape_ascii()
        );
        assert!(family != &Family::Objects || examination.faults.iter().all(|fault| !fault.threads.is_empty()));
        named.insert(*family);
    }
    assert_eq!(named.len(), 5, "{named:?}");
    assert_eq!(examined(folder.path()).faults, Vec::new());
}

#[tokio::test]
async fn an_entry_that_is_another_one_is_named() {
    let folder = fixture();
    let all = entries(folder.path());
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    for (family, key, value) in all.iter().filter(|(_, _, value)| !value.is_empty()) {
        // A value of version 0 was never written.
        let mut unread = value.clone();
        unread[0] = 0;
        put(&store, *family, key, Some(&unread)).await;
        let is_format = *family == Family::Meta && value.len() == 4;
        let outcome = check(folder.path(), &mut |_| {});
        put(&store, *family, key, Some(value)).await;
        let is_told = outcome.as_ref().is_ok_and(|examination| !examination.faults.is_empty());
        assert!(is_format || is_told, "{} {}: {outcome:?}", family.name(), key.escape_ascii());
        // The last byte of a hashed value.
        if matches!(family, Family::Objects | Family::Steps) {
            let mut changed = value.clone();
            *changed.last_mut().unwrap() ^= 1;
            put(&store, *family, key, Some(&changed)).await;
            let faults = examined(folder.path()).faults;
            put(&store, *family, key, Some(value)).await;
            assert!(faults.iter().any(|fault| fault.object.is_some() && !fault.threads.is_empty()), "{faults:?}");
        }
    }
    assert_eq!(examined(folder.path()).faults, Vec::new());
}

#[tokio::test]
async fn an_entry_too_many_is_named() {
    let folder = fixture();
    let all = entries(folder.path());
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    for kind in [b"pl", b"vi", b"no", b"st", b"tl", b"te", b"jo", b"th"] {
        let Some((family, key, value)) = all.iter().find(|(_, key, _)| key.starts_with(kind)) else { continue };
        // The same entry of a thread that is not there.
        let mut strange = key.clone();
        let at = if kind == b"pl" { 2 + 16 + 15 } else { 2 + 15 };
        strange[at] ^= 0x55;
        put(&store, *family, &strange, Some(value)).await;
        let faults = examined(folder.path()).faults;
        put(&store, *family, &strange, None).await;
        assert!(!faults.is_empty(), "{}", key.escape_ascii());
    }
    let (family, key, value) = all.iter().find(|(_, key, _)| key.starts_with(b"vi")).unwrap();
    let mut other_visit = key.clone();
    *other_visit.last_mut().unwrap() += 100;
    put(&store, *family, &other_visit, Some(value)).await;
    assert!(examined(folder.path()).faults.iter().any(|fault| fault.what.contains("by what it is not")));
    put(&store, *family, &other_visit, None).await;
    put(&store, Family::Objects, b"zz", Some(b"")).await;
    assert_eq!(examined(folder.path()).faults.len(), 1);
}

/// An examination from a checkpoint, or from the beginning, with those that it makes.
fn examined_on(folder: &Path, from: Option<Checkpoint>) -> (Examination, Vec<Checkpoint>) {
    let mut made = Vec::new();
    let mut save = |checkpoint: &Checkpoint| made.push(checkpoint.clone());
    let mut checkpoints = Checkpoints::new(from, Duration::ZERO, &mut save);
    let examination = check_on(folder, &mut checkpoints, &mut |_| {}).unwrap();
    (examination, made)
}

#[tokio::test]
async fn an_examination_goes_on_from_wherever_another_was_interrupted() {
    let folder = fixture();
    let whole = examined(folder.path());
    let (same, made) = examined_on(folder.path(), None);
    assert_eq!(same, whole);
    let families = made.iter().map(|checkpoint| checkpoint.family).collect::<BTreeSet<_>>();
    assert_eq!(families, [Family::Objects, Family::Threads].into());
    for (at, from) in made.iter().enumerate() {
        let (examination, after) = examined_on(folder.path(), Some(from.clone()));
        assert_eq!(examination, whole, "from {from:?}");
        assert_eq!(after, made[at + 1..], "what is behind it is examined, and nothing else");
    }

    // After damage behind it, everything is told as if there had been no interruption, also what it had passed over.
    let first = made.first().cloned();
    let entries = entries(folder.path());
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let (_, key, _) = entries.iter().rfind(|(family, ..)| *family == Family::Notes).unwrap();
    put(&store, Family::Notes, key, None).await;
    let (_, key, _) = entries.iter().find(|(family, ..)| *family == Family::Objects).unwrap();
    put(&store, Family::Objects, key, None).await;
    drop(store);
    let damaged = examined(folder.path());
    assert!(damaged.faults.len() > 1, "{:?}", damaged.faults);
    assert_eq!(examined_on(folder.path(), first).0, damaged);
}

#[tokio::test]
async fn after_a_write_an_examination_begins_anew() {
    let folder = fixture();
    let (_, made) = examined_on(folder.path(), None);
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let mut trunk = super::super::tests::steps::Trunk::new(7);
    crate::StepStore::commit(&store, trunk.next("more")).await.unwrap();
    drop(store);
    let (_, anew) = examined_on(folder.path(), made.last().cloned());
    assert_eq!(anew.first().map(|checkpoint| checkpoint.family), Some(Family::Objects));
}

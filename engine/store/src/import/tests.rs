use super::super::check::check;
use super::super::tests::steps::{Trunk, answers, thread};
use super::super::{Commit, Options, RocksReader, RocksStore, StepStore as _};
use super::*;

const FIRST: [u8; 16] = [1; 16];
const SECOND: [u8; 16] = [2; 16];

fn open(folder: &std::path::Path) -> (RocksStore, Vec<String>) {
    RocksStore::open(folder, Options::default()).unwrap()
}

fn begin(token: [u8; 16], thread: &ThreadId) -> ImportWrite {
    ImportWrite::Begin(ImportMark { token, threads: vec![thread.clone()], batches: Vec::new() })
}

/// The steps of a thread as a part, and its row as the end.
fn parts(token: [u8; 16], trunk: &mut Trunk, steps: u64) -> (ImportWrite, ImportWrite) {
    let commits: Vec<Commit> = (0..steps).map(|number| trunk.next(&number.to_string())).collect();
    let of = |commit: &Commit| write::step(&trunk.thread, commit.step.as_ref().unwrap()).unwrap();
    let changes = commits.iter().flat_map(of).collect();
    let row = ImportedThread::new(trunk.thread.clone(), &commits.last().unwrap().row);
    let finish = ImportWrite::Finish { token, threads: vec![row], batches: Vec::new(), sync: true };
    (ImportWrite::Part { token, changes }, finish)
}

async fn submit(store: &RocksStore, write: ImportWrite) -> Result<(), Error> {
    WriteStore::submit(store, Write::Import(Box::new(write))).await
}

fn count(store: &impl Tables, family: Family) -> usize {
    let mut count = 0;
    let mut each = |_: &[u8], _: &[u8]| {
        count += 1;
        Ok(ControlFlow::Continue(()))
    };
    store.range(family, Vec::new()..vec![u8::MAX], &mut each).unwrap();
    count
}

#[tokio::test]
async fn an_import_is_visible_when_it_is_complete_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut trunk = Trunk::new(1);
    let (part, finish) = parts(FIRST, &mut trunk, 3);
    submit(&store, begin(FIRST, &trunk.thread)).await.unwrap();
    submit(&store, part).await.unwrap();
    assert_eq!(RocksReader::open(folder.path()).unwrap().0.rows(None, 9), Ok(Vec::new()));
    let examined = check(folder.path(), &mut |_| ()).unwrap();
    assert_eq!((examined.faults, examined.notices.len()), (Vec::new(), 1));
    // A run of the same thread must not mix with it.
    let run = store.commit(Trunk::new(1).next("mine")).await;
    assert_eq!(run, Err(Error::Conflict { thread: trunk.thread.clone() }));
    submit(&store, finish).await.unwrap();
    assert_eq!(answers(&store, &trunk.thread).unwrap(), ["0", "1", "2"]);
    // It continues by ordinary commits, also in another process.
    store.commit(trunk.next("3")).await.unwrap();
    drop(store);
    let (store, notices) = open(folder.path());
    assert_eq!(notices, Vec::<String>::new());
    store.commit(trunk.next("4")).await.unwrap();
    assert_eq!(answers(&store, &trunk.thread).unwrap().len(), 5);
    assert_eq!(store.get(Family::Meta, keys::IMPORT), Ok(None));
}

#[tokio::test]
async fn what_an_interrupted_import_wrote_is_removed_by_the_next_opening() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut own = Trunk::new(2);
    store.commit(own.next("own")).await.unwrap();
    let mut trunk = Trunk::new(1);
    let (part, finish) = parts(FIRST, &mut trunk, 3);
    submit(&store, begin(FIRST, &trunk.thread)).await.unwrap();
    submit(&store, part.clone()).await.unwrap();
    drop(store);
    let (store, notices) = open(folder.path());
    assert_eq!(notices, ["an import was interrupted; what it had written has been removed"]);
    let left = [Family::Steps, Family::Notes, Family::Index].map(|family| count(&store, family));
    // The step of the other thread, its note, its place and its visit.
    assert_eq!(left, [1, 1, 2]);
    assert_eq!(answers(&store, &thread(2)).unwrap(), ["own"]);
    for late in [part, finish] {
        assert_eq!(submit(&store, late).await, Err(Error::ImportEnded));
    }
    drop(store);
    assert_eq!(open(folder.path()).1, Vec::<String>::new());
}

#[tokio::test]
async fn of_two_imports_the_later_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let (mut one, mut other) = (Trunk::new(1), Trunk::new(2));
    let (part, finish) = parts(FIRST, &mut one, 2);
    submit(&store, begin(FIRST, &one.thread)).await.unwrap();
    submit(&store, part).await.unwrap();
    submit(&store, begin(SECOND, &other.thread)).await.unwrap();
    assert_eq!(count(&store, Family::Steps), 0);
    assert_eq!(submit(&store, finish).await, Err(Error::ImportEnded));
    submit(&store, ImportWrite::Abandon { token: FIRST }).await.unwrap();
    let (part, finish) = parts(SECOND, &mut other, 2);
    submit(&store, part).await.unwrap();
    submit(&store, finish).await.unwrap();
    assert_eq!(store.rows(None, 9).unwrap().len(), 1);
    // What is there already is not brought a second time.
    let again = submit(&store, begin(FIRST, &other.thread)).await;
    assert_eq!(again, Err(Error::Conflict { thread: other.thread.clone() }));
}

#[tokio::test]
async fn a_thread_whose_base_was_deleted_meanwhile_is_not_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open(folder.path());
    let mut trunk = Trunk::new(1);
    let (part, finish) = parts(FIRST, &mut trunk, 1);
    let ImportWrite::Finish { token, mut threads, batches, sync } = finish else { panic!() };
    threads[0].needs = vec![thread(7)];
    submit(&store, begin(FIRST, &trunk.thread)).await.unwrap();
    submit(&store, part).await.unwrap();
    let refused = submit(&store, ImportWrite::Finish { token, threads, batches, sync }).await;
    assert_eq!(refused, Err(Error::Conflict { thread: thread(7) }));
    assert_eq!(store.row(&trunk.thread), Ok(None));
}

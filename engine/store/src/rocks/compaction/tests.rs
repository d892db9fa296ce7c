use super::super::super::folder;
use super::super::super::recovery::DATABASE;
use super::super::super::tests::steps::{Trunk, answers};
use super::super::super::{Deletion, Options, RocksReader, StepStore as _};
use super::*;

#[test]
fn pieces_have_a_size_and_end_with_the_tables() {
    let table = |end: &str, pieces: usize| (end.as_bytes().to_vec(), pieces * PIECE_BYTES / 4);
    let tables = || vec![table("f", 3), table("b", 1), table("d", 3), table("h", 1), table("h", 9)];
    let mut ends = Vec::new();
    let mut from = Vec::new();
    while let Some(last) = last_of_piece(tables(), &from) {
        ends.push(String::from_utf8(last.clone()).unwrap());
        from = [&last[..], &[0]].concat();
    }
    // The rest after `f` ends with the last table.
    assert_eq!(ends, ["d"]);
    assert_eq!(last_of_piece(Vec::new(), b""), None);
}

#[tokio::test]
async fn what_was_deleted_takes_no_room_after_a_compaction_and_the_store_opens() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = RocksStore::open(folder.path(), Options::default()).unwrap();
    let (mut kept, mut gone) = (Trunk::new(1), Trunk::new(2));
    store.commit(kept.next("kept")).await.unwrap();
    // Text that LZ4 cannot make shorter.
    let mut state = 1_u64;
    for _ in 0..64 {
        let mut text = String::new();
        while text.len() < 64 << 10 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.extend(char::from_u32(33 + u32::try_from(state >> 40).unwrap() % 90));
        }
        store.commit(gone.next(&text)).await.unwrap();
    }
    let compact = |store: &RocksStore| {
        for family in Family::ALL {
            assert_eq!(store.compact(family, b""), Ok(None));
        }
    };
    compact(&store);
    let threads = vec![(gone.thread.clone(), gone.version)];
    store.delete(Deletion { threads, lines: Vec::new() }).await.unwrap();
    let database = folder.path().join(DATABASE);
    let sizes = || {
        let tables = folder::files(&database, folder::TABLE).unwrap();
        tables.iter().map(|table| table.metadata().unwrap().len()).sum::<u64>()
    };
    let before = sizes();
    compact(&store);
    assert!(before > 3 << 20 && sizes() < 1 << 16, "{before} {}", sizes());
    // Killed now: the anchor knows the manifest from before the compaction.
    let (reader, _) = RocksReader::open(folder.path()).unwrap();
    assert_eq!(answers(&reader, &kept.thread).unwrap(), ["kept"]);
    store.commit(kept.next("and on")).await.unwrap();
    drop(store);
    let (store, notices) = RocksStore::open(folder.path(), Options::default()).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(answers(&store, &kept.thread).unwrap(), ["kept", "and on"]);
}

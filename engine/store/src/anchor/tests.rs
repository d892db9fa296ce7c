use super::*;

const MANIFEST: Position = Position { number: 5, end: 580 };

fn ledger(batches: u64) -> Ledger {
    Ledger { batches, steps: batches, chain: [7; 32] }
}

fn batches(folder: &Path) -> Option<u64> {
    match look(folder).unwrap() {
        AnchorState::Slot(slot) => Some(slot.ledger.batches),
        _ => None,
    }
}

#[test]
fn a_torn_slot_leaves_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut anchor = Anchor::claim(folder.path(), ledger(0), Position::default()).unwrap();
    for count in 1..=4 {
        anchor.write(ledger(count)).unwrap();
    }
    assert_eq!(batches(folder.path()), Some(4));
    let path = folder.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    for slot in [0, SLOT_BYTES] {
        let mut torn = whole.clone();
        torn[slot + 30] ^= 1;
        std::fs::write(&path, torn).unwrap();
        assert!(matches!(batches(folder.path()), Some(3 | 4)), "slot at {slot}");
    }
    std::fs::write(&path, vec![0; FILE_BYTES]).unwrap();
    assert_eq!(look(folder.path()), Ok(AnchorState::Unreadable));
    std::fs::write(&path, b"").unwrap();
    assert_eq!(look(folder.path()), Ok(AnchorState::Unreadable));
}

#[test]
fn a_writer_sees_that_it_was_displaced() {
    let folder = tempfile::tempdir().unwrap();
    let first = Anchor::claim(folder.path(), ledger(1), MANIFEST).unwrap();
    assert_eq!(first.is_ours(), Ok(true));
    let second = Anchor::claim(folder.path(), ledger(1), MANIFEST).unwrap();
    assert_eq!(first.is_ours(), Ok(false));
    assert_eq!(second.is_ours(), Ok(true));
    assert_eq!(second.last.generation, first.last.generation + 1);
}

#[test]
fn a_newer_version_is_no_guess() {
    let slot = Slot { generation: 1, turn: 1, ledger: ledger(1), manifest: MANIFEST };
    assert_eq!(decode(&encode(&slot)), Ok(Some(slot)));
    let mut body = encode(&slot)[..BODY_BYTES].to_vec();
    body[8] = 3;
    let checksum = Sha256::digest(&body);
    body.extend_from_slice(&checksum);
    body.resize(SLOT_BYTES, 0);
    assert_eq!(decode(&body), Err(Error::Format { found: 3, known: 2 }));
}

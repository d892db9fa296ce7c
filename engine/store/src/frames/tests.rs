use super::*;

fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let sum = checksum(kind, bytes);
    let length = u16::try_from(bytes.len()).unwrap().to_le_bytes();
    [&sum.to_le_bytes()[..], &length, &[kind], bytes].concat()
}

fn frames(bytes: &[u8]) -> Frames {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("000001.log");
    std::fs::write(&path, bytes).unwrap();
    read(&path).unwrap()
}

#[test]
fn the_checksum_is_the_one_of_the_standard() {
    assert_eq!(crc32c(&[b"1234", b"56789"]), 0xe306_9283);
}

#[test]
fn a_file_is_sound_up_to_the_first_wrong_byte() {
    let first = record(FULL, b"one");
    let filled = record(2, &vec![7; BLOCK_BYTES - first.len() - HEADER_BYTES - 3]);
    let whole = [&first[..], &filled, &[0; 3], &record(LAST, b"its end")].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("MANIFEST-000001");
    for at in [None, Some(0), Some(first.len() + 9), Some(BLOCK_BYTES), Some(whole.len() - 1)] {
        let mut bytes = whole.clone();
        if let Some(at) = at {
            bytes[at] ^= 1;
        }
        std::fs::write(&path, bytes).unwrap();
        let end = at.map_or(whole.len(), |at| if at == 0 { 0 } else { first.len() });
        assert_eq!(sound_end(&path).unwrap(), end as u64, "{at:?}");
    }
}

#[test]
fn whole_files_and_cut_ends_have_no_fault() {
    let whole = [record(FULL, b"one"), record(2, b"two, "), record(LAST, b"its end")].concat();
    assert_eq!(frames(&whole), Frames { end: whole.len() as u64, fault: None });
    for cut in 1..=record(LAST, b"its end").len() {
        assert_eq!(frames(&whole[..whole.len() - cut]), Frames { end: 10, fault: None }, "{cut} bytes less");
    }
    let unwritten = [whole.clone(), vec![0; 3 * BLOCK_BYTES]].concat();
    assert_eq!(frames(&unwritten), Frames { end: whole.len() as u64, fault: None });
    assert_eq!(frames(b""), Frames::default());
}

#[test]
fn a_record_of_a_recycled_log_is_a_fault_where_rocksdb_would_reach_it() {
    let first = record(FULL, b"one");
    for kind in [5, 6, 7, 8, 11, 131] {
        let mut second = record(FULL, b"two");
        second[6] = kind;
        let fault = Some((first.len() as u64, RECYCLED));
        assert_eq!(frames(&[first.clone(), second.clone()].concat()).fault, fault);
        assert_eq!(frames(&[&first[..], &[0, 0, 0, 0, 0, 0, kind]].concat()).fault, fault, "seven bytes");
        let mut wrong = first.clone();
        wrong[8] ^= 1;
        assert_eq!(frames(&[wrong, second].concat()).fault, None);
    }
}

#[test]
fn zeros_before_a_record_are_a_fault() {
    let first = record(FULL, b"one");
    let fault = Some((first.len() as u64, ZEROS));
    assert_eq!(frames(&[first.clone(), vec![0; 20], record(FULL, b"two")].concat()).fault, fault);
    let next_block = [first.clone(), vec![0; BLOCK_BYTES - first.len()], record(FULL, b"two")].concat();
    assert_eq!(frames(&next_block).fault, fault);
    // Fewer bytes than a header at the end of a block are never a record.
    let filler = BLOCK_BYTES - 2 * HEADER_BYTES - 4;
    let padded = [record(FULL, &vec![1; filler + 5]), vec![0; 6], record(FULL, b"two")].concat();
    assert_eq!(frames(&padded).fault, None);
}

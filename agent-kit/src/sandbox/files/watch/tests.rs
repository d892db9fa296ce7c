use std::time::Duration;

use super::*;

fn mark(modified: (i64, i64), changed: (i64, i64)) -> FileStamp {
    FileStamp { size_bytes: 1, modified, changed, device: 1, inode: 1 }
}

fn read_entry(number: usize) -> ReadEntry {
    let path = format!("f{number:05}");
    ReadEntry { path, kind: ReadKind::File, mark: Some(mark((1, 0), (1, 0))), digest: None, read_bytes: 0 }
}

#[test]
fn a_file_is_young_for_two_seconds_after_either_of_its_times_and_before_them() {
    let now = UNIX_EPOCH + Duration::new(100, 5);
    let old = (98, 5);
    assert!(!is_young(&mark(old, old), now));
    for young in [(98, 6), (99, 0), (100, 5), (i64::MAX, 0)] {
        assert!(is_young(&mark(young, old), now) && is_young(&mark(old, young), now), "{young:?}");
    }
    assert!(is_young(&mark(old, old), UNIX_EPOCH), "a clock that was set back");
    assert!(is_young(&mark(old, old), UNIX_EPOCH - Duration::from_secs(1)), "a clock before 1970");
}

#[test]
fn what_is_noted_is_told_once_and_only_of_what_was_begun_and_not_given_up() {
    let watch = Watch::default();
    watch.state().note(read_entry(0));
    assert_eq!(watch.take(), None, "not begun");
    let watch = Watch::default();
    watch.state().note(read_entry(0));
    watch.begin();
    watch.state().note(read_entry(2));
    watch.clone().state().note(read_entry(1));
    watch.state().note(read_entry(2));
    watch.begin();
    assert_eq!(watch.take(), Some(ReadSet { read_entries: vec![read_entry(1), read_entry(2)] }));
    watch.begin();
    assert_eq!(watch.take(), None, "told already");
    let watch = Watch::default();
    watch.give_up();
    watch.begin();
    assert_eq!(watch.take(), None, "given up");
}

#[test]
fn more_than_can_be_noted_is_given_up() {
    let watch = Watch::default();
    watch.begin();
    (0..READS_MAX).for_each(|number| watch.state().note(read_entry(number)));
    watch.state().note(read_entry(0));
    assert_eq!(watch.state().read_entries.len(), READS_MAX);
    watch.state().note(read_entry(READS_MAX));
    assert_eq!(watch.state().read_entries.len(), 0);
    assert_eq!(watch.take(), None);
}

//! What stands on disk, for cargo-fuzz and its seeded twin: any bytes are read as what was written, or refused.

#![expect(clippy::missing_panics_doc, reason = "a check says what it expects by failing")]

use std::io::Write as _;

use super::anchor::{AnchorState, CHECKED_BYTES, FILE_BYTES, encode, newest};
use super::codec::{
    BATCH, BATCH_LINE, HOOK, LIST, RECORD, read_bytes, read_format, read_import_mark, read_lane, read_ledger,
    read_note, read_object, read_row, read_row_end, read_seq, read_step, write_bytes, write_import_mark, write_lane,
    write_ledger, write_note, write_object, write_row, write_step,
};
use super::{frames, keys};

/// A stored value, as each kind of value in turn.
pub fn value(input: &[u8]) {
    if let Ok(row) = read_row(input) {
        assert_eq!(read_row(&write_row(&row)), Ok(row));
        assert!(read_row_end(input).is_ok(), "the end of a row that is whole");
    }
    if let Ok(lane) = read_lane(input) {
        assert_eq!(read_lane(&write_lane(&lane)), Ok(lane));
    }
    if let Ok((kind, bytes)) = read_object(input) {
        assert_eq!(write_object(kind, bytes), input);
    }
    if let Ok(step) = read_step(input) {
        assert_eq!(write_step(step.digest, step.visit, step.bytes), input);
    }
    if let Ok(mark) = read_import_mark(input) {
        assert_eq!(read_import_mark(&write_import_mark(&mark)), Ok(mark));
    }
    if let Ok(ledger) = read_ledger(input) {
        assert_eq!(read_ledger(&write_ledger(&ledger)), Ok(ledger));
    }
    if let Ok(note) = read_note(input)
        && let Ok(written) = write_note(&note)
    {
        assert_eq!(read_note(&written), Ok(note));
    }
    for form in [BATCH, BATCH_LINE, HOOK, LIST, RECORD] {
        if let Ok(bytes) = read_bytes(input, form) {
            assert_eq!(write_bytes(form, bytes), input);
        }
    }
    let _ = (read_seq(input), read_format(input));
}

/// A key, as each kind of key in turn.
pub fn key(input: &[u8]) {
    if let Some(thread) = keys::thread_of_row(input) {
        assert_eq!(keys::row(&thread), input);
    }
    if let Some(batch) = keys::batch_of(input) {
        assert_eq!(keys::batch(&batch), input);
    }
    let _ = (keys::lane_of_row(input), keys::lane_of_record(input), keys::placed(input));
    let _ = (keys::seq(input), keys::position(input), keys::hook_key("space", input));
}

/// A log or a manifest of the database: its whole records end within it, and stay whole without what follows them.
pub fn log(input: &[u8]) {
    let read = |bytes: &[u8]| {
        let mut file = tempfile::NamedTempFile::new().ok()?;
        file.write_all(bytes).ok()?;
        frames::read(file.path()).ok()
    };
    let Some(found) = read(input) else { return };
    let end = usize::try_from(found.end).unwrap_or(usize::MAX);
    let whole = input.get(..end);
    assert!(whole.is_some(), "{end} of {} bytes", input.len());
    assert!(found.fault.is_none_or(|(at, _)| at <= input.len() as u64), "{found:?}");
    let again = whole.and_then(read);
    assert_eq!(again, Some(frames::Frames { end: found.end, fault: None }));
}

/// The anchor, whose slots each have a checksum.
pub fn anchor(input: &[u8]) {
    let mut bytes = [0; FILE_BYTES];
    for (byte, given) in bytes.iter_mut().zip(input) {
        *byte = *given;
    }
    if let Ok(AnchorState::Slot(slot)) = newest(&bytes) {
        let mut written = encode(&slot);
        written.truncate(CHECKED_BYTES);
        let mut sectors = bytes.chunks_exact(FILE_BYTES / 2);
        assert!(sectors.any(|sector| sector.starts_with(&written)), "{slot:?} was not written");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn stored_values() {
        rondo_fuzz::run("value", &[], super::value);
    }

    #[test]
    fn keys() {
        rondo_fuzz::run("key", &[], super::key);
    }

    #[test]
    fn logs_and_manifests() {
        rondo_fuzz::run(
            "log",
            &[
                "tests/fixtures/stores/format-2/store/db/000088.log",
                "tests/fixtures/stores/format-2/store/db/MANIFEST-000089",
            ],
            super::log,
        );
    }

    #[test]
    fn anchors() {
        rondo_fuzz::run("anchor", &["tests/fixtures/stores/format-2/store/anchor"], super::anchor);
    }
}

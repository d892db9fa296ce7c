//! Checks the framing of RocksDB's logs and manifests before RocksDB reads them.
//!
//! A file is a sequence of blocks, a block a sequence of records, and a record a header (checksum, length, type) and
//! its bytes. Two kinds of header make RocksDB's reader misbehave: a type of recycled logs, which no writer of this
//! store makes, is neither read nor skipped, so the reader loops forever; a header of zeros silently drops the rest of
//! its block while later blocks are read. Both are detected here. Every other defect is found by the checksums that
//! RocksDB verifies.
//!
//! Source: `db/log_format.h` and `db/log_reader.cc` of RocksDB 11.8.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::error::Damage;
use super::{Error, folder};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const MASK_DELTA: u32 = 0xa282_ead8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    /// The offset after the last whole record.
    pub(super) end: u64,
    /// The offset where RocksDB must stop reading, and why.
    pub(super) fault: Option<(u64, &'static str)>,
}

/// A framing error that RocksDB must not read.
#[derive(Debug)]
pub(super) struct FramingFault {
    pub(super) path: PathBuf,
    pub(super) at: u64,
    pub(super) damage: Damage,
}

/// Checks every log of the database, and its manifest, for framing errors that RocksDB cannot handle.
pub(super) fn check(database: &Path, manifest: Option<&Path>) -> Result<Option<FramingFault>, Error> {
    for path in logs(database)?.iter().map(PathBuf::as_path).chain(manifest) {
        let frames = match read(path) {
            Ok(frames) => frames,
            // The writer of the store may delete logs meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io(path, &error)),
        };
        if let Some((at, why)) = frames.fault {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let damage = Damage::new(format!("{name} {why} at byte {at}")).in_file(format!("db/{name}"));
            return Ok(Some(FramingFault { path: path.to_owned(), at, damage }));
        }
    }
    Ok(None)
}

/// The logs of the database, oldest first: their names are numbers with leading zeros.
pub(super) fn logs(database: &Path) -> Result<Vec<PathBuf>, Error> {
    folder::files(database, "log")
}

/// The number in the name of a log.
pub(super) fn number(log: &Path) -> Option<u64> {
    log.file_stem()?.to_str()?.parse().ok()
}

pub(super) fn read(path: &Path) -> std::io::Result<Frames> {
    let (mut frames, mut zeros_at, mut begun) = (Frames::default(), None, 0_u64);
    blocks(path, &mut |block| {
        match zeros_at {
            None => zeros_at = frames.take(block, begun),
            Some(at) if block.iter().any(|byte| *byte != 0) => frames.fault = Some((at, ZEROS)),
            Some(_) => {}
        }
        begun += block.len() as u64;
        frames.fault.is_none()
    })?;
    Ok(frames)
}

/// Passes each block of a log or manifest to `visit`, until it says `false`.
fn blocks(path: &Path, visit: &mut dyn FnMut(&[u8]) -> bool) -> std::io::Result<()> {
    let mut file = folder::open(path)?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    loop {
        block.clear();
        file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if block.is_empty() || !visit(&block) {
            return Ok(());
        }
    }
}

/// The offset in a log or manifest up to which every record is whole and matches its checksum.
pub(super) fn sound_end(path: &Path) -> std::io::Result<u64> {
    let (mut begun, mut end) = (0_u64, 0_u64);
    blocks(path, &mut |block| {
        let mut at = 0;
        while let Some((kind, next)) = record(block.get(at..).unwrap_or_default()) {
            at += next;
            if matches!(kind, FULL | LAST) {
                end = begun + at as u64;
            }
        }
        begun += block.len() as u64;
        // What is left of a block is shorter than a header.
        block.len() == BLOCK_BYTES && block.len() - at < HEADER_BYTES
    })?;
    Ok(end)
}

/// The checksum, the length and the type of the record at the beginning of `bytes`, and what follows its header.
fn header(bytes: &[u8]) -> Option<(u32, usize, u8, &[u8])> {
    let ([a, b, c, d, low, high, kind], behind) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    Some((u32::from_le_bytes([*a, *b, *c, *d]), length, *kind, behind))
}

/// The type of the record at the beginning of `bytes`, and its length with the header, if it matches its checksum.
fn record(bytes: &[u8]) -> Option<(u8, usize)> {
    let (sum, length, kind, behind) = header(bytes)?;
    (kind != 0 && checksum(kind, behind.get(..length)?) == sum).then_some((kind, HEADER_BYTES + length))
}

/// The checksum in the header of a record.
fn checksum(kind: u8, bytes: &[u8]) -> u32 {
    crc32c(&[&[kind], bytes]).rotate_right(15).wrapping_add(MASK_DELTA)
}

const ZEROS: &str = "holds zeros in place of a record";
const RECYCLED: &str = "holds a record of a type that is never written";

impl Frames {
    /// Reads the block that starts at `begun`. Returns where zeros start that may be the unwritten end of the file.
    fn take(&mut self, block: &[u8], begun: u64) -> Option<u64> {
        let mut rest = block;
        while let Some((_, length, kind, behind)) = header(rest) {
            let at = block.len() - rest.len();
            let place = begun + at as u64;
            // RocksDB skips the rest of a block after a record with a wrong checksum.
            let is_reached = || block.get(..at).is_some_and(is_whole);
            if is_recycled(kind) {
                if is_reached() {
                    self.fault = Some((place, RECYCLED));
                }
                return None;
            }
            if kind == 0 && length == 0 {
                if !is_reached() {
                    return None;
                }
                if rest.iter().any(|byte| *byte != 0) {
                    self.fault = Some((place, ZEROS));
                }
                return Some(place);
            }
            let (_, next) = behind.split_at_checked(length)?;
            rest = next;
            if matches!(kind, FULL | LAST) {
                self.end = begun + (block.len() - rest.len()) as u64;
            }
        }
        None
    }
}

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// A record of a log, put together from its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogRecord {
    pub(super) bytes: Vec<u8>,
    /// Whether the checksums of all parts are right.
    pub(super) is_whole: bool,
}

/// Passes every record of a log to `visit` in order, also those that do not match their checksums. Reading continues
/// after damage wherever a header can be found: at the next block at the latest.
pub(super) fn records(path: &Path, visit: &mut dyn FnMut(LogRecord)) -> std::io::Result<()> {
    let mut begun: Option<LogRecord> = None;
    blocks(path, &mut |block| {
        let mut rest = block;
        while let Some((sum, length, kind, behind)) = header(rest) {
            let (bytes, next) = behind.split_at_checked(length).unwrap_or((behind, &[]));
            rest = next;
            if (kind, length) == (0, 0) {
                break;
            }
            let is_whole = bytes.len() == length && checksum(kind, bytes) == sum;
            let goes_on = kind == FIRST || kind == MIDDLE && begun.is_some();
            let record = match begun.take() {
                Some(mut before) if matches!(kind, MIDDLE | LAST) => {
                    before.bytes.extend_from_slice(bytes);
                    LogRecord { is_whole: before.is_whole && is_whole, ..before }
                }
                before => {
                    if let Some(before) = before {
                        visit(LogRecord { is_whole: false, ..before });
                    }
                    LogRecord { bytes: bytes.to_vec(), is_whole: is_whole && matches!(kind, FULL | FIRST) }
                }
            };
            if goes_on { begun = Some(record) } else { visit(record) }
        }
        true
    })?;
    if let Some(record) = begun {
        visit(LogRecord { is_whole: false, ..record });
    }
    Ok(())
}

/// Whether this is a record type of recycled logs.
fn is_recycled(kind: u8) -> bool {
    matches!(kind, 5..=8 | 11 | 131)
}

/// Whether the checksums of all records in `rest` are right.
fn is_whole(mut rest: &[u8]) -> bool {
    while rest.len() >= HEADER_BYTES {
        let Some((_, length)) = record(rest) else { return false };
        rest = rest.get(length..).unwrap_or_default();
    }
    true
}

/// CRC-32C (Castagnoli), bit by bit: only used after a defect was found.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[cfg(test)]
mod tests;

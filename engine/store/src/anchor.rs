//! The anchor: a small file beside the database that records how far the database had got.
//!
//! A database whose log lost its end opens without an error and with fewer steps. The anchor detects this: it is
//! written after each synced batch, so a database with less than the anchor records has lost something acknowledged. A
//! database with more is intact, because the anchor itself is synced at most once a second and at close. For the same
//! reason it records the position of the list of the database's tables.
//!
//! The file has two slots of one sector each, written in turn, so that a torn write leaves the other. A slot also
//! holds the generation, which each opening for writing increases: a writer that finds another generation, or any byte
//! that it did not write, has been displaced and stops.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::codec::{FORMAT, Fields, Ledger};
use super::manifest::Position;
use super::{Error, folder};

pub(super) const FILE: &str = "anchor";

/// A slot fills a sector, which devices write atomically.
const SLOT_BYTES: usize = 512;
pub(super) const FILE_BYTES: usize = 2 * SLOT_BYTES;

const MAGIC: &[u8; 8] = b"rondo\0an";
/// The version of a slot is the format of its store.
const VERSION: u8 = 2;
/// The bytes before the checksum, padded with zeros: the same number in every version.
const BODY_BYTES: usize = 128;
/// The bytes of a slot that have a meaning: the body and its checksum.
#[cfg(any(test, fuzzing))]
pub(super) const CHECKED_BYTES: usize = BODY_BYTES + 32;
/// The same number in format 1.
const OLD_BODY_BYTES: usize = 8 + 1 + 8 + 8 + 48;

/// The longest delay before a written anchor is synced.
const SYNC_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) generation: u64,
    /// Increases with each write; the greater of two is the newer.
    turn: u64,
    /// The ledger of the synced batches.
    pub(super) ledger: Ledger,
    pub(super) manifest: Position,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnchorState {
    Absent,
    /// Neither slot of the file can be read.
    Unreadable,
    Slot(Slot),
}

impl AnchorState {
    /// The generation of the last opening for writing, if known.
    pub(super) fn generation(&self) -> Option<u64> {
        match self {
            Self::Slot(slot) => Some(slot.generation),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

/// Reads the anchor of the store in the folder `store` without changing anything.
///
/// # Errors
/// [`Error::Io`]; [`Error::Format`] if a newer version wrote it.
pub(super) fn look(store: &Path) -> Result<AnchorState, Error> {
    let path = store.join(FILE);
    let mut bytes = [0; FILE_BYTES];
    match folder::open(&path).and_then(|file| read_up_to(&file, &mut bytes)) {
        Ok(()) => newest(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(AnchorState::Absent),
        Err(error) => Err(Error::io(&path, &error)),
    }
}

#[derive(Debug)]
pub(super) struct Anchor {
    file: File,
    path: PathBuf,
    last: Slot,
    /// The file as this process last wrote it.
    bytes: [u8; FILE_BYTES],
    synced_at: Instant,
    dirty: bool,
}

impl Anchor {
    /// Takes over the anchor of the store in the folder `store`, in the next generation. The caller holds the lock.
    ///
    /// # Durability
    /// A new anchor is on the device when this returns. An old one is not: the generation only matters to processes of
    /// this machine, none of which survives a loss of power.
    pub(super) fn claim(store: &Path, ledger: Ledger, manifest: Position) -> Result<Self, Error> {
        let found = if let AnchorState::Slot(slot) = look(store)? { Some(slot) } else { None };
        let (generation, turn) = found.map_or((0, 0), |slot| (slot.generation, slot.turn));
        let path = store.join(FILE);
        let io = folder::io(&path);
        let mut options = OpenOptions::new();
        let file = folder::opened(&path, options.read(true).write(true).create(true).truncate(false)).map_err(&io)?;
        let mut bytes = [0; FILE_BYTES];
        read_up_to(&file, &mut bytes).map_err(&io)?;
        let last = Slot { generation: generation.saturating_add(1), turn, ledger, manifest };
        let mut anchor = Self { file, path: path.clone(), last, bytes, synced_at: Instant::now(), dirty: false };
        if found.is_none() {
            // Both slots contain bytes from here on: later writes change no size and need no new block.
            anchor.file.write_all_at(&bytes, 0).map_err(&io)?;
            anchor.file.set_len(FILE_BYTES as u64).map_err(&io)?;
        }
        anchor.write(ledger)?;
        if found.is_none() {
            anchor.file.sync_all().map_err(&io)?;
            folder::sync(store)?;
            anchor.dirty = false;
        }
        Ok(anchor)
    }

    /// Whether the file is as this process last wrote it.
    pub(super) fn is_ours(&self) -> Result<bool, Error> {
        let mut bytes = [0; FILE_BYTES];
        read_up_to(&self.file, &mut bytes).map_err(|error| Error::io(&self.path, &error))?;
        Ok(bytes == self.bytes)
    }

    /// Records the manifest position and syncs it to the device.
    pub(super) fn set_manifest(&mut self, manifest: Position) -> Result<(), Error> {
        self.last.manifest = manifest;
        self.write(self.last.ledger)
    }

    /// Records that everything up to `ledger` is on the device.
    pub(super) fn write(&mut self, ledger: Ledger) -> Result<(), Error> {
        let slot = Slot { ledger, turn: self.last.turn.saturating_add(1), ..self.last };
        let sector = encode(&slot);
        let at = if slot.turn.is_multiple_of(2) { 0 } else { SLOT_BYTES };
        self.file.write_all_at(&sector, at as u64).map_err(|error| Error::io(&self.path, &error))?;
        if let Some(own) = self.bytes.get_mut(at..at + SLOT_BYTES) {
            own.copy_from_slice(&sector);
        }
        self.last = slot;
        self.dirty = true;
        Ok(())
    }

    /// Syncs the anchor if its last sync is long enough ago.
    pub(super) fn sync_when_due(&mut self) -> Result<(), Error> {
        if self.dirty && self.synced_at.elapsed() >= SYNC_EVERY { self.sync() } else { Ok(()) }
    }

    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::io(&self.path, &error))?;
        self.synced_at = Instant::now();
        self.dirty = false;
        Ok(())
    }
}

/// Reads from the beginning; bytes beyond the end of a shorter file stay unchanged.
fn read_up_to(file: &File, bytes: &mut [u8; FILE_BYTES]) -> std::io::Result<()> {
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at as u64) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn newest(bytes: &[u8; FILE_BYTES]) -> Result<AnchorState, Error> {
    let mut found = AnchorState::Unreadable;
    for sector in bytes.chunks_exact(SLOT_BYTES) {
        let Some(slot) = decode(sector)? else { continue };
        match &found {
            AnchorState::Slot(other) if other.turn >= slot.turn => {}
            _ => found = AnchorState::Slot(slot),
        }
    }
    Ok(found)
}

/// The sector of a slot, of [`SLOT_BYTES`].
pub(super) fn encode(slot: &Slot) -> Vec<u8> {
    let mut sector = [
        MAGIC.as_slice(),
        &[VERSION],
        &slot.generation.to_be_bytes(),
        &slot.turn.to_be_bytes(),
        &slot.ledger.to_bytes(),
        &slot.manifest.number.to_be_bytes(),
        &slot.manifest.end.to_be_bytes(),
    ]
    .concat();
    sector.resize(BODY_BYTES, 0);
    let checksum = Sha256::digest(&sector);
    sector.extend_from_slice(&checksum);
    sector.resize(SLOT_BYTES, 0);
    sector
}

/// The bytes of a sector from the magic bytes to `length`, if the checksum after them is right.
fn body(sector: &[u8], length: usize) -> Option<&[u8]> {
    let (body, rest) = sector.split_at_checked(length)?;
    let checksum = Sha256::digest(body);
    if rest.get(..checksum.len())? == checksum.as_slice() { body.strip_prefix(MAGIC) } else { None }
}

/// The slot in `sector`, or `None` if its checksum is wrong.
fn decode(sector: &[u8]) -> Result<Option<Slot>, Error> {
    if body(sector, OLD_BODY_BYTES).is_some_and(|body| body.first() == Some(&1)) {
        return Err(Error::Format { found: 1, known: FORMAT });
    }
    let Some(body) = body(sector, BODY_BYTES) else { return Ok(None) };
    let mut fields = Fields { rest: body };
    match fields.u8() {
        Some(VERSION) => {}
        Some(found) => return Err(Error::Format { found: u32::from(found), known: FORMAT }),
        None => return Ok(None),
    }
    Ok((|| {
        let (generation, turn, ledger) = (fields.u64()?, fields.u64()?, Ledger::read(&mut fields)?);
        let manifest = Position { number: fields.u64()?, end: fields.u64()? };
        Some(Slot { generation, turn, ledger, manifest })
    })())
}

#[cfg(test)]
mod tests;

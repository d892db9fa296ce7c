//! Copies a store, also while another process writes it.
//!
//! Laws. The copy is a store of its own, with an anchor, as the original stood at one moment: everything that was
//! acknowledged before the copying began is in it. No file is shared with the original, and no damage is copied: every
//! block is read and its checksum compared.

use std::ops::ControlFlow;
use std::path::Path;

use super::check::Progress;
use super::keys::Family;
use super::rocks::{NewStore, Remnants as _, RocksReader};
use super::{Error, Tables as _, folder};

/// Copies what a reader sees of the store in `from` to a new store in the folder `to`, with the same owner. `progress`
/// is called every few thousand entries.
///
/// # Errors
/// [`Error::Damaged`] if something in the store cannot be read, [`Error::Io`].
pub fn copy(from: &Path, reader: &RocksReader, to: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
    let mut copy = NewStore::begin(to)?;
    let mut at = Progress { done: 0, of: reader.tables.entries()? };
    for family in Family::ALL {
        // No key begins with the byte 0xff: its first byte is that of a kind.
        reader.range(family, Vec::new()..vec![u8::MAX], &mut |key, value| {
            copy.put(family, key, value)?;
            at.count(progress);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    folder::sign_as(from, to)?;
    copy.finish()
}

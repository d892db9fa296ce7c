use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};

use cap_std::fs::Dir;

use super::rules::Identities;
use super::watch::TrackedRead;
use super::{Error, Kind, Stamp, step};

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    path: String,
    stamp: Stamp,
    /// The record of what was read, if it is watched.
    pub(super) reading: Option<TrackedRead>,
}

impl OpenFile {
    /// Opens a file of `parent`; `path` is for display.
    pub(super) fn open(parent: &Dir, name: &OsStr, path: String, hidden: &Identities) -> Result<Self, Error> {
        let fault = |source| Error::System { path: path.clone(), doing: "open", source };
        let refused = |kind| Error::Kind { path: path.clone(), kind, wanted: "only regular files can be read" };
        // Opening a device can have an effect, so it is checked first.
        let seen = step::look(parent, name).map_err(fault)?;
        if seen.kind != Kind::File {
            return Err(refused(seen.kind));
        }
        let file = step::for_reading(parent, name).map_err(fault)?;
        let metadata = cap_std::fs::Metadata::from_just_metadata(file.metadata().map_err(fault)?);
        let stamp = Stamp::of(&metadata);
        if stamp.kind != Kind::File {
            return Err(refused(stamp.kind));
        }
        if hidden.hold(&stamp) {
            return Err(Error::Hidden(path));
        }
        Ok(Self { file, path, stamp, reading: None })
    }

    /// Its path for display.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its stamp when it was opened. It describes what is read, unless the file changes meanwhile.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Reads it whole, if it has at most `max_bytes`, whatever it claims to have.
    pub fn read_whole(&mut self, max_bytes: u64) -> Result<Vec<u8>, Error> {
        let path = self.path.clone();
        let too_large = |size_bytes| Error::TooLarge { path: path.clone(), size_bytes, max_bytes };
        if self.stamp.mark.size_bytes > max_bytes {
            return Err(too_large(self.stamp.mark.size_bytes));
        }
        let mut bytes = Vec::new();
        let read = self.by_ref().take(max_bytes.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|source| Error::System { path: path.clone(), doing: "read", source })?;
        if bytes.len() as u64 > max_bytes {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        if let Some(reading) = &mut self.reading {
            reading.took(&read, buffer);
        }
        read
    }
}

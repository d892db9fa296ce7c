//! The manifest: RocksDB's list of the live tables.
//!
//! A manifest that lost its end opens without an error and names fewer tables; RocksDB deletes the others. So the
//! anchor records the position of the manifest, and an opening that finds less deletes nothing.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::Damage;
use super::{Error, folder, frames};

/// The file that names the current manifest. A database without it was not made whole, or is damaged.
pub(super) const CURRENT: &str = "CURRENT";

/// The position of a database's manifests, which determines the live tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// The number in the manifest's name; it increases with each manifest.
    pub(super) number: u64,
    /// The offset after its last whole record.
    pub(super) end: u64,
}

impl Position {
    /// Checks that a database has reached at least `promised`.
    pub(super) fn reach(self, promised: Self) -> Result<(), Error> {
        if self >= promised {
            return Ok(());
        }
        let name = name(self.number);
        let what = format!("{name}, the list of the database's tables, has lost its end; nothing has been deleted");
        Err(Damage::new(what).in_file(format!("db/{name}")).into())
    }
}

fn name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// The number and path of the current manifest. `None` if there is no database.
///
/// # Errors
/// [`Error::Damaged`] if none is named, [`Error::Io`].
pub(super) fn current(database: &Path) -> Result<Option<(u64, PathBuf)>, Error> {
    let path = database.join(CURRENT);
    let mut text = String::new();
    match folder::open(&path).and_then(|file| file.take(64).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => text.clear(),
        Err(error) => return Err(Error::io(&path, &error)),
    }
    let number = text.strip_suffix('\n').and_then(|text| text.strip_prefix("MANIFEST-"));
    match number.and_then(|number| number.parse().ok()) {
        Some(number) => Ok(Some((number, database.join(text.trim_end())))),
        None => Err(Damage::new("db/CURRENT names no manifest").in_file("db/CURRENT").into()),
    }
}

/// The position of the current manifest, which a writer may be extending.
pub(super) fn reached(database: &Path) -> Result<Position, Error> {
    let reached = with_current(database, |number, path| Ok(Position { number, end: frames::read(path)?.end }))?;
    Ok(reached.unwrap_or_default())
}

/// The number and the size of the current manifest, one of which changes whenever the live tables do.
pub(super) fn extent(database: &Path) -> Result<Option<(u64, u64)>, Error> {
    with_current(database, |number, path| Ok((number, std::fs::metadata(path)?.len())))
}

/// What `read` finds in the current manifest; `None` if there is no database.
fn with_current<T>(database: &Path, read: impl Fn(u64, &Path) -> std::io::Result<T>) -> Result<Option<T>, Error> {
    // It may be replaced meanwhile.
    for _ in 0..ATTEMPTS {
        let Some((number, path)) = current(database)? else { return Ok(None) };
        match read(number, &path) {
            Ok(found) => return Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&path, &error)),
        }
    }
    let what = "the manifest that db/CURRENT names is missing; nothing has been deleted";
    Err(Damage::new(what).in_file("db/CURRENT").into())
}

const ATTEMPTS: u32 = 3;

/// The names of the tables in a database's folder, live or not.
pub(super) fn tables(database: &Path) -> Result<Vec<String>, Error> {
    let tables = folder::files(database, folder::TABLE)?;
    Ok(tables.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Detects changes of an open database's manifest.
#[derive(Debug, Default)]
pub(super) struct Watch {
    file: Option<File>,
    size: u64,
}

impl Watch {
    /// The position of the manifest, on the device, if it changed since the last call.
    pub(super) fn changed(&mut self, database: &Path) -> Result<Option<Position>, Error> {
        let io = folder::io(database);
        let about = self.file.as_ref().map(File::metadata).transpose().map_err(&io)?;
        if about.is_some_and(|about| about.nlink() > 0 && about.len() == self.size) {
            return Ok(None);
        }
        let Some(file) = with_current(database, |_, path| folder::open(path))? else { return Ok(None) };
        self.size = file.metadata().map_err(&io)?.len();
        // What the anchor records must be on the device before the anchor.
        file.sync_data().map_err(io)?;
        self.file = Some(file);
        reached(database).map(Some)
    }
}

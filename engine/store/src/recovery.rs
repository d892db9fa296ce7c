//! Recovery files: a copy of the database next to it, and the exchange of the two. The original is renamed and never
//! changed or deleted.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::Error;
use super::folder::{self, TABLE, io};

pub(super) const DATABASE: &str = "db";

/// The beginning of the name of a database that was replaced; a number follows.
pub(super) const DAMAGED: &str = "damaged-";

/// How many earlier recoveries a folder may contain before a person has to inspect them.
const ATTEMPTS: u32 = 1000;

/// A copy of a database. Dropping it deletes it, unless it has replaced the database.
#[derive(Debug)]
pub(super) struct Copy {
    folder: PathBuf,
    path: PathBuf,
    number: u32,
    kept: bool,
}

impl Copy {
    /// Copies the database of the store in `from` to a new folder `recovery-<n>` in `into`. Tables, which are
    /// immutable, are linked if possible; everything else is copied.
    pub(super) fn of(from: &Path, into: &Path) -> Result<Self, Error> {
        let (number, path) = fresh(into)?;
        let copy = Self { folder: into.to_owned(), path, number, kept: false };
        let database = from.join(DATABASE);
        for entry in fs::read_dir(&database).map_err(io(&database))? {
            let entry = entry.map_err(io(&database))?;
            let source = entry.path();
            let target = copy.path.join(entry.file_name());
            let is_file = entry.file_type().map_err(io(&source))?.is_file();
            let is_table = source.extension().is_some_and(|extension| extension == TABLE);
            if !is_file || entry.file_name() == "LOCK" || is_table && fs::hard_link(&source, &target).is_ok() {
                continue;
            }
            fs::copy(&source, &target).map_err(io(&source))?;
        }
        Ok(copy)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the copy on the device: RocksDB has synced only what it wrote itself.
    fn sync(&self) -> Result<(), Error> {
        for entry in fs::read_dir(&self.path).map_err(io(&self.path))? {
            let path = entry.map_err(io(&self.path))?.path();
            fs::File::open(&path).and_then(|file| file.sync_all()).map_err(io(&path))?;
        }
        folder::sync(&self.path)
    }

    /// Replaces the database by the copy; the original becomes `damaged-<n>`. Returns that name.
    ///
    /// Where the file system can exchange two names, there is a database at any moment, for readers and after a loss of
    /// power. Else [`tidy`] gives the original its name back if the power was lost between the two renames.
    ///
    /// # Errors
    /// [`Error::Io`]. The original then has either its old or its new name.
    pub(super) fn take_place(mut self) -> Result<String, Error> {
        self.sync()?;
        let original = self.folder.join(DATABASE);
        let aside = format!("{DAMAGED}{}", self.number);
        let target = self.folder.join(&aside);
        fs::rename(&self.path, &target).map_err(io(&self.path))?;
        folder::sync(&self.folder)?;
        if renameat_with(CWD, &target, CWD, &original, RenameFlags::EXCHANGE).is_err() {
            fs::rename(&target, &self.path).map_err(io(&target))?;
            fs::rename(&original, &target).map_err(io(&original))?;
            if let Err(error) = fs::rename(&self.path, &original) {
                // Restores the original; if that fails too, its new name is in the message.
                let back = fs::rename(&target, &original);
                let shown = if back.is_ok() { &self.path } else { &target };
                return Err(Error::io(shown, &error));
            }
        }
        self.kept = true;
        folder::sync(&self.folder)?;
        Ok(aside)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !self.kept {
            // A copy that cannot be deleted does no harm.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Cleans up after a crash during a recovery, while the store is held. An exchange interrupted between its two renames
/// is undone: the original gets its name back, and the recovery runs again.
pub(super) fn tidy(folder: &Path) -> Result<(), Error> {
    let original = folder.join(DATABASE);
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        let copy = entry.map_err(io(folder))?.path();
        let name = copy.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(number) = name.strip_prefix("recovery-").filter(|number| number.parse::<u32>().is_ok()) else {
            continue;
        };
        let aside = folder.join(format!("{DAMAGED}{number}"));
        // An error must not read as an absence: what it hides would be left behind.
        if aside.try_exists().map_err(io(&aside))? && !original.try_exists().map_err(io(&original))? {
            fs::rename(&aside, &original).map_err(io(&aside))?;
        }
        fs::remove_dir_all(&copy).map_err(io(&copy))?;
    }
    Ok(())
}

fn fresh(into: &Path) -> Result<(u32, PathBuf), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    for number in 1..=ATTEMPTS {
        let path = into.join(format!("recovery-{number}"));
        let aside = into.join(format!("{DAMAGED}{number}"));
        if aside.try_exists().map_err(io(&aside))? {
            continue;
        }
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok((number, path)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io(&path, &error)),
        }
    }
    Err(Error::Io { path: into.display().to_string(), what: "holds too many earlier recoveries".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_the_place_of_the_original_or_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(DATABASE);
        fs::create_dir(&database).unwrap();
        fs::write(database.join("000001.sst"), b"table").unwrap();
        fs::write(database.join("000002.log"), b"log").unwrap();
        fs::write(database.join("LOCK"), b"").unwrap();
        let names = |path: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };

        let copy = Copy::of(folder.path(), folder.path()).unwrap();
        assert_eq!(names(copy.path()), ["000001.sst", "000002.log"]);
        drop(copy);
        assert_eq!(names(folder.path()), ["db"]);

        let copy = Copy::of(folder.path(), folder.path()).unwrap();
        fs::write(copy.path().join("000002.log"), b"mended").unwrap();
        assert_eq!(copy.take_place().unwrap(), "damaged-1");
        assert_eq!(names(folder.path()), ["damaged-1", "db"]);
        assert_eq!(fs::read(database.join("000002.log")).unwrap(), b"mended");
        assert_eq!(fs::read(folder.path().join("damaged-1/000002.log")).unwrap(), b"log");
    }

    #[test]
    fn an_exchange_cut_short_is_undone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("recovery-2")).unwrap();
        fs::create_dir(folder.path().join("damaged-2")).unwrap();
        tidy(folder.path()).unwrap();
        assert!(folder.path().join(DATABASE).is_dir());
        assert!(!folder.path().join("damaged-2").exists());
        assert!(!folder.path().join("recovery-2").exists());
    }
}

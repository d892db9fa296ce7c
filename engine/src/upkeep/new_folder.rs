//! A new folder for a store, which gets its name when the store in it is done.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rondo_core::durable_folder;
use rondo_core::exit::Exit;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_settings::folder_of;
use rondo_store::folder::{self, FolderState};
use rondo_store::is_unwritten;
use tempfile::TempDir;

use crate::failure::Failure;

/// A folder that has no name yet. Dropping it deletes it.
pub(super) struct NewFolder {
    part: TempDir,
    /// The folder that it will lie in.
    beside: PathBuf,
    to: PathBuf,
}

impl NewFolder {
    /// Begins the folder `to`, for a store made from the one in `store`.
    pub(super) fn begin(store: &Path, to: &Path) -> Result<Self, Failure> {
        check_target(store, to)?;
        let beside = folder_of(to).to_owned();
        let part = tempfile::Builder::new().prefix(".rondo-new-").tempdir_in(&beside);
        Ok(Self { part: part.map_err(|error| failed(to, &error))?, beside, to: to.to_owned() })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.part.path().join("store")
    }

    /// Deletes what was written to it, which may be nothing.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        match fs::remove_dir_all(self.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&self.to, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Gives the folder its name.
    ///
    /// # Durability
    /// The name is on the device when this returns.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let named = fs::rename(self.path(), &self.to).and_then(|()| durable_folder::sync(&self.beside));
        named.map_err(|error| failed(&self.to, &error))
    }
}

fn failed(to: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::WriteFailed, format!("{}: {error}", to.display()))
}

/// Refuses a target that exists, or that would lie in the store.
fn check_target(store: &Path, to: &Path) -> Result<(), Failure> {
    let refused = |why: &str| {
        let message = format!("{} {why}; nothing was written", to.display());
        Err(Failure::new(Code::WriteFailed, message).with_exit(Exit::Invalid).with_hint("name a folder that is new"))
    };
    let parent = to.parent().and_then(|parent| parent.canonicalize().ok());
    if parent.zip(store.canonicalize().ok()).is_some_and(|(parent, store)| parent.starts_with(store)) {
        return refused("lies in the store itself");
    }
    match fs::read_dir(to).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => refused("is not empty"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(_) => refused("is no folder"),
    }
}

/// Refuses a folder in which nothing is stored.
pub(super) fn require_store(folder: &Path) -> Result<(), Failure> {
    if folder::look(folder)? == FolderState::Nothing || is_unwritten(folder)? {
        return Err(no_store(folder, " names another"));
    }
    Ok(())
}

/// The failure for a folder without a store; `does` is what an option with another one does.
pub(super) fn no_store(folder: &Path, does: &str) -> Failure {
    Failure::new(Code::StoreUnusable, format!("there is no store in {}", folder.display()))
        .with_hint(Hint::from(Operation::new(Verb::Again).with("store", "DIR")).words(does))
}

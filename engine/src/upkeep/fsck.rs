//! The examination of a store with the parts that only the host can read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use rondo_core::durable_folder;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::BatchId;
use rondo_store as store;
use rondo_store::check::{Checkpoint, Checkpoints, Examination, Fault, Progress, check_on};
use rondo_store::folder::{self, FolderState};
use rondo_store::{Damage, Read, is_unwritten};
use sha2::{Digest as _, Sha256};

use super::new_folder::no_store;
use crate::failure::Failure;
use crate::host::batch::{Batch, Line};
use crate::host::store_access::view_store_again;

/// How many lines of a batch are read at a time.
const LINES: usize = 1000;

/// How often it is saved how far an examination got.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// The file that says how far an examination got, so that another continues from there. It is saved as well as it can be:
/// without it everything is examined again.
#[derive(Debug, Clone)]
pub struct SavedExamination {
    file: PathBuf,
}

impl SavedExamination {
    /// That of the store in `folder`, below the folder of what the program can do without.
    pub fn of(folder: &Path, state_folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
        let name = HEXLOWER.encode(&digest);
        Self { file: state_folder.join("fsck").join(format!("{name}.json")) }
    }

    /// How long ago an examination was interrupted that another may go on from.
    pub fn age(&self) -> Option<Duration> {
        let saved_at = std::fs::metadata(&self.file).and_then(|metadata| metadata.modified()).ok()?;
        Some(SystemTime::now().duration_since(saved_at).unwrap_or_default())
    }

    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.file);
    }

    fn read(&self) -> Option<Checkpoint> {
        serde_json::from_slice(&std::fs::read(&self.file).ok()?).ok()
    }

    fn write(&self, checkpoint: &Checkpoint) -> std::io::Result<()> {
        self.file.parent().map_or(Ok(()), durable_folder::make)?;
        let new = self.file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(checkpoint)?)?;
        std::fs::rename(new, &self.file)
    }
}

/// Examines the store in `folder`, without a lock and without changing anything in it. With `saved` it continues from where
/// an earlier examination got, unless something was written since. A store to which nothing has been
/// written is whole.
///
/// # Errors
/// [`Code::StoreUnusable`] if there is no store, and any error of the store but damage.
pub fn fsck(
    folder: &Path,
    saved: Option<&SavedExamination>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Examination, Failure> {
    if folder::look(folder)? == FolderState::Nothing {
        return Err(no_store(folder, " examines another"));
    }
    if is_unwritten(folder)? {
        return Ok(Examination::default());
    }
    let mut save = |checkpoint: &Checkpoint| {
        let _ = saved.map(|saved| saved.write(checkpoint));
    };
    let mut checkpoints = Checkpoints::new(saved.and_then(SavedExamination::read), SAVE_EVERY, &mut save);
    let mut examination = check_on(folder, &mut checkpoints, progress)?;
    if let Some(saved) = saved {
        saved.remove();
    }
    // Without a readable store the reason is among the faults already.
    if let Ok(Some(view)) = view_store_again(folder) {
        for batch in view.store.batches(None, usize::MAX).unwrap_or_default() {
            let Err(failure) = check_batch(view.store.as_ref(), &batch) else { continue };
            let (code, what, threads) = (Code::StoreDamaged, failure.to_string(), BTreeSet::new());
            if examination.faults.iter().all(|known| known.what != what) {
                examination.faults.push(Fault { code, file: None, object: None, threads, what });
            }
        }
    }
    Ok(examination)
}

/// Reads a batch and each of its lines.
fn check_batch(store: &dyn Read, id: &BatchId) -> Result<(), Failure> {
    let Some(batch) = Batch::read(store, id)? else { return Ok(()) };
    let numbers = Line::all(store, id.clone(), 0, LINES).map(|line| line.map(|(number, _)| number));
    let found = numbers.collect::<Result<BTreeSet<_>, Failure>>()?;
    batch.lacks(id, &found).map_or(Ok(()), |what| Err(store::Error::from(Damage::new(what)).into()))
}

#[cfg(test)]
#[path = "../../store/src/check/tests/stored.rs"]
mod stored;

#[cfg(test)]
mod tests {
    use super::stored::fixture;
    use super::*;

    #[test]
    fn an_interrupted_examination_is_taken_up_and_forgotten_when_it_has_ended() {
        let (store, state) = (fixture(), tempfile::tempdir().unwrap());
        let saved = SavedExamination::of(store.path(), state.path());
        let whole = fsck(store.path(), Some(&saved), &mut |_| {}).unwrap();
        assert_eq!(saved.age(), None);
        let mut save = |checkpoint: &Checkpoint| saved.write(checkpoint).unwrap();
        check_on(store.path(), &mut Checkpoints::new(None, Duration::ZERO, &mut save), &mut |_| {}).unwrap();
        assert!(saved.age().is_some() && saved.read().is_some());
        assert_eq!(fsck(store.path(), Some(&saved), &mut |_| {}).unwrap(), whole);
        assert_eq!(saved.age(), None);
        // A file that cannot be read is as none.
        std::fs::write(&saved.file, "{").unwrap();
        assert_eq!(fsck(store.path(), Some(&saved), &mut |_| {}).unwrap(), whole);
    }
}

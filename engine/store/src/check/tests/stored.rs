//! A store in a file of the repository. Tests of what examines stores name this file too.

use std::fs;
use std::path::Path;

/// A copy of it, which holds every kind of entry but batches.
pub(crate) fn fixture() -> tempfile::TempDir {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut found = above.map(|folder| folder.join("tests/fixtures/stores/format-2/store"));
    let from = found.find(|store| store.is_dir()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("db")).unwrap();
    for part in ["", "db"] {
        for entry in fs::read_dir(from.join(part)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), folder.path().join(part).join(entry.file_name())).unwrap();
            }
        }
    }
    folder
}

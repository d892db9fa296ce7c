//! Recordings as a command line names them: one that answers instead of models, and one that is written.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_agent_kit::model::recorded::{Cassette, MAX_BYTES, Recorder, Title};
use rondo_protocol::call::Fault;
use rondo_protocol::diagnostic::Code;

use crate::failure::{Failure, Faulty};
use crate::files::{absolute, read_text};

/// Whoever may read and write a recording: it holds what the models were asked.
const MODE: u32 = 0o600;

/// A recording that answers instead of models.
#[derive(Debug, Clone)]
pub struct Recording {
    pub file: String,
    pub cassette: Arc<Cassette>,
}

impl Recording {
    pub fn read(file: &Path, here: &Path) -> Result<Self, Failure> {
        Ok(Self { cassette: read(file)?, file: absolute(file, here) })
    }
}

fn read(file: &Path) -> Result<Arc<Cassette>, Failure> {
    let text = read_text(file, MAX_BYTES)?;
    let name = file.to_string_lossy().into_owned();
    // The lines of a recording are long, and are not shown around a fault.
    Cassette::read(&name, &text)
        .map(Arc::new)
        .map_err(|faults| Faulty { faults, sources: std::collections::BTreeMap::new() }.into())
}

/// Where a run is to be recorded, as an absolute path.
///
/// # Errors
/// [`Code::RecordingRefused`] when there is a file already, or no folder for it.
pub fn place(file: &Path, here: &Path) -> Result<PathBuf, Failure> {
    if std::fs::symlink_metadata(file).is_ok() {
        return Err(exists(file));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(here);
    match file.file_name() {
        Some(name) if folder.is_dir() => Ok(PathBuf::from(absolute(folder, here)).join(name)),
        _ => {
            let message = format!("{}: there is no such folder to record in", folder.display());
            Err(Failure::new(Code::RecordingRefused, message).with_hint("make it first"))
        }
    }
}

/// Begins a recording in a new file.
///
/// # Errors
/// [`Code::RecordingRefused`] when the file cannot be made, [`Code::RecordingFailed`] when it cannot be written.
pub fn begin(file: &Path, workflow: &str) -> Result<Arc<Recorder>, Failure> {
    let title = Title { workflow: workflow.to_owned(), start: None };
    Recorder::new(&title, create(file)?).map(Arc::new).map_err(failed)
}

fn create(file: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(MODE).open(file).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(file),
        _ => Failure::new(Code::RecordingRefused, format!("{}: {error}", file.display())),
    })
}

fn exists(file: &Path) -> Failure {
    let message = format!("{} exists, and a recording overwrites nothing", file.display());
    Failure::new(Code::RecordingRefused, message).with_hint("name another file after --to")
}

/// Removes the file of a recording whose run never started.
pub fn discard(file: Option<&Path>) {
    // What is left holds nothing.
    let _ = file.map(std::fs::remove_file);
}

/// The failure of a recording that could not be written.
pub fn failed(fault: Fault) -> Failure {
    Failure::new(fault.code, fault.message)
}

//! Recordings on a command line: one to replay, and one to write.

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

/// The file mode of a recording, which holds the requests to models.
const MODE: u32 = 0o600;

#[derive(Debug, Clone)]
pub struct Recording {
    pub file: String,
    pub cassette: Arc<Cassette>,
}

impl Recording {
    pub fn read(file: &Path, here: &Path) -> Result<Self, Failure> {
        let read = Cassette::read(&file.to_string_lossy(), &read_text(file, MAX_BYTES)?);
        // The lines of a recording are long, and are not shown with a fault.
        let cassette = read.map_err(|faults| Faulty { faults, ..Faulty::default() })?;
        Ok(Self { cassette: Arc::new(cassette), file: absolute(file, here) })
    }
}

/// The path for recording a run, made absolute.
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

/// Starts a recording in a new file.
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
    // A file that remains contains no answers.
    let _ = file.map(std::fs::remove_file);
}

pub fn failed(fault: Fault) -> Failure {
    Failure::new(fault.code, fault.message)
}

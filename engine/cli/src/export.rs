use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rondo::protocol::diagnostic::Code;
use rondo::settings::folder_of;
use rondo::upkeep::{self, Chosen};
use tempfile::NamedTempFile;

use super::find_thread::find_thread;
use super::store_access::{existing_store_at, seal_of};
use super::{Exit, Failure, Output, PlaceArgs, settings_files};

const WRITE_BYTES: usize = 64 << 10;

/// Write threads as JSON Lines, with everything that `rondo import` takes
#[derive(Debug, clap::Args)]
#[command(after_help = "Threads that the named ones were forked from, started by or started are written too.")]
pub struct ExportArgs {
    /// Threads: ids, prefixes of ids, names, or `last`
    #[arg(value_name = "THREAD", required_unless_present = "all")]
    threads: Vec<String>,
    /// All threads and batches
    #[arg(long, conflicts_with = "threads")]
    all: bool,
    /// The file to write; it must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn export(args: &ExportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings_files::settings(&args.store.copied()?.flags())?;
    let seal = seal_of(&settings)?;
    let view = existing_store_at(&settings.store.value)?;
    let store = view.store.as_ref();
    let chosen = if args.all {
        Chosen::All
    } else {
        let found = args.threads.iter().map(|word| find_thread(store, word).map(|(thread, _)| thread));
        Chosen::These(found.collect::<Result<BTreeSet<_>, _>>()?)
    };
    // It gets its name when it is whole.
    let mut file = args.output.as_deref().map(begin).transpose()?;
    let mut waiting = Vec::with_capacity(WRITE_BYTES);
    let mut write = |waiting: &mut Vec<u8>| {
        match &mut file {
            Some((path, file)) => file.write_all(waiting).map_err(|error| unwritten(path, &error))?,
            None => output.write(waiting)?,
        }
        waiting.clear();
        Ok::<_, Failure>(!output.is_closed())
    };
    upkeep::export(store, &chosen, seal.as_ref(), &mut |line| {
        waiting.extend_from_slice(line);
        if waiting.len() < WRITE_BYTES { Ok(true) } else { write(&mut waiting) }
    })?;
    write(&mut waiting)?;
    if let Some((path, file)) = file {
        file.as_file().sync_all().map_err(|error| unwritten(path, &error))?;
        file.persist_noclobber(path).map_err(|failed| unwritten(path, &failed.error))?;
    }
    Ok(Exit::Done)
}

/// A new file, for `path`, which must not exist.
fn begin(path: &Path) -> Result<(&Path, NamedTempFile), Failure> {
    match NamedTempFile::new_in(folder_of(path)) {
        Ok(_) if path.exists() => Err(unwritten(path, &std::io::ErrorKind::AlreadyExists.into())),
        Ok(part) => Ok((path, part)),
        Err(error) => Err(unwritten(path, &error)),
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Code::WriteFailed, format!("{} cannot be written: {error}", path.display()))
}

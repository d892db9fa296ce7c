//! What verbs have in common: the operator's settings, a store to look into, and the thread that a word means.

use std::path::Path;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;

use super::exit::Exit;
use super::failure::{Failure, Faulty};
use super::files::read_text;
use super::output::tell;
use super::{StoreArgs, working_folder};
use crate::config::{self, Flags, Settings, Stated};
use crate::store::{self, Read, Row, Status};

/// The most bytes of a `rondo.toml`.
const MAX_SETTINGS_BYTES: usize = 1 << 20;

/// How many threads are named where one was not clear.
const MAX_LISTED: usize = 10;

/// The settings in force.
///
/// # Errors
/// Every fault of `rondo.toml`, or the first variable that cannot be used.
pub fn settings(flags: &Flags) -> Result<Settings, Failure> {
    settings_in(&working_folder()?, flags, &|name| std::env::var(name).ok())
}

/// The settings in force in a folder.
///
/// # Errors
/// As [`settings`].
pub fn settings_in(
    folder: &Path,
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, Failure> {
    let file = config::find_file(folder);
    let outer = file.as_deref().and_then(Path::parent).and_then(Path::parent).and_then(config::find_file);
    if let (Some(file), Some(outer)) = (&file, outer) {
        // A tool of the outer project could have written the inner file.
        let (file, outer) = (file.display(), outer.display());
        tell(&format!(
            "settings are those of {file}, which lies below {outer}; run it from there if that is not meant\n"
        ));
    }
    let stated = match &file {
        Some(file) => {
            let text = read_text(file, MAX_SETTINGS_BYTES)?;
            let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy().into_owned();
            config::read(&name, &text).map_err(|faults| Faulty { faults, sources: [(name, text)].into() })?
        }
        None => Stated::default(),
    };
    config::resolve(folder, file.as_deref(), stated, flags, variable).map_err(|faults| {
        let message = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Failure::new(Code::SettingsVariable, message)
    })
}

/// A store that is looked into.
pub struct Look {
    /// The store.
    pub store: Box<dyn Read>,
    /// Whether a process holds it, and so may be working on its threads.
    pub is_held: bool,
}

/// A store to look into, or `None` where none has been written yet.
///
/// # Errors
/// When it cannot be opened.
pub fn look(args: &StoreArgs) -> Result<Option<Look>, Failure> {
    let settings = settings(&Flags { store: args.store.clone(), durability: None })?;
    look_into(&settings.store.value)
}

/// As [`look`], into a folder.
///
/// # Errors
/// As [`look`].
pub fn look_into(folder: &Path) -> Result<Option<Look>, Failure> {
    let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty || std::fs::symlink_metadata(folder).is_err() {
        return Ok(None);
    }
    if store::is_unwritten(folder).map_err(|error| of_store(&error))? {
        return Ok(None);
    }
    let is_held = store::holder(folder).map_err(|error| of_store(&error))?.is_some();
    let (reader, opened) = store::RocksReader::open(folder).map_err(|error| of_store(&error))?;
    for notice in opened.notices {
        tell(&format!("store: {notice}\n"));
    }
    Ok(Some(Look { store: Box::new(reader), is_held }))
}

/// A fault of the store as it is told.
pub fn of_store(error: &store::Error) -> Failure {
    let failure = Failure::new(error.code(), error.to_string()).with_exit(Exit::of_store(error));
    match error {
        store::Error::Busy { .. } => failure.with_hint("wait until it has ended; `rondo show` works meanwhile"),
        store::Error::Conflict { .. } => failure.with_hint("`rondo show` tells how the thread stands now"),
        _ => failure,
    }
}

/// The thread that `word` means: an id, the beginning of one, or `last`.
///
/// # Errors
/// [`Code::ThreadUnknown`], [`Code::ThreadAmbiguous`], or a fault of the store.
pub fn thread(store: &dyn Read, word: &str) -> Result<(ThreadId, Row), Failure> {
    if let Ok(id) = ThreadId::new(word)
        && let Some(row) = store.row(&id).map_err(|error| of_store(&error))?
    {
        return Ok((id, row));
    }
    let mut rows = store.rows().map_err(|error| of_store(&error))?;
    if word == "last" {
        return rows.pop().ok_or_else(no_threads);
    }
    let start = word.to_lowercase();
    rows.retain(|(id, _)| !start.is_empty() && id.as_str().starts_with(&start));
    match rows.len() {
        0 => {
            let shown: String = word.chars().take(40).collect();
            Err(Failure::new(Code::ThreadUnknown, format!("no thread has the id {shown:?} or begins with it"))
                .with_hint("`rondo threads` lists them; `rondo doctor` tells which store is in use"))
        }
        1 => rows.pop().ok_or_else(no_threads),
        count => Err(Failure::new(Code::ThreadAmbiguous, format!("{count} threads begin with {start:?}"))
            .with_hint(listed(&rows))),
    }
}

/// As [`thread`], in a store that may not be there.
///
/// # Errors
/// As [`thread`].
pub fn thread_in(look: Option<Look>, word: &str) -> Result<(Look, ThreadId, Row), Failure> {
    let look = look.ok_or_else(no_threads)?;
    let (id, row) = thread(look.store.as_ref(), word)?;
    Ok((look, id, row))
}

/// The one thread that has not ended.
///
/// # Errors
/// [`Code::ResumeUnclear`] when there is none or more than one.
pub fn unfinished(store: &dyn Read) -> Result<(ThreadId, Row), Failure> {
    let mut rows = store.rows().map_err(|error| of_store(&error))?;
    rows.retain(|(_, row)| matches!(row.status, Status::Running | Status::Waiting | Status::Stopped));
    match rows.len() {
        0 => Err(Failure::new(Code::ResumeUnclear, "every thread has ended; there is nothing to resume")),
        1 => rows.pop().ok_or_else(no_threads),
        count => Err(Failure::new(Code::ResumeUnclear, format!("{count} threads have not ended; which one?"))
            .with_hint(listed(&rows))),
    }
}

/// There is no thread at all.
pub fn no_threads() -> Failure {
    Failure::new(Code::ThreadUnknown, "the store holds no threads")
        .with_hint("`rondo run` starts one; `rondo doctor` tells which store is in use")
}

fn listed(rows: &[(ThreadId, Row)]) -> String {
    let newest = rows.iter().rev().take(MAX_LISTED);
    let mut lines: Vec<String> = newest
        .map(|(id, row)| {
            format!("{id}  {}  {}", super::lines::name(row), super::lines::standing(super::lines::status(row, true)))
        })
        .collect();
    if rows.len() > MAX_LISTED {
        lines.push(format!("and {} older ones", rows.len() - MAX_LISTED));
    }
    lines.join("\n")
}

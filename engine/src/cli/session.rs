//! What verbs have in common: the operator's settings, a store to look into, and the thread that a word means.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::ThreadId;

use super::consent::{self, By, named_files};
use super::failure::{Failure, Faulty};
use super::files::{folder_of, read_text};
use super::output::tell;
use super::person::{self, Answer};
use super::{StoreArgs, working_folder};
use crate::config::{self, Files, Flags, Layer, Settings, Stated, layers};
use crate::env::{Env as _, SystemEnv};
use crate::shared_store;
use crate::store::folder::{self, FolderState, Owner};
use crate::store::{self, Read, Row, Status};
use crate::trust::owner::{self, Unsafe, User};
use crate::trust::secret::Secret;
use crate::trust::{self, Ask, Kind};

/// The most bytes of a `rondo.toml`.
const MAX_SETTINGS_BYTES: usize = 1 << 20;

/// How many threads are named where one was not clear.
const MAX_LISTED: usize = 10;

/// The files of settings, read once: what a person is shown is what runs.
pub struct Sources {
    /// The working folder.
    folder: PathBuf,
    flags: Flags,
    user: Option<SettingsFile>,
    project: Option<SettingsFile>,
}

/// A file of settings.
pub struct SettingsFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub stated: Stated,
    /// Who else than the user can change it.
    pub faults: Vec<Unsafe>,
}

/// Reads the files of settings for the working folder.
///
/// # Errors
/// Every fault of a file.
pub fn sources(flags: &Flags) -> Result<Sources, Failure> {
    sources_of(working_folder()?, flags)
}

/// Reads the files of settings for a folder.
///
/// # Errors
/// As [`sources`].
pub fn sources_of(folder: PathBuf, flags: &Flags) -> Result<Sources, Failure> {
    let home = config::home(&variable).map(|home| home.canonicalize().unwrap_or(home));
    let project = config::find_project(&folder, home.as_deref());
    read_sources(folder, project, flags)
}

/// The settings without any project's.
///
/// # Errors
/// As [`settings`].
pub fn settings_of_user() -> Result<Settings, Failure> {
    read_sources(working_folder()?, None, &Flags::default())?.without_asking()
}

fn read_sources(folder: PathBuf, project: Option<PathBuf>, flags: &Flags) -> Result<Sources, Failure> {
    let user = config::user_file(&variable).filter(|file| std::fs::symlink_metadata(file).is_ok());
    let shown = |file: &Path| file.strip_prefix(&folder).unwrap_or(file).to_string_lossy().into_owned();
    let read = |file: PathBuf, layer: Layer| {
        let faults = owner::faults(&file, User::own());
        let text = read_text(&file, MAX_SETTINGS_BYTES)?;
        let name = shown(&file);
        let stated = config::read(&name, &text, layer);
        let stated = stated.map_err(|faults| Faulty { faults, sources: [(name, text)].into() })?;
        Ok::<_, Failure>(SettingsFile { path: file, stated, faults })
    };
    let user = user.map(|file| read(file, Layer::User)).transpose()?;
    let project = project.map(|file| read(file, Layer::Project)).transpose()?;
    Ok(Sources { folder, flags: flags.clone(), user, project })
}

/// A variable of the environment. Where `HOME` is not set, the system knows where the user's home is.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().or_else(|| {
        let home = (name == "HOME").then(std::env::home_dir).flatten()?;
        home.to_str().filter(|home| !home.is_empty()).map(str::to_owned)
    })
}

impl Sources {
    /// The project's file.
    pub fn project(&self) -> Option<&SettingsFile> {
        self.project.as_ref()
    }

    /// The user's file.
    pub fn user(&self) -> Option<&SettingsFile> {
        self.user.as_ref()
    }

    /// The settings with all that the project's file says: as they are once a person agreed to it.
    ///
    /// # Errors
    /// Tables that both files have, and the first variable that cannot be used.
    pub fn whole(&self) -> Result<Settings, Failure> {
        if let (Some(project), Some(user)) = (&self.project, &self.user) {
            let clashes = layers::clashes(&project.stated, &user.stated);
            if !clashes.is_empty() {
                let told = clashes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                return Err(Failure::new(Code::SettingsClash, told).with_hint("give one of the two another name"));
            }
        }
        let project = self.project.as_ref().map(|project| project.stated.placed(folder_of(&project.path)));
        self.with_project(project)
    }

    /// The settings with what counts of the project's file before anybody agreed to it.
    ///
    /// # Errors
    /// The first variable that cannot be used.
    pub fn without_asking(&self) -> Result<Settings, Failure> {
        let user = self.user.as_ref().map(|user| user.stated.clone()).unwrap_or_default();
        self.with_project(self.project.as_ref().map(|project| layers::without_asking(&project.stated, &user)))
    }

    fn with_project(&self, project: Option<Stated>) -> Result<Settings, Failure> {
        let user = self.user.as_ref().map(|user| user.stated.placed(folder_of(&user.path))).unwrap_or_default();
        let stated = layers::merged(user, project.unwrap_or_default());
        let path = |file: &Option<SettingsFile>| file.as_ref().map(|file| file.path.clone());
        let files = Files { project: path(&self.project), user: path(&self.user) };
        config::resolve(&self.folder, &files, stated, &self.flags, &variable).map_err(|faults| {
            let message = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            Failure::new(Code::SettingsVariable, message)
        })
    }

    /// What the project's settings ask for, with the files below their folder that a command names.
    pub fn asks(&self) -> Vec<Ask> {
        let Some(project) = &self.project else { return Vec::new() };
        let user = self.user.as_ref().map(|user| user.stated.clone()).unwrap_or_default();
        let mut asks = layers::asks(&project.stated, &user);
        let owners = project.faults.iter().filter_map(|fault| match fault {
            Unsafe::Owner { path, uid } => Some(Ask::new(Kind::Owner, path.to_string_lossy(), format!("user {uid}"))),
            _ => None,
        });
        asks.extend(owners.collect::<Vec<_>>());
        asks.extend(named_files(&project.stated, folder_of(&project.path)));
        asks
    }

    /// Why a file of settings is not believed, whatever anybody agrees to.
    ///
    /// # Errors
    /// The first reason, with what to do.
    pub fn refuse_unsafe(&self) -> Result<(), Failure> {
        let files = self.user.iter().map(|file| (file, true)).chain(self.project.iter().map(|file| (file, false)));
        for (file, is_user) in files {
            let fault = file.faults.iter().find(|fault| is_user || !fault.can_be_agreed_to());
            if let Some(fault) = fault {
                let message = format!("{} is not believed: {fault}", file.path.display());
                let hint = match fault {
                    Unsafe::Owner { .. } => {
                        "your own settings must be yours or root's: copy them to a folder that XDG_CONFIG_HOME names"
                            .to_owned()
                    }
                    _ => fault.hint(),
                };
                return Err(Failure::new(Code::SettingsUnsafe, message).with_hint(if is_user {
                    hint
                } else {
                    fault.hint()
                }));
            }
        }
        if let (Some(user), Some(project)) = (&self.user, &self.project)
            && user.path.starts_with(folder_of(&project.path))
        {
            let message = format!(
                "your settings {} lie in the folder of a project, which could have brought them along",
                user.path.display()
            );
            return Err(
                Failure::new(Code::SettingsUnsafe, message).with_hint("set XDG_CONFIG_HOME to a folder outside it")
            );
        }
        Ok(())
    }
}

/// The settings in force for a verb that starts nothing: all of the project's where a person agreed to it, else what
/// counts without asking.
///
/// # Errors
/// Every fault of a settings file, or the first variable that cannot be used.
pub fn settings(flags: &Flags) -> Result<Settings, Failure> {
    let mut sources = sources(flags)?;
    // A file of the user that others can write is nobody's word; the verbs that start something refuse it.
    if let Some(user) = sources.user.take_if(|user| !user.faults.is_empty()) {
        tell(&format!("{} does not count: others can change it; `rondo doctor` says how\n", user.path.display()));
    }
    let harmless = sources.without_asking()?;
    if consent::counts(&sources, &harmless) { sources.whole() } else { Ok(harmless) }
}

/// A store that is looked into.
pub struct Look {
    /// The store.
    pub store: Box<dyn Read>,
    /// Which of its threads are driven.
    pub driven: Driven,
}

/// Which threads a process works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driven {
    /// These.
    These(BTreeSet<ThreadId>),
    /// Perhaps any: the process that holds the store does not say.
    Unknown,
}

impl Driven {
    /// Whether a process may be working on a thread.
    pub fn may_hold(&self, thread: &ThreadId) -> bool {
        match self {
            Self::These(threads) => threads.contains(thread),
            Self::Unknown => true,
        }
    }

    /// What is driven of the store in a folder; nothing where no process holds it.
    fn of(folder: &Path) -> Result<Self, Failure> {
        if store::holder(folder)?.is_none() {
            return Ok(Self::These(BTreeSet::new()));
        }
        Ok(shared_store::driven(folder).map_or(Self::Unknown, Self::These))
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut threads), Self::These(others)) => {
                threads.extend(others);
                Self::These(threads)
            }
            _ => Self::Unknown,
        }
    }
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
pub fn look_into(at: &Path) -> Result<Option<Look>, Failure> {
    // Whose files these are comes before what they say.
    if folder::look(at)? == FolderState::Nothing {
        return Ok(None);
    }
    if store::is_unwritten(at)? {
        return Ok(None);
    }
    // Before and after: a thread that ends or begins meanwhile is driven by one of the two.
    let before = Driven::of(at)?;
    let (reader, opened) = store::RocksReader::open(at)?;
    for notice in opened.notices {
        tell(&format!("store: {notice}\n"));
    }
    let driven = if before == Driven::Unknown { before } else { before.or(Driven::of(at)?) };
    Ok(Some(Look { store: Box::new(reader), driven }))
}

/// A store that may be written: the user's own, or one that a person agreed to use.
#[derive(Debug, Clone)]
pub struct OwnStore {
    /// Its folder.
    pub folder: PathBuf,
    /// Whose it is, if it has to be made.
    pub owner: Option<Owner>,
    /// The user's secret.
    pub secret: Secret,
}

/// The store of these settings, to be written.
///
/// # Errors
/// Exit 3 for a store that is not the user's own and that nobody agreed to use.
pub fn own_store(settings: &Settings, by: By) -> Result<OwnStore, Failure> {
    let folder = settings.store.value.clone();
    let found = folder::look(&folder)?;
    let FolderState::Store(signed) = found else {
        let owner = new_owner(settings).unwrap_or_else(|failure| {
            tell(&format!("{failure}; so the new store will not be known as yours\n"));
            None
        });
        return Ok(OwnStore { folder, owner, secret: secret(settings) });
    };
    let own = OwnStore { folder, owner: None, secret: secret(settings) };
    if by == By::Flag || is_own(signed, settings)? {
        return Ok(own);
    }
    let shown = own.folder.display();
    let foreign = || {
        let message = format!("the store {shown} is not known as yours: it carries no tag by your secret");
        Failure::new(Code::StoreForeign, message).with_hint(
            "`rondo trust --store` makes it yours, `--trust` uses it for one run, `--store DIR` uses another",
        )
    };
    if by == By::Nobody {
        return Err(foreign());
    }
    let question = format!(
        "The store {shown} is not known as yours. What it holds can stand in for answers of models and tools.\n\
         Use it? [y] this time, [a] from now on, [N] no: "
    );
    match person::ask(&question) {
        Answer::No => Err(foreign()),
        Answer::Once => Ok(own),
        Answer::Always | Answer::Own => {
            sign(&own.folder, settings)?;
            Ok(OwnStore { secret: secret(settings), ..own })
        }
    }
}

/// Whether a store is the user's own.
///
/// # Errors
/// When there is a secret that cannot be used.
pub fn is_own(signed: Option<Owner>, settings: &Settings) -> Result<bool, Failure> {
    let secret = read_secret(settings).map_err(|error| Failure::new(Code::StoreForeign, error.to_string()))?;
    Ok(signed.zip(secret).is_some_and(|(owner, secret)| secret.verifies(&Owner::message(&owner.id), &owner.tag)))
}

/// The user's secret, or without a usable one a random key for this process alone: then nothing that hooks have kept
/// counts as theirs.
pub fn secret(settings: &Settings) -> Secret {
    read_secret(settings).ok().flatten().unwrap_or_else(|| Secret::random().unwrap_or_default())
}

fn read_secret(settings: &Settings) -> Result<Option<Secret>, trust::secret::Error> {
    let file = settings.secret_file.as_deref().filter(|file| !lies_in_project(file, settings));
    file.map_or(Ok(None), Secret::read)
}

/// Makes a store the user's own.
///
/// # Errors
/// When there is no secret, or the store cannot be written.
pub fn sign(store: &Path, settings: &Settings) -> Result<(), Failure> {
    let place = || Failure::new(Code::StoreForeign, "there is no place for your secret: set XDG_DATA_HOME or HOME");
    let owner = new_owner(settings)?.ok_or_else(place)?;
    folder::sign(store, owner).map_err(Failure::from)
}

/// Whether a file of the user lies in the folder that is worked in, which could have brought it along. A home is nobody
/// else's folder.
fn lies_in_project(file: &Path, settings: &Settings) -> bool {
    let home = settings.environment.get("HOME").map(PathBuf::from);
    home.as_ref() != Some(&settings.workspace) && file.starts_with(&settings.workspace)
}

/// A new id with the tag of the user's secret, which is drawn where there is none yet; `None` where it has no place.
fn new_owner(settings: &Settings) -> Result<Option<Owner>, Failure> {
    let Some(file) = settings.secret_file.as_deref() else { return Ok(None) };
    if lies_in_project(file, settings) || file.starts_with(&settings.store.value) {
        let message = format!("your secret would lie in {}, in the folder that you work in", file.display());
        return Err(Failure::new(Code::StoreForeign, message).with_hint("set XDG_DATA_HOME to a folder outside it"));
    }
    let failed = |error: trust::secret::Error| Failure::new(Code::StoreForeign, error.to_string());
    let secret = Secret::read_or_draw(file).map_err(failed)?;
    let id = SystemEnv::default().random().to_le_bytes();
    Ok(Some(Owner { id, tag: secret.tag(&Owner::message(&id)) }))
}

/// The thread that `word` means: an id, the beginning of one, or `last`.
///
/// # Errors
/// [`Code::ThreadUnknown`], [`Code::ThreadAmbiguous`], or a fault of the store.
pub fn thread(store: &dyn Read, word: &str) -> Result<(ThreadId, Row), Failure> {
    if let Ok(id) = ThreadId::new(word)
        && let Some(row) = store.row(&id)?
    {
        return Ok((id, row));
    }
    let mut rows = store.rows(None, usize::MAX)?;
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
    let mut rows = store.rows(None, usize::MAX)?;
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
            format!(
                "{id}  {}  {}",
                super::lines::name(row),
                super::lines::standing(super::lines::status(id, row, &Driven::Unknown))
            )
        })
        .collect();
    if rows.len() > MAX_LISTED {
        lines.push(format!("and {} older ones", rows.len() - MAX_LISTED));
    }
    lines.join("\n")
}

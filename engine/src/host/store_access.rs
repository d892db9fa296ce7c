//! The store of a verb: open for reading next to the process that holds it, or the user's own for writing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rondo_core::env::{Env as _, SystemEnv};
use rondo_core::exit::Exit;
use rondo_core::secret::Secret;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::ThreadId;
use rondo_settings::Settings;
use rondo_settings::trust;
use rondo_store as store;
use rondo_store::Read;
use rondo_store::folder::{self, FolderState, Owner};
use rondo_store::replicated::is_copy;
use rondo_store::shared_store::{self, Opening};

use super::consent::{Answer, ConsentSource, real};
use crate::failure::Failure;
use crate::tell::tell;

pub struct StoreView {
    pub store: Box<dyn Read>,
    pub driven: DrivenThreads,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrivenThreads {
    These(BTreeSet<ThreadId>),
    /// Unknown: the process that holds the store did not answer.
    Unknown,
}

impl DrivenThreads {
    pub fn may_hold(&self, thread: &ThreadId) -> bool {
        match self {
            Self::These(threads) => threads.contains(thread),
            Self::Unknown => true,
        }
    }

    /// The driven threads of the store in a folder; none if no process holds it.
    fn of(folder: &Path) -> Result<Self, Failure> {
        if store::holder(folder)?.is_none() {
            return Ok(Self::These(BTreeSet::new()));
        }
        Ok(shared_store::driven(folder).map_or(Self::Unknown, Self::These))
    }

    /// What `read` finds, and the driven threads meanwhile. Asked before and after: a thread that starts or ends while it
    /// is read is in one of the two answers.
    pub(crate) fn during<T>(
        ask: impl Fn() -> Result<Self, Failure>,
        read: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, Self), Failure> {
        let before = ask()?;
        let found = read()?;
        let Self::These(mut threads) = before else { return Ok((found, Self::Unknown)) };
        let Self::These(others) = ask()? else { return Ok((found, Self::Unknown)) };
        threads.extend(others);
        Ok((found, Self::These(threads)))
    }
}

/// Opens the store in a folder for reading; `None` if nothing has been written to it.
pub fn view_store_at(at: &Path) -> Result<Option<StoreView>, Failure> {
    let Some((view, notices)) = opened(at)? else { return Ok(None) };
    tell_store(&notices);
    Ok(Some(view))
}

pub(crate) fn tell_store(notices: &[String]) {
    for notice in notices {
        tell(&format!("store: {notice}\n"));
    }
}

/// The same of a store that something must have been written to.
pub fn existing_store_at(at: &Path) -> Result<StoreView, Failure> {
    view_store_at(at)?.ok_or_else(|| {
        let hint = Hint::from(Operation::new(Verb::Run)).words(" starts a thread and makes one; ");
        let hint = hint.operation(Operation::new(Verb::Again).choosing("store")).words(" names another");
        Failure::new(Code::ThreadUnknown, format!("there is no store in {}", at.display())).with_hint(hint)
    })
}

/// Like [`view_store_at`], for a store that was opened before: its notices are not repeated.
pub fn view_store_again(at: &Path) -> Result<Option<StoreView>, Failure> {
    Ok(opened(at)?.map(|(view, _)| view))
}

/// The store in a folder, with notices about the opening.
fn opened(at: &Path) -> Result<Option<(StoreView, Vec<String>)>, Failure> {
    // The owner of the files is checked before they are read.
    if folder::look(at)? == FolderState::Nothing || store::is_unwritten(at)? {
        return Ok(None);
    }
    let opening = || Ok(store::RocksReader::open(at)?);
    let ((reader, notices), driven) = DrivenThreads::during(|| DrivenThreads::of(at), opening)?;
    // A copy does not know who drives the threads that were copied.
    let driven = if is_copy(&reader)? { DrivenThreads::Unknown } else { driven };
    Ok(Some((StoreView { store: Box::new(reader), driven }, notices)))
}

/// A writable store: the user's own, or one that a person agreed to use.
#[derive(Debug, Clone)]
pub struct TrustedStore {
    pub opening: Opening,
    pub secret: Secret,
}

/// Opens the settings' store for writing.
pub fn trusted_store(settings: &Settings, by: ConsentSource) -> Result<TrustedStore, Failure> {
    let folder = &settings.store.value;
    let trusted = |owner: Option<Owner>| {
        let opening = Opening { folder: folder.clone(), owner, durability: settings.durability.value };
        Ok(TrustedStore { opening, secret: secret(settings)? })
    };
    let FolderState::Store(signed) = folder::look(folder)? else {
        let owner = match new_owner(settings) {
            Ok(owner) => owner,
            // Later commands would refuse the new store, although nothing is wrong with it.
            Err(failure) if failure.exit() == Exit::InputOutput => return Err(failure),
            Err(failure) => {
                tell(&format!("{failure}; so the new store will not be known as yours\n"));
                None
            }
        };
        return trusted(owner);
    };
    if matches!(by, ConsentSource::Flag) || is_trusted(signed, settings)? {
        return trusted(None);
    }
    let shown = folder.display();
    let foreign = || {
        let message = format!("the store {shown} is not known as yours: it carries no tag by your secret");
        Failure::new(Code::StoreForeign, message).with_hint(
            Hint::from(Operation::new(Verb::Trust).choosing("store"))
                .words(" makes it yours, ")
                .operation(Operation::new(Verb::Again).choosing("trust"))
                .words(" uses it for one run, ")
                .operation(Operation::new(Verb::Again).with("store", "DIR"))
                .words(" uses another"),
        )
    };
    let ConsentSource::Person(ask) = by else { return Err(foreign()) };
    let question = format!(
        "The store {shown} is not known as yours. What it holds can stand in for answers of models and tools.\n\
         Use it? [y] this time, [a] from now on, [N] no: "
    );
    match ask(&question) {
        Answer::No => Err(foreign()),
        Answer::Once => trusted(None),
        Answer::Always | Answer::Own => {
            sign(folder, settings)?;
            trusted(None)
        }
    }
}

/// The secret that seals what is exported from the settings' store; `None` if the store is not known as the user's own.
pub fn seal_of(settings: &Settings) -> Result<Option<Secret>, Failure> {
    let FolderState::Store(signed) = folder::look(&settings.store.value)? else { return Ok(None) };
    Ok(if is_trusted(signed, settings)? { read_secret(settings)? } else { None })
}

pub fn is_trusted(signed: Option<Owner>, settings: &Settings) -> Result<bool, Failure> {
    let secret = read_secret(settings)?;
    Ok(signed.zip(secret).is_some_and(|(owner, secret)| secret.verifies(&Owner::message(&owner.id), &owner.tag)))
}

/// The user's secret, or if there is none, a random key for this process: earlier entries of hooks are then not
/// trusted.
pub fn secret(settings: &Settings) -> Result<Secret, Failure> {
    let random = || trust::secret::random().map_err(|error| Failure::new(Code::StoreUnusable, error.to_string()));
    read_secret(settings).ok().flatten().map_or_else(random, Ok)
}

fn read_secret(settings: &Settings) -> Result<Option<Secret>, trust::secret::Error> {
    let file = settings.secret_file.as_deref().filter(|file| !lies_in_project(file, settings));
    file.map_or(Ok(None), trust::secret::read)
}

pub fn sign(store: &Path, settings: &Settings) -> Result<(), Failure> {
    let place = || Failure::new(Code::StoreForeign, "there is no place for your secret: set XDG_DATA_HOME or HOME");
    let owner = new_owner(settings)?.ok_or_else(place)?;
    folder::sign(store, owner).map_err(Failure::from)
}

/// Whether a file of the user is in the project folder, which could have brought it along. A home folder is always the
/// user's own.
fn lies_in_project(file: &Path, settings: &Settings) -> bool {
    let home = settings.environment.get("HOME").map(PathBuf::from);
    let is_within = |file: &Path, folder: &Path| file.starts_with(folder) || real(file).starts_with(real(folder));
    home.as_ref() != Some(&settings.workspace) && is_within(file, &settings.workspace)
}

/// A new id with its tag by the user's secret, which is created if there is none; `None` if there is no path for it.
fn new_owner(settings: &Settings) -> Result<Option<Owner>, Failure> {
    let Some(file) = settings.secret_file.as_deref() else { return Ok(None) };
    if lies_in_project(file, settings) || file.starts_with(&settings.store.value) {
        let message = format!("your secret would lie in {}, in the folder that you work in", file.display());
        return Err(Failure::new(Code::StoreForeign, message).with_hint("set XDG_DATA_HOME to a folder outside it"));
    }
    let secret = trust::secret::read_or_draw(file)?;
    let id = SystemEnv::default().random().to_le_bytes();
    Ok(Some(Owner { id, tag: secret.tag(&Owner::message(&id)) }))
}

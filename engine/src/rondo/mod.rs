//! The library's entry: what a program opens once, and everything that it can do with workflows and threads.

mod builder;
mod end;
#[cfg(feature = "restate")]
mod remote;
pub mod run;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rondo_core::env::Env;
use rondo_core::hook::Registry;
use rondo_core::local::Engine;
use rondo_core::store::{MemoryStore, Read};
use rondo_protocol::id::ThreadId;
use rondo_settings::Settings;
use tokio::sync::OnceCell;

use crate::failure::Failure;
use crate::host::operator::Operator;
use crate::host::resources::Keeper;
use crate::host::store_access::{TrustedStore, trusted_store};
use crate::host::{Host, workflow};

pub use builder::Builder;
pub use end::{End, Finished};
pub use run::{NewRun, Run};
pub use threads::{Answer, Diff, Fork, Prefixes, Resume};

/// Receives a sentence for the person in front of the program.
type Notices = Arc<dyn Fn(&str) + Send + Sync>;

/// Workflows, threads and what they need, of one folder. Clones share everything.
///
/// The settings are read when it is opened. The store is opened by the first call that needs it, and closed with the
/// last clone; other processes use it at the same time. Redaction, limits, prices, consent and the sandbox of tools are
/// on: what loosens them is a method of [`Builder`] that says so.
#[derive(Clone)]
pub struct Rondo(Arc<Inner>);

struct Inner {
    operator: Operator,
    is_in_memory: bool,
    registry: Registry,
    env: Arc<dyn Env>,
    notices: Notices,
    host: OnceCell<Host>,
    keeper: Keeper,
}

impl Rondo {
    /// Opens a folder with the settings of this user and of the folder, as the command line does.
    ///
    /// # Errors
    /// If the settings cannot be read, or others could change them.
    pub async fn open(folder: impl Into<PathBuf>) -> Result<Self, Failure> {
        Self::builder().folder(folder).settings_files().open().await
    }

    /// Opens with settings of the program's own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A run of a workflow: a file, a folder with `workflow.yaml`, the name of a folder below `workflows/`, or of a
    /// workflow that ships with rondo. It is read and checked here.
    ///
    /// # Errors
    /// If there is none of that name, or it has faults.
    pub fn workflow(&self, name: &str) -> Result<NewRun, Failure> {
        let loaded = workflow::load(name, &self.0.operator.folder)?;
        Ok(NewRun::new(self.clone(), name.to_owned(), loaded))
    }

    /// A run of a workflow that the program has as text, in the YAML or JSON of a file. Files that it names are beside
    /// `file`, which need not be there.
    ///
    /// # Errors
    /// If it has faults.
    pub fn workflow_text(&self, file: impl Into<PathBuf>, text: &str) -> Result<NewRun, Failure> {
        let file = file.into();
        let name = file.to_string_lossy().into_owned();
        let loaded = workflow::check(self.folder().join(file), text.to_owned())?;
        Ok(NewRun::new(self.clone(), name, loaded))
    }

    /// Releases the store to other processes. Threads that still run here stop, and can be resumed.
    pub async fn close(&self) {
        if let Some(host) = self.0.host.get() {
            host.engine().stop_all().await;
            host.leave().await;
        }
    }

    /// The folder that workflows are named from.
    pub fn folder(&self) -> &Path {
        &self.0.operator.folder
    }

    #[doc(hidden)]
    pub fn operator(&self) -> &Operator {
        &self.0.operator
    }

    pub(crate) fn tell_all(&self, notices: &[String]) {
        for notice in notices {
            (self.0.notices)(notice);
        }
    }

    /// What opening the store takes, unless it is open or in memory.
    #[doc(hidden)]
    pub fn store_to_open(&self, settings: &Settings) -> Result<Option<TrustedStore>, Failure> {
        let is_needed = !(self.0.is_in_memory || self.0.host.initialized());
        is_needed.then(|| self.trusted_store(settings)).transpose()
    }

    pub(crate) fn trusted_store(&self, settings: &Settings) -> Result<TrustedStore, Failure> {
        trusted_store(settings, self.0.operator.consent)
    }

    #[doc(hidden)]
    pub async fn open_store(&self, to_open: Option<TrustedStore>) -> Result<&Host, Failure> {
        self.0.host.get_or_try_init(|| self.opened(to_open)).await
    }

    async fn opened(&self, to_open: Option<TrustedStore>) -> Result<Host, Failure> {
        let Inner { env, registry, is_in_memory, .. } = &*self.0;
        if *is_in_memory {
            return Ok(Host::new(Engine::new(Arc::new(MemoryStore::new()), Arc::clone(env), registry.clone())));
        }
        let rondo = self.clone();
        let own = match to_open {
            Some(to_open) => to_open,
            None => blocking(move || rondo.trusted_store(&rondo.operator().agreed_settings()?)).await?,
        };
        let (host, notices) = Host::open(own, Arc::clone(env), registry.clone()).await?;
        self.tell_store(&notices);
        Ok(host)
    }

    fn tell_store(&self, notices: &[String]) {
        self.tell_all(&notices.iter().map(|notice| format!("store: {notice}")).collect::<Vec<_>>());
    }

    /// Opens the store, whose threads are written to a log.
    #[cfg(feature = "restate")]
    pub(crate) async fn open_replicated(
        &self,
        own: TrustedStore,
        log: Arc<dyn rondo_store::WriteLog>,
    ) -> Result<rondo_store::replicated::Copied, Failure> {
        let (env, registry) = self.surroundings();
        let (host, copied, notices) = Host::open_replicated(own, env, registry, log).await?;
        self.tell_store(&notices);
        let is_first = self.0.host.set(host).is_ok();
        is_first.then_some(copied).ok_or_else(|| Failure::internal("the store is open already"))
    }

    /// The clock and the kinds of hooks.
    #[cfg(feature = "restate")]
    pub(crate) fn surroundings(&self) -> (Arc<dyn Env>, Registry) {
        (Arc::clone(&self.0.env), self.0.registry.clone())
    }

    /// The store, if it is open.
    #[cfg(feature = "restate")]
    pub(crate) fn opened_host(&self) -> Option<&Host> {
        self.0.host.get()
    }

    /// The store, opened.
    #[doc(hidden)]
    pub async fn host(&self) -> Result<&Host, Failure> {
        self.open_store(None).await
    }

    /// Brings the store up to a thread, or to all, where it is a copy of what others write.
    #[doc(hidden)]
    #[cfg_attr(not(feature = "restate"), expect(clippy::unused_async, reason = "as where there are clusters"))]
    pub async fn catch_up(&self, thread: Option<&ThreadId>) -> Result<(), Failure> {
        #[cfg(feature = "restate")]
        self.caught_up(thread).await?;
        #[cfg(not(feature = "restate"))]
        let _ = thread;
        Ok(())
    }

    /// Runs `read` over the store, brought up to a thread or to all, on a thread where it may block.
    async fn reading<T: Send + 'static>(
        &self,
        thread: Option<&ThreadId>,
        read: impl FnOnce(&dyn Read) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.catch_up(thread).await?;
        let host = self.host().await?.clone();
        blocking(move || read(&**host.engine().store())).await
    }
}

/// Runs `work` on a thread where it may block.
#[doc(hidden)]
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::internal(format!("the work broke off: {error}"))))
}

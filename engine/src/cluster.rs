//! Threads on a Restate cluster: what begins, continues and reads them from outside.
//!
//! Whoever reads a thread of a cluster copies its log into a store of their own and reads that, with everything that
//! reads a store.

use std::path::{Path, PathBuf};

use rondo_agent_kit::tool::InDoubt;
use rondo_core::local::{PersonAnswer, RaisedLimits};
use rondo_core::store::{Commit, Replica as _};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_protocol::hint::Hint;
use rondo_protocol::id::ThreadId;
use rondo_restate::{Client, Continued, Leaving, Wake, to_pieces};
use rondo_store::replicated::{Copied, logged};
use rondo_store::shared_store::{Opening, OwnThreads, SharedStore};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A cluster, by the addresses of its ingresses.
#[derive(Clone)]
pub struct Cluster(Client);

pub(crate) struct Asked {
    pub(crate) thread: ThreadId,
    invocation: String,
}

/// How a thread is continued.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Choices {
    pub(crate) raised: RaisedLimits,
    pub(crate) in_doubt: Option<InDoubt>,
}

/// A refusal by a worker, as it travels.
#[derive(Serialize, Deserialize)]
pub(crate) struct Refusal {
    code: String,
    message: String,
    hint: Option<Hint>,
}

impl Refusal {
    pub(crate) fn of(failure: &Failure) -> Self {
        Self { code: failure.code().to_string(), message: failure.message(), hint: failure.hint() }
    }

    fn failure(self) -> Failure {
        let code = Code::find(&self.code).unwrap_or(Code::ClusterRefused);
        self.hint.into_iter().fold(Failure::new(code, self.message), Failure::with_hint)
    }
}

impl From<rondo_restate::Error> for Failure {
    fn from(error: rondo_restate::Error) -> Self {
        use rondo_restate::Error;
        let code = match &error {
            Error::Address(_) => Code::ClusterAddress,
            Error::Unreachable { .. } => Code::ClusterUnreachable,
            Error::Silent { .. } => Code::ClusterSilent,
            Error::NoWorker { .. } => Code::NoWorker,
            Error::Refused { .. } | Error::Unreadable { .. } => Code::ClusterRefused,
            Error::Store(error) => return error.clone().into(),
        };
        Self::new(code, error.to_string())
    }
}

impl Cluster {
    /// The cluster with these ingresses, of which one that does not answer is left for the next. The admin interface of
    /// each is on port 9070 of the same host, unless `admin` has an address for each.
    ///
    /// # Errors
    /// [`Code::ClusterAddress`].
    pub fn at(urls: &[String], admin: &[String]) -> Result<Self, Failure> {
        Ok(Self(Client::new(urls, admin)?))
    }

    /// The address.
    pub fn url(&self) -> &str {
        self.0.url()
    }

    /// Begins a thread by its first commit. `script` answers in place of models.
    pub(crate) async fn begin(&self, commit: Commit, script: Option<String>) -> Result<Asked, Failure> {
        let thread = commit.thread.clone();
        self.append(commit).await?;
        self.wake(&thread, Wake::Continue(script, continued(&Choices::default()))).await
    }

    pub(crate) async fn append(&self, commit: Commit) -> Result<(), Failure> {
        let (thread, needs) = (commit.thread.clone(), commit.row.needs().cloned().collect::<Vec<_>>());
        let pieces = to_pieces(&[logged(commit)?]).map_err(Failure::internal)?;
        Ok(self.0.append(&thread, &pieces, &needs).await?)
    }

    pub(crate) async fn resume(
        &self,
        thread: &ThreadId,
        choices: &Choices,
        script: Option<String>,
    ) -> Result<Asked, Failure> {
        self.wake(thread, Wake::Continue(script, continued(choices))).await
    }

    pub(crate) async fn answer(&self, thread: &ThreadId, answer: &PersonAnswer) -> Result<Asked, Failure> {
        self.wake(thread, Wake::Answer(continued(answer))).await
    }

    /// Ends a thread for good, wherever it is driven.
    pub(crate) async fn cancel(&self, thread: &ThreadId) -> Result<Asked, Failure> {
        self.0.cancel(thread).await?;
        self.wake(thread, Wake::Cancel).await
    }

    async fn wake(&self, thread: &ThreadId, wake: Wake) -> Result<Asked, Failure> {
        // A request that is sent again by what lies between is carried out once.
        let once = rondo_core::env::Env::random(&rondo_core::env::SystemEnv::default());
        let invocation = self.0.wake(thread, &wake, &format!("{once:032x}")).await?;
        Ok(Asked { thread: thread.clone(), invocation })
    }

    /// Whether a worker has left a thread that it was asked to continue.
    ///
    /// # Errors
    /// What the worker refused, or that the cluster cannot be asked.
    pub(crate) async fn has_left(&self, asked: &Asked) -> Result<bool, Failure> {
        match self.0.left(&asked.invocation).await? {
            None => Ok(false),
            // It goes on under another invocation, which its row says.
            Some(Leaving::Waiting(_) | Leaving::Settled | Leaving::Drained) => Ok(true),
            Some(Leaving::Refused(why)) => Err(serde_json::from_str::<Refusal>(&why)
                .map_or_else(|_| Failure::new(Code::ClusterRefused, why.clone()), Refusal::failure)),
        }
    }

    /// Opens the copy of the cluster's threads in a folder, to bring it up to them.
    pub async fn copy_in(&self, folder: PathBuf) -> Result<Copy, Failure> {
        let opened = tokio::task::spawn_blocking(move || {
            let opening = Opening { folder, owner: None, durability: Durability::Log };
            let own_threads = OwnThreads { cancel: Box::new(|_| ()), taken_over: Box::new(|_| ()) };
            SharedStore::open(opening, own_threads)
        });
        let (shared, _) = opened.await.map_err(|error| broke_off(&error))??;
        Ok(self.copy_to(shared))
    }

    /// The same, of a store that is open.
    pub(crate) fn copy_to(&self, store: SharedStore) -> Copy {
        Copy { client: self.0.clone(), store: Copied::new(store) }
    }

    pub(crate) fn client(&self) -> Client {
        self.0.clone()
    }

    /// Where the copy of this cluster's threads is kept, below a folder for what can be made again.
    pub fn folder_below(&self, cache: &Path) -> PathBuf {
        let name: String = self.url().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        cache.join("rondo").join("on").join(name)
    }
}

fn broke_off(error: &tokio::task::JoinError) -> Failure {
    Failure::internal(format!("the work broke off: {error}"))
}

fn continued(choices: &impl Serialize) -> Continued {
    Continued(serde_json::to_string(choices).unwrap_or_else(|error| error.to_string()))
}

/// A store that holds what was read of a cluster.
pub struct Copy {
    client: Client,
    store: Copied,
}

impl Copy {
    /// Brings it up to a thread, and to those that the thread is a fork of.
    ///
    /// # Errors
    /// [`Code::ThreadUnknown`], or if the cluster cannot be asked.
    pub async fn thread(&self, thread: &ThreadId) -> Result<(), Failure> {
        if self.client.copy(thread, None, &self.store).await? == 0 {
            let message = format!("the cluster at {} has no thread {thread}", self.client.url());
            return Err(Failure::new(Code::ThreadUnknown, message));
        }
        Ok(())
    }

    /// Brings it up to all threads of the cluster.
    pub async fn all(&self) -> Result<(), Failure> {
        for (thread, count) in self.client.threads().await? {
            if self.store.position(&thread)? < count {
                self.thread(&thread).await?;
            }
        }
        Ok(())
    }

    /// Releases it.
    pub async fn close(self) -> Result<(), Failure> {
        tokio::task::spawn_blocking(move || self.store.store.leave()).await.map_err(|error| broke_off(&error))
    }
}

//! `--on URL`: threads of a Restate cluster. What reads them reads a copy of theirs, which is brought up to the cluster;
//! what begins, continues or ends them asks a worker to, and shows the copy as it grows.

#[cfg(feature = "restate")]
use std::path::PathBuf;

use rondo::Builder;
#[cfg(feature = "restate")]
use rondo::cluster::Cluster;
#[cfg(feature = "restate")]
use rondo::protocol::diagnostic::Code;
#[cfg(feature = "restate")]
use rondo::protocol::id::ThreadId;
use rondo::settings::Flags;

use super::Failure;
#[cfg(feature = "restate")]
use super::{runtime, settings_files};

/// Which cluster holds the threads. A build without clusters has no such options.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnArgs {
    /// The Restate cluster that holds the threads, by the address of an ingress; several are tried in turn
    #[cfg(feature = "restate")]
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    on: Vec<String>,
    /// The admin interface of each [default: port 9070 of the same host]
    #[cfg(feature = "restate")]
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "on")]
    admin: Vec<String>,
}

#[cfg(feature = "restate")]
impl OnArgs {
    fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        (!self.on.is_empty()).then(|| Cluster::at(&self.on, &self.admin)).transpose()
    }

    pub(super) fn over(&self, builder: Builder) -> Result<Builder, Failure> {
        Ok(builder.cluster(self.cluster()?))
    }

    /// The options of the store: with a cluster, that of the copy of its threads.
    pub(super) fn flags(&self, flags: Flags) -> Result<Flags, Failure> {
        let Some(cluster) = self.cluster()?.filter(|_| flags.store.is_none()) else { return Ok(flags) };
        let settings = settings_files::settings(&flags)?;
        let folder = |name: &str| settings.environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        let place = || {
            let failure = Failure::new(Code::StoreUnusable, "there is no folder for the copy of the cluster's threads");
            failure.with_hint("set XDG_CACHE_HOME or HOME, or name one with `--store DIR`")
        };
        Ok(Flags { store: Some(cluster.folder_below(&cache.ok_or_else(place)?)), ..flags })
    }

    /// The same, where the copy is brought up to the cluster: to the threads that the command names by their ids, or to
    /// all.
    pub(super) fn copied(&self, flags: Flags) -> Result<Flags, Failure> {
        let Some(cluster) = self.cluster()? else { return Ok(flags) };
        let flags = self.flags(flags)?;
        let folder = settings_files::settings(&flags)?.store.value;
        let ids = named();
        runtime()?.block_on(async {
            let copy = cluster.copy_in(folder).await?;
            for thread in &ids {
                copy.thread(thread).await?;
            }
            if ids.is_empty() {
                copy.all().await?;
            }
            copy.close().await
        })?;
        Ok(flags)
    }
}

#[cfg(not(feature = "restate"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where there are clusters")]
impl OnArgs {
    pub(super) fn over(&self, builder: Builder) -> Result<Builder, Failure> {
        Ok(builder)
    }

    pub(super) fn flags(&self, flags: Flags) -> Result<Flags, Failure> {
        Ok(flags)
    }

    pub(super) fn copied(&self, flags: Flags) -> Result<Flags, Failure> {
        Ok(flags)
    }
}

/// The threads whose ids are words of this command.
#[cfg(feature = "restate")]
fn named() -> Vec<ThreadId> {
    let id = |word: String| ThreadId::new(word.split(':').next().unwrap_or_default()).ok();
    std::env::args().skip(1).filter_map(id).collect()
}

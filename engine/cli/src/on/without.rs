//! A build without clusters: its verbs have no such options.

use rondo::core::PersonAnswer;
use rondo::core::local::{ForkPlan, ForkRequest};
use rondo::host::starting::Draft;
use rondo::protocol::Value;
use rondo::protocol::id::ThreadId;
use rondo::settings::Flags;
use rondo::store::{Read, Row};

use super::super::Exit;
use super::super::result::View;
use super::super::resume::ContinueArgs;
use super::super::run::ScriptArgs;
use super::super::run_config::RunSpec;
use super::super::runner::Writing;
use super::super::{Failure, Output, StoreArgs};

/// There is none.
pub enum Cluster {}

#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnArgs {}

#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same as where there are clusters")]
impl OnArgs {
    pub(in super::super) fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        Ok(None)
    }

    pub(in super::super) fn flags(&self, flags: Flags) -> Result<Flags, Failure> {
        Ok(flags)
    }

    pub(in super::super) fn copied(&self, flags: Flags) -> Result<Flags, Failure> {
        Ok(flags)
    }
}

pub fn found<T>(
    cluster: &Cluster,
    _args: (&OnArgs, &StoreArgs),
    _find: impl FnOnce(&dyn Read) -> Result<T, Failure>,
    _output: &Output,
) -> Result<(T, Writing), Failure> {
    match *cluster {}
}

pub fn begin(
    cluster: Cluster,
    _new: (Draft, Value, &ScriptArgs),
    _writing: Writing,
    _view: &View,
    _output: &mut Output,
) -> Result<Exit, Failure> {
    match cluster {}
}

pub fn resume(
    cluster: Cluster,
    _thread: ThreadId,
    _writing: Writing,
    _args: &ContinueArgs,
    _output: &mut Output,
) -> Result<Exit, Failure> {
    match cluster {}
}

pub fn answer(
    cluster: Cluster,
    _thread: ThreadId,
    _answer: PersonAnswer,
    _writing: Writing,
    _args: &ContinueArgs,
    _output: &mut Output,
) -> Result<Exit, Failure> {
    match cluster {}
}

pub fn cancel(cluster: Cluster, _thread: ThreadId, _writing: Writing, _output: &mut Output) -> Result<Exit, Failure> {
    match cluster {}
}

pub fn fork(
    cluster: Cluster,
    _thread: ThreadId,
    _fork: (ForkRequest, ForkPlan, RunSpec),
    _writing: Writing,
    _args: &ContinueArgs,
    _output: &mut Output,
) -> Result<Exit, Failure> {
    match cluster {}
}

//! Where there are clusters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo::cluster::{Asked, Choices, Copy};
use rondo::core::local::{self, ForkPlan, ForkRequest, origin};
use rondo::core::thread::Origin;
use rondo::core::{Ended, NewThread, PersonAnswer};
use rondo::host::answers_from::AnswersFrom;
use rondo::protocol::call::Fault;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::event::EventId;
use rondo::protocol::id::ThreadId;
use rondo::settings::Flags;
use rondo::store::{Read, Status};
use rondo::tell::tell;

use super::super::answer::ask;
use super::super::batch::Elsewhere;
use super::super::person::{consent_by, is_attended};
use super::super::result::View;
use super::super::resume::{ContinueArgs, InDoubtChoice};
use super::super::run::ScriptArgs;
use super::super::run_config::RunSpec;
use super::super::runner::{Task, TaskContext, Writing, show_task};
use super::super::store_access::{existing_store_at, trusted_store};
use super::super::{Exit, Failure, Output, StoreArgs, runtime, settings_files};

pub use rondo::cluster::Cluster;

/// How often a thread of a cluster is looked at: at first, and after it has been quiet for a while.
const FIRST_LOOK: Duration = Duration::from_millis(40);
const LATER_LOOK: Duration = Duration::from_secs(1);

/// Which cluster holds the threads.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OnArgs {
    /// The Restate cluster that holds the threads, by the address of an ingress; several are tried in turn
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    on: Vec<String>,
    /// The admin interface of each [default: port 9070 of the same host]
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "on")]
    admin: Vec<String>,
}

impl OnArgs {
    /// The cluster, if there is one.
    pub(in super::super) fn cluster(&self) -> Result<Option<Cluster>, Failure> {
        (!self.on.is_empty()).then(|| Cluster::at(&self.on, &self.admin)).transpose()
    }

    /// The options of the store: with a cluster, that of the copy of its threads.
    pub(in super::super) fn flags(&self, flags: Flags) -> Result<Flags, Failure> {
        let Some(cluster) = self.cluster()? else { return Ok(flags) };
        if flags.store.is_some() {
            return Ok(flags);
        }
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
    pub(in super::super) fn copied(&self, flags: Flags) -> Result<Flags, Failure> {
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

/// The threads whose ids are words of this command.
fn named() -> Vec<ThreadId> {
    let id = |word: String| ThreadId::new(word.split(':').next().unwrap_or_default()).ok();
    std::env::args().skip(1).filter_map(id).collect()
}

/// What `find` finds in the copy of the cluster's threads, which can then be written.
pub fn found<T>(
    (on, store): (&OnArgs, &StoreArgs),
    find: impl FnOnce(&dyn Read) -> Result<T, Failure>,
    output: &Output,
) -> Result<(T, Writing), Failure> {
    let by = consent_by(false, output);
    let rondo = super::super::rondo(&on.copied(store.flags())?, by, None)?;
    let settings = rondo.operator().files.in_force()?;
    let own = trusted_store(&settings, by)?;
    let view = existing_store_at(&own.folder)?;
    let found = find(view.store.as_ref())?;
    drop(view);
    Ok((found, Writing { rondo, to_open: Some((own, settings.durability.value)) }))
}

/// The request to a worker.
type Asking = Box<dyn for<'c> FnOnce(&'c Cluster, &'c TaskContext) -> BoxFuture<'c, Result<Asked, Failure>> + Send>;

/// Begins a thread, and shows it.
pub fn begin(
    remote: Remote,
    (new, run_spec): (NewThread, RunSpec),
    writing: Writing,
    view: &View,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let Remote { cluster, script } = remote;
    let asking: Asking = Box::new(move |cluster, context| {
        Box::pin(async move { cluster.begin(&context.rondo, (new, &run_spec), None, script).await })
    });
    follow(cluster, (None, asking), writing, view, output)
}

/// A cluster that begins threads.
pub struct Remote {
    cluster: Cluster,
    /// What answers in place of models.
    script: Option<String>,
}

impl Remote {
    /// The cluster, with a script for a new workflow in this folder or for what is there.
    pub fn new(cluster: Cluster, script: &ScriptArgs, folder: Option<&Path>) -> Result<Self, Failure> {
        let answers = script.answers();
        if matches!(answers, AnswersFrom::Recording(_)) {
            let failure = Failure::new(Code::RecordingRefused, "a thread of a cluster is not played from a recording");
            return Err(failure.with_hint("run it here, without `--on`"));
        }
        Ok(Self { cluster, script: answers.script_text(folder)?.map(|(_, text)| text) })
    }

    async fn until_left(&self, context: &TaskContext, asked: &Asked, from: EventId) -> Result<Exit, Failure> {
        let ended = Follower { cluster: &self.cluster, context, from }.shown(asked).await?;
        Ok(ended.map_or(Exit::Interrupted, |ended| Exit::of_ended(&ended)))
    }
}

impl Elsewhere for Remote {
    fn begin<'a>(
        &'a self,
        context: &'a TaskContext,
        new: NewThread,
        run_spec: &'a RunSpec,
        thread: ThreadId,
    ) -> BoxFuture<'a, Result<Exit, Failure>> {
        Box::pin(async move {
            let begun = self.cluster.begin(&context.rondo, (new, run_spec), Some(thread), self.script.clone()).await?;
            self.until_left(context, &begun, EventId::NONE).await
        })
    }

    fn again<'a>(&'a self, context: &'a TaskContext, thread: &'a ThreadId) -> BoxFuture<'a, Result<Exit, Failure>> {
        Box::pin(async move {
            let before = local::end(context.engine.store().as_ref(), thread)?.unwrap_or(EventId::NONE);
            let asked = self.cluster.resume(thread, &Choices::default(), self.script.clone()).await?;
            self.until_left(context, &asked, before).await
        })
    }
}

/// Continues a thread, and shows it.
pub fn resume(
    cluster: Cluster,
    thread: ThreadId,
    writing: Writing,
    args: &ContinueArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let in_doubt = args.in_doubt.map(|choice| choice == InDoubtChoice::Retry);
    let choices = Choices { limits: args.limits.clone(), in_doubt };
    let Remote { cluster, script } = Remote::new(cluster, &args.script, None)?;
    let id = thread.clone();
    let asking: Asking =
        Box::new(move |cluster, _| Box::pin(async move { cluster.resume(&id, &choices, script).await }));
    follow(cluster, (Some(thread), asking), writing, &args.view, output)
}

/// Answers a form of a thread, and shows how it goes on.
pub fn answer(
    cluster: Cluster,
    thread: ThreadId,
    answer: PersonAnswer,
    writing: Writing,
    args: &ContinueArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let id = thread.clone();
    let asking: Asking = Box::new(move |cluster, _| Box::pin(async move { cluster.answer(&id, &answer).await }));
    follow(cluster, (Some(thread), asking), writing, &args.view, output)
}

/// Ends a thread for good.
pub fn cancel(cluster: Cluster, thread: ThreadId, writing: Writing, output: &mut Output) -> Result<Exit, Failure> {
    let id = thread.clone();
    let asking: Asking = Box::new(move |cluster, _| Box::pin(async move { cluster.cancel(&id).await }));
    let exit = follow(cluster, (Some(thread), asking), writing, &View::quiet(), output)?;
    // A thread that had ended otherwise was refused.
    Ok(if exit == Exit::Failed { Exit::Done } else { exit })
}

/// Makes a fork of a thread, and shows it.
pub fn fork(
    cluster: Cluster,
    thread: ThreadId,
    (request, plan, run_spec): (ForkRequest, ForkPlan, RunSpec),
    writing: Writing,
    args: &ContinueArgs,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let Remote { cluster, script } = Remote::new(cluster, &args.script, None)?;
    let asking: Asking = Box::new(move |cluster, context| {
        Box::pin(async move { cluster.fork(&context.engine, (&thread, plan.at, &request), &run_spec, script).await })
    });
    follow(cluster, (None, asking), writing, &args.view, output)
}

/// Asks a worker, and shows the thread until the worker leaves it; then the person at the terminal is asked for what it
/// waits for. `thread` is one that is there.
fn follow(
    cluster: Cluster,
    (thread, asking): (Option<ThreadId>, Asking),
    writing: Writing,
    view: &View,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let is_attended = is_attended(output);
    let task: Task = Box::new(move |context| {
        Box::pin(async move {
            let before = thread.map(|thread| local::end(context.engine.store().as_ref(), &thread)).transpose()?;
            let from = before.flatten().unwrap_or(EventId::NONE);
            let mut follower = Follower { cluster: &cluster, context: &context, from };
            let mut asked = asking(&cluster, &context).await?;
            loop {
                let Some(ended) = follower.shown(&asked).await? else { return Ok(Exit::Interrupted) };
                let open = match &ended {
                    Ended::Waiting(forms) if is_attended => forms.first().cloned(),
                    _ => None,
                };
                let Some(open) = open else { return Ok(Exit::of_ended(&ended)) };
                let Some(answer) = ask(&context, &asked.thread, open).await? else { return Ok(Exit::Waiting) };
                asked = cluster.answer(&asked.thread, &answer).await?;
            }
        })
    });
    show_task(task, writing, view, output)
}

/// Shows a thread of a cluster as it grows.
struct Follower<'c> {
    cluster: &'c Cluster,
    context: &'c TaskContext,
    /// The last event that was shown.
    from: EventId,
}

impl Follower<'_> {
    /// Shows what a thread does until the worker that was asked has left it; `None` after a signal.
    async fn shown(&mut self, asked: &Asked) -> Result<Option<Ended>, Failure> {
        let copy = self.cluster.copy_of(&self.context.host);
        let copy =
            copy.ok_or_else(|| Failure::new(Code::InternalFault, "the copy of the cluster's threads is not open"))?;
        let mut pause = FIRST_LOOK;
        loop {
            let has_left = tokio::select! {
                has_left = self.look(&copy, asked) => has_left?,
                () = self.context.left() => {
                    tell(&format!("the thread goes on in the cluster: {}\n", asked.thread));
                    return Ok(None);
                }
            };
            let before = self.from;
            if let Some(ended) = self.show(asked).await?.filter(|_| has_left) {
                return Ok(Some(ended));
            }
            pause = if self.from == before { (pause * 2).min(LATER_LOOK) } else { FIRST_LOOK };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.context.left() => {}
            }
        }
    }

    /// Brings the copy up to the thread. Returns whether its worker had left it before.
    async fn look(&self, copy: &Copy, asked: &Asked) -> Result<bool, Failure> {
        let has_left = self.cluster.has_left(asked).await?;
        copy.thread(&asked.thread).await?;
        Ok(has_left)
    }

    /// Shows what is new in the copy. Returns how the thread stands there; `None` if it is under way.
    async fn show(&mut self, asked: &Asked) -> Result<Option<Ended>, Failure> {
        let (engine, thread) = (&self.context.engine, &asked.thread);
        let mut events = engine.subscribe(thread, self.from)?;
        while let Some(event) = events.recv().await {
            self.from = event.id.unwrap_or(self.from);
            self.context.event(event).await;
        }
        let row = engine.store().row(thread)?;
        let Some(row) = row.filter(|row| row.status != Status::Running) else { return Ok(None) };
        let Origin { ending, stop, forms, .. } = origin(thread, &row)?;
        Ok(match (ending, stop) {
            (Some(ending), _) => Some(Ended::Finished(ending)),
            (None, _) if row.status == Status::Waiting => Some(Ended::Waiting(forms)),
            (None, Some(stop)) => {
                let code = Code::find(&stop.code).unwrap_or(Code::Interrupted);
                Some(Ended::Stopped(Fault { hint: stop.hint, ..Fault::new(code, stop.class, stop.message) }))
            }
            (None, None) => None,
        })
    }
}

//! `rondo resume`: continues a thread that stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rondo_agent_kit::tool::InDoubt;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::{Policy, Workflow};

use super::answer::follow_and_ask;
use super::batch;
use super::changed_file::notice;
use super::consent::{ConsentRequest, Subject, named};
use super::exit::Exit;
use super::failure::Failure;
use super::files::{STDIN, absolute};
use super::find_thread::{find_thread, find_unfinished, no_threads, root};
use super::key_command::with_keys;
use super::limit::limits;
use super::output::Output;
use super::person::{consent_by, is_attended};
use super::recording::Recording;
use super::run::{ScriptArgs, Scripted, cassette, configured, read_script, script, warn_of_plain_http};
use super::settings_files;
use super::store_access::{OwnStore, own_store, view_store_at};
use super::thread_row;
use super::{JsonArgs, StoreArgs, workflow, working_folder};
use crate::conversation::rebuild;
use crate::shipped;
use crate::store::{Read, Row, Status};
use crate::tell::tell;

use super::approval::approvers;
use super::result::{ResultArgs, View};
use super::run_config::{Resources, RunSpec};
use super::runner::{Task, TaskContext, show_task};
use crate::grant::Grants;
use crate::local::RaisedLimits;
use crate::{Resumed, RunConfig};

/// What happens with tool calls in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InDoubtChoice {
    /// Make them again, with the same idempotency key
    Retry,
    /// Tell the model that nobody knows
    Skip,
}

impl From<InDoubtChoice> for InDoubt {
    fn from(choice: InDoubtChoice) -> Self {
        match choice {
            InDoubtChoice::Retry => Self::Retry,
            InDoubtChoice::Skip => Self::Skip,
        }
    }
}

/// Continue a stopped thread; a child continues with the thread above it
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Continue the lines of a batch that have not ended or never began: its id, the beginning of one, or `last`
    #[arg(long, value_name = "ID", conflicts_with = "thread")]
    batch: Option<String>,
    #[command(flatten)]
    pub(super) run: ContinueArgs,
}

/// How a thread continues.
#[derive(Debug, clap::Args)]
pub struct ContinueArgs {
    /// A thread's id, the beginning of one, or `last` [default: the only one that has not ended]
    pub(super) thread: Option<String>,
    #[command(flatten)]
    script: ScriptArgs,
    /// What to do with tool calls of which nobody knows whether they had their effect
    #[arg(long, value_enum, value_name = "WHAT")]
    in_doubt: Option<InDoubtChoice>,
    /// Raise a limit of the thread, such as tokens=90000; a time is written 2h
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Consent, for this run, to all that the settings, the workflow and the store ask for
    #[arg(long)]
    trust: bool,
    /// Show results and faults only
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Show answers in full while they are written
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
    /// The flags of hook kinds.
    #[arg(skip)]
    pub(super) flags: BTreeMap<String, String>,
}

pub fn resume(args: &ResumeArgs, output: &mut Output) -> Result<Exit, Failure> {
    let ResumeArgs { batch, run } = args;
    if let Some(word) = batch {
        return batch::resume(run, word, output);
    }
    let mut named = None;
    let find = |store: &dyn Read| {
        let found = match &run.thread {
            Some(word) => find_thread(store, word)?,
            None => find_unfinished(store)?,
        };
        named = Some(found.0.clone());
        root(store, found)
    };
    let Continued { thread, mut run_spec, store, durability } = prepare(run, find, output)?;
    // A child goes on with the threads above it, whose limits hold for it too.
    run_spec.raised.thread = named;
    let task: Task = Box::new(|context| Box::pin(resume_thread(context, thread, run_spec)));
    show_task(task, store, durability, &run.view(), output)
}

/// A thread to continue, and all that this takes.
pub(super) struct Continued {
    pub(super) thread: ThreadId,
    pub(super) run_spec: RunSpec,
    pub(super) store: OwnStore,
    pub(super) durability: Durability,
}

/// What is continued.
#[derive(Clone, Copy)]
pub(super) enum Meant<'a> {
    /// The thread itself.
    Thread,
    /// A fork of it, under this workflow if there is one.
    Fork(Option<&'a workflow::Loaded>),
}

impl ContinueArgs {
    pub(super) fn view(&self) -> View {
        View { is_quiet: self.quiet, is_verbose: self.verbose, result: self.result.clone() }
    }
}

/// What a run was begun with.
pub(super) struct Begun {
    pub(super) workflow: Workflow,
    pub(super) policy: Policy,
    /// The workflow's file, as an absolute path.
    pub(super) file: Option<String>,
    pub(super) script: Option<String>,
    pub(super) recorded: Option<String>,
    pub(super) workspace: Option<String>,
}

impl Begun {
    fn of(store: &dyn Read, row: &Row, meant: Meant<'_>, here: &Path) -> Result<Option<Self>, Failure> {
        let edited = match meant {
            Meant::Fork(loaded) => loaded,
            Meant::Thread if matches!(row.status, Status::Done | Status::Failed | Status::Cancelled) => {
                return Ok(None);
            }
            Meant::Thread => None,
        };
        let origin = thread_row::origin(row);
        let (workflow, policy, file) = if let Some(loaded) = edited {
            let file = absolute(&loaded.path, here);
            (loaded.checked.workflow.clone(), loaded.checked.policy.clone(), Some(file))
        } else {
            let file = origin.as_ref().and_then(|origin| origin.file.clone());
            (rebuild::beginning(store, row)?.workflow, rebuild::policy(store, row)?, file)
        };
        let (script, recorded, workspace) =
            origin.map_or((None, None, None), |origin| (origin.script, origin.recorded, origin.workspace));
        Ok(Some(Self { workflow, policy, file, script, recorded, workspace }))
    }
}

/// All that continuing takes.
pub(super) struct Equipment {
    pub(super) run_spec: RunSpec,
    pub(super) store: OwnStore,
    pub(super) durability: Durability,
}

/// Prepares to continue a thread: settings, consent, script or recording, keys.
pub(super) fn prepare(
    args: &ContinueArgs,
    find: impl FnOnce(&dyn Read) -> Result<(ThreadId, Row), Failure>,
    output: &Output,
) -> Result<Continued, Failure> {
    prepare_for(args, Meant::Thread, find, output)
}

/// Like [`prepare`], also for a fork.
pub(super) fn prepare_for(
    args: &ContinueArgs,
    meant: Meant<'_>,
    find: impl FnOnce(&dyn Read) -> Result<(ThreadId, Row), Failure>,
    output: &Output,
) -> Result<Continued, Failure> {
    let here = working_folder()?;
    let find = |store: &dyn Read| {
        let (thread, row) = find(store)?;
        let begun = Begun::of(store, &row, meant, &here)?;
        let is_silent = args.quiet || output.is_json() || matches!(meant, Meant::Fork(_));
        let raises_limit = !args.limits.is_empty();
        if let Some(notice) =
            begun.as_ref().filter(|_| !is_silent).and_then(|begun| notice(store, &thread, &row, begun, raises_limit))
        {
            tell(&notice);
        }
        Ok((thread, begun))
    };
    let (thread, Equipment { run_spec, store, durability }) = equip(args, find, output)?;
    Ok(Continued { thread, run_spec, store, durability })
}

/// Prepares to continue what `find` finds in the store. Without anything begun, no call will be made.
pub(super) fn equip<T>(
    args: &ContinueArgs,
    find: impl FnOnce(&dyn Read) -> Result<(T, Option<Begun>), Failure>,
    output: &Output,
) -> Result<(T, Equipment), Failure> {
    let here = working_folder()?;
    let files = settings_files::read(&args.store.flags())?;
    files.refuse_unsafe()?;
    let settings = files.whole()?;
    let is_attended = !output.is_json() && is_attended();
    let by = consent_by(args.trust, is_attended);
    // The settings choose the store, and its contents may be a stranger's.
    ConsentRequest::of(&files, &settings, None)?.permitted("", by, &settings)?;
    let own = own_store(&settings, by)?;
    let view = view_store_at(&own.folder)?.ok_or_else(no_threads)?;
    let (found, begun) = find(view.store.as_ref())?;
    drop(view);
    let (mut script, mut recorded, mut grants, mut settings) = (None, None, Grants::default(), settings);
    if let Some(begun) = begun {
        let Begun { workflow, policy, file, .. } = &begun;
        (script, recorded) = answers(args, &begun, &here, args.quiet || output.is_json())?;
        let has_tools = !named(workflow).is_empty();
        let begun_in = begun.workspace.as_deref().unwrap_or("a folder that is not known");
        if has_tools && Path::new(begun_in) != settings.workspace {
            let here = settings.workspace.display();
            let message = format!("the thread's tools work in {begun_in}, and this would go on in {here}");
            return Err(Failure::new(Code::ResumeUnclear, message).with_hint(format!("resume it from {begun_in}")));
        }
        // The store names the workflow of a thread; the file shows its current contents.
        let file = file.as_deref().unwrap_or_default();
        let current = workflow::read(file.into()).ok();
        // Limits that somebody typed ask for nothing.
        let policy = current.as_ref().map_or_else(
            || policy.clone(),
            |now| Policy { limits: now.checked.policy.limits.clone(), ..policy.clone() },
        );
        let is_current =
            current.as_ref().is_some_and(|now| now.checked.workflow == *workflow && now.checked.policy == policy);
        let named = if shipped::is_one(file) && !is_current { "" } else { file };
        let subject = Subject { workflow, policy: &policy, file: named, is_current };
        // Consent for the settings was obtained above.
        let asked = ConsentRequest { settings: None, ..ConsentRequest::of(&files, &settings, Some(subject))? };
        grants = asked.permitted(named, by, &settings)?;
        // If the file is gone, there is nothing to protect.
        let loaded = current.filter(|_| !shipped::is_one(file));
        let script_file = script.as_ref().map(|(_, file)| file.as_str());
        settings.held = loaded.map(|loaded| loaded.files(script_file, &here)).unwrap_or_default();
        if script.is_none() && recorded.is_none() {
            settings = with_keys(settings, workflow)?;
            warn_of_plain_http(&settings, false);
        }
    }
    let durability = settings.durability.value;
    let run_spec = RunSpec {
        resources: Arc::new(Resources::new(settings, grants)),
        script: script.map(|(script, _)| script),
        recorded,
        record: None,
        in_doubt: args.in_doubt.map(InDoubt::from),
        approvers: approvers(is_attended),
        raised: RaisedLimits { thread: None, limits: limits(&args.limits)? },
        flags: args.flags.clone(),
    };
    Ok((found, Equipment { run_spec, store: own, durability }))
}

/// What answers in place of models: what the command line names, else what the run began with.
fn answers(
    args: &ContinueArgs,
    begun: &Begun,
    here: &Path,
    is_quiet: bool,
) -> Result<(Scripted, Option<Recording>), Failure> {
    let folder = begun.file.as_deref().and_then(|file| Path::new(file).parent());
    let script = script(&args.script, folder, &begun.workflow, here)?;
    let recorded = cassette(&args.script, here)?;
    if script.is_some() || recorded.is_some() {
        return Ok((script, recorded));
    }
    if let Some(file) = begun.script.as_ref().or(begun.recorded.as_ref()).filter(|_| !is_quiet) {
        tell(&format!("answers come from {file}, as before\n"));
    }
    if begun.script.as_deref() == Some(STDIN) {
        let failure = Failure::new(Code::ResumeUnclear, "the script of this run came from standard input");
        return Err(failure.with_hint("give it again with --script FILE"));
    }
    let script = begun.script.as_ref().map(|file| read_script(Path::new(file), &begun.workflow, here)).transpose()?;
    let recorded = begun.recorded.as_ref().map(|file| Recording::read(Path::new(file), here)).transpose()?;
    Ok((script, recorded))
}

pub(super) async fn resume_thread(context: TaskContext, thread: ThreadId, run_spec: RunSpec) -> Result<Exit, Failure> {
    let (workflow, origin) = context.engine.definition(&thread)?;
    // A thread that has ended makes no calls.
    let run_config = match origin.ending {
        Some(_) => RunConfig::default(),
        None => context.unless_stopped(configured(&workflow, &run_spec)).await?,
    };
    match context.engine.resume(&thread, |_, _| Ok::<_, Failure>(run_config)).await? {
        Resumed::Running(handle) => follow_and_ask(&context, handle, &run_spec, None).await,
        Resumed::Ended { ending, head } => {
            let exit = Exit::of_outcome(ending.outcome);
            context.ended(thread, ending, head).await;
            Ok(exit)
        }
    }
}

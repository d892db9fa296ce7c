//! `rondo resume`: continues a thread that stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rondo_agent_kit::tool::InDoubt;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use rondo_protocol::workflow::read::duration_ms;
use rondo_protocol::{Value, canonical};

use super::answer::follow_and_ask;
use super::consent::{ConsentRequest, ConsentSource, Subject, named};
use super::exit::Exit;
use super::failure::Failure;
use super::files::absolute;
use super::find_thread::{find_thread, find_unfinished, no_threads};
use super::key_command::with_keys;
use super::lines;
use super::output::{Output, tell};
use super::person::is_attended;
use super::recording::Recording;
use super::run::{ScriptArgs, cassette, configured, read_script, script, warn_of_plain_http};
use super::settings_files;
use super::store_access::{OwnStore, own_store, view_store_at};
use super::{JsonArgs, StoreArgs, workflow, working_folder};
use crate::config::Settings;
use crate::conversation::rebuild;
use crate::shipped;
use crate::store::{Read, Row, Status};

use super::approval::approvers;
use super::run_config::{Resources, RunSpec};
use super::runner::{RunOptions, Task, TaskContext, run_tasks};
use crate::grant::Grants;
use crate::local::RaisedLimit;
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

/// Continue a stopped thread
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
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
    #[command(flatten)]
    pub(super) json: JsonArgs,
    /// The flags of hook kinds.
    #[arg(skip)]
    pub(super) flags: BTreeMap<String, String>,
}

pub fn resume(args: &ResumeArgs, output: &mut Output) -> Result<Exit, Failure> {
    let find = |store: &dyn Read| match &args.thread {
        Some(word) => find_thread(store, word),
        None => find_unfinished(store),
    };
    let Continued { thread, run_spec, store, durability, .. } = prepare(args, find, output)?;
    let task: Task = Box::new(|context| Box::pin(resume_thread(context, thread, run_spec)));
    let options = RunOptions { is_quiet: args.quiet, concurrency: 1 };
    run_tasks(std::iter::once(task), store, durability, options, output)
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

/// Prepares to continue a thread: settings, consent, script or recording, keys.
pub(super) fn prepare(
    args: &ResumeArgs,
    find: impl FnOnce(&dyn Read) -> Result<(ThreadId, Row), Failure>,
    output: &Output,
) -> Result<Continued, Failure> {
    prepare_for(args, Meant::Thread, find, output)
}

/// Like [`prepare`], also for a fork.
pub(super) fn prepare_for(
    args: &ResumeArgs,
    meant: Meant<'_>,
    find: impl FnOnce(&dyn Read) -> Result<(ThreadId, Row), Failure>,
    output: &Output,
) -> Result<Continued, Failure> {
    let edited = match meant {
        Meant::Fork(loaded) => loaded,
        Meant::Thread => None,
    };
    let here = working_folder()?;
    let files = settings_files::read(&args.store.flags())?;
    files.refuse_unsafe()?;
    let settings = files.whole()?;
    let is_attended = !output.is_json() && is_attended();
    let by = ConsentSource::of(args.trust, is_attended);
    // The settings choose the store, and its contents may be a stranger's.
    ConsentRequest::of(&files, &settings, None)?.permitted("", by, &settings)?;
    let own = own_store(&settings, by)?;
    let view = view_store_at(&own.folder)?.ok_or_else(no_threads)?;
    let store = view.store.as_ref();
    let (thread, row) = find(store)?;
    let origin = lines::origin(&row);
    let is_thread = matches!(meant, Meant::Thread);
    let has_ended = is_thread && matches!(row.status, Status::Done | Status::Failed | Status::Cancelled);
    let begun_file = origin.as_ref().and_then(|origin| origin.file.clone());
    let file = edited.map(|loaded| absolute(&loaded.path, &here)).or(begun_file).unwrap_or_default();
    let (script, recorded, grants) = if has_ended {
        (None, None, Grants::default())
    } else {
        let edited = edited.map(|loaded| (loaded.checked.workflow.clone(), loaded.checked.policy.clone()));
        let (workflow, policy) = match edited {
            Some(edited) => edited,
            None => (rebuild::beginning(store, &row)?.workflow, rebuild::policy(store, &row)?),
        };
        let folder = Path::new(&file).parent().filter(|_| !file.is_empty());
        let asked = script(&args.script, folder, &workflow, &here)?;
        let asked_recorded = cassette(&args.script, &here)?;
        // A thread that started with a script or a recording continues with it; another one must be requested.
        let begun = origin.as_ref().filter(|_| asked.is_none() && asked_recorded.is_none());
        let begun_with = begun.and_then(|origin| origin.script.as_deref());
        let begun_recorded = begun.and_then(|origin| origin.recorded.as_deref());
        if let Some(file) = begun_with.or(begun_recorded).filter(|_| !args.quiet && !output.is_json()) {
            tell(&format!("answers come from {file}, as before\n"));
        }
        let read_begun = |file: &str| read_script(Path::new(file), &workflow, &here);
        let script = begun_with.map(read_begun).transpose()?.or(asked);
        let read_begun = |file: &str| Recording::read(Path::new(file), &here);
        let recorded = begun_recorded.map(read_begun).transpose()?.or(asked_recorded);
        let has_tools = !named(&workflow).is_empty();
        let begun_in =
            origin.as_ref().and_then(|origin| origin.workspace.as_deref()).unwrap_or("a folder that is not known");
        if has_tools && Path::new(begun_in) != settings.workspace {
            let here = settings.workspace.display();
            let message = format!("the thread's tools work in {begun_in}, and this would go on in {here}");
            return Err(Failure::new(Code::ResumeUnclear, message).with_hint(format!("resume it from {begun_in}")));
        }
        // The store names the workflow of a thread; the file shows its current contents.
        let current = workflow::read(file.clone().into()).ok().map(|loaded| loaded.checked);
        let is_current = current.is_some_and(|now| now.workflow == workflow && now.policy == policy);
        let file = if shipped::is_one(&file) && !is_current { "" } else { file.as_str() };
        let subject = Subject { workflow: &workflow, policy: &policy, file, is_current };
        // Consent for the settings was obtained above.
        let asked = ConsentRequest { settings: None, ..ConsentRequest::of(&files, &settings, Some(subject))? };
        let grants = asked.permitted(file, by, &settings)?;
        (script, recorded, grants)
    };
    let is_played = script.is_some() || recorded.is_some() || has_ended;
    let file = Some(file).filter(|file| !file.is_empty() && !shipped::is_one(file));
    // If the file is gone, there is nothing to protect.
    let loaded = file.and_then(|file| workflow::read(file.into()).ok());
    let script_file = script.as_ref().map(|(_, file)| file.as_str());
    let held = loaded.map(|loaded| loaded.files(script_file, &here)).unwrap_or_default();
    let settings = Settings { held, ..settings };
    let settings = match (edited, rebuild::beginning(store, &row)) {
        (Some(loaded), _) if !is_played => with_keys(settings, &loaded.checked.workflow)?,
        (None, Ok(beginning)) if !is_played => with_keys(settings, &beginning.workflow)?,
        _ => settings,
    };
    warn_of_plain_http(&settings, is_played);
    drop(view);
    let (store, durability) = (own, settings.durability.value);
    let script = script.map(|(script, _)| script);
    let run_spec = RunSpec {
        resources: Arc::new(Resources::new(settings, grants)),
        script,
        recorded,
        record: None,
        in_doubt: args.in_doubt.map(InDoubt::from),
        approvers: approvers(is_attended),
        raised: args.limits.iter().map(|word| limit(word)).collect::<Result<_, _>>()?,
        flags: args.flags.clone(),
    };
    Ok(Continued { thread, run_spec, store, durability })
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

/// A limit to raise, as the command line gives it.
fn limit(word: &str) -> Result<RaisedLimit, Failure> {
    let unclear = |what: &str| Failure::new(Code::LimitUnclear, format!("--limit {word}: {what}"));
    let (key, text) = word.split_once('=').ok_or_else(|| unclear("write key=value"))?;
    if key == "wall_time" {
        let value = duration_ms(text).ok_or_else(|| unclear("write a duration such as 30m or 2h"))?;
        return Ok(RaisedLimit { key: "wall_time_ms".to_owned(), value: Value::from(value) });
    }
    let value: Value = canonical::from_slice(text.as_bytes()).map_err(|_| unclear("write a number"))?;
    match value {
        Value::Int(_) | Value::Float(_) => Ok(RaisedLimit { key: key.to_owned(), value }),
        _ => Err(unclear("write a number")),
    }
}

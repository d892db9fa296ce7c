use std::collections::BTreeMap;
use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use rondo::agent_kit::tool::InDoubt;
use rondo::host::answers_from::AnswersFrom;
use rondo::host::continuing::{ContinueChoices, ContinueTarget, ResumeSource, continued};
use rondo::host::limit_choice::limits;
use rondo::protocol::id::ThreadId;
use rondo::run::configured_for;
use rondo::store::{Read, Row};
use rondo::tell::tell;

use super::answer::follow_and_ask;
use super::approval::approvers;
use super::changed_file::notice;
use super::find_thread::{find_thread, find_unfinished, root};
use super::person::{consent_by, is_attended};
use super::result::View;
use super::run::ScriptArgs;
use super::run_config::RunSpec;
use super::runner::{Task, TaskContext, Writing, show_task};
use super::store_access::{existing_store_at, trusted_store};
use super::{Exit, Failure, Output, PlaceArgs, batch, json, working_folder};

fn in_doubt() -> impl TypedValueParser<Value = InDoubt> {
    let retry = PossibleValue::new("retry").help("Make them again, with the same idempotency key");
    let skip = PossibleValue::new("skip").help("Tell the model that the outcome is unknown");
    let word = PossibleValuesParser::new([retry, skip]);
    word.map(|word| if word == "retry" { InDoubt::Retry } else { InDoubt::Skip })
}

/// Continue a stopped thread; a child thread continues with its parent
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Continue the lines of a batch that have not ended or never began: its id, a prefix of one, or `last`
    #[arg(long, value_name = "ID", conflicts_with = "thread")]
    batch: Option<String>,
    #[command(flatten)]
    pub(super) run: ContinueArgs,
}

/// How a thread continues.
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct ContinueArgs {
    /// A thread's id, a prefix of one, or `last` [default: the only one that has not ended]
    pub(super) thread: Option<String>,
    #[command(flatten)]
    script: ScriptArgs,
    /// What to do with tool calls whose effect is unknown
    #[arg(long, value_parser = in_doubt(), value_name = "WHAT")]
    in_doubt: Option<InDoubt>,
    /// Raise a limit of the thread, such as tokens=90000; a time is written 2h
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    /// Consent, for this run, to all that the settings, the workflow and the store ask for
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    pub(super) view: View,
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
        let found = run.thread.as_deref().map_or_else(|| find_unfinished(store), |word| find_thread(store, word))?;
        named = Some(found.0.clone());
        root(store, found)
    };
    let (thread, mut run_spec, writing) = prepare(run, ContinueTarget::Thread, find, output)?;
    // A child continues the threads above it, whose limits hold for it too.
    run_spec.raised.thread = named;
    let task: Task = Box::new(|context| Box::pin(resume_thread(context, thread, run_spec)));
    show_task(task, writing, &run.view, output)
}

/// Prepares to continue a thread: settings, consent, script or recording, keys.
pub(super) fn prepare(
    args: &ContinueArgs,
    target: ContinueTarget<'_>,
    find: impl FnOnce(&dyn Read) -> Result<(ThreadId, Row), Failure>,
    output: &Output,
) -> Result<(ThreadId, RunSpec, Writing), Failure> {
    let here = working_folder()?;
    let find = |store: &dyn Read| {
        let (thread, row) = find(store)?;
        let source = ResumeSource::of(store, (&thread, &row), target, &here)?;
        let is_silent = args.view.quiet || output.is_json() || matches!(target, ContinueTarget::Fork(_));
        if let Some(source) = source.as_ref().filter(|_| !is_silent) {
            tell(&notice(store, &thread, &row, source, !args.limits.is_empty()).unwrap_or_default());
        }
        Ok((thread, source))
    };
    continuing(args, find, output)
}

/// Prepares to continue what `find` finds in the store. Without anything begun, no call will be made.
pub(super) fn continuing<T>(
    args: &ContinueArgs,
    find: impl FnOnce(&dyn Read) -> Result<(T, Option<ResumeSource>), Failure>,
    output: &Output,
) -> Result<(T, RunSpec, Writing), Failure> {
    let here = working_folder()?;
    let (by, is_attended) = (consent_by(args.trust, output), is_attended(output));
    let rondo = args.place.rondo(&args.place.copied()?.flags(), by, approvers(is_attended))?;
    // The settings choose the store, and its contents may be a stranger's.
    let settings = rondo.operator().agreed_settings()?;
    let own = trusted_store(&settings, by)?;
    let view = existing_store_at(&own.opening.folder)?;
    let (found, source) = find(view.store.as_ref())?;
    drop(view);
    let choices = ContinueChoices {
        answers: args.script.answers(),
        in_doubt: args.in_doubt,
        limits: limits(&args.limits)?,
        flags: args.flags.clone(),
    };
    let is_silent = args.view.quiet || output.is_json() || choices.answers != AnswersFrom::Unchosen;
    if let Some(file) = source.as_ref().and_then(ResumeSource::replay_file).filter(|_| !is_silent) {
        let file = Path::new(file);
        tell(&format!("answers come from {}, as before\n", file.strip_prefix(&here).unwrap_or(file).display()));
    }
    let (run_spec, notices) = continued(rondo.operator(), settings, source, choices)?;
    for notice in notices {
        tell(&format!("{notice}\n"));
    }
    Ok((found, run_spec, Writing { rondo, to_open: Some(own) }))
}

pub(super) async fn resume_thread(context: TaskContext, thread: ThreadId, run_spec: RunSpec) -> Result<Exit, Failure> {
    let run_config = context.unless_stopped(configured_for(&context.rondo, &thread, &run_spec)).await?;
    let run = rondo::run::resume(&context.rondo, &thread, run_spec, run_config).await?;
    follow_and_ask(&context, run).await
}

//! `rondo run`: starts a thread and shows it until it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use rondo::host::answers_from::AnswersFrom;
use rondo::host::limit_choice::limits;
use rondo::host::starting::{Draft, RunChoices};
use rondo::tell::{tell, tell_styled};
use rondo_core::grant::Grants;
use rondo_core::{NewThread, RunConfig};
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::Workflow;
use rondo_settings::Flags;

use super::answer::follow_and_ask;
use super::approval::approvers;
use super::batch::{self, BatchArgs};
use super::dry_run;
use super::exit::Exit;
use super::failure::{Failure, Faulty};
use super::input::{InputArgs, Inputs, inputs};
use super::labels::LabelArgs;
use super::output::{Output, Style};
use super::person::{consent_by, is_attended};
use super::result::{ResultArgs, View};
use super::run_config::{RunSpec, run_config};
use super::runner::{Task, TaskContext, show_task};
use super::settings_files;
use super::store_access::own_store;
use super::{JsonArgs, StoreArgs, recording, report, workflow, working_folder};

/// Run a workflow
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    pub(super) workflow: String,
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    batch: BatchArgs,
    /// Show the first requests, the tools and the worst case in tokens and money; nothing is sent or stored
    #[arg(long, conflicts_with_all = ["output", "raw"])]
    dry_run: bool,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    script: ScriptArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// What an acknowledged step survives: sync a power loss, log a crash of the process
    #[arg(long, value_enum)]
    durability: Option<DurabilityArg>,
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
    /// Set a limit of the thread in place of the workflow's, such as `cost_usd=2` or `wall_time=30m`
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
    /// Ask this model, by its id or its name in the workflow or the settings; ROLE=NAME for one role
    #[arg(long = "model", value_name = "[ROLE=]NAME")]
    models: Vec<String>,
    #[command(flatten)]
    pub(super) json: JsonArgs,
    /// The flags of hook kinds.
    #[arg(skip)]
    pub(super) flags: BTreeMap<String, String>,
}

/// What answers in place of models.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ScriptArgs {
    /// Answer from this script, - for standard input; no model is asked
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Answer from script.yaml in the workflow's folder; no model is asked
    #[arg(long, conflicts_with = "script")]
    offline: bool,
    /// Answer from this recording; no model is asked
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "offline"])]
    recorded: Option<PathBuf>,
}

impl ScriptArgs {
    pub(super) fn answers(&self) -> AnswersFrom {
        match self {
            Self { script: Some(file), .. } => AnswersFrom::Script(file.clone()),
            Self { offline: true, .. } => AnswersFrom::ScriptBeside,
            Self { recorded: Some(file), .. } => AnswersFrom::Recording(file.clone()),
            _ => AnswersFrom::Unchosen,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    Sync,
    Log,
}

pub fn run(args: &RunArgs, output: &mut Output) -> Result<Exit, Failure> {
    start(args, None, output)
}

/// Runs a workflow and records it in the file `record`, an absolute path, if there is one.
///
/// # Errors
/// Anything that prevents the run; also [`Code::RecordingRefused`] for more than one input.
pub(super) fn start(args: &RunArgs, record: Option<PathBuf>, output: &mut Output) -> Result<Exit, Failure> {
    let here = working_folder()?;
    let durability = args.durability.map(|durability| match durability {
        DurabilityArg::Sync => Durability::Sync,
        DurabilityArg::Log => Durability::Log,
    });
    let files = settings_files::read(&Flags { durability, ..args.store.flags() })?;
    files.refuse_unsafe()?;
    let loaded = workflow::load(&args.workflow, &here)?;
    let checked = &loaded.checked;
    if !output.is_json() && !args.quiet && !checked.warnings.is_empty() {
        let faulty = Faulty { faults: checked.warnings.clone(), sources: loaded.sources.clone() };
        tell_styled(&report::diagnostics(&faulty, Style::stderr()));
    }
    let inputs = inputs(&args.input, &checked.workflow, &args.workflow)?;
    if record.is_some() && matches!(inputs, Inputs::Batch(_)) {
        let failure = Failure::new(Code::RecordingRefused, "the threads of a batch cannot be recorded in one file");
        return Err(failure.with_hint("record one input at a time"));
    }
    let is_attended = !output.is_json() && is_attended();
    let choices = RunChoices {
        models: args.models.clone(),
        limits: limits(&args.limits)?,
        answers: args.script.answers(),
        labels: args.labels.labels(matches!(inputs, Inputs::Batch(_)))?,
        record,
        approvers: approvers(is_attended),
        flags: args.flags.clone(),
    };
    let draft = Draft::new(files, loaded, Value::Null, choices, &here)?;
    if args.dry_run {
        let checked = draft.loaded.checked.clone();
        let (new, run_spec) = draft.with_grants(Grants::everything());
        let new = NewThread { input: inputs.first(&checked.workflow)?, ..new };
        return dry_run::show(&checked, new, &run_spec, output);
    }
    let by = consent_by(args.trust, is_attended);
    let grants = draft.permitted(&args.workflow, by)?;
    let (store, durability) = (own_store(&draft.settings, by)?, draft.settings.durability.value);
    let (new, run_spec, notices) = draft.ready(grants)?;
    for notice in notices {
        tell(&format!("{notice}\n"));
    }
    let view = View { is_quiet: args.quiet, is_verbose: args.verbose, result: args.result.clone() };
    match inputs {
        Inputs::One(input) => {
            let new = NewThread { input, ..new };
            let task: Task = Box::new(|context| Box::pin(run_thread(context, new, run_spec)));
            show_task(task, store, durability, &view, output)
        }
        Inputs::Batch(lines) => {
            // Nobody is asked in place: the questions of several threads would be mixed up.
            let run_spec = RunSpec { approvers: None, ..run_spec };
            batch::start(lines, new, run_spec, args.batch, (store, durability), (&view, output))
        }
    }
}

async fn run_thread(context: TaskContext, new: NewThread, run_spec: RunSpec) -> Result<Exit, Failure> {
    let mut run_config = context.unless_stopped(configured(&new.workflow, &run_spec)).await?;
    let to = run_spec.record.as_deref();
    let recorder = to.map(|to| recording::begin(to, &new.workflow.name)).transpose()?;
    run_config.recorder.clone_from(&recorder);
    let handle = context.engine.start(new, run_config).await.inspect_err(|_| recording::discard(to))?;
    let exit = follow_and_ask(&context, handle, &run_spec, recorder.as_ref()).await?;
    match recorder.map(|recorder| recorder.finish()) {
        // A run that stopped because of this fault has reported it.
        Some(Err(fault)) if exit != Exit::InputOutput => Err(recording::failed(fault)),
        _ => Ok(exit),
    }
}

/// The configuration of a run, with its notices on stderr.
pub(super) async fn configured(workflow: &Workflow, run_spec: &RunSpec) -> Result<RunConfig, Failure> {
    let (run_config, notices) = run_config(workflow, run_spec).await?;
    for notice in &notices {
        tell(&format!("{notice}\n"));
    }
    Ok(run_config)
}

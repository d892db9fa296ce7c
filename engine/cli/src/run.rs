use std::collections::BTreeMap;
use std::path::PathBuf;

use rondo::core::NewThread;
use rondo::core::grant::Grants;
use rondo::host::answers_from::AnswersFrom;
use rondo::host::starting::RunChoices;
use rondo::protocol::diagnostic::{Code, Diagnostic};
use rondo::protocol::event::Durability;
use rondo::run::{Prepared, begin, configured, prepare};
use rondo::settings::Flags;
use rondo::tell::tell_styled;

use super::answer::follow_and_ask;
use super::approval::approvers;
use super::batch::{self, BatchArgs};
use super::input::{InputArgs, Inputs, inputs};
use super::labels::LabelArgs;
use super::person::{consent_by, is_attended};
use super::result::View;
use super::run_config::RunSpec;
use super::runner::{Task, TaskContext, Writing, show_task};
use super::workflow::Loaded;
use super::{Exit, Failure, Faulty, Output, PlaceArgs, Style, choice, dry_run, json, local_servers, report};

/// Run a workflow
#[derive(Debug, clap::Args)]
#[command(arg = json())]
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
    place: PlaceArgs,
    /// What an acknowledged step survives: sync a power loss, log a crash of the process
    #[arg(long, value_parser = choice([("sync", Durability::Sync), ("log", Durability::Log)]))]
    durability: Option<Durability>,
    /// Consent, for this run, to all that the settings, the workflow and the store ask for
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    pub(super) view: View,
    /// Set a limit of the thread in place of the workflow's, such as `cost_usd=2` or `wall_time=30m`
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
    /// Ask this model, by its id or its name in the workflow or the settings; ROLE=NAME for one role
    #[arg(long = "model", value_name = "[ROLE=]NAME")]
    models: Vec<String>,
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

pub fn run(args: &RunArgs, output: &mut Output) -> Result<Exit, Failure> {
    start(args, None, output)
}

/// Runs a workflow and records it in the file `record`, an absolute path, if there is one.
pub(super) fn start(args: &RunArgs, record: Option<PathBuf>, output: &mut Output) -> Result<Exit, Failure> {
    let (by, is_attended) = (consent_by(args.trust, output), is_attended(output));
    let flags = args.place.on.flags(Flags { durability: args.durability, ..args.place.store.flags() })?;
    let rondo = args.place.rondo(&flags, by, approvers(is_attended))?;
    rondo.operator().files.refuse_unsafe()?;
    let new = rondo.workflow(&args.workflow)?;
    let loaded = new.loaded();
    let checked = &loaded.checked;
    if !args.view.quiet {
        warn(checked.warnings.clone(), loaded, output);
    }
    let inputs = inputs(&args.input, &checked.workflow, &args.workflow)?;
    if record.is_some() && matches!(inputs, Inputs::Batch(_)) {
        let failure = Failure::new(Code::RecordingRefused, "the threads of a batch cannot be recorded in one file");
        return Err(failure.with_hint("record one input at a time"));
    }
    let new = new.choose(RunChoices {
        models: args.models.clone(),
        limits: args.limits.clone(),
        answers: args.script.answers(),
        labels: args.labels.labels(matches!(inputs, Inputs::Batch(_)))?,
        record,
        flags: args.flags.clone(),
    });
    let draft = new.draft()?;
    if args.dry_run {
        let checked = draft.loaded.checked.clone();
        let untaken = draft.untaken(rondo.operator());
        warn(untaken, &draft.loaded, output);
        let (new, run_spec) = draft.with_grants(rondo.operator(), Grants::everything());
        let new = NewThread { input: inputs.first(&checked.workflow)?, ..new };
        return dry_run::show(&checked, new, &run_spec, output);
    }
    let advised = (local_servers::has_reader(output) && draft.lacks_model()).then(|| draft.settings.clone());
    let prepared = prepare(&rondo, &args.workflow, draft);
    let Prepared { rondo, new, run_spec, to_open } = prepared.map_err(|failure| match advised {
        Some(settings) => local_servers::advising(failure, &settings, &args.workflow),
        None => failure,
    })?;
    let writing = Writing { rondo, to_open };
    match inputs {
        Inputs::One(input) => {
            let new = NewThread { input, ..new };
            let task: Task = Box::new(|context| Box::pin(run_thread(context, new, run_spec)));
            show_task(task, writing, &args.view, output)
        }
        Inputs::Batch(lines) => {
            // Nobody is asked in place: the questions of several threads would be mixed up.
            let run_spec = RunSpec { approvers: None, ..run_spec };
            batch::start(lines, new, run_spec, args.batch, writing, (&args.view, output))
        }
    }
}

fn warn(faults: Vec<Diagnostic>, loaded: &Loaded, output: &Output) {
    if !output.is_json() {
        tell_styled(&report::diagnostics(&Faulty { faults, sources: loaded.sources.clone() }, Style::stderr()));
    }
}

pub(super) async fn run_thread(context: TaskContext, new: NewThread, run_spec: RunSpec) -> Result<Exit, Failure> {
    let run_config = context.unless_stopped(configured(&context.rondo, &new.workflow, &run_spec)).await?;
    let run = begin(&context.rondo, new, run_spec, run_config, None).await?;
    follow_and_ask(&context, run).await
}

//! `rondo run`: starts a thread and shows it until it ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use rondo_agent_kit::model::script::Script;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Durability;
use rondo_protocol::source::Source;
use rondo_protocol::workflow::Workflow;

use super::answer::follow_and_ask;
use super::approval::approvers;
use super::batch::{self, BatchArgs};
use super::consent::{ConsentRequest, Subject, is_plain_http, named};
use super::dry_run;
use super::exit::Exit;
use super::failure::{Failure, Faulty};
use super::files::{STDIN, absolute, read_argument};
use super::input::{InputArgs, Inputs, inputs};
use super::key_command::with_keys;
use super::known_keys::KnownKeys;
use super::labels::LabelArgs;
use super::limit::limits;
use super::model_arg::set_models;
use super::output::{Output, Style};
use super::person::{consent_by, is_attended};
use super::recording::Recording;
use super::result::{ResultArgs, View};
use super::run_config::{Resources, RunSpec, run_config, scripted_cast, speaking};
use super::runner::{Task, TaskContext, show_task};
use super::settings_files;
use super::store_access::own_store;
use super::{JsonArgs, StoreArgs, recording, report, tooling, workflow, working_folder};
use crate::config::{Flags, Settings};
use crate::grant::Grants;
use crate::local::{RaisedLimits, limited};
use crate::tell::{tell, tell_styled};
use crate::{NewThread, RunConfig};

/// The most bytes of a script; the reader's own limit is lower and has better messages.
const MAX_SCRIPT_BYTES: usize = 16 << 20;

/// The script next to a workflow that `--offline` plays.
const SCRIPT_NAME: &str = "script.yaml";

/// Run a workflow
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    pub(super) workflow: String,
    #[command(flatten)]
    input: InputArgs,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    Sync,
    Log,
}

/// A script and its file, as an absolute path.
pub(super) type Scripted = Option<(Script, String)>;

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
    let labels = args.labels.labels(matches!(inputs, Inputs::Batch(_)))?;
    let recorded = cassette(&args.script, &here)?;
    let script = script(&args.script, Some(loaded.folder()), &checked.workflow, &here)?;
    let (script, script_file) = script.unzip();
    let mut settings = Settings { held: loaded.files(script_file.as_deref(), &here), ..files.whole()? };
    let (mut workflow, policy) = (checked.workflow.clone(), checked.policy.clone());
    set_models(&args.models, &mut workflow, &mut settings)?;
    let policy = limited(policy, &limits(&args.limits)?)?;
    let file = absolute(&loaded.path, &here);
    let new = NewThread {
        workflow,
        policy,
        input: Value::Null,
        file: Some(file.clone()),
        script: script_file,
        recorded: recorded.as_ref().map(|played| played.file.clone()),
        workspace: Some(settings.workspace.to_string_lossy().into_owned()),
        labels,
    };
    let is_attended = !output.is_json() && is_attended();
    let run_spec = |settings: Settings, grants: Grants| RunSpec {
        resources: Arc::new(Resources::new(settings, grants)),
        script,
        recorded,
        record,
        in_doubt: None,
        approvers: approvers(is_attended),
        raised: RaisedLimits::default(),
        flags: args.flags.clone(),
    };
    if args.dry_run {
        let new = NewThread { input: inputs.first(&checked.workflow)?, ..new };
        return dry_run::show(checked, new, &run_spec(settings, Grants::everything()), output);
    }
    let by = consent_by(args.trust, is_attended);
    let subject = Subject { workflow: &checked.workflow, policy: &checked.policy, file: &file, is_current: true };
    let grants = ConsentRequest::of(&files, &settings, Some(subject))?.permitted(&args.workflow, by, &settings)?;
    let (store, durability) = (own_store(&settings, by)?, settings.durability.value);
    let is_played = new.script.is_some() || new.recorded.is_some();
    for warning in tooling::code_in_reach(&settings).iter().filter(|_| !named(&new.workflow).is_empty()) {
        tell(&format!("{warning}\n"));
    }
    let settings = if is_played { settings } else { with_keys(settings, &new.workflow)? };
    warn_of_plain_http(&settings, is_played);
    let run_spec = run_spec(settings, grants);
    // Missing configuration is reported before a store is opened.
    speaking(&new.workflow, &run_spec)?;
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

/// Warns of providers that are reached by unencrypted HTTP.
pub(super) fn warn_of_plain_http(settings: &Settings, is_played: bool) {
    for (name, provider) in settings.providers.iter().filter(|(_, provider)| !is_played && provider.is_usable()) {
        if is_plain_http(&provider.base_url.value) {
            let from = &provider.base_url.from;
            tell(&format!(
                "provider {name}: prompts and the key go over plain http, by {from}; anybody on the way reads them\n"
            ));
        }
    }
}

pub(super) fn cassette(args: &ScriptArgs, here: &Path) -> Result<Option<Recording>, Failure> {
    args.recorded.as_deref().map(|file| Recording::read(file, here)).transpose()
}

pub(super) fn script(
    args: &ScriptArgs,
    folder: Option<&Path>,
    workflow: &Workflow,
    here: &Path,
) -> Result<Scripted, Failure> {
    let file = match (&args.script, args.offline, folder) {
        (Some(file), _, _) => file.clone(),
        (None, true, Some(folder)) => folder.join(SCRIPT_NAME),
        _ => return Ok(None),
    };
    read_script(&file, workflow, here).map(Some)
}

/// Reads a script and checks it against the roles of a workflow.
pub(super) fn read_script(file: &Path, workflow: &Workflow, here: &Path) -> Result<(Script, String), Failure> {
    let text = read_argument(file, MAX_SCRIPT_BYTES)?;
    let name = file.to_string_lossy().into_owned();
    KnownKeys::here().refuse(&[(name.clone(), text.clone())].into())?;
    let source = Source::new(name.clone(), text.clone());
    let refuse = |found| Failure::from(Faulty { faults: found, sources: [(name.clone(), text.clone())].into() });
    let script = Script::read(&source).map_err(refuse)?;
    let faults = script.check(&source, &scripted_cast(workflow)?);
    if !faults.is_empty() {
        return Err(refuse(faults));
    }
    let named = if file == Path::new(STDIN) { STDIN.to_owned() } else { absolute(file, here) };
    Ok((script, named))
}

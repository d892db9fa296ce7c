//! The command line, with one file per verb. It parses arguments, calls the engine's public interface, and shows the
//! results.
//!
//! Laws: with `--json` stdout holds JSON Lines and nothing else; only [`exit`] makes exit codes; no panic and no
//! backtrace reaches the user; the display of a run is rendered from its events alone.
//!
//! This module never decides where a thread goes next and never writes a store itself.

mod answer;
mod approval;
mod backup;
mod batch;
mod batches;
mod cancel;
mod changed_file;
mod completions;
mod deletion;
mod diff;
mod doctor;
mod dry_run;
mod explain;
mod export;
mod follow;
mod fork;
mod form;
mod fsck;
mod gc;
mod graph;
mod hooks;
mod import;
mod in_flight;
mod init;
mod input;
mod known_tools;
mod labels;
mod mcp;
mod messages;
mod named_command;
mod output;
mod output_file;
mod person;
mod prefix;
mod progress;
mod prune;
mod record;
mod repair;
mod report;
mod result;
mod resume;
mod review;
mod rm;
mod run;
mod runner;
mod schema;
mod serve;
mod show;
mod signals;
mod simulate;
mod spending;
mod step_filter;
// What tests of what stands above a store name of it.
#[cfg(test)]
#[expect(dead_code, reason = "shared with the store, which uses more of it")]
#[path = "../../core/src/store/tests/steps.rs"]
mod steps;
mod table;
mod test;
mod threads;
mod tools;
mod trust;
mod unknown_verb;
mod upkeep_bar;
mod usage;
mod validate;
mod verify;

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rondo::Rondo;
use rondo::host::consent::ConsentSource;
use rondo::host::run_config::Approvers;
use rondo::protocol::diagnostic::Code;

use output::Output;
use rondo::tell::tell;

use rondo::core::exit::{self, Exit};
use rondo::failure::{self, Failure};
use rondo::files;
use rondo::host::process::{provide_cryptography, runtime, working_folder};
use rondo::host::store_access::{StoreView, existing_store_at, view_store_at};
use rondo::host::{
    batch as stored_batch, consent, find_thread, known_keys, recording, run_config, settings_files, store_access,
    thread_row, tooling, workflow,
};
use rondo::settings::Flags;

/// The library as the command line uses it: with the settings of the working folder, and notices on stderr.
fn rondo(flags: &Flags, by: ConsentSource, approvers: Option<Approvers>) -> Result<Rondo, Failure> {
    let builder = Rondo::builder().folder(working_folder()?).settings_files().flags(flags.clone());
    builder.consent_by(by).approvers(approvers).notices(|notice| tell(&format!("{notice}\n"))).open_now()
}

/// Declarative workflows for role-based LLM agents.
#[derive(Debug, Parser)]
#[command(name = "rondo", version = env!("BUILT_VERSION"), disable_help_subcommand = true, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::InitArgs),
    Validate(validate::ValidateArgs),
    Run(Box<run::RunArgs>),
    Record(Box<record::RecordArgs>),
    Resume(Box<resume::ResumeArgs>),
    Answer(Box<answer::AnswerArgs>),
    Fork(Box<fork::ForkArgs>),
    Cancel(cancel::CancelArgs),
    Threads(threads::ThreadsArgs),
    Batches(batches::BatchesArgs),
    Rm(rm::RmArgs),
    Prune(prune::PruneArgs),
    Show(show::ShowArgs),
    Messages(messages::MessagesArgs),
    Diff(diff::DiffArgs),
    Prefix(prefix::PrefixArgs),
    Usage(usage::UsageArgs),
    Graph(graph::GraphArgs),
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Simulate(simulate::SimulateArgs),
    Verify(verify::VerifyArgs),
    Fsck(fsck::FsckArgs),
    Repair(repair::RepairArgs),
    Gc(gc::GcArgs),
    Backup(backup::BackupArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Test(test::TestArgs),
    Tools(tools::ToolsArgs),
    Trust(trust::TrustArgs),
    Schema(schema::SchemaArgs),
    Explain(explain::ExplainArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
}

/// Which store a verb uses.
#[derive(Debug, Clone, Default, Args)]
struct StoreArgs {
    /// The folder of the store [default: .rondo beside the nearest rondo.toml, else here]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Set a value of the settings for this command, such as `provider.openai.idle_timeout=30s`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl StoreArgs {
    fn flags(&self) -> Flags {
        Flags { store: self.store.clone(), durability: None, set: self.set.clone() }
    }

    /// The folder of the store that the settings and these options name.
    fn folder(&self) -> Result<PathBuf, Failure> {
        Ok(settings_files::settings(&self.flags())?.store.value)
    }

    /// Opens the store for reading; `None` if nothing has been written to it.
    fn view(&self) -> Result<Option<StoreView>, Failure> {
        view_store_at(&self.folder()?)
    }

    /// The same where something must have been.
    ///
    /// # Errors
    /// Also [`Code::ThreadUnknown`] if nothing has been.
    fn existing(&self) -> Result<StoreView, Failure> {
        existing_store_at(&self.folder()?)
    }
}

/// The output format of a verb.
#[derive(Debug, Clone, Copy, Default, Args)]
struct JsonArgs {
    /// Write JSON Lines on stdout
    #[arg(long)]
    json: bool,
}

/// Whether a verb has the option `--store DIR`.
fn takes_store(verb: &str) -> bool {
    let command = CommandLine::command();
    let verb = command.find_subcommand(verb);
    verb.is_some_and(|verb| verb.get_arguments().any(|arg| arg.get_id() == "store" && arg.get_action().takes_values()))
}

/// What the processor lacks of what this build takes for granted: instructions for checksums.
fn lacking_features() -> Option<&'static str> {
    #[cfg(checksums_by_processor)]
    if !(std::arch::is_x86_feature_detected!("sse4.2") && std::arch::is_x86_feature_detected!("pclmulqdq")) {
        return Some("SSE 4.2 and PCLMUL");
    }
    None
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // This binary also starts the programs of tools and some servers, and then does nothing else.
    if let Some(exit) = rondo::launcher() {
        return exit;
    }
    if let Some(lacking) = lacking_features() {
        tell(&format!("rondo: this build needs a processor with {lacking} (x86-64 since about 2010)\n"));
        return ExitCode::from(Exit::InputOutput.code());
    }
    // Before anything is started or read: other processes must not see the keys in the environment.
    rondo::agent_kit::sandbox::process::undumpable();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |place| format!(" at {}:{}", place.file(), place.line()));
        tell(&format!(
            "rondo: {}: internal fault{place}; please report this line\n  rondo {}\n",
            Code::InternalFault,
            env!("CARGO_PKG_VERSION"),
        ));
    }));
    provide_cryptography();
    let exit = catch_unwind(AssertUnwindSafe(|| command(std::env::args_os()))).unwrap_or(Exit::InputOutput.code());
    // Whoever reads it may have gone.
    let _ = std::io::stdout().flush();
    end_process(exit)
}

/// Ends the process without destructors of statics, which RocksDB's threads may still use: what was acknowledged is
/// safe however the process ends. Waits for nothing: another thread may hold stdout, whose reader does not read.
fn end_process(exit: u8) -> ! {
    signal_hook::low_level::exit(i32::from(exit))
}

fn command(words: impl IntoIterator<Item = std::ffi::OsString>) -> u8 {
    let registry = rondo::registry();
    let mounted = hooks::mount(CommandLine::command(), &registry);
    let verbs = mounted.clone();
    let words: Vec<_> = words.into_iter().collect();
    let is_json = words.iter().any(|word| word == "--json");
    let parsed = mounted.try_get_matches_from(words).and_then(|matches| {
        if let Some(called) = hooks::called(&matches, &registry) {
            return Ok(Err(called));
        }
        named_command::keep(&matches);
        let mut line = CommandLine::from_arg_matches(&matches)?;
        line.verb.give(hooks::flags(&matches, &registry));
        Ok(Ok(line))
    });
    let line = match parsed {
        Ok(line) => line,
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let failure = unknown_verb::failure(&error, &verbs);
            report::failure(&failure, &mut Output::stdout(is_json));
            return failure.exit().code();
        }
        Err(error) => {
            // A closed stdout is not a fault.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(Exit::Invalid.code());
        }
    };
    let is_json = line.as_ref().map_or_else(|called| called.is_json, |line| line.verb.is_json());
    let mut output = Output::stdout(is_json);
    let result = match line {
        Ok(line) => line.verb.run(&mut output),
        Err(called) => hooks::run(called, &registry, &mut output),
    };
    let exit = match result {
        Ok(exit) => exit,
        Err(failure) => {
            report::failure(&failure, &mut output);
            failure.exit()
        }
    };
    exit.code()
}

impl Verb {
    /// Sets the flags of hook kinds.
    fn give(&mut self, flags: std::collections::BTreeMap<String, String>) {
        match self {
            Self::Run(args) => args.flags = flags,
            Self::Record(args) => args.run.flags = flags,
            Self::Resume(args) => args.run.flags = flags,
            Self::Answer(args) => args.run.flags = flags,
            Self::Fork(args) => args.run.flags = flags,
            _ => {}
        }
    }

    fn is_json(&self) -> bool {
        match self {
            Self::Validate(args) => args.json.json,
            Self::Run(args) => args.json.json,
            Self::Record(args) => args.run.json.json,
            Self::Resume(args) => args.run.json.json,
            Self::Answer(args) => args.run.json.json,
            Self::Fork(args) => args.run.json.json,
            Self::Cancel(args) => args.json.json,
            Self::Threads(args) => args.json.json,
            Self::Batches(args) => args.json.json,
            Self::Rm(args) => args.deletion.json.json,
            Self::Prune(args) => args.deletion.json.json,
            Self::Show(args) => args.json.json,
            Self::Messages(args) => args.json.json,
            Self::Diff(args) => args.json.json,
            Self::Prefix(args) => args.json.json,
            Self::Usage(args) => args.json.json,
            Self::Serve(args) => args.json.json,
            Self::Simulate(args) => args.json.json,
            Self::Verify(args) => args.json.json,
            Self::Fsck(args) => args.json.json,
            Self::Repair(args) => args.json.json,
            Self::Gc(args) => args.deletion.json.json,
            Self::Backup(args) => args.json.json,
            Self::Import(args) => args.json.json,
            Self::Test(args) => args.json.json,
            Self::Tools(args) => args.json.json,
            Self::Trust(args) => args.json.json,
            Self::Doctor(args) => args.json.json,
            Self::Init(_)
            | Self::Export(_)
            | Self::Graph(_)
            | Self::Mcp(_)
            | Self::Schema(_)
            | Self::Explain(_)
            | Self::Completions(_) => false,
        }
    }

    fn run(self, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Init(args) => init::init(&args, output),
            Self::Validate(args) => validate::validate(&args, output),
            Self::Run(args) => run::run(&args, output),
            Self::Record(args) => record::record(&args, output),
            Self::Resume(args) => resume::resume(&args, output),
            Self::Answer(args) => answer::answer(&args, output),
            Self::Fork(args) => fork::fork(&args, output),
            Self::Cancel(args) => cancel::cancel(&args, output),
            Self::Threads(args) => threads::threads(&args, output),
            Self::Batches(args) => batches::batches(&args, output),
            Self::Rm(args) => rm::rm(&args, output),
            Self::Prune(args) => prune::prune(&args, output),
            Self::Show(args) => show::show(&args, output),
            Self::Messages(args) => messages::messages(&args, output),
            Self::Diff(args) => diff::diff(&args, output),
            Self::Prefix(args) => prefix::prefix(&args, output),
            Self::Usage(args) => usage::usage(&args, output),
            Self::Graph(args) => graph::graph(&args, output),
            Self::Serve(args) => serve::serve(&args, output),
            Self::Mcp(args) => mcp::mcp(&args),
            Self::Simulate(args) => simulate::simulate(&args, output),
            Self::Verify(args) => verify::verify(&args, output),
            Self::Fsck(args) => fsck::fsck(&args, output),
            Self::Repair(args) => repair::repair(&args, output),
            Self::Gc(args) => gc::gc(&args, output),
            Self::Backup(args) => backup::backup(&args, output),
            Self::Export(args) => export::export(&args, output),
            Self::Import(args) => import::import(&args, output),
            Self::Test(args) => test::test(&args, output),
            Self::Tools(args) => tools::tools(&args, output),
            Self::Trust(args) => trust::trust(&args, output),
            Self::Schema(args) => schema::schema(&args, output),
            Self::Explain(args) => explain::explain(&args, output),
            Self::Doctor(args) => doctor::doctor(&args, output),
            Self::Completions(args) => completions::completions(&args, output),
        }
    }
}

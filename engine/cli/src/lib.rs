//! The command line, with one file per verb. It parses arguments, calls the engine's public interface, and shows the
//! results.
//!
//! Laws: with `--json` stdout holds JSON Lines and nothing else; only [`Exit`] makes exit codes; no panic and no
//! backtrace reaches the user; the display of a run is rendered from its events alone.
//!
//! This module never decides where a thread goes next and never writes a store itself.

mod answer;
mod approval;
mod backup;
mod batch;
mod batches;
mod bench;
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
mod local_servers;
mod mcp;
mod messages;
mod named_command;
mod on;
mod output;
mod output_file;
mod person;
mod prefix;
mod progress;
mod provider_trials;
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
#[cfg(feature = "restate")]
mod worker;

#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rondo::core::env::{Env as _, SystemEnv};
use rondo::core::exit::Exit;
use rondo::failure::{Failure, Faulty};
use rondo::files;
use rondo::host::consent::ConsentSource;
use rondo::host::process::{provide_cryptography, runtime, working_folder};
use rondo::host::run_config::Approvers;
use rondo::host::store_access::{StoreView, TrustedStore, existing_store_at, trusted_store, view_store_at};
use rondo::host::{
    batch as stored_batch, consent, find_thread, known_keys, recording, run_config, settings_files, store_access,
    thread_row, tooling, workflow,
};
use rondo::protocol::diagnostic::Code;
use rondo::settings::Flags;
use rondo::tell::tell;
use rondo::{Builder, Rondo};

use output::{EventOf, Output, Style, json_line};
use person::consent_by;

/// The library as the command line uses it: with the settings of the working folder, and notices on stderr.
fn rondo(flags: &Flags, by: ConsentSource) -> Result<Rondo, Failure> {
    builder(flags, by, None)?.open_now()
}

fn builder(flags: &Flags, by: ConsentSource, approvers: Option<Approvers>) -> Result<Builder, Failure> {
    let builder = Rondo::builder().folder(working_folder()?).settings_files().flags(flags.clone());
    Ok(builder.consent_by(by).approvers(approvers).notices(|notice| tell(&format!("{notice}\n"))))
}

/// Declarative workflows for role-based LLM agents.
#[derive(Debug, Parser)]
#[command(name = "rondo", version = env!("BUILT_VERSION"), disable_help_subcommand = true, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

macro_rules! verbs {
    ($($(#[$attribute:meta])* $verb:ident($args:ty) => $run:path,)*) => {
        #[derive(Debug, Subcommand)]
        enum Verb {
            $($(#[$attribute])* $verb(Box<$args>),)*
        }

        impl Verb {
            fn run(self, output: &mut Output) -> Result<Exit, Failure> {
                match self {
                    $($(#[$attribute])* Self::$verb(args) => $run(&args, output),)*
                }
            }
        }
    };
}

verbs! {
    Init(init::InitArgs) => init::init,
    Validate(validate::ValidateArgs) => validate::validate,
    Run(run::RunArgs) => run::run,
    Record(record::RecordArgs) => record::record,
    Resume(resume::ResumeArgs) => resume::resume,
    Answer(answer::AnswerArgs) => answer::answer,
    Fork(fork::ForkArgs) => fork::fork,
    Cancel(cancel::CancelArgs) => cancel::cancel,
    Threads(threads::ThreadsArgs) => threads::threads,
    Batches(batches::BatchesArgs) => batches::batches,
    Rm(rm::RmArgs) => rm::rm,
    Prune(prune::PruneArgs) => prune::prune,
    Show(show::ShowArgs) => show::show,
    Messages(messages::MessagesArgs) => messages::messages,
    Diff(diff::DiffArgs) => diff::diff,
    Prefix(prefix::PrefixArgs) => prefix::prefix,
    Usage(usage::UsageArgs) => usage::usage,
    Graph(graph::GraphArgs) => graph::graph,
    Serve(serve::ServeArgs) => serve::serve,
    Mcp(mcp::McpArgs) => mcp::mcp,
    Simulate(simulate::SimulateArgs) => simulate::simulate,
    Verify(verify::VerifyArgs) => verify::verify,
    Fsck(fsck::FsckArgs) => fsck::fsck,
    Repair(repair::RepairArgs) => repair::repair,
    Gc(gc::GcArgs) => gc::gc,
    Backup(backup::BackupArgs) => backup::backup,
    Export(export::ExportArgs) => export::export,
    Import(import::ImportArgs) => import::import,
    Test(test::TestArgs) => test::test,
    Tools(tools::ToolsArgs) => tools::tools,
    Trust(trust::TrustArgs) => trust::trust,
    Schema(schema::SchemaArgs) => schema::schema,
    Explain(explain::ExplainArgs) => explain::explain,
    Doctor(doctor::DoctorArgs) => doctor::doctor,
    Bench(bench::BenchArgs) => bench::bench,
    Completions(completions::CompletionsArgs) => completions::completions,
    #[cfg(feature = "restate")]
    Worker(worker::WorkerArgs) => worker::worker,
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
    fn existing(&self) -> Result<StoreView, Failure> {
        existing_store_at(&self.folder()?)
    }

    /// The store for writing, if it is the user's own.
    fn trusted(&self, output: &Output) -> Result<(Rondo, TrustedStore), Failure> {
        PlaceArgs { store: self.clone(), on: on::OnArgs::default() }.trusted(output)
    }
}

/// Where the threads of a verb are: in a store, or on a cluster, of which the store is then a copy.
#[derive(Debug, Clone, Default, Args)]
struct PlaceArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    on: on::OnArgs,
}

impl PlaceArgs {
    /// The options of the store, which is brought up to the cluster if there is one.
    fn copied(&self) -> Result<StoreArgs, Failure> {
        let Flags { store, set, .. } = self.on.copied(self.store.flags())?;
        Ok(StoreArgs { store, set })
    }

    fn rondo(&self, flags: &Flags, by: ConsentSource, approvers: Option<Approvers>) -> Result<Rondo, Failure> {
        self.on.over(builder(flags, by, approvers)?)?.open_now()
    }

    /// The store for writing, if it is the user's own.
    fn trusted(&self, output: &Output) -> Result<(Rondo, TrustedStore), Failure> {
        let by = consent_by(false, output);
        let rondo = self.rondo(&self.copied()?.flags(), by, None)?;
        rondo.operator().files.refuse_unsafe()?;
        let settings = rondo.operator().files.in_force()?;
        Ok((rondo, trusted_store(&settings, by)?))
    }
}

/// At most `most` names, and how many there are besides.
fn some<T: std::borrow::Borrow<str>>(names: impl ExactSizeIterator<Item = T>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.take(most).collect::<Vec<_>>().join(", ") + &more
}

fn now_ms() -> u64 {
    SystemEnv::default().now_ms()
}

/// The option of a verb that can write JSON Lines.
fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("Write JSON Lines on stdout")
}

/// Reads a word as the value that it stands for.
fn choice<T: Clone + Send + Sync + 'static, const COUNT: usize>(
    choices: [(&'static str, T); COUNT],
) -> impl TypedValueParser<Value = T> {
    let words = choices.each_ref().map(|(word, _)| *word);
    PossibleValuesParser::new(words).try_map(move |word| {
        let found = choices.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| value.clone()).ok_or("no such word")
    })
}

/// Whether a verb works over the store that its `--store` names. `trust` does not: there a store is what is agreed to.
fn takes_store(verb: &str) -> bool {
    let command = CommandLine::command();
    let verb = command.find_subcommand(verb).filter(|_| verb != "trust");
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
    let has_json = words.iter().any(|word| word == "--json");
    let parsed = mounted.try_get_matches_from(words).and_then(|matches| {
        let is_json = is_json(&matches);
        if let Some(called) = hooks::called(&matches, &registry) {
            return Ok((is_json, Err(called)));
        }
        named_command::keep(&matches);
        let mut line = CommandLine::from_arg_matches(&matches)?;
        line.verb.give(hooks::flags(&matches, &registry));
        Ok((is_json, Ok(line.verb)))
    });
    let (is_json, called) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
            let failure = unknown_verb::failure(&error, &verbs);
            report::failure(&failure, &mut Output::stdout(has_json));
            return failure.exit().code();
        }
        Err(error) => {
            // A closed stdout is not a fault.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(Exit::Invalid.code());
        }
    };
    let mut output = Output::stdout(is_json);
    let result = match called {
        Ok(verb) => verb.run(&mut output),
        Err(called) => hooks::run(called, &registry, &mut output),
    };
    let exit = result.unwrap_or_else(|failure| {
        report::failure(&failure, &mut output);
        failure.exit()
    });
    exit.code()
}

fn is_json(matches: &ArgMatches) -> bool {
    let is_given = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|is_given| *is_given);
    is_given || matches.subcommand().is_some_and(|(_, given)| is_json(given))
}

impl Verb {
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
}

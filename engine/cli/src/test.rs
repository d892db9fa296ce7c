//! `rondo test`: runs the scenarios next to workflows and compares the requests of their roles with the accepted ones.
//!
//! Laws: an accepted snapshot is written only with `--accept` or after a person's decision; `--check` writes nothing;
//! an expectation is never changed.

mod discover;
mod from;
mod junit;
mod lines;
pub(super) mod snapshots;
mod text;

use std::path::{Path, PathBuf};

use rondo::author::scenario::{Definition, Options, Report, ScenarioResult, Suite, Verdict};
use rondo::protocol::diagnostic::Code;
use rondo::tell::{tell, tell_styled};

use super::known_keys::refuse_keys;
use super::workflow::{self, Loaded};
use super::{Exit, Failure, Faulty, Output, StoreArgs, Style, json, report, review, working_folder};
use discover::Target;
use snapshots::Mode;

/// Run the scenarios of workflows offline and compare every request with its snapshot
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct TestArgs {
    /// A workflow, one of its scenarios, or a folder with workflows below it
    #[arg(default_value = ".")]
    path: String,
    /// Accept every snapshot as it is now, and remove those that no scenario uses
    #[arg(long, conflicts_with_all = ["review", "check"])]
    accept: bool,
    /// Show each snapshot that differs and ask: accept, reject, skip
    #[arg(long, conflicts_with_all = ["check", "json"])]
    review: bool,
    /// Write nothing at all, for CI
    #[arg(long)]
    check: bool,
    /// Only scenarios whose name contains this word
    #[arg(long, value_name = "WORD")]
    filter: Option<String>,
    #[arg(long, value_name = "FILE", help = "Write a JUnit XML report")]
    junit: Option<PathBuf>,
    /// Make a scenario of a stored thread: its id, a prefix of its id, or `last`
    #[arg(long, value_name = "THREAD", conflicts_with_all = ["accept", "review", "check", "filter", "junit"])]
    from: Option<String>,
    /// The name of the new scenario [default: the beginning of the thread's id]
    #[arg(long, value_name = "NAME", requires = "from")]
    name: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

struct Run {
    suite: Suite,
    report: Report,
}

struct Unread {
    file: String,
    why: String,
}

pub fn test(args: &TestArgs, output: &mut Output) -> Result<Exit, Failure> {
    let here = working_folder()?;
    if let Some(thread) = &args.from {
        return from::make(thread, args.name.as_deref(), &args.path, &args.store, &here, output);
    }
    let targets = discover::targets(&args.path, &here)?;
    let began = std::time::Instant::now();
    let mode = match args.accept {
        true => Mode::Accept,
        // A review writes the accepted snapshots itself.
        false if args.check || args.review => Mode::Check,
        false => Mode::Pend,
    };
    let (mut runs, mut unread) = (Vec::new(), Vec::new());
    for target in targets {
        match run(&target, args.filter.as_deref(), output) {
            Ok(run) => runs.push(run),
            // A workflow that cannot be read does not hide the results of the others.
            Err(failure) => {
                report::failure(&failure, output);
                let file = target.file.display().to_string();
                unread.push(Unread { file, why: report::text(&failure, Style::PLAIN) });
            }
        }
    }
    let broken = unread.len();
    if broken == 0 && runs.iter().all(|run| run.suite.is_empty()) {
        let failure = Failure::new(Code::NoScenario, format!("{}: no scenario was found", args.path));
        let hint = "write tests/NAME.yaml beside the workflow, or make one with `rondo test --from last`";
        return Err(failure.with_hint(hint));
    }
    if broken == 0 && runs.iter().all(|run| run.report.scenarios.is_empty()) {
        let word = args.filter.as_deref().unwrap_or_default();
        return Err(Failure::new(Code::NoScenario, format!("no scenario has {word:?} in its name")));
    }
    let taken = runs.iter().flat_map(|run| &run.report.scenarios).flat_map(|tested| &tested.snapshots);
    refuse_keys(&taken.map(|taken| (taken.name.clone(), taken.text.clone())).collect())?;
    for run in &mut runs {
        snapshots::write(&run.suite, &mut run.report, mode)?;
    }
    if args.review {
        review::review(runs.iter_mut().map(|run| (&run.suite, &mut run.report)), output)?;
        runs.iter_mut().try_for_each(|run| snapshots::remove_left_over(&run.suite, &mut run.report))?;
    }
    let reports: Vec<&Report> = runs.iter().map(|run| &run.report).collect();
    if let Some(file) = &args.junit {
        snapshots::report(file, &junit::text(&reports, &unread))?;
    }
    if output.is_json() {
        lines::write(&reports, broken, output)?;
    } else {
        output.write(text::text(&reports, broken, mode, began.elapsed(), Style::stdout()).as_bytes())?;
    }
    Ok(exit(&reports, broken))
}

fn exit(reports: &[&Report], broken: usize) -> Exit {
    if broken > 0 || reports.iter().any(|report| report.count(Verdict::Invalid) > 0) {
        Exit::Invalid
    } else if reports.iter().all(|report| report.is_passed()) {
        Exit::Done
    } else {
        Exit::Failed
    }
}

fn run(target: &Target, filter: Option<&str>, output: &Output) -> Result<Run, Failure> {
    let suite = Suite::read(&target.file).map_err(|error| Failure::new(Code::FileRefused, error.to_string()))?;
    let definition = definition(&target.file)?;
    let style = Style::stderr();
    let progress = |tested: &ScenarioResult| tell_styled(&text::progress(&tested.name, style));
    let is_watched = style.is_terminal && !output.is_json();
    let options = Options {
        filter: filter.map(str::to_owned),
        only: target.only.clone(),
        workers: None,
        progress: is_watched.then_some(&progress as &(dyn Fn(&ScenarioResult) + Sync)),
    };
    let report = suite.run(&definition, &options);
    if is_watched {
        tell_styled(text::END_OF_PROGRESS);
    }
    if suite.is_empty() && !output.is_json() {
        tell(&format!("{}: it has no scenarios\n", target.file.display()));
    }
    Ok(Run { suite, report })
}

fn definition(file: &Path) -> Result<Definition, Failure> {
    let Loaded { path, checked, sources } = workflow::read(file.to_path_buf())?;
    Definition::of(&path.to_string_lossy(), checked).map_err(|faults| Faulty { faults, sources }.into())
}

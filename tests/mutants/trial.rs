//! A trial: one mutant, run through the scenarios of its workflow, and what the report made of it.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rondo_author::scenario::{Change, Options, Report, ScenarioResult, Verdict};

use crate::mutant::{Mutant, Named};
use crate::operators;
use crate::subject::Subject;

/// What came of a mutant.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The workflow.
    pub workflow: String,
    /// What kind of change.
    pub operator: String,
    /// Where.
    pub place: String,
    /// What exactly.
    pub what: String,
    /// How it went.
    pub went: Went,
}

/// How a mutant went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Went {
    /// The file no longer checks: `rondo validate` says so, and no scenario is asked.
    Refused,
    /// Every scenario passed.
    Survived,
    /// A scenario failed, and the report names the cause.
    Named,
    /// A scenario failed, and the report names something else: what it says.
    Misnamed(String),
}

/// Of so many mutants of an operator in a workflow one is tried, and the first always.
const ONE_OF: usize = 2;

/// Set where every mutant is tried, as `make mutants` does.
const ALL: &str = "RONDO_TEST_ALL";

/// The mutants of these workflows, tried on every processor.
pub fn of_mutants(subjects: &[Subject]) -> Vec<Trial> {
    let one_of = if std::env::var_os(ALL).is_some() { 1 } else { ONE_OF };
    let work: Vec<(&Subject, Mutant)> = subjects
        .iter()
        .flat_map(|subject| {
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            let is_tried = move |mutant: &Mutant| {
                let number = seen.entry(mutant.operator).or_default();
                *number += 1;
                *number % one_of == 1 % one_of
            };
            operators::all(subject).into_iter().filter(is_tried).map(move |mutant| (subject, mutant))
        })
        .collect();
    side_by_side(&work, |(subject, mutant)| of_mutant(subject, mutant))
}

/// What `tried` makes of each item, on every processor; in the order of the items.
pub fn side_by_side<W: Sync, T: Send>(work: &[W], tried: impl Fn(&W) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = work.get(number) else { break };
                    let trial = tried(item);
                    done.lock().unwrap().insert(number, trial);
                }
            });
        }
    });
    done.into_inner().unwrap().into_values().collect()
}

fn of_mutant(subject: &Subject, mutant: &Mutant) -> Trial {
    let went = match subject.definition(&mutant.files) {
        Err(_) => Went::Refused,
        Ok(definition) => {
            let report = subject.suite.run(&definition, &one_worker());
            judged(&report, &mutant.named)
        }
    };
    Trial {
        workflow: subject.name.clone(),
        operator: mutant.operator.to_owned(),
        place: mutant.place.clone(),
        what: mutant.what.clone(),
        went,
    }
}

/// The trials run side by side; the scenarios of one do not have to.
pub fn one_worker() -> Options<'static> {
    Options { workers: Some(1), ..Options::default() }
}

/// What the scenarios say of the workflow with these files.
pub fn report(subject: &Subject, files: &BTreeMap<String, String>) -> Report {
    let definition = subject.definition(files).unwrap_or_else(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        panic!("{}: {}", subject.name, faults.join("\n"))
    });
    subject.suite.run(&definition, &one_worker())
}

/// How a mutant went that must be named so.
///
/// It is named when in every scenario that noticed it the first change names the cause and the part; a scenario that no
/// longer fits the workflow names it by complaining about the word.
pub fn judged(report: &Report, named: &Named) -> Went {
    if report.is_passed() {
        return Went::Survived;
    }
    let noticed = report.scenarios.iter().filter(|tested| tested.verdict != Verdict::Passed);
    let wrong: Vec<String> = noticed.filter(|tested| !is_named(tested, named)).map(one).collect();
    match wrong.first() {
        None => Went::Named,
        Some(first) => Went::Misnamed(format!("{} ({} scenarios)", first, wrong.len())),
    }
}

fn is_named(tested: &ScenarioResult, named: &Named) -> bool {
    match tested.changes.first() {
        Some(change) => has_cause(change, named) && has_part(change, named),
        // Nothing that is compared differs: all there is is a complaint about the scenario.
        None => !named.word.is_empty() && tested.faults.iter().any(|fault| fault.to_string().contains(&named.word)),
    }
}

fn has_cause(change: &Change, named: &Named) -> bool {
    let cause = change.cause.to_string();
    named.causes.is_empty() || named.causes.contains(&cause.as_str())
}

fn has_part(change: &Change, named: &Named) -> bool {
    let within = |part: &str, holder: &str| {
        part.strip_prefix(holder).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    match &change.part {
        Some(part) => named.parts.iter().any(|right| within(&part.path, right)),
        None => named.parts.is_empty(),
    }
}

/// A failed scenario in a line.
fn one(tested: &ScenarioResult) -> String {
    if let Some(change) = tested.changes.first() {
        let part = change.part.as_ref().map_or("no part", |part| part.path.as_str());
        let role = change.role.as_ref().map_or("the run", |role| role.as_str());
        return format!("{}: {role}, {}: {} ({}), {part}", tested.name, change.block, change.cause, change.detail);
    }
    if let Some(failure) = tested.failures.first() {
        let (expected, actual) = (&failure.expected, &failure.actual);
        return format!("{}: {}: expected {expected}, was {actual}", tested.name, failure.what);
    }
    let fault = tested.faults.first().map(ToString::to_string).unwrap_or_default();
    format!("{}: {fault}", tested.name)
}

/// What a report complains about, a line a scenario.
pub fn shown(report: &Report) -> String {
    let failed = report.scenarios.iter().filter(|tested| tested.verdict != Verdict::Passed).map(one);
    failed.chain(report.stale.iter().map(|stale| format!("stale: {}", stale.name))).collect::<Vec<_>>().join("\n")
}

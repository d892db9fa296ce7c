//! Runs the scenarios of a suite in parallel, and checks each against its expectations and snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rondo_protocol::diagnostic::{Code, Diagnostic, Span};
use rondo_protocol::id::RoleName;
use rondo_protocol::source::Source;

use super::compare::Comparer;
use super::definition::Definition;
use super::expect;
use super::parts::{self, PartDigests};
use super::play::{RunResult, RunSetup};
use super::read;
use super::report::{Change, Failure, Report, ScenarioResult, SnapshotResult, SnapshotState, Stale, Verdict};
use super::scenario::Scenario;
use super::snapshot::{self, Front, Requests, RunTrace};
use super::suite::{ACCEPTED, Options, ScenarioFile, Suite};

/// Separates scenario and role in the name of a snapshot.
const BETWEEN: &str = "__";

impl Suite {
    /// Runs the scenarios on `definition` and compares the results with the accepted snapshots. Writes nothing.
    pub fn run(&self, definition: &Definition, options: &Options<'_>) -> Report {
        let is_chosen = |written: &&ScenarioFile| {
            options.only.as_ref().is_none_or(|only| written.name == *only)
                && options.filter.as_ref().is_none_or(|word| written.name.contains(word.as_str()))
        };
        let chosen: Vec<&ScenarioFile> = self.scenarios.iter().filter(is_chosen).collect();
        let all = parts::of(definition);
        let test = |written: &ScenarioFile| ScenarioTest { suite: self, definition, all: &all, written }.tested();
        let tested = side_by_side(&chosen, options, test);
        let stale = unwritten(self, &tested, self.snapshots.keys().map(String::as_str));
        let stale = stale.map(|name| Stale { name: name.to_owned(), file: self.shown_snapshot(name) }).collect();
        let left_over = unwritten(self, &tested, self.pending.iter().map(String::as_str)).map(str::to_owned).collect();
        let (workflow, file) = (definition.checked.workflow.name.clone(), definition.file.clone());
        Report { workflow, file, scenarios: tested, stale, left_over }
    }
}

/// Tests each of `chosen`, in parallel on the available workers; results are in the order of `chosen`.
fn side_by_side(
    chosen: &[&ScenarioFile],
    options: &Options<'_>,
    test: impl Fn(&ScenarioFile) -> ScenarioResult + Sync,
) -> Vec<ScenarioResult> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = options.workers.unwrap_or_else(cores).clamp(1, chosen.len().max(1));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(written) = chosen.get(at) else { return };
            let tested = test(written);
            if let Some(progress) = options.progress {
                progress(&tested);
            }
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(at, tested);
        }
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}

/// Those of the snapshots `names` that belong to nothing: to no scenario, or to a role that its scenario, which was run,
/// did not ask. Those of a scenario that failed may still be in use. If only some scenarios were run, only theirs.
fn unwritten<'n>(
    suite: &Suite,
    tested: &[ScenarioResult],
    names: impl Iterator<Item = &'n str>,
) -> impl Iterator<Item = &'n str> {
    let written: BTreeSet<String> =
        tested.iter().flat_map(|tested| &tested.snapshots).map(|taken| taken.name.clone()).collect();
    let is_known = |tested: &&ScenarioResult| {
        !matches!(tested.verdict, Verdict::Invalid | Verdict::Failed) && !tested.snapshots.is_empty()
    };
    let known: BTreeSet<String> = tested.iter().filter(is_known).map(|tested| tested.name.clone()).collect();
    let existing: BTreeSet<String> = suite.scenarios.iter().map(|scenario| scenario.name.clone()).collect();
    let is_whole = tested.len() == suite.len();
    names.filter(move |name| {
        let scenario = name.strip_suffix(ACCEPTED).unwrap_or(name);
        let scenario = scenario.split_once(BETWEEN).map_or(scenario, |(scenario, _)| scenario);
        !written.contains(*name) && (known.contains(scenario) || is_whole && !existing.contains(scenario))
    })
}

struct ScenarioTest<'a> {
    suite: &'a Suite,
    definition: &'a Definition,
    all: &'a PartDigests,
    written: &'a ScenarioFile,
}

#[derive(Default)]
struct Accepted {
    trace: Option<RunTrace>,
    requests: BTreeMap<RoleName, Requests>,
    unusable: BTreeSet<String>,
    faults: Vec<Diagnostic>,
}

impl ScenarioTest<'_> {
    fn tested(&self) -> ScenarioResult {
        let began = Instant::now();
        let mut tested = ScenarioResult {
            name: self.written.name.clone(),
            file: self.written.file.clone(),
            ..ScenarioResult::default()
        };
        match &self.written.text {
            Ok(text) => self.test(text, &mut tested),
            Err(fault) => tested.faults.push(fault.clone()),
        }
        tested.verdict = if !tested.faults.is_empty() {
            Verdict::Invalid
        } else if !tested.failures.is_empty() {
            Verdict::Failed
        } else if tested.snapshots.iter().any(|taken| taken.state != SnapshotState::Same) || !tested.changes.is_empty()
        {
            Verdict::Pending
        } else {
            Verdict::Passed
        };
        tested.duration = began.elapsed();
        tested
    }

    fn test(&self, text: &str, tested: &mut ScenarioResult) {
        let file = Source::new(self.written.file.as_str(), text);
        let folder = self.suite.shown_folder();
        let (scenario, faults) = read::read(&file, self.definition, &self.suite.files, &folder);
        tested.faults = faults;
        let accepted = self.accepted();
        let stage = match RunSetup::new(self.definition, &scenario, &self.suite.folder) {
            Ok(stage) => stage,
            Err(what) => {
                let at = Span::default();
                let fault = file.diagnostic(Code::ScenarioFile, at, what);
                let place = scenario.location("workspace");
                tested.faults.push(Diagnostic { line: place.line, column: place.column, ..fault });
                return;
            }
        };
        if !tested.faults.is_empty() {
            tested.changes = self.unplayed(&scenario, &stage, &accepted);
            tested.faults.extend(accepted.faults);
            return;
        }
        let mut parts = self.parts(&stage);
        parts.extend(scenario.parts.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let played = match runtime {
            Ok(runtime) => runtime.block_on(stage.play(self.definition, &scenario)),
            Err(error) => Err(format!("no runtime: {error}")),
        };
        match played {
            Ok(played) => self.judge(tested, &scenario, played, &parts, accepted),
            Err(what) => {
                tested.failures.push(self.failure(&scenario, "expect", ["run", "that it can be set up"], what));
            }
        }
    }

    fn judge(
        &self,
        tested: &mut ScenarioResult,
        scenario: &Scenario,
        mut played: RunResult,
        parts: &PartDigests,
        accepted: Accepted,
    ) {
        let (visited, left) = played.reached();
        played.trace.parts = parts::reached(parts, &visited, &left, &self.definition.checked.workflow);
        tested.failures = expect::failures(&scenario.expect, &self.written.file, &played);
        tested.failures.extend(self.unexpected(scenario, &played));
        tested.notices.append(&mut played.notices);
        let name = self.course_name();
        let changed = accepted.trace.as_ref().map(|trace| parts::changed(&trace.parts, parts));
        let (definition, file) = (self.definition, self.written.file.as_str());
        let (old, new) = (accepted.trace.as_ref(), &played.trace);
        let comparer = Comparer { changed, old, new, definition, scenario, file };
        let state = |name: &str, is_same: Option<bool>| match is_same {
            _ if accepted.unusable.contains(name) => SnapshotState::Unusable,
            None => SnapshotState::Missing,
            Some(true) => SnapshotState::Same,
            Some(false) => SnapshotState::Changed,
        };
        let trace_change = accepted.trace.as_ref().and_then(|trace| comparer.trace(&name, trace));
        let mut taken = Vec::new();
        for (role, now) in &played.requests {
            let name = self.role_name(role);
            let old = accepted.requests.get(role);
            let text = self.front(scenario, role.as_str()).with(&now.to_text());
            let state = state(&name, old.map(|old| old == now));
            let change = old.filter(|old| *old != now).and_then(|old| comparer.requests(&name, role, old, now));
            tested.changes.extend(change);
            taken.push(self.taken(name, text, state));
        }
        let state = state(&name, accepted.trace.as_ref().map(|_| trace_change.is_none()));
        let text = self.front(scenario, "course").with(&played.trace.to_text());
        taken.insert(0, self.taken(name, text, state));
        tested.snapshots = taken;
        // The run's own change comes first: it explains the rest.
        tested.changes.splice(0..0, trace_change);
        tested.faults.extend(accepted.faults);
    }

    fn failure(&self, scenario: &Scenario, key: &str, [what, expected]: [&str; 2], actual: String) -> Failure {
        Failure::new(what, expected, actual).at(&self.written.file, scenario.location(key))
    }

    /// Failures of any run, regardless of the scenario's expectations.
    fn unexpected(&self, scenario: &Scenario, played: &RunResult) -> Vec<Failure> {
        let canned = format!("a canned result ({})", Code::ToolUnanswered);
        let of_call = |what: &String| self.failure(scenario, "tools", ["tool call", &canned], what.clone());
        let expects_end = scenario.expect.iter().any(|(expectation, _)| expectation.is_about_end());
        let stopped = played.fault.as_ref().filter(|_| !expects_end).map(|fault| {
            let actual = format!("it stopped: {}: {}", fault.code, fault.message);
            self.failure(scenario, "expect", ["run", "an end"], actual)
        });
        let too_long = played.requests.iter().filter(|(_, requests)| requests.messages() > snapshot::MAX_MESSAGES);
        let too_long = too_long.map(|(role, requests)| {
            let what = format!("requests of {role}");
            let expected = format!("at most {} messages in all, which a snapshot can hold", snapshot::MAX_MESSAGES);
            self.failure(scenario, "expect", [&what, &expected], requests.messages().to_string())
        });
        played.unanswered.iter().map(of_call).chain(stopped).chain(too_long).collect()
    }

    /// The digests of the workflow's parts and of its tools.
    fn parts(&self, stage: &RunSetup) -> PartDigests {
        let all = self.all.iter().chain(&stage.fixtures.parts);
        all.map(|(path, digest)| (path.clone(), digest.clone())).collect()
    }

    /// Differences known without a run.
    fn unplayed(&self, scenario: &Scenario, stage: &RunSetup, accepted: &Accepted) -> Vec<Change> {
        let Some(trace) = &accepted.trace else { return Vec::new() };
        let mut changed = parts::changed(&trace.parts, &self.parts(stage));
        // Unreadable parts of the scenario have no digest.
        changed.retain(|part| !part.starts_with("scenario."));
        let (definition, file) = (self.definition, self.written.file.as_str());
        let comparer = Comparer { changed: Some(changed), old: Some(trace), new: trace, definition, scenario, file };
        let heads = stage.heads(self.definition).unwrap_or_default();
        let of_head =
            |(role, old): (&RoleName, &Requests)| comparer.head(&self.role_name(role), role, old, heads.get(role)?);
        let of_heads: Vec<Change> = accepted.requests.iter().filter_map(of_head).collect();
        if of_heads.is_empty() { comparer.part_alone(&self.course_name()).into_iter().collect() } else { of_heads }
    }

    fn course_name(&self) -> String {
        format!("{}{ACCEPTED}", self.written.name)
    }

    fn role_name(&self, role: &RoleName) -> String {
        format!("{}{BETWEEN}{role}{ACCEPTED}", self.written.name)
    }

    fn front<'f>(&'f self, scenario: &'f Scenario, expression: &'f str) -> Front<'f> {
        let (source, workflow) = (self.written.path.as_str(), self.definition.checked.workflow.name.as_str());
        Front { source, description: &scenario.description, expression, workflow }
    }

    fn taken(&self, name: String, text: String, state: SnapshotState) -> SnapshotResult {
        let accepted = self.suite.snapshots.get(&name).and_then(|text| text.as_ref().ok()).cloned();
        SnapshotResult { file: self.suite.shown_snapshot(&name), name, text, accepted, state }
    }

    fn accepted(&self) -> Accepted {
        let mut accepted = Accepted::default();
        let of_roles = format!("{}{BETWEEN}", self.written.name);
        for (name, text) in &self.suite.snapshots {
            let role = name.strip_prefix(&of_roles).and_then(|rest| rest.strip_suffix(ACCEPTED));
            if role.is_none() && *name != self.course_name() {
                continue;
            }
            let file = self.suite.shown_snapshot(name);
            let fault = match text {
                Ok(text) => {
                    let text = text.replace("\r\n", "\n");
                    accepted.read(role, &text).map_err(|fault| fault.diagnostic(&file, &text))
                }
                Err(what) => {
                    let message = format!("the snapshot cannot be read: {what}");
                    Err(Diagnostic::at(Code::SnapshotSyntax, &file, "", Span::default(), message))
                }
            };
            if let Err(fault) = fault {
                accepted.unusable.insert(name.clone());
                accepted.faults.push(fault);
            }
        }
        accepted
    }
}

impl Accepted {
    fn read(&mut self, role: Option<&str>, text: &str) -> Result<(), snapshot::Error> {
        let from = snapshot::body(text)?;
        match role {
            None => self.trace = Some(RunTrace::read(text, from)?),
            Some(role) => {
                let requests = Requests::read(text, from)?;
                // A snapshot whose name contains no valid role name belongs to no role, so it is stale.
                if let Ok(role) = RoleName::new(role) {
                    self.requests.insert(role, requests);
                }
            }
        }
        Ok(())
    }
}

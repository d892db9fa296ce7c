//! `rondo test --from THREAD`: writes a scenario that repeats the answers of a stored thread and expects its results.
//!
//! The answers become a script, not a recording: a script still answers after a prompt is edited.

use std::path::{Path, PathBuf};

use rondo::author::scenario::{FOLDER, ScenarioResult, Suite, Verdict};
use rondo::core::conversation::rebuild;
use rondo::core::local::origin;
use rondo::core::thread::Origin;
use rondo::files::absolute;
use rondo::protocol::Value;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::source;
use rondo::protocol::text::shell_argument;
use rondo::settings::folder_of;
use rondo::tell::tell;
use rondo::views::scenario::{ScenarioRecorder, yaml};

use super::super::find_thread::find_thread_in;
use super::super::init::write_new;
use super::super::{StoreArgs, workflow};
use super::discover::Target;
use super::text::faults;

use crate::{Exit, Failure, Output, json_line, output_file};

const NAME_LENGTH: usize = 10;

pub fn make(
    word: &str,
    name: Option<&str>,
    path: &str,
    store: &StoreArgs,
    here: &Path,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(store.existing()?, word)?;
    let store = view.store.as_ref();
    let beginning = rebuild::beginning(store, &row)?;
    let origin = origin(&thread, &row)?;
    let workflow = workflow_file(&origin, path, here, &beginning.workflow.name)?;
    let id: String = thread.as_str().chars().take(NAME_LENGTH).collect();
    let name = name.map_or_else(|| format!("from-{id}"), str::to_owned);
    if !Suite::takes_name(&name) {
        let failure = Failure::new(Code::ScenarioName, format!("{name:?} is not a name for a scenario"));
        return Err(failure.with_hint("use letters, digits, `-`, `_` and `.`, but not `__`"));
    }
    let mut recorder = ScenarioRecorder::read(store, &thread, &row)?;
    let whole = recorder.scenario(thread.as_str(), &beginning.start.input, &origin)?;
    let file = write(folder_of(&workflow), &name, &whole)?;
    let shown = file.strip_prefix(here).unwrap_or(&file).display().to_string();
    output.show(&json_line!("scenario_written", file: &shown), || format!("{shown}\n"))?;
    for note in &recorder.notes {
        tell(&format!("note: {note}\n"));
    }
    let run = super::run(&Target { file: workflow, only: Some(name) }, None, output)?;
    let is_unmet = |tested: &&ScenarioResult| matches!(tested.verdict, Verdict::Failed | Verdict::Invalid);
    tell(&match run.report.scenarios.iter().find(is_unmet).map(faults) {
        Some(faults) => {
            format!("\nIt does not pass; edit it by hand, or record the run with `rondo record`:\n{faults}")
        }
        None => format!("\nReview it, then accept its snapshots: rondo test {} --accept\n", shell_argument(&shown)),
    });
    Ok(Exit::Done)
}

fn workflow_file(origin: &Origin, path: &str, here: &Path, name: &str) -> Result<PathBuf, Failure> {
    let file = if let Some(file) = origin.file.as_ref().filter(|_| path == ".") {
        PathBuf::from(file)
    } else {
        let loaded = workflow::load(path, here)?;
        let found = &loaded.checked.workflow.name;
        if found != name {
            let message = format!("the thread is one of `{name}`, and {path} holds `{found}`");
            return Err(Failure::new(Code::WorkflowNotFound, message).with_hint("name the workflow that it is of"));
        }
        PathBuf::from(absolute(&loaded.path, here))
    };
    if file.is_file() {
        return Ok(file);
    }
    Err(Failure::new(Code::WorkflowNotFound, format!("{}: the workflow no longer exists", file.display()))
        .with_hint("name the workflow: `rondo test WORKFLOW --from THREAD`"))
}

fn write(folder: &Path, name: &str, whole: &[(&'static str, Value)]) -> Result<PathBuf, Failure> {
    let tests = folder.join(FOLDER);
    if tests.is_symlink() {
        let tests = tests.display();
        return Err(output_file::refused(format!("{tests} is a link, which is not followed; nothing was written")));
    }
    let file = tests.join(format!("{name}.yaml"));
    let others = ["yaml", "yml", "json"].map(|ending| tests.join(format!("{name}.{ending}")));
    if let Some(taken) = others.iter().find(|file| std::fs::symlink_metadata(file).is_ok()) {
        return Err(output_file::refused(format!("{} already exists; nothing was written", taken.display()))
            .with_hint("give another name with --name"));
    }
    let text = yaml(whole);
    let wanted: Value = whole.iter().map(|(key, value)| (*key, value.clone())).collect();
    if !source::yaml(&text).is_ok_and(|read| read.to_value() == wanted) {
        let message = format!("the answers of the thread take {} bytes, more than a scenario can hold", text.len());
        return Err(output_file::refused(message).with_hint(
            "nothing was written; `rondo record` keeps a run of any length, and a scenario can name it in `recorded`",
        ));
    }
    write_new(&file, &text)?;
    Ok(file)
}

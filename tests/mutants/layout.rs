//! What rondo itself writes: a request that differs while the workflow stays as it is.
//!
//! Nothing is done wrong inside the product. The accepted requests are those of a mutant and the accepted course is that
//! of the workflow as it stands, so that its own requests look as if rondo wrote them in another way. What only a change
//! of the code can show is for `cargo mutants` (`.cargo/mutants.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rondo_agent_kit::conversation::{CUT, EMPTY_LINE, LEFT_OUT, NO_ANSWER};
use rondo_author::scenario::{SnapshotState, Suite};

use crate::mutant::{FILE, Mutant, Named};
use crate::subject::Subject;
use crate::trial::{self, Trial, Went};
use crate::{chance, operators};

/// What a report calls a change that no part of a workflow explains.
const CAUSES: &[&str] = &["message layout"];

/// What layout 1, a tool's result and a repair can say in words of their own.
const WORDS: [&str; 10] = [
    "What happened before:",
    "What happened since your last answer:",
    "<step role=\"",
    "\" status=\"",
    "(no output)",
    "Write the whole answer again in that form",
    LEFT_OUT,
    CUT,
    EMPTY_LINE,
    NO_ANSWER,
];

/// The workflow with what layout 1 can write and no shipped workflow asks for.
pub fn subject() -> Subject {
    let layout = Subject::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/layout"), "layout");
    let untouched = trial::report(&layout, &layout.as_tree());
    assert!(untouched.is_passed(), "layout: {}", trial::shown(&untouched));
    layout
}

/// The words that no accepted request holds. Every byte of those is compared, so that a word that stands in one cannot
/// change unnoticed.
pub fn unseen(subjects: &[&Subject]) -> Vec<&'static str> {
    let accepted: Vec<String> = subjects.iter().flat_map(|subject| requests(&subject.folder).into_values()).collect();
    WORDS.into_iter().filter(|words| !accepted.iter().any(|request| request.contains(words))).collect()
}

/// One mutant of each operator in each workflow, as far as it changes what a role is sent.
pub fn trials(subjects: &[&Subject]) -> Vec<Trial> {
    let chosen = |subject: &&Subject| {
        let mut by_operator: BTreeMap<&str, Vec<Mutant>> = BTreeMap::new();
        for mutant in operators::all(subject) {
            by_operator.entry(mutant.operator).or_default().push(mutant);
        }
        let one = |(operator, mutants): (&str, Vec<Mutant>)| chance::one_of(&mutants, operator, &subject.name).cloned();
        by_operator.into_iter().filter_map(one).collect::<Vec<_>>()
    };
    let work: Vec<(&Subject, Mutant)> =
        subjects.iter().flat_map(|subject| chosen(subject).into_iter().map(move |mutant| (*subject, mutant))).collect();
    trial::side_by_side(&work, |(subject, mutant)| of(subject, mutant)).into_iter().flatten().collect()
}

/// The trial in which the requests of the mutant are the accepted ones; `None` where they are no others.
fn of(subject: &Subject, mutant: &Mutant) -> Option<Trial> {
    let definition = subject.definition(&mutant.files).ok()?;
    let sent = subject.suite.run(&definition, &trial::one_worker());
    let known = requests(&subject.folder);
    let others: BTreeMap<&str, &str> = sent
        .scenarios
        .iter()
        .flat_map(|tested| &tested.snapshots)
        .filter(|taken| taken.state == SnapshotState::Changed && known.contains_key(&taken.name))
        .map(|taken| (taken.name.as_str(), taken.text.as_str()))
        .collect();
    if others.is_empty() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&subject.folder, folder.path());
    for (name, text) in &others {
        std::fs::write(snapshots(folder.path()).join(name), text).unwrap();
    }
    let suite = Suite::read(&folder.path().join(FILE)).unwrap();
    let definition = subject.definition(&BTreeMap::new()).unwrap_or_else(|_| panic!("{} does not check", subject.name));
    let report = suite.run(&definition, &trial::one_worker());
    let of_others: BTreeSet<&str> = others.keys().filter_map(|name| name.split_once("__")).map(|(of, _)| of).collect();
    let noticed = report.scenarios.iter().filter(|tested| of_others.contains(tested.name.as_str()));
    let named = Named { causes: CAUSES, parts: Vec::new(), word: String::new() };
    let went = if noticed.clone().any(|tested| tested.changes.is_empty()) {
        Went::Survived
    } else {
        trial::judged(&report, &named)
    };
    Some(Trial {
        workflow: subject.name.clone(),
        operator: mutant.operator.to_owned(),
        place: mutant.place.clone(),
        what: mutant.what.clone(),
        went,
    })
}

fn snapshots(folder: &Path) -> std::path::PathBuf {
    folder.join("tests/snapshots")
}

/// The accepted requests of roles, by the names of their files; a course has no role in its name.
fn requests(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(snapshots(folder)).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(name, _)| name.contains("__"))
        .map(|(name, path)| (name, std::fs::read_to_string(path).unwrap()))
        .collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

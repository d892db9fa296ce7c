//! The workflow folders as they ship.

#![expect(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::model::script::{Script, ScriptRole, ScriptRoles};
use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::source::Source;
use rondo_protocol::workflow::read::FileError;
use rondo_protocol::workflow::{AnswerFormat, Checked, Files, RoleKind, Workflow, read};

const SHIPPED: [&str; 12] = [
    "approve-release",
    "debate",
    "describe-image",
    "fix-failing-test",
    "interview",
    "map-files",
    "panel",
    "repo-report",
    "research-report",
    "review-diff",
    "review-loop",
    "triage",
];

/// The files of one folder.
struct Folder(PathBuf);

impl Files for Folder {
    fn read(&self, path: &str, _max_bytes: usize) -> Result<String, FileError> {
        fs::read_to_string(self.0.join(path)).map_err(|error| FileError::Refused(error.to_string()))
    }
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One line a fault, as a person would read it.
fn lines(faults: &[Diagnostic]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn checked(path: &Path) -> Checked {
    let folder = Folder(path.parent().expect("a file has a folder").to_owned());
    let file = path.file_name().expect("a file has a name").to_string_lossy();
    let checked = read(&file, &text(path), &folder).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    assert_eq!(lines(&checked.warnings), "", "{}", path.display());
    checked
}

fn input(name: &str) -> serde_json::Value {
    serde_json::from_str(&text(&shipped(name).join("input.json"))).expect("an input is JSON")
}

#[test]
fn every_folder_is_held_by_these_tests() {
    let mut folders: Vec<String> = fs::read_dir(env!("CARGO_MANIFEST_DIR"))
        .expect("this package has a folder")
        .filter_map(|entry| entry.ok().filter(|entry| entry.path().join("workflow.yaml").exists()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    assert_eq!(folders, SHIPPED);
}

#[test]
fn every_workflow_reads_without_a_warning() {
    for name in SHIPPED {
        let checked = checked(&shipped(name).join("workflow.yaml"));
        assert_eq!(checked.workflow.name, name);
        assert_ne!(checked.policy.description, "", "{name} says what it is for");
    }
}

#[test]
fn workflows_after_public_patterns_read_without_a_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/public");
    let mut read = 0;
    for entry in fs::read_dir(&folder).expect("the fixtures are there") {
        let path = entry.expect("the folder can be listed").path();
        let checked = checked(&path);
        assert_eq!(Some(checked.workflow.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        read += 1;
    }
    assert!(read >= 3);
}

#[test]
fn the_example_of_the_readme_reads_without_a_warning() {
    let readme = text(&shipped("../README.md"));
    let example = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is one");
    let checked =
        read("workflow.yaml", example, &BTreeMap::new()).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    assert_eq!(lines(&checked.warnings), "");
}

/// The roles that a script answers for, those of child workflows as `section/drafter`.
fn add_roles(name: &str, within: &str, workflow: &Workflow, roles: &mut ScriptRoles) {
    for (role, part) in &workflow.roles {
        let key = format!("{within}{role}");
        let format = match &part.kind {
            RoleKind::Tool(_) => {
                roles.roles.insert(key, ScriptRole::Tool);
                continue;
            }
            // A rule needs no answer.
            RoleKind::Rule(_) => continue,
            RoleKind::Workflow(child) => {
                add_roles(name, &format!("{key}/"), &child.workflow, roles);
                continue;
            }
            RoleKind::Human => AnswerFormat::Json,
            kind => kind.model().unwrap_or_else(|| panic!("{name}: {} is not known", kind.name())).format,
        };
        let contract = Contract::new(format, &part.output).expect("the contract compiles");
        roles.roles.insert(key, ScriptRole::Model(contract));
    }
}

#[test]
fn every_script_answers_for_each_role_by_its_contract() {
    for name in SHIPPED {
        let workflow = checked(&shipped(name).join("workflow.yaml")).workflow;
        let mut resolved_roles = ScriptRoles::default();
        add_roles(name, "", &workflow, &mut resolved_roles);
        let file = Source::new("script.yaml", text(&shipped(name).join("script.yaml")));
        let script = Script::read(&file).unwrap_or_else(|faults| panic!("{name}: {}", lines(&faults)));
        assert_eq!(lines(&script.check(&file, &resolved_roles)), "", "{name}");
        // A tool role that the script does not answer for runs its tool.
        for (key, _) in resolved_roles.roles.iter().filter(|(_, part)| !matches!(part, ScriptRole::Tool)) {
            let in_trunk = |role| (RoleName::new(role).expect("a key names roles"), LanePath::trunk());
            let path: Vec<_> = key.split('/').map(in_trunk).collect();
            let attempt = script.attempt(&resolved_roles, &path, 0);
            assert!(attempt.is_some(), "{name}: {key} has nothing to say");
        }
    }
}

#[test]
fn every_input_holds_the_documents_beside_it_word_for_word() {
    let documents = [
        ("debate", "background", "background.md"),
        ("map-files", "diff", "change.diff"),
        ("panel", "document", "document.md"),
        ("research-report", "source", "source.md"),
        ("review-diff", "diff", "change.diff"),
        ("review-diff", "source", "attachments.py"),
        ("review-loop", "notes", "notes.md"),
        ("triage", "report", "report.md"),
    ];
    for (name, key, file) in documents {
        let given = input(name);
        assert_eq!(given[key].as_str(), Some(text(&shipped(name).join(file)).as_str()), "{name}: {key}");
    }
}

#[test]
fn every_input_names_what_the_workflow_declares() {
    for name in SHIPPED {
        let workflow = checked(&shipped(name).join("workflow.yaml")).workflow;
        let declared: BTreeMap<&str, bool> = workflow
            .input
            .iter()
            .map(|(field, spec)| {
                let needed = !spec.optional && spec.schema.get("default").is_none();
                (field.as_str(), needed)
            })
            .collect();
        let given = input(name);
        let given = given.as_object().expect("an input is an object");
        for key in given.keys() {
            assert!(declared.contains_key(key.as_str()), "{name} does not declare {key}");
        }
        for (key, needed) in declared {
            assert!(!needed || given.contains_key(key), "{name}: {key} is missing");
        }
    }
}

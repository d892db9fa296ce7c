//! The page of durability names a test for each promise: every one of them is there.

use std::collections::BTreeSet;
use std::path::Path;

use super::page;

/// The names of functions below a folder of sources.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_promise_of_durability_names_a_test_that_is_there() {
    let page = page("durability.md");
    let (_, section) = page.split_once("\n## How it is tested\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut known = BTreeSet::new();
    for folder in ["engine", "agent-kit/src", "tests/suite", "tests/sim"] {
        functions(&root.join(folder), &mut known);
    }
    assert!(rows.len() > 10, "{rows:#?}");
    for row in rows {
        let tests = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named in {row}");
        for name in names {
            assert!(known.contains(name), "there is no test {name}: {row}");
        }
    }
}

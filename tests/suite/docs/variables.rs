//! `settings.md` lists the environment variables that the program reads.

use std::collections::BTreeSet;
use std::path::Path;

use super::page;

/// The texts in quotes of the sources below a folder, without tests.
fn texts(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" && name != "page" {
            texts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !["build.rs", "tests.rs"].contains(&name)
        {
            let source = std::fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            found.extend(source.split('"').map(str::to_owned));
        }
    }
}

#[test]
fn every_variable_that_is_read_has_a_row() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = BTreeSet::new();
    for part in ["protocol/src", "agent-kit/src", "engine"] {
        texts(&crates.join(part), &mut sources);
    }
    let page = page("settings.md");
    let (_, section) = page.split_once("\n## Environment\n").unwrap();
    let named: BTreeSet<&str> = section.split('`').skip(1).step_by(2).collect();
    let rows: BTreeSet<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
        .flat_map(|names| names.split('`').step_by(2))
        .collect();
    let unread: Vec<&&str> = rows.iter().filter(|name| !sources.contains(**name)).collect();
    assert!(unread.is_empty(), "nothing reads {unread:?}");
    let is_ours = |name: &&str| {
        let ours = ["RONDO_", "OPENAI_", "XDG_"]
            .iter()
            .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()));
        ours && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let missing: Vec<&str> =
        sources.iter().map(String::as_str).filter(is_ours).filter(|name| !named.contains(name)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

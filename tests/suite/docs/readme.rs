//! `README.md`: short, with a source for what it says of other programs, and with links that lead somewhere.

use std::path::Path;

use super::page;

const MAX_WORDS: usize = 1_200;

fn readme() -> String {
    page("../../README.md")
}

/// The targets of all links of a text.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[test]
fn it_is_read_in_a_few_minutes() {
    let words = readme().split_whitespace().count();
    assert!(words < MAX_WORDS, "{words} words");
}

#[test]
fn each_claim_about_another_program_has_its_source() {
    let readme = readme();
    let (_, table) = readme.split_once("| | defined in |").unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let others: Vec<&&str> = rows.iter().filter(|row| !row.starts_with("| rondo |")).collect();
    assert_eq!((rows.len(), others.len()), (5, 4));
    for row in others {
        let claims = row.trim_matches('|').split(" | ").skip(1);
        for claim in claims {
            assert!(targets(claim).any(|target| target.starts_with("https://")), "no source for {claim:?} in {row}");
        }
    }
}

#[test]
fn its_links_to_files_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = readme();
    let files: Vec<&str> = targets(&readme).filter(|target| !target.contains("://")).collect();
    assert!(files.len() > 20);
    for file in files {
        assert!(root.join(file.split('#').next().unwrap()).exists(), "{file}");
    }
}

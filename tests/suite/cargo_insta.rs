//! A pending snapshot of `rondo test` in the hands of `cargo insta`, which others wrote: it lists it, shows it on a
//! terminal, and what it accepts is what `rondo test` compares with.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binary::{Place, binary};

const WORKFLOW: &str = r"rondo: 1
name: greeting
roles:
  host: { system: You greet guests., output: { greeted: { word: string } } }
graph:
  start: { to: host, prompt: Greet the guest with one word. }
  host:
    greeted: { to: end }
";

const SCENARIO: &str = r#"description: one guest
script:
  host:
    - { status: greeted, fields: { word: Welcome }, body: "  indented, and a blank at the end \n---\nstatus: no\n---\n" }
expect: { route: [host.greeted], exit: 0 }
"#;

/// The program, or `None` after saying why the test is skipped.
fn cargo_insta() -> Option<PathBuf> {
    let of_build = binary().parent().and_then(Path::parent)?.join("tools/bin/cargo-insta");
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let found =
        std::iter::once(of_build).chain(on_path.map(|folder| folder.join("cargo-insta"))).find(|at| at.is_file());
    if found.is_none() {
        eprintln!("skipped: cargo-insta is not installed; `make test` installs it");
    }
    found
}

/// Files below a folder whose names end so.
fn ending(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    found.sort();
    found
}

/// What `cargo insta WORDS` shows on a terminal, with every question answered by `a` for accept.
fn on_terminal(program: &Path, folder: &Path, words: &str) -> Option<String> {
    let command = format!("{} insta {words}", program.display());
    let mut child = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .current_dir(folder)
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take().unwrap().write_all(&[b'a'; 16]).unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = plain(&String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "cargo insta {words}: {shown}{}", String::from_utf8_lossy(&output.stderr));
    Some(shown)
}

/// A text without what colours it: a difference is marked within its line.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once(|end: char| end.is_ascii_alphabetic()).map_or("", |(_, rest)| rest));
    rest.fold(first, |text, rest| text + rest)
}

#[test]
fn a_pending_snapshot_is_shown_and_accepted_by_cargo_insta() {
    let Some(program) = cargo_insta() else { return };
    let place = Place::new();
    place.file("Cargo.toml", "[package]\nname = \"greeting\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n");
    place.file("src/lib.rs", "");
    place.file("workflow.yaml", WORKFLOW);
    place.file("tests/one.yaml", SCENARIO);
    let snapshots = place.path().join("tests/snapshots");

    for (text, shown) in
        [(WORKFLOW.to_owned(), "You greet guests."), (WORKFLOW.replace("one word", "two words"), "two words")]
    {
        place.file("workflow.yaml", text);
        place.run(["test", "workflow.yaml"]).exits(1);
        let pending = ending(&snapshots, ".snap.new");
        assert!(!pending.is_empty(), "what is new is written beside");

        let listed = Command::new(&program)
            .args(["insta", "pending-snapshots", "--as-json"])
            .current_dir(place.path())
            .output()
            .unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let names = pending.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
        for name in names {
            assert!(listed.contains(name.trim_end_matches(".new")), "{name} is not listed: {listed}");
        }

        let Some(told) = on_terminal(&program, &place.path(), "review") else {
            eprintln!("skipped: there is no program `script`, which gives a terminal");
            return;
        };
        assert!(told.contains(shown), "{told}");
        assert_eq!(ending(&snapshots, ".snap.new"), Vec::<PathBuf>::new());
        let accepted: Vec<String> =
            ending(&snapshots, ".snap").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        place.run(["test", "workflow.yaml", "--check"]).exits(0);
        let after: Vec<String> =
            ending(&snapshots, ".snap").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert_eq!(accepted, after, "an accepted snapshot is not touched");
    }
}

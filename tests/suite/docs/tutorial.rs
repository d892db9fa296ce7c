//! `tutorial.md`: its files are written, its commands run in their order, and what it shows is what they print.
//!
//! The page keeps to this: a block of `yaml` or `jsonl` is the file whose path stands last in backticks before it. A
//! block of `sh` holds a command a line; `# exit N` behind one says how it ends, if not with 0. A block of `text` is what
//! the command before it prints, on stdout and stderr; `...` stands there for lines left out.

use std::process::{Command, Stdio};

use super::page;
use crate::binary::{Place, Running, binary};

struct Block<'a> {
    language: &'a str,
    text: &'a str,
    /// The text between the block before and this one.
    before: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("\n```").collect();
    parts
        .chunks_exact(2)
        .map(|pair| {
            let (language, text) = pair[1].split_once('\n').unwrap();
            Block { language, text, before: pair[0] }
        })
        .collect()
}

/// The command as a shell runs it in the folder of the tutorial, with one stream for all that it prints.
fn printed(place: &Place, line: &str) -> Vec<String> {
    let (command, exit) = line.split_once("# exit ").unwrap_or((line, "0"));
    let mut shell = Command::new("sh");
    let path = format!("{}:/usr/bin:/bin", binary().parent().unwrap().display());
    shell.args(["-c", &format!("exec 2>&1; {command}")]).current_dir(place.path());
    shell.env_clear().env("HOME", place.home()).env("PATH", path);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let finished = Running::of(shell).finish();
    assert_eq!(finished.code, exit.trim().parse().ok(), "`{command}` printed\n{}", finished.text());
    finished.lines
}

/// A line without what differs from run to run: ids of threads, times, and the folder.
fn settled(line: &str, place: &Place) -> String {
    let line = line.replace(&format!("{}/", place.path().display()), "");
    let is_id = |word: &str| word.len() == 26 && word.starts_with("01") && word.chars().all(char::is_alphanumeric);
    let is_time = |word: &str| {
        let number = word.strip_suffix("ms").or_else(|| word.strip_suffix('s')).unwrap_or(word);
        number.parse::<f64>().is_ok() && (number != word || number.contains('.'))
    };
    let settled = |word: &str| match word.trim_matches(['`', ':', ',']) {
        core if is_id(core) => word.replace(core, "ID"),
        core if is_time(core) => word.replace(core, "TIME"),
        _ => word.to_owned(),
    };
    line.split(' ').map(settled).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// Whether the lines are those that are shown.
fn is_shown(shown: &[String], lines: &[String]) -> bool {
    match shown {
        [] => lines.is_empty(),
        [first, rest @ ..] if first == "..." => (0..=lines.len()).any(|left_out| is_shown(rest, &lines[left_out..])),
        [first, rest @ ..] => lines.first() == Some(first) && is_shown(rest, &lines[1..]),
    }
}

#[test]
fn the_tutorial_does_what_it_says() {
    let page = page("tutorial.md");
    let place = Place::new();
    let (mut last, mut workflows, mut compared) = (Vec::new(), 0, 0);
    for Block { language, text, before } in blocks(&page) {
        match language {
            "yaml" | "jsonl" => {
                let file = before.rsplit('`').nth(1).unwrap();
                place.file(file, format!("{text}\n"));
                workflows += usize::from(file.ends_with("workflow.yaml"));
            }
            "sh" => {
                for line in text.lines() {
                    last = printed(&place, line);
                    workflows += usize::from(line.starts_with("rondo init "));
                }
            }
            "text" => {
                let settle = |lines: Vec<&str>| lines.iter().map(|line| settled(line, &place)).collect::<Vec<_>>();
                let lines = settle(last.iter().map(String::as_str).collect());
                let shown = settle(text.lines().collect());
                assert!(is_shown(&shown, &lines), "the page shows\n{text}\nand this was printed\n{}", last.join("\n"));
                compared += 1;
            }
            other => panic!("the page has a block of {other:?}"),
        }
    }
    assert_eq!(workflows, 3);
    assert!(compared >= 10, "{compared} outputs are compared");
}

//! Typical mistakes, and what a person who makes one is told.
//!
//! `fixtures/mistakes/workflow.yaml` is sound. Each entry of `table.txt` beside it is one slip in it: a title, the lines
//! that stand there (`-`), and what somebody writes in their place (`+`).

use std::fmt::Write as _;

use crate::binary::{Finished, Place, fixture};

struct Mistake {
    title: String,
    right: String,
    wrong: String,
}

fn mistakes() -> Vec<Mistake> {
    let table = std::fs::read_to_string(fixture("mistakes/table.txt")).unwrap();
    let lines = |entry: &str, sign: char| {
        entry.lines().filter_map(|line| line.strip_prefix(sign)).fold(String::new(), |text, line| text + line + "\n")
    };
    table
        .split("## ")
        .skip(1)
        .map(|entry| Mistake {
            title: entry.lines().next().unwrap().to_owned(),
            right: lines(entry, '-'),
            wrong: lines(entry, '+'),
        })
        .collect()
}

#[test]
fn each_of_sixty_mistakes_is_told_once_where_it_was_made_and_with_its_mend() {
    let place = Place::new();
    let sound = std::fs::read_to_string(fixture("mistakes/workflow.yaml")).unwrap();
    place.file("workflow.yaml", &sound);
    assert_eq!(place.run(["validate", "workflow.yaml"]).exits(0).text(), "");
    let mistakes = mistakes();
    assert!(mistakes.len() >= 60, "{} mistakes", mistakes.len());
    let mut told = String::new();
    for Mistake { title, right, wrong } in mistakes {
        // A line may be shown by its beginning alone.
        let (right, wrong) = (right.trim_end(), wrong.trim_end());
        assert_eq!(sound.matches(&format!("\n{right}")).count(), 1, "{title}");
        let slip = if wrong.is_empty() { format!("{right}\n") } else { right.to_owned() };
        place.file("workflow.yaml", sound.replace(&format!("\n{slip}"), &format!("\n{wrong}")));
        let lines = place.run(["validate", "workflow.yaml"]).lines;
        assert_eq!(lines.len(), 1, "{title}: {lines:#?}");
        let shown = if wrong.is_empty() { format!("without {}", right.trim_start()) } else { wrong.to_owned() };
        let _ = writeln!(told, "{title}\n{}\n{}\n", shown.replace('\t', "→"), lines.join("\n"));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_tool_that_nobody_has_is_a_warning_with_the_one_that_was_meant() {
    let place = Place::new();
    let workflow = "rondo: 1\nname: x\nroles: { a: { tools: [read_fil, search_docs, docs.find, wiki.find] } }\n\
                    graph: { start: { to: a, prompt: Go. }, a: { done: { to: end } } }\n";
    place.file("workflow.yaml", workflow);
    let hints = |finished: Finished| {
        let found = finished.exits(0).events("diagnostic");
        found.iter().map(|fault| format!("{} {} {}", fault["severity"], fault["message"], fault["hint"])).collect()
    };
    let before: Vec<String> = hints(place.run(["validate", "workflow.yaml", "--json"]));
    place.settings("[tool.search_docs]\nargv = [\"/bin/true\"]\n[mcp.docs]\ncommand = \"/bin/true\"\n");
    let after: Vec<String> = hints(place.run(["validate", "workflow.yaml", "--json"]));
    insta::assert_snapshot!(format!("{}\n\nwith settings\n{}", before.join("\n"), after.join("\n")));
}

#[test]
fn a_word_that_is_no_verb_names_the_verb_that_was_meant() {
    let place = Place::new();
    let mut told = String::new();
    for word in ["start", "list", "ls", "check", "log", "status", "valdate", "resmue", "frobnicate"] {
        told += &place.run([word]).exits(2).stderr;
    }
    let event = place.run(["list", "--json"]).exits(2).event("error");
    let _ = write!(told, "{} {}", event["code"], event["message"]);
    insta::assert_snapshot!(told);
}

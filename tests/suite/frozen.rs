//! Law `format`, over time: a store that an earlier version wrote is read, proven and continued by every later one.
//!
//! `tests/fixtures/stores/format-2` holds threads with every kind of step: a selector, models, a rule, a tool, children, a
//! compaction, open lanes with forms, one of them answered, a fork with a move to an edited file, a fork with an answer
//! put in, and a fork that is done. Never make it anew: a format that this version cannot read needs a new version of
//! the value in question, and its reader of the old one stays.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::binary::{Place, fixture};

/// Copies a folder with its files; the socket of a process that was killed stays behind.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if path.is_file() {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// A place with a copy of the store in it.
pub fn place() -> Place {
    let place = Place::new();
    let stores = fixture("stores/format-2");
    copy(&Path::new(&stores).join("store"), &place.path().join(".rondo"));
    for file in ["workflow.yaml", "edited.yaml", "section.yaml", "script.yaml"] {
        fs::copy(Path::new(&stores).join(file), place.path().join(file)).unwrap();
    }
    place
}

fn threads(place: &Place) -> Vec<Value> {
    place.run(["threads", "--json"]).exits(0).json()
}

/// Head, status and number of steps of each thread that is not a child.
fn standing(place: &Place) -> Vec<(String, String, u64)> {
    let whole = threads(place).into_iter().filter(|thread| thread["name"] == "everything");
    whole
        .map(|thread| {
            let word = |key: &str| thread[key].as_str().unwrap().to_owned();
            (word("head"), word("status"), thread["totals"]["steps"].as_u64().unwrap())
        })
        .collect()
}

#[test]
fn a_store_of_format_2_is_read_proven_and_continued() {
    let place = place();
    insta::assert_debug_snapshot!("read", standing(&place));
    let all = threads(&place);
    for thread in &all {
        let id = thread["thread"].as_str().unwrap();
        place.run(["verify", id, "--json"]).exits(0);
        place.run(["prefix", id, "--json"]).exits(0);
    }
    let kinds = |thread: &Value| -> Vec<String> {
        let lines = place.run(["show", thread["thread"].as_str().unwrap(), "--json"]).exits(0).json();
        let kind = |line: &Value| match line["role"].as_str() {
            Some(role) => format!("{} {role}", line["event"].as_str().unwrap()),
            None => line["event"].as_str().unwrap().to_owned(),
        };
        lines.iter().map(kind).collect()
    };
    let shown: Vec<Vec<String>> = all.iter().filter(|thread| thread["name"] != "section").map(kinds).collect();
    insta::assert_debug_snapshot!("kinds", shown);

    // Each waiting thread is answered to its end, with the script that it was made with.
    for thread in all.iter().filter(|thread| thread["status"] == "waiting") {
        let id = thread["thread"].as_str().unwrap();
        loop {
            let script = ["--script", "script.yaml", "--trust", "--json"];
            let lanes = place.run(["resume", id].iter().chain(&script)).exits(75).events("thread_waiting");
            let lane = lanes[0]["lane"].as_str().unwrap().to_owned();
            let answer = ["answer", id, "--lane", &lane, "--status", "approved"];
            let answered = place.run(answer.iter().chain(&script));
            if !answered.events("thread_finished").iter().any(|event| event["thread"] == id) {
                answered.exits(75);
                continue;
            }
            answered.exits(0);
            break;
        }
        place.run(["verify", id, "--json"]).exits(0);
    }
    insta::assert_debug_snapshot!("continued", standing(&place));

    // A fork where lanes are open continues with them.
    let first = all.iter().find(|thread| thread["name"] == "everything").unwrap()["thread"].as_str().unwrap();
    let words = ["fork", first, "--at", "11", "--script", "script.yaml", "--trust", "--json"];
    let forked = place.run(words).exits(75);
    assert_eq!(forked.event("thread_resumed")["seq"], 11);
    assert_eq!(forked.events("thread_waiting").len(), 1);
}

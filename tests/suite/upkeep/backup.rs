//! `rondo backup`: a copy of a store, taken while it is written, that is whole and lives on by itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::damage::{Damage, How};
use crate::binary::{Place, fixture};
use crate::frozen;

/// Steps by thread.
fn steps(place: &Place, store: &Path) -> BTreeMap<String, u64> {
    let threads = place.run(["threads", "--json", "--store", store.to_str().unwrap()]).exits(0).json();
    let steps = |thread: &serde_json::Value| {
        (thread["thread"].as_str().unwrap().to_owned(), thread["totals"]["steps"].as_u64().unwrap())
    };
    threads.iter().map(steps).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_copy_taken_during_a_run_is_whole_and_has_every_acknowledged_step() {
    let place = Place::new();
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n".repeat(400));
    let run = ["run", &fixture("relay"), "--offline", "--trust", "--input-file", "topics.jsonl", "--json"];
    let mut run = place.start(run);
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let mut copies = Vec::new();
    for number in 0..3 {
        for _ in 0..150 {
            let step = run.event("step_committed");
            acknowledged.insert(step["thread"].as_str().unwrap().to_owned(), step["seq"].as_u64().unwrap());
        }
        let copy = place.path().join(format!("copy-{number}"));
        let line = place.run(["backup", copy.to_str().unwrap(), "--json"]).exits(0).event("backup");
        let found = steps(&place, &copy);
        assert_eq!(line["threads"], found.len());
        assert_eq!(line["steps"], found.values().sum::<u64>());
        for (thread, seq) in &acknowledged {
            assert!(found.get(thread).is_some_and(|last| last >= seq), "{thread} had step {seq}: {found:?}");
        }
        copies.push(copy);
    }
    // All of them were taken before the end.
    assert!(run.line().is_some());
    run.kill();
    for copy in &copies {
        let store = copy.to_str().unwrap();
        place.run(["fsck", "--json", "--store", store]).exits(0);
        assert!(copy.join("anchor").is_file());
        place.run(["verify", "--store", store]).exits(0);
    }
    // The copy is the user's own, and continues without the original.
    fs::remove_dir_all(place.store()).unwrap();
    let store = copies[0].to_str().unwrap();
    let open = place.run(["threads", "--status", "stopped", "--json", "--store", store]).exits(0).json();
    let open = open[0]["thread"].as_str().unwrap();
    place.run(["resume", open, "--offline", "--trust", "--json", "--store", store]).exits(0);
    place.run(["verify", open, "--store", store]).exits(0);
}

#[test]
fn a_copy_has_every_entry_of_the_store() {
    let place = frozen::place();
    let copy = place.path().join("copy");
    let told = place.run(["backup", copy.to_str().unwrap()]).exits(0);
    assert!(told.text().contains(" is a whole copy: "), "{}", told.text());
    let shown = |store: &Path| {
        let read = |words: &[&str]| {
            place.run([words, &["--json", "--store", store.to_str().unwrap()]].concat()).exits(0).lines
        };
        let threads = read(&["threads"]);
        let each = threads.iter().flat_map(|line| {
            let thread = crate::binary::json(line)["thread"].as_str().unwrap().to_owned();
            [read(&["show", &thread]), read(&["messages", &thread])].concat()
        });
        each.collect::<Vec<_>>()
    };
    assert_eq!(shown(&copy), shown(&place.store()));
}

#[test]
fn nothing_is_overwritten_and_a_refused_backup_leaves_nothing() {
    let place = frozen::place();
    let before = names(&place.path());
    let full = place.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("kept"), "mine").unwrap();
    let refused = place.run(["backup", full.to_str().unwrap()]).exits(2);
    assert!(refused.stderr.contains("RN1408") && refused.stderr.contains("is not empty"), "{}", refused.stderr);
    assert_eq!(names(&full), ["kept"]);
    let file = place.file("file", "");
    place.run(["backup", &file]).exits(2);
    let within = place.store().join("copy");
    let refused = place.run(["backup", within.to_str().unwrap()]).exits(2);
    assert!(refused.stderr.contains("lies in the store itself"), "{}", refused.stderr);
    place.run(["backup", "nowhere/copy"]).exits(9);
    let none = place.path().join("none");
    place.run(["backup", "copy", "--store", none.to_str().unwrap()]).exits(9);
    fs::remove_dir_all(&full).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(names(&place.path()), before);

    fs::create_dir(place.path().join("empty")).unwrap();
    place.run(["backup", "empty"]).exits(0);
    place.run(["fsck", "--store", "empty"]).exits(0);
}

#[test]
fn damage_is_not_copied() {
    let place = frozen::place();
    let tables = fs::read_dir(place.store().join("db")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables
        .filter(|path| path.extension().is_some_and(|ending| ending == "sst"))
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    let file = table.unwrap().strip_prefix(place.store()).unwrap().to_owned();
    Damage { file, how: How::Flip { at: 40, bit: 2 } }.apply(&place.store());
    let before = names(&place.path());
    let refused = place.run(["backup", "copy"]).exits(6);
    assert!(refused.stderr.contains("RN1302"), "{}", refused.stderr);
    assert_eq!(names(&place.path()), before);
}

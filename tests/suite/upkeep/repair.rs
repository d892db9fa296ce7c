//! `rondo repair`: from a damaged store comes a whole one beside it, with every whole thread and the beginnings of the
//! others, and everything that is not in it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::damage::{Damage, How, drawn};
use super::fsck::{contents, place};
use crate::binary::{Finished, Place, fixture};
use crate::frozen;

fn repaired(place: &Place, store: &Path, words: &[&str]) -> Finished {
    place.run([&["repair"], words, &["--store", store.to_str().unwrap()]].concat())
}

/// The lines of each thread of a store, by its id: what `show` prints of it.
fn shown(place: &Place, store: &Path) -> BTreeMap<String, Vec<Value>> {
    let read = |words: &[&str]| place.run([words, &["--json", "--store", store.to_str().unwrap()]].concat()).exits(0);
    let threads = read(&["threads"]).json();
    let ids = threads.iter().map(|line| line["thread"].as_str().unwrap().to_owned());
    ids.map(|id| (id.clone(), read(&["show", &id]).json())).collect()
}

/// The digests of the steps in lines of `show`.
fn steps(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["step"].is_string()).map(|line| &line["step"]).collect()
}

/// The lines of steps, and those of the step that was begun if its journal is not lost; without the names of children, of
/// which some may be lost.
fn kept_lines(lines: &[Value], has_journal: bool) -> Vec<Value> {
    let is_kept = |line: &&Value| has_journal || line["event"] != "in_flight";
    let mut lines: Vec<Value> = lines[1..].iter().filter(is_kept).cloned().collect();
    for line in lines.iter_mut().filter_map(Value::as_object_mut) {
        line.remove("child");
    }
    lines
}

/// The log in which the steps of the killed thread are, and how long it is.
fn last_log(store: &Path) -> (PathBuf, usize) {
    let files = fs::read_dir(store.join("db")).unwrap().map(|entry| entry.unwrap().path());
    let log = files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    let size = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap();
    (log.strip_prefix(store).unwrap().to_owned(), size)
}

#[test]
fn a_whole_store_is_left_alone() {
    let place = place();
    let told = place.run(["repair"]).exits(0).text();
    assert!(told.contains("is whole; there is nothing to repair"), "{told}");
    assert!(!place.path().join(".rondo.repaired").exists());
    let line = place.run(["repair", "--json"]).exits(0).event("repair");
    assert_eq!((&line["folder"], &line["faults"]), (&Value::Null, &Value::from(0)));
}

#[test]
fn a_damaged_thread_goes_on_from_its_last_whole_step_to_the_same_head() {
    let place = place();
    let whole = shown(&place, &place.store());
    let killed = whole.keys().last().unwrap().clone();
    let (file, size) = last_log(&place.store());
    Damage { file, how: How::Flip { at: size / 2, bit: 3 } }.apply(&place.store());
    // Every verb that meets the damage names the two that help.
    let refused = place.run(["show", &killed]).exits(6);
    assert!(refused.stderr.contains("`rondo fsck`") && refused.stderr.contains("`rondo repair`"), "{}", refused.stderr);
    let before = contents(&place.store());
    let told = place.run(["repair"]).exits(0).text();
    assert_eq!(contents(&place.store()), before);
    assert!(told.contains(".rondo.repaired is a whole store: "), "{told}");
    let new = place.path().join(".rondo.repaired");
    place.run(["fsck", "--store", new.to_str().unwrap()]).exits(0);
    let mut kept = shown(&place, &new);
    let shortened = kept.remove(&killed).unwrap();
    assert!(kept.iter().all(|(thread, lines)| whole[thread] == *lines));
    let (kept_steps, all) = (steps(&shortened), steps(&whole[&killed]));
    assert!(kept_steps.len() < all.len() && all.starts_with(&kept_steps), "{told}");
    assert_eq!(shortened[0]["status"], "stopped");

    fs::rename(place.store(), place.path().join("damaged")).unwrap();
    fs::rename(&new, place.store()).unwrap();
    let head = place.run(["resume", &killed, "--offline", "--trust", "--json"]).exits(0).event("thread_finished");
    let run = ["run", &fixture("relay"), "--offline", "--trust", "-i", "topic=tides", "--json"];
    assert_eq!(head["head"], place.run(run).exits(0).event("thread_finished")["head"]);
    place.run(["verify"]).exits(0);
}

#[test]
fn whatever_is_damaged_the_rest_is_kept_and_the_losses_are_told() {
    let place = place();
    let whole = shown(&place, &place.store());
    let (mut made, mut shortened) = (0, 0);
    for damage in drawn(&place.store(), 29).take(24) {
        let copy = place.path().join("copy");
        let new = place.path().join("new");
        for folder in [&copy, &new] {
            let _ = fs::remove_dir_all(folder);
        }
        frozen::copy(&place.store(), &copy);
        damage.apply(&copy);
        let before = contents(&copy);
        let faults = place.run(["fsck", "--json", "--store", copy.to_str().unwrap()]).json();
        let repair = repaired(&place, &copy, &[new.to_str().unwrap(), "--json"]);
        assert_eq!(contents(&copy), before, "{damage:?}");
        if repair.code == Some(6) || faults.is_empty() {
            // Nothing can be read, or nothing is damaged.
            assert!(!new.exists() && (faults.is_empty() || !copy.join("db").exists()), "{damage:?}: {repair:?}");
            continue;
        }
        let repair = repair.exits(0);
        made += 1;
        place.run(["fsck", "--store", new.to_str().unwrap()]).exits(0);
        let kept = shown(&place, &new);
        let losses = repair.events("loss");
        let lost = |thread: &str, kind: &str| {
            losses.iter().filter(|loss| loss["kind"] == kind && loss["thread"] == thread).count()
        };
        let touched: BTreeSet<&str> = faults
            .iter()
            .flat_map(|fault| fault["threads"].as_array().unwrap())
            .map(|id| id.as_str().unwrap())
            .collect();
        for (thread, lines) in &whole {
            let Some(found) = kept.get(thread) else {
                let told = faults.iter().any(|fault| fault["what"].as_str().unwrap().contains("missing"));
                assert!(lost(thread, "thread") == 1 || told, "{damage:?}: {thread} {repair:?}");
                continue;
            };
            let (found_steps, all) = (steps(found), steps(lines));
            assert!(all.starts_with(&found_steps), "{damage:?}: {thread}");
            if !touched.contains(thread.as_str()) && found_steps.len() == all.len() {
                // Without a table, older entries may be back, so that totals and journals are not kept.
                let same = |key: &str| found[0][key] == lines[0][key];
                let has_journal = lost(thread, "journal") == 0;
                assert!(
                    kept_lines(found, has_journal) == kept_lines(lines, has_journal) || lost(thread, "note") > 0,
                    "{damage:?}: {thread} {repair:?}"
                );
                assert!(same("head") && same("status") && same("workflow") && same("tags"), "{damage:?}: {thread}");
            }
            if found_steps.len() < all.len() {
                shortened += 1;
                let told = faults.iter().any(|fault| fault["what"].as_str().unwrap().contains("missing"));
                assert!(lost(thread, "step") > 0 || told, "{damage:?}: {thread} {repair:?}");
            }
        }
        if !kept.is_empty() {
            place.run(["verify", "--store", new.to_str().unwrap()]).exits(0);
        }
    }
    assert!(made > 10 && shortened > 2, "{made} stores were made, {shortened} threads shortened");
}

#[test]
fn nothing_is_overwritten_and_a_running_store_is_not_repaired() {
    let place = Place::new();
    let mut run = place.start(["run", &fixture("relay"), "--offline", "-i", "topic=tides", "--json"]);
    while run.event("step_committed")["seq"] != 3 {}
    let busy = place.run(["repair"]).exits(7);
    assert!(busy.stderr.contains("in use by process"), "{}", busy.stderr);
    run.kill();
    let (file, size) = last_log(&place.store());
    Damage { file, how: How::Flip { at: size - 60, bit: 3 } }.apply(&place.store());
    place.file(".rondo.repaired/mine", "kept");
    let refused = place.run(["repair"]).exits(2);
    assert!(refused.stderr.contains("is not empty; nothing was written"), "{}", refused.stderr);
    let inside = place.store().join("new");
    place.run(["repair", inside.to_str().unwrap()]).exits(2);
    let none = place.path().join("none");
    repaired(&place, &none, &[]).exits(9);
    let line = place.run(["repair", "new", "--json"]).exits(0).event("repair");
    assert_eq!(line["folder"], "new");
}

/// Whatever table lost its end, one of `meta` too: the damage is told as damage, and every thread that is still read as it
/// was before is in the repaired store, with what it has spent.
#[test]
fn a_thread_that_can_be_read_is_kept_whichever_table_lost_its_end() {
    let place = Place::new();
    let workflow = "rondo: 1\nname: rows\nroles: { a: { system: You answer. }, p: { kind: human, output: { good: null } } }\n\
        graph: { start: { to: a, prompt: go }, a: { done: { to: a, prompt: more, max: 1, on_max: { to: p, prompt: Good? } } }, p: { good: { to: end } } }\n";
    let file = place.file("w.yaml", workflow);
    let script = place.file("s.yaml", "a: [ { body: one }, { body: two }, { body: three } ]\n");
    for _ in 0..4 {
        place.run(["run", &file, "--script", &script, "--json"]).exits(75);
    }
    let before = shown(&place, &place.store());
    let database = place.store().join("db");
    let tables = fs::read_dir(&database).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<PathBuf> = tables.filter(|path| path.extension().is_some_and(|ending| ending == "sst")).collect();
    assert!(tables.len() > 5, "{tables:?}");
    let mut damaged_tables = 0;
    for table in tables {
        let whole = fs::read(&table).unwrap();
        fs::write(&table, &whole[..whole.len() - 100]).unwrap();
        let examined = place.run(["fsck", "--json"]);
        assert!([Some(0), Some(6)].contains(&examined.code), "{table:?}: {examined:?}");
        if examined.code == Some(6) {
            damaged_tables += 1;
            let readable = before.iter().filter(|(thread, lines)| {
                let read = place.run(["show", thread, "--json"]);
                read.code == Some(0) && read.json() == **lines
            });
            let readable: Vec<_> = readable.collect();
            let to = place.path().join("new");
            repaired(&place, &place.store(), &["new", "--json"]).exits(0);
            let after = shown(&place, &to);
            for (thread, lines) in readable {
                assert_eq!(after.get(thread), Some(lines), "{table:?}");
            }
            place.run(["fsck", "--json", "--store", "new"]).exits(0);
            fs::remove_dir_all(to).unwrap();
        }
        fs::write(&table, whole).unwrap();
    }
    assert!(damaged_tables > 3, "{damaged_tables} tables are read");
}

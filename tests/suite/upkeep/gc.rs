//! `rondo gc`, and the space that `rm` and `prune` give back: what a thread needs stays, whatever happens meanwhile, and
//! the rest goes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;

use super::damage::{Damage, How, splitmix};
use super::transfer::{self, exported};
use crate::binary::{Place, Running, fixture};
use crate::frozen;
use crate::kill::Random;

/// How often a collection is killed.
const KILLS: u32 = 40;

fn gc(place: &Place, words: &[&str]) -> Value {
    place.run([&["gc", "--json"], words].concat()).exits(0).event("gc")
}

fn threads(place: &Place, words: &[&str]) -> Vec<String> {
    let lines = place.run([&["threads", "--json"], words].concat()).exits(0).json();
    lines.iter().map(|line| line["thread"].as_str().unwrap().to_owned()).collect()
}

/// Everything is there, and every request can be built again.
#[track_caller]
fn is_whole(place: &Place) {
    place.run(["fsck", "--json"]).exits(0);
    for thread in threads(place, &[]) {
        place.run(["verify", &thread]).exits(0);
    }
}

/// The size of a folder on the device.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let about = fs::symlink_metadata(&path).unwrap();
            about.blocks() * 512 + if about.is_dir() { disk_bytes(&path) } else { 0 }
        })
        .sum()
}

/// Threads in every state, one of them with requests that a hook rewrote, and a batch.
fn every_kind() -> Place {
    let place = transfer::place();
    place.file(
        "mail/workflow.yaml",
        "rondo: 1\nname: mail\nroles: { clerk: { system: You file. } }\ngraph:\n  start: { to: clerk, prompt: Write to \
         ada@example.com. }\n  clerk: { done: { to: end } }\nhooks: [ { use: command, name: guard, at: model } ]\n",
    );
    place.file("mail/script.yaml", "clerk: [ { body: filed } ]\n");
    place.file("mask.py", fs::read_to_string(fixture("hooks/mask.py")).unwrap());
    place.file("rondo.toml", "[hook.guard]\nargv = [\"python3\", \"mask.py\"]\ntimeout = \"30s\"\n");
    let mut mail = place.command(["run", "mail", "--offline", "--trust", "--json"]);
    mail.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    Running::of(mail).finish().exits(0);
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n{\"topic\": \"dunes\"}\n");
    place.run(["run", &fixture("relay"), "--offline", "--trust", "--input-file", "topics.jsonl", "--json"]).exits(0);
    place
}

#[test]
fn what_threads_need_stays_and_they_go_on_as_before() {
    let place = every_kind();
    let copy = place.path().join("copy");
    frozen::copy(&place.store(), &copy);
    let all = exported(&place, &["--all"]);
    gc(&place, &[]);
    assert_eq!(exported(&place, &["--all"]), all);
    assert_eq!(gc(&place, &[])["objects"], 0);
    is_whole(&place);

    // Without one of them, which is no child and no line of the batch, the others are what they were.
    let done = threads(&place, &["--status", "done"]);
    let deleted = place.run(["rm", &done[0], "--yes", "--json"]).exits(0).json();
    let gone: BTreeSet<&str> = deleted.iter().map(|line| line["thread"].as_str().unwrap()).collect();
    let rest = threads(&place, &[]);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    assert!(!gone.is_empty() && rest.iter().all(|thread| !gone.contains(thread)));
    gc(&place, &[]);
    is_whole(&place);
    let before = exported(&place, &[&rest[..], &["--store", "copy"]].concat());
    assert_eq!(exported(&place, &rest), before);

    // The thread that was killed has a journal; it comes to the same head as without a collection.
    let killed = threads(&place, &["--status", "stopped"]).pop().unwrap();
    place.run(["trust", "--store", "copy", "--yes"]);
    let heads = [".rondo", "copy"].map(|store| {
        let words = ["resume", &killed, "--offline", "--trust", "--json", "--store", store];
        place.run(words).exits(0).event("thread_finished")["head"].clone()
    });
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn the_space_of_deleted_threads_is_given_back() {
    let place = Place::new();
    // Texts that no compression makes shorter.
    let (mut state, mut script) = (1, "writer:\n".to_owned());
    for _ in 0..24 {
        let words: Vec<String> = (0..2000).map(|_| format!("{:016x}", splitmix(&mut state))).collect();
        script.extend(["  - { body: \"", &words.concat(), "\" }\n"]);
    }
    place.file("long.yaml", &script);
    place.file(
        "long/workflow.yaml",
        "rondo: 1\nname: long\nroles: { writer: { system: You write. } }\ngraph:\n  start: { to: writer, prompt: Go. }\n  \
         writer: { done: { to: writer, prompt: On., max: 23, on_max: { to: end } } }\n",
    );
    let run = || {
        let run = place.run(["run", "long", "--script", "long.yaml", "--trust", "--json"]).exits(0);
        run.event("thread_started")["thread"].as_str().unwrap().to_owned()
    };
    let small = emptied(&place);
    let first = run();
    let dry = gc(&place, &["--dry-run"]);
    assert_eq!((&dry["objects"], &dry["disk_bytes_after"], &dry["deleted"]), (&0.into(), &Value::Null, &false.into()));
    let full = disk_bytes(&place.store());
    assert!(full > small + (1 << 20), "{full}");
    let told = place.run(["rm", &first, "--yes"]).exits(0);
    assert!(told.stderr.contains("that no other thread needs; the store took"), "{}", told.stderr);
    assert!(disk_bytes(&place.store()) < small + (1 << 19), "{}", disk_bytes(&place.store()));

    run();
    place.run(["prune", "--older-than", "0s", "--yes"]).exits(0);
    assert!(disk_bytes(&place.store()) < small + (1 << 19), "{}", disk_bytes(&place.store()));

    // Retention: what would go, what is asked, and what goes.
    run();
    let kept = run();
    let dry = place.run(["gc", "--keep", "1", "--dry-run", "--json"]).exits(0);
    let [deletion, line] = &dry.json()[..] else { panic!("{dry:?}") };
    assert_eq!((&deletion["event"], &deletion["deleted"]), (&"deletion".into(), &false.into()));
    // The other thread has the same transcripts.
    assert_eq!((&line["threads"], &line["objects"]), (&1.into(), &0.into()));
    let all = gc(&place, &["--keep", "0", "--dry-run"]);
    assert!(all["objects"].as_u64().unwrap() > 24 && all["threads"] == 2, "{all}");
    let unconfirmed = place.run(["gc", "--older-than", "0s", "--json"]).exits(2);
    assert_eq!(unconfirmed.event("error")["code"], "RN1421");
    assert_eq!(threads(&place, &[]).len(), 2);
    let line = gc(&place, &["--keep", "1", "--yes"]);
    assert_eq!((&line["threads"], &line["deleted"]), (&1.into(), &true.into()));
    assert_eq!(threads(&place, &[]), [kept]);
    is_whole(&place);
    let line = gc(&place, &["--older-than", "0s", "--yes"]);
    assert_eq!(line["disk_bytes_after"], disk_bytes(&place.store()));
    assert!(line["objects"].as_u64().unwrap() > 24, "{line}");
}

/// The size of a store that holds nothing any more.
fn emptied(place: &Place) -> u64 {
    place.run(["gc"]).exits(2);
    place.run(["run", &fixture("relay"), "--offline", "--trust", "-i", "topic=tides", "--json"]).exits(0);
    gc(place, &["--keep", "0", "--yes"]);
    disk_bytes(&place.store())
}

#[test]
fn threads_run_and_are_read_while_garbage_is_collected() {
    const RUNS: usize = 400;
    let place = Place::new();
    // Threads on one topic have the same objects: what a deleted one leaves is what a later one is about to write.
    let topics = (0..RUNS).map(|number| format!("{{\"topic\": \"tide {}\"}}\n", number % 6));
    place.file("topics.jsonl", topics.collect::<String>());
    let words = ["--offline", "--trust", "--input-file", "topics.jsonl", "--concurrency", "2", "--json"];
    let mut run = place.start([&["run", &fixture("relay")][..], &words].concat());
    run.event("step_committed");
    let has_ended = AtomicBool::new(false);
    let is_over = || has_ended.load(Ordering::SeqCst);
    let (deleted, objects) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over() {
                for words in [&["show", "last"][..], &["messages", "last"], &["verify", "last"], &["fsck"]] {
                    // The thread may have been deleted, but nothing that is read is damaged.
                    let read = place.run(words);
                    assert!([0, 2, 7].contains(&read.code.unwrap()), "{words:?}: {read:?}");
                }
            }
        });
        let collecting = scope.spawn(|| {
            let mut sums = (0, 0);
            while !is_over() {
                let collected = place.run(["gc", "--keep", "0", "--yes", "--json"]);
                if collected.code == Some(7) {
                    // A thread that has just ended is still driven.
                    assert_eq!(collected.event("error")["code"], "RN1304", "{collected:?}");
                    continue;
                }
                let line = collected.exits(0).event("gc");
                sums.0 += line["threads"].as_u64().unwrap();
                sums.1 += line["objects"].as_u64().unwrap();
            }
            sums
        });
        let finished = run.finish();
        has_ended.store(true, Ordering::SeqCst);
        assert_eq!(finished.exits(0).events("line").len(), RUNS);
        collecting.join().unwrap()
    });
    assert!(deleted > 50 && objects > 50, "{deleted} threads, {objects} objects");
    is_whole(&place);
    gc(&place, &["--keep", "0", "--yes"]);
    assert_eq!(gc(&place, &[])["objects"], 0);
    place.run(["fsck"]).exits(0);
}

#[test]
fn a_head_that_only_a_refused_answer_was_for_is_written_again() {
    let place = Place::new();
    place.file(
        "clerk/workflow.yaml",
        "rondo: 1\nname: clerk\nroles: { clerk: { system: You file. } }\ngraph:\n  start: { to: clerk, prompt: File. }\n  \
         clerk:\n    done: { to: end }\n    on_error: { to: clerk, prompt: Again., max: 1, on_max: { to: fail } }\n\
         hooks: [ { use: command, name: guard, at: model } ]\n",
    );
    place.file("clerk/script.yaml", "clerk: [ { raw: no }, { raw: no }, { raw: no }, { body: filed } ]\n");
    // Rewrites the messages of the first visit under the role's own head, and holds the second one up.
    let rewritten =
        r#"{"decision":"rewrite","call":{"messages":[{"role":"user","parts":[{"kind":"text","text":"Sing."}]}]}}"#;
    place.file("guard.sh", format!("case $(cat) in *'\"visit\":1'*) echo '{rewritten}';; *) cat gate;; esac\n"));
    let settings = "[hook.guard]\nargv = [\"sh\", \"guard.sh\"]\ncwd = \"workspace\"\ntimeout = \"60s\"\n";
    place.file("rondo.toml", settings);
    let gate = place.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut run = place.command(["run", "clerk", "--offline", "--trust", "--json"]);
    run.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let mut run = Running::of(run);
    while run.event("step_started")["visit"] != 2 {}
    gc(&place, &[]);
    fs::write(&gate, "").unwrap();
    run.finish().exits(0);
    is_whole(&place);
}

#[test]
fn a_kill_during_a_collection_leaves_a_whole_store() {
    let place = every_kind();
    // Equal threads would share all their objects.
    let topics = (0..60).map(|number| serde_json::json!({"topic": format!("topic {number}")}).to_string() + "\n");
    place.file("more.jsonl", topics.collect::<Vec<_>>().concat());
    let run =
        ["run", &fixture("relay"), "--offline", "--trust", "--input-file", "more.jsonl", "--tag", "old", "--json"];
    place.run(run).exits(0);
    let all = threads(&place, &[]);
    let old: BTreeSet<String> = threads(&place, &["--tag", "old"]).into_iter().collect();
    let rest: Vec<&str> = all.iter().filter(|thread| !old.contains(*thread)).map(String::as_str).collect();
    let expected = exported(&place, &rest);
    let copy = place.path().join("copy");
    frozen::copy(&place.store(), &copy);
    let began = Instant::now();
    let deleted = gc(&place, &["--keep", "0", "--yes"]);
    let took = began.elapsed();
    assert!(deleted["objects"].as_u64().unwrap() > 60, "{deleted}");
    let mut random = Random::seeded();
    for _ in 0..KILLS {
        fs::remove_dir_all(place.store()).unwrap();
        frozen::copy(&copy, &place.store());
        // Their objects are garbage afterwards; a deletion is a test of its own.
        let mut collecting = place.start(["prune", "--tag", "old", "--yes"]);
        collecting.line_until(Instant::now() + took.mul_f64(random.fraction()));
        collecting.kill();
        place.run(["fsck", "--json"]).exits(0);
        assert_eq!(exported(&place, &rest), expected);
        let mut collecting = place.start(["gc"]);
        collecting.line_until(Instant::now() + took.mul_f64(random.fraction()));
        collecting.kill();
        place.run(["fsck", "--json"]).exits(0);
        assert_eq!(exported(&place, &rest), expected);
    }
    place.run(["prune", "--tag", "old", "--yes"]);
    gc(&place, &[]);
    assert_eq!(threads(&place, &[]).len(), rest.len());
    is_whole(&place);
}

#[test]
fn a_damaged_store_is_not_collected() {
    let place = frozen::place();
    place.trust(&["--store"]);
    let done = threads(&place, &["--status", "done"]);
    place.run(["rm", &done[0], "--yes"]).exits(0);
    gc(&place, &[]);
    let objects = || {
        let whole = place.run(["fsck"]).exits(0).text();
        whole.split(" and ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    };
    let before = objects();
    let tables = fs::read_dir(place.store().join("db")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables
        .filter(|path| path.extension().is_some_and(|ending| ending == "sst"))
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    let damage = || Damage {
        file: table.as_ref().unwrap().strip_prefix(place.store()).unwrap().to_owned(),
        how: How::Flip { at: 40, bit: 2 },
    };
    damage().apply(&place.store());
    for words in [&["gc"][..], &["gc", "--dry-run"]] {
        let refused = place.run(words).exits(6);
        assert!(refused.stderr.contains("RN1302") && refused.stderr.contains("no object is deleted"), "{refused:?}");
        assert!(refused.stderr.contains("`rondo fsck`"), "{refused:?}");
    }
    damage().apply(&place.store());
    assert_eq!(objects(), before);
    is_whole(&place);
}

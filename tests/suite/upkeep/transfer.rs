//! `rondo export` and `rondo import`: threads as lines, and back, whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rondo_protocol::Digest;
use serde_json::{Value, json};

use super::damage::splitmix;
use crate::binary::{Finished, Place, Running, fixture, json as parsed};
use crate::frozen;

/// What `export` writes, with the line break at the end.
pub fn exported(place: &Place, words: &[&str]) -> String {
    let mut text = place.run([&["export"], words].concat()).exits(0).text();
    text.push('\n');
    text
}

fn import(place: &Place, file: &str, store: &str) -> Finished {
    place.run(["import", file, "--store", store, "--json"])
}

/// The lines with the counts and the digest that the last one should have: as a forger would leave them.
fn sealed(lines: &[Value]) -> String {
    let mut text = written(lines);
    let count = |name: &str| lines.iter().filter(|line| line.get(name).is_some()).count();
    let sha256 = Digest::sha256(text.as_bytes()).to_string();
    let end = json!({"threads": count("thread"), "steps": count("step"), "objects": count("object"),
                     "batches": count("batch"), "sha256": sha256});
    text.push_str(&written(&[json!({ "end": end })]));
    text
}

fn written(lines: &[Value]) -> String {
    lines.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n")
}

fn lines(text: &str) -> Vec<Value> {
    let mut lines: Vec<Value> = text.lines().map(parsed).collect();
    lines.pop();
    lines
}

/// The number of the first line that holds a `name`, from 1, and the line.
fn find<'a>(lines: &'a mut [Value], name: &str) -> (usize, &'a mut Value) {
    let at = lines.iter().position(|line| line.get(name).is_some()).unwrap();
    (at + 1, &mut lines[at])
}

/// Threads in every state: done, waiting with open lanes, forked, with children, and one that was killed in a step.
pub fn place() -> Place {
    let place = frozen::place();
    let mut run = place.start(["run", &fixture("relay"), "--offline", "--trust", "-i", "topic=tides", "--json"]);
    while run.event("step_committed")["seq"] != 6 {}
    run.kill();
    place.trust(&["--store"]);
    place
}

#[test]
fn export_import_and_export_give_the_same_bytes() {
    let place = place();
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n{\"topics\": \"dunes\"}\n");
    place.run(["run", "review-loop", "--offline", "--input-file", "topics.jsonl", "--json"]).exits(2);
    let all = exported(&place, &["--all"]);
    assert_eq!(all.matches("\n{\"batch\":").count(), 1);
    let file = place.file("all.jsonl", &all);
    let line = import(&place, &file, "other").exits(0).event("import");
    let threads = place.run(["threads", "--json"]).exits(0).lines;
    assert_eq!((&line["threads"], &line["present"]), (&json!(threads.len()), &json!(0)));
    assert_eq!(exported(&place, &["--all", "--store", "other"]), all);
    place.run(["fsck", "--json", "--store", "other"]).exits(0);

    // Everything reads the same, and a second import changes nothing.
    let again = import(&place, &file, "other").exits(0).event("import");
    assert_eq!((&again["threads"], &again["present"]), (&json!(0), &json!(threads.len())));
    for thread in &threads {
        let thread = parsed(thread)["thread"].as_str().unwrap().to_owned();
        for words in [&["show"][..], &["messages"], &["verify"], &["prefix"]] {
            let read = |store: &str| place.run([words, &[&thread, "--json", "--store", store]].concat());
            let (here, there) = (read(".rondo"), read("other"));
            assert_eq!((here.code, here.lines), (there.code, there.lines), "{words:?} {thread}");
        }
    }
    let one = place.run(["threads", "--status", "done", "--json"]).exits(0).json();
    for thread in one.iter().map(|line| line["thread"].as_str().unwrap()) {
        let text = exported(&place, &[thread]);
        let file = place.file("one.jsonl", &text);
        let _ = fs::remove_dir_all(place.path().join("single"));
        import(&place, &file, "single").exits(0);
        assert_eq!(exported(&place, &[thread, "--store", "single"]), text);
    }
}

#[test]
fn a_thread_comes_with_all_that_it_needs_and_nothing_else() {
    let place = place();
    let all = place.run(["threads", "--json"]).exits(0).json();
    let killed = all.last().unwrap()["thread"].as_str().unwrap();
    let alone = lines(&exported(&place, &[killed]));
    let threads: Vec<&Value> = alone.iter().filter_map(|line| line.get("thread")).collect();
    assert_eq!(threads.iter().map(|thread| &thread["thread"]).collect::<Vec<_>>(), [killed]);
    // A thread that was forked, or has children, brings the others, each after those that it needs.
    let mut seen = Vec::new();
    for line in lines(&exported(&place, &["--all"])).iter().filter_map(|line| line.get("thread")) {
        for needed in [&line["base"]["thread"], &line["parent"]["thread"]].into_iter().filter(|id| id.is_string()) {
            assert!(seen.contains(needed), "{needed} stands behind {line}");
        }
        seen.push(line["thread"].clone());
    }
    assert_eq!(seen.len(), all.len());
    let whole = lines(&exported(&place, &["--all"]));
    let digests: Vec<&Value> =
        whole.iter().filter_map(|line| line.get("object")).map(|object| &object["digest"]).collect();
    let once: std::collections::BTreeSet<&str> = digests.iter().map(|digest| digest.as_str().unwrap()).collect();
    assert_eq!(once.len(), digests.len());
    place.run(["export"]).exits(2);
    place.run(["export", "nothing"]).exits(2);
}

#[test]
fn an_imported_thread_goes_on_as_the_original_would() {
    let place = place();
    let killed = place.run(["threads", "--json"]).exits(0).json().last().unwrap()["thread"].clone();
    let killed = killed.as_str().unwrap();
    let file = place.file("killed.jsonl", exported(&place, &[killed]));
    import(&place, &file, "other").exits(0);
    let go_on = |store: &str| {
        let words = ["resume", killed, "--offline", "--trust", "--json", "--store", store];
        place.run(words).exits(0).event("thread_finished")["head"].clone()
    };
    assert_eq!(go_on("other"), go_on(".rondo"));
    // From here on the two are the same again.
    let file = place.file("ended.jsonl", exported(&place, &[killed]));
    import(&place, &file, "other").exits(0);
    let fork = ["fork", killed, "--at", "2", "--offline", "--trust", "--json", "--store", "other"];
    place.run(fork).exits(0);
    place.run(["fsck", "--json", "--store", "other"]).exits(0);
}

#[test]
fn a_thread_that_went_on_elsewhere_is_refused_and_nothing_of_the_file_stays() {
    let place = place();
    let killed = place.run(["threads", "--json"]).exits(0).json().last().unwrap()["thread"].clone();
    let killed = killed.as_str().unwrap();
    let early = place.file("early.jsonl", exported(&place, &[killed]));
    place.run(["resume", killed, "--offline", "--trust", "--json"]).exits(0);
    let late = place.file("late.jsonl", exported(&place, &["--all"]));
    import(&place, &early, "other").exits(0);
    let before = exported(&place, &["--all", "--store", "other"]);
    let refused = import(&place, &late, "other").exits(2).event("error");
    assert_eq!(refused["code"], "RN1426");
    let deletion = format!("`rondo rm {killed} --store other`");
    assert!(refused["message"].as_str().unwrap().contains(&deletion), "{refused}");
    assert_eq!(exported(&place, &["--all", "--store", "other"]), before);
    // The other way round: what is here is further.
    let refused = import(&place, &early, ".rondo").exits(2).event("error");
    assert_eq!(refused["code"], "RN1426");
}

/// Imports bytes from standard input.
fn piped(place: &Place, bytes: &[u8]) -> Finished {
    let mut command = place.command(["import", "-", "--store", "other", "--json"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A refused file need not be read to its end.
    let _ = stdin.write_all(bytes);
    drop(stdin);
    Running::child(child).finish()
}

/// The file is refused at a line, and nothing of it is stored.
#[track_caller]
fn refused(place: &Place, bytes: &[u8], line: usize, why: &str) {
    let error = piped(place, bytes).exits(2).event("error");
    assert_eq!(error["code"], "RN1424", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("line {line}: ")) && message.contains(why),
        "not {line} and {why:?}: {message}"
    );
    assert!(!place.path().join("other").exists(), "{message}");
}

#[test]
fn a_file_that_was_cut_or_changed_anywhere_is_refused_with_the_line() {
    let place = place();
    let text = exported(&place, &["--all"]);
    let bytes = text.as_bytes();
    // Another seal is that of another user, and no damage.
    let seal_at = text.find("\"seal\":").unwrap();
    let mut state = 3;
    for _ in 0..40 {
        let at = usize::try_from(splitmix(&mut state) % seal_at as u64).unwrap();
        let line = bytes[..at].split(|byte| *byte == b'\n').count();
        refused(&place, &bytes[..at], line, "the file was cut");
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (splitmix(&mut state) % 8);
        let error = piped(&place, &flipped).exits(2).event("error");
        let code = error["code"].as_str().unwrap();
        assert!(["RN1424", "RN1425"].contains(&code), "byte {at}: {error}");
        assert!(error["message"].as_str().unwrap().starts_with("line "), "{error}");
        assert!(!place.path().join("other").exists());
    }
    refused(&place, b"", 1, "the file was cut");
    refused(&place, b"{}\n", 1, "this is no export");
    refused(&place, b"\0\xff\n", 1, "this is no export");
    let count = text.lines().count();
    refused(&place, format!("{text}{{}}\n").as_bytes(), count + 1, "after the last line");
    refused(&place, &vec![b' '; 65 << 20], 1, "the line is too long");
    let newer = text.replacen("{\"export\":{\"format\":2}}", "{\"export\":{\"format\":3,\"new\":{}}}", 1);
    let error = piped(&place, newer.as_bytes()).exits(2).event("error");
    assert_eq!(error["code"], "RN1425");
    assert_eq!(piped(&place, bytes).exits(0).event("import")["present"], 0);
}

#[test]
fn a_forger_who_mends_the_last_line_gets_no_further() {
    let place = place();
    let whole = lines(&exported(&place, &["--all"]));
    // What is not forged is taken.
    piped(&place, sealed(&whole).as_bytes()).exits(0);
    fs::remove_dir_all(place.path().join("other")).unwrap();
    let attempt = |why: &str, forge: &dyn Fn(&mut Vec<Value>) -> usize| {
        let mut lines = whole.clone();
        let line = forge(&mut lines);
        refused(&place, sealed(&lines).as_bytes(), line, why);
    };
    attempt("is not the workflow that its digest", &|lines| {
        let (at, line) = find(lines, "object");
        line["object"]["value"]["name"] = json!("another");
        at
    });
    attempt("the step is not what its digest", &|lines| {
        let (at, line) = find(lines, "step");
        line["step"]["value"]["answer"] = json!("another");
        at
    });
    attempt("does not follow its predecessor", &|lines| {
        // A step of its own digest, which names no predecessor.
        let at = lines.iter().position(|line| line["step"]["seq"] == 3).unwrap();
        let value = &mut lines[at]["step"]["value"];
        value["prev"] = json!([]);
        let digest = Digest::of_bytes(rondo_protocol::digest::Kind::Step, value.to_string().as_bytes());
        lines[at]["step"]["digest"] = json!(digest.to_string());
        at + 1
    });
    attempt("is not the next one", &|lines| {
        let at = lines.iter().position(|line| line["step"]["seq"] == 2).unwrap();
        lines.remove(at);
        lines[at..].iter().position(|line| line.get("step").is_some()).unwrap() + at + 1
    });
    attempt("ends at step", &|lines| {
        let (at, line) = find(lines, "thread");
        line["thread"]["seq"] = json!(line["thread"]["seq"].as_u64().unwrap() + 1);
        at
    });
    attempt("does not end at its last step", &|lines| {
        let at = lines.iter().position(|line| line["thread"]["status"] == "done").unwrap();
        lines[at]["thread"]["head"] = json!("00".repeat(32));
        at + 1
    });
    attempt("which was not given before", &|lines| {
        let (at, _) = find(lines, "object");
        lines.remove(at - 1);
        // The start that names it.
        lines.iter().position(|line| line["object"]["kind"] == "start").unwrap() + 1
    });
    attempt("was given already", &|lines| {
        let (at, line) = find(lines, "object");
        let copy = line.clone();
        lines.insert(at, copy);
        at + 1
    });
    attempt("was given already", &|lines| {
        let (_, line) = find(lines, "thread");
        let copy = line.clone();
        lines.push(copy);
        lines.len()
    });
    attempt("which was not given before", &|lines| {
        let at = lines.iter().position(|line| line["thread"]["parent"].is_object()).unwrap();
        lines[at]["thread"]["parent"]["thread"] = json!("01k9b6x2e0q8v3m5n7p9r1t4wz");
        at + 1
    });
    attempt("cannot be visit", &|lines| {
        let (at, line) = find(lines, "step");
        line["step"]["visit"] = json!(7);
        at
    });
    attempt("it belongs to a thread", &|lines| {
        let (at, line) = find(lines, "step");
        let step = line.clone();
        lines.remove(at - 1);
        lines.insert(1, step);
        2
    });
    attempt("unknown field", &|lines| {
        let (at, line) = find(lines, "thread");
        line["thread"]["more"] = json!(1);
        at
    });
    // A member that stands twice: one reader takes the first, another the last.
    let text = sealed(&whole);
    let line = text.lines().position(|line| line.starts_with("{\"thread\":")).unwrap() + 1;
    let twice = text.replacen("\"status\":\"done\"", "\"status\":\"done\",\"status\":\"failed\"", 1);
    let error = piped(&place, twice.as_bytes()).exits(2).event("error");
    assert!(error["message"].as_str().unwrap().contains("duplicate field"), "{line}: {error}");
    assert!(!place.path().join("other").exists());
}

/// A file with many threads.
fn many(place: &Place) -> (PathBuf, usize) {
    place.file("topics.jsonl", "{\"topic\": \"tides\"}\n".repeat(60));
    let run = ["run", &fixture("relay"), "--offline", "--trust", "--input-file", "topics.jsonl", "--json"];
    place.run(run).exits(0);
    let file = place.file("many.jsonl", exported(place, &["--all"]));
    (file.into(), 60)
}

#[test]
fn a_killed_import_leaves_all_or_nothing() {
    let place = Place::new();
    let (file, count) = many(&place);
    let other = place.path().join("other");
    let threads = |place: &Place| place.run(["threads", "--json", "--store", "other"]).exits(0).lines.len();
    let words = ["import", file.to_str().unwrap(), "--store", "other", "--json"];
    let took = place.run(words).exits(0).took;
    let (mut none, mut all) = (0, 0);
    for kill in 0..24_u32 {
        let _ = fs::remove_dir_all(&other);
        place.run(["run", "review-loop", "--offline", "-i", "topic=tides", "--store", "other"]).exits(0);
        let run = place.start(words);
        std::thread::sleep(took * kill / 20);
        run.kill();
        match threads(&place) {
            1 => none += 1,
            found if found == count + 1 => all += 1,
            found => panic!("killed at {kill}/20 of {took:?}: {found} threads"),
        }
        place.run(["fsck", "--json", "--store", "other"]).exits(0);
        place.run(words).exits(0);
        assert_eq!(threads(&place), count + 1);
        let examined = place.run(["fsck", "--store", "other"]).exits(0);
        assert_eq!(examined.stderr, "");
    }
    assert!(none > 0 && all + none == 24, "{none} without the threads, {all} with them");
}

#[test]
fn threads_are_imported_beside_a_run_that_holds_the_store() {
    let place = Place::new();
    let (file, count) = many(&place);
    let run = ["run", &fixture("relay"), "--offline", "--trust", "--input-file", "topics.jsonl", "--json"];
    let mut run = place.start(run.into_iter().chain(["--store", "other"]));
    run.event("step_committed");
    import(&place, file.to_str().unwrap(), "other").exits(0);
    run.finish_within(Duration::from_mins(1)).exits(0);
    assert_eq!(place.run(["threads", "--json", "--store", "other"]).exits(0).lines.len(), 2 * count);
    place.run(["fsck", "--json", "--store", "other"]).exits(0);
}

#[cfg(feature = "caches")]
#[test]
fn a_warm_import_pays_for_nothing_again() {
    let place = Place::new();
    let run = |store: &str| {
        place.run(["run", "review-loop", "--offline", "-i", "topic=tides", "--json", "--store", store]).exits(0)
    };
    run(".rondo");
    let file = place.file("thread.jsonl", exported(&place, &["last"]));
    let answered_by = |run: &Finished| -> Vec<String> {
        let calls = run.events("call_settled");
        calls.iter().map(|call| call["answered_by"].as_str().unwrap().to_owned()).collect()
    };
    import(&place, &file, "cold").exits(0);
    assert!(answered_by(&run("cold")).iter().all(|by| by == "port"));
    let said = place.run(["import", &file, "--warm", "--store", "warm"]).exits(0).text();
    assert!(said.contains("6 new entries"), "{said}");
    let warm = answered_by(&run("warm"));
    assert!(warm.len() == 6 && warm.iter().all(|by| by == "response_cache"), "{warm:?}");
}

#[test]
fn what_is_no_file_or_a_foreign_store_is_refused() {
    let place = Place::new();
    place.run(["import", "missing.jsonl"]).exits(2);
    let folder = place.path();
    place.run(["import", Path::new(&folder).to_str().unwrap()]).exits(2);
    assert!(!place.store().exists());
}

/// Somebody else's file, of threads in every state: they are read, verified and forked as one's own, and nothing but their
/// steps was taken.
#[test]
fn another_users_threads_are_what_their_steps_prove() {
    let place = place();
    let before: Vec<Value> = place.run(["threads", "--json"]).exits(0).json();
    let text = exported(&place, &["--all"]);
    let at = text.find("\"seal\":").unwrap();
    let unsealed = format!("{}\"seal\":null}}}}\n", &text[..at]);
    let line = import(&place, &place.file("theirs.jsonl", &unsealed), "other").exits(0).event("import");
    assert_eq!((&line["own"], &line["threads"]), (&json!(false), &json!(before.len())));
    place.run(["fsck", "--json", "--store", "other"]).exits(0);
    let after: Vec<Value> = place.run(["threads", "--json", "--store", "other"]).exits(0).json();
    for (before, after) in before.iter().zip(&after) {
        let thread = after["thread"].as_str().unwrap();
        assert_eq!((&after["head"], &after["workflow"]), (&before["head"], &before["workflow"]));
        let (was, is) = (before["status"].as_str().unwrap(), after["status"].as_str().unwrap());
        assert!(was == is || matches!(was, "waiting" | "running" | "cancelled") && is == "stopped", "{was} {is}");
        assert_eq!((&after["imported"], &after["label"], &after["tags"]), (&json!(true), &Value::Null, &json!([])));
        assert_eq!(after["totals"]["steps"], before["totals"]["steps"]);
        place.run(["verify", thread, "--store", "other"]).exits(0);
        place.run(["fork", thread, "--store", "other", "--json"]).exits(3);
    }
    // They cost somebody else.
    let usage = place.run(["usage", "--store", "other", "--json"]).exits(0).event("usage");
    assert_eq!((&usage["steps"], &usage["model_calls"]), (&json!(0), &json!(0)), "{usage}");
}

//! What the reading verbs say of a store: the same bytes each time, sums that fit, digests that can be recomputed, and
//! damage that is told and never passed over.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::{Finished, Place, fixture};

/// A store with two threads of the relay. The second was killed, so that its end stands in the log alone.
fn place() -> Place {
    let place = Place::new();
    let words = ["run", &fixture("relay"), "--offline", "-i", "topic=tides", "--json"];
    place.run(words).exits(0);
    let mut run = place.start(words);
    while run.event("step_committed")["seq"] != 6 {}
    run.kill();
    place
}

#[test]
fn what_is_shown_of_a_thread_is_the_same_each_time_and_adds_up() {
    let place = place();
    let shown = place.run(["show", "last", "--json"]).exits(0);
    assert_eq!(place.run(["show", "last", "--json"]).exits(0).lines, shown.lines);
    let lines = shown.json();
    let (thread, rest) = lines.split_first().unwrap();
    // The visit after the last step may have been killed between its answer and its commit.
    let (steps, in_flight): (Vec<&Value>, Vec<&Value>) = rest.iter().partition(|line| line["event"] == "step");
    assert!(in_flight.len() <= 1 && in_flight.iter().all(|line| line["event"] == "in_flight"), "{in_flight:?}");
    assert_eq!(thread["in_flight"].is_null(), in_flight.is_empty());
    assert_eq!((&thread["event"], &thread["status"]), (&Value::from("thread"), &Value::from("stopped")));
    assert_eq!(thread["totals"]["steps"], steps.len());
    assert_eq!(thread["head"], steps.last().unwrap()["step"]);
    let calls: usize = steps
        .iter()
        .filter_map(|step| step["transcript"]["entries"].as_array())
        .flatten()
        .filter(|entry| entry["kind"] == "model")
        .count();
    assert_eq!(thread["totals"]["model_calls"], calls);
    for (at, step) in steps.iter().enumerate() {
        assert_eq!(step["seq"], at + 1);
        let before = at.checked_sub(1).map(|before| steps[before]["step"].clone());
        assert_eq!(step["prev"], Value::Array(before.into_iter().collect()));
    }
    let listed = place.run(["threads", "--json"]).exits(0);
    assert_eq!((listed.lines.len(), listed.lines.last()), (2, shown.lines.first()));
}

#[test]
fn each_request_is_shown_as_its_transcript_names_it() {
    let place = place();
    for step in place.run(["show", "last", "--json"]).exits(0).events("step") {
        let Some(entries) = step["transcript"]["entries"].as_array() else { continue };
        let recorded: Vec<&Value> =
            entries.iter().filter(|entry| entry["kind"] == "model").map(|entry| &entry["request"]).collect();
        let (role, visit) = (step["role"].as_str().unwrap(), step["visit"].to_string());
        let shown = place.run(["messages", "last", "--role", role, "--visit", &visit, "--json"]).exits(0).json();
        assert_eq!(shown.iter().map(|line| &line["digest"]).collect::<Vec<_>>(), recorded);
    }
    let verified = place.run(["verify", "last", "--json"]).exits(0).event("verified");
    assert_eq!(verified["faults"], 0);
}

/// The verbs that read, each with what it says of a whole store.
fn readings(place: &Place, store: &Path) -> Vec<Finished> {
    let store = store.to_str().unwrap();
    let [first, second] = [&["verify", "last", "--json"][..], &["show", "last", "--json"]];
    let [third, fourth] = [&["threads", "--json"][..], &["usage", "--by", "role", "--json"]];
    let words = [first, second, third, fourth, &["messages", "--role", "writer", "--visit", "1", "--json"]];
    words.map(|words| place.run([words, &["--store", store]].concat())).into_iter().collect()
}

/// Copies the store to a folder of that name.
fn copied(place: &Place, name: &str) -> PathBuf {
    let target = place.path().join(name);
    std::fs::create_dir_all(target.join("db")).unwrap();
    for below in ["", "db"] {
        for entry in std::fs::read_dir(place.store().join(below)).unwrap() {
            let source = entry.unwrap().path();
            if source.is_file() {
                std::fs::copy(&source, target.join(below).join(source.file_name().unwrap())).unwrap();
            }
        }
    }
    target
}

/// Holds the readings of a damaged copy to those of the whole store: what is not told as damage is what was there.
#[track_caller]
fn whole_or_told(place: &Place, copy: &Path, whole: &[Finished], what: &str) -> bool {
    let mut is_told = false;
    for (read, whole) in readings(place, copy).into_iter().zip(whole) {
        match read.code {
            Some(0) => assert_eq!(read.lines, whole.lines, "{what}"),
            Some(6) => is_told = true,
            _ => panic!("{what}: {read:?}"),
        }
    }
    is_told
}

/// The files of the database that hold what was stored.
fn files(place: &Place) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(place.store().join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| has_ending(name, "sst") || has_ending(name, "log") || name.starts_with("MANIFEST"))
        .collect();
    names.sort();
    names
}

fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == ending)
}

#[test]
fn a_flipped_byte_is_told_or_does_not_matter() {
    let place = place();
    let whole = readings(&place, &place.store());
    for read in &whole {
        assert_eq!(read.code, Some(0), "{read:?}");
    }
    let mut told = 0;
    for name in files(&place) {
        let size = std::fs::metadata(place.store().join("db").join(&name)).unwrap().len();
        for part in [1, 5, 9] {
            let copy = copied(&place, "copy");
            let path = copy.join("db").join(&name);
            let mut bytes = std::fs::read(&path).unwrap();
            let at = usize::try_from(size * part / 10).unwrap();
            let Some(byte) = bytes.get_mut(at) else { continue };
            *byte ^= 0x40;
            std::fs::write(&path, bytes).unwrap();
            told += usize::from(whole_or_told(&place, &copy, &whole, &format!("{name}, byte {at}")));
            std::fs::remove_dir_all(copy).unwrap();
        }
    }
    assert!(told > 0, "no damage was told");
}

#[test]
fn a_missing_file_or_end_is_told() {
    let place = place();
    let whole = readings(&place, &place.store());
    for name in files(&place) {
        let copy = copied(&place, "copy");
        let path = copy.join("db").join(&name);
        if has_ending(&name, "log") {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        assert!(whole_or_told(&place, &copy, &whole, &name), "{name} was cut or taken away, and nobody said so");
        std::fs::remove_dir_all(copy).unwrap();
    }
}

//! `rondo fsck`: what is whole is proven, what is damaged is named, nothing is changed and nothing hangs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::damage::{Damage, How, drawn};
use crate::binary::{Finished, Place, fixture};
use crate::frozen;

/// How long an examination of a small store may take, on a machine under load.
const PATIENCE: Duration = Duration::from_secs(8);

/// Threads in tables and, of the last one, in a log: it was killed.
pub fn place() -> Place {
    let place = frozen::place();
    let mut run = place.start(["run", &fixture("relay"), "--offline", "--trust", "-i", "topic=tides", "--json"]);
    while run.event("step_committed")["seq"] != 6 {}
    run.kill();
    place
}

fn examined(place: &Place, store: &Path) -> Finished {
    place.start(["fsck", "--json", "--store", store.to_str().unwrap()]).finish_within(PATIENCE)
}

fn copied(place: &Place) -> PathBuf {
    let copy = place.path().join("copy");
    let _ = fs::remove_dir_all(&copy);
    frozen::copy(&place.store(), &copy);
    copy
}

/// The bytes of every file.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else if path.is_file() {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn a_whole_store_is_proven_and_left_as_it_is() {
    let place = place();
    let before = contents(&place.store());
    assert_eq!(examined(&place, &place.store()).exits(0).lines, Vec::<String>::new());
    let told = place.run(["fsck"]).exits(0);
    let threads = place.run(["threads", "--json"]).exits(0).lines.len();
    assert!(told.text().contains(&format!("is whole: {threads} threads, ")), "{}", told.text());
    assert_eq!(told.stderr, "");
    assert_eq!(contents(&place.store()), before);
}

#[test]
fn a_store_is_examined_while_a_process_writes_it() {
    let place = Place::new();
    let mut run = place.start(["run", &fixture("relay"), "--offline", "-i", "topic=tides", "--json"]);
    while run.event("step_committed")["seq"] != 3 {}
    for _ in 0..3 {
        assert_eq!(examined(&place, &place.store()).exits(0).lines, Vec::<String>::new());
    }
    run.finish().exits(0);
    assert_eq!(examined(&place, &place.store()).exits(0).lines, Vec::<String>::new());
}

#[test]
fn what_is_no_store_is_said() {
    let place = Place::new();
    let missing = place.run(["fsck"]).exits(9);
    assert!(missing.stderr.contains("there is no store in "), "{}", missing.stderr);
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("CURRENT"), "MANIFEST-000001\n").unwrap();
    let other = place.run(["fsck", "--store", other.to_str().unwrap()]).exits(9);
    assert!(other.stderr.contains("there is no store"), "{}", other.stderr);
    let store = self::place();
    let pipe = store.store().join("db/000001.log");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let refused = store.run(["fsck"]).exits(3);
    assert!(refused.stderr.contains("000001.log is not a plain file"), "{}", refused.stderr);
}

#[test]
fn a_fault_names_its_file_and_the_threads_that_it_touches() {
    let place = place();
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let killed = threads.last().unwrap()["thread"].clone();
    let copy = copied(&place);
    // The killed thread has its steps in the log alone.
    let log = fs::read_dir(copy.join("db")).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    let size = usize::try_from(fs::metadata(&log).unwrap().len()).unwrap();
    let file = log.strip_prefix(&copy).unwrap().to_owned();
    Damage { file: file.clone(), how: How::Flip { at: size - 60, bit: 3 } }.apply(&copy);
    let before = contents(&copy);
    let faults = examined(&place, &copy).exits(6).json();
    assert_eq!(contents(&copy), before);
    let of_log: Vec<&Value> = faults.iter().filter(|fault| fault["file"] == *file.to_str().unwrap()).collect();
    assert!(of_log.iter().any(|fault| fault["threads"] == Value::Array(vec![killed.clone()])), "{faults:?}");
    assert!(faults.iter().all(|fault| fault["code"] == "RN1302"));
    let told = place.run(["fsck", "--store", copy.to_str().unwrap()]).exits(6).text();
    assert!(told.contains(&format!("it touches {}", killed.as_str().unwrap())), "{told}");
    let whole = format!("{} of {} threads whole", threads.len() - 1, threads.len());
    assert!(told.contains(&whole), "{told}");
    assert!(told.contains(&format!("`rondo repair --store {}`", copy.display())), "{told}");
}

/// What readers say of a store that is not damaged.
fn read(place: &Place, store: &Path) -> (Option<i32>, Vec<String>) {
    let read = place.run(["threads", "--json", "--store", store.to_str().unwrap()]);
    (read.code, read.lines)
}

#[test]
fn no_damage_hangs_and_what_is_not_named_is_as_it_was() {
    let place = place();
    let whole = read(&place, &place.store());
    let mut named = 0;
    for damage in drawn(&place.store(), 17).take(100) {
        let copy = copied(&place);
        damage.apply(&copy);
        let examination = examined(&place, &copy);
        match examination.code {
            // Such as a byte at the end of a file that nobody reads.
            Some(0) => assert_eq!(read(&place, &copy), whole, "{damage:?}"),
            Some(6) => {
                assert!(!examination.lines.is_empty(), "{damage:?}");
                named += 1;
            }
            _ => panic!("{damage:?}: {examination:?}"),
        }
    }
    assert!(named > 60, "{named} named");
}

#[test]
fn a_manifest_that_is_gone_in_part_costs_no_thread() {
    let place = place();
    let threads = place.run(["threads", "--json"]).exits(0).lines.len();
    let size = |file: &Path| usize::try_from(fs::metadata(place.store().join(file)).unwrap().len()).unwrap();
    let current = fs::read_to_string(place.store().join("db/CURRENT")).unwrap();
    let manifest = Path::new("db").join(current.trim_end());
    let cuts = (0..8).map(|eighth| How::Cut { at: size(&manifest) * eighth / 8 });
    for how in cuts.chain([How::Remove]) {
        let copy = copied(&place);
        Damage { file: manifest.clone(), how }.apply(&copy);
        let told = place.run(["fsck", "--store", copy.to_str().unwrap()]).exits(6).text();
        assert!(told.contains(&format!("1 fault; {threads} of {threads} threads whole")), "{how:?}: {told}");
    }
}

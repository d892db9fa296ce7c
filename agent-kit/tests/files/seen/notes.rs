//! What is noted of a call, and what cannot be.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rondo_agent_kit::sandbox::files::{Access, Opened, ReadSetValidity, Watch, Workspace};
use rondo_protocol::Digest;
use rondo_protocol::read_set::{ReadEntry, ReadKind};
use serde_json::{Value, json};

use super::{project, seen, soon, tick, write_young};
use crate::scene::Scene;

#[test]
fn an_old_file_is_told_by_its_mark_and_a_young_one_by_its_bytes_too() {
    // The manifest is older than this process.
    let access = Access { read: vec![PathBuf::from(".")], ..Access::default() };
    let old = Workspace::open(Path::new(env!("CARGO_MANIFEST_DIR")), access).unwrap();
    let scene = project();
    write_young(scene.path().join("a.txt"), "alpha\n");
    for (workspace, path, is_young) in [(&old, "Cargo.toml", false), (&*scene.workspace, "a.txt", true)] {
        let watch = Watch::default();
        watch.begin();
        let bytes = workspace.watched(&watch).file(path).unwrap().read_whole(1 << 20).unwrap();
        let seen = watch.take().unwrap();
        let [read_entry] = &*seen.read_entries else { panic!("{seen:?}") };
        let digest = is_young.then(|| Digest::sha256(&bytes));
        assert_eq!((read_entry.path.as_str(), read_entry.kind, read_entry.digest), (path, ReadKind::File, digest));
        assert_eq!(read_entry.mark.unwrap().size_bytes, bytes.len() as u64);
        assert_eq!(workspace.validity(&seen, soon()), ReadSetValidity::Holds);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_made_up_as_it_is_read_cannot_be_told() {
    let path = "/proc/self/status";
    let access = Access { read: vec![PathBuf::from(path)], ..Access::default() };
    let workspace = Workspace::open(&std::env::temp_dir(), access).unwrap();
    let watch = Watch::default();
    watch.begin();
    let real = Path::new(path).canonicalize().unwrap();
    let text = workspace.watched(&watch).file(real.to_str().unwrap()).unwrap().read_whole(1 << 20).unwrap();
    assert!(!text.is_empty());
    assert_eq!(watch.take(), None);
}

#[test]
fn a_call_tells_each_name_once_with_what_was_not_there() {
    let scene = project();
    let names = |tool: &str, arguments: Value| {
        let read_entries = seen(&scene, tool, &arguments).1.read_entries;
        read_entries.iter().map(|ReadEntry { path, kind, .. }| format!("{path} {kind:?}")).collect::<Vec<_>>()
    };
    assert_eq!(names("read_file", json!({ "path": "./src/../a.txt" })), ["a.txt File"]);
    assert_eq!(names("read_file", json!({ "path": "link" })), ["a.txt File", "link File"]);
    let listed = [
        ". Folder",
        ".gitignore Absent",
        ".ignore Absent",
        "folder/deep Folder",
        "src Folder",
        "src/.gitignore Absent",
        "src/.ignore Absent",
        "src/deep Listing",
        "src/deep/.gitignore Absent",
        "src/deep/.ignore File",
    ];
    assert_eq!(names("list_files", json!({ "path": "folder/deep" })), listed);
}

#[test]
fn a_call_that_changes_something_cannot_tell_what_it_saw() {
    let scene = project();
    let calls = [
        ("edit_file", json!({ "path": "a.txt", "old": "alpha", "new": "omega" })),
        ("write_file", json!({ "path": "new", "text": "x" })),
    ];
    for (tool, arguments) in calls {
        let (result, seen) = scene.watched(tool, &arguments);
        assert!(result.is_ok() && seen.is_none(), "{tool}");
    }
    let watch = Watch::default();
    watch.begin();
    let workspace = scene.workspace.watched(&watch);
    workspace.target("a.txt").unwrap();
    assert_eq!(watch.take(), None);
}

#[test]
fn a_file_that_is_still_open_or_was_changed_under_the_reader_cannot_be_told() {
    let scene = project();
    let opened = || {
        let watch = Watch::default();
        watch.begin();
        let file = scene.workspace.watched(&watch).file("a.txt").unwrap();
        (watch, file)
    };
    let (watch, file) = opened();
    assert_eq!(watch.take(), None);
    drop(file);
    assert_eq!(watch.take(), None);
    let (watch, mut file) = opened();
    fs::write(scene.path().join("a.txt"), "longer than before\n").unwrap();
    file.read_whole(100).unwrap();
    drop(file);
    assert_eq!(watch.take(), None);
    // A name in two states.
    let watch = Watch::default();
    watch.begin();
    let workspace = scene.workspace.watched(&watch);
    workspace.file("a.txt").unwrap();
    tick(&scene);
    fs::write(scene.path().join("a.txt"), "other").unwrap();
    workspace.file("a.txt").unwrap();
    assert_eq!(watch.take(), None);
}

#[test]
fn names_that_cannot_be_told_are_not() {
    let scene = Scene::of(&[("in/new\nline", "alpha\n"), ("plain", "x")]);
    symlink("in/new\nline", scene.path().join("link")).unwrap();
    let refused = [
        ("read_file", json!({ "path": "in/new\nline" })),
        ("read_file", json!({ "path": "link" })),
        ("search_files", json!({ "path": "in", "pattern": "alpha" })),
    ];
    for (tool, arguments) in refused {
        let (result, seen) = scene.watched(tool, &arguments);
        assert!(result.unwrap().contains("alpha"), "{tool}");
        assert_eq!(seen, None, "{tool}");
    }
    // A listing is compared by the names as they are, not as they are shown.
    fs::write(scene.path().join("in").join(OsStr::from_bytes(b"\xff")), "").unwrap();
    let (text, seen) = seen(&scene, "list_files", &json!({ "path": "in" }));
    assert_eq!(text, "in/new\\u{a}line\t6\nin/\\xff\t0\n");
    let lookalikes: [(&[u8], &[u8]); 2] = [(b"\xff", b"\\xff"), (b"new\nline", b"new\\u{a}line")];
    for (name, shown) in lookalikes {
        let [name, shown] = [name, shown].map(|name| scene.path().join("in").join(OsStr::from_bytes(name)));
        fs::rename(&name, &shown).unwrap();
        let listing = ReadEntry {
            mark: None,
            ..seen.read_entries.iter().find(|read_entry| read_entry.path == "in").unwrap().clone()
        };
        let (_, again) = scene.watched("list_files", &json!({ "path": "in" }));
        let again = again.unwrap().read_entries.into_iter().find(|read_entry| read_entry.path == "in").unwrap();
        assert_ne!(listing, ReadEntry { mark: None, ..again });
        fs::rename(&shown, &name).unwrap();
    }
}

#[test]
fn more_files_than_can_be_told_are_not() {
    let scene = Scene::of(&[]);
    let add = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|number| fs::write(scene.path().join(number.to_string()), "").unwrap());
    };
    let search = || scene.watched("search_files", &json!({ "pattern": "x" }));
    add(0..9_000);
    assert_eq!(search().1.unwrap().read_entries.len(), 9_003);
    add(9_000..10_001);
    let (result, seen) = search();
    assert_eq!((result.unwrap().as_str(), seen), ("[no matches]\n", None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A watched file is the file, in whatever pieces it is read, and the digest is of what was read of it.
    #[test]
    fn watching_changes_nothing_of_what_is_read(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pieces in prop::collection::vec(0_usize..80, 0..12),
    ) {
        let scene = Scene::of(&[]);
        write_young(scene.path().join("a"), &bytes);
        let watch = Watch::default();
        watch.begin();
        let workspace = scene.workspace.watched(&watch);
        let (mut plain, mut watched) = (scene.workspace.file("a").unwrap(), workspace.file("a").unwrap());
        let mut read = Vec::new();
        for length in pieces {
            let mut both = [vec![0; length], vec![0; length]];
            let [left, right] = &mut both;
            let count = plain.read(left).unwrap();
            prop_assert_eq!(count, watched.read(right).unwrap());
            prop_assert_eq!(&*left, &*right);
            read.extend_from_slice(&left[..count]);
        }
        drop(watched);
        let read_entry = watch.take().unwrap().read_entries.remove(0);
        prop_assert_eq!(read_entry.read_bytes, read.len() as u64);
        prop_assert_eq!(read_entry.digest, (!read.is_empty()).then(|| Digest::sha256(&read)));
    }
}

#[test]
fn a_folder_is_the_same_watched_and_not() {
    let scene = project();
    let watch = Watch::default();
    watch.begin();
    let watched = scene.workspace.watched(&watch);
    let listed = |workspace: &Workspace, path: &str| {
        let Opened::Folder(folder) = workspace.find(path).unwrap() else { panic!("{path} is no folder") };
        let listing = folder.list().unwrap();
        let opened: Vec<_> = listing.entries.iter().map(|entry| folder.file(&entry.name).is_ok()).collect();
        format!("{:?} {opened:?}", listing.entries)
    };
    for path in [".", "src", "folder", "src/deep"] {
        assert_eq!(listed(&watched, path), listed(&scene.workspace, path));
    }
    assert_eq!(
        watched.find("nowhere").unwrap_err().to_string(),
        scene.workspace.find("nowhere").unwrap_err().to_string()
    );
    let seen = watch.take().unwrap();
    assert_eq!(scene.workspace.validity(&seen, soon()), ReadSetValidity::Holds);
}

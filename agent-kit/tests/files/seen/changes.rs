//! Changes, the second look at what was seen, and what writes could change.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rondo_agent_kit::sandbox::files::{Access, ReadSetValidity, Watch, Workspace};
use rondo_protocol::Digest;
use rondo_protocol::read_set::{ReadEntry, ReadKind, ReadSet};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};

use super::{Change, aged, keeping_times, project, relinked, seen, soon, tick, write_young};
use crate::scene::Scene;

#[test]
fn every_change_to_what_was_seen_is_told() {
    let read = |path: &str| ("read_file", json!({ "path": path }));
    let list = |path: &str| ("list_files", json!({ "path": path }));
    let search = |path: &str| ("search_files", json!({ "path": path, "pattern": "alpha" }));
    let cases: Vec<(&str, (&str, Value), Change)> = vec![
        ("other content of the same size", read("a.txt"), |at| fs::write(at.join("a.txt"), "omega\n").unwrap()),
        ("times set back after a change", read("a.txt"), |at| {
            keeping_times(&at.join("a.txt"), |path| fs::write(path, "omega\n").unwrap());
        }),
        ("times set back after none", read("a.txt"), |at| keeping_times(&at.join("a.txt"), |_| {})),
        ("grown", read("a.txt"), |at| fs::write(at.join("a.txt"), "alpha\nand\n").unwrap()),
        ("another file in its place", read("a.txt"), |at| {
            fs::write(at.join("c"), "alpha\n").unwrap();
            fs::rename(at.join("c"), at.join("a.txt")).unwrap();
        }),
        ("a folder in its place", read("a.txt"), |at| {
            fs::remove_file(at.join("a.txt")).unwrap();
            fs::create_dir(at.join("a.txt")).unwrap();
        }),
        ("a link to it in its place", read("a.txt"), |at| {
            fs::rename(at.join("a.txt"), at.join("c")).unwrap();
            symlink("c", at.join("a.txt")).unwrap();
        }),
        ("gone", read("a.txt"), |at| fs::remove_file(at.join("a.txt")).unwrap()),
        ("other permissions", read("a.txt"), |at| {
            fs::set_permissions(at.join("a.txt"), Permissions::from_mode(0o000)).unwrap();
        }),
        ("what a link leads to", read("link"), |at| fs::write(at.join("a.txt"), "omega\n").unwrap()),
        ("a link that leads elsewhere", read("link"), |at| relinked(&at.join("link"), "b.txt")),
        // The text of the result names the file.
        ("a link to another name of the file", search("link"), |at| relinked(&at.join("link"), "twin")),
        ("a folder's link that leads elsewhere", read("folder/lib.rs"), |at| {
            fs::create_dir(at.join("other")).unwrap();
            fs::write(at.join("other/lib.rs"), "fn alpha() {}\n").unwrap();
            relinked(&at.join("folder"), "other");
        }),
        ("a new file", list("."), |at| fs::write(at.join("c"), "").unwrap()),
        ("a new file below", list("."), |at| fs::write(at.join("src/deep/c"), "").unwrap()),
        ("a new folder", list("src"), |at| fs::create_dir(at.join("src/c")).unwrap()),
        ("a file less", list("src"), |at| fs::remove_file(at.join("src/lib.rs")).unwrap()),
        ("a file of another size", list("src"), |at| fs::write(at.join("src/lib.rs"), "").unwrap()),
        ("the size of the file that was named", list("a.txt"), |at| fs::write(at.join("a.txt"), "").unwrap()),
        ("a listed link that leads elsewhere", list("."), |at| relinked(&at.join("link"), "c.txt")),
        ("a file that became a folder", list("src"), |at| {
            fs::remove_file(at.join("src/lib.rs")).unwrap();
            fs::create_dir(at.join("src/lib.rs")).unwrap();
        }),
        ("rules where there were none", list("src"), |at| fs::write(at.join("src/.gitignore"), "*.rs\n").unwrap()),
        ("rules above", list("src/deep"), |at| fs::write(at.join(".gitignore"), "*.rs\n").unwrap()),
        ("rules between", search("src/deep"), |at| fs::write(at.join("src/.ignore"), "*.rs\n").unwrap()),
        ("other rules", list("src/deep"), |at| fs::write(at.join("src/deep/.ignore"), "mod.rs\n\n").unwrap()),
        ("rules gone", list("src/deep"), |at| fs::remove_file(at.join("src/deep/.ignore")).unwrap()),
        ("a link above to where it was", list("src/deep"), |at| {
            fs::rename(at.join("src"), at.join("moved")).unwrap();
            symlink("moved", at.join("src")).unwrap();
        }),
        ("a file without a match", search("."), |at| fs::write(at.join("b.txt"), "alpha\n").unwrap()),
        ("a new file to search", search("src"), |at| fs::write(at.join("src/deep/new"), "alpha\n").unwrap()),
        ("a folder that was swapped", search("src"), |at| {
            fs::rename(at.join("src/deep"), at.join("old")).unwrap();
            fs::create_dir(at.join("src/deep")).unwrap();
        }),
    ];
    for (what, (tool, arguments), change) in &cases {
        let scene = project();
        let (_, young) = seen(&scene, tool, arguments);
        let old = aged(young.clone());
        tick(&scene);
        for seen in [&young, &old] {
            assert_eq!(scene.workspace.validity(seen, soon()), ReadSetValidity::Holds, "{what}");
        }
        change(scene.path());
        for seen in [&young, &old] {
            let validity = scene.workspace.validity(seen, soon());
            assert!(matches!(validity, ReadSetValidity::Changed { .. }), "{what}: {validity:?} of {seen:?}");
        }
    }
}

#[test]
fn what_was_not_looked_at_may_change() {
    let cases: [(&str, Value, Change); 4] = [
        ("read_file", json!({ "path": "a.txt" }), |at| fs::write(at.join("b.txt"), "other").unwrap()),
        ("read_file", json!({ "path": "src/lib.rs" }), |at| fs::write(at.join("src/new"), "").unwrap()),
        // The folder above was asked for rules and not for what else is in it.
        ("list_files", json!({ "path": "src/deep" }), |at| fs::write(at.join("src/new"), "").unwrap()),
        ("search_files", json!({ "path": "src", "pattern": "x" }), |at| fs::remove_file(at.join("a.txt")).unwrap()),
    ];
    for (tool, arguments, change) in cases {
        let scene = project();
        let (_, seen) = seen(&scene, tool, &arguments);
        tick(&scene);
        change(scene.path());
        assert_eq!(scene.workspace.validity(&seen, soon()), ReadSetValidity::Holds, "{tool} {arguments}");
    }
}

#[test]
fn a_change_within_one_tick_of_the_clock_is_told_by_the_bytes() {
    let scene = project();
    let write = |text: &str| write_young(scene.path().join("a.txt"), text);
    let look = |path: &str| seen(&scene, "read_file", &json!({ "path": path })).1;
    let changed = ReadSetValidity::Changed { path: "a.txt".to_owned() };
    for round in 0..200 {
        write("alpha\n");
        let before = look("link");
        write("omega\n");
        assert_eq!(scene.workspace.validity(&before, soon()), changed, "round {round}");
    }
    // Where the clock is fine the times differ all the same; with a coarse one they are these.
    let mut before = look("link");
    write("alpha\n");
    for (read_entry, now) in before.read_entries.iter_mut().zip(look("link").read_entries) {
        read_entry.mark = now.mark;
    }
    assert_eq!(scene.workspace.validity(&before, soon()), changed);
    write("omega\n");
    for (read_entry, now) in before.read_entries.iter_mut().zip(look("link").read_entries) {
        read_entry.mark = now.mark;
    }
    assert_eq!(scene.workspace.validity(&before, soon()), ReadSetValidity::Holds);
}

#[test]
fn what_is_no_file_any_more_is_not_waited_for() {
    let scene = project();
    for arguments in [json!({ "path": "a.txt" }), json!({ "path": "link" })] {
        fs::write(scene.path().join("a.txt"), "alpha\n").unwrap();
        let (_, seen) = seen(&scene, "read_file", &arguments);
        fs::remove_file(scene.path().join("a.txt")).unwrap();
        rustix::fs::mknodat(CWD, scene.path().join("a.txt"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let changed = ReadSetValidity::Changed { path: "a.txt".to_owned() };
        assert_eq!(scene.workspace.validity(&seen, soon()), changed);
        fs::remove_file(scene.path().join("a.txt")).unwrap();
    }
}

#[test]
fn what_may_not_be_seen_any_more_has_changed() {
    let scene = project();
    let (_, file) = seen(&scene, "read_file", &json!({ "path": "a.txt" }));
    let (_, listing) = seen(&scene, "list_files", &json!({ "path": "src" }));
    let with = |read: &[&str], hidden: &[&str]| {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Workspace::open(
            scene.path(),
            Access { read: paths(read), write: vec![], hidden: paths(hidden), ..Access::default() },
        )
        .unwrap()
    };
    let same = with(&["."], &[".rondo"]);
    assert_eq!(
        (same.validity(&file, soon()), same.validity(&listing, soon())),
        (ReadSetValidity::Holds, ReadSetValidity::Holds)
    );
    for less in [with(&["b.txt"], &[]), with(&["."], &["a.txt", "src"])] {
        assert!(matches!(less.validity(&file, soon()), ReadSetValidity::Changed { .. }));
        assert!(matches!(less.validity(&listing, soon()), ReadSetValidity::Changed { .. }));
    }
    // Rules above that may not be read are none, until they may.
    let narrow = Scene::granting(&["src"], &["."], &[("src/a", "x"), (".ignore", "a\n")]);
    let (text, seen) = seen(&narrow, "list_files", &json!({ "path": "src" }));
    assert_eq!(text, "src/a\t1\n");
    let access = Access { read: vec![PathBuf::from(".")], ..Access::default() };
    let wide = Workspace::open(narrow.path(), access).unwrap();
    assert_eq!(wide.validity(&seen, soon()), ReadSetValidity::Changed { path: ".gitignore".to_owned() });
}

#[test]
fn what_lies_elsewhere_is_told_too() {
    let elsewhere = tempfile::tempdir().unwrap();
    let at = elsewhere.path().canonicalize().unwrap();
    fs::create_dir(at.join("given")).unwrap();
    fs::write(at.join("given/a"), "alpha\n").unwrap();
    fs::write(at.join("words"), "alpha\n").unwrap();
    let [given, words] = ["given", "words"].map(|name| at.join(name).to_str().unwrap().to_owned());
    let scene = Scene::granting(&[".", &given, &words], &["."], &[]);
    symlink(&given, scene.path().join("link")).unwrap();
    for path in [words.clone(), format!("{given}/a"), "link/a".to_owned()] {
        let (_, seen) = seen(&scene, "read_file", &json!({ "path": path }));
        tick(&scene);
        fs::write(at.join("given/a"), "omega\n").unwrap();
        fs::write(at.join("words"), "omega\n").unwrap();
        assert!(matches!(scene.workspace.validity(&aged(seen), soon()), ReadSetValidity::Changed { .. }));
    }
}

#[test]
fn time_that_is_up_and_reads_that_nobody_noted_are_no_hold() {
    let scene = project();
    let (_, whole) = seen(&scene, "search_files", &json!({ "pattern": "alpha" }));
    let before = Instant::now();
    assert_eq!(scene.workspace.validity(&whole, before), ReadSetValidity::TooLate);
    assert_eq!(scene.workspace.validity(&ReadSet::default(), before), ReadSetValidity::Holds);
    // The clock is looked at within a long file too.
    write_young(scene.path().join("long"), vec![0; 16 << 20]);
    let watch = Watch::default();
    watch.begin();
    scene.workspace.watched(&watch).file("long").unwrap().read_whole(16 << 20).unwrap();
    let long = watch.take().unwrap();
    assert_eq!(scene.workspace.validity(&long, Instant::now() + Duration::from_millis(1)), ReadSetValidity::TooLate);
    assert_eq!(scene.workspace.validity(&long, soon()), ReadSetValidity::Holds);
    write_young(scene.path().join("a.txt"), "alpha\n");
    let (_, ReadSet { read_entries }) = seen(&scene, "read_file", &json!({ "path": "a.txt" }));
    let [read_entry] = &*read_entries else { panic!("{read_entries:?}") };
    let mark = read_entry.mark.unwrap();
    let forged = |change: &dyn Fn(&mut ReadEntry)| {
        let mut read_entry = read_entry.clone();
        change(&mut read_entry);
        scene.workspace.validity(&ReadSet { read_entries: vec![read_entry] }, soon())
    };
    assert_eq!(forged(&|_| {}), ReadSetValidity::Holds);
    let changes: [&dyn Fn(&mut ReadEntry); 12] = [
        &|read_entry| read_entry.mark = None,
        &|read_entry| read_entry.mark.as_mut().unwrap().inode ^= 1,
        &|read_entry| read_entry.read_bytes = u64::MAX,
        &|read_entry| read_entry.read_bytes -= 1,
        &|read_entry| read_entry.read_bytes = 0,
        &|read_entry| read_entry.digest = Some(Digest::sha256(b"other")),
        &|read_entry| read_entry.kind = ReadKind::Folder,
        &|read_entry| read_entry.kind = ReadKind::Listing,
        &|read_entry| read_entry.kind = ReadKind::Absent,
        &|read_entry| read_entry.path = "./a.txt".to_owned(),
        &|read_entry| read_entry.path = format!("../{}", mark.inode),
        &|read_entry| read_entry.path = "\0".to_owned(),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(matches!(forged(change), ReadSetValidity::Changed { .. }), "change {index}");
    }
}

#[test]
fn writes_touch_what_they_could_change() {
    let scene = project();
    let touches = |tool: &str, arguments: Value, written: &[&str]| {
        let written: Vec<String> = written.iter().map(|path| (*path).to_owned()).collect();
        scene.workspace.reach(&written).touches(&seen(&scene, tool, &arguments).1)
    };
    let read = |path: &str, written: &[&str]| touches("read_file", json!({ "path": path }), written);
    let list = |path: &str, written: &[&str]| touches("list_files", json!({ "path": path }), written);
    for written in [&["a.txt"][..], &["."], &["./"], &["b.txt", "a.txt"], &["a.txt/x"], &[], &["../out"], &["link"]] {
        assert!(read("a.txt", written), "{written:?}");
    }
    let absolute = scene.path().canonicalize().unwrap().join("a.txt");
    assert!(read("a.txt", &[absolute.to_str().unwrap()]));
    assert!(!read("a.txt", &["b.txt", "src/", "a.txt2", "a"]));
    // Through links, whichever side goes through them.
    assert!(read("folder/lib.rs", &["src/lib.rs"]) && read("folder/lib.rs", &["folder"]));
    assert!(read("src/lib.rs", &["folder/lib.rs"]) && read("src/lib.rs", &["folder/"]));
    assert!(list("src", &["folder/new/file"]));
    assert!(!read("src/lib.rs", &["folder/deep"]));
    // What is put below a listed folder, and rules that were looked for above it.
    assert!(list("src", &["src/new"]) && list("src", &["src/deep/new/file"]) && list("src/deep", &["src/.ignore"]));
    assert!(list("src/deep", &[".gitignore"]) && list("src/deep", &["src"]));
    assert!(!list("src/deep", &["src/lib.rs"]) && !list("src/deep", &["src/new", "new"]));
    assert!(!scene.workspace.reach(&[]).touches(&ReadSet::default()), "nothing was seen");
}

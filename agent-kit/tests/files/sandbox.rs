use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use proptest::prelude::*;
use rondo_agent_kit::sandbox::files::{Access, Error, Kind, Opened, Workspace, escaped};

use crate::scene::Scene;

#[test]
fn folders_elsewhere_are_reached_by_their_absolute_path_only() {
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().canonicalize().unwrap();
    fs::create_dir(elsewhere.join("given")).unwrap();
    fs::write(elsewhere.join("given/a"), "a").unwrap();
    fs::write(elsewhere.join("words"), "w").unwrap();
    fs::write(elsewhere.join("other"), "o").unwrap();
    let scene = Scene::granting(
        &[".", elsewhere.join("given").to_str().unwrap(), elsewhere.join("words").to_str().unwrap()],
        &["."],
        &[],
    );
    let read = |path: &str| {
        let mut text = String::new();
        scene.workspace.file(path).map(|mut file| file.read_to_string(&mut text)).map(|_| text)
    };
    assert_eq!(read(elsewhere.join("given/a").to_str().unwrap()).unwrap(), "a");
    assert_eq!(read(elsewhere.join("words").to_str().unwrap()).unwrap(), "w");
    assert!(matches!(read(elsewhere.join("other").to_str().unwrap()), Err(Error::NotGranted { .. })));
    assert!(matches!(read(elsewhere.join("given/../other").to_str().unwrap()), Err(Error::NotGranted { .. })));
    // A link in the workspace may lead there, because both are granted.
    symlink(elsewhere.join("given"), scene.path().join("link")).unwrap();
    assert_eq!(read("link/a").unwrap(), "a");
    let target = scene.workspace.target(elsewhere.join("given/a").to_str().unwrap());
    assert!(matches!(target, Err(Error::NotGranted { .. })));
}

#[test]
fn what_is_hidden_later_is_hidden_and_what_is_moved_stays_so() {
    let scene = Scene::of(&[]);
    assert!(matches!(scene.workspace.target(".RONDO/x"), Err(Error::Hidden(_))));
    fs::create_dir(scene.path().join(".rondo")).unwrap();
    fs::write(scene.path().join(".rondo/x"), "").unwrap();
    assert!(matches!(scene.workspace.file(".rondo/x"), Err(Error::Hidden(_))));
}

#[test]
fn what_is_hidden_by_a_link_is_hidden_where_it_leads() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("root/store")).unwrap();
    fs::write(folder.path().join("root/store/x"), "").unwrap();
    symlink(folder.path().join("root/store"), folder.path().join("alias")).unwrap();
    let access = Access {
        read: vec![PathBuf::from(".")],
        write: vec![PathBuf::from(".")],
        hidden: vec![folder.path().join("alias")],
        ..Access::default()
    };
    let workspace = Workspace::open(&folder.path().join("root"), access).unwrap();
    assert!(matches!(workspace.file("store/x"), Err(Error::Hidden(_))));
    assert!(matches!(workspace.target("store/y"), Err(Error::Hidden(_))));
    let Ok(Opened::Folder(root)) = workspace.find(".") else { panic!("no root") };
    assert!(root.list().unwrap().entries.is_empty());
}

#[test]
fn a_workspace_within_what_is_hidden_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".git/work")).unwrap();
    let opened = Workspace::open(&folder.path().join(".git/work"), Access::default());
    assert!(matches!(opened, Err(Error::Hidden(_))));
    assert!(matches!(Workspace::open(&folder.path().join("nowhere"), Access::default()), Err(Error::System { .. })));
}

#[test]
fn nothing_is_granted_unless_it_is_named() {
    let scene = Scene::granting(&[], &[], &[("a", "")]);
    assert!(matches!(scene.workspace.file("a"), Err(Error::NotGranted { access: "read", .. })));
    assert!(matches!(scene.workspace.target("a"), Err(Error::NotGranted { access: "written", .. })));
    assert!(matches!(scene.workspace.find("."), Err(Error::NotGranted { .. })));
}

#[test]
fn what_somebody_else_changed_is_not_overwritten() {
    let scene = Scene::of(&[("a", "old")]);
    let mut target = scene.workspace.target("a").unwrap();
    fs::write(scene.path().join("a"), "theirs").unwrap();
    assert!(matches!(target.replace(b"ours"), Err(Error::Changed(_))));
    assert!(matches!(target.remove(), Err(Error::Changed(_))));
    let mut new = scene.workspace.target("b").unwrap();
    fs::write(scene.path().join("b"), "theirs").unwrap();
    assert!(matches!(new.replace(b"ours"), Err(Error::Changed(_))));
    assert_eq!((scene.text("a"), scene.text("b")), ("theirs".to_owned(), "theirs".to_owned()));
    assert_eq!(scene.names(), ["a", "b"]);
}

#[test]
fn a_link_put_in_place_of_the_target_is_not_written_through() {
    let scene = Scene::of(&[("a", "old"), ("victim", "victim")]);
    let mut target = scene.workspace.target("a").unwrap();
    fs::remove_file(scene.path().join("a")).unwrap();
    symlink("victim", scene.path().join("a")).unwrap();
    assert!(matches!(target.replace(b"ours"), Err(Error::Link(_))));
    assert_eq!(scene.text("victim"), "victim");
    assert_eq!(scene.names(), ["a", "victim"]);
}

#[test]
fn a_file_that_grows_is_read_no_further_than_was_asked() {
    let scene = Scene::of(&[("a", "12345")]);
    let mut file = scene.workspace.file("a").unwrap();
    fs::write(scene.path().join("a"), "1234567890").unwrap();
    assert!(matches!(file.read_whole(5), Err(Error::TooLarge { .. })));
    assert_eq!(scene.workspace.file("a").unwrap().read_whole(10).unwrap(), b"1234567890");
}

#[test]
fn what_is_seen_has_a_stamp() {
    let scene = Scene::of(&[("a", "12345")]);
    let first = scene.workspace.file("a").unwrap().stamp().clone();
    assert_eq!((first.kind, first.mark.size_bytes), (Kind::File, 5));
    assert_eq!(&first, scene.workspace.file("a").unwrap().stamp());
    scene.workspace.target("a").unwrap().replace(b"12345").unwrap();
    assert_ne!(&first, scene.workspace.file("a").unwrap().stamp());
}

#[test]
fn names_are_shown_on_one_line() {
    assert_eq!(escaped("a/ä b\n\t"), "a/ä b\\u{a}\\u{9}");
}

proptest! {
    #[test]
    fn no_spelling_of_a_path_leads_out(parts in proptest::collection::vec("\\.|\\.\\.|a|b|etc|", 0..12), slash in "/?") {
        let scene = Scene::of(&[("a/b/a", "inside")]);
        let path = format!("{slash}{}", parts.join("/"));
        if let Ok(normalized) = scene.workspace.normalized(&path) {
            prop_assert!(!normalized.starts_with('/') && !normalized.split('/').any(|part| part == ".."));
        }
        if let Ok(Opened::File(file)) = scene.workspace.find(&path) {
            prop_assert_eq!(file.path(), "a/b/a");
        }
    }
}

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use rondo_protocol::diagnostic::Code;
use serde_json::json;

use crate::scene::Scene;

fn project() -> Scene {
    Scene::of(&[
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        (".ignore", "generated\n"),
        (".github/ci.yaml", "x"),
        (".git/config", "x"),
        (".rondo/journal", "x"),
        ("generated/out.rs", "x"),
        ("keep.log", "x"),
        ("src/.gitignore", "/private\n"),
        ("src/lib.rs", "0123456789"),
        ("src/private/key", "x"),
        ("src/deep/mod.rs", "x"),
        ("target/debug/app", "x"),
        ("trace.log", "x"),
    ])
}

#[test]
fn ignore_files_are_respected_and_folders_come_before_what_is_in_them() {
    let scene = project();
    let all = "keep.log\t1\nsrc/\nsrc/deep/\nsrc/deep/mod.rs\t1\nsrc/lib.rs\t10\n";
    assert_eq!(scene.says("list_files", &json!({})), all);
    assert_eq!(scene.says("list_files", &json!({ "depth": 1 })), "keep.log\t1\nsrc/\n");
    assert_eq!(scene.says("list_files", &json!({ "path": "src/lib.rs" })), "src/lib.rs\t10\n");
}

#[test]
fn what_is_left_out_can_be_asked_for_by_its_path() {
    let scene = project();
    assert_eq!(scene.says("list_files", &json!({ "path": ".github" })), ".github/ci.yaml\t1\n");
    assert_eq!(scene.says("list_files", &json!({ "path": "target" })), "target/debug/\ntarget/debug/app\t1\n");
    // Rules of the folders above hold, rules of their own too.
    fs::write(scene.path().join("src/deep/x.log"), "").unwrap();
    assert_eq!(scene.says("list_files", &json!({ "path": "src/deep" })), "src/deep/mod.rs\t1\n");
}

#[test]
fn globs_choose_files() {
    let scene = project();
    assert_eq!(scene.says("list_files", &json!({ "glob": "*.rs" })), "src/deep/mod.rs\t1\nsrc/lib.rs\t10\n");
    assert_eq!(scene.says("list_files", &json!({ "glob": "src/*.rs" })), "src/lib.rs\t10\n");
    assert_eq!(scene.says("list_files", &json!({ "path": "src", "glob": "*/mod.rs" })), "src/deep/mod.rs\t1\n");
    assert_eq!(scene.says("list_files", &json!({ "glob": "!*.rs" })), "keep.log\t1\nsrc/\nsrc/deep/\n");
    assert_eq!(scene.says("list_files", &json!({ "glob": "*.py" })), "[nothing to list]\n");
    let broken = scene.call("list_files", &json!({ "glob": "{a" })).unwrap_err();
    assert_eq!(broken.code, Code::PatternUnusable);
}

#[test]
fn what_is_no_file_is_shown_as_what_it_is() {
    let scene = Scene::of(&[("a", "")]);
    symlink("a", scene.path().join("link")).unwrap();
    symlink("/etc/passwd", scene.path().join("out")).unwrap();
    let _ = std::os::unix::net::UnixListener::bind(scene.path().join("socket")).unwrap();
    fs::write(scene.path().join(OsStr::from_bytes(b"bad\xff\nname")), "").unwrap();
    let list = "a\t0\nbad\\xff\\u{a}name\t0\nlink -> a\nout -> elsewhere\nsocket (a socket)\n";
    assert_eq!(scene.says("list_files", &json!({})), list);
}

#[test]
fn a_long_list_is_cut_with_a_mark() {
    let scene = Scene::of(&[]);
    for number in 0..2_100 {
        fs::write(scene.path().join(format!("{number:05}")), "").unwrap();
    }
    let list = scene.says("list_files", &json!({}));
    assert_eq!(list.lines().count(), 2_001);
    assert!(list.ends_with("[cut after 2,000 entries; narrow with `path`, `glob` or `depth`]\n"));
}

#[test]
fn a_deep_tree_ends_with_a_mark() {
    let scene = Scene::of(&[]);
    fs::create_dir_all(scene.path().join("d/".repeat(100))).unwrap();
    let list = scene.says("list_files", &json!({}));
    assert!(list.contains("[did not go below d/d/d"), "{list}");
    assert_eq!(list.lines().count(), 65);
}

#[test]
fn only_what_is_granted_is_listed() {
    let files = [("src/a.rs", ""), ("docs/b.md", ""), ("top.txt", "")];
    let scene = Scene::granting(&["src", "docs/b.md", "nowhere"], &[], &files);
    assert_eq!(scene.says("list_files", &json!({})), "docs/\ndocs/b.md\t0\nsrc/\nsrc/a.rs\t0\n");
    let top = scene.call("read_file", &json!({ "path": "top.txt" })).unwrap_err();
    assert_eq!(top.code, Code::OutsideWorkspace);
}

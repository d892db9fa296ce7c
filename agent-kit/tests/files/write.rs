use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rondo_protocol::diagnostic::Code;
use serde_json::json;

use crate::scene::Scene;

#[test]
fn a_file_is_created_with_its_folders_and_then_replaced() {
    let scene = Scene::of(&[]);
    let arguments = json!({ "path": "a/b/c.txt", "text": "text" });
    assert_eq!(scene.says("write_file", &arguments), "created a/b/c.txt (4 bytes)\n");
    assert_eq!(scene.says("write_file", &arguments), "replaced a/b/c.txt (4 bytes)\n");
    assert_eq!(scene.names(), ["a/b/c.txt"]);
    assert_eq!(scene.text("a/b/c.txt"), "text");
}

#[test]
fn permissions_stay_but_for_what_was_given_to_the_old_content() {
    let scene = Scene::of(&[("run.sh", "old")]);
    let path = scene.path().join("run.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4754)).unwrap();
    scene.call("write_file", &json!({ "path": "run.sh", "text": "new" })).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o754);
}

#[test]
fn a_hard_link_elsewhere_keeps_the_old_text() {
    let scene = Scene::of(&[("a", "old")]);
    fs::hard_link(scene.path().join("a"), scene.path().join("b")).unwrap();
    scene.call("write_file", &json!({ "path": "b", "text": "new" })).unwrap();
    assert_eq!((scene.text("a"), scene.text("b")), ("old".to_owned(), "new".to_owned()));
}

#[test]
fn a_file_in_the_way_of_a_folder_is_told() {
    let scene = Scene::of(&[("a", "")]);
    let error = scene.call("write_file", &json!({ "path": "a/b", "text": "" })).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (Code::NotAFile, "\"a\" is a file; nothing can lie below it"));
    let slash = scene.call("write_file", &json!({ "path": "b/", "text": "" })).unwrap_err();
    assert_eq!(slash.code, Code::PathUnusable);
}

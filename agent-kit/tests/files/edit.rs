use std::fs;

use proptest::prelude::*;
use rondo_protocol::diagnostic::Code;
use serde_json::json;

use crate::scene::Scene;

fn edit(scene: &Scene, old: &str, new: &str) -> String {
    scene.says("edit_file", &json!({ "path": "a", "old": old, "new": new }))
}

#[test]
fn the_one_place_is_replaced() {
    let scene = Scene::of(&[("a", "fn a() {\n    1\n}\nfn b() {\n    2\n}\n")]);
    assert_eq!(edit(&scene, "    2\n}", "    3\n}"), "edited a at line 5\n");
    assert_eq!(scene.text("a"), "fn a() {\n    1\n}\nfn b() {\n    3\n}\n");
    assert_eq!(scene.names(), ["a"]);
}

#[test]
fn more_than_one_place_is_told_with_its_lines_unless_all_are_meant() {
    let scene = Scene::of(&[("a", "x\ny\nx\nx\n")]);
    let error = "error RN1615: `old` is more than once in \"a\", at lines 1, 3, 4; give more of the lines around it, or set `all`";
    assert_eq!(edit(&scene, "x", "z"), error);
    assert_eq!(scene.text("a"), "x\ny\nx\nx\n");
    let all = json!({ "path": "a", "old": "x", "new": "z", "all": true });
    assert_eq!(scene.says("edit_file", &all), "edited a at lines 1, 3, 4\n");
    assert_eq!(scene.text("a"), "z\ny\nz\nz\n");
    let overlapping = Scene::of(&[("a", "aaa")]);
    assert!(edit(&overlapping, "aa", "b").contains("more than once"));
}

#[test]
fn what_is_not_there_is_answered_with_what_comes_nearest() {
    let scene = Scene::of(&[("a", "fn add(left: i32, right: i32) -> i32 {\n\tleft - right\n}\n")]);
    let near = "error RN1615: `old` is not in \"a\"; the lines that come nearest to its first are:\n     1\tfn add(left: i32, right: i32) -> i32 {";
    assert_eq!(edit(&scene, "fn add(left: u32, right: u32) -> u32 {", "x"), near);
    let white = "error RN1615: `old` is not in \"a\"; it is there at line 2 but for white space: give indentation, tabs and line ends as they stand there";
    assert_eq!(edit(&scene, "    left - right", "x"), white);
    let differs = "error RN1615: `old` is not in \"a\"; it agrees from line 1 on, but line 2 is \"\\tleft - right\" and not \"\\tleft * right\"";
    assert_eq!(edit(&scene, "fn add(left: i32, right: i32) -> i32 {\n\tleft * right\n", "x"), differs);
    let nothing = "error RN1615: `old` is not in \"a\", nor anything like it; read the file again";
    assert_eq!(edit(&scene, "SELECT * FROM users", "x"), nothing);
}

#[test]
fn what_changes_nothing_is_refused() {
    let scene = Scene::of(&[("a", "text")]);
    assert!(edit(&scene, "", "x").contains("`old` is empty"));
    assert!(edit(&scene, "text", "text").contains("the same"));
    let missing = scene.call("edit_file", &json!({ "path": "b", "old": "x", "new": "y" })).unwrap_err();
    assert_eq!(missing.code, Code::NoSuchFile);
    let large = Scene::of(&[("a", &"a".repeat(5 << 20))]);
    assert!(edit(&large, "x", "y").contains("RN1614"));
    let growing = Scene::of(&[("a", &"a".repeat(1 << 20))]);
    let all = json!({ "path": "a", "old": "a", "new": "b".repeat(1 << 10), "all": true });
    assert!(growing.says("edit_file", &all).contains("would grow beyond 16 MiB"));
}

#[test]
fn line_ends_and_encodings_stay() {
    let scene = Scene::of(&[("a", "\u{feff}one\r\ntwo\r\nthree\r\n")]);
    edit(&scene, "one\ntwo", "1\n2");
    assert_eq!(scene.text("a"), "\u{feff}1\r\n2\r\nthree\r\n");
    fs::write(scene.path().join("a"), b"caf\xe9 old\n").unwrap();
    edit(&scene, "old", "n\u{e9}w");
    assert_eq!(fs::read(scene.path().join("a")).unwrap(), b"caf\xe9 n\xe9w\n");
    assert!(edit(&scene, "caf", "\u{4e16}").contains("Latin-1"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_but_the_place_changes(before in "[ab\n]{0,20}", after in "[ab\n]{0,20}", new in "\\PC{0,9}") {
        let scene = Scene::of(&[("a", &format!("{before}UNIQUE{after}"))]);
        edit(&scene, "UNIQUE", &new);
        prop_assert_eq!(scene.text("a"), format!("{before}{new}{after}"));
    }
}

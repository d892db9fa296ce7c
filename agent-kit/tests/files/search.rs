use std::fs;

use rondo_protocol::diagnostic::Code;
use serde_json::json;

use crate::scene::Scene;

#[test]
fn matches_come_with_path_and_line() {
    let scene = Scene::of(&[("b.rs", "fn two() {}\n"), ("a/x.rs", "one\nfn one() {}\r\n"), ("c.md", "fn three\n")]);
    let all = "a/x.rs:2:fn one() {}\nb.rs:1:fn two() {}\nc.md:1:fn three\n";
    assert_eq!(scene.says("search_files", &json!({ "pattern": "^fn \\w+" })), all);
    assert_eq!(
        scene.says("search_files", &json!({ "pattern": "FN T", "case_insensitive": true, "glob": "*.rs" })),
        "b.rs:1:fn two() {}\n"
    );
    assert_eq!(scene.says("search_files", &json!({ "pattern": "o()", "literal": true })), "b.rs:1:fn two() {}\n");
    assert_eq!(scene.says("search_files", &json!({ "pattern": "fn", "path": "a" })), "a/x.rs:2:fn one() {}\n");
    assert_eq!(scene.says("search_files", &json!({ "pattern": "three", "path": "c.md" })), "c.md:1:fn three\n");
    assert_eq!(scene.says("search_files", &json!({ "pattern": "nowhere" })), "[no matches]\n");
}

#[test]
fn context_is_shown_around_matches() {
    let scene = Scene::of(&[("a", "1\n2\nhit\n4\n5\n6\n7\nhit\n")]);
    let context = "a-2-2\na:3:hit\na-4-4\n--\na-7-7\na:8:hit\n";
    assert_eq!(scene.says("search_files", &json!({ "pattern": "hit", "context": 1 })), context);
}

#[test]
fn binary_files_and_what_is_ignored_are_passed_over() {
    let scene = Scene::of(&[(".gitignore", "out\n"), ("out/a", "hit\n"), (".hidden", "hit\n"), ("b", "\0hit\n")]);
    assert_eq!(scene.says("search_files", &json!({ "pattern": "hit" })), "[no matches]\n");
    assert_eq!(scene.says("search_files", &json!({ "pattern": "hit", "path": ".hidden" })), ".hidden:1:hit\n");
}

#[test]
fn too_many_matches_and_long_lines_are_cut_with_a_mark() {
    let scene = Scene::of(&[("a", &"hit\n".repeat(600)), ("b", "hit\n")]);
    let cut = scene.says("search_files", &json!({ "pattern": "hit" }));
    assert_eq!(cut.lines().count(), 501);
    assert!(cut.ends_with("a:500:hit\n[cut after 500 matches; narrow the pattern, `path` or `glob`]\n"));
    fs::write(scene.path().join("a"), format!("hit{}\n", "x".repeat(1_000))).unwrap();
    let line = format!("a:1:hit{} [503 more bytes]\n", "x".repeat(497));
    assert_eq!(scene.says("search_files", &json!({ "pattern": "hit", "path": "a" })), line);
}

#[test]
fn a_line_too_long_to_hold_is_told_and_the_rest_is_searched() {
    let scene = Scene::of(&[("a", &"x".repeat(6 << 20)), ("b", "hit\n")]);
    let says = scene.says("search_files", &json!({ "pattern": "hit" }));
    assert!(says.starts_with("b:1:hit\n[\"a\" was not searched to its end: "), "{says}");
}

#[test]
fn patterns_that_cannot_be_used_are_refused() {
    let scene = Scene::of(&[("a", "a\n")]);
    for pattern in ["(", "(?=a)", "", &"a{1000}".repeat(100), &"x".repeat(5_000), "a\nb"] {
        let error = scene.call("search_files", &json!({ "pattern": pattern })).unwrap_err();
        assert_eq!(error.code, Code::PatternUnusable, "{pattern:.20}");
    }
}

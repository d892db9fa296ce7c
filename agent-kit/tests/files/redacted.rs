//! What is cut is redacted before, so that no half of a key is left.

use rondo_agent_kit::redact::Redactor;
use serde_json::json;

use crate::scene::Scene;

const KEY: &str = "sk-é-0123456789";

fn scene(files: &[(&str, &str)]) -> Scene {
    let mut scene = Scene::of(files);
    scene.redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    scene
}

fn holds_no_part(text: &str) {
    assert!(!["sk-", "é", "0123", "\u{fffd}"].iter().any(|part| text.contains(part)), "{text}");
}

#[test]
fn a_line_that_is_searched_for() {
    for before in 480..500 {
        let line = format!("found {}{KEY} and more {}", "x".repeat(before), "y".repeat(100_000));
        let scene = scene(&[("a", &line)]);
        let says = scene.says("search_files", &json!({ "pattern": "found" }));
        assert!(says.contains(" more bytes]"), "{says}");
        holds_no_part(&says);
    }
}

#[test]
fn a_line_that_is_too_long_to_be_read() {
    const SHOWN: usize = 256 << 10;
    for before in SHOWN - 24..SHOWN - 6 {
        let scene = scene(&[("a", &format!("{}{KEY}{}", "x".repeat(before), "x".repeat(50)))]);
        let says = scene.says("read_file", &json!({ "path": "a" }));
        assert!(says.contains("[line 1 is cut after"), "{before}");
        holds_no_part(says.trim_start_matches(['x', ' ', '1', '\t']));
    }
}

#[test]
fn a_line_that_an_edit_or_a_patch_does_not_fit() {
    for before in 380..400 {
        let scene = scene(&[("a", &format!("one\n{}{KEY}\n", "x".repeat(before)))]);
        let says = scene.says("edit_file", &json!({ "path": "a", "old": "one\ntwo", "new": "" }));
        assert!(says.contains("line 2 is"), "{says}");
        holds_no_part(&says);
    }
    for before in 180..200 {
        let scene = scene(&[("a", &format!("{}{KEY}\n", "x".repeat(before)))]);
        let says = scene.says("apply_patch", &json!({ "patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n" }));
        assert!(says.contains("at line 1 stands"), "{says}");
        holds_no_part(&says);
    }
}

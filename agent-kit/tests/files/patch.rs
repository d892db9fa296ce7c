use std::fs;

use proptest::prelude::*;
use rondo_protocol::diagnostic::Code;
use serde_json::json;

use crate::scene::Scene;

fn patch(scene: &Scene, patch: &str) -> String {
    scene.says("apply_patch", &json!({ "patch": patch }))
}

const THREE: &str = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n\
                     --- /dev/null\n+++ b/new/b\n@@ -0,0 +1,2 @@\n+first\n+second\n\
                     --- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";

#[test]
fn files_are_changed_created_and_removed() {
    let scene = Scene::of(&[("a", "one\ntwo\nthree\n"), ("old", "gone\n")]);
    assert_eq!(patch(&scene, THREE), "changed a\ncreated new/b\nremoved old\n");
    assert_eq!(scene.names(), ["a", "new/b"]);
    assert_eq!((scene.text("a"), scene.text("new/b")), ("one\n2\nthree\n".to_owned(), "first\nsecond\n".to_owned()));
}

#[test]
fn all_files_are_changed_or_none() {
    let scene = Scene::of(&[("a", "one\ntwo\nthree\n"), ("old", "other\n")]);
    let error = scene.call("apply_patch", &json!({ "patch": THREE })).unwrap_err();
    assert_eq!(error.code, Code::PatchUnusable);
    assert_eq!(
        error.message,
        "hunk 1 of old (@@ -1,1 +0,0 @@) does not fit: at line 1 stands \"other\", nor anything like it; read the file again"
    );
    assert_eq!(scene.names(), ["a", "old"]);
    assert_eq!(scene.text("a"), "one\ntwo\nthree\n");
}

#[test]
fn what_was_written_is_put_back_when_a_later_file_cannot_be() {
    let scene = Scene::of(&[("a", "one\n")]);
    // The last file cannot be made: by then its name is a folder's.
    let parts = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+1\n--- /dev/null\n+++ b/x/y\n@@ -0,0 +1 @@\n+y\n\
                 --- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n";
    let error = scene.call("apply_patch", &json!({ "patch": parts })).unwrap_err();
    assert!(error.message.ends_with("; no file was changed"), "{error}");
    assert_eq!(scene.names(), ["a"]);
    assert_eq!(scene.text("a"), "one\n");
    assert!(!scene.path().join("x").exists());
}

#[test]
fn line_numbers_may_be_off_and_line_ends_stay() {
    let scene = Scene::of(&[("a", "0\r\n1\r\n2\r\n3\r\n4\r\n")]);
    assert_eq!(patch(&scene, "--- a/a\n+++ b/a\n@@ -1,7 +1,2 @@\n 3\n-4\n+four\n"), "changed a\n");
    assert_eq!(scene.text("a"), "0\r\n1\r\n2\r\n3\r\nfour\r\n");
    fs::write(scene.path().join("a"), "x\nend").unwrap();
    let end = "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-end\n\\ No newline at end of file\n+END\n";
    assert_eq!(patch(&scene, end), "changed a\n");
    assert_eq!(scene.text("a"), "x\nEND\n");
}

#[test]
fn what_stands_there_is_told_when_a_hunk_does_not_fit() {
    let scene = Scene::of(&[("a", "one\ntwo\nthree\n")]);
    let says = patch(&scene, "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-2\n+zwei\n three\n");
    assert_eq!(
        says,
        "error RN1616: hunk 1 of a (@@ -1,3 +1,3 @@) does not fit: at line 1 stands \"one\"; \
         it agrees from line 1 on, but line 2 is \"two\" and not \"2\""
    );
}

#[test]
fn files_that_are_there_or_not_there_are_told() {
    let scene = Scene::of(&[("a", "one\n")]);
    assert!(patch(&scene, "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n").contains("which is there already"));
    let missing = scene.call("apply_patch", &json!({ "patch": "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n" }));
    assert_eq!(missing.unwrap_err().code, Code::NoSuchFile);
    let rest = "--- a/a\n+++ /dev/null\n@@ -2,0 +2 @@\n one\n";
    assert!(patch(&scene, rest).contains("leaves text in it"));
    let twice = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+1\n--- a/./a\n+++ b/./a\n@@ -1 +1 @@\n-one\n+2\n";
    assert!(patch(&scene, twice).contains("two names"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_patch_between_two_texts_leads_from_one_to_the_other(
        before in proptest::collection::vec("[abc -+@]{0,3}", 1..30),
        after in proptest::collection::vec("[abc -+@]{0,3}", 1..30),
    ) {
        let (before, after) = (before.join("\n"), after.join("\n"));
        prop_assume!(before != after && !before.is_empty() && !after.is_empty());
        let scene = Scene::of(&[("a", &before)]);
        let diff = diffy::create_patch(&before, &after).to_string();
        let diff = diff.replacen("--- original", "--- a/a", 1).replacen("+++ modified", "+++ b/a", 1);
        prop_assert_eq!(patch(&scene, &diff), "changed a\n");
        prop_assert_eq!(scene.text("a"), after);
    }
}

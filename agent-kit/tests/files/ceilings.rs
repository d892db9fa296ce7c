//! How much memory calls take, by the system's count of this process at its peak. Each test runs in a process of its own.

use std::env;
use std::fs;
use std::process::Command;

use rondo_protocol::diagnostic::Code;
use serde_json::json;

use crate::scene::Scene;

/// What sixteen calls may take together, besides what they are given and what they answer.
const MOST_BYTES: usize = 64 << 20;
const CALLS: usize = 16;

const CHILD: &str = "RONDO_TEST_CEILING";

/// A field of what the system says of this process, in bytes.
fn memory(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap() * 1024
}

/// Runs `test` in a process of its own, where it says how many bytes its calls may take besides [`MOST_BYTES`].
fn measured(name: &str, test: fn() -> usize) {
    if env::var_os(CHILD).is_none() {
        let test = format!("ceilings::{name}");
        let mut child = Command::new(env::current_exe().unwrap());
        let ended = child.args(["--exact", &test, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.contains("taken at the peak"), "{said}");
        return;
    }
    let before = memory("VmRSS:");
    let besides = test();
    let taken = memory("VmHWM:") - before;
    println!("{name}: {} KiB taken at the peak", taken >> 10);
    assert!(taken < MOST_BYTES + besides, "{taken} bytes were taken");
}

/// Three MiB of them.
const LARGE_LINES: usize = 3 << 19;

/// Lines so short that a list of them is many times as large as they are.
fn large_files(count: usize) -> Scene {
    let scene = Scene::of(&[]);
    let text = "x\n".repeat(LARGE_LINES);
    for number in 0..count {
        fs::write(scene.path().join(format!("f{number}")), &text).unwrap();
    }
    scene
}

#[test]
fn a_small_patch_of_many_large_files_is_refused() {
    measured("a_small_patch_of_many_large_files_is_refused", || {
        let scene = large_files(12);
        let hunk = |number| format!("--- a/f{number}\n+++ b/f{number}\n@@ -1 +1 @@\n-x\n+y\n");
        let patch: String = (0..12).map(hunk).collect();
        for result in scene.at_once(CALLS, "apply_patch", &json!({ "patch": patch })) {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::PatchUnusable);
            assert!(error.message.contains("more than 16 MiB together"), "{error}");
        }
        assert!(scene.text("f0").starts_with("x\nx"));
        0
    });
}

#[test]
fn patches_and_edits_of_large_files_wait_for_each_other() {
    measured("patches_and_edits_of_large_files_wait_for_each_other", || {
        let scene = large_files(1);
        let patch = "--- a/f0\n+++ b/f0\n@@ -1000 +1000,2 @@\n x\n+x\n";
        for result in scene.at_once(CALLS, "apply_patch", &json!({ "patch": patch })) {
            assert_eq!(result.unwrap(), "changed f0\n");
        }
        assert_eq!(scene.text("f0").len(), 2 * (LARGE_LINES + CALLS));
        for result in scene.at_once(CALLS, "edit_file", &json!({ "path": "f0", "old": "x", "new": "y", "all": true })) {
            // Only the first one finds it.
            assert!(result.is_ok_and(|done| done.starts_with("edited f0")) || scene.text("f0").starts_with('y'));
        }
        assert!(scene.text("f0").starts_with("y\ny\n"));
        0
    });
}

#[test]
fn a_patch_of_very_many_short_lines() {
    measured("a_patch_of_very_many_short_lines", || {
        let scene = Scene::of(&[("a", "one\n")]);
        let patch = format!("{}--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n", "\n".repeat(3 << 20));
        let arguments = json!({ "patch": patch });
        let done = scene.at_once(CALLS, "apply_patch", &arguments).into_iter().flatten().count();
        assert_eq!(done, 1);
        // Each call is given a copy of it.
        CALLS * patch.len()
    });
}

/// Rules that an automaton would have very many states for.
fn hostile_rules(count: usize) -> String {
    (0..count).fold(String::new(), |rules, number| rules + &format!("*a?????????{number:05}*[b-y]*\n"))
}

#[test]
fn hostile_ignore_files_in_deep_folders() {
    measured("hostile_ignore_files_in_deep_folders", || {
        let scene = Scene::of(&[]);
        let mut folder = scene.path().to_owned();
        for depth in 0..12 {
            fs::write(folder.join(".gitignore"), hostile_rules(900)).unwrap();
            for number in 0..10 {
                fs::write(folder.join(format!("aab{}bab{number:012b}", "a".repeat(depth))), "").unwrap();
            }
            folder.push("d");
            fs::create_dir(&folder).unwrap();
        }
        for result in scene.at_once(CALLS, "list_files", &json!({})) {
            let said = result.unwrap();
            assert!(said.contains(".gitignore was not applied: ignore files may have 32 KiB"), "{said}");
        }
        0
    });
}

#[test]
fn an_ignore_file_that_is_too_large_is_not_applied_and_says_so() {
    let files = [("a.log", ""), ("b", ""), ("in/.gitignore", "b\n"), ("in/a.log", ""), ("in/b", "")];
    let says = |rules: &str| {
        let scene = Scene::of(&files);
        fs::write(scene.path().join(".gitignore"), rules).unwrap();
        scene.says("list_files", &json!({}))
    };
    let mark = "[.gitignore was not applied: ignore files may have 32 KiB, with those of the folders above]\n";
    let all = "a.log\t0\nb\t0\nin/\nin/a.log\t0\n";
    assert_eq!(says("*.log\n"), "b\t0\nin/\n");
    assert_eq!(says(&format!("*.log\n#{}", "x".repeat(32 << 10))), format!("{all}{mark}"));
    assert_eq!(says(&format!("{}*.log\n", "x\n".repeat(16 << 10))), format!("{all}{mark}"));
    assert_eq!(says(&format!("{}*.log\n", "x\n".repeat(16_000))), "b\t0\nin/\n");
}

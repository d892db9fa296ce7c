use super::{FilePatch, Hunk, read};

fn one(patch: &str) -> FilePatch {
    let mut files = read(patch).unwrap();
    assert_eq!(files.len(), 1);
    files.remove(0)
}

fn fault(patch: &str) -> String {
    read(patch).unwrap_err()
}

#[test]
fn prefixes_times_and_talk_around_a_patch_are_no_part_of_it() {
    let patch = "Here it is:\n\ndiff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n\
                 --- a/src/a.rs\t2026-01-01\n+++ b/src/a.rs\n@@ -1 +1 @@ fn a\n-old\n+new\n-- \n2.39.0\n";
    let hunk = Hunk { old_start: 1, new_start: 1, body: "-old\n+new\n".to_owned() };
    let named = Some("src/a.rs".to_owned());
    assert_eq!(one(patch), FilePatch { old: named.clone(), new: named, hunks: vec![hunk] });
    assert_eq!(one("--- a/b/c\n+++ a/b/c\n@@ -1 +1 @@\n-x\n+y\n").path(), "a/b/c");
    assert_eq!(one("--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+y\n").old, None);
    assert_eq!(one("--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n").new, None);
}

#[test]
fn wrong_counts_are_counted_again() {
    let file = one("--- a/f\n+++ b/f\n@@ -3,9 +3,1 @@\n context\n-old\n+new\n+newer\n\n");
    assert_eq!(file.hunks[0].header(), "@@ -3,2 +3,3 @@");
    let files = read("--- a/f\n+++ b/f\n@@ -1,7 +1,7 @@\n-old\n+new\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n").unwrap();
    assert_eq!(files.iter().map(FilePatch::path).collect::<Vec<_>>(), ["f", "g"]);
}

#[test]
fn lines_that_look_like_headers_are_text_while_they_are_promised() {
    let file = one("--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n--- old comment\n+++ new comment\n@@ -9 +9 @@\n-a\n+b\n");
    assert_eq!(file.hunks[0].body, "--- old comment\n+++ new comment\n");
    assert_eq!(file.hunks.len(), 2);
}

#[test]
fn what_is_more_than_text_is_refused() {
    assert!(fault("nothing").contains("not a unified diff"));
    assert!(fault("*** Begin Patch\n*** Update File: a\n").contains("not of a unified diff"));
    assert!(fault("@@ -1 +1 @@\n-a\n+b\n").contains("without `--- a/path`"));
    assert!(fault("--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n").contains("renames"));
    assert!(fault("diff --git a/f b/g\nrename from f\nrename to g\n").contains("rename"));
    assert!(fault("diff --git a/f b/f\nGIT binary patch\n").contains("binary"));
    assert!(fault("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n").contains("permissions"));
    assert!(fault("diff --git a/f b/f\nnew file mode 100644\nindex 0..1\n").contains("without any text"));
    assert!(fault("--- \"a/f\\303\"\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n").contains("quotes"));
    assert!(fault("--- a/f\n+++ b/f\n").contains("no hunk"));
    assert!(fault("--- a/f\n+++ b/f\n@@ here @@\n-a\n+b\n").contains("not a hunk header"));
    assert!(fault("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n-a\nwhat\n+b\n").contains("line 5"));
    let twice = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    assert!(fault(&format!("{twice}{twice}")).contains("twice"));
}

//! Writes: what they may touch is gone before they start, and is not kept when they overlap it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::cache::tool_cache::dependencies::{Dependencies, WriteSet};
use crate::cache::tool_cache::key::READ;
use crate::cache::tool_cache::write_log::WriteLog;

const PATCH: &str = "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-one\n+two\n";

/// The ways to write, each with whether what it reaches is known.
fn ways() -> Vec<(&'static str, String, bool)> {
    let patch = Value::from_iter([("patch", Value::from(PATCH))]).to_text();
    vec![
        ("edit_file", r#"{"path":"x","old":"one","new":"two"}"#.to_owned(), true),
        ("write_file", r#"{"path":"x","text":"two\n"}"#.to_owned(), true),
        ("apply_patch", patch, true),
        ("format", "{}".to_owned(), true),
        ("shell", "{}".to_owned(), false),
        ("docs.put", "{}".to_owned(), false),
    ]
}

/// A fixture on which each way leads, and how many entries there were when a tool of ours wrote.
fn fixture() -> (Arc<Mutex<Vec<u64>>>, Fixture) {
    let at_start: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut fixture = Fixture::new(vec![counting("look", Origin::BuiltIn, Effect::Pure)]);
    let path = fixture.folder.path().join("x");
    let writes = |name: &str, origin: Origin, effect: Effect| {
        let (path, at_start) = (path.clone(), Arc::clone(&at_start));
        let shared = Arc::clone(&fixture.kind.shared);
        made(name, origin, effect, move |_| {
            at_start.lock().unwrap().push(shared.caches.used().iter().map(|cache| cache.totals().entries).sum());
            std::fs::write(&path, "two\n").unwrap();
            Ok("done".to_owned())
        })
    };
    let own = [
        writes("format", Origin::Program, Effect::Writes(vec!["x".to_owned()])),
        writes("shell", Origin::BuiltIn, Effect::External),
        writes("docs.put", server("docs"), Effect::External),
    ];
    fixture.tools.extend(own.map(|tool| (tool.spec().name.clone(), tool)));
    (at_start, fixture)
}

/// A public failure of other engines: an agent reads what was there before its own write.
#[tokio::test]
async fn a_read_after_an_own_write_is_fresh_for_the_same_role_another_and_another_thread() {
    for (way, arguments, is_bounded) in ways() {
        for (writer, flag, mode) in [
            ("the same role", "on", "serve"),
            ("another role", "on", "serve"),
            ("another thread", "on", "serve"),
            ("another workflow", "on", "serve"),
            ("a node that is off", "off", "serve"),
            ("a node that observes", "on", "observe"),
        ] {
            let (at_start, fixture) = fixture();
            fixture.write("x", "one\n");
            fixture.write("y", "unrelated");
            let run = fixture.run("{}");
            run.call("look", "{}").await;
            run.read("x").await;
            run.read("y").await;
            assert!(run.read("x").await.is_hit);
            assert_eq!(fixture.entries(), 3);
            let other = match writer {
                "the same role" | "another role" => None,
                "another workflow" => Some(fixture.nodes(2, "v", &[("{}", flag)])),
                _ => Some(fixture.nodes(2, "w", &[(&format!("{{\"mode\":\"{mode}\"}}"), flag)])),
            };
            let role = if writer == "another role" { "b" } else { "a" };
            let wrote = other.as_ref().unwrap_or(&run).by(role, way, &arguments).await;
            assert!(!wrote.failed && !wrote.is_hit, "{way}: {}", wrote.text);
            // What it may touch was dropped before it started: the pure entry stays, and a read that lies elsewhere.
            let left = if is_bounded { 2 } else { 1 };
            assert_eq!(fixture.entries(), left, "{way} by {writer}");
            assert!(at_start.lock().unwrap().iter().all(|entries| *entries == left), "{way} by {writer}");
            let fresh = run.read("x").await;
            assert!(!fresh.is_hit && fresh.text.contains("two"), "{way} by {writer}: {}", fresh.text);
            assert!(run.call("look", "{}").await.is_hit, "{way}");
            assert_eq!(run.read("y").await.is_hit, is_bounded, "{way}");
        }
    }
}

/// A public failure of other engines: an edit that looks like an earlier one is skipped.
#[tokio::test]
async fn an_identical_edit_is_made_again() {
    let (_, fixture) = fixture();
    let run = fixture.run("{}");
    for _ in 0..3 {
        fixture.write("x", "one\n");
        let edited = run.call("edit_file", r#"{"path":"x","old":"one","new":"two"}"#).await;
        assert!(!edited.is_hit && !edited.failed);
        assert_eq!(std::fs::read_to_string(fixture.folder.path().join("x")).unwrap(), "two\n");
    }
    assert_eq!(run.reached(), 3);
    assert_eq!(numbers(&run.metrics().await, &["observed_calls", "hits", "misses", "recorded_count"]), [3, 0, 0, 0]);
}

/// The entries of what is kept are read as they come, and never again for a write.
#[tokio::test]
async fn a_write_reads_no_entry_of_what_it_does_not_touch() {
    let (_, fixture) = fixture();
    let run = fixture.run("{}");
    for n in 0..200 {
        let name = format!("y{n}");
        fixture.write(&name, "one\n");
        run.read(&name).await;
    }
    fixture.write("x", "one\n");
    run.read("x").await;
    assert_eq!(fixture.entries(), 201);
    READ.set(0);
    run.call("edit_file", r#"{"path":"x","old":"one","new":"two"}"#).await;
    assert_eq!((READ.get(), fixture.entries()), (0, 200));
    run.call("shell", "{}").await;
    assert_eq!((READ.get(), fixture.entries()), (0, 0));
    // What an earlier process kept is found as well.
    run.read("y7").await;
    drop(run);
    fixture.flush().await;
    let fixture = fixture.again();
    let run = fixture.run("{}");
    assert!(run.read("y7").await.is_hit);
    run.call("write_file", r#"{"path":"y7","text":"two"}"#).await;
    assert_eq!(fixture.entries(), 0);
}

#[tokio::test]
async fn what_is_dropped_is_gone_from_the_store_too() {
    let (_, fixture) = fixture();
    fixture.write("x", "one\n");
    fixture.run("{}").read("x").await;
    fixture.flush().await;
    let kept = fixture.space().scan(b"s", 100).unwrap().iter().filter(|(key, _)| !key[17..].starts_with(b"f|")).count();
    fixture.run("{}").call("shell", "{}").await;
    fixture.flush().await;
    let left = fixture.space().scan(b"s", 100).unwrap().iter().filter(|(key, _)| !key[17..].starts_with(b"f|")).count();
    assert!(left < kept, "{left} of {kept}");
}

/// A read that the first of these calls begins, and that ends once the second has been made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_a_write_overlaps_is_not_kept() {
    for (way, arguments, touches) in [
        ("write_file", r#"{"path":"x","text":"two"}"#, true),
        ("write_file", r#"{"path":"y","text":"two"}"#, false),
        ("shell", "{}", true),
    ] {
        let (_, fixture) = fixture();
        fixture.write("x", "one\n");
        let run = fixture.run("{}");
        let begun = run.begin("a", "read_file", r#"{"path":"x"}"#).await;
        // Its result is there, and not settled.
        fixture.nodes(2, "w", &[("{}", "on")]).call(way, arguments).await;
        run.settle(begun).await;
        let metrics = run.metrics().await;
        assert_eq!(number(&metrics, "recorded_count"), i128::from(!touches), "{way} {arguments}");
        let expected = if touches {
            "refused because what it read was, or may have been, written to at the same time"
        } else {
            "absent"
        };
        assert_eq!(outcomes(&metrics), [expected]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_while_a_write_is_under_way_is_not_kept() {
    let mut fixture = fixture().1;
    fixture.write("x", "one\n");
    let (started, starts) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let slow = made("slow", Origin::Program, Effect::Writes(vec!["x".to_owned()]), move |_| {
        started.send(()).unwrap();
        ends.lock().unwrap().recv().unwrap();
        Ok(String::new())
    });
    fixture.tools.insert("slow".to_owned(), slow);
    let fixture = Arc::new(fixture);
    let writer = Arc::clone(&fixture);
    let writing = tokio::spawn(async move { writer.nodes(2, "w", &[("{}", "off")]).call("slow", "{}").await });
    tokio::task::spawn_blocking(move || starts.recv().unwrap()).await.unwrap();
    let run = fixture.run("{}");
    run.read("x").await;
    assert_eq!(fixture.entries(), 0);
    end.send(()).unwrap();
    writing.await.unwrap();
    run.read("x").await;
    assert_eq!(fixture.entries(), 1);
}

fn anything() -> Arc<WriteSet> {
    Arc::new(WriteSet::anything())
}

#[test]
fn the_record_tells_writes_before_a_read_from_those_beside_it() {
    let writes: Arc<WriteLog> = Arc::default();
    let dependencies = Dependencies::any();
    writes.writing(anything()).end();
    let reading = Instant::now();
    assert!(!writes.overlap(reading, &dependencies), "it had ended");
    let writing = writes.writing(anything());
    assert!(writes.overlap(reading, &dependencies), "it is under way");
    assert!(writes.overlap(Instant::now(), &dependencies), "it is still under way");
    writing.end();
    assert!(writes.overlap(reading, &dependencies), "it was beside it");
    assert!(!writes.overlap(Instant::now(), &dependencies));
    // Nobody knows when a write ends whose future was dropped.
    drop(writes.writing(anything()));
    assert!(writes.overlap(Instant::now(), &dependencies));
}

#[test]
fn the_record_is_bounded_and_what_it_lost_counts_as_anything() {
    let writes: Arc<WriteLog> = Arc::default();
    let elsewhere = || {
        let folder = TempDir::new().unwrap();
        let files = Workspace::open(folder.path(), Access { read: vec![".".into()], ..Access::default() }).unwrap();
        Arc::new(WriteSet::of(&["z".to_owned()], &files))
    };
    let write_set = elsewhere();
    let seen = rondo_protocol::read_set::ReadSet::default();
    let dependencies = Dependencies::of(&seen, std::path::Path::new("/nowhere"));
    assert!(!write_set.touches(&dependencies));
    let early = Instant::now();
    for _ in 0..2000 {
        writes.writing(Arc::clone(&write_set)).end();
    }
    assert!(writes.overlap(early, &dependencies), "what happened since is not known any more");
    assert!(!writes.overlap(Instant::now(), &dependencies));
    // More under way than there is room for.
    let many: Vec<_> = (0..2000).map(|_| writes.writing(Arc::clone(&write_set))).collect();
    assert!(writes.overlap(Instant::now(), &dependencies));
    let begun = Instant::now();
    many.into_iter().for_each(super::super::write_log::WriteGuard::end);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(!writes.overlap(Instant::now(), &dependencies));
}

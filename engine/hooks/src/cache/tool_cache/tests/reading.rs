//! Reads: given again only while everything that was seen stands as it did.

use super::*;

#[tokio::test]
async fn a_read_is_given_again_with_what_it_saw_while_that_stands() {
    let fixture = Fixture::new(Vec::new());
    fixture.write("x", "one");
    let run = fixture.run("{}");
    let first = run.read("x").await;
    let second = run.read("x").await;
    assert!(second.is_hit && second.text == first.text);
    assert!(second.reply.seen.is_some() && second.reply.seen == first.reply.seen);
    // The same length, and so soon that no time need tell the change.
    fixture.write("x", "two");
    let third = run.read("x").await;
    assert!(!third.is_hit && third.text.contains("two"));
    let metrics = run.metrics().await;
    assert_eq!(numbers(&metrics, &["hits", "misses", "changed", "recorded_count", "entries"]), [1, 2, 1, 2, 1]);
    assert_eq!(outcomes(&metrics), ["absent", "hit", "changed"]);
    // In the next process too, and when it is gone.
    let fixture = fixture.again();
    assert!(fixture.run("{}").read("x").await.is_hit);
    std::fs::remove_file(fixture.folder.path().join("x")).unwrap();
    assert!(fixture.run("{}").read("x").await.failed);
}

#[tokio::test]
async fn a_result_with_a_file_is_not_kept() {
    let fixture = Fixture::new(Vec::new());
    fixture.write("x", b"\x89PNG\r\n\x1a\n\0");
    let run = fixture.run("{}");
    for _ in 0..2 {
        let read = run.read("x").await;
        assert!(!read.is_hit && read.reply.files.len() == 1);
    }
}

/// A public failure of other engines: who polls is told what was so when it first asked.
#[tokio::test]
async fn identical_polls_see_each_change() {
    let fixture = Fixture::new(Vec::new());
    let run = fixture.run("{}");
    for state in ["pending", "pending", "running", "done   "] {
        fixture.write("state", state);
        assert!(run.read("state").await.text.contains(state), "{state}");
    }
    assert!(run.read("state").await.is_hit);
}

#[tokio::test]
async fn a_listing_and_a_search_see_what_comes_goes_and_changes() {
    let fixture = Fixture::new(Vec::new());
    fixture.write("a.txt", "needle");
    let run = fixture.run("{}");
    let calls = [("list_files", "{}"), ("search_files", r#"{"pattern":"needle"}"#)];
    for (name, arguments) in calls {
        run.call(name, arguments).await;
        assert!(run.call(name, arguments).await.is_hit, "{name}");
    }
    let changes: [(&str, &dyn Fn()); 4] = [
        ("it comes", &|| fixture.write("b.txt", "needle")),
        ("it changes", &|| fixture.write("b.txt", "no needle any more")),
        ("it is renamed", &|| {
            std::fs::rename(fixture.folder.path().join("b.txt"), fixture.folder.path().join("c.txt")).unwrap();
        }),
        ("it goes", &|| std::fs::remove_file(fixture.folder.path().join("c.txt")).unwrap()),
    ];
    for (what, change) in changes {
        change();
        for (name, arguments) in calls {
            let fresh = run.call(name, arguments).await;
            let plain = fixture.nodes(9, "w", &[]).call(name, arguments).await;
            assert_eq!(fresh.text, plain.text, "{name}: {what}");
        }
    }
}

#[tokio::test]
async fn names_that_no_text_holds_as_they_are_are_never_served_stale() {
    use std::os::unix::ffi::OsStrExt;
    for name in [&b"line\nbreak"[..], b"not\xffutf8", b"caf\xc3\xa9", b"tab\t\x1b[31m"] {
        let fixture = Fixture::new(Vec::new());
        let path = fixture.folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(&path, "needle one").unwrap();
        let run = fixture.run("{}");
        let search = r#"{"pattern":"needle.*"}"#;
        for text in ["needle one", "needle two"] {
            std::fs::write(&path, text).unwrap();
            for _ in 0..2 {
                assert!(run.call("search_files", search).await.text.contains(text), "{name:?}");
                run.call("list_files", "{}").await;
            }
        }
        std::fs::remove_file(&path).unwrap();
        let listed = run.call("list_files", "{}").await.text;
        assert_eq!(listed, fixture.nodes(9, "w", &[]).call("list_files", "{}").await.text);
    }
}

/// Two workspaces keep apart what is called alike in both.
#[tokio::test]
async fn two_folders_never_share() {
    let one = Fixture::new(Vec::new());
    one.write("x", "of one");
    one.run("{}").read("x").await;
    let other = Fixture::new(Vec::new());
    other.write("x", "of two");
    let other =
        Fixture { store: Arc::clone(&one.store), kind: ToolCache { shared: Arc::clone(&one.kind.shared) }, ..other };
    assert!(other.run("{}").read("x").await.text.contains("of two"));
    assert!(one.run("{}").read("x").await.text.contains("of one"));
}

#[tokio::test]
async fn without_a_workspace_no_read_is_kept() {
    let fixture = Fixture::new(Vec::new());
    fixture.write("x", "one");
    let roles = BTreeMap::from([(RoleName::new("a").unwrap(), fixture.view("w"))]);
    let hook = HookUse {
        at: CallKind::Tool,
        on_error: OnHookError::Fail,
        roles: None,
        settings: BTreeMap::new(),
        kind: NAME.to_owned(),
    };
    let hook = fixture.kind.build(&BuildContext {
        of_kind: &std::collections::BTreeSet::new(),
        altered: &std::collections::BTreeSet::new(),
        hook: &hook,
        roles: &roles,
        flags: &BTreeMap::new(),
        resources: &HookResources::default(),
        space: &fixture.space(),
        is_replay: false,
    });
    let path = CallPath::new(vec![fixture.node(hook.unwrap(), NAME)]);
    let run = Run { path, ..fixture.run("{}") };
    run.read("x").await;
    assert!(!run.read("x").await.is_hit);
    assert!(outcomes(&run.metrics().await)[0].starts_with("refused because it reads files, and there is no workspace"));
}

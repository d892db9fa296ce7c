//! Which calls may be kept, whatever they are called and whoever names them.

use rondo_protocol::workflow::HookNode;

use super::*;

const PURE: Effect = Effect::Pure;

/// Calls a tool twice: whether the second one was answered, and how both ended.
async fn twice(fixture: &Fixture, settings: &str, name: &str) -> (bool, Vec<String>) {
    let run = fixture.run(settings);
    run.call(name, "{}").await;
    let is_hit = run.call(name, "{}").await.is_hit;
    (is_hit, outcomes(&run.metrics().await))
}

async fn is_kept(tool: Arc<dyn Tool>, settings: &str) -> bool {
    let name = tool.spec().name.clone();
    twice(&Fixture::new(vec![tool]), settings, &name).await.0
}

#[tokio::test]
async fn the_declared_effect_decides() {
    for (effect, refused) in [
        (PURE, None),
        (Effect::Reads(vec![".".to_owned()]), Some("it reads, and has no read set, so what it saw is unknown")),
        (Effect::Writes(vec!["x".to_owned()]), Some("its effect is writes")),
        (Effect::External, Some("its effect is external")),
    ] {
        for origin in [Origin::BuiltIn, Origin::Program] {
            let fixture = Fixture::new(vec![counting("look", origin, effect.clone())]);
            let (is_hit, outcomes) = twice(&fixture, "{}", "look").await;
            let expected = match refused {
                None => ["absent".to_owned(), "hit".to_owned()],
                Some(why) => [format!("refused because {why}"), format!("refused because {why}")],
            };
            assert_eq!((is_hit, outcomes), (refused.is_none(), expected.to_vec()), "{effect:?}");
        }
    }
}

#[tokio::test]
async fn what_is_not_granted_or_shown_to_a_person_first_is_never_answered() {
    for (name, why) in [
        ("ungranted", "refused because the tool is not granted"),
        ("approved", "refused because a person is asked before each call of it"),
    ] {
        let fixture = Fixture::new(vec![counting(name, Origin::BuiltIn, PURE)]);
        let (is_hit, outcomes) = twice(&fixture, &format!("{{\"tools\":[\"{name}\"]}}"), name).await;
        assert_eq!((is_hit, outcomes[1].as_str()), (false, why));
    }
}

#[tokio::test]
async fn the_fixed_list_holds_whatever_effect_is_declared_and_nothing_takes_from_it() {
    let listed = "shell bash shell_exec write write_file edit_file create_file delete_file apply_patch commit push deploy \
                  send_email execute_sql http_request memory_save memory_search scheduler git_push git_commit http_get \
                  fetch";
    let disguised = ["server.write_file", "Bash", "WriteFile", "write-file", "fs__write_file", "a/b/PUSH", "x:deploy"];
    for name in listed.split_whitespace().chain(disguised) {
        assert!(deny_list::is_denied(name), "{name}");
        let fixture = Fixture::new(vec![counting(name, Origin::Program, PURE)]);
        let (is_hit, outcomes) = twice(&fixture, "{}", name).await;
        let why = "refused because the tool is on the fixed list of those that are never kept";
        assert_eq!((is_hit, outcomes[1].as_str()), (false, why), "{name}");
        for settings in [format!("{{\"tools\":[\"{name}\"]}}"), format!("{{\"per_tool\":{{\"{name}\":1000}}}}")] {
            let error = fixture.build("w", &settings, "on").err().unwrap();
            assert!(error.contains(name) && error.contains("fixed list"), "{error}");
        }
    }
    for name in ["read_file", "list_files", "search_files", "calculate", "rewrite", "pushes", "bashful", ""] {
        assert!(!deny_list::is_denied(name), "{name}");
    }
}

#[tokio::test]
async fn exclude_adds_to_the_list_and_tools_leaves_others_out() {
    let date = || counting("date", Origin::BuiltIn, PURE);
    assert!(is_kept(date(), "{}").await);
    assert!(is_kept(date(), r#"{"tools":["date"]}"#).await);
    for settings in [
        r#"{"exclude":["date"]}"#,
        r#"{"exclude":["DATE"],"tools":["date"],"per_tool":{"date":null}}"#,
        r#"{"tools":["other"]}"#,
        r#"{"tools":[]}"#,
    ] {
        assert!(!is_kept(date(), settings).await, "{settings}");
    }
    let of_server = || counting("clock.date", server("clock"), PURE);
    let named = r#"{"tools":["clock.*"]}"#;
    assert!(is_kept(of_server(), named).await);
    for exclude in ["clock.*", "clock.date", "date"] {
        let settings = format!("{{\"tools\":[\"clock.*\"],\"exclude\":[\"{exclude}\"]}}");
        assert!(!is_kept(of_server(), &settings).await, "{settings}");
    }
}

/// A public failure of another engine: a tool's name was taken for its origin.
#[tokio::test]
async fn whose_a_tool_is_is_never_guessed_from_its_name() {
    // Not an MCP server's, whatever it is called.
    for origin in [Origin::BuiltIn, Origin::Program] {
        assert!(is_kept(counting("files.read", origin, PURE), "{}").await);
    }
    // One, whatever it is called, and whatever effect it is said to have.
    for effect in [PURE, Effect::External] {
        for (name, settings, kept) in [
            ("lookup", "{}", false),
            ("lookup", r#"{"exclude":["x"]}"#, false),
            ("lookup", r#"{"tools":["lookup"]}"#, true),
            ("docs.find", "{}", false),
            ("docs.find", r#"{"tools":["find"]}"#, false),
            ("docs.find", r#"{"tools":["doc.*"]}"#, false),
            ("docs.find", r#"{"tools":["*"]}"#, false),
            ("docs.find", r#"{"tools":["docs.find"]}"#, true),
            ("docs.find", r#"{"tools":["docs.*"]}"#, true),
            ("docs.find", r#"{"per_tool":{"docs.find":5000}}"#, true),
            ("docs.find", r#"{"per_tool":{"docs.*":null}}"#, true),
            ("docs.find", r#"{"tools":["other"],"per_tool":{"docs.find":5000}}"#, false),
        ] {
            let tool = counting(name, server("docs"), effect.clone());
            assert_eq!(is_kept(tool, settings).await, kept, "{name} {settings} {effect:?}");
        }
    }
    // The server's name stands in its settings, not in the tool's name.
    assert!(!is_kept(counting("docs.find", server("other"), PURE), r#"{"tools":["docs.*"]}"#).await);
    assert!(
        !is_kept(counting("docs.drop", server("docs"), Effect::Writes(Vec::new())), r#"{"tools":["docs.*"]}"#).await
    );
}

#[tokio::test]
async fn a_call_that_failed_is_never_kept() {
    let failing = made("look", Origin::BuiltIn, PURE, |_| Err(tool::Error::new(Code::ToolArguments, "no")));
    let fixture = Fixture::new(vec![failing]);
    let run = fixture.run("{}");
    run.call("look", "{}").await;
    assert!(!run.call("look", "{}").await.is_hit);
    // Nor one that an outer hook makes a failure of.
    let fixture = Fixture::new(vec![counting("look", Origin::BuiltIn, PURE)]);
    let run = fixture.run("{}");
    let (call, passed, inserted) = run.begin("a", "look", "{}").await;
    run.path.settle(passed, &call, &Reply::Tool(inserted.reply), Verdict::Refused).await;
    assert!(!run.call("look", "{}").await.is_hit);
    assert_eq!(run.reached(), 2);
}

#[tokio::test]
async fn arguments_that_are_spelt_differently_are_the_same_and_others_are_not() {
    let fixture = Fixture::new(vec![counting("look", Origin::BuiltIn, PURE)]);
    let run = fixture.run("{}");
    let same =
        [r#"{"a":1,"b":[1.5,"ü"]}"#, r#" { "b" : [15e-1, "\u00fc"], "a" : 1.0 } "#, "{\"b\":[1.50,\"ü\"],\n\"a\":1e0}"];
    assert_eq!(run.calls("look", &same).await.iter().filter(|(_, is_hit)| *is_hit).count(), 2);
    let others = [
        r#"{"a":2,"b":[1.5,"ü"]}"#,
        r#"{"a":"1","b":[1.5,"ü"]}"#,
        r#"{"a":1,"b":["ü",1.5]}"#,
        r#"{"a":1,"b":[1.5,"u\u0308"]}"#,
        r#"{"a":1,"b":[1.5,"ü"],"c":null}"#,
        "{}",
    ];
    assert!(run.calls("look", &others).await.iter().all(|(_, is_hit)| !is_hit));
    assert_eq!(run.calls("look", &["", "  "]).await.iter().filter(|(_, is_hit)| *is_hit).count(), 2, "blank is {{}}");
    let unusual = [r#"{"a":1,"a":1}"#, "{\"a\":1e999}", "{", "\"\\ud800\"", "{\"a\":99999999999999999999}"];
    for arguments in unusual {
        let twice = run.calls("look", &[arguments, arguments]).await;
        assert!(twice.iter().all(|(_, is_hit)| !is_hit), "{arguments}");
    }
}

#[tokio::test]
async fn two_scopes_never_share_and_each_covers_what_it_says() {
    let tool = || vec![counting("look", Origin::BuiltIn, PURE)];
    let settings = ["thread", "workflow", "store"].map(|scope| format!("{{\"scope\":\"{scope}\"}}"));
    for (at, settings) in settings.iter().enumerate() {
        let fixture = Fixture::new(tool());
        let place = |thread, workflow| fixture.nodes(thread, workflow, &[(settings, "on")]);
        place(1, "w").call("look", "{}").await;
        let hits = [
            place(1, "w").call("look", "{}").await.is_hit,
            place(2, "w").call("look", "{}").await.is_hit,
            place(3, "v").call("look", "{}").await.is_hit,
        ];
        assert_eq!(hits, [[true, false, false], [true, true, false], [true, true, true]][at], "{settings}");
    }
    let fixture = Fixture::new(tool());
    for settings in &settings {
        assert!(!fixture.run(settings).call("look", "{}").await.is_hit, "{settings}");
    }
}

#[tokio::test]
async fn settings_that_are_none_are_refused_in_words() {
    let fixture = Fixture::new(Vec::new());
    for (settings, words) in [
        (r#"{"scope":"all"}"#, "`scope` is one of workflow, thread, store"),
        (r#"{"mode":1}"#, "`mode` is one of serve, observe, verify"),
        (r#"{"ttl":"soon"}"#, "`ttl` is not a duration"),
        (r#"{"ttl":-1}"#, "`ttl` is out of range"),
        (r#"{"tools":"x"}"#, "`tools` is not a list"),
        (r#"{"exclude":[1]}"#, "`exclude` holds no names of tools"),
        (r#"{"per_tool":[1]}"#, "`per_tool` is not a map from tools to durations"),
        (r#"{"per_tool":{"x":true}}"#, "`per_tool.x` is not a duration"),
        (r#"{"entries":"x"}"#, "`entries` is not a number"),
    ] {
        assert_eq!(fixture.build("w", settings, "on").err().as_deref(), Some(words));
    }
}

#[test]
fn a_role_that_names_the_kind_has_a_node_at_its_tool_calls() {
    let text = "rondo: 1\nname: w\nroles: { a: { system: x, with: { tool_cache: { ttl: 1s } } }, b: { system: x } }\n\
                graph:\n  start: { to: a, prompt: go }\n  a: { done: { to: b } }\n  b: { done: { to: end } }\n";
    let checked = rondo_protocol::workflow::read("w.yaml", text, &BTreeMap::new()).unwrap();
    let nodes = crate::registry().nodes(&checked.workflow, &checked.policy, &[]);
    let [HookNode { name, hook }] = nodes.as_slice() else { panic!("{nodes:?}") };
    assert_eq!((name.as_str(), hook.at, hook.on_error), (NAME, CallKind::Tool, OnHookError::Bypass));
    assert_eq!(hook.roles, Some(vec![RoleName::new("a").unwrap()]));
    assert_eq!(hook.settings["ttl"], Value::from(1000_u64));
}

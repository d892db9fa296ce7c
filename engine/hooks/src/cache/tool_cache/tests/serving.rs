//! What is given again, for how long, and what is counted.

use std::time::Duration;

use super::*;

fn look() -> Vec<Arc<dyn Tool>> {
    vec![counting("look", Origin::BuiltIn, Effect::Pure)]
}

#[tokio::test]
async fn a_hit_is_what_the_tool_said_and_names_its_key() {
    let fixture = Fixture::new(look());
    let run = fixture.run("{}");
    let first = run.call("look", "{}").await;
    let second = run.call("look", "{}").await;
    assert_eq!((first.text.as_str(), first.is_hit, first.key), ("0", false, None));
    assert_eq!((second.text.as_str(), second.is_hit, &second.reply.seen), ("0", true, &None));
    assert_eq!((second.key.map(|key| key.len()), run.reached()), (Some(64), 1));
    // Another role, and another run in the same process and in the next.
    assert!(run.by("b", "look", "{}").await.is_hit);
    fixture.flush().await;
    let fixture = fixture.again();
    assert!(fixture.run("{}").call("look", "{}").await.is_hit);
}

/// Public failures of other engines: expired entries counted as neither, and a time to live renewed by being seen.
#[tokio::test]
async fn what_has_expired_is_a_miss_and_being_used_renews_nothing() {
    let fixture = Fixture::new(look());
    let run = fixture.run("{}");
    run.call("look", "{}").await;
    for _ in 0..5 {
        fixture.env.advance(Duration::from_millis(11_999));
        assert!(run.call("look", "{}").await.is_hit);
    }
    fixture.env.advance(Duration::from_millis(5));
    assert_eq!(run.call("look", "{}").await.text, "1");
    let metrics = run.metrics().await;
    let names = ["observed_calls", "hits", "misses", "expired", "recorded_count", "entries"];
    assert_eq!(numbers(&metrics, &names), [7, 5, 2, 1, 2, 1]);
    assert_eq!(outcomes(&metrics)[6], "expired");
}

#[tokio::test]
async fn a_time_to_live_is_the_tools_the_nodes_or_none() {
    let tools = || ["x", "y"].map(|name| counting(name, Origin::BuiltIn, Effect::Pure)).to_vec();
    for (settings, tool, seconds, is_hit) in [
        ("{}", "x", 59, true),
        ("{}", "x", 60, false),
        (r#"{"ttl":5000}"#, "x", 5, false),
        (r#"{"ttl":0}"#, "x", 1_000_000_000, true),
        (r#"{"ttl":null}"#, "x", 1_000_000_000, true),
        (r#"{"ttl":5000,"per_tool":{"x":10000}}"#, "x", 9, true),
        (r#"{"ttl":5000,"per_tool":{"x":10000}}"#, "x", 10, false),
        (r#"{"ttl":5000,"per_tool":{"x":10000}}"#, "y", 9, false),
        (r#"{"per_tool":{"x":null}}"#, "x", 1_000_000_000, true),
        (r#"{"per_tool":{"x":0}}"#, "x", 1_000_000_000, true),
        (r#"{"per_tool":{"x":0}}"#, "y", 60, false),
    ] {
        let fixture = Fixture::new(tools());
        let run = fixture.run(settings);
        run.call(tool, "{}").await;
        fixture.env.advance(Duration::from_secs(seconds));
        assert_eq!(run.call(tool, "{}").await.is_hit, is_hit, "{settings} {tool} {seconds}");
    }
    let fixture = Fixture::new(vec![counting("docs.find", server("docs"), Effect::External)]);
    let run = fixture.run(r#"{"per_tool":{"docs.*":5000}}"#);
    run.call("docs.find", "{}").await;
    fixture.env.advance(Duration::from_secs(5));
    assert!(!run.call("docs.find", "{}").await.is_hit);
}

#[tokio::test]
async fn a_clock_that_went_back_is_a_miss() {
    let fixture = Fixture::new(look());
    fixture.run("{}").call("look", "{}").await;
    let fixture = Fixture { env: Arc::new(SeededEnv::new(5, 1)), ..fixture };
    let run = fixture.run("{}");
    assert!(!run.call("look", "{}").await.is_hit);
    assert_eq!(outcomes(&run.metrics().await), ["clock went back"]);
}

#[tokio::test]
async fn the_flag_says_whether_results_are_looked_up_and_kept() {
    for (flag, kept_is_found, keeps) in
        [("on", true, true), ("off", false, false), ("read", true, false), ("refresh", false, true)]
    {
        let fixture = Fixture::new(look());
        fixture.run("{}").call("look", r#"{"a":1}"#).await;
        let run = fixture.flagged("{}", flag);
        assert_eq!(run.call("look", r#"{"a":1}"#).await.is_hit, kept_is_found, "{flag}");
        run.call("look", r#"{"a":2}"#).await;
        assert_eq!(fixture.run("{}").call("look", r#"{"a":2}"#).await.is_hit, keeps, "{flag}");
    }
    // A refreshed result takes the place of an older one.
    let fixture = Fixture::new(look());
    fixture.run("{}").call("look", "{}").await;
    fixture.flagged("{}", "refresh").call("look", "{}").await;
    assert_eq!(fixture.run("{}").call("look", "{}").await.text, "1");
}

#[tokio::test]
async fn the_figures_of_a_turn_have_these_names_and_no_others() {
    let fixture = Fixture::new(look());
    let run = fixture.run("{}");
    let none = run.metrics().await;
    run.calls("look", &["{}", "{}"]).await;
    run.call("write_file", r#"{"path":"x","text":"y"}"#).await;
    let metrics = run.metrics().await;
    let Value::Object(members) = &metrics else { panic!("no object") };
    let names: Vec<&str> = members.keys().map(String::as_str).collect();
    let mut expected = vec![
        "observed_calls",
        "would_hit_count",
        "would_hit_details",
        "recorded_count",
        "hits",
        "misses",
        "expired",
        "evicted",
        "entries",
        "bytes",
        "changed",
        "mismatches",
        "calls",
    ];
    expected.sort_unstable();
    assert_eq!(names, expected);
    let Value::Object(of_none) = &none else { panic!("no object") };
    assert_eq!(of_none.keys().collect::<Vec<_>>(), members.keys().collect::<Vec<_>>());
    assert_eq!(numbers(&metrics, &["observed_calls", "hits", "misses", "recorded_count", "entries"]), [3, 1, 1, 1, 1]);
    assert!(number(&metrics, "bytes") > 0);
    let Some(Value::List(calls)) = metrics.get("calls") else { panic!("no calls") };
    let of = |at: usize, name: &str| calls[at].get(name).unwrap().clone();
    assert_eq!(
        (of(0, "tool"), of(0, "position"), of(0, "key")),
        (Value::from("look"), Value::from(0_u64), of(1, "key"))
    );
    assert_eq!((of(2, "tool"), of(2, "key")), (Value::from("write_file"), Value::Null));
    // Lists are bounded; counts are not.
    let run = fixture.run(r#"{"mode":"observe"}"#);
    for _ in 0..60 {
        run.call("look", "{}").await;
    }
    let metrics = run.metrics().await;
    let length = |name: &str| match metrics.get(name) {
        Some(Value::List(items)) => items.len(),
        _ => 0,
    };
    assert_eq!((length("calls"), length("would_hit_details"), number(&metrics, "would_hit_count")), (50, 50, 60));
}

#[tokio::test]
async fn a_node_that_observes_runs_the_tool_and_counts_what_it_would_have_answered() {
    let fixture = Fixture::new(look());
    let run = fixture.run(r#"{"mode":"observe"}"#);
    let said = run.calls("look", &["{}", "{}", "{}"]).await;
    assert_eq!(said, [("0".to_owned(), false), ("1".to_owned(), false), ("2".to_owned(), false)]);
    let metrics = run.metrics().await;
    let names = ["observed_calls", "would_hit_count", "recorded_count", "hits", "misses", "mismatches"];
    assert_eq!(numbers(&metrics, &names), [3, 2, 1, 0, 1, 0]);
    let Some(Value::List(details)) = metrics.get("would_hit_details") else { panic!("no details") };
    assert_eq!((details.len(), details[0].get("tool")), (2, Some(&Value::from("look"))));
    assert_eq!(outcomes(&metrics), ["absent", "would hit", "would hit"]);
    // What it observes renews nothing: it would have expired all the same.
    fixture.env.advance(Duration::from_mins(1));
    run.call("look", "{}").await;
    assert_eq!(numbers(&run.metrics().await, &["would_hit_count", "expired", "misses"]), [0, 1, 1]);
}

#[tokio::test]
async fn a_node_that_verifies_reports_a_tool_that_says_something_else() {
    let line = Arc::new(Mutex::new("one\ntwo\nthree".to_owned()));
    let said = Arc::clone(&line);
    let fixture =
        Fixture::new(vec![made("look", Origin::Program, Effect::Pure, move |_| Ok(said.lock().unwrap().clone()))]);
    let run = fixture.run(r#"{"mode":"verify"}"#);
    run.calls("look", &["{}", "{}"]).await;
    assert_eq!(fixture.warnings(), Vec::<String>::new());
    *line.lock().unwrap() = "one\n2\nthree".to_owned();
    assert_eq!(run.calls("look", &["{}", "{}"]).await, vec![("one\n2\nthree".to_owned(), false); 2]);
    assert_eq!(
        fixture.warnings(),
        [
            "look is declared with the effect pure, and a call with equal arguments, while all that it had seen stood as it \
          did, said something else: line 2 was \"two\" and is \"2\""
        ]
    );
    let metrics = run.metrics().await;
    let names = ["observed_calls", "would_hit_count", "mismatches", "recorded_count", "hits", "misses"];
    assert_eq!(numbers(&metrics, &names), [4, 3, 1, 2, 0, 1]);
    assert_eq!(outcomes(&metrics), ["absent", "would hit", "mismatch", "would hit"]);
    // The entry was replaced.
    assert_eq!(fixture.run("{}").call("look", "{}").await.text, "one\n2\nthree");
}

#[tokio::test]
async fn a_tool_that_fails_where_it_would_have_been_answered_is_reported_and_forgotten() {
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let failing = Arc::clone(&fails);
    let fixture = Fixture::new(vec![made("look", Origin::Program, Effect::Pure, move |_| {
        let is_well = !failing.load(Ordering::SeqCst);
        is_well.then(|| "well".to_owned()).ok_or_else(|| tool::Error::new(Code::ToolArguments, "not today"))
    })]);
    let run = fixture.run(r#"{"mode":"verify"}"#);
    run.call("look", "{}").await;
    fails.store(true, Ordering::SeqCst);
    assert!(run.call("look", "{}").await.failed);
    assert!(fixture.warnings()[0].contains("failed: \"error RN1602: not today\""));
    assert_eq!(fixture.entries(), 0);
}

#[tokio::test]
async fn equal_calls_of_one_reply_wait_for_the_first_of_them() {
    let fixture = Fixture::new(look());
    let run = fixture.run("{}");
    let begun = std::time::Instant::now();
    let all = futures_util::future::join_all((0..3).map(|_| run.begin("a", "look", "{}"))).await;
    for one in all {
        assert_eq!(run.settle(one).await.text, "0");
    }
    assert_eq!(run.reached(), 1);
    assert_eq!(numbers(&run.metrics().await, &["hits", "misses", "recorded_count"]), [2, 1, 1]);
    assert!(begun.elapsed() < Duration::from_secs(5), "they waited for each other");
}

#[tokio::test]
async fn nobody_waits_for_what_is_settled_only_afterwards() {
    let fixture = Fixture::new(["x", "y"].map(|name| counting(name, Origin::BuiltIn, Effect::Pure)).to_vec());
    let (one, other) = (fixture.run("{}"), fixture.nodes(2, "w", &[("{}", "on")]));
    let begun = std::time::Instant::now();
    let pair = |run, names: [&'static str; 2]| async move {
        let run: &Run<'_> = run;
        let both = names.map(|name| run.begin("a", name, "{}"));
        futures_util::future::join_all(both).await
    };
    // Each has what the other waits for.
    let (first, second) = tokio::join!(pair(&one, ["x", "y"]), pair(&other, ["y", "x"]));
    for (run, inserted) in [(&one, first), (&other, second)] {
        for begun in inserted {
            run.settle(begun).await;
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Nor does an inner node wait for an outer one that looks the same key up.
    let run = fixture.nodes(3, "w", &[("{}", "on"), (r#"{"ttl":1000}"#, "on")]);
    let begun = std::time::Instant::now();
    assert!(!run.call("x", r#"{"a":1}"#).await.is_hit);
    assert!(run.call("x", r#"{"a":1}"#).await.is_hit);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn several_nodes_before_a_role_each_keep_their_own_tools() {
    let fixture = Fixture::new(["x", "y"].map(|name| counting(name, Origin::BuiltIn, Effect::Pure)).to_vec());
    let run = fixture.nodes(1, "w", &[(r#"{"tools":["x"]}"#, "on"), (r#"{"tools":["y"]}"#, "on")]);
    for name in ["x", "y"] {
        run.call(name, "{}").await;
        assert!(run.call(name, "{}").await.is_hit, "{name}");
    }
}

#[tokio::test]
async fn a_huge_result_is_given_again_whole_and_ceilings_hold() {
    let text = "ü\n".repeat((1 << 20) / 3);
    let said = text.clone();
    let fixture = Fixture::new(vec![made("look", Origin::BuiltIn, Effect::Pure, move |_| Ok(said.clone()))]);
    let run = fixture.run("{}");
    run.call("look", "{}").await;
    let again = run.call("look", "{}").await;
    assert!(again.is_hit && again.text == text);
    let fixture = fixture.again();
    assert!(fixture.run("{}").call("look", "{}").await.text == text);
    let run = fixture.run(r#"{"bytes":4096,"scope":"thread"}"#);
    run.call("look", "{}").await;
    assert!(!run.call("look", "{}").await.is_hit);
    assert_eq!(number(&run.metrics().await, "recorded_count"), 0);
    let run = fixture.run(r#"{"entries":2,"scope":"store"}"#);
    for at in 0..4 {
        run.call("look", &format!("{{\"a\":{at}}}")).await;
    }
    assert_eq!(numbers(&run.metrics().await, &["entries", "evicted"]), [2, 2]);
}

/// What was edited, cut or exchanged in the store is a miss.
#[tokio::test]
async fn nothing_damaged_is_ever_given() {
    let tools = || vec![made("look", Origin::BuiltIn, Effect::Pure, |arguments| Ok(arguments.to_text()))];
    let fixture = Fixture::new(tools());
    let arguments = [r#"{"a":1}"#, r#"{"a":2}"#];
    fixture.run("{}").calls("look", &arguments).await;
    fixture.flush().await;
    let space = fixture.space();
    let whole = space.scan(&[], 100).unwrap();
    let mut fixture = fixture;
    let mut hits = 0;
    for at in 0..whole.len() {
        let (key, value) = &whole[at];
        let other = &whole[(at + 1) % whole.len()].1;
        let mut damages = vec![Vec::new(), value[..value.len() / 2].to_vec(), other.clone()];
        for byte in 0..value.len() {
            let mut flipped = value.clone();
            flipped[byte] ^= 1 << (byte % 8);
            damages.push(flipped);
        }
        for damaged in damages {
            for (key, value) in &whole {
                space.put(key.clone(), Some(value.clone())).await.unwrap();
            }
            space.put(key.clone(), Some(damaged)).await.unwrap();
            fixture = fixture.again();
            for (said, is_hit) in fixture.flagged("{}", "read").calls("look", &arguments).await {
                assert!(arguments.contains(&said.as_str()), "{said}");
                hits += usize::from(is_hit);
            }
            let inserted = fixture.flagged("{}", "read").calls("look", &arguments).await;
            assert_eq!([inserted[0].0.as_str(), inserted[1].0.as_str()], arguments);
            fixture.flush().await;
        }
    }
    assert!(hits > 0, "what is not damaged is given");
}

#[tokio::test]
async fn a_rehearsed_thread_is_learnt_and_counted_nowhere() {
    let fixture = Fixture::new(look());
    let run = fixture.flagged(r#"{"mode":"verify"}"#, "replay");
    run.calls("look", &["{}", "{}"]).await;
    let node = &run.path.nodes()[0];
    assert_eq!(node.hook.visited(&run.site("a", 0), &node.context).await, None);
    assert_eq!(fixture.entries(), 1);
    assert!(fixture.run("{}").call("look", "{}").await.is_hit);
}

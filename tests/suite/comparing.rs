//! Two threads side by side: `rondo diff` says where they part and what differs after that, and nothing else.

use serde_json::{Value, json};

use crate::binary::{Place, fixture};

/// A place with these runs of one workflow: a script and a topic each. Gives the threads.
fn place(workflow: &str, runs: &[(&str, &str)]) -> (Place, Vec<String>) {
    let place = Place::new();
    for (script, topic) in runs {
        let script = place.file("script.yaml", script);
        let topic = format!("topic={topic}");
        place.run(["run", &fixture(workflow), "--script", &script, "-i", &topic, "--json"]).exits(0);
    }
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let ids = threads.iter().map(|line| line["thread"].as_str().unwrap().to_owned()).collect();
    (place, ids)
}

fn script(workflow: &str) -> String {
    std::fs::read_to_string(fixture(&format!("{workflow}/script.yaml"))).unwrap()
}

fn diff(place: &Place, a: &str, b: &str) -> Vec<Value> {
    place.run(["diff", a, b, "--json"]).exits(0).json()
}

fn changed(lines: &[Value]) -> Vec<(u64, &Value)> {
    let steps = lines.iter().filter(|line| line["event"] == "diff_step");
    steps.map(|line| (line["a"]["seq"].as_u64().unwrap(), &line["changed"])).collect()
}

#[test]
fn the_last_common_step_is_told_and_what_differs_after_it() {
    let old = script("relay");
    let new =
        old.replace("comments: [Again]", "comments: [Again, Louder]").replace("body: closed", "body: closed well");
    let (place, threads) = place("relay", &[(&old, "tides"), (&new, "tides")]);
    let lines = diff(&place, &threads[0], &threads[1]);
    let eighth = place.run(["show", &threads[0], "--steps", "8", "--json"]).exits(0).event("step");
    assert_eq!(lines[0]["common"], json!({ "seq": 8, "step": eighth["step"] }));
    assert_eq!((&lines[0]["a"], &lines[0]["b"]), (&threads[0].as_str().into(), &threads[1].as_str().into()));
    assert_eq!(lines[0]["inputs"], json!([]));
    assert_eq!(changed(&lines), [(9, &json!(["output.comments", "answer"])), (10, &json!(["answer"]))]);
    let totals = lines.last().unwrap();
    assert_eq!(
        (&totals["event"], &totals["a"]["steps"], &totals["b"]["cost_usd"]),
        (&"diff_totals".into(), &10.into(), &Value::Null)
    );

    let text = place.run(["diff", &threads[0], &threads[1]]).exits(0).text();
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("last common step: 8. writer, visit 4"), "{first}");
    for part in [r#"comments = ["Again"{+,"Louder"+}]"#, "closed{+ well+}", "unknown"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_definition_that_differs_is_told_where_it_does() {
    let place = Place::new();
    let workflow = |system: &str| {
        let roles = format!("roles: {{ a: {{ system: {system} }}, b: {{ system: You end. }} }}");
        let graph =
            "graph: { start: { to: a, prompt: x }, a: { done: { to: b, prompt: y } }, b: { done: { to: end } } }";
        format!("rondo: 1\nname: pair\n{roles}\n{graph}\n")
    };
    place.file("old.yaml", workflow("You begin."));
    place.file("new.yaml", workflow("You begin well."));
    let script =
        place.file("script.yaml", "a: [ { body: one }, { body: two } ]\nb: [ { body: end }, { body: end } ]\n");
    for file in ["old.yaml", "new.yaml"] {
        place.run(["run", file, "--script", &script]).exits(0);
    }
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let ids: Vec<&str> = threads.iter().map(|line| line["thread"].as_str().unwrap()).collect();
    let told = json!([{ "path": "roles.a.system", "a": "You begin.", "b": "You begin well." }]);
    assert_eq!(diff(&place, ids[0], ids[1])[0]["definition"], told);
    let text = place.run(["diff", ids[0], ids[1]]).exits(0).text();
    assert!(text.contains("roles.a.system") && text.contains("{+ well+}"), "{text}");
}

#[test]
fn an_input_that_differs_is_told_and_steps_with_the_same_words_are_counted() {
    let script = script("relay");
    let (place, threads) = place("relay", &[(&script, "tides"), (&script, "neap tides")]);
    let lines = diff(&place, &threads[0], &threads[1]);
    assert_eq!(lines[0]["common"], Value::Null);
    assert_eq!(lines[0]["inputs"], json!([{ "name": "topic", "a": "tides", "b": "neap tides" }]));
    let changed = changed(&lines);
    assert_eq!((changed.len(), changed[0]), (10, (1, &json!(["prompt"]))));
    assert!(changed[1..].iter().all(|(_, changed)| **changed == json!([])), "{changed:?}");
    let text = place.run(["diff", &threads[0], &threads[1]]).exits(0).text();
    assert!(text.starts_with("no step in common\n") && text.contains("9 steps with the same texts"), "{text}");
    assert!(text.contains("input topic = {+neap +}tides"), "{text}");
}

#[test]
fn a_thread_is_the_same_as_itself_and_as_one_that_ran_alike() {
    let script = script("relay");
    let (place, threads) = place("relay", &[(&script, "tides"), (&script, "tides")]);
    for other in &threads {
        let lines = diff(&place, &threads[0], other);
        assert_eq!((lines.len(), &lines[0]["common"]["seq"]), (2, &10.into()), "{lines:?}");
    }
    place.run(["diff", &threads[0], "no-such-thread"]).exits(2);
    place.run(["diff", &threads[0]]).exits(2);
}

/// Lanes go on in any order, so their steps are paired by what they are and not by their numbers.
#[test]
fn lanes_are_paired_by_role_lane_and_visit() {
    let old = script("lanes");
    let new = old
        .replace("body: dry", "body: dry and hot")
        .replace("fields: { items: [sea, wind] }", "fields: { items: [sea, wind, ice] }")
        + "\"writer[2]\":\n";
    let new = new.trim_end_matches("\"writer[2]\":\n").replace(
        "  - { delay_ms: 4, status: stuck, body: nothing }",
        "  - { delay_ms: 4, status: stuck, body: nothing }\n  - { status: stuck, body: nothing again }",
    );
    let (place, threads) = place("lanes", &[(&old, "tides"), (&new, "tides")]);
    let lines = diff(&place, &threads[0], &threads[1]);
    let all = place.run(["show", &threads[0], "--json"]).exits(0).events("step");
    let shared: Vec<Value> = {
        let other = place.run(["show", &threads[1], "--json"]).exits(0).events("step");
        all.iter().filter(|step| other.iter().any(|other| other["step"] == step["step"])).cloned().collect()
    };
    let steps: Vec<&Value> = lines.iter().filter(|line| line["event"] == "diff_step").collect();
    // Each step of the first thread is common or in a line.
    assert_eq!(steps.iter().filter(|line| !line["a"].is_null()).count() + shared.len(), all.len());
    assert!(shared.iter().any(|step| step["lane"] == "writer[0]"), "a lane without the change is common");
    let of = |role: &str, lane: &str, visit: u64| {
        let is_it = |line: &&&Value| line["role"] == role && line["lane"] == lane && line["visit"] == visit;
        *steps.iter().find(is_it).unwrap_or_else(|| panic!("no pair {role} {lane} {visit}"))
    };
    assert_eq!(of("writer", "writer[1]", 1)["changed"], json!(["answer"]));
    assert_eq!(of("planner", "", 2)["changed"], json!(["output.items", "answer"]));
    let only = of("writer", "writer[2]", 2);
    assert!(only["a"].is_null() && only["b"]["answer"].as_str().unwrap().contains("nothing again"), "{only}");
}

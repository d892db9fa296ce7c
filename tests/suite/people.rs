//! Threads that wait for people, child workflows, and threads that stopped at a limit, from outside.

use std::time::Duration;

use serde_json::Value;

use crate::binary::{Finished, Place, fixture};
use crate::kill;

fn people(place: &Place) -> Finished {
    place.run(["run", &fixture("people"), "--offline", "-i", "topic=tea", "--json"]).exits(75)
}

fn status(place: &Place) -> Value {
    place.run(["threads", "--json"]).exits(0).json()[0]["status"].clone()
}

#[test]
fn forms_wait_in_any_number_and_are_answered_in_any_order() {
    let place = Place::new();
    let run = people(&place);
    let forms = run.events("thread_waiting");
    let roles: Vec<&str> = forms.iter().map(|form| form["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["editor", "lawyer"]);
    assert_eq!(forms[0]["form"]["prompt"], "Fine? Tea is good.");
    assert_eq!(forms[0]["form"]["statuses"][0]["fields"][1]["schema"]["enum"], serde_json::json!(["low", "high"]));
    assert!(forms.iter().all(|form| form["id"].is_string()), "a form is a durable event: {forms:?}");
    assert_eq!(status(&place), "waiting");
    assert_eq!(place.run(["threads", "--waiting", "--json"]).exits(0).lines.len(), 1);
    assert!(place.run(["show", "last"]).exits(0).text().contains("Fine? Tea is good."));
    let listed = |words: &[&str]| place.run([&["threads", "--json"], words].concat()).exits(0).lines.len();
    assert_eq!(listed(&["--status", "waiting", "--workflow", "people", "--since", "1h", "-n", "5"]), 1);
    for none in [&["--status", "done"][..], &["--workflow", "other"], &["--since", "0s"], &["-n", "0"]] {
        assert_eq!(listed(none), 0, "{none:?}");
    }
    let store = place.store().to_str().unwrap().to_owned();
    let shown = place.run(["show", "last", "--store", &store]).exits(0).text();
    assert_eq!(shown.matches(&format!(" --store {store}` answers")).count(), 2, "{shown}");
    // Nothing has happened since.
    place.run(["resume", "last", "--json"]).exits(75);

    let second = ["answer", "last", "--role", "lawyer", "--status", "cleared", "--json"];
    place.run(second).exits(75);
    assert_eq!(status(&place), "waiting");
    let first = ["answer", "last", "--status", "approved", "--field", "level=high", "--body", "go", "--json"];
    let done = place.run(first).exits(0);
    assert_eq!(done.event("thread_finished")["outcome"], "done");
    let steps = place.run(["show", "last", "--json"]).exits(0).json();
    let of = |role: &str| steps.iter().find(|step| step["role"] == role).unwrap().clone();
    let editor = of("editor");
    assert_eq!(editor["answer"], r#"{"body":"go","level":"high","status":"approved"}"#);
    assert_eq!((&editor["body"], &editor["transcript"]), (&Value::from("go"), &Value::Null));
    assert!(editor["note"]["person"].is_string() && editor["note"]["answered_by"] == "person", "{editor}");
    assert_eq!(of("publisher")["edge"]["prompt"], "approved cleared");
    place.run(["verify", "last", "--json"]).exits(0);
}

#[test]
fn an_answer_that_does_not_fit_is_refused_and_changes_nothing() {
    let place = Place::new();
    people(&place);
    let before = place.run(["show", "last", "--json"]).exits(0).lines;
    for (words, exit, code) in [
        (&["--status", "approved"][..], 2, "RN1413"),
        (&["--role", "nobody", "--status", "approved"], 7, "RN1412"),
        (&["--role", "editor"], 2, "RN1413"),
        (&["--role", "editor", "--status", "perhaps"], 2, "RN1414"),
        (&["--role", "editor", "--status", "approved"], 2, "RN1414"),
        (&["--role", "editor", "--status", "approved", "--field", "level=middle"], 2, "RN1414"),
        (&["--role", "editor", "--status", "approved", "--field", "colour=red"], 2, "RN1414"),
        (&["--role", "editor", "--status", "revise", "--field", "comments=no list"], 2, "RN1414"),
        (&["--role", "editor", "--status", "approved", "--field", "level=low", "--field", "level=high"], 2, "RN1405"),
    ] {
        let refused = place.run([&["answer", "last"], words, &["--json"]].concat()).exits(exit);
        assert_eq!(refused.event("error")["code"], code, "{words:?}: {refused:?}");
    }
    for words in [
        &["--status", "cleared", "--why", "no"][..],
        &["--approve", "--why", "no"],
        &["--approve", "--field", "level=low"],
        &["--approve", "--body", "go"],
        &["--refuse", "--body", "go"],
    ] {
        let refused = place.run([&["answer", "last", "--role", "lawyer"], words].concat()).exits(2);
        assert!(refused.stderr.contains("cannot be used with"), "{words:?}: {refused:?}");
    }
    assert_eq!(place.run(["show", "last", "--json"]).exits(0).lines, before);
    place.run(["answer", "last", "--role", "lawyer", "--status", "cleared"]).exits(75);
    let twice = place.run(["answer", "last", "--role", "lawyer", "--status", "cleared", "--json"]).exits(7);
    assert_eq!(twice.event("error")["code"], "RN1412");
    place.run(["answer", "last", "--status", "revise", "--field", r#"comments=["a","b"]"#]).exits(0);
    let late = place.run(["answer", "last", "--role", "editor", "--status", "revise", "--json"]).exits(7);
    assert!(late.event("error")["message"].as_str().unwrap().contains("done"), "{late:?}");
}

#[test]
fn a_form_that_nobody_answers_in_time_takes_its_edge_at_the_next_start() {
    let place = Place::new();
    let text = "rondo: 1
name: late
roles:
  boss: { kind: human, timeout: 1500ms, output: { agreed: {} } }
graph:
  start: { to: boss, prompt: 'fine?' }
  boss: { agreed: { to: end }, on_timeout: { to: end, result: '{{ status }}' } }
";
    let file = place.file("late.yaml", text);
    let script = place.file("none.yaml", "{}");
    place.run(["run", &file, "--script", &script, "--json"]).exits(75);
    std::thread::sleep(Duration::from_millis(1600));
    let resumed = place.run(["resume", "last", "--json"]).exits(0);
    assert_eq!(resumed.event("thread_finished")["result"], "timeout");
}

#[test]
fn forms_of_children_are_answered_by_the_child_or_its_root() {
    let place = Place::new();
    let script = format!("{}/people.yaml", fixture("children"));
    let run = place.run(["run", &fixture("children"), "--script", &script, "-i", "topic=tea", "--json"]).exits(75);
    let root = run.events("thread_started")[0]["thread"].as_str().unwrap().to_owned();
    let waiting = run.events("thread_waiting");
    assert_eq!(waiting.len(), 2);
    assert!(waiting.iter().all(|form| form["parent"] == *root && form["thread"] != *root), "{waiting:?}");
    let child = |at: usize| waiting[at]["thread"].as_str().unwrap().to_owned();
    let unclear = place.run(["answer", &root, "--status", "fine", "--json"]).exits(2);
    assert_eq!(unclear.event("error")["code"], "RN1413");
    place.run(["answer", &child(1), "--status", "bad", "--json"]).exits(75);
    let late = place.run(["answer", &child(1), "--status", "bad", "--json"]).exits(7).event("error");
    let told = late["message"].as_str().unwrap();
    assert!(told.contains(&format!("thread {} does not wait", child(1))), "{told}");
    assert!(told.contains(&format!("open: `rondo answer {} --form ", child(0))), "what else is open is told: {told}");
    let done = place.run(["answer", &root, "--status", "fine", "--json"]).exits(0);
    let finished = done.events("thread_finished");
    assert_eq!(finished.last().unwrap()["thread"], *root);
    let steps = place.run(["show", &root, "--json"]).exits(0).json();
    let of = |lane: &str| steps.iter().find(|step| step["lane"] == lane).unwrap();
    // Lanes are opened in order; which child asked first is not known.
    let mut ends = [of("section[0]")["status"].as_str().unwrap(), of("section[1]")["status"].as_str().unwrap()];
    ends.sort_unstable();
    assert_eq!(ends, ["done", "failed"]);
    assert_eq!(of("section[0]")["observations"][0]["kind"], "child");
}

/// The heads of a tree of threads, with their workflows. Ids of one millisecond have no order.
fn heads(place: &Place) -> Vec<String> {
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let mut heads: Vec<String> =
        threads.iter().map(|thread| format!("{} {}", thread["name"], thread["head"])).collect();
    heads.sort_unstable();
    heads
}

#[test]
fn a_tree_killed_after_any_line_is_resumed_to_the_same_heads() {
    let words = ["run", &fixture("children"), "--offline", "-i", "topic=tea", "--json"].map(str::to_owned);
    let undisturbed = Place::new();
    let run = undisturbed.run(&words).exits(0);
    let whole = heads(&undisturbed);
    assert_eq!(whole.len(), 4);
    kill::after_any_line(&words, run.lines.len(), |place, killed| {
        let threads = place.run(["threads", "--json"]).exits(0).json();
        let Some(root) = threads.iter().find(|thread| thread["name"] == "report") else {
            assert!(!kill::has_started(killed));
            return;
        };
        place.run(["resume", root["thread"].as_str().unwrap(), "--json"]).exits(0);
        assert_eq!(heads(place), whole);
    });
}

#[test]
fn a_thread_that_stopped_at_a_limit_goes_on_with_a_higher_one() {
    let place = Place::new();
    let text = "rondo: 1
name: limited
roles:
  a: { output: { done: {} } }
  b: { output: { done: {} } }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: b, prompt: next } }
  b: { done: { to: end } }
limits: { steps: 1, cost_usd: 1 }
";
    let file = place.file("limited.yaml", text);
    let script = place.file("script.yaml", "{ a: [{ status: done }], b: [{ status: done }] }");
    place.run(["run", &file, "--script", &script, "--json"]).exits(4);
    assert!(place.run(["show", "last"]).exits(0).text().contains("--limit"), "the way on is shown");
    for (limit, exit, code) in [
        ("steps", 2, "RN1415"),
        ("steps=one", 2, "RN1415"),
        ("steps=1", 2, "RN1415"),
        ("steps=1.5", 2, "RN1415"),
        ("paces=9", 2, "RN1415"),
        ("tokens=9", 2, "RN1415"),
        ("wall_time=9", 2, "RN1415"),
    ] {
        let refused = place.run(["resume", "last", "--limit", limit, "--json"]).exits(exit);
        assert_eq!(refused.event("error")["code"], code, "{limit}: {refused:?}");
    }
    place.settings("[limits]\nsteps = 3\n");
    let refused = place.run(["resume", "last", "--limit", "steps=5", "--json"]).exits(3);
    assert_eq!(refused.event("error")["code"], "RN1708");
    place.run(["resume", "last", "--limit", "steps=3", "--limit", "cost_usd=2.5", "--json"]).exits(0);
    let shown = place.run(["show", "last"]).exits(0).text();
    assert!(shown.contains("limit steps raised from 1 to 3"), "{shown}");
}

#[test]
fn a_waiting_tree_is_cancelled_as_a_whole() {
    let place = Place::new();
    let script = format!("{}/people.yaml", fixture("children"));
    let run = place.run(["run", &fixture("children"), "--script", &script, "-i", "topic=tea", "--json"]).exits(75);
    let root = run.events("thread_started")[0]["thread"].as_str().unwrap().to_owned();
    place.run(["cancel", &root]).exits(0);
    let threads = place.run(["threads", "--json"]).exits(0).json();
    assert!(threads.len() == 3 && threads.iter().all(|thread| thread["status"] == "cancelled"), "{threads:?}");
    place.run(["resume", &root, "--json"]).exits(1);
    place.run(["answer", &root, "--status", "fine", "--json"]).exits(7);
}

#[test]
fn a_cancelled_lane_ends_its_child_and_the_threads_below_that_wait_for_people() {
    let place = Place::new();
    let workflow =
        |name: &str, text: &str| place.file(&format!("{name}.yaml"), format!("rondo: 1\nname: {name}\n{text}"));
    let asked = "roles: { person: { kind: human, output: { fine: {} } } }
graph: { start: { to: person, prompt: Fine? }, person: { fine: { to: end } } }
";
    workflow("asked", asked);
    let between = "roles: { writer: { output: { done: {} } }, asked: { kind: workflow, workflow: asked.yaml } }
graph:
  start: { to: writer, prompt: Go. }
  writer: { done: { to: asked } }
  asked: { done: { to: end }, failed: { to: end } }
";
    workflow("between", between);
    let root = "roles:
  below: { kind: workflow, workflow: between.yaml }
  lawyer: { kind: human, output: { cleared: {} } }
  publisher: { output: { done: {} } }
graph:
  start: { to: [below, lawyer], prompt: Go., join: { to: publisher, prompt: Print., need: 1 } }
  below: { done: { to: publisher }, failed: { to: publisher } }
  lawyer: { cleared: { to: publisher } }
  publisher: { done: { to: end } }
";
    let file = workflow("root", root);
    let script = place.file("script.yaml", "{ below/writer: [{ status: done }], publisher: [{ status: done }] }");
    let run = place.run(["run", &file, "--script", &script, "--json"]).exits(75);
    let id = run.events("thread_started")[0]["thread"].as_str().unwrap().to_owned();
    let done = place.run(["answer", &id, "--role", "lawyer", "--status", "cleared", "--json"]).exits(0);
    assert!(done.events("error").is_empty(), "{done:?}");
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let of = |name: &str| threads.iter().find(|thread| thread["name"] == name).unwrap().clone();
    let status = ["root", "between", "asked"].map(|name| of(name)["status"].clone());
    assert_eq!(status, ["done", "cancelled", "cancelled"]);
    assert_eq!(of("root")["totals"]["model_calls"], 2, "the call of the cancelled child counts: {threads:?}");
}

#[test]
fn what_a_child_workflow_asks_for_needs_consent_too() {
    let place = Place::new();
    place.file(
        "child.yaml",
        "rondo: 1
name: child
roles:
  dev: { tools: [shell], output: { done: {} } }
graph: { start: { to: dev, prompt: go }, dev: { done: { to: end } } }
hooks: [ { use: command, name: spy } ]
",
    );
    let parent = place.file(
        "parent.yaml",
        "rondo: 1
name: parent
roles:
  part: { kind: workflow, workflow: child.yaml }
graph: { start: { to: part }, part: { done: { to: end }, failed: { to: fail } } }
",
    );
    let script = place.file("script.yaml", "part/dev: [{ status: done }]");
    let refused = place.run(["run", &parent, "--script", &script, "--json"]).exits(3);
    assert_eq!(refused.event("error")["code"], "RN1703", "{refused:?}");
    let asks = place.run(["trust", &parent, "--json"]);
    let asks = asks.event("trust")["asks"].to_string();
    assert!(asks.contains("part/dev") && asks.contains("spy"), "{asks}");
}

#[test]
fn a_tree_of_threads_is_drawn_and_shown() {
    let place = Place::new();
    let drawn = place.run(["graph", &fixture("children")]).exits(0).text();
    for line in ["subgraph f_section [\"section\"]", "n_role_section -.-> n_section_start", "n_section_role_writer["] {
        assert!(drawn.contains(line), "{line} in {drawn}");
    }
    let json = place.run(["graph", &fixture("children"), "--format", "json"]).exits(0).text();
    assert!(json.contains(r#""id":"section/role:writer""#), "{json}");
    place.run(["run", &fixture("children"), "--offline", "-i", "topic=tea", "-q"]).exits(0);
    let threads = place.run(["threads", "--json"]).exits(0).json();
    let root = threads.iter().find(|thread| thread["name"] == "report").unwrap();
    let id = root["thread"].as_str().unwrap();
    let steps = place.run(["show", id, "--json"]).exits(0).json();
    let children: Vec<&Value> =
        steps.iter().filter(|step| step["role"] == "section").map(|step| &step["child"]).collect();
    assert_eq!(children.len(), 3);
    for child in children {
        assert!(threads.iter().any(|thread| thread["thread"] == *child && thread["name"] == "section"), "{child}");
        assert!(place.run(["show", id]).exits(0).text().contains(child.as_str().unwrap()));
    }
}

//! A stop says how the thread continues, and that is what happens: each test types the command of the hint, word for word.

use super::client::Client;
use super::server::{Act, Server};
use crate::binary::{Finished, Place};

const CHAIN: &str = "
rondo: 1
name: chain
roles:
  a: { output: { done: {} } }
  b: { output: { done: {} } }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: b, prompt: next } }
  b: { done: { to: end } }
";

const LOOP: &str = "
rondo: 1
name: loop
roles:
  a: { output: { again: {}, done: {} } }
graph:
  start: { to: a, prompt: go }
  a: { again: { to: a, prompt: more, max: 9, on_max: { to: end } }, done: { to: end } }
";

const AGAIN: &str = "a: [{ status: again }, { status: done }]";
const BOTH: &str = "{ a: [{ status: done }], b: [{ status: done }] }";

/// An answer that used 1,000 tokens of a request and 10 of a reply.
fn counted() -> Act {
    Act::answer("---\nstatus: done\n---\n\nText\n", [1000, 0, 10])
}

fn limited(workflow: &str, limits: &str) -> String {
    workflow.replace("graph:", &format!("limits: {{ {limits} }}\ngraph:"))
}

/// The hint of the stop.
#[track_caller]
fn hint(stopped: &Finished) -> String {
    stopped.events("error").last().unwrap()["hint"]
        .as_str()
        .unwrap_or_else(|| panic!("no hint: {stopped:?}"))
        .to_owned()
}

/// Types the last command of the hint, the one that continues; the thread ends.
#[track_caller]
fn goes_on(stopped: &Finished, run: impl Fn(&[&str]) -> Finished) {
    let hint = hint(stopped);
    let typed = hint.split('`').rfind(|part| part.starts_with("rondo ")).unwrap_or_else(|| panic!("{hint}"));
    let words = shlex::split(typed).unwrap();
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).chain(["--json"]).collect();
    let ended = run(&words).exits(0);
    assert_eq!(ended.events("thread_finished").last().unwrap()["outcome"], "done", "{words:?}: {ended:?}");
}

/// A run of the workflow with the script, which stops with that exit code.
#[track_caller]
fn stopped(place: &Place, workflow: &str, script: &str, code: i32) -> Finished {
    place.file("workflow.yaml", workflow);
    place.file("script.yaml", script);
    place.run(["run", "workflow.yaml", "--offline", "--json"]).exits(code)
}

#[test]
fn a_limit_of_the_thread_is_raised_by_the_command_that_the_stop_names() {
    let slow = "{ a: [{ status: done, delay_ms: 400 }, { status: done }], b: [{ status: done }] }";
    for (workflow, limits, script, offered) in [
        (CHAIN, "steps: 1", BOTH, "--limit steps=2`"),
        (LOOP, "visits: 1", AGAIN, "--limit visits=2`"),
        (CHAIN, "wall_time: 100ms", slow, "--limit wall_time=1s`"),
    ] {
        let place = Place::new();
        let stopped = stopped(&place, &limited(workflow, limits), script, 4);
        assert!(hint(&stopped).contains(offered), "{limits}: {}", hint(&stopped));
        // A person reads the same, when it stops and later.
        let shown = place.run(["show", "last"]).exits(0).text();
        assert!(shown.contains(&hint(&stopped)), "{shown}");
        goes_on(&stopped, |words| place.run(words));
    }
}

#[test]
fn tokens_and_money_that_a_call_needs_are_offered() {
    let priced = "[model.default]\nprice = { input = 100, output = 1000 }\n";
    let reserving = CHAIN.replace("roles:", "models: { default: { max_output_tokens: 4000 } }\nroles:");
    for (workflow, limits, key) in [
        (CHAIN, "tokens: 900", "tokens"),
        (&*reserving, "tokens: 5000", "tokens"),
        (CHAIN, "cost_usd: 0.1", "cost_usd"),
        (&*reserving, "cost_usd: 4.1", "cost_usd"),
    ] {
        let server = Server::new(|_| counted());
        let client = server.client(&limited(workflow, limits));
        client.own_settings(priced);
        let stopped = client.run(&["run", "workflow.yaml", "--json"]).exits(4);
        assert!(hint(&stopped).contains(&format!("--limit {key}=")), "{limits}: {}", hint(&stopped));
        goes_on(&stopped, |words| client.run(words));
    }
}

#[test]
fn a_limit_of_a_role_is_raised_in_the_file() {
    let place = Place::new();
    let workflow = LOOP.replace("a: { output", "a: { limits: { visits: 1 }, output");
    let stopped = stopped(&place, &workflow, AGAIN, 4);
    assert!(hint(&stopped).starts_with("raise `roles.a.limits.visits` in "), "{}", hint(&stopped));
    place.file("workflow.yaml", workflow.replace("visits: 1", "visits: 5"));
    goes_on(&stopped, |words| place.run(words));
    assert_eq!(place.run(["show", "last", "--json"]).exits(0).events("step").len(), 2);
}

#[test]
fn a_limit_of_the_settings_is_raised_there() {
    let place = Place::new();
    place.settings("[limits]\nsteps = 1\n");
    let stopped = stopped(&place, CHAIN, BOTH, 4);
    assert!(hint(&stopped).starts_with("raise `steps` of `[limits]` in the settings"), "{}", hint(&stopped));
    place.settings("[limits]\nsteps = 5\n");
    goes_on(&stopped, |words| place.run(words));
}

const PARENT: &str = "
rondo: 1
name: above
roles:
  outer: { kind: workflow, workflow: chain.yaml }
graph:
  start: { to: outer }
  outer: { done: { to: end }, failed: { to: fail } }
";

/// A child continues with the thread above it: that has its script, and its limits hold for the child too.
#[test]
fn a_limit_of_a_child_is_raised_for_the_child_and_the_tree_goes_on() {
    let place = Place::new();
    place.file("chain.yaml", limited(CHAIN, "steps: 1"));
    let stopped = stopped(&place, PARENT, "{ outer/a: [{ status: done }], outer/b: [{ status: done }] }", 4);
    let child = stopped.events("error").first().unwrap()["thread"].as_str().unwrap().to_owned();
    assert_eq!(hint(&stopped), format!("`rondo resume {child} --limit steps=2` continues"));
    for (limit, code) in [("steps=1", 2), ("tokens=5", 2)] {
        let refused = place.run(["resume", &child, "--limit", limit, "--json"]).exits(code);
        assert_eq!(refused.event("error")["code"], "RN1415", "{refused:?}");
    }
    // Without a name, it is the one tree that has not ended; the limit is the thread's at the top, which has none.
    place.run(["resume", "--limit", "tokens=5", "--json"]).exits(2);
    goes_on(&stopped, |words| place.run(words));
    let shown = place.run(["show", &child]).exits(0).text();
    assert!(shown.contains("limit steps raised from 1 to 2"), "{shown}");
}

/// The limit is the parent's, whose thread is the one to raise it for.
#[test]
fn a_call_of_a_child_that_reaches_a_limit_above_names_the_thread_above() {
    let server = Server::new(|_| counted());
    let client = server.client(&limited(PARENT, "tokens: 900"));
    client.file("chain.yaml", CHAIN);
    let stopped = client.run(&["run", "workflow.yaml", "--json"]).exits(4);
    let above = stopped.events("thread_started")[0]["thread"].as_str().unwrap().to_owned();
    assert!(hint(&stopped).starts_with(&format!("`rondo resume {above} --limit tokens=")), "{}", hint(&stopped));
    goes_on(&stopped, |words| client.run(words));
}

#[test]
fn a_script_that_ran_out_is_named_and_what_is_added_to_it_is_used() {
    let place = Place::new();
    let stopped = stopped(&place, CHAIN, "{ a: [{ status: done }], b: [] }", 5);
    assert!(hint(&stopped).contains("script.yaml, then `rondo resume "), "{}", hint(&stopped));
    place.file("script.yaml", BOTH);
    goes_on(&stopped, |words| place.run(words));
}

#[test]
fn a_template_that_finds_no_value_is_mended_in_the_file_and_forked() {
    let place = Place::new();
    let workflow = CHAIN
        .replace("a: { output: { done: {} } }", "a: { output: { done: { plan: { type: object } } } }")
        .replace("prompt: next", "prompt: \"{{ output.plan.steps }}\"");
    let script = "{ a: [{ status: done, fields: { plan: { goal: x } } }], b: [{ status: done }] }";
    let stopped = stopped(&place, &workflow, script, 4);
    assert!(hint(&stopped).starts_with("mend "), "{}", hint(&stopped));
    place.file("workflow.yaml", workflow.replace("plan.steps", "plan.goal"));
    goes_on(&stopped, |words| place.run(words));
    let steps = place.run(["show", "last", "--json"]).exits(0).events("step");
    assert_eq!(steps[1]["edge"]["prompt"], "x");
}

#[test]
fn whoever_resumes_hears_that_the_file_was_changed_and_what_a_fork_would_do() {
    let place = Place::new();
    let first = stopped(&place, &limited(CHAIN, "steps: 1"), BOTH, 4);
    let thread = first.event("thread_started")["thread"].as_str().unwrap().to_owned();
    place.file("workflow.yaml", limited(&CHAIN.replace("prompt: next", "prompt: then"), "steps: 9"));
    let resumed = place.run(["resume", &thread]);
    for part in
        ["was changed since this thread began", &format!("`rondo fork {thread} --with "), "all 1 step of thread"]
    {
        assert!(resumed.stderr.contains(part), "{part} in {}", resumed.stderr);
    }
    // It still continues as it was.
    let ended = place.run(["resume", &thread, "--limit", "steps=5"]).exits(0);
    assert!(ended.stderr.contains("was changed"), "{}", ended.stderr);
    let steps = place.run(["show", &thread, "--json"]).exits(0).events("step");
    assert_eq!(steps[1]["edge"]["prompt"], "next");

    // A file as it was, and programs, are told nothing.
    let second = stopped(&place, &limited(CHAIN, "steps: 1"), BOTH, 4);
    let thread = second.event("thread_started")["thread"].as_str().unwrap().to_owned();
    let resumed = place.run(["resume", &thread, "--limit", "steps=5"]).exits(0);
    assert!(!resumed.stderr.contains("was changed"), "{}", resumed.stderr);
}

#[test]
fn a_limit_of_the_command_line_does_not_count_as_a_change_of_the_file() {
    let place = Place::new();
    place.file("workflow.yaml", CHAIN);
    place.file("script.yaml", BOTH);
    let run = ["run", "workflow.yaml", "--script", "script.yaml", "--limit", "steps=1"];
    place.run(run).exits(4);
    let again = place.run(["resume", "last"]).exits(4).stderr;
    assert!(again.contains("has other limits than this thread") && !again.contains("was changed"), "{again}");
    let ended = place.run(["resume", "last", "--limit", "steps=5"]).exits(0).stderr;
    assert!(!ended.contains("other limits") && !ended.contains("was changed"), "{ended}");
}

#[test]
fn a_stop_without_a_limit_names_the_plain_command() {
    let server = Server::new(|number| {
        if number == 0 { Act::text("HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n") } else { counted() }
    });
    let client: Client = server.client(&CHAIN.replace("a: { output", "a: { retry: { attempts: 1 }, output"));
    let stopped = client.run(&["run", "workflow.yaml", "--json"]).exits(5);
    goes_on(&stopped, |words| client.run(words));
}

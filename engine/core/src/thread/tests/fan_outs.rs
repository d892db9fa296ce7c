//! Fan-outs as specified in FORMAT: whole threads, step by step.
//!
//! Each line is a step: its number, lane, role, visit and status, the steps that it follows, and how it was entered.

use std::fmt::Write as _;

use rondo_protocol::id::{LanePath, Status};
use rondo_protocol::object::{EdgeTaken, Observation, RecordKind, Step};

use super::driver::*;

type Lines<'a> = &'a [(&'static str, &'static str)];

fn workflow(roles: &str, graph: &str) -> String {
    format!("rondo: 1\nname: w\nroles:\n{roles}graph:\n{graph}")
}

/// Roles with the single status `done`, except those with named statuses, as in `a b c:good,bad`.
fn roles(names: &str) -> String {
    names.split_whitespace().fold(String::new(), |mut text, role| {
        let (role, statuses) = role.split_once(':').unwrap_or((role, "done"));
        let statuses: Vec<_> = statuses.split(',').map(|status| format!("{status}: {{}}")).collect();
        writeln!(text, "  {role}: {{ system: S., context: none, output: {{ {} }} }}", statuses.join(", ")).unwrap();
        text
    })
}

/// A role that returns items.
const PLAN: &str = "  plan: { system: S., context: none, output: { done: { items: \"string[]\" } } }\n";
const ITEMS: (&str, &str) = ("plan", "done||{\"items\":[\"x\",\"y\",\"z\"]}");

fn run(roles_of: &str, graph: &str, lines: Lines<'_>) -> Thread {
    let plan = if graph.contains("plan:") { PLAN } else { "" };
    let mut thread = Thread::new(&workflow(&(roles(roles_of) + plan), graph), script(lines));
    thread.tokens_a_visit = 10;
    thread.begin();
    thread.go(&mut |_| 0);
    thread
}

fn text(roles_of: &str, graph: &str, lines: Lines<'_>) -> String {
    run(roles_of, graph, lines).text()
}

/// Checks that the rows contain nothing of lanes.
#[track_caller]
fn is_clean(thread: &Thread) {
    let Rows { lanes, journals, lists, .. } = &thread.rows;
    assert!(lanes.is_empty() && journals.is_empty() && lists.is_empty(), "{:?} {journals:?} {lists:?}", lanes.keys());
}

const TWO: &str = "  start: { to: s, prompt: go }
  s:
    done: { to: [{ to: a, prompt: 'for a: {{ body }}' }, b], prompt: 'for both', join: FAN }
  a: { done: { to: j, prompt: 'a says {{ body }}' }, bad: { to: fail, reason: 'a is bad' } }
  b: { done: { to: j } }
  j: { done: { to: end, result: { all: '{{ body }}' } } }
";
const TWO_ROLES: &str = "s a:done,bad b j";

#[test]
fn branches_get_their_prompts_and_the_join_their_parts() {
    let thread = run(TWO_ROLES, &TWO.replace("FAN", "j"), &[]);
    insta::assert_snapshot!(thread.text());
    is_clean(&thread);
    let own = "{ to: j, prompt: '{% for b in branches %}{{ b.role }} {{ b.index }} {{ b.status }} {{ b.body }} {{ b.part }};{% endfor %}' }";
    insta::assert_snapshot!(text(TWO_ROLES, &TWO.replace("FAN", own), &[]));
}

#[test]
fn branches_are_in_scope_on_the_edges_of_the_join_role() {
    let graph = TWO
        .replace("FAN", "j")
        .replace("'{{ body }}' } } }", "'{% for b in branches %}{{ b.role }} {{ b.part }};{% endfor %}' } } }");
    for how in [None, Some(How::Restore), Some(How::Follow)] {
        let mut thread = Thread::new(&workflow(&roles(TWO_ROLES), &graph), script(&[]));
        thread.begin();
        while let Some(event) = thread.next(&mut |_| 0) {
            thread.happens(&event);
            if let Some(how) = how.filter(|_| event == Event::Synced && thread.finished.is_none()) {
                thread.crash(0, how);
            }
        }
        assert_eq!(thread.end(), "done {\"all\":\"a a says a@a[0]#1;b b@b[1]#1;\"}");
    }
}

#[test]
fn a_branch_whose_condition_is_false_is_left_out_and_keeps_its_position() {
    let graph = "  start: { to: s, prompt: go }
  s:
    done: { to: [{ to: a, when: 'body == \"both\"' }, b], prompt: p, join: j }
  a: { done: { to: j } }
  b: { done: { to: j } }
  j: { done: { to: end } }
";
    insta::assert_snapshot!(text("s a b j", graph, &[]));
    insta::assert_snapshot!(text("s a b j", graph, &[("s", "done|both")]));
}

#[test]
fn where_no_branch_is_left_the_join_follows_the_source() {
    let graph = "  start: { to: s, prompt: go }
  s:
    done: { to: [{ to: a, when: 'body == \"both\"' }, { to: b, when: 'body == \"both\"' }], prompt: p, join: { to: j, prompt: 'none: {{ branches | length }}' } }
  a: { done: { to: j } }
  b: { done: { to: j } }
  j: { done: { to: end } }
";
    insta::assert_snapshot!(text("s a b j", graph, &[]));
}

const EACH: &str = "  start: { to: plan, prompt: go }
  plan:
    done: { to: a, each: output.items, as: thing, parallel: 2, prompt: '{{ index }} {{ thing }}', join: FAN }
    on_limit: { to: fail, reason: 'too many' }
  a: { done: { to: b, prompt: '{{ thing }}: {{ body }}' }, bad: { to: fail, reason: 'bad {{ thing }}' } }
  b: { done: { to: j, prompt: '{{ index }}={{ body }}' } }
  j: { done: { to: end } }
";
const EACH_ROLES: &str = "a:done,bad b j";

#[test]
fn each_element_has_a_lane_and_at_most_so_many_are_open() {
    let thread = run(EACH_ROLES, &EACH.replace("FAN", "j"), &[ITEMS]);
    insta::assert_snapshot!(thread.text());
    assert_eq!(thread.lanes_ended(), ["a[0] arrived", "a[1] arrived", "a[2] arrived"]);
    is_clean(&thread);
    let text = workflow(&(roles(EACH_ROLES) + PLAN), &EACH.replace("FAN", "j"));
    let mut thread = Thread::new(&text, script(&[ITEMS]));
    thread.begin();
    let mut most = 0;
    while let Some(event) = thread.next(&mut |count| count - 1) {
        thread.happens(&event);
        most = most.max(thread.events().iter().filter(|event| matches!(event, Event::Ended(_))).count());
    }
    assert_eq!(most, 2);
}

#[test]
fn an_empty_list_goes_straight_to_the_join() {
    let fan = "{ to: j, prompt: '{{ branches | length }} of {{ steps.plan.output.items | length }}' }";
    let thread = run(EACH_ROLES, &EACH.replace("FAN", fan), &[("plan", "done||{\"items\":[]}")]);
    insta::assert_snapshot!(thread.text());
    is_clean(&thread);
}

#[test]
fn more_items_than_a_fan_out_may_have_are_a_limit() {
    let items: Vec<String> = (0..=rondo_protocol::workflow::FanOut::MAX_LANES).map(|item| item.to_string()).collect();
    let reply = format!("done||{}", serde_json::json!({ "items": items }));
    let reply: &'static str = Box::leak(reply.into_boxed_str());
    insta::assert_snapshot!(text(EACH_ROLES, &EACH.replace("FAN", "j"), &[("plan", reply)]));
    let without = EACH.replace("FAN", "j").replace("    on_limit: { to: fail, reason: 'too many' }\n", "");
    insta::assert_snapshot!(text(EACH_ROLES, &without, &[("plan", reply)]));
}

#[test]
fn what_is_no_list_stops_the_thread() {
    let graph = "  start: { to: plan, prompt: go }
  plan: { done: { to: a, each: output.what, join: j } }
  a: { done: { to: j } }
  j: { done: { to: end } }
";
    let plan = "  plan: { system: S., output: { done: { what: { type: [array, string] } } } }\n";
    let checked = rondo_protocol::workflow::read(
        "w",
        &workflow(&(roles("a j") + plan), graph),
        &std::collections::BTreeMap::default(),
    );
    assert!(checked.is_ok(), "{checked:?}");
    let thread = Thread::run(&workflow(&(roles("a j") + plan), graph), &[("plan", "done||{\"what\":\"x\"}")]);
    insta::assert_snapshot!(thread.text());
}

#[test]
fn any_and_a_number_of_lanes_cancel_the_rest() {
    let fan = "{ to: j, need: any, prompt: '{% for b in branches %}{{ b.item }} {{ b.part }};{% endfor %}' }";
    let mut thread = run(EACH_ROLES, &EACH.replace("FAN", fan), &[ITEMS]);
    insta::assert_snapshot!(thread.text());
    assert_eq!(thread.lanes_ended(), ["a[0] arrived", "a[1] cancelled"]);
    let lost = &thread.last_of("j").note.cancelled;
    let lost: Vec<_> = lost.iter().map(|lost| (lost.lane.to_string(), lost.usage.unwrap().prompt_tokens)).collect();
    assert_eq!(lost, [("a[1]".to_owned(), 10)]);
    let steps = thread.rows.steps.len() as u64;
    assert_eq!(thread.machine.budget().spent.usage.prompt_tokens, 10 * (steps + 1));
    is_clean(&thread);

    let whole = thread.remade(How::Follow);
    assert_eq!(whole.trunk.last, thread.machine.trunk.last);

    let thread = run(EACH_ROLES, &EACH.replace("FAN", &fan.replace("any", "2")), &[ITEMS]);
    assert_eq!(thread.lanes_ended(), ["a[0] arrived", "a[1] arrived", "a[2] cancelled"]);
    thread.remade(How::Follow);
}

/// A need is a promise: without as many lanes there is no join, whatever `failed` says.
#[test]
fn a_fan_out_whose_need_cannot_be_met_any_more_fails() {
    let each = |join: &str| EACH.replace("FAN", join);
    for failed in ["collect", "skip", "fail"] {
        // Fewer lanes than are needed: none is opened.
        let thread = run(EACH_ROLES, &each(&format!("{{ to: j, need: 4, failed: {failed} }}")), &[ITEMS]);
        assert_eq!(thread.lanes_ended(), Vec::<String>::new(), "{failed}");
        insta::assert_snapshot!("too_few_lanes", thread.text());
        let none = &[("plan", "done||{\"items\":[]}")];
        insta::assert_snapshot!(
            "no_lane",
            text(EACH_ROLES, &each(&format!("{{ to: j, need: any, failed: {failed} }}")), none)
        );
    }
    // The second failure ends it, with the error of the first lane that failed.
    let lines = &[ITEMS, ("a@a[0]", "bad|oh"), ("b@a[1]", "!timeout")];
    for failed in ["collect", "skip"] {
        let thread = run(EACH_ROLES, &each(&format!("{{ to: j, need: 2, failed: {failed} }}")), lines);
        insta::assert_snapshot!("unmet", thread.text());
        crashes_change_nothing(&each(&format!("{{ to: j, need: 2, failed: {failed} }}")), lines);
    }
    // The source routes it.
    let routed = |join: &str| {
        each(join).replace(
            "    on_limit",
            "    on_error: { to: end, result: '{{ output.code }}: {{ output.message }}' }\n    on_limit",
        )
    };
    for (name, need, lines) in [("too_few_lanes_are_routed", 4, &[ITEMS][..]), ("unmet_is_routed", 2, lines)] {
        let graph = routed(&format!("{{ to: j, need: {need}, failed: skip }}"));
        let thread = run(EACH_ROLES, &graph, lines);
        insta::assert_snapshot!(name, thread.text());
        is_clean(&thread);
        crashes_change_nothing(&graph, lines);
    }
}

/// An earlier version went on to the join with the lanes that had arrived. Its threads are read as they are.
#[test]
fn a_join_that_an_earlier_version_entered_with_too_few_lanes_is_followed() {
    let lines = &[ITEMS, ("a@a[0]", "bad|oh"), ("b@a[1]", "!timeout")];
    let join = |need: &str| EACH.replace("FAN", &format!("{{ to: j, failed: collect, need: {need} }}"));
    let mut thread = run(EACH_ROLES, &join("all"), lines);
    thread.definition.graph = graph(&workflow(&(roles(EACH_ROLES) + PLAN), &join("2")));
    // Fails if a step does not follow.
    thread.remade(How::Follow);
}

/// The lanes that count are those whose steps came first, even if others have ended meanwhile.
#[test]
fn a_crash_after_enough_lanes_have_arrived_changes_nothing() {
    crashes_change_nothing(&EACH.replace("FAN", "{ to: j, need: any }"), &[ITEMS]);
}

/// Crashes a run before each of its events, and compares where it ends.
#[track_caller]
fn crashes_change_nothing(graph: &str, lines: Lines<'_>) {
    let undisturbed = run(EACH_ROLES, graph, lines);
    let left = |thread: &Thread| (thread.rows.lanes.len(), thread.rows.lists.len());
    let text = workflow(&(roles(EACH_ROLES) + PLAN), graph);
    for how in [How::Restore, How::Follow] {
        for at in 0.. {
            let mut thread = Thread::new(&text, script(lines));
            thread.begin();
            for _ in 0..at {
                let Some(event) = thread.next(&mut |_| 0) else { break };
                thread.happens(&event);
            }
            if thread.finished.is_some() {
                break;
            }
            thread.crash(0, how);
            thread.go(&mut |_| 0);
            assert_eq!(thread.text(), undisturbed.text(), "{how:?} at {at}");
            assert_eq!(left(&thread), left(&undisturbed), "{how:?} at {at}");
        }
    }
}

/// A fork, an import and a repaired store have the steps alone. Their first commit writes the rows of every open lane:
/// otherwise a later process would begin those lanes again.
#[test]
fn lanes_that_only_steps_show_are_there_after_the_next_commit() {
    let two =
        TWO.replace("FAN", "j").replace("a: { done: { to: j,", "a: { done: { to: c,") + "  c: { done: { to: j } }\n";
    let each = EACH.replace("FAN", "j");
    let cases: [(&str, &str, &str, Lines<'_>); 2] =
        [("s a:done,bad b c j", "", &two, &[]), (EACH_ROLES, PLAN, &each, &[ITEMS])];
    for (roles_of, plan, graph, lines) in cases {
        let text = workflow(&(roles(roles_of) + plan), graph);
        let undisturbed = run(roles_of, graph, lines);
        let mut open = 0;
        for at in 0..undisturbed.rows.steps.len() {
            let mut thread = Thread::new(&text, script(lines));
            thread.begin();
            while thread.rows.steps.len() < at {
                let event = thread.next(&mut |_| 0).unwrap();
                thread.happens(&event);
            }
            (thread.rows.lanes, thread.rows.lists, thread.rows.checkpoint) = Default::default();
            thread.crash(0, How::Follow);
            while thread.rows.steps.len() == at {
                let event = thread.next(&mut |_| 0).unwrap();
                thread.happens(&event);
            }
            thread.crash(0, How::Restore);
            open += thread.rows.lanes.len();
            thread.go(&mut |_| 0);
            assert_eq!(thread.text(), undisturbed.text(), "after step {at}");
            is_clean(&thread);
        }
        assert!(open > 3, "lanes were open");
    }
}

const ALL_OF_BRANCHES: &str = "prompt: '{% for b in branches %}{{ b.index }} {{ b.item }} {{ b.role }} {{ b.status }} {{ b.body }} {{ b.part }}{% if b.error %} {{ b.error.code }} {{ b.error.message }}{% endif %};{% endfor %}'";

#[test]
fn failed_lanes_are_collected_or_skipped() {
    let lines = &[ITEMS, ("a@a[0]", "bad|oh"), ("b@a[1]", "!timeout")];
    let collect = EACH.replace("FAN", &format!("{{ to: j, failed: collect, {ALL_OF_BRANCHES} }}"));
    let thread = run(EACH_ROLES, &collect, lines);
    insta::assert_snapshot!(thread.text());
    assert_eq!(thread.lanes_ended(), ["a[0] failed", "a[1] failed", "a[2] arrived"]);
    is_clean(&thread);
    insta::assert_snapshot!(text(EACH_ROLES, &collect.replace("collect", "skip"), lines));
    // No lane arrived, and every lane has a last step.
    let none = &[("plan", "done||{\"items\":[\"x\"]}"), ("a", "bad")];
    insta::assert_snapshot!(text(EACH_ROLES, &collect.replace("collect", "skip"), none));
}

#[test]
fn a_fault_of_the_store_never_fails_a_lane() {
    for reply in ["!store", "!doubt"] {
        let thread = run(TWO_ROLES, &TWO.replace("FAN", "{ to: j, failed: collect }"), &[("b", reply)]);
        assert!(thread.stopped.is_some() && thread.finished.is_none());
        assert!(thread.rows.steps.iter().all(|made| made.step.role.as_str() != "b"), "{}", thread.text());
    }
}

#[test]
fn a_failed_lane_ends_the_thread_where_nothing_routes_it() {
    // By an edge to `fail`, with its reason.
    insta::assert_snapshot!(text(TWO_ROLES, &TWO.replace("FAN", "j"), &[("a", "bad")]));
    // By a fault: resumable.
    insta::assert_snapshot!(text(TWO_ROLES, &TWO.replace("FAN", "j"), &[("a", "!error")]));
    // From `start`.
    let graph = "  start: { to: [a, b], prompt: p, join: j }
  a: { done: { to: j }, bad: { to: fail, reason: 'a is bad' } }
  b: { done: { to: j } }
  j: { done: { to: end } }
";
    insta::assert_snapshot!(text("a:done,bad b j", graph, &[("a", "bad")]));
    insta::assert_snapshot!(text("a:done,bad b j", graph, &[]));
}

/// FORMAT, "Fan-out": every field of the step that a failed fan-out produces.
#[test]
fn a_failed_fan_out_is_a_step_of_its_source_that_is_routed() {
    let on_error = "join: j }\n    on_error: { to: r, prompt: '{{ output.code }} {{ output.message }} {{ status }}' }";
    let graph = TWO.replace("join: FAN }", on_error) + "  r: { done: { to: end } }\n";
    for (reply, code, message) in [("bad", "fail", "a is bad"), ("!error", "RN1005", "it broke")] {
        let thread = run(&format!("{TWO_ROLES} r"), &graph, &[("a", reply)]);
        let (lane, failed) = (thread.step(2), thread.step(3));
        assert_eq!(lane.step.lane, path("a[0]"));
        let expected = Step {
            answer: String::new(),
            edge: EdgeTaken {
                files: Vec::new(),
                from: "a".to_owned(),
                prompt: String::new(),
                status: Some(lane.step.status.clone()),
            },
            kind: RecordKind::Step,
            lane: LanePath::trunk(),
            observations: vec![
                Observation::Join { arrived: Vec::new(), cancelled: vec![path("b[1]")] },
                Observation::Error { code: code.to_owned() },
            ],
            output: value(&format!("{{\"code\":\"{code}\",\"message\":\"{message}\"}}")),
            prev: vec![lane.digest],
            role: name("s"),
            start: START,
            status: Status::new("error").unwrap(),
            transcript: None,
        };
        assert_eq!(failed.step, expected);
        assert_eq!(failed.visit, 2, "it counts as a visit");
        let next = thread.step(4);
        assert_eq!(next.step.edge.prompt, format!("{code} {message} error"));
        assert_eq!(next.step.prev, [failed.digest]);
        assert_eq!(thread.lanes_ended(), ["a[0] failed", "b[1] cancelled"]);
        is_clean(&thread);
    }
}

/// The edge after a failed fan-out reads the steps of its lanes, which are not synced yet when it is rendered.
#[test]
fn what_follows_a_failed_fan_out_reads_its_lanes_and_may_open_them_again() {
    let graph = "  start: { to: s, prompt: go }
  s:
    done: { to: [a, b], prompt: p, join: j }
    on_error:
      to: [a, b]
      prompt: 'again after {% if steps.a %}{{ steps.a.body }}{% endif %} ({{ output.message }})'
      join: j
      max: 1
      on_max: { to: fail, reason: 'twice' }
  a: { done: { to: j }, bad: { to: fail, reason: 'a is bad' } }
  b: { done: { to: j } }
  j: { done: { to: end } }
";
    let lines = [("a#1", "bad|the first"), ("b", "done|b")];
    insta::assert_snapshot!(text(TWO_ROLES, graph, &lines));
    // The step that is synced last.
    let mut thread = Thread::new(&workflow(&roles(TWO_ROLES), graph), script(&lines));
    thread.begin();
    thread.go(&mut |count| count - 1);
    assert!(thread.end().starts_with("done"), "{}", thread.text());
    insta::assert_snapshot!(text(TWO_ROLES, graph, &[("a", "bad|no")]));
}

#[test]
fn a_step_without_a_visit_reads_the_one_before_it() {
    let graph = "  start: { to: s, prompt: go }
  s: { done: { to: w, prompt: '{{ body }}' } }
  w:
    done: { to: s, prompt: again, max: 2, on_max: { to: end } }
    on_limit: { to: end, result: { s: '{{ steps.s.body }}', n: '{{ steps.s.visits }}' } }
";
    let roles_of = "  s: { system: S. }\n  w: { system: S., limits: { visits: 1 } }\n";
    insta::assert_snapshot!(Thread::run(&workflow(roles_of, graph), &[]).text());
    // In lanes that join.
    let graph = "  start: { to: s, prompt: go }
  s: { done: { to: [a, b], prompt: p, join: { to: j, failed: collect, prompt: '{% for b in branches %}{{ b.body }}{% if b.error %}{{ b.error.message }}{% endif %};{% endfor %}' } } }
  a: { done: { to: j } }
  b: { done: { to: j } }
  j: { done: { to: s, max: 1, on_max: { to: end } } }
";
    let roles_of =
        roles("s j") + "  a: { system: S., limits: { visits: 1 } }\n  b: { system: S., limits: { visits: 1 } }\n";
    insta::assert_snapshot!(Thread::run(&workflow(&roles_of, graph), &[]).text());
}

const NESTED: &str = "  start: { to: plan, prompt: go }
  plan:
    done: { to: a, each: output.items, as: outer, prompt: '{{ outer }}', join: { to: j, OUTER } }
    on_error: { to: end, result: { error: '{{ output.message }}' } }
  a:
    done: { to: [{ to: b, prompt: 'b of {{ outer }} at {{ index }}' }, c], prompt: 'c of {{ outer }}', join: { to: k, INNER } }
  b: { done: { to: k, prompt: '{{ outer }} {{ body }}' }, bad: { to: fail, reason: 'b is bad' } }
  c: { done: { to: k } }
  k: { done: { to: j, prompt: '{{ body }}{% for b in branches %} {{ b.part }}{% endfor %}' } }
  j: { done: { to: end } }
";
const NESTED_ROLES: &str = "a b:done,bad c k j";

fn nested(outer: &str, inner: &str, lines: Lines<'_>) -> Thread {
    let all = [&[("plan", "done||{\"items\":[\"x\",\"y\"]}")], lines].concat();
    run(NESTED_ROLES, &NESTED.replace("OUTER", outer).replace("INNER", inner), &all)
}

fn with_lanes(thread: &Thread) -> String {
    format!("{}\n{}", thread.text(), thread.lanes_ended().join(", "))
}

#[test]
fn fan_outs_nest() {
    let thread = nested("failed: fail", "failed: fail", &[]);
    insta::assert_snapshot!(with_lanes(&thread));
    is_clean(&thread);
}

#[test]
fn a_failed_fan_out_in_a_lane_fails_that_lane() {
    let collect = format!("failed: collect, {ALL_OF_BRANCHES}");
    let thread = nested(&collect, "failed: fail", &[("b@a[0]/b[0]", "bad")]);
    insta::assert_snapshot!(with_lanes(&thread));
    is_clean(&thread);
    let routed = nested("failed: fail", "failed: fail", &[("b@a[0]/b[0]", "!error")]);
    insta::assert_snapshot!(with_lanes(&routed));
    is_clean(&routed);
}

#[test]
fn a_cancelled_lane_takes_the_lanes_within_it_along() {
    let graph = NESTED.replace("OUTER", "need: any").replace("INNER", "failed: fail");
    let lines = [("plan", "done||{\"items\":[\"x\",\"y\"]}")];
    for how in [None, Some(How::Restore), Some(How::Follow)] {
        let mut thread = Thread::new(&workflow(&(roles(NESTED_ROLES) + PLAN), &graph), script(&lines));
        thread.tokens_a_visit = 10;
        thread.begin();
        // `a[0]` and its `b[0]` answer; its `c[1]` only after `a[1]` has arrived.
        let held = Event::Ended(path("a[0]/c[1]"));
        loop {
            let mut events = thread.events();
            if events.is_empty() {
                break;
            }
            let free = events.iter().position(|event| *event != held).unwrap_or(0);
            let event = events.swap_remove(free);
            thread.happens(&event);
            if let Some(how) = how.filter(|_| event == Event::Synced && thread.finished.is_none()) {
                thread.crash(0, how);
            }
        }
        assert!(thread.finished.is_some());
        if how.is_none() {
            insta::assert_snapshot!(with_lanes(&thread));
        }
        let lost: Vec<String> = thread.last_of("j").note.cancelled.iter().map(|lost| lost.lane.to_string()).collect();
        assert_eq!(lost, ["a[0]/c[1]"], "{how:?}");
        let steps = thread.rows.steps.len() as u64;
        assert_eq!(thread.machine.budget().spent.usage.prompt_tokens, 10 * (steps + 1), "{how:?}");
        is_clean(&thread);
    }
}

#[test]
fn counts_of_a_lane_go_on_in_its_next_round() {
    let graph = "  start: { to: s, prompt: go }
  s: { done: { to: [a, b], prompt: '{{ body }}', join: j } }
  a: { done: { to: a, prompt: more, max: 2, on_max: { to: j, prompt: 'enough: {{ steps.a.visits }}' } } }
  b: { done: { to: j } }
  j: { done: { to: s, prompt: next, max: 2, on_max: { to: end } } }
";
    let thread = run("s a b j", graph, &[]);
    insta::assert_snapshot!(thread.text());
    is_clean(&thread);
    // With a trunk role as `per` the count restarts in each round.
    let per = graph.replace("to: a, prompt: more, max: 2", "to: a, prompt: more, max: 1, per: s");
    if rondo_protocol::workflow::read("w", &workflow(&roles("s a b j"), &per), &std::collections::BTreeMap::default())
        .is_ok()
    {
        let thread = run("s a b j", &per, &[]);
        let visits = thread.rows.steps.iter().filter(|made| made.step.lane == path("a[0]")).count();
        assert_eq!(visits, 6, "{}", thread.text());
    }
}

#[test]
fn counts_of_nested_lanes_go_on_in_their_next_round() {
    let graph = "  start: { to: s, prompt: go }
  s: { done: { to: [a, x], prompt: '{{ body }}', join: j } }
  x: { done: { to: j } }
  a: { done: { to: [b, c], prompt: p, join: k } }
  b: { done: { to: b, prompt: more, max: 1, on_max: { to: k } } }
  c: { done: { to: k } }
  k: { done: { to: j } }
  j: { done: { to: s, prompt: next, max: 2, on_max: { to: end } } }
";
    for how in [None, Some(How::Restore), Some(How::Follow)] {
        let mut thread = Thread::new(&workflow(&roles("s a b c k j x"), graph), script(&[]));
        thread.begin();
        while let Some(event) = thread.next(&mut |_| 0) {
            thread.happens(&event);
            if let Some(how) = how.filter(|_| event == Event::Synced && thread.finished.is_none()) {
                thread.crash(0, how);
            }
        }
        let of = |lane: &str| thread.rows.steps.iter().filter(|made| made.step.lane == path(lane)).collect::<Vec<_>>();
        assert_eq!((of("a[0]").len(), of("a[0]/b[0]").len()), (6, 4), "{}", thread.text());
        let opened = of("a[0]/b[0]");
        assert_eq!(opened[0].note.first_opened_by, Vec::<u64>::new());
        assert_eq!(opened[3].note.first_opened_by, opened[0].note.opened_by);
    }
}

#[test]
fn a_limit_at_the_join_keeps_the_lanes_for_whoever_resumes() {
    let text = workflow(&roles(TWO_ROLES), &TWO.replace("FAN", "j")) + "limits: { steps: 3 }\n";
    for how in [How::Restore, How::Follow] {
        let mut thread = Thread::new(&text, script(&[]));
        thread.begin();
        thread.go(&mut |_| 0);
        assert_eq!((thread.stopped.is_some(), thread.rows.steps.len()), (true, 3));
        thread.definition.limits.steps = 10;
        thread.crash(9, how);
        thread.go(&mut |_| 0);
        assert_eq!(thread.rows.steps.len(), 4, "{}", thread.text());
        assert_eq!(thread.end(), "done {\"all\":\"j@#1\"}");
    }
}

/// A fan-out never continues without lanes that could not be opened.
#[test]
fn a_lane_that_cannot_be_opened_is_not_left_out() {
    let graph = "  start: { to: s, prompt: go }
  s: { done: { to: a, each: output.items, as: it, prompt: '{{ it }}', join: { to: j, failed: collect } } }
  a: { done: { to: j } }
  j: { done: { to: end } }
";
    // An element that is not a text is a render error.
    let roles_of = roles("a j") + "  s: { system: S., output: { done: { items: { type: array } } } }\n";
    let lines = [("s", "done||{\"items\":[\"x\",[],\"z\"]}")];
    for how in [How::Restore, How::Follow] {
        let mut thread = Thread::new(&workflow(&roles_of, graph), script(&lines));
        thread.begin();
        for _ in 0..3 {
            thread.go(&mut |_| 0);
            assert!(thread.stopped.is_some(), "{}", thread.text());
            assert!(thread.rows.steps.iter().all(|made| made.step.role.as_str() != "j"), "{}", thread.text());
            thread.crash(9, how);
        }
    }
}

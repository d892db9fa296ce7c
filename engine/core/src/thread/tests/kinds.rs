//! Roles that no model answers: rules, selectors by rotation or expression, people.

use rondo_protocol::event;
use rondo_protocol::object::Followed;

use super::driver::*;
use crate::thread::{Notice, Task};

/// A workflow whose thread is run, and run again from each of its commits, from rows and from steps.
#[track_caller]
fn run(text: &str, lines: &[(&'static str, &'static str)]) -> Thread {
    let whole = Thread::run(text, lines);
    for how in [How::Restore, How::Follow] {
        let mut thread = Thread::new(text, script(lines));
        thread.begin();
        while let Some(event) = thread.next(&mut |_| 0) {
            thread.happens(&event);
            if event == Event::Synced && thread.finished.is_none() && thread.stopped.is_none() {
                thread.crash(0, how);
            }
        }
        assert_eq!(thread.text(), whole.text());
    }
    whole
}

fn statuses(thread: &Thread) -> Vec<String> {
    thread.rows.steps.iter().map(|made| format!("{}.{}", made.step.role, made.step.status)).collect()
}

const RULE: &str = "rondo: 1
name: w
roles:
  ask: { output: { done: { points: integer } } }
  gate:
    kind: rule
    output:
      high: { when: 'output.points > 7', points: 'output.points', twice: 'output.points * 2' }
      low: { times: 'steps.gate.visits if steps.gate else 0' }
graph:
  start: { to: ask, prompt: go }
  ask: { done: { to: gate, prompt: 'not shown' } }
  gate:
    high: { to: end, result: { twice: '{{ output.twice }}', body: '{{ body }}' } }
    low: { to: ask, prompt: 'again, after {{ output.times }}', max: 3, on_max: { to: fail, reason: too low } }
";

#[test]
fn a_rule_takes_the_first_status_that_holds_and_sets_its_fields() {
    let lines = [("ask", "done|x|{\"points\":1}"), ("ask#3", "done|x|{\"points\":9}")];
    let thread = run(RULE, &lines);
    assert_eq!(thread.end(), r#"done {"body":"","twice":18}"#);
    assert_eq!(statuses(&thread), ["ask.done", "gate.low", "ask.done", "gate.low", "ask.done", "gate.high"]);
    assert_eq!(thread.step(4).step.edge.prompt, "not shown");
    assert_eq!(thread.step(5).step.edge.prompt, "again, after 1");
    assert_eq!(thread.step(6).step.output, value(r#"{"points":9,"twice":18}"#));
    let gate = &thread.step(6).step;
    assert_eq!((gate.answer.as_str(), gate.transcript), ("", None));
    assert_eq!(thread.rows.steps[5].note.model_calls, 0);
}

#[test]
fn rules_that_go_round_end_at_their_bound() {
    let thread = run(RULE, &[("ask", "done|x|{\"points\":1}")]);
    assert_eq!(thread.end(), "failed (too low) null");
}

#[test]
fn a_rule_without_a_value_is_an_error_of_its_own_role() {
    let text = RULE.replace("'output.points * 2'", "'output.points / (output.points - 9)'");
    let lines = [("ask", "done|x|{\"points\":9}")];
    let stopped = Thread::run(&text, &lines);
    assert!(stopped.end().starts_with("stopped: RN1205"), "{}", stopped.end());
    let routed = text.replace(
        "  gate:\n    high: { to",
        "  gate:\n    on_error: { to: end, result: '{{ output.code }}' }\n    high: { to",
    );
    let thread = run(&routed, &lines);
    assert_eq!(thread.end(), r#"done "RN1205""#);
    assert_eq!(statuses(&thread), ["ask.done", "gate.error"]);
}

fn selector(by: &str) -> String {
    format!(
        "rondo: 1
name: w
roles:
  a: {{ output: {{ done: {{}} }} }}
  b: {{ output: {{ done: {{}} }} }}
  c: {{ output: {{ done: {{}} }} }}
  chair: {{ kind: selector, by: {by} }}
graph:
  start: {{ to: b, prompt: go }}
  chair:
    stop: {{ to: end }}
    to_a: {{ to: a, prompt: '{{{{ output.reason }}}}' }}
    to_b: {{ to: b, prompt: p }}
    to_c: {{ to: c, prompt: p }}
    else: {{ to: fail, reason: 'no choice: {{{{ output.message }}}}' }}
  a: {{ done: {{ to: chair, prompt: next, max: 3, on_max: {{ to: end }} }} }}
  b: {{ done: {{ to: chair, prompt: next, max: 3, on_max: {{ to: end }} }} }}
  c: {{ done: {{ to: chair, prompt: next, max: 3, on_max: {{ to: end }} }} }}
"
    )
}

fn speakers(thread: &Thread) -> String {
    let steps = thread.rows.steps.iter().filter(|made| made.step.role.as_str() != "chair");
    steps.map(|made| made.step.role.as_str()).collect()
}

#[test]
fn rotations_pass_over_statuses_that_end_the_thread() {
    let thread = run(&selector("round_robin"), &[]);
    assert_eq!(speakers(&thread), "babcabcab");
    assert_eq!(thread.last_of("a").step.edge.prompt, "round_robin");
    // `b` has spoken, so that it comes after the others.
    assert_eq!(speakers(&run(&selector("least_recent"), &[])), "bacbacbacb");
}

#[test]
fn an_expression_yields_a_status_and_anything_else_takes_the_last_way_out() {
    let by = "{ expression: \"'to_a' if not steps.a else 'to_c' if not steps.c else 'stop'\" }";
    let thread = run(&selector(by), &[]);
    assert_eq!((speakers(&thread).as_str(), thread.end().starts_with("done")), ("bac", true));
    for wrong in ["'nobody'", "1 + 1", "'error'"] {
        let thread = run(&selector(&format!("{{ expression: \"{wrong}\" }}")), &[]);
        assert_eq!(statuses(&thread), ["b.done", "chair.error"], "{wrong}");
        assert!(thread.end().starts_with("failed (no choice: the choice of chair is not usable"), "{}", thread.end());
    }
}

#[test]
fn a_person_is_asked_with_a_form_and_costs_no_time() {
    let text = "rondo: 1
name: w
roles:
  ask: { output: { done: {} } }
  boss: { kind: human, timeout: 1h, output: { agreed: { 'note?': string }, refused: {} } }
graph:
  start: { to: ask, prompt: go }
  ask: { done: { to: boss, prompt: 'fine? {{ body }}' } }
  boss: { agreed: { to: end }, refused: { to: fail }, on_timeout: { to: fail, reason: late } }
";
    let lines = [("ask", "done|tea"), ("boss", "agreed")];
    let thread = run(text, &lines);
    assert_eq!(statuses(&thread), ["ask.done", "boss.agreed"]);
    let waiting: Vec<_> = thread
        .notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::After { followed: Followed::Waiting { visit, form }, .. } => Some((visit.clone(), form.to_text())),
            _ => None,
        })
        .collect();
    let visit = event::Visit { role: name("boss"), visit: 1, lane: path("") };
    let form = concat!(
        r#"{"expires_at_ms":3600000,"prompt":"fine? tea","statuses":[{"fields":[{"name":"note","optional":true,"#,
        r#""schema":{"type":"string"}}],"status":"agreed"},{"fields":[],"status":"refused"}]}"#
    );
    assert_eq!(waiting, [(visit, form.to_owned())]);
    assert_eq!(thread.asked[1].task, Task::Form);
    let late = run(text, &[("ask", "done"), ("boss", "!timeout")]);
    assert_eq!(late.end(), "failed (late) null");
}

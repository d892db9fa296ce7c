use std::collections::BTreeMap;

use rondo_protocol::diagnostic::Code;

use super::*;

fn simulated(text: &str) -> Report {
    with(text, Vec::new(), 1_000)
}

fn with(text: &str, inputs: Vec<Value>, routes: usize) -> Report {
    let checked = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()).unwrap();
    let graph = Arc::new(
        Graph::new(
            &checked.workflow,
            &checked.policy,
            rondo_hooks::registry().nodes(&checked.workflow, &checked.policy, &[]),
        )
        .unwrap(),
    );
    let subject = Subject { checked: &checked, graph: &graph, inputs, tools: &|_| BTreeMap::new(), routes };
    simulate(&subject, &mut |_| {}).unwrap()
}

fn routes(report: &Report) -> Vec<String> {
    report.routes.iter().map(|route| format!("{} -> {}", route.steps.join(" -> "), route.end.leads_to())).collect()
}

fn faults(report: &Report) -> Vec<String> {
    report.diagnostics.iter().map(ToString::to_string).collect()
}

fn codes(report: &Report) -> Vec<Code> {
    report.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

const LOOP: &str = r#"
rondo: 1
name: a-loop
roles:
  writer: { system: You write., output: { drafted: { title: string } } }
  editor: { system: You edit., context: none, output: { approved: {}, revise: { why: string } } }
graph:
  start: { to: writer, prompt: Write. }
  writer:
    drafted: { to: editor, prompt: "{{ body }}" }
    on_error: { to: fail, reason: "{{ output.message }}" }
  editor:
    approved: { to: end }
    revise: { to: back, prompt: "{{ output.why }}", max: 2, on_max: { to: fail, reason: enough } }
"#;

#[test]
fn every_route_of_a_bounded_loop_is_found_shortest_first() {
    let report = simulated(LOOP);
    insta::assert_snapshot!(routes(&report).join("\n"), @r"
    writer.error -> fail
    writer.drafted -> editor.approved -> end
    writer.drafted -> editor.revise -> writer.error -> fail
    writer.drafted -> editor.revise -> writer.drafted -> editor.approved -> end
    writer.drafted -> editor.revise -> writer.drafted -> editor.revise -> writer.error -> fail
    writer.drafted -> editor.revise -> writer.drafted -> editor.revise -> writer.drafted -> editor.approved -> end
    writer.drafted -> editor.revise -> writer.drafted -> editor.revise -> writer.drafted -> editor.revise -> fail
    ");
    assert!(report.has_all_routes && report.worst.is_exact && report.worst.has_weighed_all);
    assert_eq!((report.ways, report.worst.steps), (Some(7), 6));
    let visits: Vec<u64> = report.worst.roles.values().map(|cost| cost.visits).collect();
    assert_eq!(visits, [3, 3]);
    assert_eq!(report.coverage, Coverage { edges: 6, never: Vec::new(), is_whole: true });
    assert_eq!(faults(&report), [""; 0]);
}

/// The sum by hand: each request holds the head and all earlier messages of its role's conversation.
#[test]
fn a_route_is_weighed_as_its_requests_would_be_sent() {
    let report = simulated(LOOP);
    let costs = |steps: usize| {
        let ends = |route: &&Route| route.end == End::Done && route.steps.len() == steps;
        report.routes.iter().find(ends).and_then(|route| route.costs.clone()).unwrap()
    };
    let (once, twice) = (costs(2), costs(4));
    let of = |costs: &BTreeMap<RoleName, Cost>, role: &str| *costs.get(role).unwrap();
    let (first, both) = (of(&once, "writer"), of(&twice, "writer"));
    assert_eq!((first.visits, both.visits), (1, 2));
    assert_eq!(both.prompt_tokens, first.prompt_tokens + both.largest_request);
    // The second request adds the first answer, and a prompt that grows by the editor's text.
    let added = both.largest_request - first.prompt_tokens;
    let answer = first.output_tokens;
    assert!((answer..answer + 200).contains(&added), "{added} tokens for an answer of {answer}");
    assert_eq!(first.largest_request, first.prompt_tokens);
}

#[test]
fn entries_of_a_list_are_all_taken_and_one_that_cannot_be_is_named() {
    let report = simulated(
        r#"
rondo: 1
name: conditions
input: { plan: "free | paid", "note?": string }
roles:
  a: { system: A., output: { rated: { score: { type: integer, minimum: 0, maximum: 10 }, size: "s | m | l" }, said: { word: string } } }
  b: { system: B. }
graph:
  start: { to: a, prompt: Go. }
  a:
    rated:
      - { when: output.score > 7 and output.size == "m" and input.plan == "paid", to: b, prompt: one }
      - { when: output.score == 3, to: b, prompt: two }
      - { when: input.note, to: b, prompt: three }
      - { when: output.score > 10, to: b, prompt: four }
      - else: { to: end }
    said:
      - { when: output.word == "open sesame", to: b, prompt: five }
      - else: { to: end }
  b:
    done:
      - { when: '(steps.a.output.size | default("s")) == "l"', to: end }
      - else: { to: fail, reason: small }
"#,
    );
    assert_eq!(report.coverage.never, ["graph.a.rated[3]"], "{:?}", faults(&report));
    assert_eq!(codes(&report), [Code::EdgeNeverTaken]);
    assert_eq!(report.diagnostics.first().map(|found| (found.line, found.column)), Some((15, 9)));
}

/// Each fault is invisible to static checks; it is found at its place, with the route to it.
#[test]
fn templates_that_fail_on_a_good_answer_are_found_at_their_place() {
    let report = simulated(
        r#"
rondo: 1
name: faults
roles:
  counter:
    system: Count.
    output:
      counted: { done: integer, all: integer, items: "string[]", mixed: { type: array } }
  judge: { system: Judge., output: { fine: { anything: {} }, again: { why: string } } }
graph:
  start: { to: counter, prompt: Count. }
  counter:
    counted:
      to: judge
      say: "{{ output.items | first }}"
      prompt: "{{ output.mixed | sort | length }} {{ output.done // output.all }}"
  judge:
    fine: { to: end, result: { sum: [1, "{{ steps.counter.output.done + 1 }}"], text: "It is {{ output.anything }}." } }
    again: { to: counter, prompt: "{{ 12 / (output.why | length) }}", max: 1, on_max: { to: fail, reason: "{{ 1 / steps.counter.output.all }}" } }
"#,
    );
    insta::assert_snapshot!(faults(&report).join("\n"));
    assert!(codes(&report).iter().all(|code| *code == Code::RouteFails));
}

#[test]
fn a_template_that_fails_at_once_is_told_with_the_input() {
    let text = r#"
rondo: 1
name: at-start
input: { parts: { type: integer, default: 3 } }
roles: { a: { system: A. } }
graph: { start: { to: a, prompt: "{{ 12 // input.parts }}" }, a: { done: { to: end } } }
"#;
    let report = simulated(text);
    insta::assert_snapshot!(faults(&report).join("\n"), @r#"workflow.yaml:6:38: RN1911: `graph.start[0].prompt` fails: a number is divided by zero, with the input {"parts":0} (hint: ask for the number first by `if`, or give its field a `minimum`)"#);
    let given = with(text, vec![Value::from_iter([("parts", Value::Int(4))])], 10);
    assert_eq!(faults(&given), [""; 0], "only the given input is walked");
}

/// A file that nobody gave is stood in for, also in a list and where it may be absent.
#[test]
fn files_of_the_input_need_not_be_given() {
    let report = simulated(
        r#"
rondo: 1
name: describe
input: { picture: file, pages: "file[]", "cover?": file }
roles: { a: { system: A. } }
graph:
  start:
    - { when: input.picture.media_type == "image/png", to: a, prompt: "{{ input.picture.name }} of {{ input.pages | length }}", attach: [ input.picture ] }
    - { when: input.cover, to: a, prompt: "{{ input.cover.size | default(0) }}" }
    - else: { to: end }
  a: { done: { to: end } }
"#,
    );
    assert_eq!(faults(&report), [""; 0]);
    assert_eq!(routes(&report), [" -> end", "a.done -> end"]);
    assert!(report.has_all_routes && report.worst.is_exact && report.worst.has_weighed_all);
    assert_eq!(report.worst.steps, 1);
    assert!(report.worst.prompt_tokens > 0);
}

#[test]
fn figures_without_an_input_are_not_exact() {
    let text =
        LOOP.replace("name: a-loop", "name: a-loop\ninput: { code: { type: string, pattern: \"^a$\", minLength: 2 } }");
    let report = simulated(&text);
    assert_eq!(codes(&report).first(), Some(&Code::FieldWithoutValue), "{:?}", faults(&report));
    assert!(!report.worst.is_exact && !report.worst.has_weighed_all && report.worst.steps == 0);
}

#[test]
fn a_route_that_stops_is_weighed_up_to_there() {
    let text = r#"
rondo: 1
name: stopping
roles: { a: { system: A. }, b: { system: B. } }
graph:
  start: { to: a, prompt: Go. }
  a: { done: { to: b, prompt: "{{ 1 / 0 }}" } }
  b: { done: { to: end } }
"#;
    let report = simulated(text);
    assert_eq!(codes(&report), [Code::RouteFails, Code::EdgeNeverTaken], "{:?}", faults(&report));
    assert_eq!(routes(&report), ["a.done -> stop"]);
    assert_eq!((report.worst.steps, report.worst.weighed), (1, 1));
    assert!(report.worst.is_exact && report.worst.has_weighed_all);
    let [whole, stopped] = [simulated(&text.replace("{{ 1 / 0 }}", "")), report].map(|report| report.worst.roles);
    let a = RoleName::new("a").unwrap();
    assert_eq!(stopped.get(&a), whole.get(&a), "its request is sent before the run stops");
}

/// Nobody is asked, so the step before is the last.
#[test]
fn a_selector_that_chooses_nothing_is_a_stop() {
    let text = r#"
rondo: 1
name: choosing
roles:
  writer: { system: W. }
  length: { kind: rule, output: { long: { when: "body | length > 100" }, some: null } }
  next: { kind: selector, by: { expression: "'short' if steps.length.status == 'some' else 'other'" } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { done: { to: length } }
  length: { long: { to: next }, some: { to: next } }
  next: { short: { to: end } }
"#;
    let report = simulated(text);
    insta::assert_snapshot!(faults(&report).join("\n"));
    assert!(routes(&report).contains(&"writer.done -> length.long -> stop".to_owned()), "{:?}", routes(&report));
    assert_eq!(report.worst.steps, 3);
    let report = simulated(&text.replace("short: { to: end } }", "short: { to: end }, on_error: { to: end } }"));
    assert_eq!(faults(&report), [""; 0]);
}

#[test]
fn a_visit_limit_cuts_in_where_it_would_in_a_run() {
    let limited = LOOP.replace("context: none,", "context: none, limits: { visits: 2 },");
    let report = simulated(&limited);
    assert!(routes(&report).iter().any(|route| route.ends_with("writer.drafted -> limit")), "{:?}", routes(&report));
    assert_eq!(codes(&report), [Code::LimitBeforeEnd, Code::EdgeNeverTaken], "{:?}", faults(&report));
    let routed = limited.replace("    approved: { to: end }", "    approved: { to: end }\n    on_limit: { to: end }");
    let report = simulated(&routed);
    assert!(routes(&report).iter().any(|route| route.ends_with("editor.limit -> end")), "{:?}", routes(&report));
}

#[test]
fn a_step_limit_below_the_longest_route_is_said() {
    let report = simulated(&format!("{LOOP}limits: {{ steps: 5 }}\n"));
    assert_eq!(report.worst.steps, 5, "{:?}", faults(&report));
    assert!(codes(&report).contains(&Code::LimitBeforeEnd), "{:?}", faults(&report));
}

#[test]
fn tool_roles_answer_with_their_fields_or_fail() {
    let report = simulated(
        r#"
rondo: 1
name: with-tools
roles:
  count: { kind: tool, tool: count_words, args: { text: "{{ 1 / 1 }}" }, output: { ok: { words: integer } } }
  say: { system: Say. }
graph:
  start: { to: count }
  count:
    ok: { to: say, prompt: "{{ output.words }} of {{ body }}" }
    failed: { to: fail, reason: "{{ output.code }}: {{ output.message }}" }
  say: { done: { to: end } }
"#,
    );
    assert_eq!(routes(&report), ["count.failed -> fail", "count.ok -> say.done -> end"]);
    assert_eq!(faults(&report), [""; 0]);
}

#[test]
fn a_field_without_a_value_is_said_at_the_field() {
    let report = simulated(
        r#"
rondo: 1
name: impossible
roles: { a: { system: A., output: { odd: { code: { type: string, pattern: "^a$", minLength: 2 } }, even: null } } }
graph: { start: { to: a, prompt: Go. }, a: { odd: { to: end }, even: { to: end } } }
"#,
    );
    assert_eq!(codes(&report), [Code::FieldWithoutValue, Code::EdgeNeverTaken], "{:?}", faults(&report));
    assert_eq!(report.diagnostics.first().map(|found| (found.line, found.column)), Some((4, 44)));
    assert!(!report.worst.is_exact, "what depends on the field may be longer");
    assert!(!report.worst.has_weighed_all && !report.has_all_routes);
}

/// What routing can read: counts that start again, where a role was entered from, earlier answers, visits.
const ASKING: &str = r#"
rondo: 1
name: asking
roles:
  lead: { system: L., output: { plan: { size: "s | l" }, ask: {}, stop: {} } }
  maker: { system: M., output: { made: {}, ask: {}, again: {} } }
  tester: { system: T., output: { passed: {}, redo: {}, ask: {} } }
  guide: { system: G., limits: { visits: 1 }, output: { told: {} } }
graph:
  start: { to: lead, prompt: Go. }
  lead:
    plan: { to: maker, prompt: Make., max: 2, on_max: { to: fail, reason: enough } }
    ask: { to: guide, prompt: Tell. }
    stop: { to: end }
  maker:
    made:
      - { when: steps.maker.visits > 3, to: fail, reason: late }
      - { when: '(steps.lead.output.size | default("s")) == "l"', to: lead, prompt: Large. }
      - else: { to: tester, prompt: Test. }
    ask: { to: guide, prompt: Tell. }
    again: { to: maker, prompt: Again., max: 1, per: lead, on_max: { to: end } }
  tester:
    passed: { to: end }
    redo: { to: maker, prompt: Redo., max: 1, on_max: { to: fail, reason: tested } }
    ask: { to: guide, prompt: Tell. }
  guide:
    told: { to: back, prompt: So., max: 1, on_max: { to: fail, reason: told } }
    on_limit: { to: end }
"#;

/// Every route by brute force: every answer after every other, without merging states.
fn by_force(answer_set: &AnswerSet, graph: &Graph, run: &run::Run, route: &str, all: &mut BTreeSet<String>) {
    if let Some(ending) = run.machine.ending() {
        let end = if ending.outcome == rondo_protocol::event::Outcome::Done { "end" } else { "fail" };
        all.insert(format!("{route}{end}"));
        return;
    }
    let (lane, dispatch) = run.visiting(0).unwrap();
    let only = run.broken(&lane).map(|fault| rondo_core::thread::routed(graph, &dispatch.role, &fault).unwrap());
    for (status, answers) in answer_set.of(&dispatch.role) {
        for answer in answers.iter().filter(|_| only.as_ref().is_none_or(|only| only == status)) {
            let (after, next) = run.answered(&lane, answer);
            assert!(next.fault.is_none());
            let made =
                next.steps.iter().map(|step| format!("{}.{} -> ", step.lane.role_in_lane(&step.role), step.status));
            by_force(answer_set, graph, &after, &format!("{route}{}", made.collect::<String>()), all);
        }
    }
}

/// Law: states that the walk merges continue alike, so no route is lost or invented.
fn routes_are_those_by_force(text: &str) -> Report {
    let checked = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()).unwrap();
    let nodes = rondo_hooks::registry().nodes(&checked.workflow, &checked.policy, &[]);
    let graph = Arc::new(Graph::new(&checked.workflow, &checked.policy, nodes).unwrap());
    let answer_set = AnswerSet::new(&checked.workflow, &graph, &Reads::of(&graph)).unwrap();
    let mut all = BTreeSet::new();
    let (run, _) = run::Run::new(&Arc::clone(&graph), &Arc::new(Value::empty_object()));
    by_force(&answer_set, &graph, &run, "", &mut all);
    let report = simulated(text);
    assert!(report.has_all_routes, "{:?}", faults(&report));
    let found: BTreeSet<String> = routes(&report).into_iter().collect();
    assert_eq!(found.symmetric_difference(&all).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(all.len() > 10, "{}", all.len());
    let longest = all.iter().map(|route| route.matches(" -> ").count()).max();
    assert_eq!(u64::try_from(longest.unwrap()), Ok(report.worst.steps));
    report
}

#[test]
fn the_routes_are_those_of_every_answer_after_every_other() {
    routes_are_those_by_force(ASKING);
}

/// Lanes with their own edges, a nested fan-out, a bound in a lane, a failing lane, and edges that read answers from
/// lanes.
const FANNED: &str = r#"
rondo: 1
name: fanned
roles:
  lead: { system: L., output: { plan: {}, stop: {} } }
  maker: { system: M., output: { made: {}, ask: {}, broken: {} } }
  helper: { system: H., output: { told: { sure: boolean } } }
  judge: { system: J., output: { good: {}, again: {} } }
graph:
  start: { to: lead, prompt: Go. }
  lead:
    plan:
      to: [ maker, { to: helper, prompt: Help. } ]
      prompt: Make.
      join: { to: judge, prompt: "{% for b in branches %}{{ b.part }}{% endfor %}" }
    stop: { to: end }
    on_error: { to: fail, reason: "{{ output.message }}" }
  maker:
    made: { to: judge, prompt: "made" }
    ask: { to: maker, prompt: Tell., max: 1, on_max: { to: helper, prompt: Tell. } }
    broken: { to: fail, reason: broken }
  helper:
    told: { to: judge }
  judge:
    good:
      - { when: steps.helper.output.sure | default(false), to: end }
      - else: { to: fail, reason: unsure }
    again: { to: end }
"#;

#[test]
fn the_routes_through_lanes_are_those_of_every_answer_after_every_other() {
    let report = routes_are_those_by_force(FANNED);
    assert_eq!(faults(&report), [""; 0]);
    assert_eq!(report.coverage, Coverage { edges: 12, never: Vec::new(), is_whole: true });
    let found = routes(&report);
    let has = |route: &str| assert!(found.iter().any(|known| known == route), "{found:#?}");
    has("lead.plan -> maker[0].made -> helper[1].told -> judge.again -> end");
    has("lead.plan -> maker[0].ask -> maker[0].ask -> helper[0].told -> helper[1].told -> judge.good -> end");
    has("lead.plan -> maker[0].broken -> lead.error -> fail");
}

#[test]
fn lanes_that_a_join_does_not_wait_for_are_walked_too_and_figures_are_said_to_be_the_least() {
    let any = FANNED.replace("join: { to: judge,", "join: { to: judge, need: any,");
    let report = simulated(&any);
    assert_eq!(faults(&report), [""; 0]);
    assert_eq!(report.coverage.never, [""; 0]);
    assert!(!report.worst.is_exact && !report.has_all_routes);
    let found = routes(&report);
    let has = |route: &str| assert!(found.iter().any(|known| known == route), "{found:#?}");
    has("lead.plan -> maker[0].made -> judge.again -> end");
    has("lead.plan -> helper[1].told -> judge.again -> end");
}

/// A lane sees the trunk's answers and its own, and nothing of its sibling lanes.
#[test]
fn lanes_are_weighed_as_they_would_be_told() {
    let text = |beside: &str| {
        format!(
            r"
rondo: 1
name: weighed
roles:
  lead: {{ system: L., output: {{ plan: {{}} }} }}
  a: {{ system: A., context: bodies, output: {{ said: {{}} }} }}
  b: {{ system: B., context: bodies, output: {{ said: {{}} }} }}
graph:
  start: {{ to: lead, prompt: Go. }}
  lead:
    plan: {{ to: [{beside}, b], prompt: Say., join: {{ to: lead_again, prompt: So. }} }}
  a: {{ said: {{ to: lead_again }} }}
  b: {{ said: {{ to: lead_again }} }}
  lead_again: {{ done: {{ to: end }} }}
"
        )
        .replace("roles:\n", "roles:\n  lead_again: { system: L., context: none }\n")
    };
    let beside = simulated(&text("a"));
    let report = simulated(&text("a, b"));
    let cost = |report: &Report| *report.worst.roles.get(&RoleName::new("b").unwrap()).unwrap();
    assert_eq!((cost(&beside).visits, cost(&report).visits), (1, 2));
    assert_eq!(cost(&beside).largest_request, cost(&report).largest_request, "no lane is told of another");
}

#[test]
fn an_each_over_what_may_be_no_list_is_found() {
    let report = simulated(
        r#"
rondo: 1
name: each
roles:
  a: { system: A., output: { said: { all: { anyOf: [ { type: array, items: { type: string } }, { type: string } ] } } } }
  b: { system: B. }
  c: { system: C. }
graph:
  start: { to: a, prompt: Go. }
  a: { said: { each: output.all, to: b, prompt: "{{ item }}", join: c } }
  b: { done: { to: c } }
  c: { done: { to: end } }
"#,
    );
    assert_eq!(codes(&report), [Code::RouteFails], "{:?}", faults(&report));
    assert!(faults(&report).join("").contains("not a list"), "{:?}", faults(&report));
}

/// Eight roles, forty bounded edges: too many states to explore.
fn endless() -> String {
    use std::fmt::Write as _;
    let mut text = "rondo: 1\nname: endless\nroles:\n".to_owned();
    for role in 0..8 {
        let _ = writeln!(text, "  r{role}: {{ system: R., output: {{ s0: null, s1: null, s2: null }} }}");
    }
    text.push_str("graph:\n  start: { to: r0, prompt: Go. }\n");
    for role in 0..8 {
        let _ = writeln!(text, "  r{role}:");
        for status in 0..3 {
            let to = (role + status + 1) % 8;
            let _ = writeln!(text, "    s{status}: {{ to: r{to}, prompt: On., max: 3, on_max: {{ to: end }} }}");
        }
    }
    text
}

#[test]
fn a_space_that_is_too_large_is_cut_and_said_to_be() {
    let report = with(&endless(), Vec::new(), 5);
    assert!(codes(&report).contains(&Code::WalkCut), "{:?}", faults(&report));
    assert!(!codes(&report).contains(&Code::EdgeNeverTaken), "what was not looked at says nothing");
    assert!(!report.worst.is_exact && !report.worst.has_weighed_all && !report.has_all_routes);
    assert!(!report.coverage.is_whole);
    assert!(!report.routes.is_empty(), "a walk in depth finds ends");
}

/// Roles in a row, each with two statuses that both lead to the next.
fn ladder(roles: usize) -> String {
    use std::fmt::Write as _;
    let mut text = "rondo: 1\nname: ladder\nlimits: { steps: 100000 }\nroles:\n".to_owned();
    for role in 0..roles {
        let _ = writeln!(text, "  r{role}: {{ system: R., output: {{ x: null, y: null }} }}");
    }
    text.push_str("graph:\n  start: { to: r0, prompt: Go. }\n");
    for role in 1..roles {
        let to = format!("{{ to: r{role}, prompt: Go. }}");
        let _ = writeln!(text, "  r{}: {{ x: {to}, y: {to} }}", role - 1);
    }
    let _ = writeln!(text, "  r{}: {{ x: {{ to: end }}, y: {{ to: end }} }}", roles - 1);
    text
}

#[test]
fn of_many_routes_of_one_length_as_many_are_found_as_are_wanted() {
    let report = with(&ladder(18), Vec::new(), 20);
    assert_eq!(report.routes.len(), 20);
    assert!(report.routes.iter().all(|route| route.steps.len() == 18 && route.costs.is_some()));
    assert_eq!((report.ways, report.worst.steps, report.worst.is_exact), (Some(1 << 18), 18, true));
    assert_eq!(faults(&report), [""; 0]);
}

#[test]
fn ways_beyond_counting_and_routes_beyond_weighing_are_said_to_be() {
    let report = with(&ladder(120), Vec::new(), 1_000);
    assert_eq!((report.ways, report.worst.steps, report.worst.is_exact), (None, 120, true));
    assert!(report.routes.len() > 500 && report.worst.weighed < report.routes.len());
    assert!(!report.worst.has_weighed_all);
    assert_eq!(codes(&report), [Code::WalkCut], "{:?}", faults(&report));
}

const DIVIDES: &str = r#"
rondo: 1
name: divides
input: { n: integer }
roles: { a: { system: A. } }
graph: { start: { to: a, prompt: "{{ 10 / input.n }}" }, a: { done: { to: end } } }
"#;

#[test]
fn every_input_that_is_given_is_walked_with() {
    let given = |ns: std::ops::Range<i128>| ns.map(|n| Value::from_iter([("n", Value::Int(n))])).collect::<Vec<_>>();
    let last_fails: Vec<Value> = given(1..40).into_iter().chain(given(0..1)).collect();
    let report = with(DIVIDES, last_fails, 10);
    assert_eq!(codes(&report), [Code::RouteFails], "{:?}", faults(&report));
    let too_many = with(DIVIDES, given(1..1_002), 10);
    assert_eq!(codes(&too_many), [Code::WalkCut], "{:?}", faults(&too_many));
    assert!(!too_many.worst.is_exact);
}

#[test]
fn generated_inputs_that_are_left_out_are_said_where_a_template_reads_the_input() {
    let inputs = "{ a: integer, b: integer, c: integer, d: integer, n: integer }";
    let told = with(&DIVIDES.replace("{ n: integer }", inputs), Vec::new(), 10);
    assert!(codes(&told).contains(&Code::WalkCut), "{:?}", faults(&told));
    let untold = with(&DIVIDES.replace("{ n: integer }", inputs).replace("input.n", "2"), Vec::new(), 10);
    assert_eq!(faults(&untold), [""; 0]);
}

#[test]
fn what_a_template_asks_for_is_tried() {
    let report = simulated(
        r#"
rondo: 1
name: asks
roles: { a: { system: A., output: { done: { kind: string } } }, b: { system: B. } }
graph:
  start: { to: a, prompt: Go. }
  a: { done: { to: b, prompt: "{% if output.kind == 'bug' %}{{ 10 / (steps.a.visits - 1) }}{% endif %}" } }
  b: { done: { to: end } }
"#,
    );
    assert_eq!(codes(&report), [Code::RouteFails], "{:?}", faults(&report));
}

/// Law: the answers' memory is bounded for any file, and omissions are reported.
#[test]
fn answers_of_many_roles_share_what_they_may_hold() {
    use std::fmt::Write as _;
    let fields: Vec<String> = (0..9).map(|field| format!("f{field}: string")).collect();
    let mut text = "rondo: 1\nname: wide\nmodels: { default: { max_output_tokens: 20000 } }\nroles:\n".to_owned();
    for role in 0..600 {
        let _ = writeln!(text, "  r{role}: {{ system: R., output: {{ done: {{ {} }} }} }}", fields.join(", "));
    }
    text.push_str("graph:\n  start: { to: r0, prompt: Go. }\n");
    for role in 0..600 {
        let to = if role == 599 { "{ to: end }".to_owned() } else { format!("{{ to: r{}, prompt: Go. }}", role + 1) };
        let _ = writeln!(text, "  r{role}: {{ done: {to} }}");
    }
    let checked = rondo_protocol::workflow::read("workflow.yaml", &text, &BTreeMap::new()).unwrap();
    let nodes = rondo_hooks::registry().nodes(&checked.workflow, &checked.policy, &[]);
    let graph = Arc::new(Graph::new(&checked.workflow, &checked.policy, nodes).unwrap());
    let answer_set = AnswerSet::new(&checked.workflow, &graph, &Reads::of(&graph)).unwrap();
    let answers = || answer_set.roles.values().flatten().flat_map(|(_, answers)| answers);
    let bodies: BTreeMap<*const u8, usize> =
        answers().map(|answer| (answer.body.as_ptr(), answer.body.len())).collect();
    assert!(bodies.values().sum::<usize>() < 40 << 20, "{} bodies", bodies.len());
    assert!(answer_set.roles.values().flatten().all(|(_, answers)| answers.len() >= 2));
    assert_eq!(answer_set.cut.len(), 600, "none has room for the longest text");
}

#[test]
fn the_same_workflow_gives_the_same_report() {
    assert_eq!(simulated(LOOP), simulated(LOOP));
}

/// Two lists of different lengths diverge only after the lanes that both have: their routes are not mixed up.
#[test]
fn lanes_that_are_still_to_open_are_told_apart() {
    let report = simulated(
        r#"
rondo: 1
name: open
roles:
  a: { system: A., output: { said: { all: { type: array, items: { type: string }, minItems: 1, maxItems: 3 } } } }
  b: { system: B. }
  c: { system: C. }
graph:
  start: { to: a, prompt: Go. }
  a: { said: { each: output.all, to: b, parallel: 1, prompt: "{{ item }}", join: c } }
  b: { done: { to: c } }
  c: { done: { to: end } }
"#,
    );
    assert_eq!(faults(&report), [""; 0]);
    assert!(report.worst.has_weighed_all && report.has_all_routes, "{report:#?}");
    assert_eq!(report.worst.steps, 5);
}

/// A child that gives its counter's number, and its own input where it stops early.
const CHILD: &str = r#"
rondo: 1
name: counting
input: { least: integer }
roles:
  counter: { system: Count., output: { counted: { number: { type: integer, minimum: 1 } }, none: {} } }
graph:
  start: { to: counter, prompt: Count. }
  counter:
    counted: { to: end, result: { number: "{{ output.number }}", least: "{{ input.least }}", said: "{{ body }}" } }
    none: { to: fail, reason: nothing }
"#;

const PARENT: &str = r#"
rondo: 1
name: parent
roles:
  child: { kind: workflow, workflow: counting.yaml, input: { least: 3 } }
graph:
  start: { to: child, prompt: Go. }
  child:
    done: { to: end, say: "{{ 10 / output.number + output.least }}: {{ output.said | upper }}" }
    failed: { to: fail, reason: "{{ output.reason }}" }
"#;

#[test]
fn the_result_of_a_child_holds_what_the_child_declares() {
    let of = |child: &str| {
        let files: BTreeMap<String, String> = [("counting.yaml".to_owned(), child.to_owned())].into();
        let checked = rondo_protocol::workflow::read("workflow.yaml", PARENT, &files).unwrap();
        let nodes = rondo_hooks::registry().nodes(&checked.workflow, &checked.policy, &[]);
        let graph = Arc::new(Graph::new(&checked.workflow, &checked.policy, nodes).unwrap());
        let subject =
            Subject { checked: &checked, graph: &graph, inputs: Vec::new(), tools: &|_| BTreeMap::new(), routes: 10 };
        simulate(&subject, &mut |_| {}).unwrap()
    };
    assert_eq!(faults(&of(CHILD)), Vec::<String>::new());
    // What the child declares may still fail, and what it computes may be anything.
    for (old, new) in [("minimum: 1", "minimum: 0"), ("{{ output.number }}", "{{ output.number + 0 }}")] {
        let child = CHILD.replacen(old, new, 1);
        assert_ne!(child, CHILD);
        assert_ne!(faults(&of(&child)), Vec::<String>::new(), "{new}");
    }
}

/// A rule answers in the same breath as the visit before it: what it decides leads on, not the edge to it.
#[test]
fn a_rule_in_a_loop_decides_anew_at_each_round() {
    let report = simulated(
        r#"
rondo: 1
name: checked
roles:
  writer: { system: You write. }
  length: { kind: rule, output: { long: { when: "body | length > 100" }, short: null } }
  editor: { system: You edit., output: { approved: null, rejected: null } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { done: { to: length } }
  length:
    long: { to: writer, prompt: shorter, max: 1, on_max: { to: fail, reason: too long } }
    short: { to: editor, prompt: check }
  editor:
    approved: { to: end }
    rejected: { to: writer, prompt: again, max: 1, on_max: { to: fail, reason: rejected } }
"#,
    );
    let (long, short) = ("writer.done -> length.long", "writer.done -> length.short");
    let found: std::collections::BTreeSet<String> = routes(&report).into_iter().collect();
    let wanted = [
        format!("{short} -> editor.approved -> end"),
        format!("{long} -> {short} -> editor.approved -> end"),
        format!("{long} -> {long} -> fail"),
        format!("{long} -> {short} -> editor.rejected -> {long} -> fail"),
        format!("{long} -> {short} -> editor.rejected -> {short} -> editor.approved -> end"),
        format!("{long} -> {short} -> editor.rejected -> {short} -> editor.rejected -> fail"),
        format!("{short} -> editor.rejected -> {short} -> editor.approved -> end"),
        format!("{short} -> editor.rejected -> {short} -> editor.rejected -> fail"),
        format!("{short} -> editor.rejected -> {long} -> {long} -> fail"),
        format!("{short} -> editor.rejected -> {long} -> {short} -> editor.approved -> end"),
        format!("{short} -> editor.rejected -> {long} -> {short} -> editor.rejected -> fail"),
    ];
    assert_eq!(found, wanted.into());
    assert!(report.has_all_routes && report.worst.is_exact);
    assert_eq!((report.ways, report.worst.steps), (Some(11), 8));
}

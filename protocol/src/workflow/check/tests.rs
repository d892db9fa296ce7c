//! Tests of the checker as tables: a file, and the codes of its faults.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::canonical;
use crate::diagnostic::Code;
use crate::id::{RoleName, Status};
use crate::source::Source;
use crate::workflow::source_map::SourceMap;
use crate::workflow::{Edge, Limits, Outgoing, Policy, Role, Target, Workflow, read};

const HEAD: &str = "rondo: 1\nname: test\n";

/// Roles that most files here share; a graph follows.
const ROLES: &str = "
input:
  topic: string
  words: { type: integer, default: 300 }
  \"tone?\": string
  tags: \"string[]\"
  deep: { type: boolean, default: false }
roles:
  writer: { output: { drafted: { title: string, \"note?\": string, score: number, \"meta?\": { by: string } } } }
  editor:
    output:
      approved: { summary: string }
      revise: { comments: \"string[]\", summary: string }
";

fn said(text: &str) -> Vec<String> {
    let files: BTreeMap<String, String> = BTreeMap::new();
    let found = match read("w.yaml", text, &files) {
        Ok(checked) => checked.warnings,
        Err(faults) => faults,
    };
    found.into_iter().map(|fault| fault.to_string()).collect()
}

/// Asserts the codes of the diagnostics of each file, and returns all diagnostics for a snapshot.
fn table(cases: &[(&str, &str, &str)]) -> String {
    let mut all = String::new();
    let mut wrong = String::new();
    for (name, expected, text) in cases {
        let said = said(&format!("{HEAD}{text}"));
        let codes: Vec<&str> = said.iter().filter_map(|line| line.split(": ").nth(1)).collect();
        if codes.join(" ") != *expected {
            writeln!(wrong, "{name}: expected [{expected}], found {said:#?}").unwrap();
        }
        writeln!(all, "{name}").unwrap();
        for line in said {
            writeln!(all, "    {line}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    all
}

fn graph(graph: &str) -> String {
    format!("{HEAD}{ROLES}graph:\n{graph}")
}

/// A cycle of writer and editor with a prompt or another text inserted at a mark.
fn round(start: &str, review: &str, again: &str, result: &str) -> String {
    let result = if result.is_empty() { String::new() } else { format!("result: {result}\n") };
    graph(&format!(
        "  start: {{ to: writer, prompt: {start} }}
  writer:
    drafted: {{ to: editor, prompt: {review} }}
  editor:
    revise: {{ to: writer, prompt: {again}, max: 3, on_max: {{ to: fail, reason: enough }} }}
    approved: {{ to: end }}
{result}"
    ))
}

#[test]
fn names_in_single_braces_are_warned_of_where_they_could_be_printed() {
    let warned = |prompt: &str| {
        let text = round("\"{input.topic}\"", &format!("'{prompt}'"), "x", "{ a: \"{body}\" }");
        let faults = said(&text).into_iter().filter(|line| line.contains("RN0419"));
        faults.map(|line| line.split('`').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (prompt, found) in [
        ("{body}", "{body}"),
        ("{ output.title }", "{output.title}"),
        ("a {steps.writer.body} b", "{steps.writer.body}"),
        ("{% for tag in input.tags %}{tag}{% endfor %}", "{tag}"),
        ("{% if input.deep %}\n  {status}\n{% endif %}", "{status}"),
        // An optional value is in scope, though it may be absent.
        ("{output.note}", "{output.note}"),
    ] {
        assert_eq!(warned(prompt), ["{input.topic}", found, "{body}"], "{prompt}");
    }
    for prompt in [
        "{{ body }}",
        "{title}",
        "{output.subtitle}",
        "{% for tag in input.tags %}{{ tag }}{% endfor %}{tag}",
        "{ body",
        "{\"body\": 1}",
        "{body, title}",
        "{}",
        "{{ \"{body}\" }}",
        "{loop.index}",
    ] {
        assert_eq!(warned(prompt), ["{input.topic}", "{body}"], "{prompt}");
    }
    let place = said(&round("x", "\"{{ body }}\\n{body}\"", "x", "")).remove(0);
    assert!(place.starts_with("w.yaml:19:49: RN0419: "), "{place}");
}

#[test]
fn the_graph_must_hold_together() {
    let all = table(&[
        ("good", "", "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } } }"),
        ("no start", "RN0505", "roles: { a: {} }\ngraph: { a: { done: { to: end } } }"),
        (
            "missing edge",
            "RN0501",
            "roles: { a: { output: { x: , y: } } }\ngraph: { start: { to: a, prompt: x }, a: { x: { to: end } } }",
        ),
        (
            "unknown status",
            "RN0502",
            "roles: { a: { output: { good: } } }\ngraph: { start: { to: a, prompt: x }, a: { goood: { to: end } } }",
        ),
        (
            "unknown target",
            "RN0503",
            "roles: { alpha: {} }\ngraph: { start: { to: alhpa, prompt: x }, alpha: { done: { to: end } } }",
        ),
        (
            "unknown entry",
            "RN0503",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } }, bee: { done: { to: end } } }",
        ),
        (
            "role without entry",
            "RN0506",
            "roles: { a: {}, b: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } } }",
        ),
        (
            "unreachable",
            "RN0504",
            "roles: { a: {}, b: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } }, b: { done: { to: end } } }",
        ),
        (
            "dead end",
            "RN0509",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: a, prompt: y } } }",
        ),
        ("missing prompt", "RN0518", "roles: { a: {} }\ngraph: { start: { to: a }, a: { done: { to: end } } }"),
        (
            "prompt at the end",
            "RN0511",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end, prompt: bye } } }",
        ),
        (
            "reason at the end",
            "RN0511",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end, reason: r } } }",
        ),
        (
            "result on the way",
            "RN0511",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x, result: 1 }, a: { done: { to: end } } }",
        ),
        (
            "unknown model",
            "RN0512",
            "models: { large: {} }\nroles: { a: { model: lagre } }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } } }",
        ),
        (
            "unknown fallback",
            "RN0512",
            "roles: { a: { fallback: [big] } }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } } }",
        ),
        (
            "unknown context",
            "RN0503",
            "roles: { a: { context: { from: [c] } } }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end } } }",
        ),
        (
            "compacting role",
            "RN0517",
            "roles: { a: { compact: { at: 100, keep: 1, by: b } }, b: { output: { x: , y: } } }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: b, prompt: z } }, b: { x: { to: end }, y: { to: end } } }",
        ),
        (
            "max alone",
            "RN0508",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end, max: 3 } } }",
        ),
        (
            "on_max alone",
            "RN0508",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end, on_max: { to: fail } } } }",
        ),
        (
            "per alone",
            "RN0508",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: end, per: a } } }",
        ),
        (
            "back from start's role",
            "RN0510 RN0515",
            "roles: { a: {} }\ngraph: { start: { to: a, prompt: x }, a: { done: { to: back } } }",
        ),
    ]);
    insta::assert_snapshot!(all);
}

#[test]
fn cycles_are_bounded_by_max_and_by_roles_outside_them() {
    let all = table(&[
        (
            "unbounded",
            "RN0509",
            "roles: { a: { output: { x: , y: } }, b: {} }\ngraph: { start: { to: a, prompt: p }, a: { x: { to: b, prompt: p }, y: { to: end } }, b: { done: { to: a, prompt: p } } }",
        ),
        (
            "bounded",
            "",
            "roles: { a: { output: { x: , y: } }, b: {} }\ngraph: { start: { to: a, prompt: p }, a: { x: { to: b, prompt: p, max: 2, on_max: { to: end } }, y: { to: end } }, b: { done: { to: a, prompt: p } } }",
        ),
        (
            "a bound whose on_max goes round again",
            "RN0509",
            "roles: { a: { output: { x: , y: } } }\ngraph: { start: { to: a, prompt: p }, a: { x: { to: a, prompt: p, max: 2, on_max: { to: a, prompt: p } }, y: { to: end } } }",
        ),
        (
            "per a role of the same cycle",
            "RN0509",
            "roles: { a: { output: { x: , y: } }, b: {} }\ngraph: { start: { to: a, prompt: p }, a: { x: { to: b, prompt: p, max: 2, per: b, on_max: { to: end } }, y: { to: end } }, b: { done: { to: a, prompt: p } } }",
        ),
        (
            "per an outer role whose cycle is bounded",
            "",
            "roles: { o: { output: { x: , y: } }, a: { output: { x: , y: } } }\ngraph: { start: { to: o, prompt: p }, o: { x: { to: a, prompt: p, max: 3, on_max: { to: end } }, y: { to: end } }, a: { x: { to: a, prompt: p, max: 2, per: o, on_max: { to: o, prompt: p } }, y: { to: o, prompt: p } } }",
        ),
        (
            "per an outer role whose cycle is not",
            "RN0509",
            "roles: { o: { output: { x: , y: } }, a: { output: { x: , y: } } }\ngraph: { start: { to: o, prompt: p }, o: { x: { to: a, prompt: p }, y: { to: end } }, a: { x: { to: a, prompt: p, max: 2, per: o, on_max: { to: o, prompt: p } }, y: { to: o, prompt: p } } }",
        ),
        (
            "three levels, each per the next",
            "",
            "roles: { o: { output: { x: , y: } }, m: { output: { x: , y: } }, a: { output: { x: , y: } } }\ngraph: { start: { to: o, prompt: p }, o: { x: { to: m, prompt: p, max: 3, on_max: { to: end } }, y: { to: end } }, m: { x: { to: a, prompt: p, max: 3, per: o, on_max: { to: o, prompt: p } }, y: { to: o, prompt: p } }, a: { x: { to: a, prompt: p, max: 2, per: m, on_max: { to: m, prompt: p } }, y: { to: m, prompt: p } } }",
        ),
        (
            "back",
            "RN0509",
            "roles: { a: { output: { x: , y: } }, h: {} }\ngraph: { start: { to: a, prompt: p }, a: { x: { to: h, prompt: p }, y: { to: end } }, h: { done: { to: back, prompt: p } } }",
        ),
    ]);
    insta::assert_snapshot!(all);
}

/// Nested fan-outs: `a1` opens lanes of `a2`, and so on, and each has its own join.
fn nest(levels: usize) -> String {
    use std::fmt::Write as _;
    let mut text = format!("roles: {{ z: {{}}, a{levels}: {{}}");
    for n in 1..=levels {
        write!(text, ", a{}: {{}}, j{n}: {{}}", n - 1).unwrap();
    }
    text.push_str(" }\ngraph:\n  start: { to: a0, prompt: p }\n  z: { done: { to: end } }\n");
    for n in 0..levels {
        let out = if n == 0 { "z".to_owned() } else { format!("j{n}") };
        writeln!(text, "  a{n}: {{ done: {{ to: [a{0}, a{0}], prompt: p, join: j{0} }} }}", n + 1).unwrap();
        writeln!(text, "  j{}: {{ done: {{ to: {out}, prompt: p }} }}", n + 1).unwrap();
    }
    write!(text, "  a{levels}: {{ done: {{ to: j{levels} }} }}").unwrap();
    text
}

#[test]
fn fan_outs_are_bounded_and_lanes_do_not_leave_their_join() {
    let (eight, nine) = (nest(8), nest(9));
    let wide = |lanes: usize| {
        let to = vec!["a"; lanes].join(", ");
        format!(
            "roles: {{ a: {{}}, c: {{}} }}\ngraph: {{ start: {{ to: [{to}], prompt: p, join: c }}, \
             a: {{ done: {{ to: c }} }}, c: {{ done: {{ to: end }} }} }}"
        )
    };
    let (most, too_many) = (wide(10_000), wide(10_001));
    let nested = |rest: &str| {
        format!(
            "roles: {{ a: {{}}, b: {{}}, x: {{ output: {{ in: , out: }} }}, y: {{}}, z: {{}}, c: {{}} }}\ngraph:\n  \
             start: {{ to: [a, b], prompt: p, join: c }}\n  b: {{ done: {{ to: c }} }}\n  \
             y: {{ done: {{ to: z }} }}\n  c: {{ done: {{ to: end }} }}\n{rest}"
        )
    };
    let inner = nested(
        "  a: { done: { to: [x, y], prompt: p, join: z } }\n  x: { in: { to: z }, out: { to: fail, reason: no } }\n  z: { done: { to: c } }",
    );
    let leaves = nested(
        "  a: { done: { to: [x, y], prompt: p, join: z } }\n  x: { in: { to: z }, out: { to: c } }\n  z: { done: { to: c } }",
    );
    let shares = nested(
        "  a: { done: { to: [x, y], prompt: p, join: c } }\n  x: { in: { to: c }, out: { to: c } }\n  z: { done: { to: c } }",
    )
    .replace("y: { done: { to: z } }", "y: { done: { to: z, prompt: p } }");
    let opens_itself = "roles: { a: { output: { again: , enough: } }, b: {}, c: {} }\ngraph:\n  \
        start: { to: a, prompt: p }\n  a:\n    again: { to: [a, b], prompt: p, join: c, max: 2, on_max: { to: fail, reason: no } }\n    \
        enough: { to: c, prompt: p }\n  b: { done: { to: c } }\n  c: { done: { to: end } }";
    let each = |need: &str| {
        format!(
            "input: {{ l: \"string[]\" }}\nroles: {{ a: {{}}, c: {{}} }}\ngraph: {{ start: {{ to: a, each: input.l, prompt: p, \
             join: {{ to: c, need: {need} }} }}, a: {{ done: {{ to: c }} }}, c: {{ done: {{ to: end }} }} }}"
        )
    };
    let (each_most, each_many) = (each("10000"), each("10001"));
    let rows: Vec<(&str, &str, &str)> = vec![
        ("eight levels", "", &eight),
        ("nine levels", "RN0513", &nine),
        ("10,000 branches", "", &most),
        ("10,001 branches", "RN0513", &too_many),
        ("each: as many as there may be", "", &each_most),
        ("each: more than there may be", "RN0513", &each_many),
        ("a fan-out in a lane", "", &inner),
        ("an inner lane leads to the outer join", "RN0514", &leaves),
        ("an inner fan-out meets at the join of the lane it is in", "RN0514", &shares),
        ("a fan-out opens itself in its own lanes", "RN0513", opens_itself),
    ];
    insta::assert_snapshot!(table(&rows));
}

#[test]
fn branches_are_what_a_join_is_entered_with() {
    let workflow = |prompt: &str, result: &str, more: &str| {
        format!(
            "roles: {{ a: {{ output: {{ ok: {{ x: integer }} }} }}, b: {{ output: {{ ok: {{ x: integer }} }} }}, c: {{ output: {{ ok: , again: }} }}, d: {{}} }}\ngraph:\n  \
             start: {{ to: [a, b], prompt: p, join: {{ to: c, prompt: \"{prompt}\" }} }}\n  a: {{ ok: {{ to: c }} }}\n  b: {{ ok: {{ to: c, prompt: \"{{{{ output.x }}}} {{{{ index }}}}\" }} }}\n  \
             c: {{ ok: {{ to: end, result: {{ all: \"{result}\" }} }}, again: {{ to: d, prompt: p, max: 1, on_max: {{ to: fail, reason: no }} }} }}\n  d: {more}"
        )
    };
    let each = "{% for b in branches %}{{ loop.index }} {{ b.role }}[{{ b.index }}] {{ b.part }} {{ b.output.x }} {{ b.body }}{% endfor %}";
    let first =
        "{{ branches[0].output.x }} {{ branches[1].part }} {{ (branches | first).body }} {{ branches | length }}";
    let filtered = "{{ branches | selectattr('status', '==', 'ok') | map(attribute='part') | join(', ') }}";
    let list = "{{ branches | map(attribute='output') }}";
    let ends = "{ done: { to: end } }";
    let rows: Vec<(&str, &str, String)> = vec![
        ("a loop", "", workflow(each, list, ends)),
        ("an index", "", workflow(first, list, ends)),
        ("filters", "", workflow(filtered, list, ends)),
        (
            "an index behind need: any",
            "RN0414",
            workflow("{{ branches[0].part }} {{ branches[1].part }}", list, ends)
                .replace("join: { to: c,", "join: { to: c, need: any,"),
        ),
        (
            "an index where lanes may be left out",
            "RN0414",
            workflow("{{ branches[0].part }}", list, ends).replace("join: { to: c,", "join: { to: c, failed: skip,"),
        ),
        ("an error may be absent", "RN0414", workflow("{{ branches[0].error.code }}", list, ends)),
        (
            "an error is asked for",
            "",
            workflow("{% for b in branches %}{% if b.error %}{{ b.error.code }}{% endif %}{% endfor %}", list, ends),
        ),
        ("no such member", "RN0411", workflow("{{ branches[0].text }}", list, ends)),
        (
            "not behind the join role",
            "RN0410",
            workflow(each, list, "{ done: { to: end, result: { n: \"{{ branches | length }}\" } } }"),
        ),
        (
            "not where the role is entered by an edge as well",
            "RN0410",
            workflow(each, list, "{ done: { to: c, prompt: p } }"),
        ),
    ];
    let rows: Vec<(&str, &str, &str)> =
        rows.iter().map(|(name, expected, text)| (*name, *expected, text.as_str())).collect();
    insta::assert_snapshot!(table(&rows));
}

#[test]
fn an_element_of_branches_has_the_fields_that_its_lane_can_end_with() {
    let workflow = |lanes: &str, prompt: &str, join: &str, more: &str| {
        format!(
            "{HEAD}input: {{ files: [{{ path: string }}] }}\nroles:\n  \
             a: {{ output: {{ good: {{ note: string, \"hint?\": string }}, poor: {{ why: string, hint: string }}, lost: {{ cause: string }} }} }}\n  \
             b: {{ output: {{ good: {{ note: integer, list: \"string[]\" }} }} }}\n  \
             r: {{ kind: rule, output: {{ done: {{ twice: \"1 + 1\" }} }} }}\n  c: {{ output: {{ done: {{ total: integer }} }} }}\ngraph:\n  \
             start: {{ {lanes}, prompt: p, join: {{ to: c, {join} prompt: \"{prompt}\" }} }}\n  \
             a: {{ good: {{ to: c }}, poor: {{ to: r }}, lost: {{ to: fail, reason: lost }}{more} }}\n  b: {{ good: {{ to: c }} }}\n  \
             r: {{ done: {{ to: c }} }}\n  c: {{ done: {{ to: end, result: {{ all: \"{prompt}\" }} }} }}\n"
        )
    };
    let of = |inner: &str| format!("{{% for x in branches %}}{inner}{{% endfor %}}");
    let mut all = String::new();
    for (join, more, inner, expected) in [
        // What any of the last steps declares may be used.
        ("", "", "{{ x.output.note }} {{ x.output.twice }} {{ x.output.list | join }}", ""),
        ("", "", "{{ x.output.zzz }}", "RN0411"),
        ("", "", "{{ x.output.nots }}", "RN0411"),
        ("", "", "{{ x.output.zzz | default('-') }}", "RN0411"),
        // A step before the last is no part of it, nor is one whose lane fails.
        ("", "", "{{ x.output.why }}", "RN0411"),
        ("", "", "{{ x.output.cause }}", "RN0411"),
        ("failed: collect,", "", "{{ x.output.cause }} {{ x.output.code }}", ""),
        ("failed: skip,", "", "{{ x.output.cause }}", "RN0411"),
        ("", "", "{{ x.output.code }}", "RN0411"),
        ("", ", on_error: { to: c }", "{{ x.output.code }} {{ x.output.message }}", ""),
        ("", "", "{% if x.status == 'good' %}{{ x.output.note }}{% else %}{{ x.output.twice }}{% endif %}", ""),
        ("", "", "{% if x.status == 'nope' %}-{% endif %}", "RN0418"),
        ("", "", "{% if x.status == 'poor' %}-{% endif %}", "RN0418"),
        ("failed: collect,", "", "{% if x.status in ['lost', 'error', 'limit', 'timeout'] %}-{% endif %}", ""),
        ("", "", "{% if x.status == 'error' %}-{% endif %}", "RN0418"),
        ("", "", "{% if x.role in ['a', 'b', 'r'] %}-{% endif %}", ""),
        ("", "", "{% if x.role == 'c' %}-{% endif %}", "RN0418"),
        ("", "", "{% if x.error %}{{ x.error.code }}: {{ x.error.message }}{% endif %}", ""),
        ("", "", "{% if x.error %}{{ x.error.reason }}{% endif %}", "RN0411"),
        ("", "", "{{ x.output.list }}", "RN0415"),
        ("", "", "{{ x.output }}", "RN0415"),
        ("", "", "{{ x.output.hint }}", "RN0414"),
        ("", "", "{% if x.output.hint %}{{ x.output.hint }}{% endif %}", ""),
        ("", "", "{{ x.item.path }} {{ x.index + 1 }}", ""),
    ] {
        let text = workflow("to: [a, b]", &of(inner), join, more);
        // The fault stands in the prompt of the join and on the edge of its role.
        let codes = if expected.is_empty() { String::new() } else { format!("{expected} {expected}") };
        case(&mut all, &format!("{join}{more} {inner}"), &codes, &text);
    }
    for (inner, expected) in [("{{ x.item.path }}", ""), ("{{ x.item.size }}", "RN0411 RN0411")] {
        let text = workflow("to: a, each: input.files, as: file", &of(inner), "", "");
        let text = text.lines().filter(|line| !line.starts_with("  b:")).collect::<Vec<_>>().join("\n");
        case(&mut all, inner, expected, &text);
    }
    // Where `back` stands in a lane, not every last step is known.
    let unknown = of("{{ x.output.zzz }}{% if x.status == 'nope' %}-{% endif %}");
    let back = "r: { done: { to: c }, on_error: { to: back, prompt: p, max: 1, on_max: { to: fail, reason: no } } }";
    let text = workflow("to: [a, b]", &unknown, "", "").replace("r: { done: { to: c } }", back);
    case(&mut all, back, "", &text);
    insta::assert_snapshot!(all);
}

#[test]
fn branches_of_several_fan_outs_are_those_of_any() {
    let workflow = |prompt: &str| {
        format!(
            "{HEAD}input: {{ files: \"string[]\" }}\nroles:\n  \
             s: {{ output: {{ one: , two: }} }}\n  a: {{ output: {{ ok: {{ x: integer }} }} }}\n  \
             b: {{ output: {{ fine: {{ y: integer }} }} }}\n  i: {{ output: {{ ok: {{ z: integer }} }} }}\n  \
             j: {{ output: {{ met: {{ w: integer }} }} }}\n  c: {{}}\n  e: {{}}\n  d: {{}}\ngraph:\n  \
             start: {{ to: s, prompt: p }}\n  s:\n    one: {{ to: a, each: input.files, prompt: p, join: c }}\n    \
             two: {{ to: [b, b], prompt: p, join: c }}\n  a: {{ ok: {{ to: i, each: input.files, prompt: p, join: j }} }}\n  \
             i: {{ ok: {{ to: j }} }}\n  j: {{ met: {{ to: c }} }}\n  b: {{ fine: {{ to: c }} }}\n  \
             c: {{ done: {{ to: e, each: branches, as: lane, prompt: \"{prompt}\", join: d }} }}\n  \
             e: {{ done: {{ to: d }} }}\n  d: {{ done: {{ to: end }} }}\n"
        )
    };
    let mut all = String::new();
    for (prompt, expected) in [
        ("{{ lane.output.y }} {{ lane.output.w }} {{ lane.part }}", ""),
        ("{{ lane.output.x }}", "RN0411"),
        ("{{ lane.output.z }}", "RN0411"),
        ("{% if lane.status in ['fine', 'met'] and lane.role != 'j' %}-{% endif %}", ""),
        ("{% if lane.status == 'ok' %}-{% endif %}", "RN0418"),
    ] {
        case(&mut all, prompt, expected, &workflow(prompt));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn lanes_end_at_their_join() {
    let fan = |rest: &str| {
        format!(
            "roles: {{ a: {{ output: {{ ok: {{ n: integer }} }} }}, b: {{}}, c: {{}} }}\ngraph:\n  c: {{ done: {{ to: end }} }}\n{rest}"
        )
    };
    let cases = [
        ("good", "", "  start: { to: [a, b], prompt: p, join: c }\n  a: { ok: { to: c } }\n  b: { done: { to: c } }"),
        (
            "end in a lane",
            "RN0514",
            "  start: { to: [a, b], prompt: p, join: c }\n  a: { ok: { to: end } }\n  b: { done: { to: c } }",
        ),
        (
            "never at the join",
            "RN0514",
            "  start: { to: [a, b], prompt: p, join: c }\n  a: { ok: { to: fail } }\n  b: { done: { to: c } }",
        ),
        (
            "begins at the join",
            "RN0514",
            "  start: { to: [a, c], prompt: p, join: c }\n  a: { ok: { to: b, prompt: p } }\n  b: { done: { to: c } }",
        ),
        (
            "need too many",
            "RN0513",
            "  start: { to: [a, b], prompt: p, join: { to: c, need: 3 } }\n  a: { ok: { to: c } }\n  b: { done: { to: c } }",
        ),
        (
            "back in a lane's first role",
            "RN0514 RN0510 RN0515",
            "  start: { to: [a, b], prompt: p, join: c }\n  a: { ok: { to: back } }\n  b: { done: { to: c } }",
        ),
        (
            "what ran in one lane has run after all",
            "",
            "  start: { to: [a, b], prompt: p, join: { to: c, prompt: \"{{ steps.a.output.n }} {{ steps.b.body }} {{ branches[0].part | default(1) }}\" } }\n  a: { ok: { to: c } }\n  b: { done: { to: c } }",
        ),
        (
            "but not after any",
            "RN0412",
            "  start: { to: [a, b], prompt: p, join: { to: c, need: any, prompt: \"{{ steps.a.output.n }}\" } }\n  a: { ok: { to: c } }\n  b: { done: { to: c } }",
        ),
        (
            "nor when its lane may be left out",
            "RN0412",
            "  start: { to: [ { to: a, when: \"1 > 2\" }, b ], prompt: p, join: { to: c, prompt: \"{{ steps.b.body }}{{ steps.a.output.n }}\" } }\n  a: { ok: { to: c } }\n  b: { done: { to: c } }",
        ),
        (
            "output in a join's prompt",
            "RN0410",
            "  start: { to: [a, b], prompt: p, join: { to: c, prompt: \"{{ output.n }}\" } }\n  a: { ok: { to: c } }\n  b: { done: { to: c } }",
        ),
    ];
    let texts: Vec<String> = cases.iter().map(|(_, _, rest)| fan(rest)).collect();
    let mut rows: Vec<(&str, &str, &str)> =
        cases.iter().zip(&texts).map(|((name, expected, _), text)| (*name, *expected, text.as_str())).collect();
    rows.push((
        "each: names in the lane, none outside, and perhaps no lane at all",
        "RN0410 RN0412",
        "input: { files: { type: array, items: { type: object, properties: { path: { type: string } }, required: [path] } } }
roles: { a: {}, b: {}, c: {} }
graph:
  start: { to: a, each: input.files, as: file, prompt: \"{{ index }} {{ file.path }}\", join: { to: c, prompt: \"{{ branches | length }} {{ file.path }}\" } }
  a: { done: { to: b, prompt: \"{{ file.path }} {{ body }}\" } }
  b: { done: { to: c, prompt: \"{{ steps.a.body }} {{ index }}\" } }
  c: { done: { to: end, result: { first: \"{{ steps.a.body }}\", all: \"{{ branches | map(attribute='part') }}\" } } }",
    ));
    rows.push((
        "each over what is not a list",
        "RN0417",
        "input: { topic: string }\nroles: { a: {}, c: {} }\ngraph: { start: { to: a, each: input.topic, prompt: x, join: c }, a: { done: { to: c } }, c: { done: { to: end } } }",
    ));
    insta::assert_snapshot!(table(&rows));
}

#[test]
fn templates_may_read_only_what_is_there() {
    let prompts = [
        ("input", ""),
        ("{{ input.topic }} {{ input.words + 1 }} {{ input.tags | join(', ') }}", ""),
        ("{{ input.topik }}", "RN0411"),
        ("{{ topic }}", "RN0410"),
        ("{{ input.tone }}", "RN0414"),
        ("{% if input.tone %}{{ input.tone }}{% endif %}", ""),
        ("{{ input.tone | default('plain') }}", ""),
        ("{{ input.tone | upper | default('plain') }}", ""),
        ("{{ input.tags }}", "RN0415"),
        ("{{ input.tags | tojson }}", ""),
        ("{{ input.topic + 1 }}", "RN0417"),
        ("{{ input.tags | upper }}", "RN0417"),
        ("{% for c in input.topic %}{% endfor %}", "RN0417"),
        ("{% if input.topic %}x{% endif %}", "RN0416"),
        ("{% if input.tags %}x{% endif %}", "RN0416"),
        ("{% if input.words %}x{% endif %}", "RN0416"),
        ("{% if input.deep and input.words > 3 %}x{% endif %}", ""),
        ("{% if input.tone and input.tone == 'dry' %}x{% endif %}", ""),
        ("{% if input.topic == 3 %}x{% endif %}", "RN0417"),
        ("{% if input.topic < 3 %}x{% endif %}", "RN0417"),
        ("{{ output.title }}", "RN0410"),
        ("{{ steps.writer.body }}", "RN0412"),
        ("{{ steps.wirter.body }}", "RN0411"),
        ("{{ input.topic.x }}", "RN0411"),
        ("{{ index }}", "RN0410"),
        ("{{ branches }}", "RN0410"),
    ];
    let mut all = String::new();
    for (prompt, expected) in prompts {
        let text = round(&format!("\"{prompt}\""), "x", "y", "");
        case(&mut all, prompt, expected, &text);
    }
    insta::assert_snapshot!(all);
}

fn case(all: &mut String, name: &str, expected: &str, text: &str) {
    let said = said(text);
    let codes: Vec<&str> = said.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(codes.join(" "), expected, "{name}: {said:#?}");
    writeln!(all, "{name}").unwrap();
    for line in said {
        writeln!(all, "    {line}").unwrap();
    }
}

#[test]
fn what_has_run_is_known_at_each_edge() {
    let mut all = String::new();
    for (prompt, expected) in [
        ("{{ output.title }} {{ body }} {{ status }}", ""),
        ("{{ output.titel }}", "RN0411"),
        ("{{ output.note }}", "RN0414"),
        ("{{ output.note | default(output.title) }}", ""),
        ("{{ output.meta.by }}", "RN0414"),
        ("{% if output.meta %}{{ output.meta.by }}{% endif %}", ""),
        ("{% if output.meta.by %}{{ output.meta.by }}{% endif %}", ""),
        ("{% if output.note is none %}x{% else %}{{ output.note }}{% endif %}", ""),
        ("{% if output.note != none %}{{ output.note }}{% endif %}", ""),
        ("{% if not output.note %}{{ output.note }}{% endif %}", "RN0414"),
        ("{{ output.note if output.note else 'none' }}", ""),
        ("{{ output.score / 2 }}", ""),
        ("{{ steps.writer.output.title }} {{ steps.writer.visits }} {{ steps.writer.prompt }}", ""),
        ("{{ steps.writer }}", "RN0415"),
        ("{{ steps.editor.body }}", "RN0412"),
        ("{{ steps.editor.body | default('first round') }}", ""),
        ("{% if steps.editor %}{{ steps.editor.output.comments | join }}{% endif %}", ""),
        ("{% if steps.editor %}{{ steps.editor.output.coments | join }}{% endif %}", "RN0411"),
        ("{% if steps.editor and steps.editor.status == 'revise' %}x{% endif %}", ""),
        ("{% if steps.editor.status == 'revise' %}x{% endif %}", "RN0412"),
        ("{{ steps.editor.body if steps.editor else '' }}", ""),
        ("{% if not steps.editor %}x{% elif steps.editor.visits > 1 %}{{ steps.editor.body }}{% endif %}", ""),
        ("{% if input.deep %}x{% elif steps.editor %}{{ steps.editor.body }}{% endif %}", ""),
        ("{% for s in steps.writer.all %}{{ loop.index }} {{ s.output.title }} {{ s.body }}{% endfor %}", ""),
        ("{% for s in steps.writer.all %}{{ s.output.ttile }}{% endfor %}", "RN0411"),
        ("{{ steps.writer.output.score | round(1) }}", ""),
        ("{% set x = 1 %}{{ range(3) }}", "RN0403"),
    ] {
        case(&mut all, prompt, expected, &round("x", &format!("\"{prompt}\""), "y", ""));
    }
    for (prompt, expected) in [
        ("{% for c in output.comments %}- {{ c }}{% endfor %}{{ steps.writer.output.title }}", ""),
        ("{{ steps.editor.output.comments | join }}", ""),
    ] {
        case(&mut all, prompt, expected, &round("x", "y", &format!("\"{prompt}\""), ""));
    }
    for (result, expected) in [
        ("\"{{ steps.writer.output.title }}\"", ""),
        ("\"{{ output.summary }} {{ steps.editor.output.summary }}\"", ""),
        ("{ note: \"{{ steps.writer.output.note }}\" }", ""),
        ("\"note: {{ steps.writer.output.note }}\"", "RN0414"),
    ] {
        case(&mut all, result, expected, &round("x", "y", "z", result));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_field_may_be_used_when_every_status_that_leads_here_has_it() {
    let text = graph(
        "  start: { to: editor, prompt: x }
  editor:
    revise: { to: writer, prompt: x }
    approved: { to: writer, prompt: x }
  writer:
    drafted: { to: end }
    on_error: { to: fail, reason: \"{{ output.code }} {{ output.message }} {{ output.title }}\" }
result: { all: \"{{ steps.editor.output.summary }}\", some: \"{{ steps.editor.output.comments }}\", either: \"{{ steps.editor.output.comments | default([]) }}\" }
",
    );
    let mut all = String::new();
    case(&mut all, "two ways to the writer", "RN0411 RN0413", &text);
    insta::assert_snapshot!(all);
}

#[test]
fn the_status_of_a_step_narrows_its_fields() {
    let comments = |of: &str| format!("{{{{ {of}.output.comments | length }}}}");
    let (latest, each) = (comments("steps.editor"), comments("v"));
    let all = |inner: &str| format!("{{% for v in steps.editor.all %}}{inner}{{% endfor %}}");
    for (result, expected) in [
        (latest.clone(), "RN0413"),
        (format!("{{% if steps.editor.status == 'revise' %}}{latest}{{% endif %}}"), ""),
        (format!("{{% if 'revise' == steps.editor.status %}}{latest}{{% endif %}}"), ""),
        (format!("{{% if steps.editor.status in ['revise'] %}}{latest}{{% endif %}}"), ""),
        (format!("{{% if not steps.editor.status != 'revise' %}}{latest}{{% endif %}}"), ""),
        (format!("{{% if steps.editor.status == 'approved' %}}{latest}{{% endif %}}"), "RN0411"),
        (format!("{{% if steps.editor.status == 'revise' %}}x{{% else %}}{latest}{{% endif %}}"), "RN0413"),
        ("{{ steps.editor.output.comments | length if steps.editor.status == 'revise' else 0 }}".to_owned(), ""),
        (all(&each), "RN0413"),
        (all(&format!("{{% if v.status == 'revise' and v.visit > 1 %}}{each}{{% endif %}}")), ""),
        (all("{{ v.output.comments | default([]) | length }}"), ""),
        (all("{{ v.output.commets | default([]) | length }}"), "RN0411"),
        (all(&format!("{{% if v.status == 'revise' %}}{}{{% endif %}}", all(&each))), "RN0413"),
        (all(&each).replace(".all", ".all | selectattr('status', '==', 'revise')"), ""),
        (all(&each).replace(".all", ".all | selectattr('status', '==', 'approved')"), "RN0411"),
    ] {
        let text = graph(&format!(
            "  start: {{ to: editor, prompt: x }}\n  editor:\n    revise: {{ to: end }}\n    approved: {{ to: writer, prompt: x }}\n  \
             writer: {{ drafted: {{ to: end }} }}\nresult: {{ some: \"{result}\" }}\n"
        ));
        case(&mut String::new(), &result, expected, &text);
    }
}

#[test]
fn a_member_that_an_object_does_not_declare_may_be_absent() {
    for (fields, prompt, expected) in [
        ("properties: { a: { type: string } }", "{{ output.o.b }}", "RN0414"),
        ("properties: { a: { type: string } }", "{% if output.o.b %}{{ output.o.b }}{% endif %}", ""),
        ("properties: { a: { type: string } }", "{{ output.o.b | default('-') }}", ""),
        ("properties: { a: { type: string } }, required: [b]", "{{ output.o.b }}", ""),
        ("properties: { a: { type: string } }, additionalProperties: false", "{{ output.o.b }}", "RN0411"),
        ("description: anything", "{{ output.o.b }}", ""),
    ] {
        let text = format!(
            "{HEAD}roles: {{ w: {{ output: {{ done: {{ o: {{ type: object, {fields} }} }} }} }}, e: {{}} }}\ngraph:\n  \
             start: {{ to: w, prompt: x }}\n  w: {{ done: {{ to: e, prompt: \"{prompt}\" }} }}\n  e: {{ done: {{ to: end }} }}\n"
        );
        case(&mut String::new(), &format!("{fields}: {prompt}"), expected, &text);
    }
}

#[test]
fn an_edge_that_is_used_up_has_been_taken() {
    let text = graph(
        "  start: { to: editor, prompt: x }
  editor:
    approved: { to: end }
    revise: { to: writer, prompt: x, max: 1, on_max: { to: fail, reason: \"{{ steps.writer.output.title }}\" } }
  writer:
    drafted: { to: editor, prompt: \"{{ steps.writer.output.title }}\" }
",
    );
    assert_eq!(said(&text), Vec::<String>::new());
}

#[test]
fn what_only_follows_from_another_fault_is_not_said() {
    let good = "rondo: 1\nname: t
roles: { a: { output: { ok: , again: } }, b: {} }
graph:
  start: { to: a, prompt: p }
  a: { ok: { to: b, prompt: p }, again: { to: a, prompt: p, max: 2, on_max: { to: end } } }
  b: { done: { to: end } }
";
    assert_eq!(said(good), Vec::<String>::new());
    for (part, instead, code) in [
        ("b: {}", "b: { kind: modle }", "RN0207"),
        ("b: {}", "b: text", "RN0203"),
        ("b: {}", "b: { output: [done] }", "RN0203"),
        ("max: 2", "max: \"2\"", "RN0203"),
        ("max: 2", "max: 0", "RN0207"),
    ] {
        let told = said(&good.replace(part, instead));
        assert!(told.len() == 1 && told.iter().all(|line| line.contains(code)), "{instead}: {told:?}");
    }
}

#[test]
fn a_condition_stands_in_a_list_with_else() {
    let text = |edge: &str, on_max: &str| {
        format!(
            "rondo: 1\nname: t\nroles: {{ a: {{ output: {{ ok: {{ n: integer }} }} }} }}
graph: {{ start: {{ to: a, prompt: p }}, a: {{ ok: {{ to: a, prompt: p, {edge} max: 2, on_max: {{ to: end {on_max} }} }} }} }}"
        )
    };
    assert_eq!(said(&text("", "")), Vec::<String>::new());
    for alone in [text("when: output.n > 1,", ""), text("", ", when: output.n > 1")] {
        let told = said(&alone);
        assert!(told.len() == 1 && told.iter().all(|line| line.contains("RN0218")), "{told:?}");
    }
}

#[test]
fn back_brings_what_was_known_on_the_edge_that_led_there() {
    let text = "rondo: 1\nname: t
roles: { a: { output: { ask: , ready: } }, b: { output: { ask: , ready: } }, h: { output: { told: { x: string } } } }
graph:
  start: { to: a, prompt: p }
  a:
    ask: { to: h, prompt: p, max: 2, on_max: { to: fail } }
    ready: { to: b, prompt: p }
  b:
    ask: { to: h, prompt: \"{{ steps.a.body }}\", max: 2, on_max: { to: fail } }
    ready: { to: end, result: \"{{ steps.a.body }}{{ steps.h.output.x | default('-') }}\" }
  h: { told: { to: back, prompt: \"{{ output.x }}\" } }
";
    assert_eq!(said(text), Vec::<String>::new());
    let worse = text.replace("prompt: \"{{ output.x }}\"", "prompt: \"{{ steps.b.body }}\"");
    assert!(said(&worse).iter().any(|line| line.contains("RN0412")), "{:?}", said(&worse));
}

#[test]
fn expressions_of_rules_and_conditions_see_what_a_prompt_would() {
    let text = |when: &str, field: &str| {
        format!(
            "rondo: 1\nname: t
roles:
  a: {{ output: {{ ok: {{ n: integer }} }} }}
  r: {{ kind: rule, output: {{ high: {{ when: \"{when}\", twice: \"{field}\" }}, low: }} }}
graph:
  start: {{ to: a, prompt: p }}
  a: {{ ok: {{ to: r }} }}
  r:
    high: {{ to: end }}
    low: [ {{ when: steps.a.output.n == 0, to: fail }}, {{ else: {{ to: end }} }} ]
"
        )
    };
    let mut all = String::new();
    for (when, field, expected) in [
        ("output.n > 3", "output.n * 2", ""),
        ("output.n", "output.n", "RN0416"),
        ("{{ output.n > 3 }}", "1", "RN0406"),
        ("output.m > 3", "body ~ 1", "RN0411"),
        ("steps.r", "steps.r.visits", "RN0412"),
    ] {
        case(&mut all, &format!("when {when}, field {field}"), expected, &text(when, field));
    }
    insta::assert_snapshot!(all);
}

/// A chain of 2,500 roles, each with an edge back to the first: every role's state reaches every other.
#[test]
fn large_graphs_are_checked_without_recursion() {
    let count = 2500;
    let role: Role = canonical::from_value(
        canonical::parse(
            br#"{ "description": "", "kind": "human", "output": [["ok", [["n", { "optional": false, "schema": { "type": "integer" } }]]], ["again", []]], "with": {} }"#,
        )
        .unwrap(),
    )
    .unwrap();
    let name = |number: usize| RoleName::new(&format!("r{number}")).unwrap();
    let edge = |to: Target, prompt: &str| Edge {
        attach: Vec::new(),
        max: None,
        on_max: None,
        per: None,
        prompt: prompt.to_owned(),
        reason: None,
        result: None,
        say: None,
        to,
        when: None,
    };
    let status = |text: &str| Status::new(text).unwrap();
    let mut workflow = Workflow {
        graph: vec![("start".to_owned(), Outgoing::Start(vec![edge(Target::Role(name(0)), "x")]))],
        hooks: Vec::new(),
        input: Vec::new(),
        models: BTreeMap::new(),
        name: "large".to_owned(),
        result: None,
        roles: Vec::new(),
        rondo: 1,
    };
    for number in 0..count {
        let on = if number + 1 == count { Target::End } else { Target::Role(name(number + 1)) };
        let prompt = if number + 1 == count { "" } else { "{{ output.n }} {{ steps.r0.output.n }}" };
        let back = Edge {
            max: Some(2),
            on_max: Some(Box::new(edge(Target::Fail, ""))),
            ..edge(Target::Role(name(0)), "{{ steps.r0.status }}")
        };
        workflow.roles.push((name(number), role.clone()));
        let ways = vec![(status("ok"), vec![edge(on, prompt)]), (status("again"), vec![back])];
        workflow.graph.push((format!("r{number}"), Outgoing::Role(ways)));
    }
    let policy = Policy {
        children: BTreeMap::new(),
        description: String::new(),
        hooks: Vec::new(),
        limits: Limits::default(),
        roles: BTreeMap::new(),
        serve: crate::workflow::Serve::default(),
    };
    let found = super::check(&workflow, &policy, &SourceMap::new(Source::new("w.yaml", "")));
    // `r0` has a number as a field only under one of its statuses, which is the only fault.
    assert!(found.iter().all(|fault| fault.code == Code::FieldNotInEveryStatus), "{:?}", found.first());
}

#[test]
fn a_role_runs_as_deep_in_lanes_as_the_fan_outs_around_it() {
    let text = r"rondo: 1
name: deep
roles:
  lead: { compact: { at: 1000, keep: 1, by: notes } }
  outer: {}
  inner: { compact: { at: 1000, keep: 1, by: notes } }
  mid: {}
  last: {}
  notes: {}
graph:
  start: { to: [ outer, lead ], prompt: Go., join: { to: last, prompt: End. } }
  outer: { done: { to: [ inner, inner ], prompt: Go., join: { to: mid, prompt: On. } } }
  inner: { done: { to: mid, prompt: a } }
  lead: { done: { to: last, prompt: b } }
  mid: { done: { to: last, prompt: c } }
  last: { done: { to: end } }
";
    let workflow = read("w.yaml", text, &BTreeMap::<String, String>::new()).map(|checked| checked.workflow);
    let depths = super::lane_depths(&workflow.unwrap());
    let shown: Vec<String> = depths.iter().map(|(role, depths)| format!("{role} {depths:?}")).collect();
    assert_eq!(shown, ["inner {2}", "last {0}", "lead {1}", "mid {1}", "notes {1, 2}", "outer {1}"]);
}

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::canonical;
use crate::digest::{Digest, Kind};
use crate::workflow::RoleKind;

const EXAMPLE: &str = include_str!("../../../../tests/fixtures/good/review-loop.yaml");
const EVERYTHING: &str = include_str!("../../../../tests/fixtures/good/everything.yaml");

fn files(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn included() -> BTreeMap<String, String> {
    files(&[
        ("prompts/style.md", "Write {{ plainly }}.\n"),
        ("prompts/plan.md", "Plan it.\n"),
        (
            "parts/section.yaml",
            "rondo: 1\nname: section\ninput: { title: string }\nroles: { writer: { system: { file: style.md } } }\n\
             graph: { start: { to: writer, prompt: \"Write {{ input.title }}.\" }, writer: { done: { to: end } } }\n\
             result: { text: \"{{ body }}\", words: 3 }\n",
        ),
        ("parts/style.md", "Write one section.\n"),
    ])
}

#[track_caller]
fn good(file: &str, text: &str) -> Checked {
    read(file, text, &included()).unwrap_or_else(|faults| panic!("{}", listing(&faults)))
}

#[track_caller]
fn digest(text: &str) -> Digest {
    Digest::of(Kind::Workflow, &good("w.yaml", text).workflow).unwrap().0
}

fn listing(faults: &[Diagnostic]) -> String {
    faults.iter().fold(String::new(), |mut list, fault| {
        let _ = writeln!(list, "{fault}");
        list
    })
}

fn pretty(object: &impl serde::Serialize) -> String {
    let value: serde_json::Value = serde_json::from_slice(&canonical::to_bytes(object).unwrap()).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn the_example_of_the_format_is_read() {
    let checked = good("w.yaml", EXAMPLE);
    insta::assert_snapshot!("example_workflow", pretty(&checked.workflow));
    insta::assert_snapshot!("example_policy", pretty(&checked.policy));
    insta::assert_snapshot!("example_warnings", listing(&checked.warnings));
}

#[test]
fn every_key_of_the_format_is_read() {
    let checked = good("w.yaml", EVERYTHING);
    insta::assert_snapshot!("everything_workflow", pretty(&checked.workflow));
    insta::assert_snapshot!("everything_policy", pretty(&checked.policy));
}

#[test]
fn what_is_stored_is_read_back() {
    for text in [EXAMPLE, EVERYTHING] {
        let checked = good("w.yaml", text);
        let bytes = canonical::to_bytes(&checked.workflow).unwrap();
        assert_eq!(canonical::from_slice::<Workflow>(&bytes).unwrap(), checked.workflow);
        let bytes = canonical::to_bytes(&checked.policy).unwrap();
        assert_eq!(canonical::from_slice::<Policy>(&bytes).unwrap(), checked.policy);
    }
}

/// Every file under `tests/fixtures/bad` is refused, with these messages at these locations.
#[test]
fn bad_files_are_refused_at_their_places() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/bad");
    let mut names: Vec<String> = std::fs::read_dir(folder.clone())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let own = names.iter().map(|name| (name.clone(), std::fs::read_to_string(folder.join(name)).unwrap()));
    let own: BTreeMap<String, String> = own.collect();
    let mut list = String::new();
    for (name, text) in &own {
        let faults = read(name, text, &own).expect_err(name);
        let places: Vec<_> = faults.iter().map(|fault| (fault.line, fault.column)).collect();
        assert!(places.is_sorted(), "{name}: faults stand in source order\n{}", listing(&faults));
        let _ = writeln!(list, "{}", listing(&faults));
    }
    insta::assert_snapshot!("bad_files", list);
}

#[test]
fn a_file_that_is_too_much_is_refused_at_once() {
    let roles = |count: usize| (0..count).map(|n| format!("  r{n}: {{}}")).collect::<Vec<_>>().join("\n");
    let (many_roles, fewer_roles) = (roles(100_000), roles(30_000));
    let long = "x".repeat(2 << 20);
    let levels = 100_000;
    for (name, text) in [
        ("roles", format!("rondo: 1\nname: x\nroles:\n{many_roles}\ngraph: {{}}\n")),
        ("nodes", format!("rondo: 1\nname: x\nroles:\n{fewer_roles}\ngraph: {{}}\n")),
        ("scalar", format!("name: {long}")),
        ("brackets", "[".repeat(levels)),
        ("braces", "{".repeat(levels)),
        ("braces behind a key", format!("prompt: {}", "{".repeat(levels))),
        ("keys", "{a: ".repeat(levels)),
        ("dashes", "- ".repeat(levels)),
        ("questions", "? ".repeat(levels)),
        ("colons", ": ".repeat(levels)),
        ("quotes", "\"a\": {".repeat(levels)),
        ("comments", format!("a: [{}", " #x".repeat(levels))),
        ("key", format!("? {}\n: 1\n", "k".repeat(5_000))),
        ("steps", (0..1_000).map(|n| format!("{}a:", " ".repeat(n))).collect::<Vec<_>>().join("\n")),
    ] {
        for file in ["w.yaml", "w.json"] {
            let start = Instant::now();
            let faults = read(file, &text, &included()).expect_err(name);
            assert!(!faults.is_empty(), "{name}");
            // A quadratic reader takes minutes here.
            assert!(start.elapsed() < Duration::from_secs(30), "{name} took {:?}", start.elapsed());
        }
    }
}

#[test]
fn anchors_repeat_a_value_within_the_budget() {
    let long = "x".repeat(200_000);
    let text = format!("a: &a \"{long}\"\nb: [{}]\n", ["*a"; 60].join(", "));
    let faults = read("w.yaml", &text, &included()).unwrap_err();
    assert_eq!(faults[0].code, Code::TooLarge);
    let text = format!("a: &a x\nb: [{}]\n", ["*a"; 101].join(", "));
    let faults = read("w.yaml", &text, &included()).unwrap_err();
    assert_eq!(faults[0].code, Code::TooLarge);
}

/// The same document as JSON, in file order.
fn as_json(node: &crate::source::Node) -> String {
    use crate::source::Kind;
    match &node.kind {
        Kind::List(items) => format!("[{}]", items.iter().map(as_json).collect::<Vec<_>>().join(", ")),
        Kind::Map(entries) => {
            let entries = entries.iter().map(|(key, node)| format!("{:?}: {}", key.name, as_json(node)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        _ => node.to_value().to_text(),
    }
}

#[test]
fn yaml_and_json_of_the_same_document_have_equal_digests() {
    for text in [EXAMPLE, EVERYTHING] {
        let json = as_json(&crate::source::yaml(text).unwrap());
        let (yaml, json) = (good("w.yaml", text), good("w.json", &json));
        assert_eq!(yaml.workflow, json.workflow);
        assert_eq!(yaml.policy, json.policy);
        assert_eq!(
            Digest::of(Kind::Workflow, &yaml.workflow).unwrap(),
            Digest::of(Kind::Workflow, &json.workflow).unwrap()
        );
    }
}

const SMALL: &str = "\
rondo: 1
name: small
input: { a: string, b: integer }
roles:
  one: { system: \"Answer.\", output: { yes_please: { x: string, y: integer }, no_thanks: null } }
  two: { system: \"Answer.\" }
graph:
  start: { to: one, prompt: \"Go.\" }
  one: { yes_please: { to: two, prompt: \"Go on.\" }, no_thanks: { to: end } }
  two: { done: { to: end } }
";

#[test]
fn layout_quoting_anchors_and_comments_do_not_change_the_digest() {
    let wanted = digest(SMALL);
    for (what, text) in [
        ("comment", SMALL.replace("name: small", "# What it is.\nname: small   # a name")),
        ("quotes", SMALL.replace("\"Answer.\"", "'Answer.'").replace("name: small", "\"name\": \"small\"")),
        ("block", SMALL.replace("prompt: \"Go.\" }", "\"prompt\": 'Go.' }")),
        (
            "anchor",
            SMALL
                .replacen("\"Answer.\"", "&s \"Answer.\"", 1)
                .replace("two: { system: \"Answer.\"", "two: { system: *s"),
        ),
        ("lines", SMALL.replace('\n', "\r\n")),
        ("mark", format!("\u{feff}{SMALL}")),
        ("x-", format!("x-team: {{ anything: [1, 2] }}\n{SMALL}")),
        ("order of keys in an edge", SMALL.replace("{ to: one, prompt: \"Go.\" }", "{ prompt: \"Go.\", to: one }")),
        ("order at the top", format!("{}name: small\n", SMALL.replace("name: small\n", ""))),
        ("policy", format!("{SMALL}limits: {{ steps: 3 }}\ndescription: \"What it is for.\"\n")),
        ("transparent hook", format!("{SMALL}hooks: [{{ use: log }}]\n")),
        (
            "defaults",
            SMALL.replace(
                "two: { system",
                "two: { kind: model, output: { done: }, history: condensed, context: outputs, system",
            ),
        ),
    ] {
        assert_eq!(digest(&text), wanted, "{what}\n{text}");
    }
}

#[test]
fn order_that_has_a_meaning_changes_the_digest() {
    let wanted = digest(SMALL);
    let one = "  one: { system: \"Answer.\", output: { yes_please: { x: string, y: integer }, no_thanks: null } }\n";
    let two = "  two: { system: \"Answer.\" }\n";
    for (what, text) in [
        ("inputs", SMALL.replace("{ a: string, b: integer }", "{ b: integer, a: string }")),
        ("roles", SMALL.replace(&format!("{one}{two}"), &format!("{two}{one}"))),
        ("fields", SMALL.replace("{ x: string, y: integer }", "{ y: integer, x: string }")),
        (
            "statuses",
            SMALL.replace(
                "{ yes_please: { x: string, y: integer }, no_thanks: null }",
                "{ no_thanks: null, yes_please: { x: string, y: integer } }",
            ),
        ),
        (
            "graph",
            SMALL
                .replace("  two: { done: { to: end } }\n", "")
                .replace("graph:\n", "graph:\n  two: { done: { to: end } }\n"),
        ),
        ("altering hook", format!("{SMALL}hooks: [{{ use: redact, patterns: [\"x\"] }}]\n")),
        ("prompt", SMALL.replace("Go on.", "Go on!")),
    ] {
        assert_ne!(text, SMALL, "{what}: the text has been changed");
        assert_ne!(digest(&text), wanted, "{what}");
    }
}

#[test]
fn a_child_workflow_brings_its_result_and_its_policy() {
    let text = "\
rondo: 1
name: parent
roles:
  section: { kind: workflow, workflow: parts/section.yaml, input: { title: \"A\" } }
  mapped: { kind: workflow, workflow: ./parts/section.yaml, input: { title: \"B\" }, statuses: { done: written } }
graph:
  start: { to: section }
  section: { done: { to: mapped }, failed: { to: fail, reason: \"{{ output.reason }}\" } }
  mapped: { written: { to: end }, failed: { to: fail } }
";
    let checked = good("w.yaml", text);
    let names = |role: &str| {
        let output = &checked.workflow.role(role).unwrap().output;
        output.iter().map(|(status, fields)| format!("{status}: {}", fields.len())).collect::<Vec<_>>()
    };
    assert_eq!(names("section"), ["done: 2", "failed: 1"]);
    assert_eq!(names("mapped"), ["written: 2", "failed: 1"]);
    let policy = checked.policy.children.get("section").unwrap();
    assert!(policy.roles.contains_key("writer") && !checked.policy.roles.contains_key("writer"));
    let RoleKind::Workflow(child) = &checked.workflow.role("section").unwrap().kind else { panic!() };
    let RoleKind::Model(writer) = &child.workflow.role("writer").unwrap().kind else { panic!() };
    assert_eq!(writer.system, "Write one section.\n", "a path counts from the folder of the file that names it");
}

#[test]
fn what_a_role_gives_to_its_child_fits_what_the_child_declares() {
    let child = |input: &str| {
        format!(
            "rondo: 1\nname: child\ninput: {input}\nroles: {{ w: {{}} }}\n\
             graph: {{ start: {{ to: w, prompt: x }}, w: {{ done: {{ to: end }} }} }}\n"
        )
    };
    let text = |given: &str| {
        format!(
            "rondo: 1\nname: parent\ninput: {{ level: \"low | high\", \"more?\": string, any: {{}} }}\nroles:\n  \
             a: {{ output: {{ done: {{ n: integer, tags: \"string[]\" }} }} }}\n  \
             c: {{ kind: workflow, workflow: child.yaml{given} }}\ngraph:\n  start: {{ to: a, prompt: x }}\n  \
             a: {{ done: {{ to: c }} }}\n  c: {{ done: {{ to: end }}, failed: {{ to: fail }} }}\n"
        )
    };
    let told = |declared: &str, given: &str| {
        let own = files(&[("child.yaml", &child(declared))]);
        let faults = read("w.yaml", &text(given), &own).err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for (declared, given) in [
        ("{ t: string, \"o?\": string, d: { type: integer, default: 1 } }", ", input: { t: \"{{ body }}\" }"),
        ("{ t: string }", ", input: { t: \"{{ output.n }} of 3\" }"),
        ("{ t: string }", ", input: { t: \"{{ input.more }}\" }"),
        ("{ n: integer, l: \"string[]\" }", ", input: { n: \"{{ output.n }}\", l: \"{{ output.tags }}\" }"),
        ("{ n: integer }", ", input: { n: \"{{ input.any }}\" }"),
        ("{ x: {} }", ", input: { x: \"{{ output.tags }}\" }"),
        ("{ l: \"string[]\" }", ", input: { l: [\"{{ body }}\", two] }"),
        ("{ l: \"integer[]\" }", ", input: { l: \"{{ output.tags }}\" }"),
        ("{ level: \"high | top\" }", ", input: { level: \"{{ input.level }}\" }"),
        ("{ level: \"high | top\" }", ", input: { level: \"{{ body }}\" }"),
        ("{ photo: file }", ", input: { photo: \"data:text/plain;base64,{{ body }}\" }"),
        ("{ photo: file }", ", input: { photo: \"data:text/plain;base64,YQ==\" }"),
        ("{}", ""),
    ] {
        assert_eq!(told(declared, given), "", "{declared}{given}");
    }
    let mut list = String::new();
    for (declared, given) in [
        ("{ text: string }", ", input: { txt: \"{{ body }}\" }"),
        ("{ text: string }", ", input: { text: x, more: x }"),
        ("{}", ", input: { more: x }"),
        ("{ text: string, words: integer }", ", input: { text: x }"),
        ("{ text: string }", ""),
        ("{ tags: \"string[]\" }", ", input: { tags: \"{{ body }}\" }"),
        ("{ tags: \"string[]\" }", ", input: { tags: \"{{ output.tags | join }}\" }"),
        ("{ tags: \"string[]\" }", ", input: { tags: [a, 2] }"),
        ("{ text: string }", ", input: { text: 3 }"),
        ("{ text: string }", ", input: { text: \"{{ output.n }}\" }"),
        ("{ n: integer }", ", input: { n: \"{{ output.n }} of 3\" }"),
        ("{ level: \"high | top\" }", ", input: { level: low }"),
        ("{ level: \"best | top\" }", ", input: { level: \"{{ input.level }}\" }"),
        ("{ photos: \"file[]\" }", ", input: { photos: \"{{ body }}\" }"),
        ("{ photo: file }", ", input: { photo: a.png }"),
    ] {
        let _ = writeln!(list, "{declared}{given}\n    {}", told(declared, given));
    }
    insta::assert_snapshot!("child_inputs", list);
}

#[test]
fn faults_of_a_child_carry_its_name_and_come_last() {
    let own = files(&[("parts/child.yaml", "rondo: 1\nname: child\nroles: { a: { systm: x } }\ngraph: {}\n")]);
    let text = "rondo: 1\nname: parent\nroles:\n  c: { kind: workflow, workflow: parts/child.yaml }\n  d: { kind: workflow, \
                workflow: parts/child.yaml }\ngraph:\n  start: { too: c }\n";
    let faults = read("folder/w.yaml", text, &own).unwrap_err();
    let places: Vec<_> = faults.iter().map(|fault| format!("{}:{}", fault.file, fault.line)).collect();
    assert_eq!(places[0], "folder/w.yaml:7");
    assert_eq!(places[1], "folder/parts/child.yaml:3");
    assert_eq!(places.iter().filter(|place| *place == "folder/parts/child.yaml:3").count(), 1, "each fault once");
}

#[test]
fn child_workflows_have_an_end() {
    let child = |next: usize| {
        format!(
            "rondo: 1\nname: n{next}\nroles: {{ c: {{ kind: workflow, workflow: c{next}.yaml }}, d: {{ kind: workflow, \
             workflow: c{next}.yaml }} }}\ngraph: {{ start: {{ to: c }} }}\n"
        )
    };
    let own: BTreeMap<String, String> = (0..20).map(|n| (format!("c{n}.yaml"), child(n + 1))).collect();
    let faults = read("w.yaml", &child(0), &own).unwrap_err();
    assert!(faults.iter().any(|fault| fault.code == Code::EndlessChildren), "{}", listing(&faults));
}

#[test]
fn included_files_have_a_budget() {
    let own = files(&[("big.md", &"x".repeat(1 << 20))]);
    let pieces = ["{ file: big.md }"; 9].join(", ");
    let text = SMALL.replacen("\"Answer.\"", &format!("[{pieces}]"), 1);
    let faults = read("w.yaml", &text, &own).unwrap_err();
    assert_eq!(faults[0].code, Code::TooLarge, "{}", listing(&faults));
    let own = files(&[("big.md", &"x".repeat((1 << 20) + 1))]);
    let faults = read("w.yaml", &SMALL.replacen("\"Answer.\"", "{ file: big.md }", 1), &own).unwrap_err();
    assert_eq!(faults[0].code, Code::TooLarge, "{}", listing(&faults));
}

#[test]
fn a_template_in_a_system_file_is_found_in_that_file() {
    let own = files(&[("style.md", "Write.\n\nAbout {{ input.topic }}.\n")]);
    let faults = read("f/w.yaml", &SMALL.replacen("\"Answer.\"", "{ file: style.md }", 1), &own).unwrap_err();
    let fault = &faults[0];
    assert_eq!((fault.file.as_str(), fault.line, fault.column), ("f/style.md", 3, 7));
    assert_eq!(fault.code, Code::TemplateInSystem);
    let raw = SMALL.replacen("\"Answer.\"", "{ file: style.md, raw: true }", 1);
    assert!(read("f/w.yaml", &raw, &own).is_ok());
}

#[test]
fn the_pieces_of_a_system_text_have_one_blank_line_between_them() {
    let text = SMALL.replacen("\"Answer.\"", "[{ text: \"A.\\n\\n\" }, \"B.\", { file: prompts/plan.md }]", 1);
    let checked = good("w.yaml", &text);
    let RoleKind::Model(model) = &checked.workflow.role("one").unwrap().kind else { panic!() };
    assert_eq!(model.system, "A.\n\nB.\n\nPlan it.\n");
}

#[test]
fn durations_and_sizes() {
    use super::value::{duration_ms, size_bytes};
    assert_eq!(
        ["250ms", "30s", "10m", "2h", "3d", "0s"].map(duration_ms),
        [Some(250), Some(30_000), Some(600_000), Some(7_200_000), Some(259_200_000), Some(0)]
    );
    for text in ["", "s", "10", "1.5s", "-1s", "10 m", "1w", "99999999999999999999s", "18446744073709551615d"] {
        assert_eq!(duration_ms(text), None, "{text}");
    }
    assert_eq!(
        ["32KiB", "8MiB", "1GiB", "7B"].map(size_bytes),
        [Some(32 << 10), Some(8 << 20), Some(1 << 30), Some(7)]
    );
    assert_eq!(["8kb", "KiB", "99999999999999GiB"].map(size_bytes), [None, None, None]);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = read("w.yaml", &text, &included());
        let _ = read("w.json", &text, &included());
    }

    /// Texts that resemble the format reach further than random ones.
    #[test]
    fn a_damaged_workflow_is_read_or_refused(at in 0..4_000_usize, cut in 0..40_usize, put in "[ \n\t{}\\[\\]:,#&*!|>'\"%@`\\-?a0]{0,6}") {
        for text in [EXAMPLE, EVERYTHING] {
            let start = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let end = (start..=(start + cut).min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let damaged = format!("{}{put}{}", &text[..start], &text[end..]);
            match read("w.yaml", &damaged, &included()) {
                Ok(checked) => prop_assert!(canonical::to_bytes(&checked.workflow).is_ok()),
                Err(faults) => prop_assert!(faults.iter().any(|fault| fault.severity == Severity::Error)),
            }
        }
    }
}

#[test]
fn the_texts_of_a_part_are_given_each_with_its_own_path() {
    let text = "rondo: 1\nname: texts\nroles:\n  a: { system: [ { file: style.md }, Own., { text: More. } ] }\n  \
                b: { system: Whole. }\n  c: { kind: workflow, workflow: child.yaml }\ngraph:\n  start: { to: a }\n  \
                a: { done: { to: b } }\n  b: { done: { to: c } }\n  c: { done: { to: end }, failed: { to: fail } }\n";
    let child = "rondo: 1\nname: child\nroles: { d: { system: Inner. } }\ngraph: { start: { to: d }, d: { done: { to: end } } }\n";
    let files = files(&[("style.md", "Style.\n"), ("child.yaml", child)]);
    let places = read("w.yaml", text, &files).unwrap().places;
    let texts = |path: &str| places.texts(path);
    let wanted = [("[0]", "Style.\n"), ("[1]", "Own."), ("[2].text", "More.")];
    assert_eq!(texts("roles.a.system"), wanted.map(|(at, text)| (format!("roles.a.system{at}"), text)));
    assert_eq!(texts("roles.b.system"), [("roles.b.system".to_owned(), "Whole.")]);
    assert_eq!(texts("roles.b"), []);
    assert_eq!(texts("roles.none.system"), []);
    let inner = places.child("c").unwrap();
    assert_eq!(inner.texts("roles.d.system"), [("roles.d.system".to_owned(), "Inner.")]);
    assert!(places.child("a").is_none());
}

#[test]
fn every_status_of_a_rule_but_the_last_has_a_condition() {
    let with = |output: &str| {
        let text = format!(
            "rondo: 1\nname: gate\nroles:\n  r: {{ kind: rule, output: {output} }}\ngraph:\n  start: {{ to: r }}\n  \
             r: {{ high: {{ to: end }}, low: {{ to: end }} }}\n"
        );
        read("w.yaml", &text, &included())
    };
    for good in ["{ high: { when: 1 > 2, n: 1 }, low: }", "{ high: { when: true }, low: {} }"] {
        assert!(with(good).is_ok(), "{good}");
    }
    let told = |output: &str| with(output).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    insta::assert_snapshot!(told("{ high: { when: 1 > 2 }, low: { when: 1 < 2 } }"), @"w.yaml:4:66: RN0218: the last status of a rule has a condition, and nothing is chosen when it does not hold (hint: take out its `when`, or add a last status without one)");
    insta::assert_snapshot!(told("{ high: , low: { n: 1 } }"), @"w.yaml:4:30: RN0218: `high` has no `when` and is not the last status of its rule (hint: statuses are tried in order: write `when: EXPR` into it, or move it to the end)");
    insta::assert_snapshot!(told("{ high: { n: 1 }, low: { when: 1 < 2 } }"), @"w.yaml:4:30: RN0218: `high` has no `when` and is not the last status of its rule (hint: statuses are tried in order: write `when: EXPR` into it, or move it to the end)");
}

#[test]
fn what_serve_names_must_be_there() {
    let with = |serve: &str| {
        let text = format!("{SMALL}result: {{ text: \"{{{{ input.a }}}}\" }}\nserve: {serve}\n");
        read("w.yaml", &text, &included())
    };
    let policy = with("{ message: a, answer: text }").unwrap().policy;
    assert_eq!((policy.serve.message.as_deref(), policy.serve.answer.as_deref()), (Some("a"), Some("text")));
    let told = |serve: &str| with(serve).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    insta::assert_snapshot!(told("{ message: c }"), @"w.yaml:12:19: RN0207: there is no input `c` (hint: did you mean `a`?)");
    insta::assert_snapshot!(told("{ message: b }"), @"w.yaml:12:19: RN0207: the input `b` does not take a text, which a message is");
    insta::assert_snapshot!(told("{ answer: txt }"), @"w.yaml:12:18: RN0207: there is no key of the result `txt` (hint: did you mean `text`?)");
    insta::assert_snapshot!(told("{ mesage: a }"), @"w.yaml:12:10: RN0201: unknown key `mesage` (hint: did you mean `message`?)");
}

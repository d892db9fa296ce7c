//! Tests of the semantics of templates, of what they refuse, and that nothing makes them panic.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::canonical;
use crate::diagnostic::Code;

mod work;

fn scope() -> Value {
    canonical::parse(
        br#"{
            "input": { "topic": "tide pools", "words": 300, "ratio": 0.5, "loud": true },
            "output": {
                "title": "A Title", "note": null, "count": 3, "ok": false,
                "comments": ["Shorter", "clearer", "Shorter"],
                "findings": [
                    { "file": "b.rs", "severity": "high", "line": 7 },
                    { "file": "a.rs", "severity": "low", "line": 12 },
                    { "file": "c.rs", "severity": "high", "line": 1, "note": "again" }
                ],
                "map": { "b": 1, "a": [2] }
            },
            "body": "First line.\nSecond line.",
            "status": "revise",
            "steps": { "writer": { "status": "drafted", "output": { "title": "T" }, "visits": 2 }, "editor": null }
        }"#,
    )
    .unwrap()
}

fn render(source: &str) -> String {
    match Template::parse(source) {
        Ok(template) => match template.render(&scope(), MAX_RENDER_BYTES) {
            Ok(text) => text,
            Err(error) => format!("render error at {:?}: {error}", error.range),
        },
        Err(faults) => {
            let mut text = String::new();
            for fault in faults {
                let hint = fault.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                writeln!(text, "{} at {:?}: {}{hint}", fault.code, fault.span.range(), fault.message).unwrap();
            }
            text
        }
    }
}

fn eval(source: &str) -> Value {
    Expr::parse(source).unwrap().eval(&scope()).unwrap()
}

#[test]
fn statements_print_choose_and_repeat() {
    for (source, expected) in [
        ("plain\n", "plain\n"),
        ("{{ input.topic }}\n", "tide pools\n"),
        ("{{ input.words }} {{ input.ratio }} {{ input.loud }}", "300 0.5 true"),
        ("{% if output.ok %}a{% elif output.count > 2 %}b{% else %}c{% endif %}", "b"),
        ("{% if output.note %}a{% else %}b{% endif %}", "b"),
        ("{% if steps.writer %}w{% endif %}{% if steps.editor %}e{% endif %}", "w"),
        ("{% if not steps.editor and output.count == 3 %}x{% endif %}", "x"),
        (
            "{% for c in output.comments %}\n- {{ loop.index }} {{ c }}\n{% endfor %}\n.",
            "- 1 Shorter\n- 2 clearer\n- 3 Shorter\n.",
        ),
        ("{% for k, v in output.map | items %}{{ k }}={{ v | tojson }};{% endfor %}", "a=[2];b=1;"),
        (
            "{% for f in output.findings %}{% for g in output.findings %}{{ f.line }}{{ g.line }} {% endfor %}{% endfor %}",
            "77 712 71 127 1212 121 17 112 11 ",
        ),
        ("{% for x in output.findings | selectattr('line', '>', 99) %}x{% else %}none{% endfor %}", "none"),
        ("{{ 'yes' if input.loud else 'no' }}{{ 'x' if output.ok }}", "yes"),
        ("{{ output.comments[1] }} {{ output.findings.0.file }}", "clearer b.rs"),
        ("{{ (output.findings | first).file }}", "b.rs"),
        ("{{ steps.editor.output.title | default('none yet') }}", "none yet"),
        ("{{ steps.editor.output.comments | join(', ') | upper | default('none yet') }}", "none yet"),
        ("{{ output.note | default(output.title) }}", "A Title"),
        ("  {% if true %}\n  x\n  {% endif %}\ny", "  x\ny"),
        // Only a line that holds nothing but tags vanishes.
        ("a: {% if true %}one{% endif %}\nb", "a: one\nb"),
        (
            "{% for c in output.comments %}\n- {{ c }}{% if c == 'clearer' %}!{% endif %}\n{% endfor %}\nx",
            "- Shorter\n- clearer!\n- Shorter\nx",
        ),
        ("  {# a note #} {% if true %}\r\nx\n{% endif %}", "x\n"),
        ("  {% if true %}x{% endif %}\n\ny", "  x\n\ny"),
        ("x\n{% if true %} {{ 1 }} {% endif %}\n", "x\n 1 \n"),
        ("{# a note #}\n{{ 1 }}", "1"),
        ("x\n  {# a note #}", "x\n"),
        ("{% if true -%}\n  x\n{% endif %}{# a note #}\ny {# here #}\n", "x\ny \n"),
        ("a {#- gone -#} b{% raw %}{{ x }}{% endraw %}", "ab{{ x }}"),
        ("{{ \"{{\" }}", "{{"),
    ] {
        assert_eq!(render(source), expected, "{source}");
    }
}

#[test]
fn expressions_calculate_exactly_or_not_at_all() {
    for (source, expected) in [
        ("1 + 2 * 3", "7"),
        ("7 / 2", "3.5"),
        ("6 / 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("2 ** 63", "9223372036854775808"),
        ("18446744073709551615 - 1", "18446744073709551614"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("0.5 + 0.5", "1"),
        ("1 < 1.5 < 2", "true"),
        ("2 == 2.0", "true"),
        ("18446744073709551615 < 1e30", "true"),
        ("'a' ~ 1 ~ true", "\"a1true\""),
        ("'b' in ['a', 'b']", "true"),
        ("'x' not in output.title", "true"),
        ("output.note is none and output.title is defined", "true"),
        ("output.count is odd or output.count is divisibleby 2", "true"),
        ("steps.editor is not defined", "true"),
        ("output.note == 'x'", "false"),
        ("output.comments == ['Shorter', 'clearer', 'Shorter']", "true"),
        ("not output.ok", "true"),
        ("status in ['revise']", "true"),
    ] {
        assert_eq!(eval(source).to_text(), expected, "{source}");
    }
    for (source, cause) in [
        ("18446744073709551615 + 1", Cause::NumberRange),
        ("2 ** 400", Cause::NumberRange),
        ("10.5 ** 4000", Cause::NumberRange),
        ("1 / 0", Cause::DivisionByZero),
        ("1.5 % 0", Cause::DivisionByZero),
        ("output.title + 1", Cause::Operand { operation: "+", found: "text" }),
        ("output.note + 1", Cause::Operand { operation: "+", found: "none" }),
        ("output.title < 1", Cause::NotOrdered { left: "text", right: "number" }),
        ("steps.editor.output.title", Cause::BreaksOff("steps.editor.output.title".to_owned())),
        ("'x' ~ output.note", Cause::Operand { operation: "~", found: "none" }),
        ("output.count and true", Cause::NotACondition("number")),
    ] {
        let found = Expr::parse(source).unwrap().eval(&scope()).map_err(|error| error.cause);
        // A path in `and` tests for presence, so a number there counts as present.
        if source.contains(" and ") {
            assert_eq!(found, Ok(Value::Bool(true)), "{source}");
        } else {
            assert_eq!(found, Err(cause), "{source}");
        }
    }
}

#[test]
fn each_filter_has_its_golden_output() {
    let sources = [
        "output.note | default('d')",
        "output.title | default('d')",
        "output.comments | first",
        "output.comments | last",
        "output.title | first",
        "body | indent",
        "body | indent(2, true)",
        "'a\\n\\nb' | indent(2, blank=true)",
        "output.map | items",
        "output.comments | join",
        "output.comments | join(', ')",
        "output.findings | join('/', attribute='file')",
        "output.comments | length",
        "output.title | length",
        "output.map | length",
        "'ÄB' | lower",
        "'straße' | upper",
        "output.findings | map(attribute='line')",
        "output.findings | map(attribute='note', default='-')",
        "output.comments | map('upper')",
        "output.comments | map('replace', 'er', '')",
        "'a-b-c' | replace('-', '+')",
        "'abc' | replace('', 'x')",
        "output.comments | reverse",
        "'abc' | reverse",
        "2.5 | round",
        "-2.5 | round",
        "2.345 | round(2)",
        "2.3 | round(method='ceil')",
        "1e300 | round(15)",
        "[1, 2, 3, 4] | select('even')",
        "[true, false] | select",
        "output.findings | selectattr('severity', '==', 'high') | map(attribute='file')",
        "output.findings | selectattr('note') | length",
        "output.findings | selectattr('note', 'none') | length",
        "output.comments | sort",
        "['b', 'a', 'B'] | sort(reverse=true, case_sensitive=true)",
        "output.findings | sort(attribute='line') | map(attribute='line')",
        "[1, 2.5] | sum",
        "output.findings | sum(attribute='line')",
        "\"it's a small WORLD\" | title",
        "output.map | tojson",
        "output.map | tojson(indent=2)",
        "'  x  ' | trim",
        "'--x-' | trim('-')",
        "'one two three' | truncate(9)",
        "'one two three' | truncate(9, true)",
        "'one two three' | truncate(9, end='')",
        "'one two three' | truncate(13)",
        "'one' | truncate(0)",
        "output.comments | unique",
        "['a', 'A'] | unique",
        "['a', 'A'] | unique(case_sensitive=true)",
    ];
    let mut golden = String::new();
    for source in sources {
        writeln!(golden, "{source}\n    {}", eval(source).to_text()).unwrap();
    }
    insta::assert_snapshot!(golden);
}

#[test]
fn what_the_language_does_not_have_is_refused_with_a_hint() {
    let sources = [
        "{{ input.topic",
        "{% if true %}x",
        "{% endif %}",
        "{{ }}",
        "{% set x = 1 %}",
        "{% with %}{% endwith %}",
        "{% do x() %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{{ range(3) }}",
        "{{ input.get('x') }}",
        "{{ upper(input.topic) }}",
        "{{ body[0:3] }}",
        "{{ output[status] }}",
        "{{ 'a' * 3 }}",
        "{{ 'a' + 'b' }}",
        "{{ {'a': 1} }}",
        "{{ (1, 2) }}",
        "{{ loop.index }}",
        "{% for x in output.comments %}{{ loop.first }}{{ loop }}{% endfor %}",
        "{% for x in [1, 2] %}{% endfor %}",
        "{% for x in output.comments if x %}{% endfor %}",
        "{% for a, b, c in output.comments %}{% endfor %}",
        "{{ body | uper }}",
        "{{ body | safe }}",
        "{{ body is defned }}",
        "{{ body | replace('a') }}",
        "{{ body | upper(1) }}",
        "{{ body | join(sep=',') }}",
        "{{ output.comments | map(output.title) }}",
        "{{ 340282366920938463463374607431768211455 }}",
        "{{ range(1) }} {{ range(2) }}",
    ];
    let mut refused = String::new();
    for source in sources {
        writeln!(refused, "{source}").unwrap();
        for line in render(source).lines() {
            writeln!(refused, "    {line}").unwrap();
        }
    }
    insta::assert_snapshot!(refused);
}

#[test]
fn braces_in_a_bare_expression_are_said_to_be_too_many() {
    for source in ["{{ output.score > 3 }}", "{% if x %}", "  {{x}}", "not {{ x }}"] {
        let faults = Expr::parse(source).unwrap_err();
        assert_eq!(faults[0].code, Code::BracesInExpression, "{source}");
    }
}

#[test]
fn errors_name_the_place_in_the_source() {
    assert_eq!(render("Title: {{ output.note }}"), "render error at 10..21: output.note is none and cannot be printed");
    assert_eq!(
        render("é {{ output.comments }}"),
        "render error at 6..21: a list is not printed as it is; `join` or `tojson` makes a text of it"
    );
    assert_eq!(
        render("{{ steps.editor.body }}"),
        "render error at 3..20: steps.editor.body is not there: the path breaks off"
    );
}

#[test]
fn conditions_are_what_every_if_asks_for() {
    let source = "{% if output.a == 1 %}x{% elif output.b %}{% for c in output.c %}{% if c %}{{ c }}{% endif %}\
                  {% endfor %}{% else %}{{ output.d }}{% endif %}";
    let template = Template::parse(source).unwrap();
    let conditions: Vec<&str> = template.conditions().into_iter().map(|test| &source[test.range()]).collect();
    assert_eq!(conditions, ["output.a == 1", "output.b", "c"]);
}

#[test]
fn uses_are_the_paths_that_a_template_reads() {
    let source = "{% for c in output.comments | sort %}{{ c.x }}{{ input.topic }}{% endfor %}\
                  {{ steps['writer'].output.title | default(body) }}";
    let template = Template::parse(source).unwrap();
    let uses: Vec<String> =
        template.uses().into_iter().map(|found| format!("{} <- {}", found.path, &source[found.range])).collect();
    assert_eq!(
        uses,
        [
            "output.comments <- output.comments",
            "input.topic <- input.topic",
            "steps.writer.output.title <- steps['writer'].output.title",
            "body <- body"
        ]
    );
}

/// The parser's tree has no stability guarantee: this checks our form of one of every construct.
#[test]
fn the_walk_over_the_parsers_tree_is_golden() {
    let template = Template::parse(
        "a{{ input.topic }}{% if output.ok and not status == 'x' %}b{% elif output.count is not none %}c{% endif %}\
         {% for k, v in output.map | items %}{{ loop.index }}{{ v if k not in ['a', -1] else 1.5 }}{% endfor %}\
         {{ (output.list | sort(reverse=true) | first).name ~ (2 + 3 // 4) < 5 <= 6 }}",
    )
    .unwrap();
    insta::assert_debug_snapshot!(template);
}

#[test]
fn a_value_keeps_its_type_when_it_is_one_expression() {
    let source = canonical::parse(
        br#"{ "n": "{{ output.count }}", "t": "{{ output.count }} ", "l": ["{{ output.comments }}", 1], "z": "{{ output.note }}", "b": true }"#,
    )
    .unwrap();
    let template = ValueTemplate::parse(&source).unwrap();
    let places: Vec<&str> = template.leaves().iter().map(|leaf| leaf.place.as_str()).collect();
    assert_eq!(places, [".l[0]", ".n", ".t", ".z"]);
    assert_eq!(
        template.render(&scope(), MAX_RENDER_BYTES).unwrap().to_text(),
        r#"{"b":true,"l":[["Shorter","clearer","Shorter"],1],"n":3,"t":"3 ","z":null}"#
    );
    assert!(matches!(template.render(&scope(), 100).unwrap_err().cause, Cause::TooLarge { max_bytes: _ }));
}

#[test]
fn chains_that_would_overflow_a_stack_are_cut_before_they_are_parsed() {
    let many = 100_000;
    let chains = [
        format!("{{{{ a{} }}}}", ".a".repeat(many)),
        format!("{{{{ {}a }}}}", "not ".repeat(many)),
        format!("{{{{ {}a }}}}", "-".repeat(many)),
        format!("{{{{ {}a{} }}}}", "(".repeat(many), ")".repeat(many)),
        format!("{{{{ {}a{} }}}}", "[".repeat(many), "]".repeat(many)),
        format!("{{{{ a{} }}}}", "|upper".repeat(many)),
        format!("{{{{ a{} }}}}", "+1".repeat(many)),
        format!("{{{{ a{} }}}}", " if b else c".repeat(many)),
        format!("{}x{}", "{% if a %}".repeat(many), "{% endif %}".repeat(many)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(many)),
        format!("{}x", "{% for x in a %}".repeat(many)),
    ];
    for chain in &chains {
        for length in [3_000, 30_000, 60_000, chain.len()] {
            let cut: String = chain.chars().take(length).collect();
            let faults = Template::parse(&cut).unwrap_err();
            assert!(matches!(faults[0].code, Code::TemplateTooLarge | Code::TemplateSyntax), "{}", faults[0].message);
        }
    }
    // What passes the scan fits the stack of a small thread, also when it is dropped.
    let deepest = [
        format!("{{{{ a{} }}}}", "|upper".repeat(60)),
        format!("{{{{ {}a }}}}", "not ".repeat(250)),
        format!("{{{{ {}a{} }}}}", "(".repeat(70), ")".repeat(70)),
        format!("{{{{ a{} }}}}", " if b else c".repeat(60)),
        format!("{}x{}", "{% if a %}".repeat(16), "{% endif %}".repeat(16)),
        format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(32)),
    ];
    for source in deepest {
        let template = Template::parse(&source).map_err(|faults| format!("{}: {}", &source[..40], faults[0].message));
        let _ = template.unwrap().render(&scope(), 1000);
    }
}

#[test]
fn work_and_output_have_ceilings() {
    let kilobyte = "a".repeat(1000);
    let values: Value =
        [("text", Value::from(kilobyte.as_str())), ("list", Value::List(vec![Value::from(1_u64); 1000]))]
            .into_iter()
            .collect();
    let scope: Value = [("input", values)].into_iter().collect();
    let cause = |source: &str| Template::parse(source).unwrap().render(&scope, MAX_RENDER_BYTES).unwrap_err().cause;
    assert_eq!(cause("{{ input.text | replace('a', input.text) | replace('a', input.text) }}"), Cause::TooMuchWork);
    assert_eq!(
        cause(
            "{% for a in input.list %}{% for b in input.list %}{% for c in input.list %}{% endfor %}{% endfor %}{% endfor %}"
        ),
        Cause::TooMuchWork
    );
    assert_eq!(
        cause("{% for a in input.list %}{% for b in input.list %}{{ input.text }}{% endfor %}{% endfor %}"),
        Cause::TooLargeBy { of: "input.text".to_owned(), bytes: 1000, max_bytes: MAX_RENDER_BYTES }
    );
    assert_eq!(
        cause(
            "{% for a in input.list %}{% for b in input.list %}{% if input.list | sort == 1 %}{% endif %}{% endfor %}{% endfor %}"
        ),
        Cause::TooMuchWork
    );
    assert_eq!(
        cause(
            "{{ input.text | indent(999999999) | replace('a', '\\n') | indent(64, true, true) | replace(' ', '\\n') | indent(64, true, true) | replace(' ', '\\n') | indent(64, true, true) }}"
        ),
        Cause::TooMuchWork
    );
}

/// A scope that records the lookups.
struct Asked(std::cell::RefCell<Vec<String>>, Value);

impl Scope for Asked {
    fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s> {
        self.0.borrow_mut().push(path.join("."));
        Lookup::new(&self.1, path.len())
    }
}

#[test]
fn a_scope_is_asked_only_for_what_is_read() {
    let scope = Asked(std::cell::RefCell::default(), Value::from("x"));
    let template =
        Template::parse("{{ steps.writer.output.title }}{% if steps.editor %}{{ input.a.b }}{% endif %}").unwrap();
    assert_eq!(template.render(&scope, 100).unwrap(), "xx");
    assert_eq!(*scope.0.borrow(), ["steps.writer.output.title", "steps.editor", "input.a.b"]);
}

fn piece() -> impl Strategy<Value = String> {
    let words = [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "if",
        "elif",
        "else",
        "endif",
        "for",
        "in",
        "endfor",
        "not",
        "and",
        "or",
        "is",
        "output",
        "input.topic",
        ".title",
        "steps.writer",
        "body",
        "loop.index",
        "|",
        "join",
        "replace",
        "default",
        "map",
        "selectattr",
        "(",
        ")",
        "[",
        "]",
        "'a'",
        "\"",
        "1",
        "2.5",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "==",
        "<",
        ",",
        "=",
        "none",
        "true",
        "raw",
        "endraw",
        "\n",
        " ",
        "é",
        "\\",
        "0x",
        "18446744073709551616",
        "{",
        "}",
        "x",
        "items",
        ":",
    ];
    proptest::sample::select(words.to_vec()).prop_map(|word| format!("{word} "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_parsing_or_rendering_panic(pieces in proptest::collection::vec(piece(), 0..40)) {
        let source = pieces.concat();
        if let Ok(template) = Template::parse(&source) {
            if let Ok(text) = template.render(&scope(), 4096) {
                prop_assert!(text.len() <= 4096);
            }
            for found in template.uses() {
                prop_assert!(source.get(found.range).is_some());
            }
        }
        if let Err(faults) = Template::parse(&source) {
            prop_assert!(!faults.is_empty());
            for fault in faults {
                prop_assert!(source.get(fault.span.range()).is_some(), "{:?} of {source:?}", fault);
            }
        }
        if let Ok(expr) = Expr::parse(&source) {
            let _ = expr.eval(&scope());
            let _ = expr.truth(&scope());
        }
    }

    #[test]
    fn any_text_is_either_read_or_refused(source in ".{0,200}") {
        let _ = Template::parse(&source).map(|template| template.render(&scope(), 4096));
        let _ = Expr::parse(&source).map(|expr| expr.eval(&scope()));
    }

    #[test]
    fn text_without_marks_is_printed_as_it_stands(source in "[^{}]{0,200}") {
        prop_assert_eq!(render(&source), source);
    }
}

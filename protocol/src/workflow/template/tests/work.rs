//! Tests of the cost of a render, in units of work, not time.

use std::cell::RefCell;

use super::super::eval::{self, Meter};
use super::*;

const MIB: usize = 1024 * 1024;

/// A scope with one bare text, short texts, and ten thousand elements that are returned one by one.
struct Big {
    body: String,
    asked: RefCell<Vec<String>>,
    list: Value,
    branches: usize,
}

impl Big {
    fn of(body: String) -> Self {
        Self { body, asked: RefCell::default(), list: Value::List(vec![Value::from("zz"); 10_000]), branches: 10_000 }
    }
}

impl Scope for Big {
    fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s> {
        match path {
            ["body", ..] => Lookup::new(self.body.as_str(), 1),
            ["input", "list", ..] => Lookup::new(&self.list, 2),
            _ => Lookup::none(1),
        }
    }

    fn length(&self, list: &[&str]) -> Option<usize> {
        (list == ["branches"]).then_some(self.branches)
    }

    fn item<'s>(&'s self, list: &[&str], index: usize, path: &[&str]) -> Lookup<'s> {
        assert_eq!((list, index < self.branches), (["branches"].as_slice(), true));
        self.asked.borrow_mut().push(format!("{index}.{}", path.join(".")));
        let output = || Value::from_iter([("x", Value::from(u64::try_from(index).unwrap()))]);
        match path {
            ["output", ..] => Lookup::new(output(), 1),
            ["body", ..] => Lookup::new(self.body.as_str(), 1),
            [] => Lookup::new(Value::from_iter([("output", output()), ("body", Value::from(self.body.as_str()))]), 0),
            _ => Lookup::none(1),
        }
    }
}

fn cost(source: &str, scope: &dyn Scope) -> (Result<String, Cause>, usize, usize) {
    let meter = Meter::new();
    let template = Template::parse(source).unwrap();
    let rendered = eval::render_within(template.statements(), scope, MAX_RENDER_BYTES, &meter);
    let (work, made) = meter.spent();
    (rendered.map_err(|error| error.cause), work, made)
}

/// All characters of the text are in the set, which is as long as the text.
#[test]
fn trim_asks_a_set_and_not_a_text_for_each_character() {
    let scope = Big::of("ab".repeat(1_400_000));
    let (rendered, work, _) = cost("{{ body | trim(body) }}", &scope);
    assert_eq!(rendered, Ok(String::new()));
    assert!(work < scope.body.len() / 16, "{work}");
    let letters: String = ('a'..='z').chain('\u{4e00}'..='\u{9000}').collect();
    let body = letters.repeat(1_400_000 / letters.len());
    let scope = Big::of(body);
    let (rendered, work, _) = cost("{{ body | trim(body) }}", &scope);
    assert_eq!(rendered, Ok(String::new()));
    assert!(work > scope.body.len() / 8, "{work}: characters beyond ASCII are looked up in a tree");
    assert_eq!(cost("{{ '--xé-é' | trim('é-') }}|{{ ' x ' | trim }}", &scope).0, Ok("x|x".to_owned()));
}

#[test]
fn whoever_looks_at_a_text_pays_for_its_bytes() {
    let scope = Big::of("a".repeat(MIB));
    let once = MIB / 64;
    for (source, times) in [
        ("{{ 1 if body is startingwith body }}", 1),
        ("{{ 1 if body is endingwith body }}", 1),
        ("{{ 1 if body in body }}", 2),
        ("{{ 1 if body in input.list }}", 0),
        ("{{ 1 if body < body }}", 1),
        ("{{ 1 if body >= body }}", 1),
        ("{{ 1 if body == body }}", 1),
        ("{{ 1 if body is ge(body) }}", 1),
        ("{{ [body] | select('startingwith', body) | length }}", 3),
        ("{{ 'x' | replace(body, 'y') }}", 1),
        ("{{ 'x' | trim(body) }}", 1),
        ("{{ 'x' | truncate(0, end=body) }}", 1),
        ("{{ body | length }}", 1),
        ("{{ (body | upper) == body }}", 2),
        ("{{ [body, body] | sort | length }}", 8),
        ("{{ [body, body] | unique | length }}", 6),
        ("{{ [1] | map(attribute='x', default=body) | length }}", 1),
        ("{{ body | tojson | length }}", 3),
    ] {
        let (_, work, _) = cost(source, &scope);
        assert!(work >= once * times, "{source} costs {work}");
        assert!(work <= once * (times + 3) + 20_100, "{source} costs {work}");
    }
    for source in ["{{ 1 if body }}", "{{ 1 if body is string }}", "{{ 1 if body is defined }}", "{{ body is none }}"] {
        let (_, work, made) = cost(source, &scope);
        assert!(work < 10 && made == 0, "{source} costs {work} and makes {made}: it needs no byte of the text");
    }
}

#[test]
fn a_loop_that_looks_at_a_large_text_ends_when_its_work_is_spent() {
    let scope = Big::of("a".repeat(MIB));
    for test in [
        "body is startingwith body",
        "body is endingwith body",
        "'b' in body",
        "body in 'b'",
        "body < body",
        "body in [body]",
        "['x'] | map('replace', body, '') | length > 1",
        "'x' | truncate(5, end=body) | length > 1",
        "[1] | map(attribute='x', default=body) | length > 1",
        "[body] | length > 1",
        "'x' | trim(body) | length > 1",
    ] {
        let source = format!("{{% for x in input.list %}}{{% if {test} %}}{{% endif %}}{{% endfor %}}");
        assert_eq!(cost(&source, &scope).0, Err(Cause::TooMuchWork), "{test}");
    }
}

#[test]
fn what_a_scope_makes_for_the_occasion_is_paid_as_a_copy() {
    struct Making;
    impl Scope for Making {
        fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s> {
            Lookup::new(Value::from("x".repeat(MIB)), path.len())
        }
    }
    let (_, _, made) = cost("{{ 1 if steps.writer.body == 'x' }}", &Making);
    assert!((MIB..2 * MIB).contains(&made), "{made}");
    let many = "{{ 1 if steps.writer.body == 'x' }}".repeat(20);
    assert_eq!(cost(&many, &Making).0, Err(Cause::TooMuchWork));
}

#[test]
fn all_texts_of_a_value_share_one_meter() {
    let scope = Big::of("a".repeat(MIB));
    let text = "{% for x in input.list %}{% if x == 'zz' %}{% endif %}{% endfor %}";
    let one = cost(text, &scope).1;
    let source = Value::List(vec![Value::from(text); 1_000_000 / one + 1]);
    let template = ValueTemplate::parse(&source).unwrap();
    let error = template.render(&scope, MAX_RENDER_BYTES).unwrap_err();
    assert_eq!(error.cause, Cause::TooMuchWork);
    assert_eq!(template.failing_leaf(&scope, &error), Some(format!("[{}]", 1_000_000 / one)));
}

#[test]
fn a_list_is_asked_for_element_by_element_and_only_for_what_is_read() {
    let asked = |source: &str| {
        let scope = Big::of("b".to_owned());
        let (rendered, ..) = cost(source, &scope);
        (rendered, scope.asked.into_inner())
    };
    let (rendered, questions) =
        asked("{% for b in branches %}{% if loop.index > 9998 %}{{ b.output.x }}{{ b.body }} {% endif %}{% endfor %}");
    assert_eq!(rendered, Ok("9998b 9999b ".to_owned()));
    assert_eq!(questions, ["9998.output.x", "9998.body", "9999.output.x", "9999.body"]);
    for (source, expected, questions) in [
        ("{{ branches[7].output.x }}", "7", ["7.output.x"].as_slice()),
        ("{{ branches[7].output.y | default('-') }}", "-", &["7.output.y"]),
        ("{{ branches[10000].body | default('-') }}", "-", &[]),
        ("{{ branches | length }}", "10000", &[]),
        ("{{ (branches | first).output.x }}", "0", &["0."]),
        ("{{ (branches | last).body }}", "b", &["9999."]),
        ("{{ 1 if branches }}{{ 2 if branches is defined }}", "12", &[]),
    ] {
        let (rendered, asked) = asked(source);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        assert_eq!((rendered, asked.as_slice()), (Ok(expected.to_owned()), questions));
    }
    let (rendered, questions) = asked("{{ branches | map(attribute='output.x') | sum }}");
    assert_eq!((rendered, questions.len()), (Ok("49995000".to_owned()), 10_000));
    assert_eq!(questions.first().map(String::as_str), Some("0.output.x"));
    let (rendered, _) = asked("{{ branches | selectattr('output.x', '<', 3) | map(attribute='body') | join }}");
    assert_eq!(rendered, Ok("bbb".to_owned()));
}

#[test]
fn a_loop_over_large_elements_holds_none_that_it_does_not_read() {
    let scope = Big::of("a".repeat(MIB));
    let (rendered, _, made) =
        cost("{% for b in branches %}{% if b.output.x == 5 %}{{ b.body | length }}{% endif %}{% endfor %}", &scope);
    assert_eq!(rendered, Ok(MIB.to_string()));
    assert!(made < 2 * MIB, "{made}");
    assert_eq!(cost("{{ branches | selectattr('body') | length }}", &scope).0, Err(Cause::TooMuchWork));
}

#[test]
fn names_of_nested_loops_reach_elements_that_are_given_one_by_one() {
    let scope = Big::of("b".to_owned());
    let scope = Big { list: Value::List(vec![Value::from("zz"); 2]), branches: 3, ..scope };
    let source = "{% for b in branches %}{% for x in input.list %}{% if loop.index < 3 %}{% if b.output.x < 1 %}\
                  {{ b.output.x }}{{ loop.index }}{{ x }}{% for c in branches %}{% if c.output.x == 1 %}{{ b.body }}{{ c.output.x }}\
                  {% endif %}{% endfor %}{% endif %}{% endif %}{% endfor %}{% endfor %}";
    assert_eq!(cost(source, &scope).0, Ok("01zzb102zzb1".to_owned()));
}

#[test]
fn a_value_that_is_made_is_no_deeper_than_one_that_may_enter_a_thread() {
    let nested = |levels: usize| (0..levels).fold(Value::from("x"), |value, _| Value::List(vec![value]));
    let scope: Value = [("body", nested(canonical::MAX_VALUE_DEPTH - 1))].into_iter().collect();
    let eval = |source: &str| Expr::parse(source).unwrap().eval(&scope).map_err(|error| error.cause);
    assert!(eval("[body]").is_ok());
    assert_eq!(eval("[[body]]"), Err(Cause::TooDeep));
    let render = |source: Value| {
        let made = ValueTemplate::parse(&source).unwrap().render(&scope, MAX_RENDER_BYTES);
        made.map(|_| ()).map_err(|error| error.cause)
    };
    assert_eq!(render(Value::List(vec![Value::from("{{ body }}")])), Ok(()));
    assert_eq!(render(Value::List(vec![Value::from("{{ [body] }}")])), Err(Cause::TooDeep));
    assert_eq!(render(Value::from("{{ [[body]] }}")), Err(Cause::TooDeep));
    assert_eq!(render(Value::from("{{ [[body]] | tojson | length }}")), Ok(()));
}

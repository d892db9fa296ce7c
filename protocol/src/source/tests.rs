use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Result<Node, SourceError> {
    read_json(text).whole()
}

fn value(text: &str) -> String {
    yaml(text).unwrap().to_value().to_text()
}

fn codes(text: &str) -> Vec<&'static str> {
    read_yaml(text).faults.iter().map(|fault| fault.code.as_str()).collect()
}

/// The code of the first fault and the text at its span.
fn fault(text: &str) -> (&'static str, &str) {
    let fault = yaml(text).unwrap_err();
    let Span { offset, length } = fault.span;
    (fault.code.as_str(), &text[offset..offset + length])
}

#[test]
fn only_true_and_false_are_booleans_and_digits_keep_their_form() {
    let text = "[true, false, True, TRUE, yes, no, on, off, y, 0042, -012, 1_000, 12:30, 2026-01-01, 0b11, 0x, 0o8, 1e, .e1, +, x]";
    let wanted = "[true,false,\"True\",\"TRUE\",\"yes\",\"no\",\"on\",\"off\",\"y\",\"0042\",\"-012\",\"1_000\",\"12:30\",\
                  \"2026-01-01\",\"0b11\",\"0x\",\"0o8\",\"1e\",\".e1\",\"+\",\"x\"]";
    assert_eq!(value(text), wanted);
    let numbers =
        "[0, -0, +12, 0x1F, 0o17, 18446744073709551615, -18446744073709551615, 1.0, -0.0, 1., .5, 1e3, 1e21, 007.5]";
    let wanted = "[0,0,12,31,15,18446744073709551615,-18446744073709551615,1,0,1,0.5,1000,1e+21,7.5]";
    assert_eq!(value(numbers), wanted);
    assert_eq!(value("[~, null, Null, NULL, \"null\", '~']"), "[null,null,null,null,\"null\",\"~\"]");
}

#[test]
fn numbers_that_would_lose_digits_or_are_not_finite_are_faults() {
    for number in ["18446744073709551616", "-18446744073709551616", "99999999999999999999999999999999999999999999"] {
        assert_eq!(fault(&format!("a: {number}")), ("RN0105", number));
        assert_eq!(json(&format!("[{number}]")).unwrap_err().code, Code::NumberOutOfRange);
    }
    for number in ["1e400", "-1e400", ".inf", "-.Inf", "+.INF", ".nan", ".NaN", "0xFFFFFFFFFFFFFFFFF"] {
        assert_eq!(fault(&format!("a: {number}")), ("RN0105", number));
    }
    assert_eq!(json("[1e400]").unwrap_err().code, Code::NumberOutOfRange);
}

#[test]
fn faults_that_do_not_end_the_reading_are_all_listed() {
    let text = "a: !x y\nb: 1e400\na: 2\n<<: { c: 1 }\n? [d]\n: e\nf: {{ g }}\n";
    assert_eq!(codes(text), ["RN0106", "RN0105", "RN0104", "RN0107", "RN0113", "RN0109"]);
    assert!(read_yaml(text).root.is_some());
    let text = "{\"a\": 1, \"a\": 1e999, \"b\": 99999999999999999999}";
    assert_eq!(read_json(text).faults.len(), 3);
}

#[test]
fn an_unquoted_template_is_read_as_the_text_it_was_meant_to_be() {
    let reading = read_yaml("a: {{ body }}\nb: [{{ x }}, y]\n");
    let root = reading.root.unwrap();
    assert_eq!(root.get("a").unwrap().kind, Kind::Str("{{ body }}".to_owned()));
    assert_eq!(reading.faults.len(), 2);
    assert_eq!(fault("a:\n  - {{ x }} and more\n"), ("RN0109", "{{"));
    assert_eq!(fault("a: {b: {{ x | join(\", \") }} c }\n"), ("RN0109", "{{"));
    assert_eq!(value("a: \"{{ x }}\"\nb: 'see {{ y }}'\nc: |\n  {{ z }}\n").matches("{{").count(), 3);
}

#[test]
fn a_comment_that_ends_a_text_too_early_is_named() {
    assert_eq!(fault("a: Fetch PR #12\n  and more\nb: 1\n"), ("RN0110", "#12"));
    assert_eq!(fault("a: { q: Fetch PR #12 }\n"), ("RN0110", "#12 }"));
    let text = "a: Fetch PR #12\nb: \"quoted\" #12\nc: x # y\nd: |\n  Fetch #12\n";
    let root = yaml(text).unwrap();
    let behind = |name: &str| comment_behind(text, root.get(name).unwrap()).map(|fault| &text[fault.span.range()]);
    assert_eq!(["a", "b", "c", "d"].map(behind), [Some("#12"), None, Some("# y"), None]);
}

#[test]
fn quotes_that_quote_nothing_are_named() {
    let told = |value: &str| {
        let text = format!("a: {value}\nb: 1\n");
        let node = yaml(&text).unwrap().get("a").unwrap().clone();
        quote_in_text(&text, &node).map(|fault| text[fault.span.offset..][..fault.span.length].to_owned())
    };
    for (value, quote) in [
        ("hello\" there", "\""),
        ("Write {{ x }}.\"", "\""),
        ("You write.'", "'"),
        ("“hello there”", "“"),
        ("„hallo“", "„"),
        ("‘hello’", "‘"),
    ] {
        assert_eq!(told(value).as_deref(), Some(quote), "{value}");
    }
    let meant = [
        "\"hello\"",
        "'say \"hello'",
        "say \"hello\" there",
        "a 6\" nail",
        "the writers' room",
        "of the writers'",
        "“one” and “two”",
        "he said “hello”",
        "|\n  hello\" there\n",
        "hello",
    ];
    for value in meant {
        assert_eq!(told(value), None, "{value}");
    }
}

#[test]
fn yaml_has_one_document_and_something_in_it() {
    assert_eq!(fault("a: 1\n---\nb: 2\n").0, "RN0108");
    assert_eq!(value("---\na: 1\n...\n"), "{\"a\":1}");
    for empty in ["", "\n\n", "# nothing\n", "---\n", "~", "\u{feff}"] {
        assert_eq!(yaml(empty).unwrap_err().code, Code::EmptyFile, "{empty:?}");
    }
    for empty in ["", " \n", "\u{feff}"] {
        assert_eq!(json(empty).unwrap_err().code, Code::EmptyFile, "{empty:?}");
    }
}

#[test]
fn aliases_repeat_values_and_never_themselves() {
    assert_eq!(value("a: &x { k: [1, 2] }\nb: *x\n"), "{\"a\":{\"k\":[1,2]},\"b\":{\"k\":[1,2]}}");
    assert_eq!(value("a: &x key\n*x : 1\n"), "{\"a\":\"key\",\"key\":1}");
    for cyclic in ["a: &x [*x]", "a: &x { b: *x }", "&x [*x]"] {
        assert_eq!(yaml(cyclic).unwrap_err().code, Code::YamlSyntax, "{cyclic}");
    }
    // Twenty levels within twenty levels are too deep, though each alone is not.
    let deep = format!("{}1{}", "[".repeat(20), "]".repeat(20));
    let text = format!("a: &x {deep}\nb: {}*x{}\n", "[".repeat(20), "]".repeat(20));
    assert_eq!(yaml(&text).unwrap_err().code, Code::TooLarge);
}

#[test]
fn a_json_file_is_read_strictly() {
    for text in [
        "{\"a\": 1,}",
        "[1,]",
        "[1 2]",
        "{a: 1}",
        "{'a': 1}",
        "// x\n1",
        "[1] // x",
        "01",
        "+1",
        ".5",
        "1.",
        "NaN",
        "\"\\x41\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"a\nb\"",
        "[",
        "{\"a\"",
        "tru",
        "\"a",
        "[1]]",
    ] {
        assert_eq!(json(text).unwrap_err().code, Code::JsonSyntax, "{text}");
    }
    assert_eq!(json("\u{feff} {\"\\u00e9\": \"\\ud83d\\ude00\"} ").unwrap().to_value().to_text(), "{\"é\":\"😀\"}");
}

/// The text at the location of `wanted` within the value of the key `a`.
fn place<'t>(text: &'t str, wanted: &str) -> &'t str {
    let root = if text.starts_with('{') { json(text) } else { yaml(text) }.unwrap();
    let node = root.get("a").unwrap();
    let Kind::Str(value) = &node.kind else { panic!("not a text") };
    let at = value.find(wanted).unwrap();
    let span = locate(text, node.span, value, &(at..at + wanted.len()));
    &text[span.offset..span.offset + span.length]
}

#[test]
fn a_place_in_a_text_is_found_in_the_file() {
    for text in [
        "a: one {{ x }} two",
        "a: \"one {{ x }} two\"",
        "a: 'it''s {{ x }}'",
        "a: \"\\u00e9\\n\\\"\\t {{ x }}\"",
        "a: |\n  one\n\n    two\n  {{ x }}\n",
        "a: >\n  one\n  two\n\n  three {{ x }}\n",
        "a: |2-\n    one\n   {{ x }}\n",
        "a: one\n  two\n\n  three {{ x }}\n",
        "b:\n  - 1\na: |\r\n  é\r\n  {{ x }}\r\n",
        "{\"a\": \"\\ud83d\\ude00 \\u0041\\n{{ x }}\"}",
    ] {
        assert_eq!(place(text, "{{ x }}"), "{{ x }}", "{text}");
    }
    // For a quoted text that is folded over lines, the location is the whole text.
    assert!(place("a: \"one\n  {{ x }}\"", "{{ x }}").starts_with('"'));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,100}") {
        let _ = read_yaml(&text);
        let _ = read_json(&text);
    }

    /// Texts made of the languages' own characters reach further than random ones.
    #[test]
    fn punctuation_is_read_or_refused(text in "[\\[\\]{}:,#&*!|>'\"%@`\\-? \n\t0-9a.\\\\u<~\u{feff}é]{0,60}") {
        for reading in [read_yaml(&text), read_json(&text)] {
            prop_assert!(reading.root.is_some() || !reading.faults.is_empty());
            for fault in &reading.faults {
                prop_assert!(fault.span.offset + fault.span.length <= text.len(), "{fault:?}");
                prop_assert!(text.is_char_boundary(fault.span.offset), "{fault:?}");
            }
        }
    }

    /// If one reader accepts a text, the other reads the same value.
    #[test]
    fn json_is_yaml(items in prop::collection::btree_map("[a-z ]{0,8}", "[a-zA-Z0-9 :#{}é\"\\\\\n]{0,12}", 0..6)) {
        let text = items.into_iter().map(|(key, text)| (key, Value::from(text))).collect::<Value>().to_text();
        prop_assert_eq!(yaml(&text).unwrap().to_value(), json(&text).unwrap().to_value());
    }

    #[test]
    fn a_place_never_leaves_its_text(value in "[a-z {}\n'\"é]{0,40}", start in 0..50_usize, length in 0..20_usize) {
        let text = format!("a: {}\nb: |\n  x\n", Value::from(value.as_str()).to_text());
        let root = yaml(&text).unwrap();
        let node = root.get("a").unwrap();
        let span = locate(&text, node.span, &value, &(start..start + length));
        prop_assert!(span.offset + span.length <= text.len());
    }
}

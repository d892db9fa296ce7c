use proptest::prelude::*;
use rondo_protocol::canonical;

use super::*;

fn field(schema: &str) -> Field {
    Field { optional: false, schema: canonical::parse(schema.as_bytes()).unwrap() }
}

fn optional(schema: &str) -> Field {
    Field { optional: true, ..field(schema) }
}

fn output(statuses: &[(&str, &[(&str, Field)])]) -> Ordered<Status, Ordered<FieldName, Field>> {
    let named = |fields: &[(&str, Field)]| {
        fields.iter().map(|(name, field)| (FieldName::new(name).unwrap(), field.clone())).collect()
    };
    statuses.iter().map(|(status, fields)| (Status::new(status).unwrap(), named(fields))).collect()
}

const TEXT: &str = r#"{"type":"string"}"#;
const TEXTS: &str = r#"{"type":"array","items":{"type":"string"}}"#;
const INTEGER: &str = r#"{"type":"integer"}"#;

fn editor(format: AnswerFormat) -> Contract {
    let statuses = output(&[
        ("approved", &[("summary", field(TEXT)), ("score", optional(INTEGER))]),
        ("revise", &[("comments", field(TEXTS)), ("weight", field(r#"{"enum":["minor","major"]}"#))]),
    ]);
    Contract::new(format, &statuses).unwrap()
}

fn writer(format: AnswerFormat) -> Contract {
    Contract::new(format, &output(&[("drafted", &[("title", field(TEXT))])])).unwrap()
}

fn title(front: &str) -> String {
    let answer = writer(AnswerFormat::Frontmatter).parse(&format!("---\n{front}\n---\n")).unwrap();
    answer.output.get("title").unwrap().as_str().unwrap().to_owned()
}

fn words(contract: &Contract, text: &str) -> String {
    contract.parse(text).unwrap_err().words
}

#[test]
fn a_text_is_the_rest_of_its_line_whatever_yaml_makes_of_it() {
    for (line, wanted) in [
        ("Tide pools: a primer", "Tide pools: a primer"),
        ("42", "42"),
        ("yes # really", "yes # really"),
        ("[draft] {one}", "[draft] {one}"),
        ("\"Tide pools\": a primer", "\"Tide pools\": a primer"),
        ("'tis the season", "'tis the season"),
        ("> what he said", "> what he said"),
        ("*important* & @all %", "*important* & @all %"),
        ("null", "null"),
        ("", ""),
        ("\"a \\\"b\\\" \\u00e9\"", "a \"b\" é"),
        ("'it''s'", "it's"),
        ("\"C:\\path\"", "\"C:\\path\""),
        ("  x  ", "x"),
    ] {
        assert_eq!(title(&format!("status: drafted\ntitle: {line}")), wanted, "{line}");
    }
}

#[test]
fn a_text_may_be_a_block() {
    assert_eq!(title("title: |\n  one: 1\n  two\nstatus: drafted"), "one: 1\ntwo\n");
    assert_eq!(title("title: >-\n  one\n  two"), "one two");
    assert_eq!(title("title: |-\n  ---\n  status: x"), "---\nstatus: x");
    assert_eq!(title("title:\n  First: good.\n\n    Second.\n\n"), "First: good.\n\n  Second.");
    assert_eq!(title("title: one\n  two"), "one\ntwo");
    assert_eq!(title("\"title\": \"one\n  two\""), "one two");
}

#[test]
fn the_items_of_a_list_of_texts_are_texts() {
    let contract = editor(AnswerFormat::Frontmatter);
    let comments = |list: &str| {
        let text = format!("---\nstatus: revise\ncomments:{list}\nweight: minor\n---\n");
        contract.parse(&text).map(|answer| answer.output.get("comments").unwrap().to_text())
    };
    for (list, wanted) in [
        ("\n  - Shorten: the intro\n  - 42\n  - \"a: b\"\n", r#"["Shorten: the intro","42","a: b"]"#),
        ("\n- one\n- two # three", r#"["one","two # three"]"#),
        (" # two of them\n  # first\n  - |\n    a\n    b\n  -\n  - c\n    d", r#"["a\nb\n","","c\nd"]"#),
        (" [a, \"b, c\"]", r#"["a","b, c"]"#),
        ("\n  [a,\n   b]", r#"["a","b"]"#),
        (" []", "[]"),
        (" [2026, 1.10, true, 556e174, a]", r#"["2026","1.10","true","556e174","a"]"#),
    ] {
        assert_eq!(comments(list).unwrap(), wanted, "{list}");
    }
    assert_eq!(comments(" Shorten").unwrap_err().words, "`comments` must be a list of texts, not the text `Shorten`");
    assert_eq!(comments(" [a").unwrap_err().words.lines().count(), 1);
}

#[test]
fn what_an_object_declares_as_a_text_is_the_text_that_stands_there() {
    let files = r#"{"type":"array","items":{"type":"object","properties":{"commit":{"type":"string"},"line":{"type":"integer"}}}}"#;
    let contract = Contract::new(AnswerFormat::Frontmatter, &output(&[("found", &[("files", field(files))])])).unwrap();
    for list in
        ["\n  - { commit: 556e174, line: 7 }", "\n  - commit: 556e174\n    line: 7", " [{ commit: 556e174, line: 7 }]"]
    {
        let answer = contract.parse(&format!("---\nfiles:{list}\n---\n")).unwrap();
        assert_eq!(answer.output.get("files").unwrap().to_text(), r#"[{"commit":"556e174","line":7}]"#, "{list}");
    }
}

#[test]
fn only_one_blank_line_stands_between_front_matter_and_body() {
    let contract = writer(AnswerFormat::Frontmatter);
    let body = |rest: &str| contract.parse(&format!("---\ntitle: x\n---{rest}")).unwrap().body;
    for (rest, wanted) in [
        ("", ""),
        ("\n", ""),
        ("\n\n", ""),
        ("\nbody", "body"),
        ("\n\nbody \n", "body \n"),
        ("\n\n\nbody\n\n", "\nbody\n\n"),
        ("\n  body", "  body"),
        ("  \r\n\r\nbody\r\n", "body\r\n"),
        ("\n---\nrule", "---\nrule"),
    ] {
        assert_eq!(body(rest), wanted, "{rest:?}");
    }
}

#[test]
fn a_code_fence_around_the_whole_is_no_part_of_the_answer() {
    let text = "```markdown\n---\nstatus: drafted\ntitle: x\n---\n\nbody\n```\n";
    assert_eq!(writer(AnswerFormat::Frontmatter).parse(text).unwrap().body, "body\n");
    let text = "```json\n{\"title\": \"x\", \"body\": \"b\"}\n```";
    assert_eq!(writer(AnswerFormat::Json).parse(text).unwrap().body, "b");
}

#[test]
fn one_status_need_not_be_said_and_line_ends_may_be_those_of_windows() {
    let answer = writer(AnswerFormat::Frontmatter).parse("\r\n---\r\ntitle: x\r\n---\r\n\r\nbody").unwrap();
    assert_eq!((answer.status.as_str(), answer.body.as_str()), ("drafted", "body"));
    assert_eq!(answer.output.to_text(), r#"{"title":"x"}"#);
    assert_eq!(writer(AnswerFormat::Json).parse(r#"{"title":"x"}"#).unwrap(), Answer { body: String::new(), ..answer });
}

#[test]
fn an_optional_field_may_be_absent_or_null() {
    for score in ["", "score: null\n", "score:\n"] {
        let text = format!("---\nstatus: approved # yes\nsummary: s\n{score}---\n");
        assert_eq!(editor(AnswerFormat::Frontmatter).parse(&text).unwrap().output.to_text(), r#"{"summary":"s"}"#);
    }
    let text = r#"{"status":"approved","summary":"s","score":null,"body":""}"#;
    assert_eq!(editor(AnswerFormat::Json).parse(text).unwrap().output.to_text(), r#"{"summary":"s"}"#);
}

#[test]
fn faults_say_what_to_mend() {
    let both = [
        ("", ""),
        ("Sure! Here it is.", "no"),
        ("---\nstatus: approved\n", "{\"status\": \"approved\""),
        ("---\nstatus: aproved\n---\n", r#"{"status":"aproved"}"#),
        ("---\nsummary: x\n---\n", r#"{"summary":"x"}"#),
        ("---\nstatus: approved\n---\n", r#"{"status":"approved"}"#),
        ("---\nstatus: approved\nsumary: x\n---\n", r#"{"status":"approved","sumary":"x"}"#),
        (
            "---\nstatus: approved\nsummary: x\nverdict: y\n---\n",
            r#"{"status":"approved","summary":"x","verdict":"y"}"#,
        ),
        (
            "---\nstatus: approved\nsummary: x\nscore: many\n---\n",
            r#"{"status":"approved","summary":"x","score":"many"}"#,
        ),
        (
            "---\nstatus: revise\ncomments: [1, 2]\nweight: huge\n---\n",
            r#"{"status":"revise","comments":[1,2],"weight":"huge","body":3}"#,
        ),
        (
            "---\nstatus: approved\nsummary: x\nsummary: y\n---\n",
            r#"{"status":"approved","summary":"x","summary":"y"}"#,
        ),
        ("---\nstatus: approved\nsummary: x\ngoes on\n---\n", r#"["approved"]"#),
        ("```\n---\nstatus: approved\nsummary: x\n---\nbody", r#"{"status":7}"#),
        ("---\nstatus: approved\nsummary: x\nscore: [1\n---\n", r#"{"status":"approved","summary":"x","score":1e400}"#),
    ];
    let mut shown = String::new();
    for (frontmatter, json) in both {
        for (contract, text) in [(editor(AnswerFormat::Frontmatter), frontmatter), (editor(AnswerFormat::Json), json)] {
            let faults = words(&contract, text).replace('\n', "\n  ");
            shown.extend([format!("{text:?}\n  {faults}\n")]);
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn what_is_too_long_is_a_fault() {
    let long = "x".repeat(MAX_ANSWER_BYTES + 1);
    assert_eq!(words(&writer(AnswerFormat::Json), &long), "the answer is longer than 8 MiB");
    let long = format!("---\ntitle: {}\n---\n", "x".repeat(MAX_FRONT_MATTER_BYTES));
    assert!(words(&writer(AnswerFormat::Frontmatter), &long).starts_with("the front matter is longer than 1 MiB"));
    let deep = format!("{{\"title\":{}", "[".repeat(100_000));
    assert!(words(&writer(AnswerFormat::Json), &deep).contains("nested deeper"));
    let long = format!("---\nstatus: revise\nweight: minor\ncomments:\n{}---\n", "- \"\n".repeat(100_000));
    assert!(words(&editor(AnswerFormat::Frontmatter), &long).starts_with("`comments` must be a list of texts"));
    let contract = Contract::new(AnswerFormat::Frontmatter, &output(&[("x", &[("a", field("{}"))])])).unwrap();
    assert!(words(&contract, &format!("---\na: {}\n---\n", "[".repeat(100_000))).len() < 1000);
}

#[test]
fn what_is_nested_too_deep_is_a_fault_that_says_so() {
    let contract = Contract::new(AnswerFormat::Json, &output(&[("done", &[("tree", field("{}"))])])).unwrap();
    let answer = |levels: usize| format!("{{\"tree\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
    let most = rondo_protocol::canonical::MAX_VALUE_DEPTH - 1;
    assert!(contract.parse(&answer(most)).unwrap().output.check_depth().is_ok());
    for levels in [most + 1, 125, 100_000] {
        assert_eq!(
            words(&contract, &answer(levels)),
            "the answer is not one JSON object that can be read: lists and objects are nested deeper than 64 levels"
        );
    }
}

#[test]
fn a_repair_names_only_the_first_faults() {
    let fields: Vec<String> = (0..50_000).map(|n| format!("field_{n}: x")).collect();
    let words = words(&writer(AnswerFormat::Frontmatter), &format!("---\n{}\n---\n", fields.join("\n")));
    assert_eq!(words.lines().count(), MAX_FAULTS + 1);
}

/// The contract whose text the page of layout 1 shows.
fn documented(format: AnswerFormat) -> Contract {
    let statuses = output(&[
        (
            "approved",
            &[("summary", field(r#"{"type":"string","description":"one sentence"}"#)), ("score", optional(INTEGER))],
        ),
        (
            "revise",
            &[
                ("comments", field(TEXTS)),
                ("weight", field(r#"{"enum":["minor","major"]}"#)),
                ("places", field(r#"{"type":"array","items":{"type":"integer"}}"#)),
            ],
        ),
    ]);
    Contract::new(format, &statuses).unwrap()
}

#[test]
fn the_words_are_those_of_the_page() {
    let page = include_str!("../../../engine/docs/layout-1.md");
    let broken = "---\nstatus: revise\ncomments: [a]\nwight: minor\n---\n";
    let fault = documented(AnswerFormat::Frontmatter).parse(broken).unwrap_err();
    for words in [
        documented(AnswerFormat::Frontmatter).text(),
        documented(AnswerFormat::Json).text(),
        documented(AnswerFormat::Json).response_format().unwrap(),
        repair_text(&fault),
    ] {
        assert!(page.contains(&format!("\n~~~text\n{words}\n~~~\n")), "not on engine/docs/layout-1.md:\n{words}");
    }
    assert_eq!(documented(AnswerFormat::Frontmatter).response_format(), None);
}

fn properties(contract: &Contract) -> String {
    let schema = contract.response_format().unwrap();
    assert!(is_strict(&canonical::parse(schema.as_bytes()).unwrap()), "{schema}");
    let (properties, rest) = schema.split_once(r#","required":"#).unwrap();
    let names = rest.strip_suffix(r#","additionalProperties":false}"#).unwrap();
    assert_eq!(names.matches(',').count() + 1, names.matches('"').count() / 2, "{names}");
    properties.strip_prefix(r#"{"type":"object","properties":{"status":{"type":"string","enum":"#).unwrap().to_owned()
}

#[test]
fn the_fields_of_all_statuses_stand_in_one_object_each_name_once() {
    let short = || field(r#"{"type":"string","maxLength":9}"#);
    let contract =
        |statuses: &[(&str, &[(&str, Field)])]| Contract::new(AnswerFormat::Json, &output(statuses)).unwrap();
    let null = r#"{"type":"null"}"#;
    // Required by all, with the same schema on the wire.
    let same = contract(&[("b", &[("x", field(TEXT))]), ("a", &[("x", short())])]);
    assert_eq!(properties(&same), format!(r#"["b","a"]}},"x":{TEXT},"body":{TEXT}}}"#));
    // With several schemas, in declared order.
    let several = contract(&[("b", &[("x", field(TEXT))]), ("a", &[("x", field(INTEGER))]), ("c", &[("x", short())])]);
    let any = format!(r#"{{"anyOf":[{TEXT},{INTEGER}]}}"#);
    assert_eq!(properties(&several), format!(r#"["b","a","c"]}},"x":{any},"body":{TEXT}}}"#));
    // Not declared, or optional, in some status; in order of first declaration.
    let partly = contract(&[
        ("b", &[("x", field(TEXT)), ("z", field(TEXT))]),
        ("a", &[("y", field(INTEGER)), ("x", optional(INTEGER)), ("z", optional(TEXT))]),
    ]);
    let (text, whole) = (format!(r#"{{"anyOf":[{TEXT},{null}]}}"#), format!(r#"{{"anyOf":[{INTEGER},{null}]}}"#));
    let both = format!(r#"{{"anyOf":[{TEXT},{INTEGER},{null}]}}"#);
    assert_eq!(properties(&partly), format!(r#"["b","a"]}},"x":{both},"z":{text},"y":{whole},"body":{TEXT}}}"#));
    // A schema that is already `null` is not doubled.
    let nothing = contract(&[("a", &[("x", optional(null))])]);
    assert_eq!(properties(&nothing), format!(r#"["a"]}},"x":{null},"body":{TEXT}}}"#));
}

#[test]
fn an_answer_is_read_by_the_status_it_chose() {
    let editor = editor(AnswerFormat::Json);
    let held = r#"{"status":"revise","summary":null,"score":null,"comments":["a"],"weight":"minor","body":"b"}"#;
    assert_eq!(editor.parse(held).unwrap().output.to_text(), r#"{"comments":["a"],"weight":"minor"}"#);
    let other = held.replacen("null", "\"x\"", 1);
    assert!(words(&editor, &other).starts_with("`summary` is not a field of status `revise`"));
    let missing = held.replacen("[\"a\"]", "null", 1);
    assert_eq!(words(&editor, &missing), "`comments` must be a list of texts, not nothing");
    let unread = held.replacen("null", "7", 2);
    assert_eq!(words(&editor, &unread).lines().count(), 2);

    // Constraints left out of the schema on the wire are still checked.
    let short = output(&[("a", &[("x", field(r#"{"type":"string","maxLength":2}"#))])]);
    let short = Contract::new(AnswerFormat::Json, &short).unwrap();
    assert!(!short.response_format().unwrap().contains("maxLength"));
    assert!(words(&short, r#"{"status":"a","x":"long","body":""}"#).starts_with("`x` must be a text"));
}

#[test]
fn null_at_an_optional_field_is_no_value_even_where_it_would_keep_the_schema() {
    let any = Contract::new(AnswerFormat::Json, &output(&[("a", &[("x", optional("{}"))])])).unwrap();
    assert_eq!(any.parse(r#"{"x":null}"#).unwrap().output.to_text(), "{}");
    let needed = Contract::new(AnswerFormat::Json, &output(&[("a", &[("x", field("{}"))])])).unwrap();
    assert_eq!(needed.parse(r#"{"x":null}"#).unwrap().output.to_text(), r#"{"x":null}"#);
}

#[test]
fn one_status_has_a_plain_object_as_its_schema() {
    let schema = writer(AnswerFormat::Json).response_format().unwrap();
    assert_eq!(
        schema,
        r#"{"type":"object","properties":{"status":{"type":"string","enum":["drafted"]},"title":{"type":"string"},"body":{"type":"string"}},"required":["status","title","body"],"additionalProperties":false}"#
    );
}

#[test]
fn a_schema_that_cannot_be_compiled_is_named() {
    let broken = output(&[("x", &[("a", field(r#"{"type":"integr"}"#))])]);
    let error = Contract::new(AnswerFormat::Json, &broken).unwrap_err();
    assert_eq!((error.status.as_str(), error.field.as_str()), ("x", "a"));
}

/// Texts that are hard for YAML, JSON or Markdown readers.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ -~]{0,12}",
        prop::sample::select(vec![
            "---",
            "\n---\n",
            "\n",
            "\r\n",
            "\r",
            "\t",
            " ",
            ": ",
            " #",
            "\"",
            "'",
            "\\",
            "- ",
            "|",
            ">",
            "```",
            "~~~",
            "status: x",
            "{",
            "[",
            "*",
            "&",
            "!",
            "%",
            "@",
            "`",
            "true",
            "null",
            "no",
            "0x1F",
            "1e3",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "\0",
            "\u{7f}",
            "é",
            "😀",
            "\u{fffe}",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-canonical::MAX_INTEGER..=canonical::MAX_INTEGER).prop_map(Value::Int),
        any::<f64>().prop_filter_map("finite", |number| Value::number(number).ok()),
        nasty().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(nasty(), inner, 0..4).prop_map(Value::Object),
        ]
    })
}

fn anything(format: AnswerFormat) -> Contract {
    let fields: &[(&str, Field)] = &[("text", field(TEXT)), ("texts", field(TEXTS)), ("any", optional("{}"))];
    Contract::new(format, &output(&[("a", fields), ("b-c", &[])])).unwrap()
}

proptest! {
    #[test]
    fn what_is_rendered_is_read_back(
        text in nasty(),
        texts in prop::collection::vec(nasty(), 0..4),
        any in prop::option::of(any_value()),
        body in nasty(),
    ) {
        for format in [AnswerFormat::Frontmatter, AnswerFormat::Json] {
            let contract = anything(format);
            let texts = Value::List(texts.iter().cloned().map(Value::from).collect());
            let mut fields = vec![("text", Value::from(text.clone())), ("texts", texts)];
            fields.extend(any.clone().map(|value| ("any", value)));
            let fields: Value = fields.into_iter().collect();
            let rendered = contract.render("a", &fields, &body);
            let answer = contract.parse(&rendered);
            // `null` for an optional field means that it is missing.
            let fields = match fields {
                Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
                other => other,
            };
            prop_assert_eq!(answer, Ok(Answer { status: Status::new("a").unwrap(), output: fields, body: body.clone() }), "{}", rendered);
            let empty = contract.parse(&contract.render("b-c", &Value::Null, &body)).unwrap();
            prop_assert_eq!((empty.status.as_str(), &empty.body), ("b-c", &body));
        }
    }

    /// One part of an answer that is read while it is written is that part of the whole.
    #[test]
    fn what_is_streamed_is_what_is_read(text in nasty(), body in nasty(), cut in any::<prop::sample::Index>()) {
        for format in [AnswerFormat::Frontmatter, AnswerFormat::Json] {
            let fields: Value = [("text", Value::from(text.clone())), ("texts", Value::List(Vec::new()))].into_iter().collect();
            let rendered = anything(format).render("a", &fields, &body);
            let cuts: Vec<usize> = (0..=rendered.len()).filter(|at| rendered.is_char_boundary(*at)).collect();
            let (first, second) = rendered.split_at(*cut.get(&cuts));
            let stream = |part| {
                let mut reader = StreamedAnswer::only(part, format);
                reader.push(first) + &reader.push(second)
            };
            prop_assert_eq!(stream(AnswerPart::Body), body.clone(), "{}", rendered);
            let field = if format == AnswerFormat::Json { text.as_str() } else { "" };
            prop_assert_eq!(stream(AnswerPart::Field("text".to_owned())), field, "{}", rendered);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in nasty(), front in nasty(), lines in prop::collection::vec(nasty(), 0..4)) {
        for format in [AnswerFormat::Frontmatter, AnswerFormat::Json] {
            let contract = anything(format);
            let _ = contract.parse(&text);
            let _ = contract.parse(&format!("---\nstatus: a\ntext:{text}\ntexts:{}\nany: {front}\n---\n{text}", lines.join("\n -")));
            let _ = contract.parse(&format!("{{\"status\":\"a\",\"text\":{text}"));
        }
    }

    /// A line without quotes or leading marks is its own scalar.
    #[test]
    fn a_plain_line_is_its_own_text(line in "[a-zA-Z0-9][ -~]{0,40}[a-zA-Z0-9]") {
        prop_assert_eq!(title(&format!("title: {line}")), line);
    }
}

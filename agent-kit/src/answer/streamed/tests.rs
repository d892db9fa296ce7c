use rondo_protocol::workflow::AnswerFormat;

use super::{AnswerPart, StreamedAnswer};

const ANSWERS: [(&str, &str); 12] = [
    (
        "{\"status\": \"revise\", \"why\": \"too \\\"long\\\"\", \"n\": 3, \"all\": [\"a\", {\"what\": \"b\"}], \"body\": \"One\\ntwo\"}",
        "too \"long\"\na\nb\nOne\ntwo",
    ),
    ("```json\n{\"body\": \"x\", \"status\": \"ok\"}\n```\n", "x"),
    ("{\"body\": \"caf\\u00e9 \\ud83c\\udf0a \\ud83c!\", \"status\": \"ok\"} and more", "café 🌊 !"),
    ("{\"inner\": {\"status\": \"shown\"}, \"status\": \"not\"}", "shown"),
    ("---\nstatus: done\n---\n\nTwice a day\nthe sea leaves.\n", "Twice a day\nthe sea leaves.\n"),
    (
        "\n---\nstatus: revise\ntitle: \"Six hours\"\ncomments:\n  - Begin with one animal.\n  - 'Say: when'\nlong: |-\n  a line\n---\nBody",
        "Six hours\nBegin with one animal.\nSay: when\na line\nBody",
    ),
    ("Only words, {not} JSON.", "Only words, {not} JSON."),
    ("- a list\n- of words", "- a list\n- of words"),
    ("--- no front matter", "--- no front matter"),
    ("`code` first", "`code` first"),
    ("```yaml\n---\nstatus: done\n---\nx", "x"),
    ("", ""),
];

#[test]
fn the_words_are_those_between_the_wrapping() {
    for (answer, words) in ANSWERS {
        assert_eq!(StreamedAnswer::default().push(answer), words, "{answer}");
    }
}

#[test]
fn it_does_not_matter_where_an_answer_is_cut() {
    for (answer, words) in ANSWERS {
        let cuts: Vec<usize> = (0..=answer.len()).filter(|at| answer.is_char_boundary(*at)).collect();
        for first in &cuts {
            for second in cuts.iter().filter(|second| *second >= first) {
                let parts = [&answer[..*first], &answer[*first..*second], &answer[*second..]];
                let mut reader = StreamedAnswer::default();
                assert_eq!(parts.map(|part| reader.push(part)).concat(), words, "{parts:?}");
            }
        }
    }
}

#[test]
fn one_part_is_told_from_all_others_or_not_given_at_all() {
    let read = |part: AnswerPart, format, answer: &str| StreamedAnswer::only(part, format).push(answer);
    let field = |name: &str| AnswerPart::Field(name.to_owned());
    let json = r#"{"status": "ok", "why": "a \"b\"", "in": {"why": "no", "body": ["no"]}, "body": "One\r\ntwo"} why"#;
    let front = "\n---\nstatus: ok\nwhy: because\n---\n\n\n  One\n---\ntwo \n";
    for (part, format, answer, words) in [
        (AnswerPart::Body, AnswerFormat::Json, json, "One\r\ntwo"),
        (field("why"), AnswerFormat::Json, json, "a \"b\""),
        (field("in"), AnswerFormat::Json, json, ""),
        (AnswerPart::Body, AnswerFormat::Frontmatter, front, "\n  One\n---\ntwo \n"),
        (field("why"), AnswerFormat::Frontmatter, front, ""),
        // What only the whole can tell.
        (AnswerPart::Body, AnswerFormat::Json, front, ""),
        (AnswerPart::Body, AnswerFormat::Frontmatter, json, ""),
        (AnswerPart::Body, AnswerFormat::Frontmatter, "Words.\n---\nstatus: ok\n---\nx", ""),
        (AnswerPart::Body, AnswerFormat::Frontmatter, "```\n---\nstatus: ok\n---\nx\n```", ""),
    ] {
        assert_eq!(read(part.clone(), format, answer), words, "{part:?} of {answer}");
    }
}

#[test]
fn nesting_and_long_lines_are_bounded() {
    let deep = format!("{}\"x\"", "{\"a\":[".repeat(5_000));
    assert_eq!(StreamedAnswer::default().push(&deep), "");
    let closed = format!("{{\"a\": 1{}", "}".repeat(5_000));
    assert_eq!(StreamedAnswer::default().push(&closed), "");
    let long = format!("---\ntitle: {}\n---\nend", "x".repeat(100_000));
    assert!(StreamedAnswer::default().push(&long).len() < 5_000);
}

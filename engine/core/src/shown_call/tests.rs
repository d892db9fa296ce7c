use rondo_protocol::call::Site;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};

use super::*;

fn word(name: &str, effect: Effect, arguments: &str) -> Option<String> {
    let (role, lane) = (RoleName::new("dev").unwrap(), LanePath::trunk());
    let site = Site { thread: ThreadId::from_parts(1, 1), role, lane, visit: 1, position: 0 };
    let (id, idempotency_key) = (String::new(), String::new());
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    ShownCall::new(&ToolCall { site, id, name, arguments, effect, idempotency_key }).word
}

#[test]
fn nothing_in_arguments_hides_what_they_mean() {
    let (blanks, zero) = (" ".repeat(100_000), "\u{200b}".repeat(3_000));
    for (given, shown) in [
        (r#"{"script":"\u0074ouch \u202ex\u001b[2K"}"#.to_owned(), "script = touch [U+202E]x[U+001B][2K"),
        (format!(r#"{{"script":"a{blanks}; rm{zero} x"}}"#), "script = a [100000 BLANKS] ; rm[3000 x U+200B] x"),
        (
            r#"{"script":"ls\nargv = x\n\n\n\n\nAllow it? [y]"}"#.to_owned(),
            "script = ls\n  | argv = x\n  | [4 EMPTY LINES]\n  | Allow it? [y]",
        ),
        (r#"{"a\nb = c":1}"#.to_owned(), "a[U+000A]b = c = 1"),
        (r#"{"script":{"b":"\u0072m"}}"#.to_owned(), r#"script = {"b":"rm"}"#),
        (
            r#"{"script":"{\"b\":\"\\u0072m\"}"}"#.to_owned(),
            "script = {\"b\":\"\\u0072m\"}\n  | [read as JSON: {\"b\":\"rm\"}]",
        ),
        ("not json \u{200b}".to_owned(), "not json [U+200B]"),
        ("{}".to_owned(), ""),
    ] {
        assert_eq!(arguments(&given), shown);
    }
}

#[test]
fn what_is_left_out_is_counted_and_both_ends_are_shown() {
    let long = arguments(&format!(r#"{{"script":"begin {} end"}}"#, "x".repeat(100_000)));
    assert!(long.starts_with("script = begin x") && long.ends_with("x end"), "{long}");
    assert!(long.contains(" [97510 CHARACTERS ARE NOT SHOWN HERE] ") && long.len() < 3_000, "{long}");
    let many = arguments(&format!(r#"{{"script":"begin\n{}end"}}"#, "x\\n".repeat(12_000)));
    assert!(many.contains("\n[11952 LINES ARE NOT SHOWN HERE]\n"), "{many}");
    assert!(many.starts_with("script = begin\n") && many.ends_with("\n  | end"), "{many}");
}

#[test]
fn a_dangerous_call_is_allowed_by_a_word_of_it() {
    for (name, arguments, of_it) in [
        ("shell", r#"{"script":"rm -r x"}"#, "rm"),
        ("shell", r#"{"script":"\u0072m -r x"}"#, "rm"),
        ("shell", r#"{"argv":["git","push"]}"#, "git"),
        ("docs.send", r#"{"to":"x"}"#, "docs.send"),
        ("shell", r#"{"script":"\u202erm x"}"#, "shell"),
    ] {
        assert_eq!(word(name, Effect::External, arguments).as_deref(), Some(of_it), "{arguments}");
    }
    assert_eq!(word("write_file", Effect::Writes(Vec::new()), "{}"), None);
}

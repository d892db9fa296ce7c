use proptest::prelude::*;

use super::*;

fn slowly(text: &str) -> Result<Vec<u8>, Error> {
    to_bytes(&from_slice::<Value>(text.as_bytes())?)
}

/// The law of the module, for one text.
fn check(text: &str) {
    assert_eq!(of_text(text).map(Cow::into_owned), slowly(text), "{text:?}");
}

#[test]
fn a_plain_text_loses_its_blanks_and_its_members_are_ordered() {
    for (text, wanted) in [
        (
            r#"{"path": "src/module_7/mod.rs", "from_line": 7, "to_line": 40}"#,
            r#"{"from_line":7,"path":"src/module_7/mod.rs","to_line":40}"#,
        ),
        (" \t\r\n{ } ", "{}"),
        ("[ 1 ,-2,\n0 , true,false , null,[ ] ]", "[1,-2,0,true,false,null,[]]"),
        (r#"[{"b":{"d":1,"c":[2]},"a":0},3]"#, r#"[{"a":0,"b":{"c":[2],"d":1}},3]"#),
        (r#"{"b" :{"z": 1}, "ab":"x y","a": " "}"#, r#"{"a":" ","ab":"x y","b":{"z":1}}"#),
        ("{\"\u{ff5e}\":1,\"😀\":2,\"é\":3,\"\":4}", "{\"\":4,\"é\":3,\"\u{ff5e}\":1,\"😀\":2}"),
        ("\"\u{7f}\u{2028}/'\"", "\"\u{7f}\u{2028}/'\""),
        ("-999999999999999999", "-999999999999999999"),
    ] {
        assert_eq!(plain(text).as_deref(), Some(wanted.as_bytes()), "{text}");
        check(text);
    }
}

#[test]
fn what_is_canonical_already_is_borrowed() {
    for text in [r#"{"a":[1,"x y"],"b":{}}"#, "7", "  [null]\n"] {
        assert!(matches!(of_text(text), Ok(Cow::Borrowed(bytes)) if bytes == text.trim().as_bytes()), "{text}");
        check(text);
    }
}

#[test]
fn what_is_not_plain_is_left_to_the_reader_and_the_writer() {
    for text in [
        "",
        " ",
        "\u{feff}{}",
        "\u{a0}1",
        "{}{}",
        "[1]]",
        "{} x",
        "tru",
        "truee",
        "True",
        "nul",
        "NaN",
        "Infinity",
        "'a'",
        "-0",
        "-",
        "--1",
        "+1",
        "00",
        "01",
        "-01",
        "0.0",
        "1.0",
        "1.",
        ".5",
        "1e3",
        "1E3",
        "0e0",
        "1e400",
        "1x",
        "0x1",
        "1234567890123456789",
        "-18446744073709551615",
        "18446744073709551616",
        "100000000000000000000",
        "1e20",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        r#""\n""#,
        r#""\u0061""#,
        r#""\/""#,
        r#""\ud800""#,
        r#""\ud83d\ude00""#,
        "\"a\tb\"",
        "\"a\0b\"",
        "\"\u{1f}\"",
        "[",
        "[,",
        "[,1]",
        "[1,]",
        "[1 2]",
        "[1}",
        "{",
        "{,}",
        "{1:2}",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1]",
        "{\"a\":1",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"b\":2,\"a\":1}",
        r#"{"a":1,"\u0061":2}"#,
        r#"{"\u0062":1,"a":2}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        r#"{"z":1,"b":{"$serde_json::private::Number":1}}"#,
        "1\u{0}",
        "[1]\u{b}",
        "{}\u{c}",
        "// a\n1",
    ] {
        assert_eq!(plain(text), None, "{text:?}");
        check(text);
    }
}

#[test]
fn deep_texts_are_left_to_the_reader_and_bounded_by_it() {
    for levels in
        [1, MAX_PLAIN_DEPTH, MAX_PLAIN_DEPTH + 1, super::super::MAX_DEPTH, super::super::MAX_DEPTH + 1, 100_000]
    {
        for (open, close) in [("[", "]"), ("{\"a\": ", "}"), ("[{\"b\":1,\"a\":", "}]")] {
            let levels_each = open.matches(['[', '{']).count();
            for text in [open.repeat(levels), format!("{}1{}", open.repeat(levels), close.repeat(levels))] {
                check(&text);
                let is_plain = text.ends_with(close) && levels * levels_each <= MAX_PLAIN_DEPTH;
                assert_eq!(plain(&text).is_some(), is_plain, "{levels} of {open}");
            }
        }
    }
}

/// Eight bytes are read at once, so every byte is tried at every position in its word.
#[test]
fn every_byte_of_a_string_is_seen_wherever_it_stands() {
    for length in 0..20 {
        for at in 0..=length {
            for letter in ('\0'..='\u{ff}').chain(['\u{2028}', '\u{ffff}', '😀']) {
                let mut text = "\"".to_owned() + &"a".repeat(length) + "\" ";
                text.insert(1 + at, letter);
                let is_plain = letter >= ' ' && letter != '\\' && letter != '"';
                assert_eq!(plain(&text).is_some(), is_plain, "{text:?}");
                check(&text);
            }
        }
    }
}

/// Every text of up to five of these tokens.
#[test]
fn short_texts_are_all_read_as_the_reader_reads_them() {
    let tokens = ["{", "}", "[", "]", "\"a\"", "\"b\":", ":", ",", "0", "-", "1", ".5", " ", "null"];
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        texts = texts.iter().flat_map(|text| tokens.map(|token| format!("{text}{token}"))).collect();
        for text in &texts {
            check(text);
        }
    }
    texts.retain(|text| text.starts_with(['{', '[']));
    for text in texts {
        for token in tokens {
            check(&format!("{text}{token}"));
        }
    }
}

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 2 => Just(" ".to_owned()), 1 => "[ \t\r\n]{1,9}"]
}

/// Integers and strings in canonical form, from few keys, so that a key is often out of order.
fn plain_leaf() -> BoxedStrategy<String> {
    prop_oneof![
        prop::sample::select(vec!["null", "true", "false", "0", "{}", "[]", "\"\""]).prop_map(str::to_owned),
        (-999_999_999_999_999_999_i64..=999_999_999_999_999_999).prop_map(|number| number.to_string()),
        "\"[ -!#-\\[\\]-~é\u{7f}\u{2028}😀]{0,24}\"",
    ]
    .boxed()
}

/// Texts that the reader accepts or refuses because of one token.
fn any_leaf() -> BoxedStrategy<String> {
    prop_oneof![
        6 => plain_leaf(),
        1 => any::<f64>().prop_map(|number| format!("{number:e}")),
        1 => any::<f64>().prop_map(|number| number.to_string()),
        1 => any::<i128>().prop_map(|number| number.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => "-?[0-9]{0,22}(\\.[0-9]{0,3})?([eE][+-]?[0-9]{0,3})?",
        1 => "\"([a-c\"\t\u{1}]|\\\\[\"\\\\/bfnrtux]|\\\\u[0-9a-fD]{4}|\\\\ud83d\\\\ude00){0,6}\"",
        1 => any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
        1 => prop::sample::select(vec!["1.0", "-0", "-0.0", "1e3", "nul", "\u{feff}", "18446744073709551615",
            "18446744073709551616", "100000000000000000000", "\"\\ud800\"", "{\"a\":1,\"a\":1}", ""])
            .prop_map(str::to_owned),
    ]
    .boxed()
}

fn plain_key() -> BoxedStrategy<String> {
    prop_oneof![3 => "\"[a-d]{0,2}\"", 1 => "\"[a-c_é\u{ff5e}😀 ]{3,12}\""].boxed()
}

fn any_key() -> BoxedStrategy<String> {
    prop_oneof![
        12 => plain_key(),
        1 => prop::sample::select(vec!["\"\\u0061\"", "\"a\\n\"", "\"$serde_json::private::Number\"", "1", "a", "\"a"])
            .prop_map(str::to_owned),
    ]
    .boxed()
}

/// Lists and objects of `leaf`, with blanks wherever they are allowed. With `unique`, only the first of equal keys stays.
fn nested(leaf: BoxedStrategy<String>, key: BoxedStrategy<String>, unique: bool) -> BoxedStrategy<String> {
    leaf.prop_recursive(6, 40, 6, move |inner| {
        let item =
            (blank(), inner.clone(), blank()).prop_map(|(before, item, behind)| before + &item + &behind).boxed();
        let member = (blank(), key.clone(), blank(), item.clone());
        prop_oneof![
            prop::collection::vec(item, 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..6).prop_map(move |mut members| {
                let mut seen = std::collections::BTreeSet::new();
                members.retain(|(_, key, ..)| !unique || seen.insert(key.clone()));
                let members =
                    members.into_iter().map(|(before, key, behind, item)| format!("{before}{key}{behind}:{item}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
    .boxed()
}

/// Damages a text: cuts it, or inserts, changes or removes a letter.
fn harmed(text: &str, harm: u8, at: prop::sample::Index, letter: char) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let at = at.index(letters.len() + 1);
    match harm {
        0 => letters.truncate(at),
        1 => letters.insert(at, letter),
        2 if at < letters.len() => letters[at] = letter,
        3 if at < letters.len() => drop(letters.remove(at)),
        4 => letters.insert(0, '\u{feff}'),
        _ => {}
    }
    letters.into_iter().collect()
}

fn any_letter() -> impl Strategy<Value = char> {
    prop_oneof![prop::sample::select("{}[]\",:0-1.eE \\\n\u{1}nt".chars().collect::<Vec<_>>()), any::<char>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_plain_text_takes_the_fast_way(text in nested(plain_leaf(), plain_key(), true)) {
        prop_assert!(plain(&text).is_some(), "{text:?}");
        check(&text);
        let canonical = String::from_utf8(slowly(&text).unwrap()).unwrap();
        prop_assert!(matches!(plain(&canonical), Some(Cow::Borrowed(bytes)) if bytes == canonical.as_bytes()));
    }

    #[test]
    fn any_text_has_the_bytes_or_the_error_of_the_slow_way(
        text in nested(any_leaf(), any_key(), false),
        levels in prop_oneof![4 => Just(0_usize), 1 => 0..140_usize],
    ) {
        check(&(("[".repeat(levels) + &text) + &"]".repeat(levels)));
    }

    #[test]
    fn a_harmed_text_has_the_bytes_or_the_error_of_the_slow_way(
        text in nested(plain_leaf(), plain_key(), false),
        harm in 0..5_u8,
        at in any::<prop::sample::Index>(),
        letter in any_letter(),
    ) {
        check(&harmed(&text, harm, at, letter));
    }

    #[test]
    fn any_letters_have_the_bytes_or_the_error_of_the_slow_way(text in any::<String>()) {
        check(&text);
    }
}

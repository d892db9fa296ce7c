use proptest::prelude::*;

use crate::redact::{Pattern, Redactor};

const KEYS: [(&str, &str); 2] = [("KEY", "sk-12345678"), ("OTHER", "aab-aab-aab")];

fn redactor(patterns: &[&str]) -> Redactor {
    Redactor::new(KEYS.map(|(name, key)| (name.to_owned(), key.to_owned())))
        .with_patterns(patterns.iter().map(|text| Pattern::new(text).unwrap()))
}

/// The output of a stream after each piece, and at the end.
fn streamed(redactor: &Redactor, pieces: &[&str]) -> Vec<String> {
    let mut stream = redactor.stream();
    let mut out: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
    out.push(stream.finish());
    out
}

#[test]
fn matches_become_the_names_of_their_patterns() {
    let email = r"(?<email>[\w.+-]+@[\w-]+\.[\w.-]*\w)";
    let pem = r"(?s)-----BEGIN.*?-----END[^-]*-----";
    for (patterns, text, wanted) in [
        (&[email][..], "to a.b+c@example.org, or not", "to [redacted:email], or not"),
        (&[r"\d+"], "1 sk-12345678 2", "[redacted:pattern] [redacted:KEY] [redacted:pattern]"),
        // Keys are redacted first, and no match reaches into a mark.
        (&[r"sk-\d+"], "sk-12345678 sk-1234", "[redacted:KEY] [redacted:pattern]"),
        (&[r"\w+"], "a sk-12345678", "[redacted:pattern] [redacted:KEY]"),
        (&[r"(?s).+"], "ab\nsk-12345678é", "[redacted:pattern][redacted:KEY][redacted:pattern]"),
        // Only this redactor's own marks count as marks.
        (
            &[r"\d+"],
            "[redacted:4111] [redacted:KEY] [redacted:K",
            "[redacted:[redacted:pattern]] [redacted:KEY] [redacted:K",
        ),
        // In order.
        (&["(?<one>ab)", "(?<two>[a-c]+)"], "abc", "[redacted:one][redacted:two]"),
        (&["(?<two>[a-c]+)", "(?<one>ab)"], "abc", "[redacted:two]"),
        (&[pem], "a\n-----BEGIN KEY-----\nx\n-----END KEY-----\n-----END", "a\n[redacted:pattern]\n-----END"),
        // Leftmost, and the first alternative at one position.
        (&["a|ab"], "ab", "[redacted:pattern]b"),
        (&["ab|a"], "ab a", "[redacted:pattern] [redacted:pattern]"),
        (&["^a"], "aa", "[redacted:pattern]a"),
        (&["(?m)^a$"], "a\naa\na", "[redacted:pattern]\naa\n[redacted:pattern]"),
        (&[r"\b\d{3}"], "123456 7890", "[redacted:pattern]456 [redacted:pattern]0"),
    ] {
        let redactor = redactor(patterns);
        assert_eq!(redactor.text(text), wanted, "{patterns:?}");
        assert_eq!(redactor.text(wanted), wanted, "{patterns:?} once more");
    }
}

/// Next to a mark no word and no line begins; otherwise these texts would change when redacted again.
#[test]
fn redaction_brings_forth_no_new_match() {
    for (patterns, text, wanted) in [
        (&[r"\bfoo", "x"][..], "xfoo", "[redacted:pattern]foo"),
        (&[r"^x|\bfoo"], "xfoofoo", "[redacted:pattern]foofoo"),
        (&[r"foo\b", "x"], "foofoox", "foofoo[redacted:pattern]"),
        (&["^foo", "x"], "xfoo", "[redacted:pattern]foo"),
        (&["(?m)^foo", "x"], "\nxfoo", "\n[redacted:pattern]foo"),
        (&["(?m)o$", "x+"], "oxx\no\n", "o[redacted:pattern]\n[redacted:pattern]\n"),
        (&[r"\bé", "x"], "xé é", "[redacted:pattern]é [redacted:pattern]"),
        (&[r"(?-u:\ba)", "x"], "xa a éa", "[redacted:pattern]a [redacted:pattern] é[redacted:pattern]"),
    ] {
        let redactor = redactor(patterns);
        assert_eq!(redactor.text(text), wanted, "{patterns:?}");
        assert_eq!(redactor.text(wanted), wanted, "{patterns:?} once more");
    }
}

#[test]
fn a_stream_lets_go_of_what_is_settled() {
    for (patterns, pieces, wanted) in [
        // To the end of the line.
        (
            &[r"[^\s@]+@[^\s@]+"][..],
            &["to a@b", " or c\nto ", "d@e", "\n", "f"][..],
            &["", "to [redacted:pattern] or c\n", "", "to [redacted:pattern]\n", "", "f"][..],
        ),
        // The maximum match length, and one character more.
        (&[r"(?-u:[0-9\n]{3}\b)"], &["abcd", "12", "3", " !..."], &["a", "bc", "d", "[redacted:pattern] !", "..."]),
        // From where a match may begin to the end of the text.
        (
            &["(?s)<<.*?>>"],
            &["a < b\n", "c <", "d <", "<e>> f", "<<"],
            &["a < b\n", "c ", "<d ", "", "", "[redacted:pattern] f<<"],
        ),
        // All of it.
        (&["(?s)[^a]+?a"], &["b\n", "bab", "b"], &["", "", "", "[redacted:pattern]bb"]),
        // A mark is part of no match, so everything before it is settled.
        (
            &["(?s)[^a]*?b"],
            &["ab ", "sk-123", "45678", " b"],
            &["", "", "a[redacted:pattern] [redacted:KEY]", "", "[redacted:pattern]"],
        ),
    ] {
        let redactor = redactor(patterns);
        let out = streamed(&redactor, pieces);
        assert_eq!(out.concat(), redactor.text(&pieces.concat()), "{patterns:?}");
        assert_eq!(out, wanted, "{patterns:?}");
    }
}

#[test]
fn a_stream_may_be_used_for_another_text() {
    let mut stream = redactor(&["^a"]).stream();
    for _ in 0..2 {
        assert_eq!(stream.push("aa\n") + &stream.finish(), "[redacted:pattern]a\n");
    }
}

#[test]
fn a_value_is_redacted_in_texts_and_names_of_members() {
    let redactor = redactor(&[r"(?<number>\d+)"]);
    let mut value = rondo_protocol::canonical::parse(br#"{"1":["2 sk-12345678",3,{"a4":"b"}]}"#).unwrap();
    redactor.value(&mut value);
    let wanted = r#"{"[redacted:number]":["[redacted:number] [redacted:KEY]",3,{"a[redacted:number]":"b"}]}"#;
    assert_eq!(value.to_text(), wanted);
}

#[test]
fn patterns_are_added_to_patterns() {
    let redactor = redactor(&["(?<one>1)"]).with_patterns([Pattern::new("(?<two>[1-2])").unwrap()]);
    assert_eq!(redactor.text("12 sk-12345678"), "[redacted:one][redacted:two] [redacted:KEY]");
    assert_eq!(redactor.with_patterns([]).text("12"), "[redacted:one][redacted:two]");
}

/// A long text in many small pieces takes linear time: each byte is searched a bounded number of times.
#[test]
fn a_long_stream_of_small_pieces_is_redacted_in_linear_time() {
    for pattern in [r"[^\s@]+@x", r"(?s)[^b]+b{9}", r"\d{3}[\s-]\d{3}", "(?s)<<.*>>", "<a*>"] {
        let redactor = redactor(&[pattern]);
        let mut stream = redactor.stream();
        let mut bytes = 0;
        for _ in 0..50_000 {
            bytes += stream.push("<<[a").len();
        }
        bytes += stream.finish().len();
        assert_eq!(bytes, 200_000);
    }
}

const PATTERNS: [&str; 26] = [
    r"(?<email>[\w.+-]+@[\w-]+\.[\w.-]+)",
    r"[^\s@]+@[^\s@]+",
    r"\b\d{3}-\d{2}-\d{4}\b",
    r"\b(?:\d[ -]?){13,16}\b",
    r"(?s)-----BEGIN.*?-----END[^-]*-----",
    r"\p{Lu}\p{Ll}+",
    r"[^a]+",
    r"\w+",
    r"\W+",
    r"\s+",
    "a|ab|abb",
    "abb|ab|a",
    "a+?b?",
    "(?:ab)+",
    "(?m)^a+",
    "(?m)b+$",
    r"^\S+",
    r"\S+$",
    r"\Aa|\bb|c\b|\n-",
    r"\b{start}\w{1,3}",
    r"\w\b{end}.",
    r"(?-u:\b[a-z]{2}\b)",
    "(?s).{1,3}",
    r"(?i)redacted",
    r"\[|\]|:",
    "é.?|😀",
];

/// An unusual pattern.
fn odd_pattern() -> impl Strategy<Value = String> {
    let atoms = [
        "a",
        "b",
        "[ab]",
        "[^a]",
        ".",
        r"\n",
        r"\w",
        r"\W",
        r"\s",
        "é",
        r"\[",
        "-",
        r"\b",
        "^",
        "$",
        "(?m:^)",
        "(?m:$)",
        r"\z",
        r"(?-u:\b)",
        r"\b{start}",
        r"\b{end}",
    ];
    let atom = prop::sample::select(atoms.to_vec()).prop_map(str::to_owned);
    atom.prop_recursive(4, 16, 4, |inner| {
        let repeated = prop::sample::select(vec!["?", "*", "+", "??", "*?", "+?", "{2}", "{1,3}", "{1,3}?"]);
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.concat())),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => (inner, repeated).prop_map(|(inner, repeated)| format!("(?:{inner}){repeated}")),
        ]
    })
}

fn patterns() -> impl Strategy<Value = Vec<Pattern>> {
    let text = prop_oneof![prop::sample::select(PATTERNS.to_vec()).prop_map(str::to_owned), odd_pattern()];
    let pattern = text.prop_filter_map("a pattern that is refused", |text| Pattern::new(&text).ok());
    prop::collection::vec(pattern, 1..4)
}

fn text() -> impl Strategy<Value = String> {
    let known = vec![
        "sk-12345678",
        r"sk\u002d12345678",
        "aab-aab-aab",
        "[redacted:KEY]",
        "[redacted:pattern]",
        "[redacted:email]",
        "[redacted:",
        "joe@example.org",
        "078-05-1120",
        "4111 1111 1111 1111",
        "-----BEGIN A-----\nab\n-----END A-----",
        "Émile ",
        "\n",
        "\r\n",
    ];
    let piece = prop_oneof![
        3 => prop::sample::select(known).prop_map(str::to_owned),
        4 => r"[ab \n\-]{0,8}",
        1 => "[aé😀\\[\\]1]{0,6}",
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// The text in pieces, cut at these positions.
fn cut<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_pieces_of_a_stream_make_up_the_redacted_whole(patterns in patterns(), text in text(), cuts in prop::collection::vec(0..10_000_usize, 0..12)) {
        let redactor = redactor(&[]).with_patterns(patterns);
        let whole = redactor.text(&text).into_owned();
        prop_assert_eq!(streamed(&redactor, &cut(&text, &cuts)).concat(), &*whole);
        let chars: Vec<&str> = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect();
        prop_assert_eq!(streamed(&redactor, &chars).concat(), whole);
    }

    #[test]
    fn redacting_again_changes_nothing(patterns in patterns(), text in text()) {
        let redactor = redactor(&[]).with_patterns(patterns);
        let once = redactor.text(&text).into_owned();
        prop_assert_eq!(redactor.text(&once), &*once);
    }

    /// Without marks, one pattern acts as search and replace.
    #[test]
    fn without_marks_every_match_is_replaced(pattern in patterns(), text in r"[ab\n é-]{0,24}") {
        let pattern = &pattern[0];
        let redactor = Redactor::default().with_patterns([pattern.clone()]);
        let regex = regex_automata::meta::Regex::new(pattern.as_str()).unwrap();
        let mut wanted = String::new();
        let mut read = 0;
        for found in regex.find_iter(&text) {
            wanted.push_str(&text[read..found.start()]);
            wanted.push_str(pattern.replacement());
            read = found.end();
        }
        wanted.push_str(&text[read..]);
        prop_assert_eq!(redactor.text(&text), wanted);
    }
}

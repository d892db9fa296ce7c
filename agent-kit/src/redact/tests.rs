use proptest::prelude::*;

use super::*;

fn redactor(secrets: &[(&str, &str)]) -> Redactor {
    Redactor::new(secrets.iter().map(|(name, secret)| ((*name).to_owned(), (*secret).to_owned())))
}

#[test]
fn keys_become_their_names() {
    let redactor = redactor(&[("SHORT", "sk-12345"), ("LONG", "sk-12345678"), ("ODD", "a\"b\\c/d\ne")]);
    for (text, wanted) in [
        ("", ""),
        ("nothing here: sk-1234", "nothing here: sk-1234"),
        ("sk-12345", "[redacted:SHORT]"),
        ("sk-123456", "[redacted:SHORT]6"),
        ("é sk-12345678sk-12345", "é [redacted:LONG][redacted:SHORT]"),
        (r#"{"key":"a\"b\\c/d\ne"}"#, r#"{"key":"[redacted:ODD]"}"#),
        (r#"{"key":"a\"b\\c\/d\ne"}"#, r#"{"key":"[redacted:ODD]"}"#),
        ("a\"b\\c/d\ne!", "[redacted:ODD]!"),
        (r"sk\u002d12345 \x73k-1234\u0035678", "[redacted:SHORT] [redacted:LONG]"),
        (r"\U00000073k-12345\u", r"[redacted:SHORT]\u"),
        (r"\u0073k-1234 \u00 \uzzzzsk-12345", r"\u0073k-1234 \u00 \uzzzz[redacted:SHORT]"),
    ] {
        assert_eq!(redactor.text(text), wanted);
    }
    assert!(matches!(redactor.text("untouched"), Cow::Borrowed(_)));
}

#[test]
fn a_short_value_is_ignored_with_a_reason() {
    let redactor = redactor(&[("PIN", "1234567"), ("KEY", "12345678")]);
    assert_eq!(redactor.ignored(), [Ignored { name: "PIN".to_owned(), reason: "it is shorter than 8 bytes" }]);
    assert_eq!(redactor.text("1234567 12345678"), "1234567 [redacted:KEY]");
    assert!(!format!("{redactor:?}").contains("12345678"));
    let secret = Secret { name: "KEY".to_owned(), value: "12345678".to_owned() };
    assert_eq!(format!("{secret:?}"), "Secret(KEY)");
}

#[test]
fn texts_and_keys_of_a_value_are_redacted_and_no_member_is_lost() {
    let redactor = redactor(&[("A", "secret-a"), ("AA", "secret-a2")]);
    let text = r#"{"secret-a":[1,"x secret-a2"],"[redacted:A]":null,"n":{"k":true}}"#;
    let mut value = rondo_protocol::canonical::parse(text.as_bytes()).unwrap();
    redactor.value(&mut value);
    assert_eq!(value.to_text(), r#"{"[redacted:A]":null,"[redacted:A]'":[1,"x [redacted:AA]"],"n":{"k":true}}"#);
}

/// Secrets that overlap, begin alike, contain each other and are not ASCII.
const SECRETS: [(&str, &str); 6] = [
    ("A", "aaaaaaaa"),
    ("B", "aaaaaaaab"),
    ("C", "aabaabaabaab"),
    ("D", "\"é😀\\/x\""),
    ("E", "baaaaaaaa"),
    ("F", "[redacted:A]"),
];

fn text_with_secrets() -> impl Strategy<Value = String> {
    let secrets: Vec<&str> = SECRETS.iter().map(|(_, secret)| *secret).collect();
    let piece = prop_oneof![
        3 => prop::sample::select(secrets).prop_map(str::to_owned),
        2 => "[ab]{0,12}",
        1 => any::<String>(),
        1 => prop::sample::select(vec![r#"\u0022\xe9\ud83d\uDE00\u005c/x\""#, r"\ud83d\u0022", "\\\"é😀\\\\/x\\\"", "\\\"é😀\\\\\\/x\\\"", "\"é😀"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// The text in pieces, cut at these places.
fn cut<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut places: Vec<usize> =
        cuts.iter().map(|cut| cut % (text.len() + 1)).filter(|cut| text.is_char_boundary(*cut)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    /// Law `no_secret`, and the pieces of a stream make up the redacted whole.
    #[test]
    fn no_secret_survives_however_a_text_is_cut(text in text_with_secrets(), cuts in prop::collection::vec(0..10_000_usize, 0..12)) {
        let redactor = redactor(&SECRETS[..5]);
        let whole = redactor.text(&text).into_owned();
        for (_, secret) in &SECRETS[..5] {
            prop_assert!(!whole.contains(secret), "{}", whole);
        }
        let mut stream = redactor.stream();
        // Twelve characters, each spelt with up to twelve bytes.
        let longest = 12 * 12;
        let mut joined = String::new();
        for piece in cut(&text, &cuts) {
            joined.push_str(&stream.push(piece));
            prop_assert!(stream.held.len() < longest);
        }
        joined.push_str(&stream.finish());
        prop_assert_eq!(joined, whole);
    }

    #[test]
    fn a_text_without_secrets_is_untouched(text in any::<String>()) {
        let redactor = redactor(&[("K", "never-in-a-random-text")]);
        prop_assert_eq!(redactor.text(&text), text.as_str());
    }
}

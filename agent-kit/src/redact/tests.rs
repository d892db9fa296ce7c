#![expect(clippy::format_collect, reason = "how long a test takes to spell a key does not matter")]

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
fn a_short_value_is_ignored() {
    let redactor = redactor(&[("PIN", "1234567"), ("KEY", "12345678")]);
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

/// Standard base64 with padding, for any length.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for index in 0..4 {
            let sextet = (bits >> (18 - 6 * index) & 63) as usize;
            out.push(if index > group.len() { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    out
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// As `URLSearchParams` and most libraries write it.
fn form(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| match byte {
            b' ' => "+".to_owned(),
            byte if plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02x}"),
        })
        .collect()
}

fn html(text: &str) -> String {
    let named = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    named.iter().fold(text.to_owned(), |text, (plain, entity)| text.replace(plain, entity))
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap().trim_matches('"').to_owned()
}

/// Typical keys, and unreasonable ones.
const KEYS: [(&str, &str); 7] = [
    ("API", "sk-proj-AbC123_xyz789"),
    ("PASSWORD", "p@ss w+rd&<it's>\"/\\?="),
    ("URL", "postgres://u:p%40ss%25@db/x?a=1&amp;b=2"),
    ("ESCAPED", "a\\n\\\\b\\u0041%zz&#x;c"),
    ("UMLAUTS", "größe-😀-ключ"),
    ("BASE64", "+/8wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY="),
    ("SHORTEST", "12345678"),
];

#[test]
fn a_key_is_found_in_every_usual_encoding() {
    let redactor = redactor(&KEYS);
    for (name, key) in KEYS {
        let mark = format!("[redacted:{name}]");
        let entities: [String; 3] = [
            key.chars().map(|c| format!("&#{};", u32::from(c))).collect(),
            key.chars().map(|c| format!("&#x{:04x};", u32::from(c))).collect(),
            key.chars().map(|c| format!("&#X{:X};", u32::from(c))).collect(),
        ];
        let lower_percent = percent(key).to_ascii_lowercase();
        let mixed: String = key
            .chars()
            .enumerate()
            .map(|(at, c)| if at % 2 == 0 { percent(&c.to_string()) } else { c.to_string() })
            .collect();
        let alone = [
            key.to_owned(),
            hex(key),
            hex(key).to_ascii_uppercase(),
            percent(key),
            lower_percent,
            form(key),
            form(key).replace('+', "%20"),
            html(key),
            json(key),
            json(&html(key)),
            json(&form(key)),
            format!("{key:?}").trim_matches('"').to_owned(),
        ];
        for spelt in alone.iter().chain(&entities) {
            assert_eq!(redactor.text(&format!("<{spelt}>")), format!("<{mark}>"), "{name} as {spelt}");
        }
        // A mixture of encodings is ambiguous if the key itself looks encoded.
        if !key.contains('%') {
            assert_eq!(redactor.text(&mixed), mark, "{name} as {mixed}");
        }
    }
}

#[test]
fn a_key_is_found_in_base64_wherever_it_stands() {
    let redactor = redactor(&KEYS);
    for (name, key) in KEYS {
        for user in ["", "u", "us", "use", "user:", "some user:"] {
            for after in ["", "\n", "ab", "abc", " and more"] {
                let whole = base64(format!("{user}{key}{after}").as_bytes());
                let url = whole.replace('+', "-").replace('/', "_");
                let wrapped: Vec<String> =
                    whole.as_bytes().chunks(19).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
                let spellings = [
                    whole.clone(),
                    whole.trim_end_matches('=').to_owned(),
                    url.clone(),
                    url.trim_end_matches('=').to_owned(),
                    form(&whole),
                    whole.replace('/', "\\/"),
                    wrapped.join("\n"),
                    wrapped.join("\r\n"),
                    json(&wrapped.join("\n")),
                ];
                for spelt in spellings {
                    let out = redactor.text(&spelt).into_owned();
                    // On either side up to three characters hold bits of both the key and a neighbour.
                    let mark = format!("[redacted:{name}]");
                    let (before, behind) =
                        out.split_once(&mark).unwrap_or_else(|| panic!("{name} is in {spelt}: {out}"));
                    let most = |text: &str| text.len() * 4 / 3 + 3;
                    assert!(before.len() <= most(user), "{spelt}: {out}");
                    assert!(behind.len() <= 3 * most(after), "{spelt}: {out}");
                }
            }
        }
    }
}

#[test]
fn a_long_line_of_a_key_is_a_key() {
    let body = [
        "MIIEpAIBAAKCAQEA1c7+9z5Pad7OejecsQ0bu3aumKNFrnL0p",
        "  RkGxrqZkqEq8W1MKtQy1ZbcZkX3P0c6wT1ukYjT3J9vQF1wkz",
        "short==",
    ];
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", body.join("\n"));
    let redactor = redactor(&[("PEM", &key)]);
    assert_eq!(redactor.text(&format!("a{key}b")), "a[redacted:PEM]b");
    let text = format!("   2\t{}\r\n   3\t{}\nshort== -----END RSA PRIVATE KEY-----", body[0], body[1].trim());
    let wanted = "   2\t[redacted:PEM]\r\n   3\t[redacted:PEM]\nshort== -----END RSA PRIVATE KEY-----";
    assert_eq!(redactor.text(&text), wanted);
}

#[test]
fn what_only_looks_like_a_key_stays() {
    let redactor = redactor(&KEYS);
    for text in [
        "1234567 %31%32%33%34%35%36%37 31323334353637",
        "sk-proj-AbC123_xyz78 sk%2Dproj%2DAbC123_xyz78&#39;",
        // One base64 character less than the key determines.
        &base64(b"sk-proj-AbC123_xyz789")[1..27],
        "\\ % & &# &#x &am %4 %e2%82 \\u \\u{ \\ud83d &#99999999; &#x110000; &unknown; &#x00000000000031;",
    ] {
        assert_eq!(redactor.text(text), text);
        let mut stream = redactor.stream();
        let pieces: String = text.chars().map(|c| stream.push(&c.to_string())).collect();
        assert_eq!(pieces + &stream.finish(), text);
    }
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
        3 => encoded_secret(),
        1 => prop::sample::select(vec![r#"\u0022\xe9\ud83d\uDE00\u005c/x\""#, r"\ud83d\u0022", "\\\"é😀\\\\/x\\\"", "\\\"é😀\\\\\\/x\\\"", "\"é😀"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// A secret as part of a longer encoded text, or a part of such a text.
fn encoded_secret() -> impl Strategy<Value = String> {
    let secrets: Vec<&str> = SECRETS.iter().map(|(_, secret)| *secret).collect();
    let around = ("[a😀]{0,4}", prop::sample::select(secrets), "[b\"]{0,4}");
    let encodings: Vec<fn(&str) -> String> = vec![
        |text| base64(text.as_bytes()),
        |text| base64(text.as_bytes()).replace('+', "-").replace('/', "_"),
        |text| {
            json(
                &base64(text.as_bytes())
                    .as_bytes()
                    .chunks(5)
                    .map(String::from_utf8_lossy)
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
        },
        hex,
        |text| hex(text).to_ascii_uppercase(),
        percent,
        form,
        html,
        |text| text.chars().map(|c| format!("&#x{:x};", u32::from(c))).collect(),
        |text| json(&form(text)),
    ];
    (around, prop::sample::select(encodings), 0..8_usize).prop_map(|((before, secret, after), encode, cut)| {
        let encoded = encode(&format!("{before}{secret}{after}"));
        let stays = encoded.floor_char_boundary(encoded.len().saturating_sub(cut.saturating_sub(4)));
        encoded[..stays].to_owned()
    })
}

/// The text in pieces, cut at these positions.
fn cut<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut places: Vec<usize> =
        cuts.iter().map(|cut| cut % (text.len() + 1)).filter(|cut| text.is_char_boundary(*cut)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    /// Law `no_secret`; and the pieces of a stream equal the redacted whole.
    #[test]
    fn no_secret_survives_however_a_text_is_cut(text in text_with_secrets(), cuts in prop::collection::vec(0..10_000_usize, 0..12)) {
        let redactor = redactor(&SECRETS[..5]);
        let whole = redactor.text(&text).into_owned();
        for (_, secret) in &SECRETS[..5] {
            prop_assert!(!whole.contains(secret), "{}", whole);
            prop_assert!(!whole.to_ascii_lowercase().contains(&hex(secret)), "{}", whole);
            prop_assert!(!whole.contains(&form(secret)) && !whole.contains(&html(secret)), "{}", whole);
        }
        let mut stream = redactor.stream();
        // Two hex digits for each of sixteen bytes, each spelt with up to twelve bytes after a line break.
        let longest = 2 * 16 * (12 + 2 * 12);
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

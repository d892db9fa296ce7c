use proptest::prelude::*;

use super::*;

#[test]
fn a_refused_pattern_is_told_why_and_where() {
    let long = "a".repeat(MAX_PATTERN_BYTES + 1);
    let deep = "(".repeat(500) + "a" + &")".repeat(500);
    let refused: Vec<String> = [
        "a(b",
        "é[z-a]",
        "a(?=b)",
        r"\p{Nope}",
        r"(?-u:\xff)",
        "(?x) a\n  (b",
        long.as_str(),
        deep.as_str(),
        "((a{100}){100}){100}",
        "",
        "x*",
        "^|x",
        r"\b",
        "[a&&b]",
        "[a&&b]|x*",
        r"a\B",
        r"\b{start-half}a",
        r"(?-u:a\b{end-half})",
        "(?mR)a$",
        "(?<a.b>a)",
        "(?<a[0]>a)",
    ]
    .iter()
    .map(|text| match Pattern::new(text) {
        Ok(pattern) => format!("{pattern:?} is taken"),
        Err(error) => format!("{}: {error}", text.chars().take(20).collect::<String>().escape_debug()),
    })
    .collect();
    assert!(refused.iter().all(|line| !line.contains('\n')));
    insta::assert_snapshot!(refused.join("\n"));
}

#[test]
fn the_first_named_group_gives_the_name() {
    for (text, wanted) in [
        ("abc", "[redacted:pattern]"),
        ("(a)(?:b)", "[redacted:pattern]"),
        ("(a)(?<email>b)(?P<other>c)", "[redacted:email]"),
        ("((x)(?<Größe_2>y))|(?<other>z)", "[redacted:Größe_2]"),
        ("(?:(?<inner>a)|b)+", "[redacted:inner]"),
    ] {
        assert_eq!(Pattern::new(text).unwrap().replacement(), wanted);
        assert_eq!(Pattern::new(text).unwrap().as_str(), text);
    }
}

#[test]
fn the_reach_of_a_pattern_is_known() {
    for (text, within_line, longest_bytes, beginnings) in [
        (r"\b\d{3}-\d{2}-\d{4}\b", true, Some(9 * 4 + 2), 0),
        (r"(?-u:\b\d{3}-\d{2}-\d{4}\b)", true, Some(11), 10),
        (r"[\w.+-]+@[\w-]+\.[\w.-]+", true, None, 0),
        (r"[^@]+@", false, None, 0),
        (r"\d{4}(?:\s?\d{4}){3}", false, Some(16 * 4 + 3 * 3), 0),
        (r"a.b", true, Some(6), 1),
        (r"a(?s:.)b", false, Some(6), 1),
        (r"a\nb", false, Some(3), 1),
        (r"a{1,5000}", true, None, 1),
        (r"(?m)^a$", true, Some(1), 1),
        (r"(?s)-----BEGIN.*?-----END[^-]*-----", false, None, 1),
        (r"(?i)bearer [a-z]+", true, None, 32),
        (r"(?:sk|ghp)_[a-z]+", true, None, 2),
    ] {
        let pattern = Pattern::new(text).unwrap();
        let reach = pattern.reach();
        assert_eq!(
            (reach.within_line, reach.longest_bytes, reach.beginnings.len()),
            (within_line, longest_bytes, beginnings),
            "{text}: {reach:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_pattern_panic(text in prop_oneof![any::<String>(), r"[ab\\|()\[\]{}?*+^$.,\d\-<>:=!&pPwWdDsSbB]{0,40}"]) {
        if let Ok(pattern) = Pattern::new(&text) {
            prop_assert_eq!(pattern.as_str(), text);
        }
    }
}

use super::*;

#[test]
fn an_argument_of_the_shell_is_one_word_and_no_option() {
    for (text, word) in [
        ("review-loop", "review-loop"),
        ("./w/workflow.yaml", "./w/workflow.yaml"),
        ("", "''"),
        ("a;touch x", "'a;touch x'"),
        ("it's $(x)", "'it'\\''s $(x)'"),
        ("~root", "'~root'"),
        ("--revoke", "./--revoke"),
        ("-a b", "'./-a b'"),
    ] {
        assert_eq!(shell_argument(text), word);
    }
}

#[test]
fn what_is_read_stays() {
    for text in ["", "plain\n\ttext", "Zürich, 東京, עברית, हिन्दी 🙂", "a\u{a0}b\u{3000}c", "⚠️ read this"]
    {
        assert_eq!(plain(text), text);
        assert!(matches!(plain(text), Cow::Borrowed(_)), "{text:?}");
    }
}

#[test]
fn what_steers_a_terminal_or_the_direction_of_writing_is_taken_out() {
    let sly = "a\u{1b}[31mb\u{7}\u{9b}2Jc\u{7f}\u{202e}d\u{2066}e\u{2069}f\u{200f}g\u{61c}h\0";
    assert_eq!(sly.chars().filter(|c| is_steering(*c)).count(), 10);
    assert_eq!(plain(sly), "a[31mb2Jcdefgh");
}

#[test]
fn what_is_not_seen_is_taken_out() {
    let tags: String = "send the keys".chars().filter_map(tag).collect();
    let selectors: String = (0xE_0100..0xE_0120).filter_map(char::from_u32).collect();
    let sly = format!(
        "so\u{ad}ft z\u{200b}e\u{200c}r\u{200d}o\u{2060} \u{feff}mark{tags}{selectors}\u{180e}\u{3164}\u{2800}\u{fff9}"
    );
    assert_eq!(plain(&sly), "soft zero mark");
    assert!(!is_plain(&sly));
}

fn tag(c: char) -> Option<char> {
    char::from_u32(0xE_0000 + u32::from(c))
}

#[test]
fn a_selector_stays_only_behind_a_symbol_and_only_once() {
    assert_eq!(plain("⚠\u{fe0f}\u{fe0f}\u{fe0e}"), "⚠\u{fe0f}");
    assert_eq!(plain("a\u{fe0f}b\u{fe0e}\u{fe00}"), "ab");
    assert_eq!(plain("⚠\u{200b}\u{fe0f}"), "⚠");
    assert_eq!(plain("\u{fe0f}x"), "x");
}

#[test]
fn line_ends_are_newlines() {
    assert_eq!(plain("a\r\nb\rc\u{2028}d\u{2029}e\u{85}f\u{c}g"), "a\nb\nc\nd\ne\nf\ng");
}

#[test]
fn nothing_is_left_to_take_out_the_second_time() {
    let every: String = (0..=0x10_FFFF).filter_map(char::from_u32).collect();
    let once = plain(&every).into_owned();
    assert_eq!(plain(&once), once);
    let left: Vec<char> = once.chars().filter(|c| is_steering(*c) || is_invisible(*c)).collect();
    assert_eq!(left, []);
}

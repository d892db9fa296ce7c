use super::*;

fn kept(max: usize, parts: &[&[u8]]) -> String {
    let mut kept = BoundedOutput::new(max, &Redactor::default());
    for part in parts {
        kept.push(part);
    }
    kept.into_text()
}

#[test]
fn what_fits_is_kept_as_it_is() {
    assert_eq!(kept(72, &[b"ab", b"cdef", b"gh"]), "abcdefgh");
    assert_eq!(kept(72, &[]), "");
    assert_eq!(kept(72, &[b"a\xFFb\xE2\x82"]), "a?b?");
}

#[test]
fn the_middle_is_left_out_with_a_mark() {
    let expected = "ab\n[... 4 bytes left out ...]\nghijkl";
    assert_eq!(kept(72, &[b"abcdefghijkl"]), expected);
    assert_eq!(kept(72, &[b"abc", b"defghi", b"j", b"kl"]), expected);
}

#[test]
fn a_character_is_not_cut_through() {
    let expected = "a\n[... 6 bytes left out ...]\nfghij";
    assert_eq!(kept(72, &["aäbcüfghij".as_bytes()]), expected);
}

#[test]
fn memory_and_text_stay_small_whatever_comes() {
    let mut kept = BoundedOutput::new(1000, &Redactor::default());
    let flood = vec![0xFF; 1 << 20];
    (0..64).for_each(|_| kept.push(&flood));
    assert!(kept.head.len() + kept.tail.len() <= 1000 && kept.tail.capacity() <= 4096);
    let text = kept.into_text();
    assert!(text.len() <= 1000, "{}", text.len());
    assert!(text.contains(&format!("[... {} bytes left out ...]", (64 << 20) - 936)));
}

#[test]
fn no_half_of_a_key_stands_at_the_cut_however_the_output_comes() {
    const KEY: &str = "sk-é-0123456789";
    let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    let output = format!("{KEY}{}{KEY}{}", "x".repeat(50), "y".repeat(40)).repeat(8);
    for max in 64..400 {
        for piece in [1, 7, 1000] {
            let mut kept = BoundedOutput::new(max, &redactor);
            output.as_bytes().chunks(piece).for_each(|bytes| kept.push(bytes));
            let text = kept.into_text();
            assert!(text.len() <= max && text.contains(" bytes left out ...]"), "{text}");
            assert!(!["sk-", "é", "0123", "6789"].iter().any(|part| text.contains(part)), "{max} {piece}: {text}");
        }
    }
}

#[test]
fn a_pattern_that_waits_for_its_end_holds_no_more_than_a_bound() {
    let pattern = crate::redact::Pattern::new("(?s)<<.*?>>").unwrap();
    let redactor = Redactor::new([("KEY".to_owned(), "sk-0123456789".to_owned())]).with_patterns([pattern]);
    let mut kept = BoundedOutput::new(1000, &redactor);
    kept.push(b"a <<b>> <<");
    for _ in 0..200 {
        kept.push(&vec![b'x'; 64 << 10]);
        assert!(kept.stream.held_bytes() <= HELD_MAX_BYTES + (64 << 10));
    }
    kept.push(b"sk-0123456789");
    let text = kept.into_text();
    assert!(text.starts_with("a [redacted:pattern] <<xx") && text.ends_with("x[redacted:KEY]"), "{text}");
}

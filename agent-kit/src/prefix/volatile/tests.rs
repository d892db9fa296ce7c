use super::*;

fn told(text: &str) -> Vec<(&'static str, &str)> {
    find(text).into_iter().map(|found| (found.kind.word(), &text[found.at])).collect()
}

#[test]
fn every_form_compiles() {
    assert!(AUTOMATON.is_some());
}

#[test]
fn dates_and_times_are_found() {
    for (text, found) in [
        ("Today is 2026-11-22.", "2026-11-22"),
        ("at 2026-11-22T14:05:33.120Z sharp", "2026-11-22T14:05:33.120Z"),
        ("at 2026-11-22 14:05:33 +01:00.", "2026-11-22 14:05:33 +01:00"),
        ("20261122T140533Z", "20261122T140533Z"),
        ("It is November 22, 2026 now", "November 22, 2026"),
        ("It is Sunday, Nov. 22nd, 2026 now", "Sunday, Nov. 22nd, 2026"),
        ("It is 22 November 2026.", "22 November 2026"),
        ("Sun, 22 Nov 2026 14:05:33 +0000", "Sun, 22 Nov 2026 14:05:33 +0000"),
        ("Sun Nov 22 08:21:44 UTC 2026", "Sun Nov 22 08:21:44 UTC 2026"),
        ("due 22/11/2026", "22/11/2026"),
        ("due 22.11.2026", "22.11.2026"),
        ("due 2026/11/22", "2026/11/22"),
        ("the time is 14:05", "14:05"),
        ("the time is 14:05:33Z", "14:05:33Z"),
        ("the time is 2:05 pm.", "2:05 pm"),
        ("now=1763800000", "1763800000"),
        ("now=1763800000123", "1763800000123"),
    ] {
        assert_eq!(told(text), [("clock", found)], "{text}");
    }
}

#[test]
fn ids_are_found() {
    for (text, found) in [
        ("run 8f14e45f-ceea-467f-a9f4-0242ac120002.", "8f14e45f-ceea-467f-a9f4-0242ac120002"),
        ("run 01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ("digest 9b74c9897bac770ffc029102a200c5de", "9b74c9897bac770ffc029102a200c5de"),
        ("number 8812345678901234567", "8812345678901234567"),
        ("(req_011CSHoEeqs5C35K2UUqR7Fy)", "req_011CSHoEeqs5C35K2UUqR7Fy"),
        ("chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT", "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT"),
        ("run-202600017", "run-202600017"),
        ("at commit 71306c5", "commit 71306c5"),
    ] {
        assert_eq!(told(text), [("id", found)], "{text}");
    }
}

#[test]
fn paths_and_environment_are_found() {
    for (text, found) in [
        ("in /home/ada/project, please", "/home/ada/project"),
        ("in `/tmp/rondo-1/x.rs`", "/tmp/rondo-1/x.rs"),
        ("cwd: /Users/ada.", "/Users/ada"),
        (r"in C:\Users\ada\x", r"C:\Users\ada\x"),
        ("in ~/notes/a.md", "~/notes/a.md"),
        ("file:///tmp/a/b", "file:///tmp/a/b"),
    ] {
        assert_eq!(told(text), [("path", found)], "{text}");
    }
    for (text, found) in [
        ("in $HOME today", "$HOME"),
        ("in ${XDG_DATA}", "${XDG_DATA}"),
        (r"in %USERPROFILE%", "%USERPROFILE%"),
        ("ask localhost:1234", "localhost:1234"),
        ("ask http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("ask build-7.internal:443", "build-7.internal:443"),
    ] {
        assert_eq!(told(text), [("environment", found)], "{text}");
    }
}

#[test]
fn what_only_looks_alike_is_left_alone() {
    for text in [
        "You write short, factual articles. Give 3 to 5 reasons, each in 10-20 words.",
        "POST to /v1/chat/completions; see /etc/hosts and /usr/bin/env and /dev/null",
        "John 3:16, a ratio of 16:9, chapter 12:5",
        "error at src/main.rs:10:20 and main.rs:1234",
        "let s = `${name} costs $5`; $X$ and a $ sign; 100% of it",
        "---\nstatus: drafted\ntitle: <a text>\nwords: <an integer>\n---\n\n<the body>",
        "RN0123, RFC 2822, ISO 8601, HTTP 404, v1.2.3, 2.0.0-rc.1, 1,234,567",
        "order 1234567, ISBN 9783161484100, pi 3.14159265358979",
        "read_attachments2024, get_base64_value, deadbeefdeadbeef, some-hyphenated-compound-words",
        "In May 2026 or so; in 2026; Sat 3; version 2026-11",
        "https://example.com/tmp/x and https://example.com/a?b=c",
        "CVE-2024-12345 and x2026-11-22y and a-2026-11-22",
        "",
    ] {
        assert_eq!(told(text), [], "{text}");
    }
}

#[test]
fn a_text_of_many_dates_has_an_end() {
    assert_eq!(find(&"2026-11-22 ".repeat(MAX_FOUND + 5)).len(), MAX_FOUND);
}

proptest::proptest! {
    #[test]
    fn every_place_lies_in_the_text_and_none_overlaps(text in "[ -~é\n]{0,200}") {
        let mut from = 0;
        for found in find(&text) {
            proptest::prop_assert!(found.at.start >= from && found.at.start < found.at.end);
            proptest::prop_assert!(text.get(found.at.clone()).is_some());
            from = found.at.end;
        }
    }
}

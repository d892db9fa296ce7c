use super::*;

fn figures(json: &str) -> Option<(u64, u64, u64, u64)> {
    let usage = read(json)?;
    Some((usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens))
}

#[test]
fn what_a_provider_had_kept_is_read_in_each_of_its_words() {
    let of = |words: &str| figures(&format!(r#"{{"prompt_tokens":100,"completion_tokens":5{words}}}"#)).unwrap();
    assert_eq!(of(""), (100, 0, 0, 5));
    assert_eq!(of(r#","prompt_tokens_details":null,"prompt_cache_hit_tokens":null"#), (100, 0, 0, 5));
    assert_eq!(of(r#","prompt_tokens_details":{"cached_tokens":90,"cache_write_tokens":10}"#), (100, 90, 10, 5));
    assert_eq!(of(r#","cached_tokens":64"#), (100, 64, 0, 5));
    assert_eq!(of(r#","prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36"#), (100, 64, 0, 5));
    assert_eq!(of(r#","cache_read_input_tokens":70,"cache_creation_input_tokens":20"#), (100, 70, 20, 5));
    let both = r#","prompt_tokens_details":{"cached_tokens":90},"cache_creation_input_tokens":8"#;
    assert_eq!(of(both), (100, 90, 8, 5));
}

#[test]
fn reasoning_beside_a_completion_counts_where_the_total_says_so() {
    let of = |total: u64| {
        let details = r#""completion_tokens_details":{"reasoning_tokens":40}"#;
        figures(&format!(r#"{{"prompt_tokens":100,"completion_tokens":50,"total_tokens":{total},{details}}}"#))
    };
    assert_eq!(of(190), Some((100, 0, 0, 90)));
    assert_eq!(of(150), Some((100, 0, 0, 50)));
}

#[test]
fn parts_of_a_prompt_never_exceed_it() {
    let of = |details: &str| {
        let details = format!(r#""prompt_tokens_details":{{{details}}}"#);
        figures(&format!(r#"{{"prompt_tokens":100,"completion_tokens":5,{details}}}"#)).unwrap()
    };
    assert_eq!(of(r#""cached_tokens":900"#), (100, 100, 0, 5));
    assert_eq!(of(r#""cached_tokens":90,"cache_write_tokens":20"#), (100, 90, 10, 5));
}

#[test]
fn a_figure_that_cannot_be_read_is_unknown() {
    for (figure, read) in [
        ("7", Some(7)),
        ("5.0", Some(5)),
        ("0.0", Some(0)),
        ("1e3", Some(1000)),
        ("-5", None),
        ("-5.0", None),
        ("5.5", None),
        ("null", None),
        ("1180591620717411303424", None),
        ("9007199254740993", None),
        ("1e300", None),
        ("\"7\"", None),
        ("[7]", None),
    ] {
        let prompt = figures(&format!(r#"{{"prompt_tokens":{figure},"completion_tokens":3}}"#));
        assert_eq!(prompt, read.map(|read| (read, 0, 0, 3)), "{figure}");
        let output = figures(&format!(r#"{{"prompt_tokens":3,"completion_tokens":{figure}}}"#));
        assert_eq!(output, read.map(|read| (3, 0, 0, read)), "{figure}");
        let details = format!(r#"{{"cached_tokens":{figure}}}"#);
        let cached =
            figures(&format!(r#"{{"prompt_tokens":2000,"completion_tokens":3,"prompt_tokens_details":{details}}}"#));
        assert_eq!(cached, Some((2000, read.unwrap_or(0), 0, 3)), "{figure}");
    }
    for usage in ["{}", "[]", "7", "\"many\"", r#"{"completion_tokens":3}"#] {
        assert_eq!(figures(usage), None, "{usage}");
    }
    let odd = r#"{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":"none"}"#;
    assert_eq!(figures(odd), Some((9, 0, 0, 3)));
    let long = format!(r#"{{"prompt_tokens":9,"completion_tokens":3,"x":"{}"}}"#, "x".repeat(MAX_USAGE_BYTES));
    assert_eq!(figures(&long), None);
}

//! Writes the sections of a scenario as YAML that a person would write: block scalars, plain words, and nothing that
//! reads back differently.

use std::fmt::Write as _;

use rondo_protocol::Value;
use rondo_protocol::source;

/// The sections as YAML that parses back to the same values.
pub fn yaml(whole: &[(&'static str, Value)]) -> String {
    let wanted: Value = whole.iter().map(|(key, value)| (*key, value.clone())).collect();
    let written = |has_blocks: bool| {
        let mut out = String::new();
        for (key, value) in whole {
            out.push_str(key);
            out.push(':');
            node(&mut out, value, 1, has_blocks);
        }
        out
    };
    let with_blocks = written(true);
    if source::yaml(&with_blocks).is_ok_and(|read| read.to_value() == wanted) { with_blocks } else { written(false) }
}

/// Writes the value after a key or a dash.
fn node(out: &mut String, value: &Value, depth: usize, has_blocks: bool) {
    let indent = "  ".repeat(depth);
    match value {
        Value::List(items) if !items.is_empty() => {
            out.push('\n');
            for item in items {
                let mut inner = String::new();
                node(&mut inner, item, depth + 1, has_blocks);
                // The first member of a map is on the line of its dash.
                let is_map = matches!(item, Value::Object(members) if !members.is_empty());
                let inner = if is_map { format!(" {}", inner.trim_start()) } else { inner };
                let _ = write!(out, "{indent}-{inner}");
            }
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            for (key, value) in members {
                let _ = write!(out, "{indent}{}:", scalar(key));
                node(out, value, depth + 1, has_blocks);
            }
        }
        Value::Str(text) if has_blocks && is_block(text) => {
            let chomp = match (text.ends_with("\n\n"), text.ends_with('\n')) {
                (true, _) => "+",
                (_, true) => "",
                _ => "-",
            };
            let _ = writeln!(out, " |{chomp}");
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                if !line.is_empty() {
                    out.push_str(&indent);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        other => {
            let written = other.as_str().map_or_else(|| other.to_text(), scalar);
            let _ = writeln!(out, " {written}");
        }
    }
}

/// Whether a text can be a block scalar.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| c != '\n' && c != '\t' && c.is_control())
}

/// A short text: plain if YAML reads it as this string, else quoted.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.'));
    if is_plain && !WORDS.contains(&text) {
        return text.to_owned();
    }
    // JSON does not escape some characters that YAML accepts only as escapes.
    let is_refused =
        |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    let mut out = String::new();
    for c in Value::from(text).to_text().chars() {
        if is_refused(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let odd = [
            "a\nb",
            "a\nb\n",
            "a\n\n\n",
            " a\nb",
            "yes",
            "1",
            "a: b",
            "",
            "---\nx",
            "tab\there\n",
            "\u{1b}\n",
            "\u{7f}\u{85}\u{2028}\u{feff}",
            "a\u{7f}\nb",
            "# a\nb",
        ];
        let texts: Vec<Value> = odd.iter().map(|text| Value::from(*text)).collect();
        let nested = Value::from_iter([(
            "k y",
            Value::List(vec![Value::empty_object(), Value::List(texts.clone()), Value::Null]),
        )]);
        let whole = vec![("input", Value::List(texts)), ("script", nested), ("expect", Value::empty_object())];
        let wanted: Value = whole.iter().map(|(key, value)| (*key, value.clone())).collect();
        assert_eq!(source::yaml(&yaml(&whole)).unwrap().to_value(), wanted);
    }

    #[test]
    fn a_person_can_read_it() {
        let entry = Value::from_iter([("raw", Value::from("---\nstatus: drafted\n---\nTides."))]);
        let script = Value::from_iter([("writer", Value::List(vec![entry]))]);
        insta::assert_snapshot!(yaml(&[("description", "What a thread said.".into()), ("script", script)]), @r#"
        description: "What a thread said."
        script:
          writer:
            - raw: |-
                ---
                status: drafted
                ---
                Tides.
        "#);
    }
}

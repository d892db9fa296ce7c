//! Writes values so that every YAML and JSON reader reads them back unchanged.

use std::fmt::Write as _;

use rondo_protocol::Value;

/// Words that some YAML reader does not read as a text.
const NOT_PLAIN: [&str; 14] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity", "none", "undefined"];

/// Appends `value` as JSON on one line, which is also YAML in flow style.
pub(super) fn flow(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        // The exponent keeps a large float from being read as an integer with all its digits.
        Value::Float(number) => {
            let _ = write!(out, "{number:e}");
        }
        Value::Str(text) => quoted(out, text),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                flow(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                quoted(out, key);
                out.push_str(": ");
                flow(out, member);
            }
            out.push('}');
        }
    }
}

/// Appends `text` between double quotes. Also escapes what YAML does not count as printable.
pub(super) fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Appends `text` as a scalar on the rest of a line: unquoted if no reader can misread it.
pub(super) fn scalar(out: &mut String, text: &str) {
    if is_plain(text) { out.push_str(text) } else { quoted(out, text) }
}

fn is_plain(text: &str) -> bool {
    text.starts_with(char::is_alphabetic)
        && text.chars().all(|c| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric())
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !NOT_PLAIN.contains(&text.to_lowercase().as_str())
}

//! What a tool call is about, in a few words for people.

use rondo_protocol::Value;
use rondo_protocol::canonical;

const MAX_CHARS: usize = 120;

/// The arguments that say most about a call, the first of them first.
const TELLING: [&str; 12] =
    ["path", "command", "argv", "query", "pattern", "url", "file", "name", "to", "text", "title", "id"];

/// The path, the command or the query of a tool call, on one line and cut; its only or first text or list otherwise.
/// Empty if the arguments say nothing.
pub fn argument_preview(arguments: &str) -> String {
    let Ok(Value::Object(members)) = canonical::parse(arguments.as_bytes()) else { return short(arguments) };
    let told = TELLING.iter().find_map(|name| members.get(*name).map(words).filter(|words| !words.is_empty()));
    told.or_else(|| members.values().map(words).find(|words| !words.is_empty())).unwrap_or_default()
}

fn words(value: &Value) -> String {
    match value {
        Value::Str(text) => short(text),
        Value::List(items) => short(&items.iter().map(words).collect::<Vec<_>>().join(" ")),
        Value::Object(_) | Value::Null => String::new(),
        other => other.to_text(),
    }
}

/// The beginning of a text, on one line and without control characters.
fn short(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(MAX_CHARS - 1) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::argument_preview;

    #[test]
    fn a_call_is_told_by_its_path_its_command_or_its_query() {
        for (arguments, told) in [
            (r#"{"path": "src/lib.rs", "text": "fn main"}"#, "src/lib.rs"),
            (r#"{"argv": ["cargo", "test", 1], "cwd": "x"}"#, "cargo test 1"),
            (r#"{"command": "ls\n  -l \u001b[2J"}"#, "ls -l [2J"),
            (r#"{"limit": 3, "query": "tide pools"}"#, "tide pools"),
            (r#"{"deep": {"a": 1}, "limit": 3}"#, "3"),
            ("{}", ""),
            ("not json \u{7}", "not json"),
        ] {
            assert_eq!(argument_preview(arguments), told, "{arguments}");
        }
        let long = argument_preview(&format!(r#"{{"command": "{}"}}"#, "é ".repeat(5_000)));
        assert_eq!(long.chars().count(), 120);
    }
}

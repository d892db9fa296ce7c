//! Text for people: on stderr, and without characters that steer a terminal.

use std::borrow::Cow;
use std::io::{self, Write as _};

use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::text::{plain, shell_argument};
use serde::Serialize;

/// Writes text for people to stderr. A closed stderr is not a fault.
pub fn tell(text: &str) {
    tell_styled(&printable(text));
}

/// Writes text with colours to stderr; parts from a file or a model are already printable.
pub fn tell_styled(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// `text` with a mark in place of each character that controls a terminal, changes the direction of writing or is
/// invisible: text of a model, a tool or a file must be readable as what it is.
pub fn printable(text: &str) -> Cow<'_, str> {
    let plain = plain(text);
    if plain == text {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut kept = plain.chars().peekable();
    for c in text.replace("\r\n", "\n").chars() {
        // `plain` keeps the order of characters; those that do not match were removed there.
        let ends_line = matches!(c, '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let is_kept = kept.next_if(|kept| *kept == c || *kept == '\n' && ends_line) == Some(c);
        shown.push(if is_kept { c } else { '\u{fffd}' });
    }
    Cow::Owned(shown)
}

/// `text` on one line: a name or a value cannot start a new line.
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// A hint with its operations as what is typed in a terminal.
pub fn hint(hint: &Hint) -> String {
    hint.written(|operation| format!("`{}`", command(operation)))
}

/// What is typed in a terminal for an operation: a command, or an option of the command that was typed before.
pub fn command(operation: &Operation) -> String {
    let mut words: Vec<Cow<'_, str>> = match operation.action {
        Verb::Again => Vec::new(),
        verb => vec!["rondo".into(), verb.name().into()],
    };
    words.extend(operation.operands().map(shell_argument));
    let value = operation.value.as_deref().map(shell_argument);
    match operation.key.as_deref() {
        // What is approved is a form.
        Some("approve") => words.extend(["--form".into()].into_iter().chain(value).chain(["--approve".into()])),
        Some(key) => words.extend([format!("--{key}").into()].into_iter().chain(value)),
        None => {}
    }
    words.join(" ")
}

/// The word that stands for a value in JSON.
pub fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A count with its noun: `1 step`, `2 steps`.
pub fn plural(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A size in the largest unit that gives a whole number.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => plural(bytes, "byte"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use rondo_protocol::id::ThreadId;

    use super::*;

    #[test]
    fn an_operation_is_told_as_it_is_typed() {
        let thread = ThreadId::new("01k9b6x2e0q8v3m5n7p9r1t4wz").unwrap();
        let on = |verb| Operation::on(verb, &thread);
        let all = [
            (Operation::new(Verb::Doctor), "rondo doctor"),
            (on(Verb::Resume).with("limit", "steps=6"), "rondo resume 01k9b6x2e0q8v3m5n7p9r1t4wz --limit steps=6"),
            (on(Verb::Answer).with("approve", "ab"), "rondo answer 01k9b6x2e0q8v3m5n7p9r1t4wz --form ab --approve"),
            (Operation::new(Verb::Again).choosing("trust"), "--trust"),
            (Operation::new(Verb::Fsck).named("a b"), "rondo fsck 'a b'"),
        ];
        for (operation, typed) in all {
            assert_eq!(command(&operation), typed);
        }
    }

    #[test]
    fn what_a_model_says_does_not_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\r\nd\re\u{202e}"), "a\u{fffd}[2Jb\tc\nd\u{fffd}e\u{fffd}");
        assert_eq!(printable("z\u{200b}ero \u{e0041}\u{9b}1m ⚠\u{fe0f}"), "z\u{fffd}ero \u{fffd}\u{fffd}1m ⚠\u{fe0f}");
        assert_eq!(one_line("a\nrondo: b\tc\u{7}"), "a\\nrondo: b\\tc\u{fffd}");
        assert!(matches!(printable("plain\n"), Cow::Borrowed(_)));
    }
}

//! Headings and indented texts.
//!
//! A line of a text follows four blanks, unchanged. An empty line between two others is empty. A line that would not
//! survive an editor or a terminal, because it ends with a blank, holds control characters or is an empty line at an
//! end of its text, follows three blanks and a `\`; in it `\\`, `\r`, `\t` and `\u{..}` are escapes. Everything in the
//! first column is a heading, so no text can look like one.

use std::ops::Range;

use super::Error;

const PLAIN: &str = "    ";
const ESCAPED: &str = "   \\";

pub fn heading(out: &mut String, words: &str) {
    out.push_str(words);
    out.push('\n');
}

pub fn block(out: &mut String, text: &str) {
    let last = text.matches('\n').count();
    for (at, line) in text.split('\n').enumerate() {
        if line.is_empty() && at > 0 && at < last {
            // An empty line between two others.
        } else if is_plain(line) {
            out.push_str(PLAIN);
            out.push_str(line);
        } else {
            out.push_str(ESCAPED);
            escape(out, line);
        }
        out.push('\n');
    }
}

/// A text below its heading.
pub fn section(out: &mut String, words: &str, text: &str) {
    heading(out, words);
    block(out, text);
}

/// A name in a heading: plain if all its characters are, else a JSON string.
pub fn word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '@' | '+');
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    // A text always has a JSON form.
    serde_json::to_string(name).unwrap_or_default()
}

fn is_plain(line: &str) -> bool {
    !line.is_empty() && !line.ends_with(char::is_whitespace) && !line.chars().any(|c| c != '\t' && is_unseen(c))
}

/// Whether a character is invisible or changes how others are displayed.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn escape(out: &mut String, line: &str) {
    let kept = line.trim_end_matches(char::is_whitespace).len();
    for (at, c) in line.char_indices() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if at >= kept || is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
}

fn unescape(written: &str) -> Option<String> {
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (c, length) = match after.as_bytes().first()? {
            b'\\' => ('\\', 1),
            b'r' => ('\r', 1),
            b't' => ('\t', 1),
            _ => {
                let (digits, _) = after.strip_prefix("u{")?.split_once('}')?;
                (u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?, digits.len() + 3)
            }
        };
        out.push(c);
        rest = after.get(length..)?;
    }
    out.push_str(rest);
    Some(out)
}

pub struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    pub fn new(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn line(&mut self) -> Option<&'t str> {
        while self.rest().starts_with('\n') {
            self.at += 1;
        }
        Some(self.rest().split('\n').next()?).filter(|line| !line.is_empty())
    }

    pub fn place(&mut self) -> Range<usize> {
        let length = self.line().map_or(0, str::len);
        self.at..self.at + length
    }

    /// The next heading, without consuming it; `None` at the end, or before a text.
    pub fn peek(&mut self) -> Option<&'t str> {
        self.line().filter(|line| !line.starts_with(' '))
    }

    /// Consumes the next heading if it starts with `words`, and returns the rest of it.
    pub fn heading(&mut self, words: &str) -> Option<&'t str> {
        let line = self.peek()?;
        let rest = line.strip_prefix(words)?;
        self.at += line.len();
        Some(rest)
    }

    /// Consumes the next heading if it is `words`.
    pub fn line_is(&mut self, words: &str) -> bool {
        self.peek() == Some(words) && self.heading(words).is_some()
    }

    pub fn expected(&mut self, words: &str) -> Error {
        Error::syntax(self.place(), format!("expected `{}`", words.trim_end()))
    }

    /// The rest of the next heading, which starts with `words`.
    pub fn expect(&mut self, words: &str) -> Result<&'t str, Error> {
        self.heading(words).ok_or_else(|| self.expected(words))
    }

    pub fn expect_line(&mut self, words: &str) -> Result<(), Error> {
        if self.line_is(words) { Ok(()) } else { Err(self.expected(words)) }
    }

    pub fn block(&mut self) -> Result<String, Error> {
        let mut text: Option<String> = None;
        let mut empty = 0;
        if self.rest().starts_with('\n') {
            self.at += 1;
        }
        let mut at = self.at;
        for line in self.rest().split('\n') {
            let here = at..at + line.len();
            at = here.end + 1;
            let written = match (line.strip_prefix(PLAIN), line.strip_prefix(ESCAPED)) {
                (Some(plain), _) => plain.to_owned(),
                (None, Some(escaped)) => unescape(escaped).ok_or_else(|| {
                    Error::syntax(here.clone(), "`\\` is followed by none of `\\`, `r`, `t` and `u{..}`")
                })?,
                (None, None) if line.is_empty() => {
                    empty += 1;
                    continue;
                }
                (None, None) => break,
            };
            let text = match &mut text {
                Some(text) => {
                    text.extend(std::iter::repeat_n('\n', empty + 1));
                    text
                }
                None if empty > 0 => break,
                None => text.insert(String::new()),
            };
            text.push_str(&written);
            empty = 0;
            self.at = here.end;
        }
        let place = self.at..self.at;
        text.ok_or_else(|| Error::syntax(place, "expected a text, indented by four columns"))
    }
}

/// Splits a name off the beginning of the rest of a heading.
pub fn read_word(rest: &str) -> Option<(String, &str)> {
    if !rest.starts_with('"') {
        let length = rest.find(' ').unwrap_or(rest.len());
        let (name, behind) = rest.split_at_checked(length)?;
        return (!name.is_empty()).then(|| (name.to_owned(), behind));
    }
    let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let name = names.next()?.ok()?;
    let behind = rest.get(names.byte_offset()..)?;
    Some((name, behind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut out = String::new();
        block(&mut out, text);
        out
    }

    #[test]
    fn odd_lines_are_seen() {
        let text = "---\nhead\n\n  two \u{1b}[31m\\n\n\tend\r\n\n";
        insta::assert_snapshot!(written(text), @r"
            ---
            head

           \  two \u{1b}[31m\\n
           \\tend\r

           \
        ");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(
            texts in prop::collection::vec("([ -~]|\\PC|[\n\r\t \\\\\u{feff}\u{2028}\u{200b}]){0,30}", 1..4),
        ) {
            let mut out = String::new();
            for text in &texts {
                heading(&mut out, "text");
                block(&mut out, text);
                out.push('\n');
            }
            prop_assert!(out.lines().all(|line| line == line.trim_end()), "{out:?}");
            let mut parser = Parser::new(&out, 0);
            for text in &texts {
                prop_assert_eq!(parser.heading("text"), Some(""));
                prop_assert_eq!(&parser.block().unwrap(), text);
            }
            prop_assert_eq!(parser.peek(), None);
        }

        #[test]
        fn every_name_comes_back(name in "\\PC{0,12}|[ \"\\\\\n·]{0,6}") {
            let line = format!("{} · more", word(&name));
            prop_assert_eq!(read_word(&line), Some((name, " · more")));
        }
    }
}

//! Paths into JSON: the part of RFC 9535 that selects at most one value.
//!
//! `$`, then `.name`, `['name']`, `["name"]`, `[0]` or `[-1]`, which counts from the end. Anything that could select
//! several values is refused: `*`, `..`, ranges, lists and filters.

use std::fmt;
use std::ops::Range;

use rondo_protocol::Value;

/// The most steps of a path.
const MAX_STEPS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The bytes of the text concerned.
    pub at: Range<usize>,
    pub message: String,
}

impl Path {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = Parser { text, at: 0 };
        if !parser.take("$") {
            return Err(parser.fault(1, "a path begins with `$`"));
        }
        let mut steps = Vec::new();
        while parser.at < text.len() {
            if steps.len() == MAX_STEPS {
                return Err(parser.fault(1, format!("a path has at most {MAX_STEPS} steps")));
            }
            steps.push(parser.step()?);
        }
        Ok(Self { text: text.to_owned(), steps })
    }

    pub fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(root, |value, step| match (step, value) {
            (Step::Name(name), Value::Object(members)) => members.get(name),
            (Step::Index(index), Value::List(items)) => {
                let index = if *index < 0 { i64::try_from(items.len()).ok()?.checked_add(*index)? } else { *index };
                items.get(usize::try_from(index).ok()?)
            }
            _ => None,
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map_while(|step| match step {
            Step::Name(name) => Some(name.as_str()),
            Step::Index(_) => None,
        })
    }
}

/// The path of the member `name` of the value at path `at`, as [`Path::parse`] reads it.
pub fn member(at: &str, name: &str) -> String {
    if !name.is_empty() && dot_length(name) == name.len() {
        return format!("{at}.{name}");
    }
    format!("{at}['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// How many leading bytes of `text` are a name that can stand behind a dot.
fn dot_length(text: &str) -> usize {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    if !text.starts_with(is_first) {
        return 0;
    }
    text.find(|c: char| !is_first(c) && !c.is_ascii_digit()).unwrap_or(text.len())
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn fault(&self, length: usize, message: impl Into<String>) -> Error {
        let end = self.at.saturating_add(length).min(self.text.len());
        Error { at: self.at.min(end)..end, message: message.into() }
    }

    fn step(&mut self) -> Result<Step, Error> {
        if self.rest().starts_with("..") {
            return Err(self.fault(2, "`..` selects several values; name one of them"));
        }
        if self.take(".") {
            return self.name();
        }
        if !self.take("[") {
            return Err(self.fault(1, "expected a step: `.name`, `['name']` or `[0]`"));
        }
        let step = match self.rest().chars().next() {
            Some(quote @ ('\'' | '"')) => Step::Name(self.quoted(quote)?),
            _ => Step::Index(self.index()?),
        };
        if self.take("]") { Ok(step) } else { Err(self.fault(1, "expected `]`")) }
    }

    fn name(&mut self) -> Result<Step, Error> {
        let rest = self.rest();
        match rest.get(..dot_length(rest)) {
            Some(name) if !name.is_empty() => {
                self.at += name.len();
                Ok(Step::Name(name.to_owned()))
            }
            _ if rest.starts_with('*') => Err(self.fault(1, "`*` selects several values; name one of them")),
            _ => Err(self.fault(1, "expected a name; one with other characters is written `['name']`")),
        }
    }

    /// A position: digits without a leading zero, optionally counted from the end.
    fn index(&mut self) -> Result<i64, Error> {
        let rest = self.rest();
        let length = rest.find(']').unwrap_or(rest.len());
        let written = rest.get(..length).unwrap_or_default();
        match written.parse::<i64>() {
            Ok(index) if index.to_string() == written => {
                self.at += length;
                Ok(index)
            }
            _ => Err(self.fault(length.max(1), "expected a position or a quoted name: `[0]`, `[-1]`, `['name']`")),
        }
    }

    /// A quoted name, with `\` before a quote or another `\`.
    fn quoted(&mut self, quote: char) -> Result<String, Error> {
        let opened = self.at;
        let mut name = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                c if c == quote => {
                    self.at = opened + at + 1;
                    return Ok(name);
                }
                '\\' => {
                    let Some((_, c @ ('\\' | '\'' | '"'))) = characters.next() else {
                        self.at = opened + at;
                        return Err(self.fault(2, "in a quoted name `\\` may only precede a quote or another `\\`"));
                    };
                    name.push(c);
                }
                c => name.push(c),
            }
        }
        Err(self.fault(1, "the quoted name has no end"))
    }
}

#[cfg(test)]
mod tests {
    use rondo_protocol::canonical;

    use super::*;

    fn found(path: &str) -> Option<String> {
        let root = canonical::parse(br#"{"a":{"b c":[1,{"d":"x"}],"it's":2}}"#).unwrap();
        Path::parse(path).unwrap().find(&root).map(Value::to_text)
    }

    #[test]
    fn a_path_finds_its_value() {
        assert_eq!(found("$.a['b c'][1].d").as_deref(), Some("\"x\""));
        assert_eq!(found(r#"$["a"]["b c"][-2]"#).as_deref(), Some("1"));
        assert_eq!(found(r"$.a['it\'s']").as_deref(), Some("2"));
        for none in ["$.b", "$.a[0]", "$.a['b c'][2]", "$.a['b c'][-3]", "$.a['b c'].d"] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn the_path_of_a_member_finds_it_whatever_its_name_holds() {
        for name in ["a", "a_1", "\u{e9}t\u{e9}", "1", "", "b c", "it's", r"back\slash", "\"", "a.b", "[0]"] {
            let root = Value::from_iter([(name, Value::from("found"))]);
            let path = member("$", name);
            assert_eq!(Path::parse(&path).unwrap().find(&root), Some(&Value::from("found")), "{path}");
        }
        assert_eq!(member("$.result", "a_1"), "$.result.a_1");
        assert_eq!(member("$.result", "b c"), "$.result['b c']");
    }

    #[test]
    fn what_could_mean_many_values_is_refused_with_its_place() {
        for (path, at) in [
            ("a", 0..1),
            ("", 0..0),
            ("$a", 1..2),
            ("$..a", 1..3),
            ("$.*", 2..3),
            ("$.a[*]", 4..5),
            ("$.a[1:2]", 4..7),
            ("$.a[01]", 4..6),
            ("$.a[?@.b]", 4..8),
            ("$.a['b", 4..5),
            ("$.a['b'", 7..7),
            ("$.a.", 4..4),
            ("$.a-b", 3..4),
        ] {
            assert_eq!(Path::parse(path).unwrap_err().at, at, "{path}");
        }
        assert!(Path::parse(&format!("${}", ".a".repeat(65))).is_err());
    }
}

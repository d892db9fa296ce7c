//! A text that a simple pattern matches.
//!
//! What is understood: literals, `.`, escapes such as `\d`, classes in brackets, groups, alternatives, the repetitions
//! `* + ? {n,m}`, anchors. Anything else (looking around, references, Unicode properties) gives nothing. What comes out
//! is a guess that the caller holds to the pattern itself.

use std::iter::Peekable;
use std::str::Chars;

/// The deepest nesting of groups.
const MAX_DEPTH: usize = 16;
/// The most characters of a text.
const MAX_CHARS: usize = 4096;

/// A text for `pattern`; `stretch` is how often what may be repeated without end is repeated beyond what must be.
pub(super) fn text(pattern: &str, stretch: usize) -> Option<String> {
    let mut reader = Reader { rest: pattern.chars().peekable(), stretch };
    let text = reader.alternatives(0)?;
    // A bracket that closes nothing.
    if reader.rest.next().is_some() || text.chars().count() > MAX_CHARS { None } else { Some(text) }
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    stretch: usize,
}

impl Reader<'_> {
    /// The first of some alternatives; the others are read over.
    fn alternatives(&mut self, depth: usize) -> Option<String> {
        let first = self.sequence(depth)?;
        while self.rest.next_if_eq(&'|').is_some() {
            self.sequence(depth)?;
        }
        Some(first)
    }

    fn sequence(&mut self, depth: usize) -> Option<String> {
        let mut text = String::new();
        while let Some(next) = self.rest.peek().copied().filter(|next| !matches!(next, '|' | ')')) {
            self.rest.next();
            let part = match next {
                '^' | '$' => continue,
                '(' => self.group(depth + 1)?,
                '[' => self.class()?.to_string(),
                '\\' => match self.rest.next()? {
                    'b' => continue,
                    escaped => escape(escaped)?.to_string(),
                },
                '.' => "x".to_owned(),
                '*' | '+' | '?' | '{' => return None,
                literal => literal.to_string(),
            };
            let times = self.repetition()?;
            if text.len().saturating_add(part.len().saturating_mul(times)) > MAX_CHARS * 4 {
                return None;
            }
            text.push_str(&part.repeat(times));
        }
        Some(text)
    }

    fn group(&mut self, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.rest.next_if_eq(&'?').is_some() {
            // Only a group that is not kept is understood.
            self.rest.next_if_eq(&':')?;
        }
        let text = self.alternatives(depth)?;
        self.rest.next_if_eq(&')')?;
        Some(text)
    }

    /// How often the part before is repeated.
    fn repetition(&mut self) -> Option<usize> {
        let times = match self.rest.peek().copied() {
            Some('*') => self.stretch,
            Some('+') => 1 + self.stretch,
            Some('?') => usize::from(self.stretch > 0),
            Some('{') => return self.counted(),
            _ => return Some(1),
        };
        self.rest.next();
        self.rest.next_if_eq(&'?');
        Some(times)
    }

    fn counted(&mut self) -> Option<usize> {
        self.rest.next();
        let inside: String = std::iter::from_fn(|| self.rest.next_if(|c| *c != '}')).take(16).collect();
        self.rest.next_if_eq(&'}')?;
        self.rest.next_if_eq(&'?');
        match inside.split_once(',') {
            None => inside.parse().ok(),
            Some((least, "")) => Some(least.parse::<usize>().ok()?.saturating_add(self.stretch)),
            Some((least, most)) => {
                let (least, most) = (least.parse::<usize>().ok()?, most.parse::<usize>().ok()?);
                Some(least.saturating_add(self.stretch).min(most))
            }
        }
    }

    /// The first character of a class; of one that excludes, a character that it does not name.
    fn class(&mut self) -> Option<char> {
        let excludes = self.rest.next_if_eq(&'^').is_some();
        let mut named: Vec<(char, char)> = Vec::new();
        loop {
            let from = match self.rest.next()? {
                ']' if !named.is_empty() => break,
                '\\' => match self.rest.next()? {
                    's' => ' ',
                    escaped => escape(escaped)?,
                },
                '[' => return None,
                literal => literal,
            };
            let mut to = from;
            if self.rest.peek() == Some(&'-') {
                self.rest.next();
                match self.rest.next()? {
                    ']' => {
                        named.push((from, from));
                        named.push(('-', '-'));
                        break;
                    }
                    '\\' => to = escape(self.rest.next()?)?,
                    literal => to = literal,
                }
            }
            named.push((from, to));
        }
        let is_named = |c: char| named.iter().any(|(from, to)| (*from..=*to).contains(&c));
        if excludes {
            return ('a'..='z').chain('0'..='9').chain([' ', '-', '_']).find(|c| !is_named(*c));
        }
        named.first().map(|(from, _)| *from)
    }
}

/// A character that an escape stands for.
fn escape(escaped: char) -> Option<char> {
    match escaped {
        'd' => Some('1'),
        'w' => Some('w'),
        's' => Some(' '),
        'D' | 'S' => Some('x'),
        'W' => Some('-'),
        'n' => Some('\n'),
        't' => Some('\t'),
        other if other.is_ascii_alphanumeric() => None,
        literal => Some(literal),
    }
}

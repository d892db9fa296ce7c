//! Parses an ignore file as git parses a `.gitignore`.
//!
//! Rules are compared with names one by one, without compiling, so they take memory in proportion to their text. With
//! an automaton per folder, the author of the files would control its size.

use std::iter::Peekable;
use std::str::Chars;

use crate::wildcard;

/// The rules of one ignore file, in order.
#[derive(Default)]
pub(super) struct IgnoreFile {
    rules: Vec<Rule>,
    size_bytes: usize,
}

/// A name on a path, as rules see it.
pub(super) type Name = Vec<char>;

struct Rule {
    /// Whether it reverts earlier rules.
    is_wanted: bool,
    only_folders: bool,
    pattern: Pattern,
}

enum Pattern {
    /// A rule without a slash: matches a name at any depth.
    Name(Vec<Token>),
    /// Matches a path below the folder of the file.
    Path(Vec<Part>),
}

enum Part {
    /// `**`: any number of folders.
    Folders,
    Name(Vec<Token>),
}

enum Token {
    Char(char),
    One,
    Any,
    Class(Box<Class>),
}

/// `[a-z]`, or `[!a-z]`.
struct Class {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl IgnoreFile {
    /// Parses a file. Skips invalid lines, as git does.
    pub(super) fn read(text: &str) -> Self {
        let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
        Self { rules: lines.filter_map(Rule::read).collect(), size_bytes: text.len() }
    }

    pub(super) fn count(&self) -> usize {
        self.rules.len()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Whether it excludes a path, given by its names below the folder of the file. `None` = no rule matches.
    pub(super) fn leaves_out(&self, path: &[Name], is_folder: bool) -> Option<bool> {
        let name = path.last()?;
        let matches = |rule: &&Rule| {
            (is_folder || !rule.only_folders)
                && match &rule.pattern {
                    Pattern::Name(tokens) => name_matches(tokens, name),
                    Pattern::Path(parts) => {
                        wildcard::matches(parts, path, |part| matches!(part, Part::Folders), Part::matches)
                    }
                }
        };
        self.rules.iter().rev().find(matches).map(|rule| !rule.is_wanted)
    }
}

impl Rule {
    fn read(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
        let (line, is_wanted) = line.strip_prefix('!').map_or((line, false), |line| (line, true));
        let (line, only_folders) = line.strip_suffix('/').map_or((line, false), |line| (line, true));
        if line.is_empty() {
            return None;
        }
        let pattern = if line.contains('/') {
            Pattern::Path(parts(line.strip_prefix('/').unwrap_or(line))?)
        } else {
            Pattern::Name(tokens(line)?)
        };
        Some(Self { is_wanted, only_folders, pattern })
    }
}

impl Part {
    fn matches(&self, name: &Name) -> bool {
        match self {
            Self::Folders => true,
            Self::Name(tokens) => name_matches(tokens, name),
        }
    }
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Char(wanted) => *wanted == c,
            Self::One | Self::Any => true,
            Self::Class(class) => {
                class.ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != class.is_negated
            }
        }
    }
}

fn name_matches(tokens: &[Token], name: &Name) -> bool {
    wildcard::matches(tokens, name, |token| matches!(token, Token::Any), |token, c| token.matches(*c))
}

fn parts(line: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for name in line.split('/') {
        parts.push(if name == "**" { Part::Folders } else { Part::Name(tokens(name)?) });
    }
    // `a/**` matches what is in `a`, but not `a` itself.
    if matches!(parts.last(), Some(Part::Folders)) {
        parts.push(Part::Name(vec![Token::Any]));
    }
    parts.shrink_to_fit();
    Some(parts)
}

/// `None` for a name that ends with a backslash, which matches nothing.
fn tokens(name: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' if matches!(tokens.last(), Some(Token::Any)) => continue,
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Char(chars.next()?),
            '[' => class(&mut chars).map_or(Token::Char('['), |class| Token::Class(Box::new(class))),
            c => Token::Char(c),
        });
    }
    tokens.shrink_to_fit();
    Some(tokens)
}

/// Parses a class after its bracket. Without a closing bracket it is no class, and nothing is consumed.
fn class(chars: &mut Peekable<Chars<'_>>) -> Option<Class> {
    let mut ahead = chars.clone();
    let is_negated = ahead.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let mut first = match ahead.next()? {
            ']' if !ranges.is_empty() => break,
            '\\' => ahead.next()?,
            c => c,
        };
        let mut last = first;
        let mut behind = ahead.clone();
        if behind.next() == Some('-')
            && let Some(end) = behind.next().filter(|end| *end != ']')
        {
            last = if end == '\\' { behind.next()? } else { end };
            ahead = behind;
        }
        if first > last {
            // This makes the range empty.
            (first, last) = ('\u{1}', '\0');
        }
        ranges.push((first, last));
    }
    *chars = ahead;
    Some(Class { is_negated, ranges })
}

#[cfg(test)]
mod tests {
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    use super::*;

    fn names(path: &str) -> Vec<Name> {
        path.split('/').map(|name| name.chars().collect()).collect()
    }

    /// Git's answer for `path`, which ends with a slash if it is a folder.
    fn said(file: &str, path: &str) -> Option<bool> {
        let name = path.trim_end_matches('/');
        IgnoreFile::read(file).leaves_out(&names(name), path.len() > name.len())
    }

    #[test]
    fn rules_mean_what_they_mean_to_git() {
        for (file, left_out, other) in [
            ("a", &["a", "a/", "x/a"][..], &["b", "ab", "a/b"][..]),
            ("a/", &["a/", "x/a/"], &["a", "x/a"]),
            ("/a", &["a"], &["x/a"]),
            ("x/a", &["x/a"], &["a", "y/x/a"]),
            ("**/a/b", &["a/b", "x/y/a/b"], &["b", "a/x/b"]),
            ("a/**", &["a/b", "a/b/c"], &["a/", "b/a/c"]),
            ("a/**/b", &["a/b", "a/x/y/b"], &["a/", "b", "xa/b"]),
            ("*.log", &["a.log", "x/.log"], &["a.logs"]),
            ("a*b*c", &["abc", "axbbxc", "abcbc"], &["ab", "abcd", "a/bc"]),
            ("x/*", &["x/a"], &["x/a/b", "x"]),
            ("?é[a-cß]", &["xéb", "éé\u{df}"], &["éb", "xéd", "xé"]),
            ("[!a]", &["b"], &["a", "bb", ""]),
            ("[]x]", &["]", "x"], &["[]x]"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[z-a]b", &[], &["zb", "ab", "mb"]),
            ("[a", &["[a"], &["a"]),
            ("\\*\\!", &["*!"], &["a!"]),
            ("\\#a", &["#a"], &["a"]),
            ("# a", &[], &["# a", "a"]),
            ("a  ", &["a"], &["a  "]),
            ("a\\ ", &["a "], &["a"]),
            ("a\\", &[], &["a", "a\\"]),
            ("{a,b}", &["{a,b}"], &["a"]),
            ("**", &["a", "a/b"], &[]),
            ("\u{feff}a", &["a"], &[]),
            ("/\n!\n", &[], &["a"]),
        ] {
            for path in left_out {
                assert_eq!(said(file, path), Some(true), "{file:?} and {path:?}");
            }
            for path in other {
                assert_eq!(said(file, path), None, "{file:?} and {path:?}");
            }
        }
        assert_eq!(said("*.log\n!keep.log\n", "keep.log"), Some(false));
        assert_eq!(said("!keep.log\n*.log\n", "keep.log"), Some(true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// The `ignore` crate parses rules in the same way, except for braces, malformed rules, and classes like
        /// `[!a]`, which match a slash there and not in git.
        #[test]
        fn rules_mean_what_they_mean_to_ripgrep(
            file in prop::collection::vec("!?/?([ab]|\\*|\\?|\\[a-b\\]|\\\\a|[ab]/[ab]|/\\*\\*/){1,5}/?", 1..4),
            path in "[ab]{1,3}(/[ab]{1,3}){0,3}",
            is_folder in any::<bool>(),
        ) {
            // Empty names and a leading or trailing `**` have different meanings.
            let is_read_alike = |line: &String| !line.contains("//") && !line.trim_start_matches('!').starts_with("/**");
            let file: Vec<String> = file.into_iter().filter(is_read_alike).collect();
            let mut builder = GitignoreBuilder::new("/");
            for line in &file {
                builder.add_line(None, line).unwrap();
            }
            let wanted = match builder.build().unwrap().matched(&path, is_folder) {
                ignore::Match::None => None,
                ignore::Match::Ignore(_) => Some(true),
                ignore::Match::Whitelist(_) => Some(false),
            };
            prop_assert_eq!(IgnoreFile::read(&file.join("\n")).leaves_out(&names(&path), is_folder), wanted);
        }
    }
}

//! Names the slip behind a stop of the YAML parser, at the place where the author has to type.
//!
//! The parser says where its grammar broke, which is often a line behind the slip. What stands around that place, and
//! the kind of the parser's error, tell the common slips apart; for others the parser's own words remain.

use std::ops::Range;

use granit_parser::ErrorKind;

use super::unquoted::begins_typographic;
use super::{SourceError, excerpt, line_start};
use crate::diagnostic::{Code, Span};

/// A place where the parser stopped.
pub(super) struct Stop<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
    pub(super) kind: &'a ErrorKind,
    /// The end of what was read before.
    pub(super) read: usize,
    /// The offset of the innermost list or map in brackets that is open.
    pub(super) bracket: Option<usize>,
}

/// A line without its line break.
#[derive(Clone, Copy)]
struct Line<'a> {
    start: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn indent(self) -> usize {
        self.text.len() - self.text.trim_start_matches([' ', '\t']).len()
    }

    /// The offset of its first character that is not blank.
    fn first(self) -> usize {
        self.start + self.indent()
    }

    /// The offset behind its last character that is not blank.
    fn end(self) -> usize {
        self.start + self.text.trim_end().len()
    }

    /// What it holds behind the dashes of list entries, and the offset of that.
    fn entry(self) -> (&'a str, usize) {
        let mut rest = self.text.trim();
        while let Some(behind) = rest.strip_prefix("- ") {
            rest = behind.trim_start();
        }
        (rest, self.end() - rest.len())
    }

    /// Whether it holds more than a comment.
    fn is_content(self) -> bool {
        let trimmed = self.text.trim();
        !trimmed.is_empty() && !trimmed.starts_with('#')
    }

    fn blank_behind_colon(self) -> Option<SourceError> {
        let (entry, at) = self.entry();
        let (name, behind) = entry.split_once(':')?;
        if !is_word(name) || behind.is_empty() || behind.starts_with([' ', '/', '\t']) {
            return None;
        }
        let colon = at + name.len();
        let message = format!("a space is missing after the colon of `{}`", excerpt(name));
        Some(fault(colon..colon + 1, message, format!("write `{}: {}`", excerpt(name), excerpt(behind))))
    }

    /// A line where a key should stand, without a colon.
    fn keyless(self) -> Option<SourceError> {
        let (entry, at) = self.entry();
        if entry.is_empty() || entry.contains(": ") || entry.ends_with(':') {
            return None;
        }
        let end = self.end();
        if is_word(entry) {
            let hint = format!("write `{entry}:`");
            return Some(fault(end..end, format!("`{}` has no colon after it", excerpt(entry)), hint));
        }
        let message = format!("expected a key with a colon, found `{}`", excerpt(entry));
        Some(fault(at..end, message, "a text of several lines begins with `|` after its key, and is indented below"))
    }

    /// An unquoted text that begins with a list or a map in brackets.
    fn text_in_brackets(self) -> Option<SourceError> {
        let (entry, at) = self.entry();
        let value = entry.find(": ").map_or(0, |colon| colon + 2);
        let rest = entry.get(value..)?;
        let value = at + value + rest.len() - rest.trim_start().len();
        let first = rest.trim_start().chars().next().filter(|c| matches!(c, '[' | '{' | '"' | '\''))?;
        let message = if matches!(first, '"' | '\'') {
            "unexpected text after the closing quote".to_owned()
        } else {
            let read_as = if first == '[' { "list" } else { "map" };
            format!("an unquoted text begins with `{first}`, which YAML reads as a {read_as}")
        };
        Some(fault(value..self.end(), message, "put the whole text in quotes"))
    }
}

fn fault(span: impl Into<Span>, message: impl Into<String>, hint: impl Into<String>) -> SourceError {
    SourceError::new(Code::YamlSyntax, span, message).with_hint(hint)
}

fn colon_in_text(text: &str, span: Range<usize>) -> SourceError {
    let message = "an unquoted text contains a colon and a space, which YAML reads as a key";
    let is_quoted = text.get(span.clone()).is_some_and(begins_typographic);
    let quotes = if is_quoted { "straight quotes, `\"`" } else { "quotes" };
    fault(span, message, format!("put the whole text in {quotes}"))
}

impl<'a> Stop<'a> {
    /// A lost quote or a tab, which make what stands behind them misleading.
    pub(super) fn broken_text(&self) -> Option<SourceError> {
        use ErrorKind as Kind;
        let lost = match self.kind {
            Kind::UnclosedQuotedScalar | Kind::InvalidQuotedScalarIndent | Kind::DocumentIndicatorInQuotedScalar => {
                self.lost_quote()
            }
            Kind::InvalidTrailingDoubleQuotedScalar | Kind::InvalidTrailingSingleQuotedScalar => self.behind_quote(),
            _ => None,
        };
        lost.or_else(|| self.tab())
    }

    /// The slip that made the parser stop there, if it is a common one.
    pub(super) fn slip(&self) -> Option<SourceError> {
        use ErrorKind as Kind;
        match self.kind {
            Kind::UnexpectedCharacter { character } => self.reserved(*character),
            Kind::UnknownAnchor | Kind::MissingAnchorOrAliasName => self.reference(),
            Kind::UnknownQuotedScalarEscape | Kind::InvalidQuotedScalarHexEscape => Some(self.escape()),
            Kind::MappingValueNotAllowed => self.colon(),
            Kind::SimpleKeyExpected | Kind::InvalidSimpleKey | Kind::UnexpectedEofBlockMapping => {
                self.missing_blank().or_else(|| self.line().keyless())
            }
            Kind::ExpectedBlockMappingKey | Kind::InvalidIndentation | Kind::BlockSequenceEntryNotAllowed => {
                self.misplaced_line()
            }
            Kind::ExpectedBlockSequenceEntry => self.missing_blank().or_else(|| Some(self.line_in_list())),
            Kind::MisplacedFlowCollectionEnd => Some(self.bracket_too_many()),
            Kind::MismatchedFlowCollectionEnd { open, close } => {
                let wanted = if *open == '[' { ']' } else { '}' };
                let message = format!("expected `{wanted}` to close the `{open}`, found `{close}`");
                Some(fault(self.offset..self.offset + 1, message, format!("write `{wanted}`")))
            }
            Kind::UnexpectedEofFlowSequence
            | Kind::UnexpectedEofFlowMapping
            | Kind::UnexpectedEofImplicitFlowMapping
            | Kind::ExpectedFlowMappingSeparator
            | Kind::ExpectedFlowSequenceSeparator
            | Kind::UnclosedFlowCollection { .. }
            | Kind::InvalidColonPlacement
            | Kind::InvalidFlowScalarIndent => self.in_brackets(),
            _ => None,
        }
    }

    fn line(&self) -> Line<'a> {
        self.line_at(self.offset)
    }

    fn line_at(&self, offset: usize) -> Line<'a> {
        let start = line_start(self.text, offset);
        let text = self.text.get(start..).unwrap_or_default().split('\n').next().unwrap_or_default();
        Line { start, text }
    }

    /// The lines above, nearest first.
    fn above(&self, line: Line<'a>) -> impl Iterator<Item = Line<'a>> + use<'a, '_> {
        std::iter::successors(Some(line), |line| line.start.checked_sub(1).map(|end| self.line_at(end)))
            .skip(1)
            .filter(|line| line.is_content())
    }

    /// A tab in the indentation of the line, or of the next one if the parser stopped at its end or at a text before it.
    fn tab(&self) -> Option<SourceError> {
        let line = self.line();
        let next = self.line_at((line.start + line.text.len() + 1).min(self.text.len()));
        let reads_on = self.offset >= line.end() || matches!(self.kind, ErrorKind::TabInPlainScalar);
        let indented = |line: &Line<'_>| line.text.get(..line.indent()).is_some_and(|indent| indent.contains('\t'));
        let line = [Some(line), reads_on.then_some(next)].into_iter().flatten().find(indented)?;
        let at = line.start + line.text.find('\t')?;
        Some(fault(at..at + 1, "a tab in the indentation", "indent with spaces; YAML allows no tabs there"))
    }

    /// A line of a block of text that is not indented as far as the block needs.
    pub(super) fn short_block_line(&self) -> Option<SourceError> {
        let line = self.line();
        let (content, _) = line.entry();
        if key_of(content).is_some() || content.starts_with("- ") || !line.is_content() {
            return None;
        }
        let header = self.above(line).find(|above| above.indent() <= line.indent())?;
        let (entry, _) = header.entry();
        let mark = entry.rsplit(' ').next().filter(|mark| is_block_mark(mark))?;
        let name = key_of(entry).map_or_else(|| format!("`{mark}`"), |name| format!("`{name}: {mark}`"));
        let message = format!("this line follows {name} but is not indented as part of its text");
        let hint = "indent all lines of the text alike, further than the line with the `|` or `>`";
        Some(fault(line.first()..line.end(), message, hint))
    }

    /// An unquoted value that begins with a character that YAML reserves.
    fn reserved(&self, character: char) -> Option<SourceError> {
        let rest = self.text.get(self.offset..)?;
        if !rest.starts_with(character) {
            return None;
        }
        if character == '%' && self.text.get(..self.offset)?.ends_with('{') {
            return Some(super::yaml::unquoted_template(Span::new(self.offset - 1, 2), "{%"));
        }
        let shown = if character == '`' { "a backtick".to_owned() } else { format!("`{character}`") };
        let message = format!("an unquoted text begins with {shown}, which YAML keeps for itself");
        Some(fault(self.offset..self.line().end(), message, "put the whole text in quotes"))
    }

    /// An unquoted text that begins with the mark of an anchor or of a reference to one.
    fn reference(&self) -> Option<SourceError> {
        let start = self.text.get(..=self.offset)?.rfind(['*', '&'])?;
        let (mark, read_as, also) = if self.text.get(start..)?.starts_with('*') {
            ("*", "a reference to an anchor", "; for a reference, name a value `&NAME` further up")
        } else {
            ("&", "the name of an anchor", "")
        };
        let message = format!("an unquoted text begins with `{mark}`, which YAML reads as {read_as}");
        Some(fault(start..self.line().end(), message, format!("put the whole text in quotes{also}")))
    }

    /// The quote that opens the quoted text in which the parser stopped, or behind which it did.
    fn opening_quote(&self) -> Option<(usize, char)> {
        let begin = self.read.min(self.offset);
        let mut before = self.text.get(..begin)?.chars().next_back();
        for (at, c) in self.text.get(begin..)?.char_indices() {
            let starts = before.is_none_or(|before| before.is_whitespace() || "[{,:".contains(before));
            if starts && matches!(c, '"' | '\'') {
                return Some((begin + at, c));
            }
            before = Some(c);
        }
        None
    }

    fn lost_quote(&self) -> Option<SourceError> {
        let (opening, quote) = self.opening_quote()?;
        let line = self.line_at(opening);
        let begins = excerpt(self.text.get(opening..line.end())?);
        let message = format!("the text that begins with `{begins}` has no closing quote");
        Some(fault(line.end()..line.end(), message, format!("write `{quote}` where the text ends")))
    }

    /// Text behind a closing quote: a quote within the text, or one lost further up.
    fn behind_quote(&self) -> Option<SourceError> {
        let (opening, quote) = self.opening_quote()?;
        if self.line_at(opening).start != self.line().start {
            return self.lost_quote();
        }
        let closing = self.text.get(..self.offset)?.rfind(quote)?;
        let behind = self.text.get(closing + 1..)?.trim_start();
        if self.bracket.is_some() && behind.starts_with(['"', '\'']) {
            let message = "a comma is missing after this quote";
            return Some(fault(closing..closing + 1, message, "entries in brackets have a comma between them"));
        }
        let hint = if quote == '"' {
            "put the whole text in quotes, and write a quote within it as \\\"; or put it in single quotes"
        } else {
            "put the whole text in double quotes, or write a single quote within it twice: ''"
        };
        Some(fault(closing..closing + 1, "the quoted text ends at this quote, but more text follows it", hint))
    }

    fn escape(&self) -> SourceError {
        const KNOWN: &str = "0abt\tnvfre \"/\\N_LPxuU\r\n";
        let rest = self.text.get(self.offset..).unwrap_or_default();
        let mut chars = rest.char_indices();
        let mut start = self.offset;
        while let Some((at, c)) = chars.next() {
            if c == '\\' && !chars.next().is_some_and(|(_, escaped)| KNOWN.contains(escaped)) {
                start += at;
                break;
            }
        }
        let escape: String = self.text.get(start..).unwrap_or_default().chars().take(2).collect();
        let span = Span::new(start, escape.len());
        let hint = "write a backslash in double quotes twice, or put the text in single quotes";
        fault(span, format!("`{}` is not an escape that double quotes know", excerpt(&escape)), hint)
    }

    /// A colon where no key can stand.
    fn colon(&self) -> Option<SourceError> {
        let line = self.line();
        let before = self.text.get(line.start..self.offset)?;
        if let Some(colon) = before.rfind(": ") {
            let value = line.start + colon + 1;
            let value = value + self.text.get(value..)?.len() - self.text.get(value..)?.trim_start().len();
            return Some(colon_in_text(self.text, value..line.end()));
        }
        let above = self.above(line).next()?;
        above.blank_behind_colon().or_else(|| match (key_of(above.entry().0), key_of(line.entry().0)) {
            (Some(upper), Some(lower)) if above.indent() < line.indent() => {
                let message =
                    format!("`{lower}` is indented further than `{upper}` above it, which has a value already");
                let hint = "indent the keys of one map alike; a text of several lines begins with `|`";
                Some(fault(line.first()..line.end(), message, hint))
            }
            (None, _) => above.keyless(),
            _ => None,
        })
    }

    /// A dash or a colon without a blank behind it, in the line.
    fn missing_blank(&self) -> Option<SourceError> {
        let line = self.line();
        let (entry, at) = line.entry();
        if let Some(behind) = entry.strip_prefix('-').filter(|behind| !behind.is_empty() && !behind.starts_with('-')) {
            let message = "a space is missing after the dash of a list entry";
            return Some(fault(at..at + 1, message, format!("write `- {}`", excerpt(behind))));
        }
        line.blank_behind_colon()
    }

    /// A line whose indentation fits no open list or map, or that is no entry of the one it stands in.
    fn misplaced_line(&self) -> Option<SourceError> {
        let line = self.line();
        let before = self.text.get(line.start..self.offset)?;
        if before.contains([']', '}', '"', '\'']) {
            return line.text_in_brackets();
        }
        let is_entry = line.text.trim_start().starts_with("- ");
        let found = self.missing_blank().or_else(|| {
            let hint = "indent it below the key whose list it belongs to";
            is_entry.then(|| fault(line.first()..line.end(), "a list entry among the keys of a map", hint))
        });
        if let Some(found) = found.or_else(|| line.keyless()) {
            return Some(found);
        }
        let indent = line.indent();
        let mut levels = vec![indent];
        for above in self.above(line).filter(|above| key_of(above.entry().0).is_some()) {
            if levels.iter().all(|level| above.indent() < *level || *level == indent) {
                levels.push(above.indent());
            }
        }
        let nearest = levels.into_iter().skip(1).min_by_key(|level| (level.abs_diff(indent), usize::MAX - level))?;
        let message = format!("this line is indented by {}, which fits no line above it", blanks(indent));
        Some(fault(line.first()..line.end(), message, format!("indent it by {}", blanks(nearest))))
    }

    fn line_in_list(&self) -> SourceError {
        let line = self.line();
        let message = "expected a list entry, but this line does not begin with a dash";
        let hint = "begin it with `- `, or indent it like the lines that it belongs to";
        fault(line.first()..line.end(), message, hint)
    }

    fn bracket_too_many(&self) -> SourceError {
        let rest = self.text.get(self.offset..).unwrap_or_default();
        let at = self.offset + rest.find([']', '}']).unwrap_or(0);
        let bracket = self.text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(']');
        fault(at..at + 1, format!("unmatched `{bracket}`"), "take it out, or quote the text that it belongs to")
    }

    /// A stop within brackets: a comma is missing, or the closing bracket.
    fn in_brackets(&self) -> Option<SourceError> {
        let open = self.bracket.or_else(|| {
            let before = self.text.get(..self.offset)?;
            before.char_indices().rev().find(|(_, c)| matches!(c, '[' | '{')).map(|(at, _)| at)
        })?;
        let opening = self.text.get(open..)?.chars().next()?;
        let (closing, what) = if opening == '[' { (']', "list") } else { ('}', "map") };
        let (line, first_line) = (self.line(), self.line_at(open));
        let is_below = line.start > first_line.start;
        let is_within = line.start == first_line.start && open < self.offset && self.offset < line.end();
        if is_within || (is_below && line.indent() > first_line.indent() && line.is_content()) {
            return self.comma(line);
        }
        let end = if is_below { self.above(line).next().unwrap_or(first_line) } else { line }.end();
        let begins = excerpt(self.text.get(open..first_line.end())?);
        let message = format!("the {what} `{begins}` has no closing bracket");
        Some(fault(end..end, message, format!("write `{closing}` where the {what} ends")))
    }

    /// A key in brackets without a comma in front of it, or a colon within an unquoted text.
    fn comma(&self, line: Line<'_>) -> Option<SourceError> {
        let before = self.text.get(line.start..self.offset)?.trim_end();
        let entry = before.rsplit([',', '{', '[']).next()?;
        if let Some((_, value)) = entry.split_once(": ").filter(|(_, value)| is_word(value.trim())) {
            let start = line.start + before.len() - value.trim_start().len();
            return Some(colon_in_text(self.text, start..self.offset + 1));
        }
        let rest = self.text.get(self.offset..line.end())?;
        let word_start =
            before.rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).map_or(0, |at| at + 1);
        let (word, at) = match before.get(word_start..)? {
            "" => (rest.split([' ', ':', ',']).next()?, self.offset),
            word => (word, line.start + word_start),
        };
        let message = format!("a comma is missing in front of `{}`", excerpt(word));
        let hint = "entries in brackets have a comma between them; a text that holds a colon needs quotes";
        Some(fault(at..at + word.len(), message, hint))
    }
}

/// The key at the beginning of a line's content.
fn key_of(entry: &str) -> Option<&str> {
    let end = entry.find(": ").or_else(|| entry.ends_with(':').then(|| entry.len() - 1))?;
    entry.get(..end).filter(|name| is_word(name.trim_matches(['"', '\''])))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '?' | '.'))
}

fn is_block_mark(text: &str) -> bool {
    text.starts_with(['|', '>']) && text.chars().skip(1).all(|c| matches!(c, '-' | '+' | '0'..='9'))
}

fn blanks(count: usize) -> String {
    if count == 1 { "1 space".to_owned() } else { format!("{count} spaces") }
}

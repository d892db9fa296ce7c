//! Maps a position within a text's value to its position in the file, reversing indentation, folding and escapes.

use std::ops::Range;
use std::str::Chars;

use crate::diagnostic::Span;

/// The span of the bytes `inner` of `value` in `text`, whose scalar at `span` has that value. If the two cannot be
/// matched, such as for an alias or for a quoted text folded over lines, the span of the whole scalar.
pub fn locate(text: &str, span: Span, value: &str, inner: &Range<usize>) -> Span {
    let Some(written) = text.get(span.offset..).and_then(|rest| rest.get(..span.length)) else { return span };
    let indent = span.offset - super::line_start(text, span.offset);
    let find = |at: usize| {
        if value.len() < at {
            return None;
        }
        match written.chars().next() {
            Some('"') => in_quotes(written, value, at, skip_escape),
            Some('\'') => in_quotes(written, value, at, skip_doubled),
            _ => in_lines(written, value, at, indent),
        }
    };
    match (find(inner.start), find(inner.end)) {
        (Some(start), Some(end)) => Span::new(span.offset + start, end.saturating_sub(start)),
        (Some(start), None) => Span::new(span.offset + start, 0),
        (None, _) => span,
    }
}

/// Within quotes. Double quotes allow escapes, which differ between YAML and JSON; in single quotes two quotes mean
/// one.
fn in_quotes(
    written: &str,
    value: &str,
    at: usize,
    escaped: fn(&mut Chars<'_>, char, char) -> Option<()>,
) -> Option<usize> {
    let mut rest = written.get(1..)?.chars();
    let mut done = 0;
    while done < at {
        let wanted = value.get(done..)?.chars().next()?;
        let found = rest.next().filter(|found| *found != '\n')?;
        escaped(&mut rest, found, wanted)?;
        done += wanted.len_utf8();
    }
    Some(written.len() - rest.as_str().len())
}

fn skip_escape(rest: &mut Chars<'_>, found: char, wanted: char) -> Option<()> {
    if found != '\\' {
        return (found == wanted).then_some(());
    }
    let digits = match rest.next()? {
        'x' => 2,
        // JSON writes characters beyond the basic plane as two escapes.
        'u' if wanted.len_utf16() == 2 => 10,
        'u' => 4,
        'U' => 8,
        '\n' | '\r' => return None,
        _ => 0,
    };
    (0..digits).try_for_each(|_| rest.next().map(drop))
}

fn skip_doubled(rest: &mut Chars<'_>, found: char, wanted: char) -> Option<()> {
    let is_pair = found != '\'' || rest.next()? == '\'';
    (found == wanted && is_pair).then_some(())
}

/// In plain texts and blocks, lines are indented, and line breaks may be folded to a blank.
fn in_lines(written: &str, value: &str, at: usize, indent: usize) -> Option<usize> {
    let mut rest = written;
    let mut done = 0;
    while done < at {
        let wanted = value.get(done..)?.chars().next()?;
        let found = rest.chars().next()?;
        if let Some(next_line) = rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n")) {
            match wanted {
                '\n' => {
                    done += 1;
                    rest = strip_indent(next_line, indent);
                }
                ' ' => {
                    done += 1;
                    rest = next_line.trim_start_matches([' ', '\t']);
                }
                // Folding removes the first of several line breaks.
                _ => rest = strip_indent(next_line, indent),
            }
        } else if found == wanted {
            rest = rest.get(found.len_utf8()..)?;
            done += wanted.len_utf8();
        } else if matches!(found, ' ' | '\t') {
            rest = rest.get(1..)?;
        } else {
            return None;
        }
    }
    Some(written.len() - rest.len())
}

fn strip_indent(line: &str, indent: usize) -> &str {
    let blanks = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
    line.get(blanks..).unwrap_or_default()
}

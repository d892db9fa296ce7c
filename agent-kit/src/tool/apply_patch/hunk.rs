//! One hunk of a patch, and where it applies in a file.

use std::borrow::Cow;
use std::fmt::Write;

use super::super::text::Text;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The first line in the old and in the new file, according to the header.
    pub(super) old_start: usize,
    pub(super) new_start: usize,
    /// Its lines with their marks.
    pub(super) body: String,
}

impl Hunk {
    /// A header that matches the lines.
    pub(super) fn header(&self) -> String {
        let count = |marks: [char; 2]| self.body.lines().filter(|line| line.starts_with(marks)).count();
        let (old, new) = (count([' ', '-']), count([' ', '+']));
        format!("@@ -{},{old} +{},{new} @@", self.old_start, self.new_start)
    }

    /// The lines that the old file must contain.
    pub(super) fn old_lines(&self) -> String {
        self.body.lines().filter(|line| line.starts_with([' ', '-'])).fold(String::new(), |mut old, line| {
            // Writing to a string cannot fail.
            let _ = writeln!(old, "{}", line.get(1..).unwrap_or_default());
            old
        })
    }

    /// The lines before and after, with the line ends of `text`.
    pub(super) fn lines_in(&self, text: &Text) -> Result<HunkLines, String> {
        let body = text.in_its_newlines(&self.body);
        let line_end = if matches!(body, Cow::Owned(_)) { "\r\n" } else { "\n" };
        let (mut old, mut new) = (Side::default(), Side::default());
        let mut last = None;
        for line in body.split_inclusive('\n') {
            let (mark, line) = line.split_at_checked(1).unwrap_or_default();
            match mark {
                "\\" => {
                    let last = last.take().ok_or("a line that begins with `\\` follows no line that it could mean")?;
                    for (side, is_meant) in [(&mut old, last != "+"), (&mut new, last != "-")] {
                        if is_meant {
                            side.end(line_end);
                        }
                    }
                    continue;
                }
                "-" => old.push(line)?,
                "+" => new.push(line)?,
                _ => {
                    old.push(line)?;
                    new.push(line)?;
                }
            }
            last = Some(mark);
        }
        Ok(HunkLines { old: old.text, new: new.text })
    }
}

#[derive(Default)]
struct Side {
    text: String,
    /// Its last line is the file's last, without a line end.
    is_ended: bool,
}

impl Side {
    fn push(&mut self, line: &str) -> Result<(), String> {
        if self.is_ended {
            return Err("lines follow one that is marked as the last of the file".to_owned());
        }
        self.text.push_str(line);
        Ok(())
    }

    fn end(&mut self, line_end: &str) {
        self.is_ended = true;
        if self.text.ends_with(line_end) {
            self.text.truncate(self.text.len() - line_end.len());
        }
    }
}

/// The lines that a hunk removes from a file and adds to it.
pub(super) struct HunkLines {
    pub(super) old: String,
    pub(super) new: String,
}

impl HunkLines {
    /// Where the old lines occur in `content` as whole lines: the position nearest to line `wanted`, the earlier one of
    /// two that are equally near. Takes time and memory in proportion to the texts.
    pub(super) fn place(&self, content: &str, wanted: usize) -> Option<usize> {
        let old = self.old.as_str();
        let wanted = beginning_of_line(content, wanted);
        if old.is_empty() {
            return Some(wanted);
        }
        if !old.ends_with('\n') {
            let at = content.len().checked_sub(old.len())?;
            let begins_line = at == 0 || content.as_bytes().get(at - 1) == Some(&b'\n');
            return (begins_line && content.ends_with(old)).then_some(at);
        }
        // Includes the line end before it, so that only whole lines match.
        let needle = format!("\n{old}");
        let reach = content.floor_char_boundary(wanted.saturating_add(old.len()));
        let earlier = content.get(..reach).and_then(|content| content.rfind(&needle)).map(|at| at + 1);
        let earlier = earlier.or_else(|| content.starts_with(old).then_some(0));
        let later = content.get(wanted..).and_then(|content| content.find(&needle)).map(|at| wanted + at + 1);
        let (Some(before), Some(after)) = (earlier, later) else { return earlier.or(later) };
        let lines = |from: usize, to: usize| content.get(from..to).unwrap_or_default().matches('\n').count();
        Some(if lines(before, wanted) <= lines(wanted, after) { before } else { after })
    }
}

/// The offset of line `number`, counted from 1; the end when there are fewer lines.
fn beginning_of_line(content: &str, number: usize) -> usize {
    match number.checked_sub(2) {
        None => 0,
        Some(ends) => content.match_indices('\n').nth(ends).map_or(content.len(), |(at, _)| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_place_is_taken() {
        let place = |old: &str, content: &str, wanted| {
            HunkLines { old: old.to_owned(), new: String::new() }.place(content, wanted)
        };
        let content = "a\nb\na\nb\nxa\nb\na\nb\nend";
        for (old, wanted, found) in [
            ("a\nb\n", 0, Some(0)),
            ("a\nb\n", 1, Some(0)),
            ("a\nb\n", 2, Some(0)),
            ("a\nb\n", 3, Some(4)),
            ("a\nb\n", 5, Some(4)),
            ("a\nb\n", 6, Some(13)),
            ("a\nb\n", 999, Some(13)),
            ("xa\n", 1, Some(8)),
            ("end", 1, Some(17)),
            ("nd", 1, None),
            ("end\n", 1, None),
            ("a\na\n", 1, None),
            ("", 0, Some(0)),
            ("", 3, Some(4)),
            ("", 999, Some(20)),
        ] {
            assert_eq!(place(old, content, wanted), found, "{old:?} near {wanted}");
        }
        assert_eq!(place("é\n", "ü\né\n", 1), Some(3));
        assert_eq!(place("a\n", "", 1), None);
        assert_eq!(place("", "", 1), Some(0));
    }
}

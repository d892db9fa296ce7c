//! Finds what in a file is nearest to a text that is not in it, in words that help a model correct its call.

use std::fmt::Write;

use super::text::redacted;
use crate::redact::Redactor;

/// The maximum number of near lines that an error lists.
const NEAR_MAX: usize = 3;
/// The maximum length and number of lines that are compared: comparing is quadratic.
const NEAR_LINE_MAX_BYTES: usize = 400;
const NEAR_LINES_MAX: usize = 20_000;
/// The maximum number of lines that are compared character by character.
const COMPARED_MAX: usize = 2_000;
/// The minimum similarity of a line to be listed, out of 1.
const NEAR_ENOUGH: f32 = 0.6;

pub(super) fn nearest(content: &str, old: &str, redactor: &Redactor) -> String {
    let lines: Vec<&str> = content.lines().take(NEAR_LINES_MAX).collect();
    let wanted: Vec<&str> = old.lines().skip_while(|line| line.trim().is_empty()).collect();
    let Some(first) = wanted.first().map(|line| line.trim()) else {
        return "; it holds only white space".to_owned();
    };
    if let Some(difference) = first_difference(&lines, &wanted, redactor) {
        return difference;
    }
    let first = first.get(..first.floor_char_boundary(NEAR_LINE_MAX_BYTES)).unwrap_or_default();
    // A line that is much shorter or longer cannot be near enough.
    let fits = |line: &&str| {
        line.len() <= NEAR_LINE_MAX_BYTES && line.len() <= first.len() * 3 && first.len() <= line.len() * 3
    };
    let candidates: Vec<&str> =
        lines.iter().map(|line| line.trim()).filter(fits).filter(|line| !line.is_empty()).take(COMPARED_MAX).collect();
    let near = similar::get_close_matches(first, &candidates, NEAR_MAX, NEAR_ENOUGH);
    if near.is_empty() {
        return ", nor anything like it; read the file again".to_owned();
    }
    let mut words = "; the lines that come nearest to its first are:".to_owned();
    let mut seen: Vec<&str> = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| near.contains(&line.trim())) {
        if !seen.contains(line) && seen.len() < NEAR_MAX {
            seen.push(line);
            // Writing to a string cannot fail.
            let _ = write!(words, "\n{:>6}\t{line}", index + 1);
        }
    }
    words
}

/// Describes where the file first differs from `wanted`, at the position with the longest match apart from white space.
fn first_difference(lines: &[&str], wanted: &[&str], redactor: &Redactor) -> Option<String> {
    let agreeing = |at: usize| {
        let pairs = lines.iter().skip(at).zip(wanted);
        pairs.take_while(|(line, wanted)| line.trim() == wanted.trim()).count()
    };
    let first = wanted.first()?.trim();
    let begins = lines.iter().enumerate().filter(|(_, line)| line.trim() == first).map(|(at, _)| at).take(1_000);
    let (length, at) = begins.map(|at| (agreeing(at), at)).max_by_key(|(length, at)| (*length, usize::MAX - at))?;
    let line = at + length + 1;
    let shown = |line: &str| redacted(redactor, line.as_bytes(), NEAR_LINE_MAX_BYTES);
    let Some(wanted) = wanted.get(length) else {
        return Some(format!(
            "; it is there at line {} but for white space: give indentation, tabs and line ends as they stand there",
            at + 1
        ));
    };
    let stands = lines.get(at + length).map_or("the end of the file".to_owned(), |line| format!("{:?}", shown(line)));
    Some(format!("; it agrees from line {} on, but line {line} is {stands} and not {:?}", at + 1, shown(wanted)))
}

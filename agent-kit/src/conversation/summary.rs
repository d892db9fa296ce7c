//! Parses a text of layout 1 back into the prompt and the steps of others.
//!
//! Used to explain a request to people. The parts are returned as written, with their escapes.

use super::layout_v1::{BEFORE_FIRST, EMPTY_LINE, ENTRY, LEFT_OUT, SINCE_LAST};

/// The parts of the message that opens a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary<'a> {
    pub prompt: &'a str,
    /// The steps of others, as written in the message.
    pub entries: Vec<&'a str>,
    pub leaves_out: bool,
}

impl<'a> Summary<'a> {
    pub fn within(text: &'a str) -> Self {
        let Some((prompt, summary)) = parts(text) else {
            let prompt = if text == EMPTY_LINE { "" } else { text.trim_end_matches('\n') };
            return Self { prompt, entries: Vec::new(), leaves_out: false };
        };
        let entries = summary.strip_prefix(LEFT_OUT).unwrap_or(summary).trim_matches('\n');
        let mut starts: Vec<usize> = entries.match_indices(ENTRY).map(|(at, _)| at).collect();
        starts.retain(|at| *at == 0 || entries.get(..*at).is_some_and(|before| before.ends_with('\n')));
        let ends = starts.iter().skip(1).copied().chain([entries.len()]);
        let entry = |(start, end): (&usize, usize)| entries.get(*start..end).map(|entry| entry.trim_end_matches('\n'));
        Self {
            prompt,
            entries: starts.iter().zip(ends).filter_map(entry).collect(),
            leaves_out: summary.starts_with(LEFT_OUT),
        }
    }

    /// Whether `other` contains the same steps in another order.
    pub fn is_reordered(&self, other: &Self) -> bool {
        let sorted = |entries: &[&'a str]| {
            let mut entries = entries.to_vec();
            entries.sort_unstable();
            entries
        };
        self.entries.len() == other.entries.len()
            && self.entries != other.entries
            && sorted(&self.entries) == sorted(&other.entries)
    }
}

/// Splits a text into the prompt and the text after the line that starts the summary. No line of a prompt equals that
/// line.
fn parts(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split('\n') {
        if [BEFORE_FIRST, SINCE_LAST].contains(&line) {
            let (before, after) = (text.get(..at)?, text.get(at + line.len()..)?.strip_prefix("\n\n")?);
            return Some((before.strip_suffix("\n\n").unwrap_or(before), after));
        }
        at += line.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_text_are_told_apart() {
        let steps = "<step role=\"a\" status=\"b\">\n{\"x\":1}\n</step>\n<step role=\"c\" status=\"d\"/>";
        let text = format!("Go.\n\n{SINCE_LAST}\n\n{LEFT_OUT}\n{steps}");
        let summary = Summary::within(&text);
        assert_eq!((summary.prompt, summary.leaves_out), ("Go.", true));
        assert_eq!(summary.entries.join("\n"), steps);
        assert_eq!(summary.entries.len(), 2);
        let alone = format!("{BEFORE_FIRST}\n\n{steps}");
        assert_eq!((Summary::within(&alone).prompt, Summary::within(&alone).entries.len()), ("", 2));
    }

    #[test]
    fn a_text_without_steps_is_a_prompt() {
        let text = format!("Say \"{SINCE_LAST}\" and no more.");
        assert_eq!(Summary::within(&text), Summary { prompt: &text, entries: Vec::new(), leaves_out: false });
        assert_eq!(Summary::within(EMPTY_LINE).prompt, "");
    }

    #[test]
    fn another_order_is_not_another_summary() {
        let (a, b) = ("<step role=\"a\" status=\"x\"/>", "<step role=\"b\" status=\"x\"/>");
        let of = |first: &str, second: &str| format!("{BEFORE_FIRST}\n\n{first}\n{second}");
        let (ab, ba, aa) = (of(a, b), of(b, a), of(a, a));
        assert!(Summary::within(&ab).is_reordered(&Summary::within(&ba)));
        assert!(!Summary::within(&ab).is_reordered(&Summary::within(&aa)));
        assert!(!Summary::within(&ab).is_reordered(&Summary::within(&ab)));
    }
}

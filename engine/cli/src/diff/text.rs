//! The difference of two threads for people.
//!
//! Laws. What is unchanged is shown only near what is changed. Output is bounded for texts of any size: a mark stands
//! for what is left out. Only this file adds colours, to texts that are already printable.

use std::borrow::Cow;
use std::fmt::Write as _;

use rondo::author::thread_diff::words::{DiffPart, words};
use rondo::protocol::Value;
use rondo::store::StoredStep;
use rondo::tell::{one_line, plural, printable, word};
use rondo::views::diff::{DiffLine, KnownTotals, Sides, TotalsLine, WorkflowLine, names, tools_and_repairs};
use rondo::views::lines::{StepLine, ThreadLine, who};
use rondo::views::spending::Spending;

use crate::Style;
use crate::spending::spending_text;

use super::super::show::block;

const CONTEXT: usize = 80;
const MAX_CHANGED: usize = 2_000;
const MAX_PARTS: usize = 400;

const RED: &str = "31";
const GREEN: &str = "32";

pub struct DiffText {
    style: Style,
    /// Pairs whose texts are the same, since the last one that was shown.
    same: u64,
    has_any: bool,
}

impl DiffText {
    pub fn new(style: Style) -> Self {
        Self { style, same: 0, has_any: false }
    }

    /// What is common, and how the threads started. `last` is the last common step.
    pub fn head(&self, line: &DiffLine<'_>, last: Option<&StoredStep>, threads: Sides<&ThreadLine>) -> String {
        let mut text = match (line.common, last) {
            (Some(common), Some(last)) => {
                let who = who(&last.step.role, &last.step.lane);
                format!("last common step: {}. {who}, visit {}  {}\n", common.seq, last.visit, common.step)
            }
            (Some(common), None) => format!("last common step: {}  {}\n", common.seq, common.step),
            (None, _) => "no step in common\n".to_owned(),
        };
        for (name, thread) in [("a", threads.a), ("b", threads.b)] {
            let _ = writeln!(text, "{name}  {}  {}  {}", thread.thread, one_line(&thread.name), word(&thread.status));
        }
        let Sides { a, b } = &line.workflow;
        if a != b {
            let of = |side: &WorkflowLine<'_>| format!("{} {}", side.name, side.workflow);
            self.change(&mut text, "workflow", &of(a), &of(b));
        }
        for place in &line.definition {
            let of = |value: Option<&serde_json::Value>| {
                value.map_or_else(String::new, |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            };
            self.change(&mut text, &one_line(&place.path), &of(place.a.as_ref()), &of(place.b.as_ref()));
        }
        for input in &line.inputs {
            let of = |value: Option<&Value>| value.map(shown_value).unwrap_or_default();
            self.change(&mut text, &format!("input {} =", one_line(input.name)), &of(input.a), &of(input.b));
        }
        text
    }

    /// A step of one thread or of both; empty if its texts are the same.
    pub fn pair(&mut self, a: Option<&StepLine>, b: Option<&StepLine>, changed: &[String]) -> String {
        self.has_any = true;
        if a.is_some() && b.is_some() && changed.is_empty() {
            self.same += 1;
            return String::new();
        }
        let mut text = self.same_text();
        let Some(any) = a.or(b) else { return text };
        let seq = match (a, b) {
            (Some(a), Some(b)) if a.seq != b.seq => format!("{}/{}", a.seq, b.seq),
            _ => any.seq.to_string(),
        };
        let [old, new] = [a, b].map(|step| step.map_or("", |step| step.status.as_str()));
        let only = match (a, b) {
            (Some(_), Some(_)) => "",
            (Some(_), None) => "  only in a",
            _ => "  only in b",
        };
        let status = self.parts(&words(old, new));
        let _ = writeln!(text, "\n{seq:>3}. {}, visit {}: {status}{only}", who(&any.role, &any.lane), any.visit);
        for TextPair { label, old, new } in text_pairs(a, b) {
            if old != new {
                self.change(&mut text, &label, &old, &new);
            }
        }
        if changed.iter().any(|name| name == "transcript") {
            let [old, new] = [a, b].map(|step| step.map_or(0, |step| tools_and_repairs(step).count()));
            let _ = writeln!(text, "     its tool calls and repairs differ: {old} in a, {new} in b");
        }
        let [of_a, of_b] =
            [a, b].map(|step| step.map_or_else(String::new, |step| spending_text(&Spending::from(&step.note))));
        if of_a != of_b {
            for (name, spent) in [("a", of_a), ("b", of_b)].into_iter().filter(|(_, spent)| !spent.is_empty()) {
                let _ = writeln!(text, "     {name}{spent}");
            }
        }
        text
    }

    pub fn end(mut self, totals: &TotalsLine) -> String {
        let mut text = self.same_text();
        if !self.has_any {
            text.push_str("\nthe threads have the same steps\n");
        }
        text.push_str(&totals_text(totals));
        text
    }

    fn same_text(&mut self) -> String {
        match std::mem::take(&mut self.same) {
            0 => String::new(),
            same => format!("\n     {} with the same texts\n", plural(same, "step")),
        }
    }

    fn change(&self, text: &mut String, label: &str, old: &str, new: &str) {
        // Blanks at the end are not shown otherwise either, unless there is nothing else.
        let (old, new) = match (old.trim_end(), new.trim_end()) {
            (trimmed, same) if trimmed == same => (old, new),
            trimmed => trimmed,
        };
        block(text, label, &self.parts(&words(&printable(old), &printable(new))));
    }

    fn parts(&self, parts: &[DiffPart]) -> String {
        let mut text = String::new();
        let last = parts.len().saturating_sub(1);
        let near = |is_change: bool| if is_change { CONTEXT } else { 0 };
        for (at, part) in parts.iter().enumerate().take(MAX_PARTS) {
            match part {
                // A mark is no shorter than a few words.
                DiffPart::Same(same) if parts.len() > 1 => {
                    text.push_str(&cut(same, near(at > 0), near(at < last), CONTEXT / 2));
                }
                DiffPart::Same(same) => text.push_str(same),
                DiffPart::Changed { removed, added } => {
                    self.paint(&mut text, ("[-", "-]"), RED, removed);
                    self.paint(&mut text, ("{+", "+}"), GREEN, added);
                }
            }
        }
        if parts.len() > MAX_PARTS {
            let _ = write!(text, " [... {} more changes ...]", (parts.len() - MAX_PARTS).div_ceil(2));
        }
        text
    }

    fn paint(&self, text: &mut String, (begin, end): (&str, &str), colour: &str, changed: &str) {
        if changed.is_empty() {
            return;
        }
        let shown = cut(changed, MAX_CHANGED / 2, MAX_CHANGED / 2, 0);
        if !self.style.has_colour {
            let _ = write!(text, "{begin}{shown}{end}");
            return;
        }
        // Each line by itself: the indent between them is not a part of the text.
        for line in shown.split_inclusive('\n') {
            let (line, newline) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            text.push_str(&self.style.paint(colour, line));
            text.push_str(newline);
        }
    }
}

struct TextPair {
    label: String,
    old: String,
    new: String,
}

fn edge_text(step: &StepLine) -> String {
    let status = step.edge.status.as_ref().map_or_else(String::new, |status| format!(" {status}"));
    format!("{}{status}", step.edge.from)
}

/// The texts of a step in the order of `rondo show`; empty where a thread does not have the step.
fn text_pairs(a: Option<&StepLine>, b: Option<&StepLine>) -> Vec<TextPair> {
    let pair = |label: String, of: &dyn Fn(&StepLine) -> String| {
        let [old, new] = [a, b].map(|step| step.map(of).unwrap_or_default());
        TextPair { label, old, new }
    };
    let mut pairs = Vec::new();
    let from = a.or(b).map(edge_text).unwrap_or_default();
    if a.is_some() && b.is_some() {
        pairs.push(pair("edge =".to_owned(), &edge_text));
    }
    pairs.push(pair(format!("{from} >"), &|step| step.edge.prompt.clone()));
    let [output_a, output_b] = [a, b].map(|step| step.map_or(&Value::Null, |step| &step.output));
    for name in names(output_a, output_b) {
        let value = |step: &StepLine| step.output.get(name).map(shown_value).unwrap_or_default();
        pairs.push(pair(format!("{name} ="), &value));
    }
    pairs.push(pair(String::new(), &|step| step.body.clone()));
    // Answers that differ in their form alone have nothing else to show.
    if pairs.iter().all(|pair| pair.old == pair.new) {
        pairs.push(pair("answer =".to_owned(), &|step| step.answer.clone()));
    }
    if a.is_some() && b.is_some() {
        let observed = |step: &StepLine| serde_json::to_string(&step.observations).unwrap_or_default();
        pairs.push(pair("observed =".to_owned(), &observed));
    }
    pairs
}

fn shown_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_text(), str::to_owned)
}

/// The first and the last characters of a text, and how many stand between them; all of it where those are not more
/// than `few`.
fn cut(text: &str, first: usize, last: usize, few: usize) -> Cow<'_, str> {
    let left_out = text.chars().count().saturating_sub(first + last);
    if left_out <= few {
        return Cow::Borrowed(text);
    }
    let place = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let (begin, end) = (text.get(..place(first)), text.get(place(first + left_out)..));
    Cow::Owned(format!("{}[... {left_out} characters ...]{}", begin.unwrap_or_default(), end.unwrap_or_default()))
}

fn totals_text(totals: &TotalsLine) -> String {
    let mut text = format!(
        "\n{:<4}{:>8} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10}\n",
        "", "steps", "calls", "tools", "prompt", "cached", "output", "cost"
    );
    for (name, of) in [("a", totals.a), ("b", totals.b)] {
        let KnownTotals { steps, model_calls, tool_calls, prompt_tokens, cached_tokens, output_tokens, cost } = of;
        let tokens = |tokens: Option<u64>| tokens.map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string());
        let cost = cost.to_string();
        let [prompt, cached, output] = [prompt_tokens, cached_tokens, output_tokens].map(tokens);
        let _ = writeln!(
            text,
            "{name:<4}{steps:>8} {model_calls:>8} {tool_calls:>8} {prompt:>10} {cached:>10} {output:>10} {cost:>10}"
        );
    }
    for (name, KnownTotals { model_calls, cost, .. }) in [("a", totals.a), ("b", totals.b)] {
        if cost.usd().is_some() && cost.unpriced_calls() > 0 {
            let calls = plural(model_calls, "call");
            let _ = writeln!(text, "{} of {calls} in {name} have no known price", cost.unpriced_calls());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str, has_colour: bool) -> String {
        let mut text = String::new();
        DiffText::new(Style { has_colour, ..Style::PLAIN }).change(&mut text, "", old, new);
        text.trim().to_owned()
    }

    #[test]
    fn removed_and_added_words_are_marked_or_coloured() {
        assert_eq!(shown("a tide pool", "a rock pool, wet\n", false), "a [-tide-]{+rock+} pool{+, wet+}");
        let coloured = "a \u{1b}[31mtide\u{1b}[0m\u{1b}[32mrock\u{1b}[0m pool";
        assert_eq!(shown("a tide pool", "a rock pool", true), coloured);
        assert_eq!(shown("a", "a\nb\nc", true), "a\n       \u{1b}[32mb\u{1b}[0m\n       \u{1b}[32mc\u{1b}[0m");
        assert_eq!(shown("a", "a \n", false), "a{+\n       +}");
    }

    #[test]
    fn what_a_model_says_does_not_steer_the_terminal() {
        let text = shown("a", "\u{1b}[2Jb", true);
        assert_eq!(text.matches('\u{1b}').count(), 4, "only the colours do: {text:?}");
    }

    #[test]
    fn unchanged_stretches_and_long_changes_are_cut() {
        let long = "a line of many words without an end\n".repeat(700);
        let text = shown(&format!("{long}old {long}old."), &format!("{long}new {long}new."), false);
        assert_eq!(text.matches("characters ...]").count(), 2, "{text}");
        assert!(text.contains("[-old-]{+new+}") && text.len() < 1_000, "{text}");
        let text = shown("", &"word ".repeat(50_000), false);
        assert!(text.contains("[... 247999 characters ...]") && text.len() < 3_000, "{text}");
        let changes = (0..400).map(|at| format!("a{at} same ")).collect::<Vec<_>>().concat();
        let text = shown(&changes, &changes.replace('a', "b").replace("sbme", "same"), false);
        assert!(text.ends_with("[... 200 more changes ...]") && text.len() < 8_000, "{text}");
        assert_eq!(shown(&format!("{}x", "short ".repeat(6)), &format!("{}y", "short ".repeat(6)), false).len(), 46);
    }
}

//! Finds text that changes from run to run, or from machine to machine, where every request should start alike: in
//! system texts, in tool descriptions, and in the prompts that open a thread.
//!
//! A later prompt is at the end of a conversation and changes nothing before it: dates and paths belong there. The
//! values printed by the first prompts differ in every thread, which is fine. Only an input whose name suggests a
//! clock, an id or a path is reported, and only if more text follows it.

use std::ops::Range;

use rondo_agent_kit::prefix::volatile::{Volatile, VolatileSpan, find};
use rondo_agent_kit::tool::wire_name;
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::workflow::source_map::{item, key};
use rondo_protocol::workflow::template::{Segment, Template};
use rondo_protocol::workflow::{Edge, SourceMap, Target, Workflow};

use super::LintedRole;
use crate::{LocatedEdge, cut, edges};

/// Words in an input's name that suggest it changes with the time or place of a run.
const NAMES: [&str; 15] = [
    "now",
    "today",
    "date",
    "time",
    "datetime",
    "timestamp",
    "clock",
    "uuid",
    "guid",
    "nonce",
    "cwd",
    "pwd",
    "path",
    "hostname",
    "env",
];

/// The most findings reported per text: further ones have the same cause.
const MAX_OF_A_TEXT: usize = 20;

const SHOWN_CHARS: usize = 60;

pub(super) fn lint(workflow: &Workflow, parts: &[LintedRole<'_>], places: &SourceMap) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for part in parts {
        system_text(part, places, &mut found);
        tools(part, places, &mut found);
    }
    for (path, prompt) in opening_prompts(workflow) {
        for (path, source) in places.texts(&path) {
            // A file may have other line ends than the prompt; only the prompt itself is a template.
            if source == prompt {
                written(&path, source, places, &mut found);
                printed(&path, source, places, &mut found);
            }
        }
    }
    found
}

fn system_text(part: &LintedRole<'_>, places: &SourceMap, found: &mut Vec<Diagnostic>) {
    for (path, text) in places.texts(&part.system()) {
        for volatile in find(text).into_iter().take(MAX_OF_A_TEXT) {
            let shown = shown(text, &volatile.at);
            let message = format!("{} in the system text of `{}`: {shown}", what(volatile.kind), part.name);
            let hint = "whenever it is changed, nothing that a provider keeps of this role is found again: say it in a \
                        later prompt, or let a tool tell it";
            found.push(places.fault(Code::VolatileText, &path, Some(volatile.at), message).with_hint(hint));
        }
    }
}

/// Tools come before the system text, so a volatile description breaks the whole prefix.
fn tools(part: &LintedRole<'_>, places: &SourceMap, found: &mut Vec<Diagnostic>) {
    for spec in &part.head.tools {
        let texts = [("description", &spec.description), ("schema", &spec.parameters)];
        let volatile = texts.iter().find_map(|(of, text)| find(text).into_iter().next().map(|found| (of, text, found)));
        let Some((of, text, volatile)) = volatile else { continue };
        let tools = key(&key("roles", part.name.as_str()), "tools");
        let named = part.role.tools.iter().position(|named| wire_name(named) == spec.name);
        let path = named.map_or_else(|| tools.clone(), |position| item(&tools, position));
        let (what, shown) = (what(volatile.kind), shown(text, &volatile.at));
        let message = format!("{what} in the {of} of the tool `{}` of `{}`: {shown}", spec.name, part.name);
        let hint = format!(
            "tools stand before everything else: describe [tool.{}] in rondo.toml without it, in the `description` of \
             its schema",
            spec.name
        );
        found.push(places.fault(Code::VolatileText, &path, None, message).with_hint(hint));
    }
}

fn written(path: &str, source: &str, places: &SourceMap, found: &mut Vec<Diagnostic>) {
    let text = without_tags(source);
    let in_front = |found: &VolatileSpan| has_words(text.get(found.at.end..));
    for volatile in find(&text).into_iter().filter(in_front).take(MAX_OF_A_TEXT) {
        let (what, shown) = (what(volatile.kind), shown(source, &volatile.at));
        let message = format!("{what} in the prompt that opens a thread: {shown}");
        let hint = "once it is changed, no thread shares what stands behind it with those before: put it at the \
                    prompt's end, or into a later prompt";
        found.push(places.fault(Code::VolatileText, path, Some(volatile.at), message).with_hint(hint));
    }
}

/// Checks the changing inputs that an opening prompt prints.
fn printed(path: &str, source: &str, places: &SourceMap, found: &mut Vec<Diagnostic>) {
    let Ok(template) = Template::parse(source) else { return };
    let text = without_tags(source);
    for used in template.uses().into_iter().take(MAX_OF_A_TEXT) {
        let (root, Some(Segment::Name(name))) = (used.path.root(), used.path.segments().first()) else { continue };
        if root == "input" && is_volatile(name) && has_words(text.get(used.range.end..)) {
            let message = format!("`input.{name}` precedes text in the prompt that opens a thread");
            let hint = "threads with another value share nothing of what follows it: put it at the prompt's end, or \
                        into a later prompt";
            found.push(places.fault(Code::VolatileInput, path, Some(used.range), message).with_hint(hint));
        }
    }
}

/// Whether words follow, not only punctuation. Nothing sharable follows the end of a prompt.
fn has_words(rest: Option<&str>) -> bool {
    rest.is_some_and(|rest| rest.contains(char::is_alphanumeric))
}

fn is_volatile(name: &str) -> bool {
    name.split(['_', '-']).any(|word| NAMES.contains(&word.to_ascii_lowercase().as_str()))
}

/// The prompts on edges from `start`, each with its path.
fn opening_prompts(workflow: &Workflow) -> Vec<(String, &str)> {
    let starts = edges(workflow).into_iter().filter(|located| located.status.is_none());
    starts.flat_map(|LocatedEdge { path, edge, .. }| of_edge(&path, edge)).collect()
}

fn of_edge<'w>(path: &str, edge: &'w Edge) -> Vec<(String, &'w str)> {
    match &edge.to {
        Target::Fan(fan) => {
            let of = |(position, branch): (usize, &'w rondo_protocol::workflow::Branch)| {
                (key(&item(&key(path, "to"), position), "prompt"), branch.prompt.as_str())
            };
            fan.branches.iter().enumerate().map(of).collect()
        }
        _ => vec![(key(path, "prompt"), edge.prompt.as_str())],
    }
}

/// The source of a template with blanks in place of its tags, so that positions stay the same.
pub(super) fn without_tags(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = ["{{", "{%", "{#"].iter().filter_map(|tag| rest.find(tag)).min() {
        let (before, tag) = rest.split_at_checked(open).unwrap_or((rest, ""));
        let close = match tag.get(..2) {
            Some("{{") => "}}",
            Some("{%") => "%}",
            _ => "#}",
        };
        // A tag need not close before the end of this text; the checker made sure that it does.
        let end = tag.find(close).map_or(tag.len(), |at| at + close.len());
        text.push_str(before);
        text.extend(std::iter::repeat_n(' ', end));
        rest = tag.get(end..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

fn what(kind: Volatile) -> &'static str {
    match kind {
        Volatile::Clock => "a date or time",
        Volatile::Id => "an id",
        Volatile::Path => "a path",
        Volatile::Environment => "something of the environment",
    }
}

fn shown(text: &str, at: &Range<usize>) -> String {
    format!("`{}`", cut(text.get(at.clone()).unwrap_or_default(), SHOWN_CHARS, ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_blanked_and_places_stay() {
        let source = "a {{ input.x }} b {% if y %}é{% endif %}{# 2026-01-01 #}";
        let text = without_tags(source);
        assert_eq!(text.len(), source.len());
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["a", "b", "é"]);
        assert_eq!(without_tags("a {{ b"), "a     ");
        assert_eq!(without_tags("{% é %}x"), "        x");
    }

    #[test]
    fn an_input_is_volatile_by_a_word_of_its_name() {
        for name in ["now", "run_date", "start-time", "UUID", "cwd", "repo_path"] {
            assert!(is_volatile(name), "{name}");
        }
        for name in ["topic", "candidate", "sometimes", "knowledge", "update", "pathology"] {
            assert!(!is_volatile(name), "{name}");
        }
    }
}

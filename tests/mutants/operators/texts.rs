//! Words changed, removed and added in system texts, prompts, and lines for the user.

use std::collections::BTreeMap;
use std::ops::Range;

use rondo_protocol::source::Node;

use super::graph;
use crate::chance;
use crate::mutant::{FILE, Mutant, Named};
use crate::subject::Subject;
use crate::tree::{self, Step, then};

/// What a word becomes, and what is put before one.
const WORDS: [&str; 6] = ["seldom", "perhaps", "elsewhere", "rather", "nearly", "meanwhile"];
/// The shortest word that is touched, in bytes.
const WORD_MIN: usize = 3;
/// A day on which no scenario was accepted.
const DATE: &str = "Today is 3 February 2031.";

/// Where a text is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// In a file of its own.
    File(String),
    /// In the workflow file, at the part of that name.
    Tree(String),
}

/// A text, and which parts of the workflow it is.
#[derive(Debug, Clone)]
struct Written {
    text: String,
    steps: Vec<Step>,
    parts: Vec<String>,
    is_template: bool,
    causes: &'static [&'static str],
}

type Texts = BTreeMap<Origin, Written>;

/// Mutants of every text.
pub fn mutants(subject: &Subject, mutants: &mut Vec<Mutant>) {
    let mut texts = Texts::new();
    systems(subject, &mut texts);
    for edge in graph::edges(&subject.root) {
        for (key, causes) in [("prompt", graph::PROMPT), ("say", graph::SAID), ("reason", graph::REASON)] {
            let part = format!("{}.{key}", edge.part);
            if let Some(node) = tree::at(edge.node, key) {
                add(subject, &mut texts, node, then(&edge.steps, key), part, true, causes);
            }
        }
    }
    for (origin, written) in &texts {
        of_text(subject, origin, written, mutants);
    }
}

fn systems(subject: &Subject, texts: &mut Texts) {
    let roles = tree::at(&subject.root, "roles").map(tree::members).unwrap_or_default();
    for (name, role) in roles {
        let steps = vec!["roles".into(), name.name.as_str().into(), "system".into()];
        let part = format!("roles.{}.system", name.name);
        let Some(system) = tree::at(role, "system") else { continue };
        if tree::items(system).is_empty() {
            add(subject, texts, system, steps, part, false, SYSTEM);
            continue;
        }
        for (position, item) in tree::items(system).iter().enumerate() {
            add(subject, texts, item, then(&steps, position), part.clone(), false, SYSTEM);
        }
    }
}

const SYSTEM: &[&str] = &["system text changed"];
const CLOCK: &[&str] = &["clock in the system text"];

fn add(
    subject: &Subject,
    texts: &mut Texts,
    node: &Node,
    steps: Vec<Step>,
    part: String,
    is_template: bool,
    causes: &'static [&'static str],
) {
    let file = tree::at(node, "file").and_then(tree::text);
    let (origin, text, steps) = match (file, tree::at(node, "text").and_then(tree::text), tree::text(node)) {
        (Some(file), _, _) => (Origin::File(file.to_owned()), subject.files.get(file).unwrap().as_str(), steps),
        (None, Some(text), _) => (Origin::Tree(format!("{steps:?}")), text, then(&steps, "text")),
        (None, None, Some(text)) => (Origin::Tree(format!("{steps:?}")), text, steps),
        (None, None, None) => return,
    };
    let text = text.to_owned();
    let written = Written { text, steps, parts: Vec::new(), is_template, causes };
    texts.entry(origin).or_insert(written).parts.push(part);
}

fn of_text(subject: &Subject, origin: &Origin, written: &Written, mutants: &mut Vec<Mutant>) {
    let place = match origin {
        Origin::File(name) => name.clone(),
        Origin::Tree(_) => written.parts.concat(),
    };
    let mut made = |operator, what: String, text: String, causes| {
        let files = match origin {
            Origin::File(name) => BTreeMap::from([(name.clone(), text)]),
            Origin::Tree(_) => {
                let root = tree::with(&subject.root, &written.steps, tree::string(text));
                BTreeMap::from([(FILE.to_owned(), tree::json(&root))])
            }
        };
        let named = Named { causes, parts: written.parts.clone(), word: String::new() };
        mutants.push(Mutant { operator, place: place.clone(), what, files, named });
    };
    let segments = segments(&written.text, written.is_template);
    for (number, segment) in segments.iter().enumerate() {
        let at = format!("{}/{place}/{number}", subject.name);
        if let Some((word, text)) = changed(&written.text, segment, &at) {
            made("word changed", word, text, written.causes);
        }
    }
    // One of each in the whole text: which stretch it is follows from the seed.
    let at = format!("{}/{place}", subject.name);
    let stretches: Vec<&Range<usize>> =
        segments.iter().filter(|segment| !words(&written.text, segment).is_empty()).collect();
    if let Some(segment) = chance::one_of(&stretches, "removed", &at)
        && let Some(word) = chance::one_of(&words(&written.text, segment), "removed word", &at)
    {
        let (before, rest) = (&written.text[..word.start], &written.text[word.end..]);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        made("word removed", written.text[word.clone()].to_owned(), format!("{before}{rest}"), written.causes);
    }
    if let Some(segment) = chance::one_of(&stretches, "added", &at)
        && let Some(word) = chance::one_of(&words(&written.text, segment), "added word", &at)
    {
        let new = chance::one_of(&WORDS, "new word", &at).unwrap();
        let (before, rest) = written.text.split_at(word.start);
        made("word added", (*new).to_owned(), format!("{before}{new} {rest}"), written.causes);
    }
    if !written.is_template {
        let text = if chance::below(2, "date", &at) == 0 {
            format!("{DATE}\n\n{}", written.text)
        } else {
            format!("{}\n\n{DATE}\n", written.text.trim_end_matches('\n'))
        };
        made("date in the system text", DATE.to_owned(), text, CLOCK);
    }
}

fn changed(text: &str, segment: &Range<usize>, at: &str) -> Option<(String, String)> {
    let words = words(text, segment);
    let word = chance::one_of(&words, "changed", at)?;
    let old = &text[word.clone()];
    let others: Vec<&str> = WORDS.into_iter().filter(|new| *new != old).collect();
    let new = chance::one_of(&others, "new", at)?;
    let changed = format!("{}{new}{}", &text[..word.start], &text[word.end..]);
    Some((format!("{old} -> {new}"), changed))
}

/// The stretches of a text between its template tags; the whole text where it is no template.
fn segments(text: &str, is_template: bool) -> Vec<Range<usize>> {
    if !is_template {
        return std::iter::once(0..text.len()).collect();
    }
    let mut segments = Vec::new();
    let mut at = 0;
    while let Some(opened) = text[at..].find("{{").into_iter().chain(text[at..].find("{%")).min() {
        segments.push(at..at + opened);
        let close = if text[at + opened..].starts_with("{{") { "}}" } else { "%}" };
        let closed = text[at + opened..].find(close).map_or(text.len() - at - opened, |end| end + 2);
        at += opened + closed;
    }
    segments.push(at..text.len());
    segments
}

/// The words of a stretch.
fn words(text: &str, segment: &Range<usize>) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    let ended = text[segment.clone()].char_indices().map(|(at, c)| (segment.start + at, c.is_alphabetic()));
    for (at, is_letter) in ended.chain([(segment.end, false)]) {
        match (start, is_letter) {
            (None, true) => start = Some(at),
            (Some(begun), false) => {
                if at - begun >= WORD_MIN {
                    words.push(begun..at);
                }
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// Another text in the place of one that a template makes: its first word changed, or a word put before it.
pub fn touched(text: &str, at: &str) -> String {
    let segments = segments(text, true);
    let changed = segments.iter().find_map(|segment| self::changed(text, segment, at));
    changed.map_or_else(|| format!("{} {text}", WORDS[0]), |(_, text)| text)
}

//! Maps each part of a workflow to its location in its files.
//!
//! A part has a path, made of the names and positions that lead to it in a [`Workflow`](super::Workflow):
//! `roles.writer.system`, `graph.writer.drafted[0].prompt`, `graph.start[0].on_max.to`. A single edge is a list of one;
//! the edge of an `else:` is the list's last; `on_error`, `on_limit` and `on_timeout` are under `error`, `limit` and
//! `timeout`; branches of a fan-out are `graph.writer.drafted[0].to[1]`. [`key`] and [`item`] build paths.
//!
//! A part that the file leaves out has the location of the nearest part that contains it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::diagnostic::{Code, Diagnostic, Span};
use crate::source::{Source, SourceError, locate};

/// The maximum total bytes of paths. A part beyond that has the location of the part that contains it.
const MAX_PATH_BYTES: usize = 16 << 20;

/// The path of the member `name` of the part at `path`.
pub fn key(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The path of the entry at `position` of the list at `path`.
pub fn item(path: &str, position: usize) -> String {
    format!("{path}[{position}]")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    source: usize,
    span: Span,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Option<Location>,
    value: Location,
    /// Whether the value is a list or a map; diagnostics then point at its key.
    holds: bool,
    text: Text,
}

/// How a position within a text is mapped to its file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    None,
    /// It is written in the workflow file, with quotes, escapes or indentation.
    Written(String),
    File,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceMap {
    sources: Vec<Source>,
    parts: BTreeMap<String, Entry>,
    path_bytes: usize,
    incomplete: BTreeSet<String>,
    children: BTreeMap<String, SourceMap>,
}

impl SourceMap {
    /// A map without parts, for the workflow file `source`.
    pub fn new(source: Source) -> Self {
        Self { sources: vec![source], ..Self::default() }
    }

    /// A diagnostic at the part `path`: at a scalar's value, at the key of a list or map. `inner` is a range of bytes
    /// within a text's value. Where the file has no such part, at the key of the nearest part that holds it.
    pub fn fault(&self, code: Code, path: &str, inner: Option<Range<usize>>, message: impl Into<String>) -> Diagnostic {
        let location = self.parts.get(path).map(|entry| self.value_location(entry, inner));
        self.at(location.unwrap_or_else(|| self.holder(path)), code, message)
    }

    /// A diagnostic at the key of the part `path`, or at the nearest part that holds it.
    pub fn key_fault(&self, code: Code, path: &str, message: impl Into<String>) -> Diagnostic {
        let location = self.parts.get(path).map(|entry| entry.key.unwrap_or(entry.value));
        self.at(location.unwrap_or_else(|| self.holder(path)), code, message)
    }

    pub fn has(&self, path: &str) -> bool {
        self.parts.contains_key(path)
    }

    /// The names of the members of the map at `path`, as far as they can be told from their paths.
    pub(super) fn members<'s>(&'s self, path: &str) -> impl Iterator<Item = &'s str> + use<'s> {
        let first = format!("{path}.");
        let within = self.parts.range(first.clone()..).map(|(path, _)| path.as_str());
        within.map_while(move |path| path.strip_prefix(first.as_str())).filter(|name| !name.contains(['.', '[']))
    }

    /// The texts that the text at `path` is made of, in order, each with its own path: one, or those of a list.
    pub fn texts(&self, path: &str) -> Vec<(String, &str)> {
        let text_of = |path: String| {
            let entry = self.parts.get(&path)?;
            match &entry.text {
                Text::None => None,
                Text::Written(text) => Some((path, text.as_str())),
                Text::File => Some((path, self.sources.get(entry.value.source)?.text())),
            }
        };
        let text_at = |path: String| text_of(path.clone()).or_else(|| text_of(key(&path, "text")));
        let listed = (0..).map(|position| item(path, position)).take_while(|path| self.has(path)).filter_map(text_at);
        text_at(path.to_owned()).into_iter().chain(listed).collect()
    }

    pub fn child(&self, role: &str) -> Option<&Self> {
        self.children.get(role)
    }

    /// Whether the part at `path` could not be read whole: it, what holds it, or something within it has a fault.
    /// Further faults about it would only follow from that one.
    pub fn is_incomplete(&self, path: &str) -> bool {
        if self.incomplete.contains("") || self.incomplete.contains(path) {
            return true;
        }
        let held = path.bytes().enumerate().any(|(at, byte)| {
            matches!(byte, b'.' | b'[') && path.get(..at).is_some_and(|holder| self.incomplete.contains(holder))
        });
        let is_within = |other: &str| other.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
        // Paths within sort behind `path`, but others such as `path-x` may lie between.
        held || ['.', '[']
            .into_iter()
            .any(|mark| self.incomplete.range(format!("{path}{mark}")..).next().is_some_and(|next| is_within(next)))
    }

    /// Sorts diagnostics by file, in the order in which the files were read, then by position.
    pub fn sort(&self, diagnostics: &mut [Diagnostic]) {
        let order: BTreeMap<&str, usize> =
            self.sources.iter().enumerate().map(|(position, source)| (source.name(), position)).collect();
        diagnostics.sort_by_cached_key(|fault| {
            let file = order.get(fault.file.as_str()).copied().unwrap_or(usize::MAX);
            (file, fault.file.clone(), fault.span.offset, fault.span.length, fault.code)
        });
    }

    pub(super) fn text(&self) -> &str {
        self.sources.first().map_or("", Source::text)
    }

    pub(super) fn is_main(&self, file: &str) -> bool {
        self.sources.first().is_some_and(|source| source.name() == file)
    }

    pub(super) fn report(&self, fault: SourceError) -> Diagnostic {
        let diagnostic = self.at(Location { source: 0, span: fault.span }, fault.code, fault.message);
        Diagnostic { hint: fault.hint, ..diagnostic }
    }

    pub(super) fn put_child(&mut self, role: &str, map: Self) {
        self.children.insert(role.to_owned(), map);
    }

    pub(super) fn mark_incomplete(&mut self, path: &str) {
        self.incomplete.insert(path.to_owned());
    }

    /// Records where a list, a map or a scalar is written.
    pub(super) fn put(&mut self, path: &str, key: Option<Span>, value: Span, holds: bool) {
        let key = key.map(|span| Location { source: 0, span });
        self.insert(path, Entry { key, value: Location { source: 0, span: value }, holds, text: Text::None });
    }

    /// Records that the value at `path` is the text `value`, within which locations can be found.
    pub(super) fn put_text(&mut self, path: &str, value: &str) {
        if let Some(entry) = self.parts.get_mut(path) {
            entry.text = Text::Written(value.to_owned());
        }
    }

    /// Records that the value at `path` is the content of a file.
    pub(super) fn put_file(&mut self, path: &str, source: Source) {
        // The same file may be included many times.
        let position = self.sources.iter().position(|known| known.name() == source.name()).unwrap_or_else(|| {
            self.sources.push(source);
            self.sources.len() - 1
        });
        if let Some(entry) = self.parts.get_mut(path) {
            let value = Location { source: position, span: Span::new(0, 0) };
            *entry = Entry { key: entry.key, value, holds: false, text: Text::File };
        }
    }

    /// Gives the part at `to` the location of `from`.
    pub(super) fn share(&mut self, from: &str, to: &str) {
        if let Some(entry) = self.parts.get(from).cloned() {
            self.insert(to, entry);
        }
        if self.incomplete.contains(from) {
            self.mark_incomplete(to);
        }
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        if self.path_bytes + path.len() <= MAX_PATH_BYTES {
            self.path_bytes += path.len();
            self.parts.insert(path.to_owned(), entry);
        }
    }

    fn value_location(&self, entry: &Entry, inner: Option<Range<usize>>) -> Location {
        let Location { source, span } = entry.value;
        match (&entry.text, inner) {
            (Text::Written(value), Some(inner)) => {
                let text = self.sources.get(source).map_or("", Source::text);
                Location { source, span: locate(text, span, value, &inner) }
            }
            (Text::File, Some(inner)) => Location { source, span: inner.into() },
            _ if entry.holds => entry.key.unwrap_or(entry.value),
            _ => entry.value,
        }
    }

    /// The nearest part that holds `path`, at its key.
    fn holder(&self, path: &str) -> Location {
        let mut holders = std::iter::successors(Some(path), |path| path.get(..path.rfind(['.', '['])?)).skip(1);
        holders
            .find_map(|path| self.parts.get(path))
            .map_or(Location { source: 0, span: Span::default() }, |entry| entry.key.unwrap_or(entry.value))
    }

    fn at(&self, location: Location, code: Code, message: impl Into<String>) -> Diagnostic {
        match self.sources.get(location.source) {
            Some(source) => source.diagnostic(code, location.span, message),
            None => Diagnostic::at(code, "", "", location.span, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> SourceMap {
        let text = "graph:\n  a:\n    x: { prompt: |-\n one }\n";
        let mut map = SourceMap::new(Source::new("w.yaml", text));
        map.put("graph", Some(Span::new(0, 5)), Span::new(9, 0), true);
        map.put("graph.a.x[0].prompt", Some(Span::new(22, 6)), Span::new(30, 4), false);
        map
    }

    #[test]
    fn what_is_missing_is_found_at_the_nearest_part_that_holds_it() {
        let map = map();
        let at = |path: &str| map.fault(Code::MissingKey, path, None, "m").span.offset;
        assert_eq!(at("graph.a.x[0].prompt"), 30);
        assert_eq!(at("graph.a.x[0].to"), 0, "the key `graph`");
        assert_eq!(at("roles.writer"), 0, "the file");
    }

    #[test]
    fn a_part_is_incomplete_with_what_holds_it_and_with_what_it_holds() {
        let mut map = map();
        map.mark_incomplete("graph.a.x[0].to");
        map.mark_incomplete("graph.b-c");
        for path in ["graph", "graph.a", "graph.a.x", "graph.a.x[0]", "graph.a.x[0].to", "graph.a.x[0].to[1].prompt"] {
            assert!(map.is_incomplete(path), "{path}");
        }
        for path in ["roles", "graph.a.x[1]", "graph.a.xy", "graph.b", "graph.a.x[0].prompt"] {
            assert!(!map.is_incomplete(path), "{path}");
        }
    }
}

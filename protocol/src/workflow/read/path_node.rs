//! A part of the file during the walk: a node with its path and its key, and access to its own parts.

use super::Reader;
use crate::diagnostic::{Code, Span, nearest};
use crate::source::{Key, Kind, Node, SourceError, excerpt};
use crate::workflow::format::{KeySpec, Shape};
use crate::workflow::source_map;

/// A node with its path in the [`SourceMap`](crate::workflow::SourceMap).
#[derive(Debug, Clone)]
pub(super) struct PathNode<'n> {
    pub path: String,
    pub key: Option<&'n Key>,
    pub node: &'n Node,
}

impl<'n> PathNode<'n> {
    pub fn root(node: &'n Node) -> Self {
        Self { path: String::new(), key: None, node }
    }

    pub fn moved(&self, path: String) -> Self {
        Self { path, ..self.clone() }
    }

    pub fn holds(&self) -> bool {
        matches!(self.node.kind, Kind::List(_) | Kind::Map(_))
    }

    /// The span for diagnostics: a scalar's value, the key of a list or map.
    pub fn span(&self) -> Span {
        match self.key {
            Some(key) if self.holds() || self.node.span.length == 0 => key.span,
            _ => self.node.span,
        }
    }

    pub fn fault(&self, code: Code, message: impl Into<String>) -> SourceError {
        SourceError::new(code, self.span(), message)
    }

    pub fn key_fault(&self, code: Code, message: impl Into<String>) -> SourceError {
        SourceError::new(code, self.key.map_or(self.node.span, |key| key.span), message)
    }

    pub fn as_str(&self) -> Option<&'n str> {
        match &self.node.kind {
            Kind::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn name(&self) -> &'n str {
        self.key.map_or("", |key| key.name.as_str())
    }

    fn wants(&self) -> String {
        self.key.map_or_else(|| "expected".to_owned(), |key| format!("`{}` wants", excerpt(&key.name)))
    }
}

/// The entries of a map whose keys are known, each with its shape.
pub(super) struct Fields<'n>(Vec<(PathNode<'n>, Shape)>);

impl<'n> Fields<'n> {
    pub fn get(&self, name: &str) -> Option<&PathNode<'n>> {
        self.with_shape(name).map(|(part, _)| part)
    }

    pub fn with_shape(&self, name: &str) -> Option<&(PathNode<'n>, Shape)> {
        self.0.iter().find(|(part, _)| part.name() == name)
    }
}

impl Reader<'_> {
    /// The entries of a map with these keys; reports missing required ones.
    pub(super) fn fields<'n>(&mut self, part: &PathNode<'n>, keys: &[KeySpec]) -> Option<Fields<'n>> {
        self.fields_if(part, keys, |_| false)
    }

    /// The same, with additional allowed keys.
    pub(super) fn fields_if<'n>(
        &mut self,
        part: &PathNode<'n>,
        keys: &[KeySpec],
        more: impl Fn(&str) -> bool,
    ) -> Option<Fields<'n>> {
        let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        let entries = self.entries(part)?;
        let unknown = |entry: &&PathNode<'_>| !known.contains(&entry.name()) && !more(entry.name());
        let meant = |name: &str| {
            let near = known_key(name, &known).or_else(|| nearest(name, known.iter().copied()));
            near.or_else(|| same_elsewhere(name, &known))
        };
        let misspelt: Vec<&str> = entries.iter().filter(unknown).filter_map(|entry| meant(entry.name())).collect();
        for KeySpec { name, .. } in keys.iter().filter(|key| key.required) {
            if !entries.iter().any(|entry| entry.name() == *name) && !misspelt.contains(name) {
                self.places.mark_incomplete(&source_map::key(&part.path, name));
                let fault = part.key_fault(Code::MissingKey, format!("the key `{name}` is missing"));
                self.report(fault.with_hint(format!("add `{name}:` here")));
            }
        }
        let mut fields = Vec::new();
        for entry in entries {
            if unknown(&&entry) {
                let fault = entry.key_fault(Code::UnknownKey, format!("unknown key `{}`", excerpt(entry.name())));
                let hint = match (known_key(entry.name(), &known), meant(entry.name())) {
                    (Some(_), _) => format!("write a space after the colon: `{}`", with_blank(entry.name())),
                    (_, Some(near)) => format!("did you mean `{near}`?"),
                    _ => format!("the keys here are {}", listed(&known)),
                };
                self.places.mark_incomplete(&part.path);
                self.report(fault.with_hint(hint));
            } else if self.is_given(&entry)
                && let Some(key) = keys.iter().find(|key| key.name == entry.name())
            {
                fields.push((entry, key.shape));
            }
        }
        Some(Fields(fields))
    }

    /// Whether the part has a value; reports it if not.
    pub(super) fn is_given(&mut self, part: &PathNode<'_>) -> bool {
        let given = part.node.kind != Kind::Null;
        if !given {
            let what = part.key.map_or("an entry is empty".to_owned(), |key| format!("`{}` has no value", key.name));
            let fault = part.fault(Code::NullValue, what);
            self.leave_out(part, fault.with_hint("give it a value or leave it out; `\"\"` is an empty text"));
        }
        given
    }

    /// The entries of a map whose keys are names. Empty values are allowed.
    pub(super) fn entries<'n>(&mut self, part: &PathNode<'n>) -> Option<Vec<PathNode<'n>>> {
        let Kind::Map(entries) = &part.node.kind else {
            return self.wrong_type(part, "a map", None);
        };
        let parts = entries.iter().map(|(key, node)| {
            let path = source_map::key(&part.path, &key.name);
            PathNode { path, key: Some(key), node }
        });
        Some(parts.inspect(|part| self.place(part)).collect())
    }

    /// The same, without those that have no value, which are reported.
    pub(super) fn given_entries<'n>(&mut self, part: &PathNode<'n>) -> Option<Vec<PathNode<'n>>> {
        Some(self.entries(part)?.into_iter().filter(|entry| self.is_given(entry)).collect())
    }

    /// The entries of a list. Empty ones are reported and left out.
    pub(super) fn items<'n>(&mut self, part: &PathNode<'n>) -> Option<Vec<PathNode<'n>>> {
        let Kind::List(items) = &part.node.kind else {
            return self.wrong_type(part, "a list", None);
        };
        let parts = items.iter().enumerate().map(|(position, node)| {
            let path = source_map::item(&part.path, position);
            PathNode { path, key: None, node }
        });
        let placed: Vec<_> = parts.inspect(|part| self.place(part)).collect();
        Some(placed.into_iter().filter(|part| self.is_given(part)).collect())
    }

    pub(super) fn place(&mut self, part: &PathNode<'_>) {
        self.places.put(&part.path, part.key.map(|key| key.span), part.node.span, part.holds());
    }

    /// Reports what was expected instead of the part.
    pub(super) fn wrong_type<T>(&mut self, part: &PathNode<'_>, expected: &str, hint: Option<&str>) -> Option<T> {
        let message = format!("{} {expected}, found {}", part.wants(), part.node.describe());
        let hint = hint.map(str::to_owned).or_else(|| lost_blank(part, expected));
        let hint = hint.or_else(|| template_in_braces(part, expected));
        self.refuse(part, part.fault(Code::WrongType, message).with_hint_if(hint))
    }

    /// Reports what is allowed instead of the part.
    pub(super) fn not_allowed<T>(&mut self, part: &PathNode<'_>, allowed: &str, hint: Option<&str>) -> Option<T> {
        let message = format!("{} {allowed}, found {}", part.wants(), self.shown(part));
        self.refuse(part, part.fault(Code::InvalidValue, message).with_hint_if(hint.map(str::to_owned)))
    }
}

/// The name in a map such as `{input.topic}`, which has no value: it was meant as a template.
pub(super) fn braced_name<'n>(part: &PathNode<'n>) -> Option<&'n str> {
    let Kind::Map(entries) = &part.node.kind else { return None };
    match entries.as_slice() {
        [(key, Node { kind: Kind::Null, .. })] => Some(&key.name),
        _ => None,
    }
}

/// The mend of a template without quotes and with single braces, which YAML reads as a map.
fn template_in_braces(part: &PathNode<'_>, expected: &str) -> Option<String> {
    let name = braced_name(part).filter(|_| expected.starts_with("a text"))?;
    Some(format!("for what `{0}` holds, write `\"{{{{ {0} }}}}\"`", excerpt(name)))
}

/// The mend of a text in place of a list or a map whose first line lacks the blank that would make it one.
fn lost_blank(part: &PathNode<'_>, expected: &str) -> Option<String> {
    let text = part.as_str()?;
    match expected {
        "a list" => {
            let first = text.strip_prefix('-')?.split_whitespace().next()?;
            Some(format!("write a space after the dash: `- {}`", excerpt(first)))
        }
        "a map" => {
            let first = text.split_whitespace().next()?;
            let (name, value) = first.split_once(':')?;
            (!name.is_empty() && !value.is_empty())
                .then(|| format!("write a space after the colon: `{}`", with_blank(first)))
        }
        _ => None,
    }
}

/// The key that means what `name` means in other programs.
fn same_elsewhere(name: &str, known: &[&str]) -> Option<&'static str> {
    const WORDS: [(&str, &str); 20] = [
        ("agents", "roles"),
        ("condition", "when"),
        ("edges", "graph"),
        ("fields", "output"),
        ("goto", "to"),
        ("if", "when"),
        ("instruction", "system"),
        ("instructions", "system"),
        ("llm", "model"),
        ("message", "prompt"),
        ("next", "to"),
        ("nodes", "roles"),
        ("prompt", "system"),
        ("schema", "output"),
        ("steps", "graph"),
        ("system_message", "system"),
        ("system_prompt", "system"),
        ("target", "to"),
        ("times", "max"),
        ("version", "rondo"),
    ];
    WORDS.iter().find(|(word, meant)| *word == name && known.contains(meant)).map(|(_, meant)| *meant)
}

/// The key that `name` begins with, if its colon lacks the blank behind it.
fn known_key<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let (key, _) = name.split_once(':')?;
    known.iter().copied().find(|known| *known == key)
}

fn with_blank(entry: &str) -> String {
    excerpt(&entry.replacen(':', ": ", 1))
}

/// Words for a message: `a`, `b` and `c`.
pub(super) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [first @ .., last] => format!("`{}` and `{last}`", first.join("`, `")),
    }
}

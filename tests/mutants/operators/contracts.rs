//! What a role may answer: statuses, fields, and their types.

use std::collections::BTreeSet;

use rondo_protocol::source::{Kind, Node};

use crate::mutant::Mutant;
use crate::subject::Subject;
use crate::tree::{self, Step, then};

/// What a changed contract is called.
const SCHEMA: &[&str] = &["schema changed"];

/// A field as a role declares it.
struct Declared<'n> {
    role: &'n str,
    status: &'n str,
    /// As written, with `?` where it is optional.
    name: &'n str,
    node: &'n Node,
    steps: Vec<Step>,
}

impl Declared<'_> {
    fn place(&self) -> String {
        format!("roles.{}.output.{}.{}", self.role, self.status, self.name.trim_end_matches('?'))
    }

    /// The field and what holds it.
    fn parts(&self) -> Vec<String> {
        let output = format!("roles.{}.output", self.role);
        vec![self.place(), format!("{output}.{}", self.status), output]
    }
}

/// Mutants of every contract.
pub fn mutants(subject: &Subject, mutants: &mut Vec<Mutant>) {
    let declared = declared(&subject.root);
    let names: BTreeSet<&str> = declared.iter().map(|field| field.name.trim_end_matches('?')).collect();
    for name in names {
        renamed_field(subject, &declared, name, mutants);
    }
    for field in &declared {
        retyped(subject, field, mutants);
    }
    for (role, node) in tree::at(&subject.root, "roles").map(tree::members).unwrap_or_default() {
        let is_tool = tree::at(node, "kind").and_then(tree::text) == Some("tool");
        for (status, _) in tree::at(node, "output").map(tree::members).unwrap_or_default() {
            if !is_tool {
                renamed_status(subject, &role.name, &status.name, mutants);
            }
        }
    }
}

fn declared(root: &Node) -> Vec<Declared<'_>> {
    let mut declared = Vec::new();
    for (role, node) in tree::at(root, "roles").map(tree::members).unwrap_or_default() {
        for (status, fields) in tree::at(node, "output").map(tree::members).unwrap_or_default() {
            for (name, node) in tree::members(fields) {
                let keys = ["roles", &role.name, "output", &status.name, &name.name];
                let steps = keys.into_iter().map(Step::from).collect();
                declared.push(Declared { role: &role.name, status: &status.name, name: &name.name, node, steps });
            }
        }
    }
    declared
}

/// Another name for a field, in each role that has it and wherever a template reads it.
fn renamed_field(subject: &Subject, declared: &[Declared<'_>], name: &str, mutants: &mut Vec<Mutant>) {
    let new = format!("{name}_now");
    let mut root = tree::map_texts(&subject.root, &|text| with_field(text, name, &new));
    let mut parts = Vec::new();
    for field in declared.iter().filter(|field| field.name.trim_end_matches('?') == name) {
        let (last, holder) = field.steps.split_last().unwrap();
        let Step::Key(old) = last else { continue };
        root = tree::renamed(&root, holder, old, &old.replacen(name, &new, 1));
        parts.extend(field.parts());
        parts.push(format!("roles.{}.output.{}.{new}", field.role, field.status));
    }
    let files = subject.files.iter().map(|(file, text)| (file.clone(), with_field(text, name, &new)));
    let files: Vec<(String, String)> = files.filter(|(file, text)| subject.files.get(file) != Some(text)).collect();
    let mut mutant = Mutant::of_tree("field renamed", format!("output.{name}"), format!("-> {new}"), &root, SCHEMA)
        .in_parts(parts)
        .or_word(name);
    for (file, text) in files {
        mutant.files.entry(file).or_insert(text);
    }
    mutants.push(mutant);
}

/// A text in which what reads the field `old` of some step reads `new`.
fn with_field(text: &str, old: &str, new: &str) -> String {
    let read = format!("output.{old}");
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&read) {
        let (before, after) = rest.split_at(at + read.len());
        let is_whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        changed.push_str(before);
        if is_whole {
            changed.truncate(changed.len() - old.len());
            changed.push_str(new);
        }
        rest = after;
    }
    changed.push_str(rest);
    changed
}

/// Another name for a status, in its role, in the graph, and wherever a template compares with it.
fn renamed_status(subject: &Subject, role: &str, status: &str, mutants: &mut Vec<Mutant>) {
    let new = format!("{status}_now");
    let quoted = |text: &str| {
        let double = text.replace(&format!("\"{status}\""), &format!("\"{new}\""));
        if text.contains("status") {
            double.replace(&format!("'{status}'"), &format!("'{new}'"))
        } else {
            text.to_owned()
        }
    };
    let root = tree::map_texts(&subject.root, &quoted);
    let root = tree::renamed(&root, &["roles".into(), role.into(), "output".into()], status, &new);
    let root = tree::renamed(&root, &["graph".into(), role.into()], status, &new);
    let output = format!("roles.{role}.output");
    let parts = [format!("{output}.{status}"), format!("{output}.{new}"), output.clone()];
    let mut mutant =
        Mutant::of_tree("status renamed", format!("{output}.{status}"), format!("-> {new}"), &root, SCHEMA)
            .in_parts(parts)
            .or_word(status);
    for (file, text) in subject.files.iter().filter(|(file, _)| file.starts_with("prompts/")) {
        let text_now = quoted(text);
        if text_now != *text {
            mutant.files.insert(file.clone(), text_now);
        }
    }
    mutants.push(mutant);
}

/// Another type, other values, other bounds, a description.
fn retyped(subject: &Subject, field: &Declared<'_>, mutants: &mut Vec<Mutant>) {
    let mut made = |operator, what: String, root: &Node| {
        let mutant = Mutant::of_tree(operator, field.place(), what, root, SCHEMA)
            .in_parts(field.parts())
            .or_word(field.name.trim_end_matches('?'));
        mutants.push(mutant);
    };
    let value = |node: Node| tree::with(&subject.root, &field.steps, node);
    if let Some(written) = tree::text(field.node) {
        let other = match written {
            "string" => "integer",
            "integer" | "boolean" | "number" | "string[]" => "string",
            _ => "string[]",
        };
        made("type changed", format!("{written} -> {other}"), &value(tree::string(other)));
        let described = match written.strip_suffix("[]") {
            Some(of) => tree::map([
                ("type", tree::string("array")),
                ("items", tree::map([("type", tree::string(of))])),
                ("description", tree::string("in a few words")),
            ]),
            None if written.contains('|') => {
                let values: Vec<&str> = written.split('|').map(str::trim).collect();
                made(
                    "enum value changed",
                    format!("{written} -> {}s", values.join(" | ")),
                    &value(tree::string(format!("{}s", values.join(" | ")))),
                );
                made("enum value added", "unclear".to_owned(), &value(tree::string(format!("{written} | unclear"))));
                tree::map([("enum", tree::strings(values)), ("description", tree::string("in a few words"))])
            }
            None => tree::map([("type", tree::string(written)), ("description", tree::string("in a few words"))]),
        };
        made("description added", "in a few words".to_owned(), &value(described));
    }
    for bound in ["minItems", "maxItems"] {
        if let Some(Node { kind: Kind::Int(most), .. }) = tree::at(field.node, bound) {
            let steps = then(&field.steps, bound);
            let root = tree::with(&subject.root, &steps, tree::node(Kind::Int(most + 1)));
            made("bound changed", format!("{bound}: {most} -> {}", most + 1), &root);
        }
    }
    let nested: Vec<Step> = field.steps.iter().cloned().chain(["items".into(), "properties".into()]).collect();
    if let Some((key, _)) = tree::get(&subject.root, &nested).map(tree::members).unwrap_or_default().first() {
        let steps = then(&then(&nested, key.name.as_str()), "description");
        let root = tree::with(&subject.root, &steps, tree::string("in a few words"));
        made("description added", format!("in {}", key.name), &root);
    }
    let (last, holder) = field.steps.split_last().unwrap();
    if let Step::Key(old) = last {
        let new = old.strip_suffix('?').map_or_else(|| format!("{old}?"), str::to_owned);
        made("optional changed", format!("{old} -> {new}"), &tree::renamed(&subject.root, holder, old, &new));
    }
}

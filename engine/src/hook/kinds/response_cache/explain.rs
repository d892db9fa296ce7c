//! Why a call was or was not answered: its key, part by part, and where it differs from the nearest other entry.

use std::fmt::Write as _;

use rondo_protocol::Value;

use super::NAME;
use super::key::About;
use crate::hook::rack::{backing, groups};
use crate::hook::shelf::{Catalogue, Listed};
use crate::hook::{Desk, Said, verb};

/// Explains the calls of a step.
pub fn explain(asked: &verb::Asked, desk: &dyn Desk) -> Result<Said, String> {
    let (thread, stored, note) = verb::step(asked, desk)?;
    let mut said = Said::default();
    let entries = entries(desk)?;
    let _ = writeln!(said.text, "step {} of {thread}: {}, visit {}", stored.seq, stored.step.role, stored.visit);
    for hook in &note.hooks {
        let Some(Value::List(calls)) = hook.metrics.get("calls") else { continue };
        for call in calls {
            let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
            let (key, outcome) = (text("key"), text("outcome"));
            let Some(own) = entries.iter().find(|entry| entry.0.key.to_string() == key) else {
                if !hook.node.starts_with(NAME) {
                    continue;
                }
                let _ = writeln!(said.text, "\n{}: {outcome}\n  key {key}\n  no entry has this key now", hook.node);
                said.lines.push(line(&hook.node, call, None, None, &[]));
                continue;
            };
            let is_hit = outcome == "hit";
            let nearest = nearest(&own.1, key, &entries).filter(|_| !is_hit);
            let differs = nearest.map(|other| differences(&own.1, &other.1)).unwrap_or_default();
            let _ = writeln!(said.text, "\n{}: {outcome}\n  key {key}", hook.node);
            for (name, value) in parts(&own.1) {
                let _ = writeln!(said.text, "    {name:<12} {value}");
            }
            match nearest {
                Some(other) => {
                    let About { thread, role, visit, .. } = &other.1;
                    let _ = writeln!(said.text, "  nearest other entry: {role}, visit {visit}, thread {thread}");
                    for (name, what) in &differs {
                        let _ = writeln!(said.text, "    {name:<12} {what}");
                    }
                }
                None if is_hit => {
                    let About { thread, role, visit, .. } = &own.1;
                    let _ = writeln!(said.text, "  asked first by {role}, visit {visit}, thread {thread}");
                }
                None => {
                    let _ = writeln!(said.text, "  there is no other entry to compare it with");
                }
            }
            said.lines.push(line(&hook.node, call, Some(&own.1), nearest.map(|other| &other.1), &differs));
        }
    }
    if said.lines.is_empty() {
        let _ = writeln!(said.text, "{NAME} looked nothing up in this step");
    }
    Ok(said)
}

type Entry = (Listed, About);

fn entries(desk: &dyn Desk) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for group in groups(desk.space())? {
        let catalogue = Catalogue::read(&*backing(desk.space(), &group));
        let about = |entry: Listed| Some((entry.clone(), About::from_bytes(&entry.card.about)?));
        entries.extend(catalogue.entries().into_iter().filter_map(about));
    }
    Ok(entries)
}

/// The entry that has most in common with `own`, the newest of several.
fn nearest<'e>(own: &About, key: &str, entries: &'e [Entry]) -> Option<&'e Entry> {
    let others = entries.iter().filter(|entry| entry.0.key.to_string() != key);
    let alike = |other: &About| {
        let same = parts(own).into_iter().zip(parts(other)).filter(|(own, other)| own == other).count();
        let alike = own.facets.first_difference(&other.facets).unwrap_or(u64::MAX);
        // A role's own entries come first: another role's never were meant.
        (own.role == other.role, own.visit == other.visit, same, alike)
    };
    others.max_by_key(|entry| (alike(&entry.1), entry.0.card.kept_at_ms))
}

/// The parts of a key in the words of an author, in order.
fn parts(about: &About) -> Vec<(&'static str, String)> {
    let About { parts, facets, .. } = about;
    let or = |text: &str, without: &str| if text.is_empty() { without.to_owned() } else { text.to_owned() };
    vec![
        ("at", parts.at.name().to_owned()),
        ("scope", format!("{} {}", parts.scope, parts.within).trim_end().to_owned()),
        ("provider", or(&parts.provider, "(none)")),
        ("address", or(&parts.address, "(none)")),
        ("model", facets.model.clone()),
        ("parameters", facets.parameters.clone()),
        ("system", facets.system.clone()),
        ("tools", facets.tools.clone()),
        ("schema", or(&facets.response_format, "(none)")),
        ("messages", format!("{}, the last {}", facets.messages, facets.links.last().map_or("-", String::as_str))),
        ("lane", or(&parts.lane, "(trunk)")),
        ("redaction", or(&parts.redaction, "(none)")),
        ("root", or(&parts.root, "(none)")),
        ("occurrence", parts.occurrence.to_string()),
        ("version", parts.version.to_string()),
    ]
}

/// The parts in which two keys differ, each with what stands on either side.
fn differences(own: &About, other: &About) -> Vec<(&'static str, String)> {
    let both = parts(own).into_iter().zip(parts(other));
    let mut differences: Vec<(&'static str, String)> = both
        .filter(|(own, other)| own != other)
        .map(|(own, other)| (own.0, format!("differs: {} here, {} there", own.1, other.1)))
        .collect();
    if let Some(messages) = differences.iter_mut().find(|(name, _)| *name == "messages") {
        let _ = match own.facets.first_difference(&other.facets) {
            Some(0) => write!(messages.1, "; they differ early on"),
            Some(number) => write!(messages.1, "; message {number} is the first that differs"),
            None => write!(messages.1, "; one continues the other"),
        };
    }
    if own.parts.request != other.parts.request && differences.is_empty() {
        differences.push(("messages", "differ".to_owned()));
    }
    differences
}

fn line(node: &str, call: &Value, own: Option<&About>, other: Option<&About>, differs: &[(&str, String)]) -> Value {
    let object =
        |about: &About| parts(about).into_iter().map(|(name, value)| (name, Value::from(value))).collect::<Value>();
    let origin = |about: &About| {
        Value::from_iter([
            ("thread", Value::from(about.thread.as_str())),
            ("role", Value::from(about.role.as_str())),
            ("visit", Value::from(about.visit)),
        ])
    };
    let get = |name: &str| call.get(name).cloned().unwrap_or_default();
    let differs = differs.iter().map(|(name, what)| (*name, Value::from(what.as_str())));
    Value::from_iter([
        ("node", Value::from(node)),
        ("position", get("position")),
        ("key", get("key")),
        ("outcome", get("outcome")),
        ("parts", own.map(object).unwrap_or_default()),
        ("nearest", other.map(origin).unwrap_or_default()),
        ("differs", differs.collect::<Value>()),
    ])
}

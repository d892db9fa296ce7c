//! Why a call was or was not answered: why it could not be, or its key, part by part, and where that differs from the
//! nearest other entry's.

use std::fmt::Write as _;

use rondo_protocol::Value;

use super::NAME;
use super::key::About;
use crate::hook::rack::{backing, groups};
use crate::hook::shelf::{Catalogue, Listed};
use crate::hook::{Desk, Said, verb};

/// Explains the tool calls of a step.
pub fn explain(asked: &verb::Asked, desk: &dyn Desk) -> Result<Said, String> {
    let (thread, stored, note) = verb::step(asked, desk)?;
    let mut said = Said::default();
    let entries = entries(desk)?;
    let _ = writeln!(said.text, "step {} of {thread}: {}, visit {}", stored.seq, stored.step.role, stored.visit);
    for hook in note.hooks.iter().filter(|hook| is_own(&hook.node)) {
        let Some(Value::List(calls)) = hook.metrics.get("calls") else { continue };
        for call in calls {
            tell(&hook.node, call, &entries, &mut said);
        }
    }
    if said.lines.is_empty() {
        let _ = writeln!(said.text, "{NAME} saw no call in this step");
    }
    Ok(said)
}

/// Whether a node is one of this kind: its name, with a number where it is used more than once.
fn is_own(node: &str) -> bool {
    let rest = node.strip_prefix(NAME);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('_').is_some_and(|n| n.parse::<u32>().is_ok()))
}

fn tell(node: &str, call: &Value, entries: &[Entry], said: &mut Said) {
    let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
    let (tool, key, outcome) = (text("tool"), text("key"), text("outcome"));
    let _ = writeln!(said.text, "\n{node}, {tool}: {outcome}");
    if key.is_empty() {
        said.lines.push(line(node, call, None, None, &[]));
        return;
    }
    let _ = writeln!(said.text, "  key {key}");
    let Some((_, own)) = entries.iter().find(|(entry, _)| entry.key.to_string() == key) else {
        let _ = writeln!(said.text, "  no entry has this key now");
        said.lines.push(line(node, call, None, None, &[]));
        return;
    };
    for (name, value) in parts(own) {
        let _ = writeln!(said.text, "    {name:<10} {value}");
    }
    let is_hit = outcome == "hit";
    let nearest = nearest(own, key, entries).filter(|_| !is_hit);
    let differs = nearest.map(|other| differences(own, other)).unwrap_or_default();
    match nearest {
        Some(About { role, visit, thread, .. }) => {
            let _ = writeln!(said.text, "  nearest other entry: {role}, visit {visit}, thread {thread}");
            for (name, what) in &differs {
                let _ = writeln!(said.text, "    {name:<10} {what}");
            }
        }
        None if is_hit => {
            let About { role, visit, thread, .. } = own;
            let _ = writeln!(said.text, "  asked first by {role}, visit {visit}, thread {thread}");
        }
        None => {
            let _ = writeln!(said.text, "  there is no other entry to compare it with");
        }
    }
    said.lines.push(line(node, call, Some(own), nearest, &differs));
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

/// The entry that has most in common with `own`, the newest of several. Another tool's never was meant.
fn nearest<'e>(own: &About, key: &str, entries: &'e [Entry]) -> Option<&'e About> {
    let others = entries.iter().filter(|(entry, _)| entry.key.to_string() != key);
    let same = |other: &About| parts(own).into_iter().zip(parts(other)).filter(|(own, other)| own == other).count();
    others
        .max_by_key(|(entry, other)| (other.fixed.tool == own.fixed.tool, same(other), entry.card.kept_at_ms))
        .map(|(_, other)| other)
}

/// The parts of a key in the words of an author, in order.
fn parts(about: &About) -> Vec<(&'static str, String)> {
    let About { fixed, within, effect, excerpt, arguments, .. } = about;
    let or = |text: &str, without: &str| if text.is_empty() { without.to_owned() } else { text.to_owned() };
    vec![
        ("tool", fixed.tool.clone()),
        ("arguments", format!("{excerpt} ({arguments})")),
        ("effect", effect.clone()),
        ("origin", format!("{} {}", fixed.origin, fixed.server).trim_end().to_owned()),
        ("root", or(&fixed.root, "(none)")),
        ("scope", format!("{} {within}", fixed.scope).trim_end().to_owned()),
        ("version", fixed.version.to_string()),
    ]
}

/// The parts in which two keys differ, each with what stands on either side.
fn differences(own: &About, other: &About) -> Vec<(&'static str, String)> {
    let both = parts(own).into_iter().zip(parts(other)).filter(|(own, other)| own != other);
    both.map(|((name, own), (_, other))| (name, format!("differs: {own} here, {other} there"))).collect()
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
    let differs: Value = differs.iter().map(|(name, what)| (*name, Value::from(what.as_str()))).collect();
    Value::from_iter([
        ("node", Value::from(node)),
        ("position", get("position")),
        ("tool", get("tool")),
        ("key", get("key")),
        ("outcome", get("outcome")),
        ("parts", own.map(object).unwrap_or_default()),
        ("nearest", other.map(origin).unwrap_or_default()),
        ("differs", differs),
    ])
}

//! Why calls of a step were or were not answered: each key part by part, and where it differs from the nearest other
//! entry's.
//!
//! Which calls there were is read from the metrics of the kind's nodes: their list `calls` holds an object for each, with
//! its `position`, its `key` unless there was no lookup, its `outcome`, and the `tool` of a tool call. What a key stands
//! for is read from its entry, on which the kind has written it.

use std::fmt::Write as _;

use rondo_core::hook::{SubcommandContext, SubcommandOutput, subcommand};
use rondo_protocol::Value;
use serde::Serialize;

use super::{groups, table};
use crate::cache::{Catalog, Key};

/// The outcome of a lookup by which a call was answered.
pub const HIT: &str = "hit";
/// The most calls of one visit that a node lists one by one.
pub const LISTED_CALLS_MAX: usize = 50;

/// Names and what is output of each, in order.
pub type Rows = Vec<(&'static str, String)>;

/// What a kind writes on its entries, by which they can be explained.
pub trait Explained: Sized + 'static {
    const KIND: &'static str;
    /// What is output behind its name of a step in which it had nothing to do.
    const IDLE: &'static str;
    /// The width of the column of names, in characters.
    const NAME_WIDTH: usize;

    type Likeness: Ord;

    /// What the bytes of an entry say.
    fn from_about(bytes: &[u8]) -> Option<Self>;

    fn origin(&self) -> Origin<'_>;

    /// The parts of its key in the words of an author. Every entry has the same ones.
    fn parts(&self) -> Rows;

    /// How much another entry has in common with this one; the one that has most is the nearest.
    fn likeness(&self, other: &Self) -> Self::Likeness;

    fn differences(&self, other: &Self) -> Rows {
        differing(self, other)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Origin<'a> {
    pub thread: &'a str,
    pub role: &'a str,
    pub visit: u64,
}

pub fn same_parts<A: Explained>(own: &A, other: &A) -> usize {
    own.parts().into_iter().zip(other.parts()).filter(|(own, other)| own == other).count()
}

/// The parts in which two keys differ, each with both values.
pub fn differing<A: Explained>(own: &A, other: &A) -> Rows {
    let both = own.parts().into_iter().zip(other.parts()).filter(|(own, other)| own != other);
    both.map(|((name, own), (_, other))| (name, format!("differs: {own} here, {other} there"))).collect()
}

pub(super) fn explain<A: Explained>(
    asked: &subcommand::Arguments,
    context: &dyn SubcommandContext,
) -> Result<SubcommandOutput, String> {
    let (thread, stored, note) = subcommand::step(asked, context)?;
    let entries = entries::<A>(context)?;
    let mut output = SubcommandOutput::default();
    let _ = writeln!(output.text, "step {} of {thread}: {}, visit {}", stored.seq, stored.step.role, stored.visit);
    for hook in note.hooks.iter().filter(|hook| subcommand::is_node_of(A::KIND, &hook.node)) {
        let Some(Value::List(calls)) = hook.metrics.get("calls") else { continue };
        for call in calls {
            explain_call(&hook.node, call, &entries, &mut output);
        }
    }
    if output.lines.is_empty() {
        let _ = writeln!(output.text, "{} {}", A::KIND, A::IDLE);
    }
    Ok(output)
}

/// Its key, when it was kept, and what stands on it.
type ExplainedEntry<A> = (Key, u64, A);

/// All entries of the kind that can be read.
fn entries<A: Explained>(context: &dyn SubcommandContext) -> Result<Vec<ExplainedEntry<A>>, String> {
    let mut entries = Vec::new();
    for group in groups(context.space())? {
        let listed = Catalog::read(&*table(context.space(), &group)).entries;
        entries.extend(
            listed.into_iter().filter_map(|(key, entry)| Some((key, entry.kept_at_ms, A::from_about(&entry.about)?))),
        );
    }
    Ok(entries)
}

fn explain_call<A: Explained>(node: &str, call: &Value, entries: &[ExplainedEntry<A>], output: &mut SubcommandOutput) {
    let text = |name: &str| call.get(name).and_then(Value::as_str);
    let (key, outcome) = (text("key").unwrap_or_default(), text("outcome").unwrap_or_default());
    let _ = match text("tool") {
        Some(tool) => writeln!(output.text, "\n{node}, {tool}: {outcome}"),
        None => writeln!(output.text, "\n{node}: {outcome}"),
    };
    if key.is_empty() {
        output.lines.push(line::<A>(node, call, None, None, &[]));
        return;
    }
    let _ = writeln!(output.text, "  key {key}");
    let Some((_, _, own)) = entries.iter().find(|(its, ..)| its.to_string() == key) else {
        let _ = writeln!(output.text, "  no entry has this key now");
        output.lines.push(line::<A>(node, call, None, None, &[]));
        return;
    };
    list::<A>(&mut output.text, &own.parts());
    let is_hit = outcome == HIT;
    let nearest = nearest(own, key, entries).filter(|_| !is_hit);
    let differs = nearest.map(|other| own.differences(other)).unwrap_or_default();
    match nearest {
        Some(other) => {
            let _ = writeln!(output.text, "  nearest other entry: {}", other.origin().words());
            list::<A>(&mut output.text, &differs);
        }
        None if is_hit => {
            let _ = writeln!(output.text, "  asked first by {}", own.origin().words());
        }
        None => {
            let _ = writeln!(output.text, "  there is no other entry to compare it with");
        }
    }
    output.lines.push(line(node, call, Some(own), nearest, &differs));
}

fn list<A: Explained>(text: &mut String, parts: &[(&str, String)]) {
    for (name, what) in parts {
        let _ = writeln!(text, "    {name:<width$} {what}", width = A::NAME_WIDTH);
    }
}

/// The entry that has most in common with `own`, the newest of several.
fn nearest<'e, A: Explained>(own: &A, key: &str, entries: &'e [ExplainedEntry<A>]) -> Option<&'e A> {
    let others = entries.iter().filter(|(its, ..)| its.to_string() != key);
    others.max_by_key(|(_, kept_at_ms, other)| (own.likeness(other), *kept_at_ms)).map(|(_, _, other)| other)
}

fn line<A: Explained>(
    node: &str,
    call: &Value,
    own: Option<&A>,
    other: Option<&A>,
    differs: &[(&str, String)],
) -> Value {
    let object = |parts: &[(&str, String)]| -> Value {
        parts.iter().map(|(name, what)| (*name, Value::from(what.as_str()))).collect()
    };
    let listed = ["position", "tool", "key", "outcome"].into_iter();
    let listed = listed.filter_map(|name| Some((name, call.get(name)?.clone())));
    let explained = [
        ("node", Value::from(node)),
        ("parts", own.map(|own| object(&own.parts())).unwrap_or_default()),
        ("nearest", Value::from_serialize(&other.map(A::origin)).unwrap_or_default()),
        ("differs", object(differs)),
    ];
    listed.chain(explained).collect()
}

impl Origin<'_> {
    fn words(&self) -> String {
        let Self { thread, role, visit } = self;
        format!("{role}, visit {visit}, thread {thread}")
    }
}

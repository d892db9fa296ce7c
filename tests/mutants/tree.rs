//! A workflow file as a tree that can be changed and written again. What is written is JSON, which is YAML too: layout,
//! quoting, anchors and comments mean nothing, and the order of keys is kept.

use std::fmt::Write;

use rondo_protocol::diagnostic::Span;
use rondo_protocol::source::{Key, Kind, Node};

/// A way into a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// An item of a list.
    Item(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(item: usize) -> Self {
        Self::Item(item)
    }
}

/// `steps`, and one more.
pub fn then(steps: &[Step], step: impl Into<Step>) -> Vec<Step> {
    steps.iter().cloned().chain([step.into()]).collect()
}

/// The node there.
pub fn get<'n>(root: &'n Node, steps: &[Step]) -> Option<&'n Node> {
    steps.iter().try_fold(root, |node, step| match (step, &node.kind) {
        (Step::Key(name), Kind::Map(members)) => {
            members.iter().find(|(key, _)| key.name == *name).map(|(_, node)| node)
        }
        (Step::Item(item), Kind::List(items)) => items.get(*item),
        _ => None,
    })
}

/// The value of a key of that node.
pub fn at<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    get(node, &[key.into()])
}

fn get_mut<'n>(root: &'n mut Node, steps: &[Step]) -> Option<&'n mut Node> {
    steps.iter().try_fold(root, |node, step| match (step, &mut node.kind) {
        (Step::Key(name), Kind::Map(members)) => {
            members.iter_mut().find(|(key, _)| key.name == *name).map(|(_, node)| node)
        }
        (Step::Item(item), Kind::List(items)) => items.get_mut(*item),
        _ => None,
    })
}

/// The text that the node is.
pub fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Str(text) => Some(text),
        _ => None,
    }
}

/// The keys of a map with their values.
pub fn members(node: &Node) -> &[(Key, Node)] {
    match &node.kind {
        Kind::Map(members) => members,
        _ => &[],
    }
}

/// The items of a list.
pub fn items(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::List(items) => items,
        _ => &[],
    }
}

/// A node of that kind.
pub fn node(kind: Kind) -> Node {
    Node { span: Span::default(), kind }
}

/// A text.
pub fn string(text: impl Into<String>) -> Node {
    node(Kind::Str(text.into()))
}

/// A list of texts.
pub fn strings<'t>(texts: impl IntoIterator<Item = &'t str>) -> Node {
    node(Kind::List(texts.into_iter().map(string).collect()))
}

/// A map.
pub fn map<'k>(members: impl IntoIterator<Item = (&'k str, Node)>) -> Node {
    let key = |name: &str| Key { span: Span::default(), name: name.to_owned() };
    node(Kind::Map(members.into_iter().map(|(name, node)| (key(name), node)).collect()))
}

/// The tree with `value` there; where a map lacks the last key, the key is added.
pub fn with(root: &Node, steps: &[Step], value: Node) -> Node {
    let mut root = root.clone();
    if let Some(old) = get_mut(&mut root, steps) {
        *old = value;
    } else if let Some((Step::Key(name), holder)) = steps.split_last()
        && let Some(Node { kind: Kind::Map(members), .. }) = get_mut(&mut root, holder)
    {
        members.push((Key { span: Span::default(), name: name.clone() }, value));
    } else {
        panic!("the tree has no place {steps:?}");
    }
    root
}

/// The tree without the key or item there, if it has it.
pub fn without(root: &Node, steps: &[Step]) -> Node {
    let mut root = root.clone();
    let Some((last, holder)) = steps.split_last() else { return root };
    match (last, get_mut(&mut root, holder).map(|node| &mut node.kind)) {
        (Step::Key(name), Some(Kind::Map(members))) => members.retain(|(key, _)| key.name != *name),
        (Step::Item(item), Some(Kind::List(items))) if *item < items.len() => drop(items.remove(*item)),
        _ => {}
    }
    root
}

/// The tree with another name for a key, which keeps its place.
pub fn renamed(root: &Node, holder: &[Step], old: &str, new: &str) -> Node {
    let mut root = root.clone();
    if let Some(Node { kind: Kind::Map(members), .. }) = get_mut(&mut root, holder) {
        for (key, _) in members.iter_mut().filter(|(key, _)| key.name == old) {
            new.clone_into(&mut key.name);
        }
    }
    root
}

/// The tree with `change` made of each of its texts.
pub fn map_texts(root: &Node, change: &dyn Fn(&str) -> String) -> Node {
    let kind = match &root.kind {
        Kind::Str(text) => Kind::Str(change(text)),
        Kind::List(items) => Kind::List(items.iter().map(|item| map_texts(item, change)).collect()),
        Kind::Map(members) => {
            Kind::Map(members.iter().map(|(key, node)| (key.clone(), map_texts(node, change))).collect())
        }
        other => other.clone(),
    };
    node(kind)
}

/// The tree as JSON.
pub fn json(root: &Node) -> String {
    let mut text = String::new();
    write(&mut text, root);
    text.push('\n');
    text
}

fn write(out: &mut String, node: &Node) {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    match &node.kind {
        Kind::Null => out.push_str("null"),
        Kind::Bool(value) => write!(out, "{value}").unwrap(),
        Kind::Int(value) => write!(out, "{value}").unwrap(),
        Kind::Float(value) => write!(out, "{value:?}").unwrap(),
        Kind::Str(text) => out.push_str(&quoted(text)),
        Kind::List(items) => {
            for (position, item) in items.iter().enumerate() {
                out.push_str(if position == 0 { "[" } else { ", " });
                write(out, item);
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Kind::Map(members) => {
            for (position, (key, node)) in members.iter().enumerate() {
                write!(out, "{}{}: ", if position == 0 { "{" } else { ",\n" }, quoted(&key.name)).unwrap();
                write(out, node);
            }
            out.push_str(if members.is_empty() { "{}" } else { "}" });
        }
    }
}

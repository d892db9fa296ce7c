//! Pictures of a graph: Mermaid, DOT and JSON. Hooks are drawn where calls pass them. A fan-out is drawn as a line to
//! each of its branches, and a thick one to its join role. A child workflow is drawn in a frame of its own.

use std::fmt::Write as _;

use rondo_protocol::Value;
use rondo_protocol::call::CallKind;
use rondo_protocol::id::{RoleName, Status};
use rondo_protocol::text::plain;
use rondo_protocol::workflow::{FailedLanes, Need};

use super::{Edge, FanOut, Graph, Link, Node, To};

/// The format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// <https://mermaid.js.org/syntax/flowchart.html>
    Mermaid,
    /// <https://graphviz.org/doc/info/lang.html>
    Dot,
    /// `{name, nodes: [{id, kind, label}], edges: [{from, to, kind: edge | branch | join | call | child, label, max}]}`;
    /// the ids of a child's nodes begin with the path of its role and `/`
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    /// The path of the child workflow that it belongs to.
    frame: String,
    id: String,
    kind: &'static str,
    label: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    order: (u8, u32, usize),
    from: String,
    to: String,
    kind: &'static str,
    label: String,
    max: Option<u32>,
}

/// A child workflow in a picture.
#[derive(Debug)]
pub struct Child {
    /// The path of its role, such as `section` or `section/checker`.
    pub path: String,
    /// Its graph.
    pub graph: Graph,
}

/// Draws a graph with its children, each after the one that it is a child of. Equal graphs give equal pictures.
pub fn draw(graph: &Graph, children: &[Child], format: Format) -> String {
    let (mut shapes, mut lines) = picture(graph);
    for Child { path, graph } in children {
        let (own, between) = picture(graph);
        let within = |id: &str| format!("{path}/{id}");
        shapes.extend(own.into_iter().map(|shape| Shape { id: within(&shape.id), frame: path.clone(), ..shape }));
        let (around, role) =
            path.rsplit_once('/').map_or((String::new(), path.as_str()), |(around, role)| (format!("{around}/"), role));
        let from = format!("{around}role:{role}");
        let entry =
            Line { from, to: within("start"), kind: "child", order: (0, 0, 0), label: String::new(), max: None };
        lines.push(entry);
        let inner = |line: Line| Line { from: within(&line.from), to: within(&line.to), ..line };
        lines.extend(between.into_iter().map(inner));
    }
    match format {
        // Pictures are for people; characters that are invisible in a file are not drawn either.
        Format::Mermaid => plain(&mermaid(&shapes, &lines)).into_owned(),
        Format::Dot => plain(&dot(graph.name(), &shapes, &lines)).into_owned(),
        Format::Json => json(graph.name(), &shapes, &lines),
    }
}

fn picture(graph: &Graph) -> (Vec<Shape>, Vec<Line>) {
    let mut lines: Vec<Line> = Vec::new();
    for (from, link, to) in graph.links() {
        if let (Link::Route { status, after, edge, .. }, Node::Role(branch)) = (link, to)
            && let To::Fan(fan) = &edge.to
        {
            let label = route_label(status.as_ref().map(Status::as_str), *after, edge);
            lines.extend(fan_lines(&shape(graph, from).id, &label, (edge, fan), branch));
            continue;
        }
        let (order, kind, label, max) = match link {
            Link::Route { status, after, edge, .. } => {
                let max = edge.bound.as_ref().map(|bound| bound.max);
                ((0, edge.id.0, 0), "edge", route_label(status.as_ref().map(Status::as_str), *after, edge), max)
            }
            Link::Calls(kind) => ((1, *kind as u32, 0), "call", kind.name().to_owned(), None),
        };
        let (from, to) = (shape(graph, from).id, shape(graph, to).id);
        lines.push(Line { order, from, to, kind, label, max });
    }
    lines.sort();
    lines.dedup();
    let has_hooks = !graph.hooks().is_empty();
    if !has_hooks {
        // Without hooks every role calls the same ports, which would only hide the graph.
        lines.retain(|line| line.kind != "call");
    }
    let reached = |shape: &Shape| lines.iter().any(|line| line.from == shape.id || line.to == shape.id);
    let shapes = graph.inner.node_weights().map(|node| shape(graph, node)).filter(reached).collect();
    (shapes, lines)
}

/// The lines of a fan-out to the branches that start with a role, and to its join role.
fn fan_lines(from: &str, label: &str, (edge, fan): (&Edge, &FanOut), role: &RoleName) -> Vec<Line> {
    let max = edge.bound.as_ref().map(|bound| bound.max);
    let line = |place: usize, to: &RoleName, kind: &'static str, words: String| Line {
        order: (0, edge.id.0, place),
        from: from.to_owned(),
        to: format!("role:{to}"),
        kind,
        label: format!("{label}: {words}").trim_start_matches(": ").to_owned(),
        max,
    };
    let mut lines = Vec::new();
    for (index, branch) in fan.branches.iter().enumerate().filter(|(_, branch)| branch.to == *role) {
        let mut words = match &fan.each {
            Some(each) => format!("each {} in {}, {} at once", each.name, each.source, each.parallel),
            None => format!("{role}[{index}]"),
        };
        if let Some(when) = &branch.when {
            let _ = write!(words, " when {}", when.source);
        }
        lines.push(line(index, role, "branch", words));
    }
    let mut words = "join".to_owned();
    match fan.join.need {
        Need::All => {}
        Need::Any => words.push_str(", needs any"),
        Need::Count(count) => drop(write!(words, ", needs {count}")),
    }
    match fan.join.failed {
        FailedLanes::Fail => {}
        FailedLanes::Collect => words.push_str(", collects failed"),
        FailedLanes::Skip => words.push_str(", skips failed"),
    }
    lines.push(line(fan.branches.len(), &fan.join.to, "join", words));
    lines
}

fn shape(graph: &Graph, node: &Node) -> Shape {
    let (id, kind, label) = match node {
        Node::Start => ("start".to_owned(), "start", "start".to_owned()),
        Node::End => ("end".to_owned(), "end", "end".to_owned()),
        Node::Fail => ("fail".to_owned(), "fail", "fail".to_owned()),
        Node::Role(role) => {
            let kind = graph.role(role).map_or("model", |(role, _)| role.kind.name());
            (format!("role:{role}"), kind, role.to_string())
        }
        Node::Hook(at) => {
            let name = graph.hooks().get(*at).map_or_else(String::new, |hook| hook.name.clone());
            (format!("hook:{name}"), "hook", name)
        }
        Node::Port(kind) => {
            let label = match kind {
                CallKind::Turn => "agent loop",
                CallKind::Model => "model",
                CallKind::Tool => "tool",
            };
            (format!("port:{}", kind.name()), "port", label.to_owned())
        }
    };
    Shape { frame: String::new(), id, kind, label }
}

fn route_label(status: Option<&str>, after: Option<u32>, edge: &Edge) -> String {
    let mut label = status.unwrap_or_default().to_owned();
    if let Some(max) = after {
        let _ = write!(label, " after {max} times");
    }
    if let Some(when) = &edge.when {
        let _ = write!(label, " when {}", when.source);
    }
    if let Some(bound) = &edge.bound {
        let _ = write!(label, " max {}", bound.max);
        if let Some(per) = &bound.per {
            let _ = write!(label, " per {per}");
        }
    }
    label.trim().to_owned()
}

fn mermaid(shapes: &[Shape], lines: &[Line]) -> String {
    let mut text = String::from("flowchart TD\n");
    let id = |id: &str| id.replace([':', '/'], "_");
    let mut frame = "";
    for shape in shapes {
        if shape.frame != frame {
            if !frame.is_empty() {
                text.push_str("  end\n");
            }
            frame = &shape.frame;
            let _ = writeln!(text, "  subgraph f_{} [\"{}\"]", id(frame), escape(frame));
        }
        let label = escape(&shape.label);
        let (open, close) = match shape.kind {
            "start" | "end" | "fail" => ("([", "])"),
            "hook" => ("{{", "}}"),
            "port" => ("[(", ")]"),
            _ => ("[", "]"),
        };
        // `end` is a keyword of Mermaid, so every id has a prefix.
        let _ = writeln!(text, "  n_{}{open}\"{label}\"{close}", id(&shape.id));
    }
    if !frame.is_empty() {
        text.push_str("  end\n");
    }
    for line in lines {
        let arrow = match line.kind {
            "call" | "child" => "-.->",
            "join" => "==>",
            _ => "-->",
        };
        let (from, to) = (id(&line.from), id(&line.to));
        if line.label.is_empty() {
            let _ = writeln!(text, "  n_{from} {arrow} n_{to}");
        } else {
            let _ = writeln!(text, "  n_{from} {arrow}|\"{}\"| n_{to}", escape(&line.label));
        }
    }
    text
}

/// Escapes a label for Mermaid quotes: whatever could end the label, or start a directive (`%%{`), markup or a link,
/// becomes an entity (<https://mermaid.js.org/syntax/flowchart.html#entity-codes-to-escape-characters>).
fn escape(label: &str) -> String {
    let mut escaped = String::with_capacity(label.len());
    for c in label.chars() {
        match c {
            '"' | '<' | '>' | '#' | '&' | '%' | '{' | '}' | '`' | '\\' | ';' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            '\n' | '\t' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

fn dot(name: &str, shapes: &[Shape], lines: &[Line]) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let mut text = format!("digraph {} {{\n  node [shape=box];\n", quote(name));
    let mut frame = "";
    for shape in shapes {
        if shape.frame != frame {
            if !frame.is_empty() {
                text.push_str("  }\n");
            }
            frame = &shape.frame;
            let cluster = quote(&format!("cluster_{frame}"));
            let _ = writeln!(text, "  subgraph {cluster} {{\n  label={};", quote(frame));
        }
        let form = match shape.kind {
            "start" | "end" | "fail" => "oval",
            "hook" => "hexagon",
            "port" => "cylinder",
            _ => "box",
        };
        let _ = writeln!(text, "  {} [label={}, shape={form}];", quote(&shape.id), quote(&shape.label));
    }
    if !frame.is_empty() {
        text.push_str("  }\n");
    }
    for line in lines {
        let style = match line.kind {
            "call" | "child" => ", style=dashed",
            "join" => ", style=bold",
            _ => "",
        };
        let (from, to) = (quote(&line.from), quote(&line.to));
        let _ = writeln!(text, "  {from} -> {to} [label={}{style}];", quote(&line.label));
    }
    text.push_str("}\n");
    text
}

fn json(name: &str, shapes: &[Shape], lines: &[Line]) -> String {
    let nodes = shapes
        .iter()
        .map(|shape| {
            Value::from_iter([
                ("id", Value::from(shape.id.as_str())),
                ("kind", Value::from(shape.kind)),
                ("label", Value::from(shape.label.as_str())),
            ])
        })
        .collect::<Vec<_>>();
    let edges = lines
        .iter()
        .map(|line| {
            Value::from_iter([
                ("from", Value::from(line.from.as_str())),
                ("to", Value::from(line.to.as_str())),
                ("kind", Value::from(line.kind)),
                ("label", Value::from(line.label.as_str())),
                ("max", line.max.map_or(Value::Null, |max| Value::from(u64::from(max)))),
            ])
        })
        .collect::<Vec<_>>();
    let graph =
        Value::from_iter([("name", Value::from(name)), ("nodes", Value::List(nodes)), ("edges", Value::List(edges))]);
    graph.to_text() + "\n"
}

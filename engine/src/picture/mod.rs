//! Pictures of a graph. A child workflow, and the roles that run in lanes, are drawn in frames. The way from a fan-out to
//! its join is told by the title of its frame.

mod cycles;
mod dot;
mod frame;
pub mod json;
mod layout;
mod mermaid;
mod route;
mod svg;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rondo_core::graph::{Edge, FanOut, Graph, Join, Link, Node, To, Way};
use rondo_protocol::call::CallKind;
use rondo_protocol::canonical;
use rondo_protocol::id::{RoleName, Status};
use rondo_protocol::text::plain;
use rondo_protocol::workflow::{FailedLanes, Need};

use frame::Frame;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// <https://mermaid.js.org/syntax/flowchart.html>
    Mermaid,
    /// <https://graphviz.org/doc/info/lang.html>
    Dot,
    /// `{name, nodes: [{id, kind, label}], edges: [{from, to, kind: edge | branch | join | call | child, label, max}]}`;
    /// the ids of a child's nodes begin with the path of its role and `/`. For programs: it has every hook, and the way
    /// from a fan-out to its join, as an edge of its own.
    Json,
    /// <https://www.w3.org/TR/SVG2>, for light and for dark surroundings
    Svg,
}

/// The most nodes and edges to which places are given. What that takes grows faster than with their square: some seconds
/// for so many.
const MAX_PARTS: usize = 600;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the picture would have {parts} nodes and edges, and may have {MAX_PARTS}")]
    TooLarge { parts: usize },
    #[error(transparent)]
    Json(#[from] canonical::Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// Their names on each role whose calls pass them.
    Badges,
    /// As nodes between the roles and the ports where calls end.
    Full,
}

#[derive(Debug)]
pub struct Child {
    /// The path of its role, such as `section` or `section/checker`.
    pub path: String,
    pub graph: Graph,
}

/// What is drawn, before it has a place.
#[derive(Debug)]
struct Picture {
    name: String,
    shapes: Vec<Shape>,
    lines: Vec<Line>,
    /// Each after the one around it.
    frames: Vec<Frame>,
}

#[derive(Debug, Clone)]
struct Shape {
    /// The id of the innermost frame that it is in.
    frame: Option<String>,
    id: String,
    kind: &'static str,
    label: String,
    /// The hooks that are not drawn as nodes.
    badges: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    order: (u8, u32, usize),
    from: String,
    to: String,
    kind: &'static str,
    label: String,
    max: Option<u32>,
    /// Whether it leads from a lane to its join.
    ends_lane: bool,
}

/// Draws a graph with its children, each after the one that it is a child of. Equal graphs give equal pictures.
pub fn draw(graph: &Graph, children: &[Child], format: Format, hooks: Hooks) -> Result<Vec<u8>, Error> {
    let hooks = if format == Format::Json { Hooks::Full } else { hooks };
    let mut picture = Picture::new(graph, children, hooks);
    if format != Format::Json {
        // The others are for people, and characters that are invisible in a file are not drawn either.
        picture.make_plain();
        picture.lines.retain(|line| line.kind != "join");
    }
    Ok(match format {
        Format::Mermaid => mermaid::text(&picture).into_bytes(),
        Format::Dot => dot::text(&picture).into_bytes(),
        Format::Json => json::Graph::of(&picture).text()?,
        Format::Svg => svg::text(&picture)?.into_bytes(),
    })
}

impl Shape {
    /// What stands below its name, a line each: the kind of a role that is no plain model, and the hooks of its calls.
    fn below(&self) -> Vec<String> {
        let badges: Vec<String> = self.badges.iter().map(|badge| format!("[{badge}]")).collect();
        let badges = (!badges.is_empty()).then(|| badges.join(" "));
        self.names_kind().then(|| self.kind.to_owned()).into_iter().chain(badges).collect()
    }
}

impl Picture {
    fn new(graph: &Graph, children: &[Child], hooks: Hooks) -> Self {
        let mut picture = Self::of(graph, hooks);
        for Child { path, graph } in children {
            let (around, role) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
            let from = format!("{around}role:{role}");
            let frame = picture.shapes.iter().find(|shape| shape.id == from).and_then(|shape| shape.frame.clone());
            picture.add_child(path, frame, Self::of(graph, hooks));
            let (to, kind, order) = (format!("{path}/start"), "child", (0, 0, 0));
            picture.lines.push(Line { order, from, to, kind, label: String::new(), max: None, ends_lane: false });
        }
        picture
    }

    /// One graph without its children.
    fn of(graph: &Graph, hooks: Hooks) -> Self {
        let frames = frame::of_lanes(graph);
        let mut lines = lines(graph);
        if hooks == Hooks::Badges || graph.hooks().is_empty() {
            // Without hooks every role calls the same ports, which would only hide the graph.
            lines.retain(|line| line.kind != "call");
        }
        let reached = |shape: &Shape| lines.iter().any(|line| line.from == shape.id || line.to == shape.id);
        let shapes = graph.nodes().map(|node| {
            let mut shape = shape(graph, node);
            if let Node::Role(role) = node {
                shape.frame = frame::innermost(&frames, role).map(|frame| frame.id.clone());
                if hooks == Hooks::Badges {
                    shape.badges = badges(graph, role);
                }
            }
            shape
        });
        Self { name: graph.name().to_owned(), shapes: shapes.filter(reached).collect(), lines, frames }
    }

    /// Adds what a child has, in a frame within `around`.
    fn add_child(&mut self, path: &str, around: Option<String>, child: Self) {
        let within = |id: &str| format!("{path}/{id}");
        let inner = |frame: Option<String>| Some(frame.map_or_else(|| path.to_owned(), |frame| within(&frame)));
        let frame = |frame: Frame| Frame { id: within(&frame.id), within: inner(frame.within), ..frame };
        let shape = |shape: Shape| Shape { id: within(&shape.id), frame: inner(shape.frame), ..shape };
        let line = |line: Line| Line { from: within(&line.from), to: within(&line.to), ..line };
        let (id, label) = (path.to_owned(), path.to_owned());
        self.frames.push(Frame { id, within: around, label, roles: BTreeSet::new() });
        self.frames.extend(child.frames.into_iter().map(frame));
        self.shapes.extend(child.shapes.into_iter().map(shape));
        self.lines.extend(child.lines.into_iter().map(line));
    }

    fn make_plain(&mut self) {
        let labels = self.lines.iter_mut().map(|line| &mut line.label).chain([&mut self.name]);
        labels.for_each(|label| *label = plain(label).into_owned());
    }

    /// The frames and shapes directly within a frame, or outside of all.
    fn within<'a>(
        &'a self,
        frame: Option<&'a str>,
    ) -> (impl Iterator<Item = &'a Frame>, impl Iterator<Item = &'a Shape>) {
        let frames = self.frames.iter().filter(move |inner| inner.within.as_deref() == frame);
        (frames, self.shapes.iter().filter(move |shape| shape.frame.as_deref() == frame))
    }
}

fn lines(graph: &Graph) -> Vec<Line> {
    let fans: Vec<_> = graph.fans().map(|fan| (graph.lane_roles(fan), &fan.join.to)).collect();
    let ends_lane = |from: &Node, to: &Node| match (from, to) {
        (Node::Role(from), Node::Role(to)) => fans.iter().any(|(lanes, join)| *join == to && lanes.contains(from)),
        _ => false,
    };
    let mut lines: Vec<Line> = Vec::new();
    for (from, link, to) in graph.links() {
        if let (Link::Route { way, edge }, Node::Role(branch)) = (link, to)
            && let To::Fan(fan) = &edge.to
        {
            lines.extend(fan_lines(&shape(graph, from).id, &route_label(way, edge), (edge, fan), branch));
            continue;
        }
        let (order, kind, label, max) = match link {
            Link::Route { way, edge } => {
                ((0, edge.id.0, 0), "edge", route_label(way, edge), edge.bound.as_ref().map(|bound| bound.max))
            }
            Link::Calls(kind) => ((1, *kind as u32, 0), "call", kind.name().to_owned(), None),
        };
        let ends_lane = ends_lane(from, to);
        let (from, to) = (shape(graph, from).id, shape(graph, to).id);
        lines.push(Line { order, from, to, kind, label, max, ends_lane });
    }
    lines.sort();
    lines.dedup();
    lines
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
        ends_lane: false,
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
    lines.push(line(fan.branches.len(), &fan.join.to, "join", format!("join{}", conditions(&fan.join))));
    lines
}

/// What is not the default of a join.
fn conditions(join: &Join) -> String {
    let need = match join.need {
        Need::All => String::new(),
        Need::Any => ", needs any".to_owned(),
        Need::Count(count) => format!(", needs {count}"),
    };
    let failed = match join.failed {
        FailedLanes::Fail => "",
        FailedLanes::Collect => ", collects failed",
        FailedLanes::Skip => ", skips failed",
    };
    need + failed
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
            let label = if *kind == CallKind::Turn { "agent loop" } else { kind.name() };
            (format!("port:{}", kind.name()), "port", label.to_owned())
        }
    };
    Shape { frame: None, id, kind, label, badges: Vec::new() }
}

/// The names of the hooks that calls of a role pass, outermost first.
fn badges(graph: &Graph, role: &RoleName) -> Vec<String> {
    let on_path = |at: &usize| CallKind::ALL.iter().any(|kind| graph.call_path(role, *kind).contains(at));
    let hooks = graph.hooks().iter().enumerate().filter(|(at, _)| on_path(at));
    hooks.map(|(_, hook)| hook.name.clone()).collect()
}

/// When an edge is taken.
fn route_label(way: &Way, edge: &Edge) -> String {
    let mut label = way.status.as_ref().map(Status::to_string).unwrap_or_default();
    if way.is_else {
        label.push_str(" else");
    }
    if let Some(max) = way.after {
        let _ = write!(label, " after {max} {}", if max == 1 { "time" } else { "times" });
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

#[cfg(test)]
mod tests;

#[cfg(test)]
mod drawing_tests;

//! Where each part of a picture has its place: in rows from top to bottom, by dagre. Lengths are in pixels.
//!
//! Every text has a fixed pitch, so that its size is known without a font.

use std::collections::BTreeSet;

use dagre::graph::{Graph as Dagre, GraphOptions};
use dagre::layout::types::LabelPos;
use dagre::{EdgeLabel, LayoutOptions, NodeLabel};
use unicode_width::UnicodeWidthStr as _;

use super::route::{self, Between, Curve, Rows};
use super::{Error, Line, MAX_PARTS, Picture, Shape, cycles};

/// The size of a font.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pitch {
    /// The height of its letters.
    pub size: f64,
    /// From one line to the next.
    pub line: f64,
}

impl Pitch {
    pub fn column(self) -> f64 {
        // That of the fonts for terminals, with little difference between them.
        self.size * 0.6
    }

    pub fn width(self, text: &str) -> f64 {
        columns(text) * self.column()
    }
}

/// Names of roles.
pub(super) const NAME: Pitch = Pitch { size: 14.0, line: 18.0 };
/// Everything else.
pub(super) const SMALL: Pitch = Pitch { size: 11.0, line: 14.0 };
/// Within a badge, to the left and to the right of its text.
pub(super) const BADGE_PADDING: f64 = 5.0;
/// The height of a badge.
pub(super) const BADGE: f64 = 17.0;

/// Around the picture.
const MARGIN: f64 = 16.0;
/// Between a node's border and its text.
const PADDING: f64 = 10.0;
/// The most that a node gets wider for its lines.
const MOST_WIDENED: f64 = 240.0;
/// Between a frame's border and what is in it, above and below.
const FRAME_PADDING: f64 = 10.0;
/// Between two badges.
const GAP: f64 = 4.0;
/// The columns after which a label, and the row of badges, is continued below.
const LABEL_COLUMNS: usize = 26;
/// The columns after which the title of a frame is continued below.
const TITLE_COLUMNS: usize = 36;
/// The lines of a label; more are cut, and stand whole in its tooltip.
const LABEL_LINES: usize = 6;

/// A rectangle by its centre.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// A picture whose parts have their places.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub width: f64,
    pub height: f64,
    /// Each after the one around it, with its title.
    pub frames: Vec<(Rect, Text)>,
    pub shapes: Vec<(Rect, &'a Shape)>,
    pub lines: Vec<Way<'a>>,
}

#[derive(Debug)]
pub(super) struct Way<'a> {
    pub line: &'a Line,
    pub curve: Curve,
    /// Whether it leads upwards, or to where it starts.
    pub is_back: bool,
    pub label: Option<Text>,
}

/// Several lines of text around a point.
#[derive(Debug)]
pub(super) struct Text {
    pub at: Rect,
    pub lines: Vec<String>,
    pub is_cut: bool,
}

pub(super) fn columns(text: &str) -> f64 {
    f64::from(u32::try_from(text.width()).unwrap_or(u32::MAX))
}

impl Shape {
    /// Whether it is drawn with its kind below its name.
    pub(super) fn names_kind(&self) -> bool {
        !matches!(self.kind, "start" | "end" | "fail" | "model" | "hook" | "port")
    }

    pub(super) fn badge_rows(&self) -> Vec<&[String]> {
        let mut rows = Vec::new();
        let mut rest = self.badges.as_slice();
        while !rest.is_empty() {
            let mut width = 0;
            let fits = rest.iter().take_while(|badge| {
                width += badge.width() + 2;
                width <= LABEL_COLUMNS
            });
            let (row, after) = rest.split_at(fits.count().max(1));
            rows.push(row);
            rest = after;
        }
        rows
    }

    fn size(&self) -> (f64, f64) {
        let mut width = NAME.width(&self.label);
        let mut height = NAME.line;
        if self.names_kind() {
            width = width.max(SMALL.width(self.kind));
            height += SMALL.line;
        }
        for row in self.badge_rows() {
            width = width.max(row_width(row));
            height += BADGE + GAP;
        }
        (width + 2.0 * PADDING, height + 2.0 * PADDING - 4.0)
    }
}

pub(super) fn badge_width(badge: &str) -> f64 {
    SMALL.width(badge) + 2.0 * BADGE_PADDING
}

pub(super) fn row_width(row: &[String]) -> f64 {
    let gaps = u32::try_from(row.len().saturating_sub(1)).unwrap_or(0);
    row.iter().map(|badge| badge_width(badge)).sum::<f64>() + f64::from(gaps) * GAP
}

/// The left edges of the badges of a row around `x`.
pub(super) fn badge_places(row: &[String], x: f64) -> impl Iterator<Item = (f64, &String)> {
    let mut left = x - row_width(row) / 2.0;
    row.iter().map(move |badge| {
        let at = left;
        left += badge_width(badge) + GAP;
        (at, badge)
    })
}

impl Line {
    fn downwards(&self, is_back: bool) -> (&String, &String) {
        if is_back { (&self.to, &self.from) } else { (&self.from, &self.to) }
    }
}

impl Text {
    fn wrapped(text: &str, most: usize) -> Self {
        let mut lines: Vec<String> = textwrap::wrap(text, most).into_iter().map(Into::into).collect();
        let is_cut = lines.len() > LABEL_LINES;
        if is_cut {
            lines.truncate(LABEL_LINES);
            lines.push("…".to_owned());
        }
        let width = lines.iter().map(|line| SMALL.width(line)).fold(0.0, f64::max);
        let count = f64::from(u32::try_from(lines.len()).unwrap_or(u32::MAX));
        let at = Rect { x: 0.0, y: 0.0, width: width + 6.0, height: count * SMALL.line + 2.0 };
        Self { at, lines, is_cut }
    }
}

impl<'a> Layout<'a> {
    pub(super) fn new(picture: &'a Picture) -> Result<Self, Error> {
        let parts = picture.shapes.len() + picture.lines.len();
        if parts > MAX_PARTS {
            return Err(Error::TooLarge { parts });
        }
        let mut plan = Plan::new(picture);
        let options = LayoutOptions {
            nodesep: 28.0,
            edgesep: 14.0,
            ranksep: 52.0,
            marginx: MARGIN,
            marginy: MARGIN,
            ..LayoutOptions::default()
        };
        dagre::layout(&mut plan.graph, Some(options));
        Ok(plan.read())
    }
}

/// The graph that dagre gives places to, and what it does not know of.
struct Plan<'a> {
    picture: &'a Picture,
    graph: Dagre<NodeLabel, EdgeLabel>,
    titles: Vec<Text>,
    labels: Vec<Option<Text>>,
    /// For each line whether dagre sees it from its target to its source.
    is_back: Vec<bool>,
}

impl<'a> Plan<'a> {
    fn new(picture: &'a Picture) -> Self {
        let graph = Dagre::with_options(GraphOptions { directed: true, multigraph: true, compound: true });
        let titles = picture.frames.iter().map(|frame| Text::wrapped(&frame.label, TITLE_COLUMNS)).collect();
        let label = |line: &Line| (!line.label.is_empty()).then(|| Text::wrapped(&line.label, LABEL_COLUMNS));
        let labels = picture.lines.iter().map(label).collect();
        let mut plan = Self { picture, graph, titles, labels, is_back: cycles::leads_back(&picture.lines) };
        plan.add_frames();
        plan.add_shapes();
        plan.add_lines();
        plan.put_titles_on_top();
        plan
    }

    fn add_frames(&mut self) {
        for (frame, title) in self.picture.frames.iter().zip(&self.titles) {
            let (id, title_id) = (frame_id(&frame.id), title_id(&frame.id));
            self.graph.set_node(id.clone(), Some(NodeLabel::default()));
            self.graph.set_node(title_id.clone(), Some(sized(title.at.width, title.at.height)));
            self.graph.set_parent(&title_id, Some(&id));
            if let Some(around) = &frame.within {
                self.graph.set_parent(&id, Some(&frame_id(around)));
            }
        }
    }

    fn add_shapes(&mut self) {
        for shape in &self.picture.shapes {
            let (width, height) = shape.size();
            let width = width.max(self.room_for_lines(&shape.id));
            self.graph.set_node(shape.id.clone(), Some(sized(width, height)));
            if let Some(frame) = &shape.frame {
                self.graph.set_parent(&shape.id, Some(&frame_id(frame)));
            }
        }
    }

    /// The width that a node needs for the lines at its upper or lower side to be apart.
    fn room_for_lines(&self, id: &str) -> f64 {
        let (mut above, mut below) = (0_u32, 0_u32);
        for (line, is_back) in self.picture.lines.iter().zip(&self.is_back).filter(|(line, _)| line.from != line.to) {
            let (upper, lower) = line.downwards(*is_back);
            below += u32::from(upper == id);
            above += u32::from(lower == id);
        }
        (f64::from(above.max(below)) * route::APART + 2.0 * route::CORNER).min(MOST_WIDENED)
    }

    fn add_lines(&mut self) {
        let lines = self.picture.lines.iter().zip(&self.labels).zip(&self.is_back);
        for (number, ((line, label), is_back)) in lines.enumerate() {
            let size = label.as_ref().map_or((0.0, 0.0), |label| (label.at.width, label.at.height));
            let edge = EdgeLabel { width: size.0, height: size.1, labelpos: LabelPos::Center, ..EdgeLabel::default() };
            let (from, to) = line.downwards(*is_back);
            self.graph.set_edge(from.clone(), to.clone(), Some(edge), Some(&number.to_string()));
        }
    }

    /// Puts the title of each frame above what is entered from outside, and below what it is entered from.
    fn put_titles_on_top(&mut self) {
        for frame in &self.picture.frames {
            let (title, inside) = (title_id(&frame.id), self.inside(&frame.id));
            let mut around: BTreeSet<(String, String)> = BTreeSet::new();
            for (line, is_back) in self.picture.lines.iter().zip(&self.is_back) {
                if inside.contains(line.to.as_str()) && !inside.contains(line.from.as_str()) {
                    around.insert((title.clone(), line.to.clone()));
                    if !is_back {
                        around.insert((line.from.clone(), title.clone()));
                    }
                }
            }
            let inner = self.picture.frames.iter().filter(|inner| inner.within.as_ref() == Some(&frame.id));
            around.extend(inner.map(|inner| (title.clone(), title_id(&inner.id))));
            for (above, below) in around {
                let edge = EdgeLabel { weight: 0, ..EdgeLabel::default() };
                self.graph.set_edge(above, below, Some(edge), None);
            }
        }
    }

    /// The ids of the shapes in a frame and in those within it.
    fn inside(&self, frame: &'a str) -> BTreeSet<&'a str> {
        let (frames, shapes) = self.picture.within(Some(frame));
        let mut found: BTreeSet<&str> = shapes.map(|shape| shape.id.as_str()).collect();
        for inner in frames {
            found.extend(self.inside(&inner.id));
        }
        found
    }

    fn read(self) -> Layout<'a> {
        let Self { picture, graph, titles, labels, is_back } = self;
        let place = |id: &str| graph.node(id).map_or(NOWHERE, of_node);
        let shapes: Vec<_> = picture.shapes.iter().map(|shape| (place(&shape.id), shape)).collect();
        let mut frames = Vec::new();
        for (frame, title) in picture.frames.iter().zip(titles) {
            frames.push((place(&frame_id(&frame.id)), Text { at: place(&title_id(&frame.id)), ..title }));
        }
        tighten(&mut frames, picture, &shapes);
        let mut rows = Rows::default();
        for at in shapes.iter().map(|(at, _)| at).chain(frames.iter().map(|(_, title)| &title.at)) {
            rows.add(at);
        }
        let (mut labelled, mut between) = (Vec::new(), Vec::new());
        for (number, ((line, label), is_back)) in picture.lines.iter().zip(labels).zip(&is_back).enumerate() {
            let (from, to) = line.downwards(*is_back);
            let Some(edge) = graph.edge(from, to, Some(&number.to_string())) else { continue };
            let at = |size: Rect| Rect { x: edge.x.unwrap_or(0.0), y: edge.y.unwrap_or(0.0), ..size };
            let label = label.map(|label| Text { at: at(label.at), ..label });
            label.iter().filter(|_| line.from != line.to).for_each(|label| rows.add(&label.at));
            let mut points: Vec<_> = edge.points.iter().map(|point| (point.x, point.y)).collect();
            if *is_back {
                points.reverse();
            }
            between.push(Between {
                from: (&line.from, place(&line.from)),
                to: (&line.to, place(&line.to)),
                points,
                label: label.as_ref().map(|label| label.at),
            });
            labelled.push((line, label));
        }
        let ways = labelled.into_iter().zip(route::curves(&between, &rows)).zip(&between);
        let lines = ways.map(|(((line, label), curve), between)| {
            let is_back = matches!(line.kind, "edge" | "branch") && between.to.1.y <= between.from.1.y;
            Way { line, curve, is_back, label }
        });
        let lines = lines.collect();
        let about = graph.graph_label::<dagre::GraphLabel>();
        let (width, height) = about.map_or((0.0, 0.0), |about| (about.width, about.height));
        Layout { width, height, frames, shapes, lines }
    }
}

/// Moves the upper and lower borders of frames to what is in them; dagre leaves a row free there.
fn tighten(frames: &mut [(Rect, Text)], picture: &Picture, shapes: &[(Rect, &Shape)]) {
    // Those within others come first.
    for (number, frame) in picture.frames.iter().enumerate().rev() {
        let inside = shapes.iter().filter(|(_, shape)| shape.frame.as_ref() == Some(&frame.id)).map(|(at, _)| *at);
        let inner = picture.frames.iter().zip(&*frames).filter(|(inner, _)| inner.within.as_ref() == Some(&frame.id));
        let mut inside: Vec<Rect> = inside.chain(inner.map(|(_, (at, _))| *at)).collect();
        let Some((at, title)) = frames.get_mut(number) else { continue };
        inside.push(title.at);
        let tops = inside.iter().map(|at| at.y - at.height / 2.0);
        let top = tops.fold(f64::INFINITY, f64::min) - FRAME_PADDING;
        let bottoms = inside.iter().map(|at| at.y + at.height / 2.0);
        let bottom = bottoms.fold(f64::NEG_INFINITY, f64::max) + FRAME_PADDING;
        (at.y, at.height) = (f64::midpoint(top, bottom), bottom - top);
    }
}

const NOWHERE: Rect = Rect { x: 0.0, y: 0.0, width: 0.0, height: 0.0 };

fn of_node(node: &NodeLabel) -> Rect {
    Rect { x: node.x.unwrap_or(0.0), y: node.y.unwrap_or(0.0), width: node.width, height: node.height }
}

fn sized(width: f64, height: f64) -> NodeLabel {
    NodeLabel { width, height, ..NodeLabel::default() }
}

// No id of a shape begins like these: they are `start`, `role:...`, `child/...`.
fn frame_id(id: &str) -> String {
    format!("frame:{id}")
}

fn title_id(id: &str) -> String {
    format!("title:{id}")
}

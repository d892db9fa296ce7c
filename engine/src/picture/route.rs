//! The ways of lines between nodes that have their places.

use std::collections::BTreeMap;

use super::layout::Rect;

/// A way through points, each of which is left and reached vertically; or from a node to itself, horizontally.
#[derive(Debug)]
pub(super) enum Curve {
    Through(Vec<(f64, f64)>),
    Loop { from: (f64, f64), to: (f64, f64), reach: f64 },
}

/// The smallest distance between the ends of two lines at a node, if there is room.
pub(super) const APART: f64 = 16.0;
/// The ends of lines keep away from a node's corners.
pub(super) const CORNER: f64 = 10.0;

/// A line between two nodes, each with its id.
pub(super) struct Between<'a> {
    pub from: (&'a str, Rect),
    pub to: (&'a str, Rect),
    /// The points that dagre gives it, from its source to its target.
    pub points: Vec<(f64, f64)>,
    pub label: Option<Rect>,
}

impl Between<'_> {
    fn is_loop(&self) -> bool {
        self.from.0 == self.to.0
    }

    /// The way from a node to itself, to its right.
    fn looped(&self) -> Option<Curve> {
        let node = Some(self.from.1).filter(|_| self.is_loop())?;
        let right = node.x + node.width / 2.0;
        let furthest = self.label.map_or(right + 18.0, |label| label.x - label.width / 2.0);
        // The curve gets three quarters of the way to its inner points.
        let reach = right + (furthest - right) * 4.0 / 3.0;
        let half = node.height / 4.0;
        Some(Curve::Loop { from: (right, node.y - half), to: (right, node.y + half), reach })
    }

    /// 1 if it leads down, else -1.
    fn down(&self) -> f64 {
        if self.to.1.y > self.from.1.y { 1.0 } else { -1.0 }
    }
}

/// The curves of lines. They leave and reach nodes apart from each other.
pub(super) fn curves(lines: &[Between<'_>], rows: &Rows) -> Vec<Curve> {
    let mut ways: Vec<Vec<(f64, f64)>> = lines.iter().map(|line| rows.way(line)).collect();
    let mut sides = sides(lines, &ways);
    for side in sides.values_mut() {
        side.spread();
    }
    for end in sides.values().flat_map(|side| &side.ends) {
        let Some(way) = ways.get_mut(end.line) else { continue };
        if let Some(point) = if end.is_first { way.first_mut() } else { way.last_mut() } {
            point.0 = end.x;
        }
    }
    let ways = lines.iter().zip(ways);
    ways.map(|(line, way)| line.looped().unwrap_or(Curve::Through(way))).collect()
}

/// The upper or the lower side of a node.
struct Side {
    node: Rect,
    ends: Vec<End>,
}

/// Where a line leaves or reaches a node.
struct End {
    line: usize,
    is_first: bool,
    x: f64,
}

/// The sides of nodes by their ids and whether they are lower ones. Each end is where its line goes from there.
fn sides<'a>(lines: &[Between<'a>], ways: &[Vec<(f64, f64)>]) -> BTreeMap<(&'a str, bool), Side> {
    let mut sides: BTreeMap<(&str, bool), Side> = BTreeMap::new();
    for (line, (between, way)) in lines.iter().zip(ways).enumerate() {
        let ([_, (second, _), ..], [.., (last_but_one, _), _]) = (way.as_slice(), way.as_slice()) else { continue };
        if between.is_loop() {
            continue;
        }
        let is_down = between.down() > 0.0;
        for ((id, node), is_lower, x, is_first) in
            [(between.from, is_down, *second, true), (between.to, !is_down, *last_but_one, false)]
        {
            let side = sides.entry((id, is_lower)).or_insert_with(|| Side { node, ends: Vec::new() });
            side.ends.push(End { line, is_first, x });
        }
    }
    sides
}

impl Side {
    /// Puts the ends apart from each other, as near as possible to where their lines go.
    fn spread(&mut self) {
        let Self { node, ends } = self;
        ends.sort_by(|one, other| one.x.total_cmp(&other.x));
        let half = (node.width / 2.0 - CORNER).max(0.0);
        let (left, right) = (node.x - half, node.x + half);
        let gaps = f64::from(u32::try_from(ends.len().saturating_sub(1)).unwrap_or(u32::MAX)).max(1.0);
        let apart = APART.min((right - left) / gaps);
        let mut free = left;
        for end in ends.iter_mut() {
            end.x = end.x.clamp(free.min(right), right);
            free = end.x + apart;
        }
        let mut free = right;
        for end in ends.iter_mut().rev() {
            end.x = end.x.min(free);
            free = end.x - apart;
        }
    }
}

/// The rows of a layout: how high they are, by the place of their middle in hundredths of a pixel.
#[derive(Default)]
pub(super) struct Rows(BTreeMap<i64, f64>);

impl Rows {
    pub(super) fn add(&mut self, at: &Rect) {
        let height = self.0.entry(row(at.y)).or_default();
        *height = height.max(at.height);
    }

    /// The points of a line. It crosses each row vertically, in the place that dagre keeps free for it there.
    fn way(&self, line: &Between<'_>) -> Vec<(f64, f64)> {
        let (from, to, down) = (&line.from.1, &line.to.1, line.down());
        let mut way = vec![(from.x, from.y + down * from.height / 2.0)];
        if let [_, inner @ .., _] = line.points.as_slice() {
            for (x, y) in inner {
                let half = down * self.0.get(&row(*y)).copied().unwrap_or(0.0) / 2.0;
                way.extend([(*x, y - half), (*x, y + half)]);
            }
        }
        way.push((to.x, to.y - down * to.height / 2.0));
        way.dedup();
        way
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a key that is the same for equal places")]
fn row(y: f64) -> i64 {
    (y * 100.0).round() as i64
}

//! Scalable Vector Graphics, light in light surroundings and dark in dark ones.

use std::fmt::Write as _;

use super::layout::{self, BADGE, BADGE_PADDING, Layout, NAME, Pitch, Rect, SMALL, Text, Way};
use super::route::Curve;
use super::{Error, Picture, Shape};

/// Colours that are read on white.
const LIGHT: &str = ".page,.under{fill:#fff}.t{fill:#1f2328}.m{fill:#59636e}.b{fill:#7a3ecb}\
.frame{stroke:#9aa4af}.line{stroke:#6e7781}.head{fill:#6e7781}.back{stroke:#8250df}.back-head{fill:#8250df}\
.node{fill:#f6f8fa;stroke:#8c959f}.model{fill:#ddf4ff;stroke:#54aeff}.human{fill:#fff8c5;stroke:#d4a72c}\
.tool{fill:#dafbe1;stroke:#4ac26b}.rule,.selector{fill:#fbefff;stroke:#c297ff}.workflow{fill:#fff1e5;stroke:#fb8f44}\
.end{fill:#dafbe1;stroke:#1a7f37}.fail{fill:#ffebe9;stroke:#cf222e}.badge{fill:#fff;stroke:#8c959f}";

/// Colours that are read on black.
const DARK: &str = ".page,.under{fill:#0d1117}.t{fill:#e6edf3}.m{fill:#9198a1}.b{fill:#c9a5ff}\
.frame{stroke:#656c76}.line{stroke:#8b949e}.head{fill:#8b949e}.back{stroke:#a371f7}.back-head{fill:#a371f7}\
.node{fill:#151b23;stroke:#656c76}.model{fill:#121d2f;stroke:#388bfd}.human{fill:#272115;stroke:#d29922}\
.tool{fill:#12261e;stroke:#2ea043}.rule,.selector{fill:#211830;stroke:#8957e5}.workflow{fill:#2a1b10;stroke:#db6d28}\
.end{fill:#12261e;stroke:#2ea043}.fail{fill:#25171c;stroke:#f85149}.badge{fill:#0d1117;stroke:#656c76}";

/// What does not depend on the surroundings.
const SHAPES: &str = "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}\
.frame{fill:none;stroke-width:1.2;stroke-dasharray:5 4}.line{fill:none;stroke-width:1.4}.back{stroke-width:1.8}\
.join{stroke-width:2.8}.dashed{stroke-dasharray:4 4}.node{stroke-width:1.4}";

/// The length of an arrow's head, and half of its width.
const HEAD: (f64, f64) = (8.0, 4.0);
/// How far letters rise above the middle of their line, as a share of their size.
const MIDDLE: f64 = 0.36;

pub(super) fn text(picture: &Picture) -> Result<String, Error> {
    let layout = Layout::new(picture)?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0} {1:.0}\" width=\"{0:.0}\" height=\"{1:.0}\" role=\"img\">\n\
         <title>{2}</title>\n\
         <style>{SHAPES}{LIGHT}@media (prefers-color-scheme:dark){{{DARK}}}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
        layout.width.ceil(),
        layout.height.ceil(),
        escaped(&picture.name)
    );
    let mut drawing = Drawing { svg: &mut svg };
    layout.frames.iter().for_each(|(at, _)| drawing.rect("frame", at, 10.0));
    layout.lines.iter().for_each(|way| drawing.line(way));
    // Above the lines, which may pass below them.
    layout.frames.iter().for_each(|(_, title)| drawing.text(title, "m"));
    layout.lines.iter().for_each(|way| drawing.label(way));
    layout.shapes.iter().for_each(|(at, shape)| drawing.shape(at, shape));
    svg.push_str("</svg>\n");
    Ok(svg)
}

struct Drawing<'a> {
    svg: &'a mut String,
}

impl Drawing<'_> {
    fn rect(&mut self, class: &str, at: &Rect, radius: f64) {
        let (left, top) = (at.x - at.width / 2.0, at.y - at.height / 2.0);
        let _ = writeln!(
            self.svg,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{radius}\"/>",
            at.width, at.height
        );
    }

    fn line(&mut self, way: &Way<'_>) {
        let (class, head_class) = if way.is_back { ("line back", "back-head") } else { ("line", "head") };
        let style = match way.line.kind {
            "call" | "child" => " dashed",
            _ if way.line.ends_lane => " join",
            _ => "",
        };
        let (path, head) = match &way.curve {
            Curve::Through(points) => through(points),
            Curve::Loop { from, to, reach } => looped(*from, *to, *reach),
        };
        let _ = writeln!(
            self.svg,
            "<path class=\"{class}{style}\" d=\"{path}\"/><path class=\"{head_class}\" d=\"{head}\"/>"
        );
    }

    fn label(&mut self, way: &Way<'_>) {
        let Some(label) = &way.label else { return };
        self.svg.push_str("<g class=\"label\">");
        if label.is_cut {
            let _ = write!(self.svg, "<title>{}</title>", escaped(&way.line.label));
        }
        self.rect("under", &label.at, 3.0);
        self.text(label, if way.is_back { "b" } else { "t" });
        self.svg.push_str("</g>\n");
    }

    /// An element with text that begins at `left` and stands on `baseline`, in a font of the reader.
    fn letters(&mut self, text: &str, class: &str, (left, baseline): (f64, f64), pitch: Pitch) {
        // The length keeps it in its place, whichever font the reader has.
        let (length, size) = (pitch.width(text), pitch.size);
        let _ = writeln!(
            self.svg,
            "<text class=\"{class}\" x=\"{left:.1}\" y=\"{baseline:.1}\" font-size=\"{size}\" textLength=\"{length:.1}\">{}</text>",
            escaped(text)
        );
    }

    fn text(&mut self, text: &Text, class: &str) {
        let mut middle = text.at.y - text.at.height / 2.0 + 1.0 + SMALL.line / 2.0;
        for line in &text.lines {
            self.words(line, class, (text.at.x, middle), SMALL);
            middle += SMALL.line;
        }
    }

    /// Text around a point.
    fn words(&mut self, text: &str, class: &str, (x, middle): (f64, f64), pitch: Pitch) {
        let place = (x - pitch.width(text) / 2.0, middle + pitch.size * MIDDLE);
        self.letters(text, class, place, pitch);
    }

    fn shape(&mut self, at: &Rect, shape: &Shape) {
        let _ = writeln!(self.svg, "<g class=\"shape\" id=\"{}\">", escaped(&shape.id));
        let radius = match shape.kind {
            "start" | "end" | "fail" => at.height / 2.0,
            "hook" | "port" => 2.0,
            _ => 6.0,
        };
        self.rect(&format!("node {}", shape.kind), at, radius);
        let mut top = at.y - at.height / 2.0 + 8.0;
        self.words(&shape.label, "t", (at.x, top + NAME.line / 2.0), NAME);
        top += NAME.line;
        if shape.names_kind() {
            self.words(shape.kind, "m", (at.x, top + SMALL.line / 2.0), SMALL);
            top += SMALL.line;
        }
        for row in shape.badge_rows() {
            top += 4.0;
            for (left, badge) in layout::badge_places(row, at.x) {
                let width = layout::badge_width(badge);
                let place = Rect { x: left + width / 2.0, y: top + BADGE / 2.0, width, height: BADGE };
                self.rect("badge", &place, BADGE / 2.0);
                let baseline = place.y + SMALL.size * MIDDLE;
                self.letters(badge, "m", (left + BADGE_PADDING, baseline), SMALL);
            }
            top += BADGE;
        }
        self.svg.push_str("</g>\n");
    }
}

/// A way down or up, and its arrow's head.
fn through(points: &[(f64, f64)]) -> (String, String) {
    let [.., (_, before), (x, end)] = points else { return (String::new(), String::new()) };
    let down = if end > before { 1.0 } else { -1.0 };
    let (length, half) = HEAD;
    let neck = end - down * length;
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (number, (x, y)) in points.iter().enumerate() {
        let y = if number + 1 == points.len() { neck } else { *y };
        match last {
            None => drop(write!(path, "M{x:.1} {y:.1}")),
            Some((from, _)) if (from - x).abs() < 0.05 => drop(write!(path, "V{y:.1}")),
            Some((from, above)) => {
                let middle = f64::midpoint(above, y);
                let _ = write!(path, "C{from:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}");
            }
        }
        last = Some((*x, y));
    }
    let head = format!("M{x:.1} {end:.1}L{:.1} {neck:.1}H{:.1}Z", x - half, x + half);
    (path, head)
}

/// A way from the right side of a node back to it, and its arrow's head.
fn looped(from: (f64, f64), to: (f64, f64), reach: f64) -> (String, String) {
    let (length, half) = HEAD;
    let neck = to.0 + length;
    let path =
        format!("M{:.1} {:.1}C{reach:.1} {:.1} {reach:.1} {:.1} {neck:.1} {:.1}", from.0, from.1, from.1, to.1, to.1);
    let head = format!("M{:.1} {:.1}L{neck:.1} {:.1}V{:.1}Z", to.0, to.1, to.1 - half, to.1 + half);
    (path, head)
}

/// Text for an element or an attribute, without what XML cannot hold
/// (<https://www.w3.org/TR/xml/#charsets>).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c < ' ' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

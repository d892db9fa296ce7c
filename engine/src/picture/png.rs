//! Portable Network Graphics: the SVG with its text as outlines of a font that the program brings along, so that it looks
//! the same on each machine.

use std::fmt::Write as _;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};
use ttf_parser::{Face, OutlineBuilder};
use unicode_width::UnicodeWidthChar as _;

use super::layout::Pitch;
use super::svg::{self, Letters};
use super::{Error, Picture};

/// `JetBrains Mono`, under the SIL Open Font License that stands beside it. Other letters than those of Latin, Greek and
/// Cyrillic are drawn as boxes.
const FONT: &[u8] = include_bytes!("font/JetBrainsMono-Regular.ttf");

/// Pixels for one of the layout, so that text is sharp.
const SCALE: f64 = 2.0;
/// The most pixels, which take four bytes each. A larger picture gets smaller letters.
const MAX_PIXELS: f64 = 64_000_000.0;

pub(super) fn bytes(picture: &Picture) -> Result<Vec<u8>, Error> {
    let face = Face::parse(FONT, 0).map_err(|error| Error::Pixels(format!("the font: {error}")))?;
    let svg = svg::text(picture, &Outlines(face))?;
    let tree = Tree::from_str(&svg, &Options::default()).map_err(|error| Error::Pixels(error.to_string()))?;
    let (width, height) = (f64::from(tree.size().width()), f64::from(tree.size().height()));
    let scale = SCALE.min((MAX_PIXELS / (width * height)).sqrt());
    let mut pixels = Pixmap::new(whole(width * scale), whole(height * scale))
        .ok_or_else(|| Error::Pixels(format!("no picture can be {width} by {height} pixels large")))?;
    resvg::render(&tree, Transform::from_scale(single(scale), single(scale)), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| Error::Pixels(error.to_string()))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the limit, and not negative")]
fn whole(pixels: f64) -> u32 {
    pixels.ceil().max(1.0) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the renderer computes with less precision")]
fn single(number: f64) -> f32 {
    number as f32
}

/// Text as the outlines of letters.
struct Outlines<'a>(Face<'a>);

impl Letters for Outlines<'_> {
    fn write(&self, svg: &mut String, text: &str, class: &str, (left, baseline): (f64, f64), pitch: Pitch) {
        let scale = pitch.size / f64::from(self.0.units_per_em());
        let mut outline = Outline { path: String::new(), left, baseline, scale };
        for c in text.chars() {
            // A glyph that a font lacks is its first one.
            let glyph = self.0.glyph_index(c).unwrap_or_default();
            self.0.outline_glyph(glyph, &mut outline);
            outline.left += f64::from(u32::try_from(c.width().unwrap_or(0)).unwrap_or(0)) * pitch.column();
        }
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{}\"/>", outline.path);
    }
}

/// Commands of a path for glyphs, whose own coordinates go upwards.
struct Outline {
    path: String,
    left: f64,
    baseline: f64,
    scale: f64,
}

impl Outline {
    fn command(&mut self, letter: char, points: &[(f32, f32)]) {
        self.path.push(letter);
        for (x, y) in points {
            let (x, y) = (self.left + f64::from(*x) * self.scale, self.baseline - f64::from(*y) * self.scale);
            let _ = write!(self.path, "{x:.2} {y:.2} ");
        }
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.command('M', &[(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.command('L', &[(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.command('Q', &[(x1, y1), (x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.command('C', &[(x1, y1), (x2, y2), (x, y)]);
    }

    fn close(&mut self) {
        self.command('Z', &[]);
    }
}

//! A figure against a size, as SVG: both axes are logarithmic.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;

pub struct Plot {
    pub title: &'static str,
    pub axis: &'static str,
    /// Sizes and microseconds a step.
    pub points: Vec<(u64, f64)>,
}

impl Plot {
    pub fn svg(&self) -> String {
        let x = Axis::over(self.points.iter().map(|(size, _)| super::float(*size)), MARGIN, WIDTH - MARGIN / 2.0);
        let y = Axis::over(self.points.iter().map(|(_, micros)| *micros), HEIGHT - MARGIN, MARGIN);
        let (middle, foot) = (WIDTH / 2.0, HEIGHT - 12.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<style>svg{{color-scheme:light dark;background:Canvas}}text{{fill:CanvasText}}\
             .grid{{stroke:#888;stroke-opacity:.4}}.curve{{stroke:#2a78d6;fill:none;stroke-width:2}}\
             circle{{fill:#2a78d6}}</style>\n\
             <text x=\"{middle}\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">{title}, microseconds</text>\n\
             <text x=\"{middle}\" y=\"{foot}\" text-anchor=\"middle\">{axis}</text>\n",
            title = self.title,
            axis = self.axis,
        );
        for tick in x.ticks() {
            let (at, from, to, label) = (x.at(tick), HEIGHT - MARGIN, MARGIN, HEIGHT - MARGIN + 16.0);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {from}V{to}\"/>");
            let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{label}\" text-anchor=\"middle\">{tick}</text>");
        }
        for tick in y.ticks() {
            let (at, from, to, label) = (y.at(tick), MARGIN, WIDTH - MARGIN / 2.0, MARGIN - 6.0);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{from} {at:.1}H{to}\"/>");
            let _ = writeln!(svg, "<text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", at + 4.0);
        }
        let placed: Vec<(f64, f64)> =
            self.points.iter().map(|(size, micros)| (x.at(super::float(*size)), y.at(*micros))).collect();
        let curve: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline class=\"curve\" points=\"{}\"/>", curve.join(" "));
        for ((x, y), (size, micros)) in placed.iter().zip(&self.points) {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{size}: {micros:.1} us</title></circle>"
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// An axis over powers of ten.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = (low.max(1.0).log10().floor(), high.max(1.0).log10().ceil());
        Self { low, high: high.max(low + 1.0), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * (value.max(1.0).log10() - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let high = self.high;
        std::iter::successors(Some(self.low), |power| Some(power + 1.0))
            .take_while(move |power| *power <= high)
            .map(|power| 10_f64.powf(power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_lies_between_powers_of_ten_with_a_mark_for_each_point() {
        let points = vec![(10, 300.0), (100, 310.0), (1_000, 290.0)];
        let svg = Plot { title: "A step", axis: "steps", points }.svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        for tick in [">10<", ">100<", ">1000<"] {
            assert!(svg.contains(tick), "{tick} in {svg}");
        }
        assert!(svg.contains("<title>100: 310.0 us</title>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

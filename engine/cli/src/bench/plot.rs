//! What a step costs against a size, as SVG: time, memory and bytes in a panel each, with logarithmic axes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use super::float;

const WIDTH: f64 = 640.0;
const PANEL: f64 = 260.0;
const MARGIN: f64 = 56.0;
const HEAD: f64 = 24.0;

/// What was measured at one size.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub size: u64,
    pub step_us: f64,
    /// The resident memory of this process; `None` where the system does not tell.
    pub memory_mib: Option<f64>,
    /// What the store's files hold for each step.
    pub store_bytes: f64,
}

impl Sample {
    /// The same with what the memory and the store have now that there are `steps` steps.
    pub fn of(size: u64, steps: u64, step_us: f64, store: &Path) -> io::Result<Self> {
        let store_bytes = if store.exists() { float(bytes_below(store)?) / float(steps) } else { 0.0 };
        Ok(Self { size, step_us, memory_mib: memory_mib(), store_bytes })
    }
}

fn bytes_below(folder: &Path) -> io::Result<u64> {
    fs::read_dir(folder)?.try_fold(0, |sum, entry| {
        let entry = entry?;
        // The store may drop a file that it has just merged into another.
        let bytes = match entry.metadata() {
            Ok(of) if of.is_dir() => bytes_below(&entry.path())?,
            Ok(of) => of.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(sum + bytes)
    })
}

fn memory_mib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?;
    Some(kib.parse::<f64>().ok()? / 1024.0)
}

pub struct Plot {
    pub title: &'static str,
    pub axis: &'static str,
    pub samples: Vec<Sample>,
}

impl Plot {
    pub fn svg(&self) -> String {
        let mut panels: Vec<(&str, Vec<(f64, f64)>)> = vec![
            ("microseconds a step", self.points(|sample| Some(sample.step_us))),
            ("MiB of memory", self.points(|sample| sample.memory_mib)),
            ("bytes a step in the store", self.points(|sample| Some(sample.store_bytes))),
        ];
        panels.retain(|(_, points)| !points.is_empty());
        let (middle, height) = (WIDTH / 2.0, HEAD + panels.iter().map(|_| PANEL).sum::<f64>());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<style>svg{{color-scheme:light dark;background:Canvas}}text{{fill:CanvasText}}\
             .grid{{stroke:#888;stroke-opacity:.4}}.curve{{stroke:#2a78d6;fill:none;stroke-width:2}}\
             circle{{fill:#2a78d6}}</style>\n\
             <text x=\"{middle}\" y=\"{HEAD}\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n",
            self.title,
        );
        let mut top = HEAD;
        for (unit, points) in &panels {
            panel(&mut svg, top, [unit, self.axis], points);
            top += PANEL;
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn points(&self, measured: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
        self.samples.iter().filter_map(|sample| Some((float(sample.size), measured(sample)?))).collect()
    }
}

/// Draws one curve below `top`, named by its two units.
fn panel(svg: &mut String, top: f64, [unit, axis]: [&str; 2], points: &[(f64, f64)]) {
    let (left, right, upper, lower) = (MARGIN, WIDTH - MARGIN / 2.0, top + MARGIN * 0.75, top + PANEL - MARGIN);
    let x = Axis::over(points.iter().map(|(size, _)| *size), left, right);
    let y = Axis::over(points.iter().map(|(_, value)| *value), lower, upper);
    let (middle, foot) = (WIDTH / 2.0, lower + 34.0);
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"{}\">{unit}</text>", upper - 10.0);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{foot}\" text-anchor=\"middle\">{axis}</text>");
    for tick in x.ticks() {
        let (at, label) = (x.at(tick), lower + 16.0);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {lower}V{upper}\"/>");
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{label}\" text-anchor=\"middle\">{tick}</text>");
    }
    for tick in y.ticks() {
        let (at, label) = (y.at(tick), left - 6.0);
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/>");
        let _ = writeln!(svg, "<text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", at + 4.0);
    }
    let placed = || points.iter().map(|(size, value)| (x.at(*size), y.at(*value)));
    let curve: Vec<String> = placed().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"curve\" points=\"{}\"/>", curve.join(" "));
    for ((x, y), (size, value)) in placed().zip(points) {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{size}: {value:.1} {unit}</title></circle>"
        );
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
    fn each_panel_has_a_curve_between_powers_of_ten_with_a_mark_for_each_size() {
        let sample = |size, step_us| Sample { size, step_us, memory_mib: None, store_bytes: 900.0 };
        let samples = vec![sample(10, 300.0), sample(100, 310.0), sample(1_000, 290.0)];
        let svg = Plot { title: "A step", axis: "steps", samples }.svg();
        // Without a measure of memory there is no panel of it.
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (2, 6));
        for tick in [">10<", ">100<", ">1000<"] {
            assert!(svg.contains(tick), "{tick} in {svg}");
        }
        assert!(svg.contains("<title>100: 310.0 microseconds a step</title>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

//! The report for CI: `JUnit` XML as Jenkins, `GitLab` and the readers of `GitHub` accept it
//! (<https://github.com/testmoapp/junitxml>): one suite per workflow, one case per scenario.

use std::fmt::Write as _;
use std::time::Duration;

use rondo::author::scenario::{Report, ScenarioResult, Verdict};
use rondo::protocol::diagnostic::Code;

use super::{Unread, text};

pub fn text(reports: &[&Report], unread: &[Unread]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = || reports.iter().flat_map(|report| &report.scenarios);
    let mut sum = Counts::of(all(), reports.iter().map(|report| report.stale.len()).sum());
    sum.tests += unread.len();
    sum.errors += unread.len();
    let _ = writeln!(out, "<testsuites name=\"rondo test\" {sum}>");
    for report in reports {
        let counts = Counts::of(report.scenarios.iter(), report.stale.len());
        let (name, file) = (escaped(&report.workflow), escaped(&report.file));
        let _ = writeln!(out, "  <testsuite name=\"{name}\" file=\"{file}\" {counts}>");
        report.scenarios.iter().for_each(|tested| case(&mut out, &report.workflow, tested));
        for stale in &report.stale {
            let (class, name) = (escaped(&report.workflow), escaped(&stale.name));
            let _ = writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"0.000\">");
            let message = escaped(&format!("{}: {}", stale.file, Code::SnapshotStale.title()));
            let _ = writeln!(out, "      <failure type=\"{}\" message=\"{message}\"/>", Code::SnapshotStale);
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    for Unread { file, why } in unread {
        let (file, message) = (escaped(file), escaped(why.lines().next().unwrap_or_default()));
        let counts = Counts { tests: 1, failures: 0, errors: 1, time: Duration::ZERO };
        let _ = writeln!(out, "  <testsuite name=\"{file}\" file=\"{file}\" {counts}>");
        let _ = writeln!(out, "    <testcase classname=\"{file}\" name=\"workflow\" time=\"0.000\">");
        let (code, why) = (Code::ScenarioFile, escaped(why));
        let _ = writeln!(out, "      <error type=\"{code}\" message=\"{message}\">{why}</error>");
        out.push_str("    </testcase>\n  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    time: Duration,
}

impl Counts {
    fn of<'a>(scenarios: impl Iterator<Item = &'a ScenarioResult>, stale: usize) -> Self {
        let mut counts = Self { tests: stale, failures: stale, errors: 0, time: Duration::ZERO };
        for tested in scenarios {
            counts.tests += 1;
            counts.time += tested.duration;
            match tested.verdict {
                Verdict::Passed => {}
                Verdict::Failed | Verdict::Pending => counts.failures += 1,
                Verdict::Invalid => counts.errors += 1,
            }
        }
        counts
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tests, failures, errors, time } = self;
        write!(f, "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{:.3}\"", time.as_secs_f64())
    }
}

fn case(out: &mut String, workflow: &str, tested: &ScenarioResult) {
    let (class, name, file) = (escaped(workflow), escaped(&tested.name), escaped(&tested.file));
    let time = tested.duration.as_secs_f64();
    let _ = write!(out, "    <testcase classname=\"{class}\" name=\"{name}\" file=\"{file}\" time=\"{time:.3}\"");
    let (element, code) = match tested.verdict {
        Verdict::Passed => {
            out.push_str("/>\n");
            return;
        }
        Verdict::Failed => ("failure", Code::ExpectationFailed),
        Verdict::Pending if tested.changes.is_empty() => ("failure", Code::SnapshotMissing),
        Verdict::Pending => ("failure", Code::SnapshotChanged),
        Verdict::Invalid => ("error", tested.faults.first().map_or(Code::ScenarioFile, |fault| fault.code)),
    };
    let told = text::faults(tested);
    let message = told.lines().next().unwrap_or_default();
    let (message, told) = (escaped(message), escaped(&told));
    let _ =
        writeln!(out, ">\n      <{element} type=\"{code}\" message=\"{message}\">{told}</{element}>\n    </testcase>");
}

/// `text` escaped for XML 1.0 attributes and elements; characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\n' => out += "&#10;",
            '\t' => out += "&#9;",
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_does_not_take_is_written_in_another_way() {
        let text = "a<b>&\"c\"'\u{1b}[0m\u{ffff}\n\u{85}";
        assert_eq!(escaped(text), "a&lt;b&gt;&amp;&quot;c&quot;&apos;\u{fffd}[0m\u{fffd}&#10;\u{fffd}");
    }
}

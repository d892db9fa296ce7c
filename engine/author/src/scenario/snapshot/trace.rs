//! The course of a run: its route, its end, and the definition it ran.
//!
//! The digests of the definition's parts are not compared. If something else differs, they tell which parts of the
//! workflow and of the scenario have changed since the snapshot was accepted.

use std::collections::BTreeMap;

use rondo_protocol::canonical::{self, Value};
use rondo_protocol::diagnostic::Code;

use super::text::{Parser, heading, section};
use super::{EDITED, Error, digest_of, json};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTrace {
    /// The steps, oldest first.
    pub route: Vec<RouteStep>,
    /// The edge that ended it; `None` for a run that stopped.
    pub end: Option<String>,
    /// `done`, `failed` or `stopped`.
    pub outcome: String,
    pub code: Option<String>,
    pub reason: Option<String>,
    pub result: Value,
    pub said: Vec<String>,
    /// For each part of the definition that the run reached, the beginning of its digest.
    pub parts: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteStep {
    pub step: String,
    /// The edge that entered the role.
    pub edge: String,
}

const BY: &str = " by ";
/// Separates the parts of the definition, whose paths hold no blank.
const PART: &str = "  ";

impl RunTrace {
    pub fn to_text(&self) -> String {
        let content = self.content();
        format!("{}{}\n\n{content}", DIGEST, digest_of(&content))
    }

    fn content(&self) -> String {
        let mut out = String::new();
        let stops = self.route.iter().map(|RouteStep { step, edge }| format!("{step}{BY}{edge}"));
        let end = self.end.iter().map(|edge| format!("{}{BY}{edge}", self.outcome));
        section(&mut out, "route", &stops.chain(end).collect::<Vec<_>>().join("\n"));
        out.push('\n');
        heading(&mut out, &format!("outcome {}", self.end_words()));
        out.push('\n');
        if let Some(reason) = &self.reason {
            section(&mut out, "reason", reason);
            out.push('\n');
        }
        let result = self.result.to_text();
        section(&mut out, "result", &json::pretty(&result).unwrap_or(result));
        out.push('\n');
        for line in &self.said {
            section(&mut out, "said", line);
            out.push('\n');
        }
        // One line, so that a diff has one however many parts change.
        let parts: Vec<String> = self.parts.iter().map(|(path, digest)| format!("{digest} {path}")).collect();
        section(&mut out, "definition", &parts.join(PART));
        out
    }

    /// The outcome, with the code of a run that stopped.
    pub fn end_words(&self) -> String {
        self.code.as_ref().map_or_else(|| self.outcome.clone(), |code| format!("{} {code}", self.outcome))
    }

    /// Reads the body that starts at byte `from` of `text`.
    pub fn read(text: &str, from: usize) -> Result<Self, Error> {
        let mut parser = Parser::new(text, from);
        let at = parser.place();
        let digest = parser.expect(DIGEST)?;
        let content = parser.place().start;
        if text.get(content..).is_none_or(|content| digest_of(content) != digest) {
            return Err(Error::new(Code::SnapshotEdited, at, EDITED));
        }
        let mut trace = Self::default();
        parser.expect_line("route")?;
        let route = parser.block()?;
        let outcome = parser.expect("outcome ")?;
        let (outcome, code) = outcome.split_once(' ').map_or((outcome, None), |(outcome, code)| (outcome, Some(code)));
        (trace.outcome, trace.code) = (outcome.to_owned(), code.map(str::to_owned));
        for line in route.lines() {
            let (step, edge) = line.split_once(BY).ok_or_else(|| parser.expected("role.status by edge"))?;
            if step == trace.outcome {
                trace.end = Some(edge.to_owned());
            } else {
                trace.route.push(RouteStep { step: step.to_owned(), edge: edge.to_owned() });
            }
        }
        if parser.heading("reason") == Some("") {
            trace.reason = Some(parser.block()?);
        }
        parser.expect_line("result")?;
        let result = parser.block()?;
        trace.result = canonical::parse(result.as_bytes()).map_err(|_| parser.expected("JSON"))?;
        while parser.heading("said") == Some("") {
            trace.said.push(parser.block()?);
        }
        parser.expect_line("definition")?;
        let parts = parser.block()?;
        for part in parts.split(PART).filter(|part| !part.is_empty()) {
            let (digest, path) = part.split_once(' ').ok_or_else(|| parser.expected("digest and part"))?;
            trace.parts.insert(path.to_owned(), digest.to_owned());
        }
        Ok(trace)
    }
}

const DIGEST: &str = "course · digest ";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace() -> RunTrace {
        let stop = |step: &str, edge: &str| RouteStep { step: step.to_owned(), edge: edge.to_owned() };
        RunTrace {
            route: vec![stop("writer.drafted", "graph.start[0]"), stop("editor.approved", "graph.writer.drafted[0]")],
            end: Some("graph.editor.approved[0]".to_owned()),
            outcome: "failed".to_owned(),
            code: None,
            reason: Some("no\nmore ".to_owned()),
            result: Value::from_iter([("title", Value::from("Tides"))]),
            said: vec!["draft 1".to_owned()],
            parts: [("roles.writer.system".to_owned(), "0123456789abcdef".to_owned())].into(),
        }
    }

    #[test]
    fn a_person_can_read_it() {
        insta::assert_snapshot!(trace().to_text());
    }

    #[test]
    fn an_edit_anywhere_is_told() {
        let text = trace().to_text();
        let content = text.find("route").unwrap();
        // An editor may add or remove trailing blanks.
        for (at, c) in text.trim_end().char_indices().skip_while(|(at, _)| *at < content) {
            for other in ["", "#", " #"] {
                let mut edited = text.clone();
                edited.replace_range(at..at + c.len_utf8(), other);
                let code = RunTrace::read(&edited, 0).map_err(|fault| fault.code);
                assert_eq!(code, Err(Code::SnapshotEdited), "{other:?} for {c:?} at {at}");
            }
        }
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            for edited in [text.replacen(line, "", 1), text.replacen(line, &format!("{line}\n{line}"), 1)] {
                assert_eq!(RunTrace::read(&edited, 0).unwrap_err().code, Code::SnapshotEdited, "{line}");
            }
        }
        let digest = text.find(DIGEST).unwrap() + DIGEST.len();
        for at in digest..digest + super::super::DIGITS {
            let mut edited = text.clone();
            edited.replace_range(at..=at, if edited[at..].starts_with('0') { "1" } else { "0" });
            assert_eq!(RunTrace::read(&edited, 0).unwrap_err().code, Code::SnapshotEdited, "digit at {at}");
        }
    }

    #[test]
    fn what_stands_in_another_place_is_refused_even_under_its_own_digest() {
        let under_digest = |content: &str| format!("{DIGEST}{}\n\n{content}", digest_of(content));
        let content = trace().content();
        assert_eq!(RunTrace::read(&under_digest(&content), 0), Ok(trace()));
        for (old, new) in [
            ("route", "rout"),
            ("route\n", "route 2\n"),
            (BY, " via "),
            ("outcome ", "end "),
            ("result", "resul"),
            ("{\n", "(\n"),
            ("definition", "definitio"),
            ("0123456789abcdef ", "0123456789abcdef"),
        ] {
            let edited = content.replacen(old, new, 1);
            assert_ne!(edited, content, "{old}");
            assert_eq!(RunTrace::read(&under_digest(&edited), 0).unwrap_err().code, Code::SnapshotSyntax, "{old}");
        }
    }

    proptest! {
        #[test]
        fn every_course_comes_back(
            reason in prop::option::of("\\PC{0,9}\n{0,2}"),
            said in prop::collection::vec("[a-z \n]{0,9}", 0..3),
            result in "\\PC{0,9}",
            steps in 0_usize..3,
            is_ended in any::<bool>(),
        ) {
            let mut trace = RunTrace { reason, said, result: Value::from(result), ..trace() };
            trace.route.truncate(steps);
            if !is_ended {
                (trace.end, trace.outcome, trace.code) = (None, "stopped".to_owned(), Some("RN0705".to_owned()));
            }
            let text = trace.to_text();
            prop_assert_eq!(RunTrace::read(text.trim_end(), 0), Ok(trace.clone()));
            prop_assert_eq!(RunTrace::read(&text, 0), Ok(trace));
        }
    }
}

//! The front matter of insta's snapshots: YAML between two lines `---` that identifies the snapshot.
//!
//! cargo-insta shows `source`, `description` and `expression`, and writes accepted files in its own style; so reading
//! only checks that the front matter exists and which format the body has.

use std::fmt::Write as _;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::source::{self, Kind};

use super::{Error, FORMAT};

const FENCE: &str = "---\n";

pub struct Front<'a> {
    /// The scenario's file, relative to the workflow's folder.
    pub source: &'a str,
    pub description: &'a str,
    /// The role of the requests, or `course`.
    pub expression: &'a str,
    pub workflow: &'a str,
}

impl Front<'_> {
    pub fn with(&self, body: &str) -> String {
        // A text always has a JSON form, which is valid YAML.
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let Self { source, description, expression, workflow } = self;
        let mut out = String::with_capacity(body.len() + 200);
        out.push_str(FENCE);
        for (key, value) in [("source", source), ("description", description), ("expression", expression)] {
            if !value.is_empty() {
                let _ = writeln!(out, "{key}: {}", quoted(value));
            }
        }
        let _ = writeln!(out, "info:\n  format: {FORMAT}\n  workflow: {}", quoted(workflow));
        out.push_str(FENCE);
        out.push_str(body.trim_end());
        out.push('\n');
        out
    }
}

/// The offset of a snapshot's body. `text` has `\n` at the end of each line.
pub fn body(text: &str) -> Result<usize, Error> {
    let unfit = |message: &str| Error::syntax(0..0, message);
    let inner = text.strip_prefix(FENCE).ok_or_else(|| unfit("a snapshot begins with a line `---`"))?;
    let length = if inner.starts_with(FENCE) { Some(0) } else { inner.find("\n---\n").map(|at| at + 1) };
    let length = length.ok_or_else(|| unfit("the front matter has no second line `---`"))?;
    let body = FENCE.len() + length + FENCE.len();
    let front = inner.get(..length).unwrap_or_default();
    let read = source::yaml(front)
        .map_err(|fault| Error::syntax(FENCE.len()..body, format!("the front matter: {}", fault.message)))?;
    let format = read.get("info").and_then(|info| info.get("format"));
    match format.map(|format| &format.kind) {
        Some(Kind::Int(format)) if *format == i128::from(FORMAT) => Ok(body),
        Some(Kind::Int(format)) => {
            let message = format!("the snapshot is of format {format}; this version reads format {FORMAT}");
            Err(Error::new(Code::SnapshotFormat, 0..3, message))
        }
        _ => Err(unfit("the front matter has no `info.format`, so that rondo did not write this")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_behind_what_was_written_and_behind_what_another_spells() {
        let front = Front { source: "tests/a.yaml", description: "a: \"b\"\nc", expression: "writer", workflow: "w" };
        let text = front.with("head\n\n\n");
        insta::assert_snapshot!(text, @r#"
        ---
        source: "tests/a.yaml"
        description: "a: \"b\"\nc"
        expression: "writer"
        info:
          format: 2
          workflow: "w"
        ---
        head
        "#);
        assert_eq!(text.get(body(&text).unwrap()..), Some("head\n"));
        let other = "---\nexpression: writer\ninfo: {workflow: w, format: 2}\nsource: x\n---\nbody";
        assert_eq!(other.get(body(other).unwrap()..), Some("body"));
    }

    #[test]
    fn what_is_no_front_matter_is_refused() {
        for (text, code) in [
            ("", Code::SnapshotSyntax),
            ("head\n", Code::SnapshotSyntax),
            ("---\nsource: a\n", Code::SnapshotSyntax),
            ("---\n---\n", Code::SnapshotSyntax),
            ("---\nsource: [a\n---\n", Code::SnapshotSyntax),
            ("---\nsource: a\n---\n", Code::SnapshotSyntax),
            ("---\ninfo: { format: 1 }\n---\n", Code::SnapshotFormat),
        ] {
            assert_eq!(body(text).unwrap_err().code, code, "{text:?}");
        }
    }
}

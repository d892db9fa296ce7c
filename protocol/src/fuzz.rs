//! What reads text from outside, for [`rondo_fuzz`] and for cargo-fuzz: each function takes one input and panics when a
//! law is broken.

#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a check says what it expects by failing")]

use std::collections::BTreeMap;

use crate::canonical;
use crate::diagnostic::Diagnostic;
use crate::object::Record;
use crate::source::SourceError;
use crate::workflow::template::{Expr, Template};
use crate::workflow::{self, Workflow};

/// The most bytes that a template may render.
const MAX_RENDERED_BYTES: usize = 1 << 16;

/// A workflow file, as YAML and as JSON: it is checked, or has faults that stand in it. What is checked keeps its
/// definition in its stored form.
pub fn workflow_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for file in ["workflow.yaml", "workflow.json"] {
        match workflow::read(file, text, &BTreeMap::new()) {
            Ok(checked) => {
                let stored = canonical::to_bytes(&checked.workflow).expect("a checked workflow has a stored form");
                let again: Workflow = canonical::from_slice(&stored).expect("the stored form is read");
                assert_eq!(again, checked.workflow, "the stored form is another workflow");
            }
            Err(faults) => faults_stand_in(text, &faults),
        }
    }
}

fn faults_stand_in(text: &str, faults: &[Diagnostic]) {
    assert!(!faults.is_empty(), "refused without a reason");
    for fault in faults {
        assert!(text.get(fault.span.range()).is_some(), "a fault stands outside of its file: {fault:?}");
        assert!(!fault.message.is_empty(), "a fault without words");
    }
}

/// A template and an expression: it is read, or has faults that stand in it. What is read renders within its limit.
pub fn template(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let scope = r#"{"body": "a body\nof two lines", "input": {"number": 3, "topic": "tides"},
        "output": {"list": ["a", "é"], "text": "a"}}"#;
    let scope = canonical::parse(scope.as_bytes()).expect("the scope is JSON");
    match Template::parse(text) {
        Ok(template) => {
            let bytes = template.render(&scope, MAX_RENDERED_BYTES).map_or(0, |rendered| rendered.len());
            assert!(bytes <= MAX_RENDERED_BYTES, "{bytes} bytes");
        }
        Err(faults) => places_stand_in(text, &faults),
    }
    match Expr::parse(text) {
        Ok(expression) => drop((expression.eval(&scope), expression.truth(&scope))),
        Err(faults) => places_stand_in(text, &faults),
    }
}

fn places_stand_in(text: &str, faults: &[SourceError]) {
    assert!(!faults.is_empty(), "refused without a reason");
    for fault in faults {
        assert!(text.get(fault.span.range()).is_some(), "a fault stands outside of its text: {fault:?}");
    }
}

/// A stored record: what is read is written in one form only, which is read back.
pub fn record(input: &[u8]) {
    if let Ok(value) = canonical::parse_canonical(input) {
        let bytes = canonical::to_bytes(&value).expect("a value has canonical bytes");
        let again = canonical::parse_canonical(&bytes).expect("canonical bytes are read");
        assert_eq!(canonical::to_bytes(&again), Ok(bytes), "two canonical forms of one value");
    }
    let Ok(record) = Record::from_slice(input) else { return };
    let (digest, bytes) = record.digest().expect("a record has a digest");
    let again = Record::from_slice(&bytes).expect("what is written is read");
    assert_eq!(again.digest(), Ok((digest, bytes)));
}

#[cfg(test)]
mod tests {
    #[test]
    fn workflow_files() {
        let also = [
            "tests/fixtures/good",
            "tests/fixtures/bad",
            "tests/fixtures/constructs",
            "workflows/review-loop/workflow.yaml",
        ];
        rondo_fuzz::run("workflow_file", &also, super::workflow_file);
    }

    #[test]
    fn templates() {
        rondo_fuzz::run("template", &[], super::template);
    }

    #[test]
    fn records() {
        rondo_fuzz::run("record", &[], super::record);
    }
}

//! What reads bytes that others wrote, for [`rondo_fuzz`] and for cargo-fuzz: each function takes one input and panics
//! when a law is broken.

#![expect(clippy::expect_used, reason = "a check says what it expects by failing")]

use std::collections::BTreeMap;

use crate::picture::{Format, Hooks, draw};

pub use crate::upkeep::fuzz::import;
use rondo_core::graph::Graph;
use rondo_settings::Layer;

/// A workflow that is checked has a graph, which is drawn in every way that is text.
pub fn graph(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(checked) = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new()) else { return };
    let hooks = crate::registry().nodes(&checked.workflow, &checked.policy, &[]);
    let graph = Graph::new(&checked.workflow, &checked.policy, hooks).expect("a checked workflow has a graph");
    for format in [Format::Mermaid, Format::Dot, Format::Json, Format::Svg] {
        if let Ok(drawn) = draw(&graph, &[], format, Hooks::Full) {
            assert!(!drawn.is_empty() && std::str::from_utf8(&drawn).is_ok(), "no picture as {format:?}");
        }
    }
}

/// A settings file: it is read, or has faults that stand in it.
pub fn settings(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for layer in [Layer::User, Layer::Project] {
        let Err(faults) = rondo_settings::read("rondo.toml", text, layer) else { continue };
        assert!(!faults.is_empty(), "refused without a reason");
        for fault in faults {
            assert!(text.get(fault.span.range()).is_some(), "a fault stands outside of its file: {fault:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn graphs() {
        let also = ["tests/fuzz/corpus/workflow_file", "tests/fixtures/good", "tests/fixtures/constructs"];
        rondo_fuzz::run("graph", &also, super::graph);
    }

    #[test]
    fn settings() {
        rondo_fuzz::run("settings", &[], super::settings);
    }

    #[test]
    fn import_files() {
        // Each makes two databases.
        rondo_fuzz::run_times("import", &[], 200, super::import);
    }
}

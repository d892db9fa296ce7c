//! Runs the check that `RONDO_FUZZ_TARGET` names on the inputs that libFuzzer makes.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Check = fn(&[u8]);

/// The checks, by the names of their corpora.
const CHECKS: [(&str, Check); 16] = [
    ("workflow_file", rondo_protocol::fuzz::workflow_file),
    ("template", rondo_protocol::fuzz::template),
    ("record", rondo_protocol::fuzz::record),
    ("answer", rondo_agent_kit::fuzz::answer),
    ("stream", rondo_agent_kit::fuzz::stream),
    ("script", rondo_agent_kit::fuzz::script),
    ("recording", rondo_agent_kit::fuzz::recording),
    ("tool_arguments", rondo_agent_kit::fuzz::tool_arguments),
    ("graph", rondo::fuzz::graph),
    ("settings", rondo::fuzz::settings),
    ("value", rondo_store::fuzz::value),
    ("key", rondo_store::fuzz::key),
    ("log", rondo_store::fuzz::log),
    ("anchor", rondo_store::fuzz::anchor),
    ("import", rondo::fuzz::import),
    ("body", rondo_web::fuzz::body),
];

static CHECK: LazyLock<Check> = LazyLock::new(|| {
    let wanted = std::env::var("RONDO_FUZZ_TARGET").unwrap_or_default();
    let found = CHECKS.iter().find(|(name, _)| *name == wanted);
    found.map(|(_, check)| *check).unwrap_or_else(|| {
        let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
        panic!("RONDO_FUZZ_TARGET is {wanted:?}; it is one of {}", names.join(", "))
    })
});

fuzz_target!(|input: &[u8]| CHECK(input));

//! The verbs that start nothing and connect to nothing, each in a way that makes it work.

use crate::scene::Scene;

/// A workflow of one role without tools.
pub const PLAIN: &str = "rondo: 1\nname: plain\nroles:\n  a: { system: x }\ngraph:\n  start: { to: a, prompt: go }\n  \
    a: { done: { to: end } }\n";

/// What its role says.
pub const PLAIN_SCRIPT: &str = "a: [ { body: said } ]\n";

/// Every verb that starts nothing, on the workflow in `plain`.
pub const QUIET: [&[&str]; 17] = [
    &["validate", "plain"],
    &["graph", "plain"],
    &["simulate", "plain"],
    &["test", "plain", "--check"],
    &["doctor"],
    &["doctor", "--json"],
    &["tools"],
    &["tools", "plain"],
    &["threads"],
    &["show", "last"],
    &["messages", "last", "--role", "a", "--visit", "1"],
    &["prefix", "last"],
    &["verify", "last"],
    &["cache", "stats"],
    &["trust"],
    &["trust", "plain"],
    &["trust", "--list"],
];

/// Writes the workflow, its script and a scenario.
pub fn plain(scene: &Scene<'_>) {
    scene.file("plain/workflow.yaml", PLAIN);
    scene.file("plain/script.yaml", PLAIN_SCRIPT);
    scene.file("plain/tests/one.yaml", "expect: { outcome: done }\n");
}

/// Runs every verb that starts nothing.
pub fn quiet(scene: &Scene<'_>) {
    for words in QUIET {
        let done = scene.run(words);
        assert!(done.code.is_some(), "{words:?}: {done:?}");
    }
}

/// The words of a workflow of one role with these tools.
pub fn with_tools(name: &str, tools: &str) -> String {
    format!(
        "rondo: 1\nname: {name}\nroles:\n  a: {{ system: x, tools: [{tools}] }}\ngraph:\n  start: {{ to: a, prompt: go }}\n  \
         a: {{ done: {{ to: end }} }}\n"
    )
}

/// A script in which the role calls a tool once, with arguments as JSON.
pub fn calling(tool: &str, arguments: &str) -> String {
    format!("a:\n  - tools: [ {{ name: {tool}, args: {arguments} }} ]\n    then: {{ body: called }}\n")
}

//! Keys of the victim in files that are shared, and on ways out.

use std::fs;

use crate::attempt::Attempt;
use crate::scene::{KEY, Scene};
use crate::verbs;

/// The key as base64, percent encoding, hex and with its letters as YAML escapes.
const BASE64: &str = "c2stdmljdGltcy1vd24ta2V5LTA4MTU=";
const HEX: &str = "736b2d76696374696d732d6f776e2d6b65792d30383135";
const PERCENT: &str = "%73%6b%2dvictims%2down%2dkey%2d0815";

fn told(
    name: &'static str,
    is_named: bool,
    spelt: &'static str,
    file: &'static str,
    words: &'static [&'static [&'static str]],
) -> Attempt {
    let attempt = Attempt::of(name, is_named);
    attempt
        .set_up(move |scene| {
            verbs::plain(scene);
            let before = fs::read_to_string(scene.work().join(file)).unwrap_or_default();
            let text = match file {
                "plain/prompt.md" => spelt.to_owned(),
                "plain/script.yaml" => before.replace("said", &format!("\"{spelt}\"")),
                _ => before.replace("prompt: go", &format!("prompt: \"{spelt}\"")),
            };
            scene.file(file, &text);
            if file == "plain/prompt.md" {
                scene.file("plain/workflow.yaml", &verbs::PLAIN.replace("system: x", "system: { file: prompt.md }"));
            }
        })
        .tried(move |scene| {
            for words in words {
                let refused = scene.run(words).exits(2);
                let all = format!("{}{}", refused.text(), refused.stderr);
                assert!(all.contains("RN0219") && all.contains(file), "{words:?}: {all}");
                assert!(!all.contains(KEY) && !all.contains(spelt), "it is shown: {all}");
            }
            assert!(!scene.work().join(".rondo").exists());
        })
        .double(move |scene| fs::read_to_string(scene.work().join(file)).unwrap().contains(spelt))
}

pub fn attempts() -> Vec<Attempt> {
    const OF_WORKFLOW: &[&[&str]] =
        &[&["validate", "plain"], &["run", "plain", "--offline"], &["graph", "plain"], &["trust", "plain"]];
    const OF_SCRIPT: &[&[&str]] = &[&["run", "plain", "--offline"]];
    vec![
        told("a key stands in a workflow", true, KEY, "plain/workflow.yaml", OF_WORKFLOW),
        told("a key stands in an included file", false, KEY, "plain/prompt.md", OF_WORKFLOW),
        told("a key stands in a script", true, KEY, "plain/script.yaml", OF_SCRIPT),
        told("a key stands in a workflow as base64", false, BASE64, "plain/workflow.yaml", OF_WORKFLOW),
        told("a key stands in a workflow as hex digits", false, HEX, "plain/workflow.yaml", OF_WORKFLOW),
        told("a key stands in a workflow in percent encoding", false, PERCENT, "plain/workflow.yaml", OF_WORKFLOW),
        Attempt::named("a key enters a snapshot")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("plain/tests/one.yaml", &format!("script:\n  a: [ {{ body: \"{KEY}\" }} ]\nexpect: {{ outcome: done }}\n"));
            })
            .tried(|scene| {
                scene.run(&["test", "plain"]);
                scene.run(&["test", "plain", "--accept"]);
                for entry in fs::read_dir(scene.work().join("plain/tests/snapshots")).into_iter().flatten() {
                    let path = entry.unwrap().path();
                    assert!(!fs::read_to_string(&path).unwrap().contains(KEY), "{} holds the key", path.display());
                }
            })
            .double(|scene| fs::read_to_string(scene.work().join("plain/tests/one.yaml")).unwrap().contains(KEY)),
        Attempt::other("settings that cannot be read switch off the look for keys")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("plain/workflow.yaml", &verbs::PLAIN.replace("system: x", &format!("system: \"{KEY}\"")));
                scene.file("rondo.toml", "[nonsense]\n");
            })
            .tried(|scene| {
                for words in [&["validate", "plain"][..], &["graph", "plain"]] {
                    let done = scene.run(words);
                    assert!(done.code == Some(2), "{words:?} passes a workflow with a key in it: {done:?}");
                }
            })
            .double(|scene| fs::read_to_string(scene.work().join("plain/workflow.yaml")).unwrap().contains(KEY)),
        Attempt::other("a key in an address is shown with what is asked for")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("rondo.toml", &format!("[mcp.a]\nurl = \"https://a.example/mcp?token={KEY}\"\n[mcp.b]\ncommand = \"b\"\nargs = [\"--token\", \"{KEY}\"]\n"));
            })
            .tried(|scene| {
                for words in [&["trust"][..], &["trust", "--json"], &["doctor"], &["doctor", "--json"], &["tools"], &["run", "plain", "--offline"]] {
                    let done = scene.run(words);
                    assert!(!format!("{done:?}").contains(KEY), "{words:?}: {done:?}");
                }
            })
            .double(|scene| fs::read_to_string(scene.work().join("rondo.toml")).unwrap().contains(KEY)),
        Attempt::other("a key is kept in the records of what was agreed to")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("rondo.toml", &format!("[mcp.b]\ncommand = \"b\"\nargs = [\"--token={KEY}\"]\nenv = {{ B_TOKEN = \"{KEY}\" }}\n"));
            })
            .tried(|scene: &Scene<'_>| {
                scene.trust(&[]);
                let records = fs::read_to_string(scene.home().join(".local/share/rondo/trust.json")).unwrap();
                assert!(records.contains("mcp") || records.contains("server"), "{records}");
                assert!(!records.contains(KEY), "the records hold the key");
            })
            .double(|scene| fs::read_to_string(scene.work().join("rondo.toml")).unwrap().contains(KEY)),
    ]
}

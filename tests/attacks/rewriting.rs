//! Tools of one workflow that rewrite another one, which the user called his own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::attempt::Attempt;
use crate::double;
use crate::scene::Scene;
use crate::verbs::{calling, with_tools};

const PROMPT: &str = "You are mine.";

/// The user's workflow in that folder, and another one that calls a tool once.
fn set_up(scene: &Scene<'_>, mine: &str, tool: &str, arguments: &str) {
    let workflow = with_tools("mine", "shell").replace("system: x", "system: { file: system.md }");
    scene.file(&format!("{mine}/workflow.yaml"), &workflow);
    scene.file(&format!("{mine}/system.md"), PROMPT);
    scene.file("w/workflow.yaml", &with_tools("w", tool));
    scene.file("w/script.yaml", &calling(tool, arguments));
}

fn holds(scene: &Scene<'_>, mine: &str) {
    let before = fs::read_to_string(scene.work().join(mine).join("workflow.yaml")).unwrap();
    scene.trust(&[mine, "--own"]);
    scene.trust(&["w"]);
    scene.run(&["run", "w", "--offline"]).exits(0);
    assert!(!is_rewritten(scene, mine), "the prompt was rewritten");
    assert_eq!(fs::read_to_string(scene.work().join(mine).join("workflow.yaml")).unwrap(), before);
}

fn is_rewritten(scene: &Scene<'_>, mine: &str) -> bool {
    fs::read_to_string(scene.work().join(mine).join("system.md")).ok().as_deref() != Some(PROMPT)
}

/// A call of `write_file`, where `path` leads to the prompt once `prepare` is done.
fn writes(attempt: Attempt, path: &'static str, prepare: fn(&Path)) -> Attempt {
    const MINE: &str = "workflows/mine";
    attempt
        .set_up(move |scene| {
            set_up(scene, MINE, "write_file", &format!("{{ path: {path}, text: evil }}"));
            prepare(&scene.work());
        })
        .tried(|scene| holds(scene, MINE))
        .double(move |scene| double::writes(&scene.work().join(path)) && is_rewritten(scene, MINE))
}

/// A script of `shell` that rewrites the prompt in `mine`.
fn runs(name: &'static str, mine: &'static str, script: &'static str) -> Attempt {
    Attempt::other(name)
        .set_up(move |scene| {
            let script = serde_json::Value::from(script);
            set_up(scene, mine, "shell", &format!("{{ script: {script} }}"));
        })
        .tried(move |scene| holds(scene, mine))
        .double(move |scene| {
            Command::new("sh").args(["-c", script]).current_dir(scene.work()).status().unwrap();
            is_rewritten(scene, mine)
        })
}

pub fn attempts() -> Vec<Attempt> {
    vec![
        writes(Attempt::named("a tool writes the prompt of another workflow"), "workflows/mine/system.md", |_| {}),
        writes(Attempt::other("a tool writes it through a linked folder"), "notes/system.md", |work| {
            symlink("workflows/mine", work.join("notes")).unwrap();
        }),
        writes(Attempt::other("a tool writes it through a hard link"), "note.md", |work| {
            fs::hard_link(work.join("workflows/mine/system.md"), work.join("note.md")).unwrap();
        }),
        runs("a shell writes it", "workflows/mine", "echo evil > workflows/mine/system.md"),
        runs("a here document writes it", "workflows/mine", "cat > workflows/mine/system.md <<X\nevil\nX\n"),
        runs(
            "the folder of all workflows is moved away and made anew",
            "workflows/mine",
            "mv workflows x && mkdir -p workflows && cp -r x/mine workflows/ && echo evil > workflows/mine/system.md",
        ),
        runs(
            "a folder of another name is moved away and made anew",
            "lib/mine",
            "mv lib x && mkdir -p lib && cp -r x/mine lib/ && echo evil > lib/mine/system.md",
        ),
        runs(
            "the workflow of a name is taken away, and another one put in its place",
            "workflows/mine",
            "rm -rf workflows/mine; mkdir -p workflows/mine; echo evil > workflows/mine/system.md",
        ),
        runs(
            "the prompt is removed and made anew",
            "lib/mine",
            "rm -f lib/mine/system.md; echo evil > lib/mine/system.md",
        ),
    ]
}

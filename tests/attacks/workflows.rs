//! Workflows that came with a folder: where they are found, what they read and write, and what is written beside them.

use std::fs;
use std::os::unix::fs::symlink;

use crate::attempt::Attempt;
use crate::double;
use crate::scene::Scene;
use crate::settings::{pipe, would_wait};
use crate::verbs::{self, calling, with_tools};

/// A workflow that writes, in a folder with that name.
fn writer(scene: &Scene<'_>, folder: &str) {
    scene.file(&format!("{folder}/workflow.yaml"), &with_tools("w", "write_file"));
    scene.file(&format!("{folder}/script.yaml"), &calling("write_file", "{ path: note.txt, text: x }"));
}

fn reader(scene: &Scene<'_>, folder: &str) {
    scene.file(&format!("{folder}/workflow.yaml"), &with_tools("w", "read_file"));
    scene.file(&format!("{folder}/script.yaml"), &calling("read_file", "{ path: private.txt }"));
}

fn wrote_nothing(scene: &Scene<'_>) {
    assert!(!scene.work().join("note.txt").exists(), "the tool wrote");
    assert!(!scene.work().join(".rondo").exists(), "a thread was begun");
}

/// One that plays the script without asking.
fn plays(scene: &Scene<'_>, folder: &str) -> bool {
    let text = fs::read_to_string(scene.work().join(folder).join("script.yaml")).unwrap_or_default();
    text.contains("write_file") && double::writes(&scene.work().join("note.txt"))
}

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = of_places();
    attempts.extend(of_consent());
    attempts.extend(of_files());
    attempts.extend(of_outputs());
    attempts
}

fn of_places() -> Vec<Attempt> {
    vec![
        Attempt::named("a workflow lies above the working folder")
            .set_up(|scene| {
                writer(scene, "workflows/evil");
                fs::create_dir(scene.work().join("inner")).unwrap();
                scene.user("[grant]\ntools = [\"write_file\"]\n");
            })
            .tried(|scene| {
                let inner = scene.work().join("inner");
                for words in
                    [&["run", "evil", "--offline"][..], &["run", "evil", "--offline", "--trust"], &["validate", "evil"]]
                {
                    scene.run_in(&inner, words).exits(2);
                }
                wrote_nothing(scene);
            })
            .double(|scene| {
                let inner = scene.work().join("inner");
                let found = inner
                    .ancestors()
                    .map(|folder| folder.join("workflows/evil/script.yaml"))
                    .find(|file| file.is_file());
                found.is_some() && plays(scene, "workflows/evil")
            }),
        Attempt::other("a folder has the name of a workflow that ships with the program")
            .set_up(|scene| {
                writer(scene, "rondo:evil");
                scene.user("[grant]\ntools = [\"write_file\"]\n");
            })
            .tried(|scene| {
                for name in ["rondo:evil", "rondo:evil/workflow.yaml", "./rondo:evil"] {
                    assert!(scene.run(&["run", name, "--offline"]).code != Some(0), "{name} ran");
                    wrote_nothing(scene);
                }
            })
            .double(|scene| plays(scene, "rondo:evil")),
        Attempt::other("a workflow of the folder goes before one that ships with the program")
            .set_up(|scene| {
                writer(scene, "workflows/review-loop");
                scene.user("[grant]\ntools = [\"write_file\"]\n");
            })
            .tried(|scene| {
                scene.refused(&["run", "review-loop", "--offline"], 3, "RN1703");
                wrote_nothing(scene);
            })
            .double(|scene| plays(scene, "workflows/review-loop")),
        Attempt::named("a workflow that lies elsewhere reads the working folder")
            .set_up(|scene| {
                reader(scene, "stranger/w");
                scene.file("mine/private.txt", "very private");
            })
            .tried(|scene| {
                let mine = scene.work().join("mine");
                let refused = scene.run_in(&mine, &["run", "../stranger/w", "--offline"]).exits(3);
                assert!(refused.stderr.contains("RN1703"), "{refused:?}");
            })
            .double(|scene| fs::read_to_string(scene.work().join("mine/private.txt")).is_ok()),
        Attempt::named("the name of a workflow is a link to one elsewhere")
            .set_up(|scene| {
                reader(scene, "stranger/w");
                scene.file("mine/private.txt", "very private");
                fs::create_dir(scene.work().join("mine/workflows")).unwrap();
                symlink("../../stranger/w", scene.work().join("mine/workflows/helper")).unwrap();
            })
            .tried(|scene| {
                let refused = scene.run_in(&scene.work().join("mine"), &["run", "helper", "--offline"]).exits(3);
                assert!(refused.stderr.contains("RN1703"), "{refused:?}");
            })
            .double(|scene| fs::read_to_string(scene.work().join("mine/workflows/helper/workflow.yaml")).is_ok()),
        Attempt::other("the file of a workflow is a link to one elsewhere")
            .set_up(|scene| {
                reader(scene, "stranger/w");
                scene.file("mine/private.txt", "very private");
                scene.file("mine/w/script.yaml", &calling("read_file", "{ path: private.txt }"));
                symlink("../../stranger/w/workflow.yaml", scene.work().join("mine/w/workflow.yaml")).unwrap();
            })
            .tried(|scene| {
                let refused = scene.run_in(&scene.work().join("mine"), &["run", "w", "--offline"]).exits(3);
                assert!(refused.stderr.contains("RN1703"), "{refused:?}");
            })
            .double(|scene| fs::read_to_string(scene.work().join("mine/w/workflow.yaml")).is_ok()),
    ]
}

fn of_consent() -> Vec<Attempt> {
    let asked = |name: &'static str, text: String| {
        Attempt::other(name)
            .set_up(move |scene| {
                scene.user("[grant]\ntools = [\"*\"]\n");
                scene.file("w/workflow.yaml", &text);
                scene.file("w/script.yaml", &calling("write_file", "{ path: note.txt, text: x }"));
            })
            .tried(|scene| {
                scene.refused(&["run", "w", "--offline"], 3, "RN1703");
                wrote_nothing(scene);
            })
            .double(|scene| plays(scene, "w"))
    };
    vec![
        asked("a workflow writes with what the user grants to all", with_tools("w", "write_file")),
        asked("a workflow names every tool by a star", with_tools("w", "\"*\"")).tried(|scene| {
            assert!(matches!(scene.run(&["run", "w", "--offline"]).code, Some(2 | 3)));
            wrote_nothing(scene);
        }),
        asked("a workflow names its tool among those that only read", with_tools("w", "list_files, read_file, write_file, search_files")),
        asked(
            "a role is the tool itself",
            "rondo: 1\nname: w\nroles:\n  t: { kind: tool, tool: write_file, with: { path: note.txt, text: x } }\n  a: { system: x, tools: [write_file] }\ngraph:\n  \
             start: { to: t }\n  t: { done: { to: a, prompt: go } }\n  a: { done: { to: end } }\n"
                .to_owned(),
        )
        .tried(|scene| {
            // Refused as a shape that this version does not know, or for want of consent.
            let refused = scene.run(&["run", "w", "--offline"]);
            assert!(matches!(refused.code, Some(2 | 3)), "{refused:?}");
            wrote_nothing(scene);
        }),
        asked("a tool is hidden behind an anchor", "rondo: 1\nname: w\nx-tools: &t [write_file]\nroles:\n  a: { system: x, tools: *t }\ngraph:\n  start: { to: a, prompt: go }\n  a: { done: { to: end } }\n".to_owned()),
        Attempt::other("a file of inputs is run by the line, each before anybody is asked")
            .set_up(|scene| {
                writer(scene, "w");
                scene.file("lines.jsonl", "{}\n{}\n{}\n");
            })
            .tried(|scene| {
                scene.refused(&["run", "w", "--offline", "--input-file", "lines.jsonl"], 3, "RN1703");
                wrote_nothing(scene);
            })
            .double(|scene| plays(scene, "w")),
        Attempt::other("a run is recorded that nobody agreed to")
            .set_up(|scene| writer(scene, "w"))
            .tried(|scene| {
                scene.refused(&["record", "w", "--offline", "--to", "r.jsonl"], 3, "RN1703");
                wrote_nothing(scene);
                assert!(!scene.work().join("r.jsonl").exists());
            })
            .double(|scene| plays(scene, "w")),
        Attempt::other("a scenario lets its tools work for real")
            .set_up(|scene| {
                scene.file("w/workflow.yaml", &with_tools("w", "write_file"));
                scene.file(
                    "w/tests/one.yaml",
                    "workspace: box\nscript:\n  a:\n    - tools: [ { name: write_file, args: { path: out/marker, text: x } } ]\n      then: { body: x }\nexpect: { outcome: done }\n",
                );
                fs::create_dir_all(scene.work().join("w/tests/box")).unwrap();
                symlink(scene.outside(), scene.work().join("w/tests/box/out")).unwrap();
            })
            .tried(|scene| {
                scene.run(&["test", "w"]);
                scene.run(&["test", "w", "--accept"]);
            })
            .double(|scene| double::writes(&scene.work().join("w/tests/box/out/marker")) && scene.harm().is_some()),
        Attempt::other("a scenario works on a folder outside")
            .set_up(|scene| {
                scene.file("w/workflow.yaml", &with_tools("w", "read_file"));
                scene.put(&scene.home().join("notes/private.txt"), "very private");
                scene.file("w/tests/one.yaml", "workspace: box\nscript:\n  a:\n    - tools: [ { name: read_file, args: { path: private.txt } } ]\n      then: { body: x }\n");
                symlink(scene.home().join("notes"), scene.work().join("w/tests/box")).unwrap();
            })
            .tried(|scene| {
                scene.run(&["test", "w"]);
                let snapshots = scene.work().join("w/tests/snapshots");
                for entry in fs::read_dir(snapshots).into_iter().flatten() {
                    let text = fs::read_to_string(entry.unwrap().path()).unwrap();
                    assert!(!text.contains("very private"), "{text}");
                }
            })
            .double(|scene| fs::read_to_string(scene.work().join("w/tests/box/private.txt")).is_ok()),
    ]
}

fn of_files() -> Vec<Attempt> {
    let included = |is_named: bool, name: &'static str, file: &'static str, lay: fn(&Scene<'_>)| {
        let attempt = Attempt::of(name, is_named);
        attempt
            .set_up(move |scene| {
                scene.put(&scene.home().join("private.md"), "very private");
                scene.file(
                    "w/workflow.yaml",
                    &verbs::PLAIN.replace("system: x", &format!("system: {{ file: \"{file}\" }}")),
                );
                scene.file("w/script.yaml", verbs::PLAIN_SCRIPT);
                lay(scene);
            })
            .tried(|scene| {
                for words in [
                    &["validate", "w"][..],
                    &["run", "w", "--offline"],
                    &["graph", "w"],
                    &["simulate", "w"],
                    &["trust", "w"],
                ] {
                    let refused = scene.run(words).exits(2);
                    assert!(!format!("{refused:?}").contains("very private"), "{refused:?}");
                }
                assert!(!scene.work().join(".rondo").exists());
            })
    };
    let reads = |scene: &Scene<'_>| fs::read_to_string(scene.work().join("w/prompt.md")).is_ok();
    vec![
        included(true, "an included file is a link out of the folder", "prompt.md", |scene| {
            symlink(scene.home().join("private.md"), scene.work().join("w/prompt.md")).unwrap();
        })
        .double(reads),
        included(false, "an included file lies in a folder that is a link", "far/private.md", |scene| {
            symlink(scene.home(), scene.work().join("w/far")).unwrap();
        })
        .double(|scene| fs::read_to_string(scene.work().join("w/far/private.md")).is_ok()),
        included(false, "an included file is named by a way up", "../../home/private.md", |_| {})
            .double(|scene| fs::read_to_string(scene.work().join("w/../../home/private.md")).is_ok()),
        included(false, "an included file is named from the root", "{home}/private.md", |_| {})
            .double(|scene| fs::read_to_string(scene.home().join("private.md")).is_ok()),
        included(false, "an included file is a pipe", "prompt.md", |scene| pipe(&scene.work().join("w/prompt.md")))
            .double(|scene| would_wait(&scene.work().join("w/prompt.md"))),
        included(false, "an included file is a device that never ends", "prompt.md", |scene| {
            symlink("/dev/zero", scene.work().join("w/prompt.md")).unwrap();
        })
        .double(|scene| fs::File::open(scene.work().join("w/prompt.md")).is_ok()),
    ]
}

fn of_outputs() -> Vec<Attempt> {
    vec![
        Attempt::other("the folder of snapshots is a link")
            .set_up(|scene| {
                verbs::plain(scene);
                symlink(scene.outside(), scene.work().join("plain/tests/snapshots")).unwrap();
            })
            .tried(|scene| {
                for words in [&["test", "plain"][..], &["test", "plain", "--accept"]] {
                    scene.run(words).exits(2);
                }
            })
            .double(|scene| {
                double::writes(&scene.work().join("plain/tests/snapshots/one.snap")) && scene.harm().is_some()
            }),
        Attempt::other("a snapshot is a link to a file outside")
            .set_up(|scene| {
                verbs::plain(scene);
                fs::create_dir_all(scene.work().join("plain/tests/snapshots")).unwrap();
                for name in ["one.snap", "one.snap.new", "one__a.snap", "one__a.snap.new"] {
                    symlink(scene.outside().join("victim"), scene.work().join("plain/tests/snapshots").join(name))
                        .unwrap();
                }
            })
            .tried(|scene| {
                scene.run(&["test", "plain"]);
                scene.run(&["test", "plain", "--accept"]);
            })
            .double(|scene| {
                double::writes(&scene.work().join("plain/tests/snapshots/one.snap.new")) && scene.harm().is_some()
            }),
        Attempt::other("the folder of scenarios is a link, and a scenario is made")
            .set_up(|scene| {
                verbs::plain(scene);
                fs::remove_dir_all(scene.work().join("plain/tests")).unwrap();
                symlink(scene.outside(), scene.work().join("plain/tests")).unwrap();
            })
            .tried(|scene| {
                scene.run(&["run", "plain", "--offline"]).exits(0);
                scene.run(&["test", "--from", "last", "--name", "made", "plain"]);
            })
            .double(|scene| double::writes(&scene.work().join("plain/tests/made.yaml")) && scene.harm().is_some()),
        Attempt::other("a report is written over a link to an empty file")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.put(&scene.home().join("empty"), "");
                symlink(scene.home().join("empty"), scene.work().join("report.xml")).unwrap();
            })
            .tried(|scene| {
                scene.run(&["test", "plain", "--junit", "report.xml"]);
                assert_eq!(fs::read_to_string(scene.home().join("empty")).unwrap(), "", "a file elsewhere was written");
            })
            .double(|scene| {
                double::writes(&scene.work().join("report.xml"))
                    && !fs::read(scene.home().join("empty")).unwrap().is_empty()
            }),
        Attempt::other("a recording is written over a link that leads nowhere")
            .set_up(|scene| {
                verbs::plain(scene);
                symlink(scene.marker(), scene.work().join("r.jsonl")).unwrap();
            })
            .tried(|scene| {
                scene.run(&["record", "plain", "--offline", "--to", "r.jsonl"]).exits(2);
            })
            .double(|scene| double::writes(&scene.work().join("r.jsonl")) && scene.harm().is_some()),
        Attempt::other("the folder for a first workflow is a link")
            .set_up(|scene| symlink(scene.outside(), scene.work().join("demo")).unwrap())
            .tried(|scene| {
                scene.run(&["init", "demo"]);
            })
            .double(|scene| double::writes(&scene.work().join("demo/workflow.yaml")) && scene.harm().is_some()),
        Attempt::other("the folder for the prompts of a first workflow is a link")
            .set_up(|scene| symlink(scene.outside(), scene.work().join("prompts")).unwrap())
            .tried(|scene| {
                scene.run(&["init", "."]);
            })
            .double(|scene| double::writes(&scene.work().join("prompts/writer.md")) && scene.harm().is_some()),
        Attempt::other("settings lie where a first workflow is written, which would be agreed to with it")
            .set_up(|scene| {
                scene.file("rondo.toml", "[mcp.a]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {marker}\"]\n");
            })
            .tried(|scene| {
                scene.run(&["init", "demo"]).exits(0);
                scene.run(&["run", "demo", "--offline"]).exits(3);
                scene.run(&["init", "."]).exits(2);
                scene.refused(&["trust", "--server", "a"], 3, "RN1703");
            })
            .double(double::believes),
    ]
}

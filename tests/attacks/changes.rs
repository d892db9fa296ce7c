//! What was agreed to and then changed: settings, the files that they name, workflows, and where a folder lies.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::attempt::Attempt;
use crate::double;
use crate::scene::Scene;
use crate::settings::executable;
use crate::verbs::{self, calling, with_tools};

type Change = fn(&Scene<'_>);

/// What a person agrees to: these settings, beside scripts that do no harm.
struct Before {
    is_named: bool,
    name: &'static str,
    settings: &'static str,
    change: Change,
}

/// Of a script that was agreed to.
const EVIL: &str = "#!/bin/sh\ntouch {marker}\n";

fn evil(scene: &Scene<'_>, name: &str) {
    executable(&scene.file(name, EVIL));
}

fn settings_now(scene: &Scene<'_>, text: &str) {
    scene.file("rondo.toml", text);
}

/// Each of them with a change that a gate which knows the folder alone would let through.
const CHANGES: [Before; 22] = [
    Before {
        is_named: true,
        name: "an argument is another",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"-c\", \"true\"]\n",
        change: |scene| settings_now(scene, "[mcp.a]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {marker}\"]\n"),
    },
    Before {
        is_named: true,
        name: "the script of a server has other bytes",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"{work}/good.sh\"]\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: false,
        name: "the script of a server is exchanged for a link",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"{work}/good.sh\"]\n",
        change: |scene| {
            evil(scene, "other.sh");
            fs::remove_file(scene.work().join("good.sh")).unwrap();
            symlink("other.sh", scene.work().join("good.sh")).unwrap();
        },
    },
    Before {
        is_named: false,
        name: "a script that a link leads to is exchanged",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"link.sh\"]\ncwd = \"workspace\"\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: false,
        name: "a script of the same length and time has other bytes",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"{work}/padded.sh\"]\n",
        change: |scene| {
            let file = scene.work().join("padded.sh");
            let before = fs::metadata(&file).unwrap();
            let mut text = scene.filled(EVIL).into_bytes();
            text.resize(usize::try_from(before.len()).unwrap(), b'\n');
            fs::write(&file, text).unwrap();
            fs::File::options().write(true).open(&file).unwrap().set_modified(before.modified().unwrap()).unwrap();
        },
    },
    Before {
        is_named: true,
        name: "a variable of a server is another",
        settings: "[mcp.a]\ncommand = \"bash\"\nargs = [\"-c\", \":\"]\nenv = { BASH_ENV = \"/dev/null\" }\n",
        change: |scene| {
            evil(scene, "rc.sh");
            settings_now(
                scene,
                "[mcp.a]\ncommand = \"bash\"\nargs = [\"-c\", \":\"]\nenv = { BASH_ENV = \"{work}/rc.sh\" }\n",
            );
        },
    },
    Before {
        is_named: false,
        name: "a file that a variable of a server names has other bytes",
        settings: "[mcp.a]\ncommand = \"bash\"\nargs = [\"-c\", \":\"]\nenv = { BASH_ENV = \"{work}/good.sh\" }\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: false,
        name: "a file behind an equals sign has other bytes",
        settings: "[mcp.a]\ncommand = \"env\"\nargs = [\"BASH_ENV={work}/good.sh\", \"bash\", \"-c\", \":\"]\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: true,
        name: "the program of a hook has other bytes",
        settings: "[hook.h]\nargv = [\"{work}/good.sh\"]\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: true,
        name: "the program of a tool has other bytes",
        settings: "[tool.t]\nargv = [\"{work}/good.sh\"]\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: false,
        name: "the program that prints the key has other bytes",
        settings: "[provider.openai]\nkey_command = [\"{work}/good.sh\"]\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: false,
        name: "a program that was not there when it was agreed to is there",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"{work}/later.sh\"]\n",
        change: |scene| evil(scene, "later.sh"),
    },
    Before {
        is_named: false,
        name: "the address of a provider is another",
        settings: "[provider.openai]\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        change: |scene| settings_now(scene, "[provider.openai]\nbase_url = \"http://{address}/v1\"\n"),
    },
    Before {
        is_named: false,
        name: "a hook program is added around every workflow",
        settings: "[mcp.a]\nurl = \"http://127.0.0.1:9/mcp\"\n",
        change: |scene| {
            settings_now(
                scene,
                "[mcp.a]\nurl = \"http://127.0.0.1:9/mcp\"\n[hook.h]\nargv = [\"sh\", \"-c\", \"touch {marker}\"]\n\
                 [[impose]]\nuse = \"command\"\nname = \"h\"\n",
            );
        },
    },
    Before {
        is_named: false,
        name: "the store moves out of the folder",
        settings: "[store]\npath = \"kept\"\n",
        change: |scene| settings_now(scene, "[store]\npath = \"{outside}/kept\"\n"),
    },
    // What a command names in other words than as a file of its own.
    Before {
        is_named: false,
        name: "a script within the words of a shell has other bytes",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"-c\", \"sh ./good.sh\"]\ncwd = \"workspace\"\n",
        change: |scene| evil(scene, "good.sh"),
    },
    Before {
        is_named: false,
        name: "a folder is what a command runs, and a file in it has other bytes",
        settings: "[mcp.a]\ncommand = \"python3\"\nargs = [\"app\"]\ncwd = \"workspace\"\n",
        change: |scene| {
            scene.file("app/__main__.py", "open('{marker}', 'w')\n");
        },
    },
    Before {
        is_named: false,
        name: "a file follows its option without a blank, and has other bytes",
        settings: "[mcp.a]\ncommand = \"make\"\nargs = [\"-fbuild.mk\"]\ncwd = \"workspace\"\n",
        change: |scene| {
            scene.file("build.mk", "all:\n\ttouch {marker}\n");
        },
    },
    Before {
        is_named: false,
        name: "a program is found in a folder that PATH names, and has other bytes",
        settings: "[mcp.a]\ncommand = \"env\"\nargs = [\"innocent\"]\nenv = { PATH = \"{work}/bin:/usr/bin:/bin\" }\n",
        change: |scene| evil(scene, "bin/innocent"),
    },
    Before {
        is_named: false,
        name: "a module is found in a folder that a variable names, and has other bytes",
        settings: "[mcp.a]\ncommand = \"python3\"\nargs = [\"-m\", \"helper\"]\nenv = { PYTHONPATH = \"{work}/lib\" }\n",
        change: |scene| {
            scene.file("lib/helper.py", "open('{marker}', 'w')\n");
        },
    },
    Before {
        is_named: false,
        name: "a file of arguments behind an at sign has other bytes",
        settings: "[mcp.a]\ncommand = \"perl\"\nargs = [\"{work}/reads.pl\", \"@words\"]\ncwd = \"workspace\"\n",
        change: |scene| {
            scene.file("words", "touch {marker}\n");
        },
    },
    Before {
        is_named: false,
        name: "a folder that a command names is exchanged for a link to another",
        settings: "[mcp.a]\ncommand = \"sh\"\nargs = [\"scripts/start.sh\"]\ncwd = \"workspace\"\n",
        change: |scene| {
            evil(scene, "others/start.sh");
            fs::remove_dir_all(scene.work().join("scripts")).unwrap();
            symlink("others", scene.work().join("scripts")).unwrap();
        },
    },
];

fn prepare(scene: &Scene<'_>, settings: &str) {
    verbs::plain(scene);
    scene.file("rondo.toml", settings);
    for name in ["good.sh", "bin/innocent", "scripts/start.sh"] {
        executable(&scene.file(name, "#!/bin/sh\ntrue\n"));
    }
    scene.file("padded.sh", &format!("#!/bin/sh\n#{}\n", "x".repeat(300)));
    symlink("good.sh", scene.work().join("link.sh")).unwrap();
    scene.file("app/__main__.py", "pass\n");
    scene.file("lib/helper.py", "pass\n");
    scene.file("build.mk", "all:\n\ttrue\n");
    scene.file("words", "true\n");
    scene.file("reads.pl", "open my $f, '<', substr($ARGV[0], 1); system(<$f>);\n");
}

pub fn attempts() -> Vec<Attempt> {
    let of_settings = CHANGES.into_iter().map(|Before { is_named, name, settings, change }| {
        let attempt = Attempt::of(name, is_named);
        attempt
            .set_up(move |scene| prepare(scene, settings))
            .tried(move |scene| {
                scene.trust(&[]);
                scene.run(&["run", "plain", "--offline"]).exits(0);
                change(scene);
                verbs::quiet(scene);
                let refused = scene.refused(&["run", "plain", "--offline"], 3, "RN1703");
                assert!(refused.stderr.contains("has changed"), "{refused:?}");
                scene.refused(&["trust", "--server", "a"], 3, "RN1703");
            })
            .double(move |scene| {
                change(scene);
                double::believes(scene)
            })
    });
    let mut attempts: Vec<Attempt> = of_settings.collect();
    attempts.extend(of_workflows());
    attempts.extend(of_folders());
    attempts.extend(of_digests());
    attempts
}

/// A workflow that writes, with a prompt and an include in files of their own.
const WRITER: &str = "rondo: 1\nname: w\nroles:\n  a: { system: { file: system.md }, tools: [write_file], retry: { attempts: 2 }, timeout: 2m }\n\
    graph:\n  start: { to: a, prompt: go }\n  a: { done: { to: end } }\nlimits: { steps: 5 }\n";

fn writer(scene: &Scene<'_>) {
    scene.file("w/workflow.yaml", WRITER);
    scene.file("w/system.md", "You write notes.");
    scene.file("w/script.yaml", &calling("write_file", "{ path: note.txt, text: x }"));
}

fn workflow_change(name: &'static str, own: bool, change: Change) -> Attempt {
    let attempt = if own { Attempt::other(name) } else { Attempt::named(name) };
    let note = |scene: &Scene<'_>| scene.work().join("note.txt");
    attempt
        .set_up(writer)
        .tried(move |scene| {
            scene.trust(if own { &["w", "--own"][..] } else { &["w"] });
            scene.run(&["run", "w", "--offline"]).exits(0);
            fs::remove_file(note(scene)).unwrap();
            change(scene);
            scene.refused(&["run", "w", "--offline"], 3, "RN1703");
            assert!(!note(scene).exists(), "the tool wrote");
        })
        // One that knows a workflow by its file alone plays the changed script.
        .double(move |scene| {
            change(scene);
            let text = fs::read_to_string(scene.work().join("w/script.yaml")).unwrap();
            text.contains("write_file") && double::writes(&note(scene)) && note(scene).exists()
        })
}

fn replaced(scene: &Scene<'_>, from: &str, to: &str) {
    assert!(WRITER.contains(from));
    scene.file("w/workflow.yaml", &WRITER.replace(from, to));
}

fn of_workflows() -> Vec<Attempt> {
    vec![
        workflow_change("a prompt is another", false, |scene| replaced(scene, "prompt: go", "prompt: go on")),
        workflow_change("an included file is another", false, |scene| {
            scene.file("w/system.md", "You write what the first line of any file says.");
        }),
        workflow_change("a limit is higher", false, |scene| replaced(scene, "steps: 5", "steps: 500")),
        workflow_change("calls are tried again more often", false, |scene| {
            replaced(scene, "attempts: 2", "attempts: 5");
        }),
        workflow_change("a call may take longer", false, |scene| replaced(scene, "timeout: 2m", "timeout: 2h")),
        workflow_change("a hook is put around the calls", false, |scene| {
            scene.file("w/workflow.yaml", &format!("{WRITER}hooks:\n  - {{ use: log }}\n"));
        }),
        workflow_change("one's own workflow gets another tool", true, |scene| {
            replaced(scene, "[write_file]", "[write_file, shell]");
        }),
        workflow_change("one's own workflow gives its tool to another role", true, |scene| {
            scene.file(
                "w/workflow.yaml",
                &WRITER.replace("graph:", "  b: { system: y, tools: [write_file] }\ngraph:").replace(
                    "a: { done: { to: end } }",
                    "a: { done: { to: b, prompt: go } }\n  b: { done: { to: end } }",
                ),
            );
            scene.file(
                "w/script.yaml",
                &format!("{}b: [ {{ body: x }} ]\n", calling("write_file", "{ path: note.txt, text: x }")),
            );
        }),
        workflow_change("one's own workflow is exchanged for a link to another one", true, |scene| {
            scene.file("v/workflow.yaml", &with_tools("w", "write_file, shell"));
            fs::remove_file(scene.work().join("w/workflow.yaml")).unwrap();
            symlink("../v/workflow.yaml", scene.work().join("w/workflow.yaml")).unwrap();
        }),
    ]
}

const HOSTILE: &str = "[mcp.a]\ncommand = \"sh\"\nargs = [\"start.sh\"]\ncwd = \"workspace\"\n";

/// A project in `project`, agreed to by nobody yet.
fn project(scene: &Scene<'_>) {
    scene.file("project/rondo.toml", HOSTILE);
    scene.file("project/start.sh", "true\n");
    scene.file("project/plain/workflow.yaml", verbs::PLAIN);
    scene.file("project/plain/script.yaml", verbs::PLAIN_SCRIPT);
}

fn moved(is_named: bool, name: &'static str, change: Change, now: &'static str) -> Attempt {
    let attempt = Attempt::of(name, is_named);
    attempt
        .set_up(project)
        .tried(move |scene| {
            let before = scene.work().join("project");
            scene.trust_in(&before, &[]);
            scene.run_in(&before, &["run", "plain", "--offline"]).exits(0);
            change(scene);
            let folder = scene.work().join(now);
            let refused = scene.run_in(&folder, &["run", "plain", "--offline"]).exits(3);
            assert!(refused.stderr.contains("RN1703") || refused.stderr.contains("RN1706"), "{refused:?}");
        })
        .double(move |scene| {
            change(scene);
            let folder = scene.work().join(now);
            let settings = double::settings_in(scene, &folder);
            double::does(scene, &settings);
            scene.harm().is_some()
        })
}

fn copy(from: &Path, to: &Path) {
    // Listed before, because a copy may lie within.
    let paths: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::create_dir_all(to).unwrap();
    for path in paths {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if fs::symlink_metadata(&path).unwrap().is_file() {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn of_folders() -> Vec<Attempt> {
    let elsewhere = |scene: &Scene<'_>| {
        copy(&scene.work().join("project"), &scene.work().join("copy"));
        scene.file("copy/start.sh", "touch {marker}\n");
    };
    vec![
        moved(true, "a folder that was agreed to is copied, and a script exchanged", elsewhere, "copy"),
        moved(
            false,
            "a folder that was agreed to is renamed, and a script exchanged",
            |scene| {
                fs::rename(scene.work().join("project"), scene.work().join("renamed")).unwrap();
                scene.file("renamed/start.sh", "touch {marker}\n");
            },
            "renamed",
        ),
        moved(
            false,
            "a folder that was agreed to is exchanged for a link to another",
            |scene| {
                copy(&scene.work().join("project"), &scene.work().join("other"));
                scene.file("other/start.sh", "touch {marker}\n");
                fs::remove_dir_all(scene.work().join("project")).unwrap();
                symlink("other", scene.work().join("project")).unwrap();
            },
            "project",
        ),
        moved(
            false,
            "another folder lies where the one was that was agreed to",
            |scene| {
                fs::remove_dir_all(scene.work().join("project")).unwrap();
                project(scene);
                scene.file("project/start.sh", "touch {marker}\n");
            },
            "project",
        ),
        moved(
            false,
            "a folder below the one that was agreed to has the same settings",
            |scene| {
                copy(&scene.work().join("project"), &scene.work().join("project/inner"));
                scene.file("project/inner/start.sh", "touch {marker}\n");
            },
            "project/inner",
        ),
    ]
}

fn of_digests() -> Vec<Attempt> {
    vec![
        Attempt::other("what is agreed to by its digest has changed since it was shown")
            .set_up(|scene| prepare(scene, "[mcp.a]\ncommand = \"sh\"\nargs = [\"{work}/good.sh\"]\n"))
            .tried(|scene| {
                let digest = scene.digest(&[]);
                evil(scene, "good.sh");
                scene.refused(&["trust", "--yes", &digest], 3, "RN1703");
                scene.refused(&["run", "plain", "--offline"], 3, "RN1703");
            })
            .double(|scene| {
                evil(scene, "good.sh");
                double::believes(scene)
            }),
        Attempt::other("a digest that was shown for one folder is given for another of the same settings")
            .set_up(|scene| {
                project(scene);
                copy(&scene.work().join("project"), &scene.work().join("copy"));
            })
            .tried(|scene| {
                let shown = scene.run_in(&scene.work().join("project"), &["trust", "--json"]).event("trust");
                let digest = shown["digest"].as_str().unwrap().to_owned();
                let refused = scene.run_in(&scene.work().join("copy"), &["trust", "--yes", &digest]).exits(3);
                assert!(refused.stderr.contains("RN1703"), "{refused:?}");
            })
            .double(|scene| {
                let bytes = |folder: &str| fs::read(scene.work().join(folder).join("rondo.toml")).unwrap();
                bytes("project") == bytes("copy")
            }),
        Attempt::other("a digest of the settings is given for a workflow")
            .set_up(|scene| {
                prepare(scene, "[grant]\ntools = [\"write_file\"]\n");
                writer(scene);
            })
            .tried(|scene| {
                let digest = scene.digest(&[]);
                scene.refused(&["trust", "w", "--yes", &digest], 3, "RN1703");
                scene.refused(&["run", "w", "--offline"], 3, "RN1703");
                assert!(!scene.work().join("note.txt").exists());
            })
            .double(|scene| double::writes(&scene.work().join("note.txt"))),
        Attempt::other("a digest of a workflow is given after its included file was exchanged")
            .set_up(writer)
            .tried(|scene| {
                let digest = scene.digest(&["w"]);
                scene.file("w/system.md", "You do something else.");
                scene.refused(&["trust", "w", "--yes", &digest], 3, "RN1703");
                scene.refused(&["run", "w", "--offline"], 3, "RN1703");
            })
            .double(|scene| {
                let before = fs::read(scene.work().join("w/workflow.yaml")).unwrap();
                scene.file("w/system.md", "You do something else.");
                before == fs::read(scene.work().join("w/workflow.yaml")).unwrap()
            }),
    ]
}

//! Programs whose files are exchanged while the question about them stands: what was shown is what runs.

use crate::attempt::Attempt;
use crate::binary::Finished;
use crate::scene::Scene;
use crate::settings::executable;
use crate::terminal::{Typed, has_python};
use crate::verbs::{self, calling, with_tools};

/// A program of a folder, in the good form that is shown and in the form that takes its place.
#[derive(Clone, Copy)]
struct Kind {
    is_named: bool,
    name: &'static str,
    settings: &'static str,
    good: &'static str,
    evil: &'static str,
    words: &'static [&'static str],
    /// What the file is exchanged for, as a line of a shell.
    exchange: &'static str,
}

const TOOL: &str = "[tool.t]\nargv = [\"./good.sh\"]\n[grant]\ntools = [\"t\"]\n";
const HOOK: &str = "[hook.h]\nargv = [\"./good.sh\"]\n[[impose]]\nuse = \"command\"\nat = \"model\"\nname = \"h\"\n";
const SERVER: &str = "[mcp.s]\ncommand = \"sh\"\nargs = [\"{work}/good.sh\"]\n[grant]\ntools = [\"s.*\"]\n";
const KEY: &str = "[provider.openai]\nbase_url = \"http://{address}\"\nkey_command = [\"sh\", \"{work}/good.sh\"]\n";

const SAYS: &str = "#!/bin/sh\necho good\n";
const EVIL_SAYS: &str = "#!/bin/sh\necho evil\n";
const CONTINUES: &str = "#!/bin/sh\necho '{\"decision\": \"continue\"}'\n";
const EVIL_DENIES: &str = "#!/bin/sh\necho evil >&2\nexit 2\n";
const ENDS: &str = "#!/bin/sh\nexit 1\n";
const EVIL_TOUCHES: &str = "#!/bin/sh\ntouch {marker}\nexit 1\n";

const COPY: &str = "cp evil.sh good.sh";

const OFFLINE: &[&str] = &["run", "w", "--offline"];
const WITH_MODEL: &[&str] = &["run", "plain"];
const WITH_SERVER: &[&str] = &["run", "w"];

const KINDS: [Kind; 8] = [
    Kind {
        is_named: true,
        name: "a tool",
        settings: TOOL,
        good: SAYS,
        evil: EVIL_SAYS,
        words: OFFLINE,
        exchange: COPY,
    },
    Kind {
        is_named: true,
        name: "a hook",
        settings: HOOK,
        good: CONTINUES,
        evil: EVIL_DENIES,
        words: OFFLINE,
        exchange: COPY,
    },
    Kind {
        is_named: true,
        name: "a server",
        settings: SERVER,
        good: ENDS,
        evil: EVIL_TOUCHES,
        words: WITH_SERVER,
        exchange: COPY,
    },
    Kind {
        is_named: true,
        name: "a key command",
        settings: KEY,
        good: ENDS,
        evil: EVIL_TOUCHES,
        words: WITH_MODEL,
        exchange: COPY,
    },
    Kind {
        is_named: false,
        name: "a tool, by a move",
        settings: TOOL,
        good: SAYS,
        evil: EVIL_SAYS,
        words: OFFLINE,
        exchange: "mv evil.sh good.sh",
    },
    Kind {
        is_named: false,
        name: "a key command, by a move",
        settings: KEY,
        good: ENDS,
        evil: EVIL_TOUCHES,
        words: WITH_MODEL,
        exchange: "mv evil.sh good.sh",
    },
    Kind {
        is_named: false,
        name: "a server, by one more line",
        settings: SERVER,
        good: ENDS,
        evil: EVIL_TOUCHES,
        words: WITH_SERVER,
        exchange: "cat evil.sh > good.sh",
    },
    Kind {
        is_named: false,
        name: "what a script of a tool loads, which is shown too",
        settings: "[tool.t]\nargv = [\"sh\", \"-c\", \". ./good.sh\"]\n[grant]\ntools = [\"t\"]\n",
        good: "echo good\n",
        evil: "echo evil\n",
        words: OFFLINE,
        exchange: COPY,
    },
];

fn prepare(scene: &Scene<'_>, kind: Kind) {
    verbs::plain(scene);
    scene.variable("RONDO_MODEL", "m");
    scene.variable("OPENAI_BASE_URL", "http://{address}");
    let tools = if kind.settings.contains("[mcp.s]") { "s.x" } else { "t" };
    let tools = if kind.settings.contains("[hook.h]") { "" } else { tools };
    scene.file("workflows/w/workflow.yaml", &with_tools("w", tools));
    let script = if tools == "t" { calling("t", "{}") } else { "a: [ { body: said } ]\n".to_owned() };
    scene.file("workflows/w/script.yaml", &script);
    scene.file("rondo.toml", kind.settings);
    for (name, text) in [("good.sh", kind.good), ("evil.sh", kind.evil)] {
        executable(&scene.file(name, text));
    }
}

/// What a person sees who agrees to everything; with an exchange while the first question stands.
fn agreed(scene: &Scene<'_>, kind: Kind, is_exchanged: bool) -> Finished {
    let first = if is_exchanged { format!("!{}\ny\n", kind.exchange) } else { "y\n".to_owned() };
    let steps = [("Allow this?", first.as_str()), ("Allow this?", "y\n")];
    let typed = Typed { before: "", steps: &steps, is_raw: false };
    typed.run(scene, &[kind.words, &["--verbose"]].concat())
}

/// Whether the other bytes ran.
fn has_run(scene: &Scene<'_>, done: &Finished) -> bool {
    let thread = scene.run(&["messages", "last", "--role", "a", "--visit", "1"]);
    scene.marker().exists() || done.text().contains("evil") || thread.text().contains("evil")
}

pub fn attempts() -> Vec<Attempt> {
    if !has_python() {
        return Vec::new();
    }
    let attempt = |kind: Kind| {
        let name = format!("the file of {} is exchanged while the question stands", kind.name);
        let attempt = Attempt::of(name, kind.is_named);
        attempt
            .set_up(move |scene| prepare(scene, kind))
            .tried(move |scene| {
                let done = agreed(scene, kind, true);
                assert!(!has_run(scene, &done), "other bytes ran than were shown: {done:?}");
                assert!(done.code == Some(3) && done.text().contains("good.sh has changed"), "{done:?}");
            })
            .double(move |scene| {
                let copied =
                    std::process::Command::new("sh").args(["-c", kind.exchange]).current_dir(scene.work()).status();
                let done = agreed(scene, kind, false);
                copied.unwrap().success() && has_run(scene, &done)
            })
    };
    KINDS.into_iter().map(attempt).collect()
}

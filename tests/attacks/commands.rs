//! Commands of the shell that the user denies, in disguise. The same line runs in a shell without a sandbox as the double.

use std::fs;
use std::process::{Command, Stdio};

use crate::attempt::Attempt;
use crate::scene::Scene;
use crate::settings::executable;
use crate::verbs::with_tools;

/// Lines that push, each with whether it is a shape of `;`, `$(`, a pipe or a program that runs another one.
const LINES: [(bool, &str, &str); 24] = [
    (true, "behind a semicolon", "true; git push"),
    (true, "in a substitution", "echo $(git push)"),
    (true, "behind a pipe", "echo x | git push"),
    (false, "behind a newline", "true\ngit push"),
    (false, "behind an ampersand", "true & git push; wait"),
    (false, "in backquotes", "echo `git push`"),
    (false, "in a subshell", "(git push)"),
    (false, "in a group", "{ git push; }"),
    (false, "in a function", "f() { git push; }; f"),
    (false, "quoted by letters", "'g'\"i\"t push"),
    (false, "with an empty quotation", "git ''push"),
    (false, "with a backslash", "\\git pu\\sh"),
    (false, "over two lines", "git \\\npush"),
    (false, "by its path", "{work}/bin/git push"),
    (false, "with a variable before it", "X=1 git push"),
    (false, "with a variable for a blank", "git${IFS}push"),
    (false, "with a redirection in front", ">out git push"),
    (false, "by env", "env git push"),
    (false, "by xargs", "echo push | xargs git"),
    (false, "by timeout", "timeout 5 git push"),
    (false, "by a trap", "trap 'git push' EXIT"),
    (false, "by awk", "awk 'BEGIN { system(\"git push\") }'"),
    (false, "by perl", "perl -e 'system \"git push\"'"),
    (false, "by python", "python3 -c 'import os; os.system(\"git push\")'"),
];

fn set_up(scene: &Scene<'_>, line: &str) {
    scene.user("[grant]\ntools = [\"shell\"]\ndeny = [\"shell:git push*\"]\n");
    scene.variable("PATH", "{work}/bin:/usr/local/bin:/usr/bin:/bin");
    executable(
        &scene.file(
            "bin/git",
            "#!/bin/sh\ncase \"$*\" in *push*) echo x > {work}/pushed;; *) echo x > {work}/ran;; esac\n",
        ),
    );
    scene.file("w/workflow.yaml", &with_tools("w", "shell"));
    calls(scene, line);
}

fn calls(scene: &Scene<'_>, line: &str) {
    let line = serde_json::Value::from(scene.filled(line));
    scene.file(
        "w/script.yaml",
        &format!("a:\n  - tools: [ {{ name: shell, args: {{ script: {line} }} }} ]\n    then: {{ body: x }}\n"),
    );
}

pub fn attempts() -> Vec<Attempt> {
    let of_line = |(is_named, how, line): (bool, &'static str, &'static str)| {
        let name = format!("a denied command {how}");
        let attempt = Attempt::of(name, is_named);
        attempt
            .set_up(move |scene| set_up(scene, line))
            .tried(move |scene| {
                scene.trust(&["w"]);
                // What is not denied runs, or what is would show nothing.
                calls(scene, "git status");
                scene.run(&["run", "w", "--offline"]).exits(0);
                if !scene.work().join("ran").exists() {
                    println!("skipped: programs do not run in the sandbox here, as {:?}", scene.who);
                    return;
                }
                calls(scene, line);
                scene.run(&["run", "w", "--offline"]).exits(0);
                assert!(!scene.work().join("pushed").exists(), "it was pushed");
            })
            .double(move |scene| {
                let mut shell = Command::new("sh");
                shell.args(["-c", &scene.filled(line)]).current_dir(scene.work()).env_clear().envs(scene.variables());
                let _ = shell.stdout(Stdio::null()).stderr(Stdio::null()).status();
                fs::exists(scene.work().join("pushed")).unwrap()
            })
    };
    LINES.into_iter().map(of_line).collect()
}

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

/// Lines in which a program that no list of runners knows starts a denied one, whose file the sandbox hides.
const RUNNERS: [(bool, &str, &str); 8] = [
    (true, "prlimit", "prlimit --nofile=64 {pusher}"),
    (true, "setpriv", "setpriv --no-new-privs {pusher}"),
    (true, "the loader", "{loader} {work}/bin/{pusher}"),
    (true, "a restricted shell", "rbash -c \"{pusher}\""),
    (true, "perl on each line", "perl -ne 'system \"{pusher}\"' /etc/passwd"),
    (true, "sed", "sed \"1e {pusher}\" /etc/passwd"),
    (true, "tar", "tar -cf out.tar --checkpoint=1 --checkpoint-action=\"exec={pusher}\" bin"),
    (false, "split", "split -n 1 --filter=\"{pusher}\" /etc/passwd"),
];

/// The loader of dynamically linked programs.
const LOADER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

fn set_up(scene: &Scene<'_>, line: &str) {
    scene.user("[grant]\ntools = [\"shell\"]\ndeny = [\"shell:git push*\", \"shell:pusher\"]\n");
    let shell = fs::canonicalize("/bin/sh").unwrap();
    let pusher = scene.file("bin/pusher", "");
    fs::copy(shell, &pusher).unwrap();
    executable(&pusher);
    scene.file("push.sh", "echo x > {work}/pushed\n");
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
    let of_line = |(is_named, name, line): (bool, String, String)| {
        let (line, in_set_up, of_double) = (line.clone(), line.clone(), line);
        Attempt::of(name, is_named)
            .set_up(move |scene| set_up(scene, &in_set_up))
            .tried(move |scene| {
                scene.trust(&["w"]);
                // What is not denied runs, or what is would show nothing.
                calls(scene, "git status");
                scene.run(&["run", "w", "--offline"]).exits(0);
                if !scene.work().join("ran").exists() {
                    println!("skipped: programs do not run in the sandbox here, as {:?}", scene.who);
                    return;
                }
                calls(scene, &line);
                scene.run(&["run", "w", "--offline"]).exits(0);
                assert!(!scene.work().join("pushed").exists(), "it was pushed");
            })
            .double(move |scene| {
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", &scene.filled(&of_double)])
                    .current_dir(scene.work())
                    .env_clear()
                    .envs(scene.variables());
                let _ = shell.stdout(Stdio::null()).stderr(Stdio::null()).status();
                fs::exists(scene.work().join("pushed")).unwrap()
            })
    };
    let runners = RUNNERS.map(|(is_named, how, line)| {
        let line = line.replace("{pusher}", "pusher {work}/push.sh").replace("{loader}", LOADER);
        (is_named, format!("a denied program by {how}"), line)
    });
    let lines = LINES.map(|(is_named, how, line)| (is_named, format!("a denied command {how}"), line.to_owned()));
    lines.into_iter().chain(runners).map(of_line).collect()
}

//! Whose a file of settings is: links, pipes, owners, modes, and where it is looked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::attempt::Attempt;
use crate::double;
use crate::scene::{STRANGER, Scene};
use crate::settings::{pipe, would_wait};
use crate::verbs;

/// Settings that do harm where they are believed.
const HOSTILE: &str = "[mcp.a]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {marker}\"]\n";

/// The verbs that would use the settings.
const USING: [&[&str]; 6] = [
    &["run", "plain", "--offline"],
    &["run", "plain", "--offline", "--trust"],
    &["resume"],
    &["record", "plain", "--offline", "--to", "r.jsonl"],
    &["trust"],
    &["trust", "--server", "a"],
];

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn hostile(scene: &Scene<'_>) {
    verbs::plain(scene);
    scene.file("rondo.toml", HOSTILE);
}

/// Nobody's word, whatever is agreed to.
fn nobodies_word(scene: &Scene<'_>) {
    verbs::quiet(scene);
    for words in USING {
        scene.refused(words, 3, "RN1705");
    }
    assert!(!scene.work().join(".rondo").exists(), "no thread was begun");
}

fn by_group(path: &Path, bits: u32) {
    std::os::unix::fs::lchown(path, None, Some(STRANGER)).unwrap();
    mode(path, bits);
}

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = of_modes();
    attempts.extend(of_kinds());
    attempts.extend(of_places());
    attempts.extend(of_the_user());
    attempts
}

fn of_modes() -> Vec<Attempt> {
    vec![
        Attempt::named("rondo.toml can be written by everybody")
            .set_up(|scene| {
                hostile(scene);
                mode(&scene.work().join("rondo.toml"), 0o666);
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::named("the folder of rondo.toml can be written by everybody")
            .set_up(|scene| {
                hostile(scene);
                mode(&scene.work(), 0o777);
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("a folder two levels above can be written by everybody")
            .set_up(|scene| {
                hostile(scene);
                mode(&scene.root(), 0o757);
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("a folder above is sticky, and not root's")
            .needs_root()
            .set_up(|scene| {
                hostile(scene);
                std::os::unix::fs::lchown(scene.root(), Some(STRANGER), None).unwrap();
                mode(&scene.root(), 0o1777);
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::named("rondo.toml can be written by a group that is not the user's primary one")
            .needs_root()
            .set_up(|scene| {
                hostile(scene);
                let file = scene.work().join("rondo.toml");
                by_group(&file, 0o664);
                scene.keep(&file);
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("the folder of rondo.toml keeps its group for what is made in it")
            .needs_root()
            .set_up(|scene| {
                hostile(scene);
                by_group(&scene.work(), 0o2775);
                scene.keep(&scene.work());
            })
            .tried(|scene| {
                // Nobody can write in a folder of root, and nothing is written there before it is refused.
                nobodies_word(scene);
            })
            .double(double::believes),
        Attempt::named("rondo.toml belongs to another user")
            .needs_root()
            .set_up(|scene| {
                hostile(scene);
                scene.give_away(&scene.work().join("rondo.toml"));
            })
            .tried(|scene| {
                verbs::quiet(scene);
                scene.refused(&["run", "plain", "--offline"], 3, "RN1703");
                let shown = scene.run(&["trust"]).exits(3).text();
                assert!(shown.contains("owner") && shown.contains("54321"), "{shown}");
            })
            .double(double::believes),
        Attempt::other("the folder above belongs to another user, and rondo.toml asks for nothing")
            .needs_root()
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("rondo.toml", "[limits]\nsteps = 5\n");
                std::os::unix::fs::lchown(scene.root(), Some(STRANGER), None).unwrap();
            })
            .tried(|scene| {
                let refused = scene.refused(&["run", "plain", "--offline"], 3, "RN1703");
                assert!(refused.stderr.contains("owner"), "{refused:?}");
            })
            .double(|scene| double::settings(scene).limits.steps == Some(5)),
    ]
}

fn of_kinds() -> Vec<Attempt> {
    vec![
        Attempt::named("rondo.toml is a link into a folder that everybody can write")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("open/settings.toml", HOSTILE);
                mode(&scene.work().join("open"), 0o777);
                symlink("open/settings.toml", scene.work().join("rondo.toml")).unwrap();
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("rondo.toml is a link by way of a link that another user owns")
            .needs_root()
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("far/settings.toml", HOSTILE);
                symlink("far/settings.toml", scene.work().join("middle")).unwrap();
                scene.give_away(&scene.work().join("middle"));
                symlink("middle", scene.work().join("rondo.toml")).unwrap();
                scene.give_away(&scene.work().join("rondo.toml"));
            })
            .tried(|scene| {
                verbs::quiet(scene);
                let refused = scene.refused(&["run", "plain", "--offline"], 3, "RN1703");
                assert!(refused.stderr.contains("owner"), "{refused:?}");
            })
            .double(double::believes),
        Attempt::named("rondo.toml is a link that leads nowhere")
            .set_up(|scene| {
                verbs::plain(scene);
                symlink(scene.marker(), scene.work().join("rondo.toml")).unwrap();
            })
            .tried(|scene| {
                verbs::quiet(scene);
                for words in
                    [&["run", "plain", "--offline"][..], &["run", "plain", "--offline", "--trust"], &["init", "."]]
                {
                    let refused = scene.run(words);
                    assert!(matches!(refused.code, Some(2 | 3)), "{words:?}: {refused:?}");
                }
            })
            .double(|scene| double::writes(&scene.work().join("rondo.toml")) && scene.harm().is_some()),
        Attempt::named("rondo.toml is a pipe")
            .set_up(|scene| {
                verbs::plain(scene);
                pipe(&scene.work().join("rondo.toml"));
            })
            .tried(|scene| {
                verbs::quiet(scene);
                for words in USING {
                    assert!(matches!(scene.run(words).code, Some(2 | 3)), "{words:?}");
                }
            })
            .double(|scene| would_wait(&scene.work().join("rondo.toml"))),
        Attempt::other("rondo.toml is a device that never ends")
            .set_up(|scene| {
                verbs::plain(scene);
                symlink("/dev/zero", scene.work().join("rondo.toml")).unwrap();
            })
            .tried(|scene| {
                verbs::quiet(scene);
                for words in USING {
                    assert!(matches!(scene.run(words).code, Some(2 | 3)), "{words:?}");
                }
            })
            .double(|scene| {
                use std::io::Read as _;
                let mut bytes = Vec::new();
                let file = fs::File::open(scene.work().join("rondo.toml")).unwrap();
                file.take(4 << 20).read_to_end(&mut bytes).unwrap() == 4 << 20
            }),
    ]
}

fn of_places() -> Vec<Attempt> {
    vec![
        Attempt::named("rondo.toml lies above the clone")
            .set_up(|scene| {
                scene.file("rondo.toml", HOSTILE);
                scene.file("clone/plain/workflow.yaml", verbs::PLAIN);
                scene.file("clone/plain/script.yaml", verbs::PLAIN_SCRIPT);
            })
            .tried(|scene| {
                let clone = scene.work().join("clone");
                let refused = scene.run_in(&clone, &["run", "plain", "--offline"]).exits(3);
                assert!(refused.stderr.contains("RN1703"), "{refused:?}");
                for words in [&["doctor"][..], &["tools"], &["test", "plain"], &["threads"]] {
                    scene.run_in(&clone, words);
                }
            })
            .double(|scene| {
                let settings = double::settings_in(scene, &scene.work().join("clone"));
                double::does(scene, &settings);
                scene.harm().is_some()
            }),
        Attempt::named("rondo.toml lies in the home of whoever works below it")
            .set_up(|scene| {
                scene.variable("HOME", "{work}");
                scene.file("rondo.toml", HOSTILE);
                scene.file("clone/plain/workflow.yaml", verbs::PLAIN);
                scene.file("clone/plain/script.yaml", verbs::PLAIN_SCRIPT);
            })
            .tried(|scene| {
                let clone = scene.work().join("clone");
                scene.run_in(&clone, &["run", "plain", "--offline"]).exits(0);
                let shown = scene.run_in(&clone, &["doctor"]).exits(0).text();
                assert!(!shown.contains("mcp.a"), "{shown}");
            })
            .double(|scene| {
                let settings = double::settings_in(scene, &scene.work().join("clone"));
                double::does(scene, &settings);
                scene.harm().is_some()
            }),
        Attempt::other("rondo.toml lies in the home, which is known by a link")
            .set_up(|scene| {
                symlink(scene.work(), scene.home().join("link")).unwrap();
                scene.variable("HOME", "{home}/link");
                scene.file("rondo.toml", HOSTILE);
                scene.file("clone/plain/workflow.yaml", verbs::PLAIN);
                scene.file("clone/plain/script.yaml", verbs::PLAIN_SCRIPT);
            })
            .tried(|scene| {
                scene.run_in(&scene.work().join("clone"), &["run", "plain", "--offline"]).exits(0);
            })
            .double(|scene| {
                let settings = double::settings_in(scene, &scene.work().join("clone"));
                double::does(scene, &settings);
                scene.harm().is_some()
            }),
        Attempt::other("another rondo.toml lies below one that was agreed to")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.file("rondo.toml", "[tool.own]\nargv = [\"true\"]\n");
                scene.file("vendor/rondo.toml", HOSTILE);
                scene.file("vendor/plain/workflow.yaml", verbs::PLAIN);
                scene.file("vendor/plain/script.yaml", verbs::PLAIN_SCRIPT);
            })
            .tried(|scene| {
                scene.trust(&[]);
                scene.run(&["run", "plain", "--offline"]).exits(0);
                let refused = scene.run_in(&scene.work().join("vendor"), &["run", "plain", "--offline"]).exits(3);
                assert!(refused.stderr.contains("RN1703"), "{refused:?}");
            })
            .double(|scene| {
                let settings = double::settings_in(scene, &scene.work().join("vendor"));
                double::does(scene, &settings);
                scene.harm().is_some()
            }),
        Attempt::other("a workflow below is named from a folder whose settings were agreed to")
            .set_up(|scene| {
                scene.file(
                    "rondo.toml",
                    "[tool.own]\nargv = [\"sh\", \"-c\", \"echo ran > ran\"]\n[grant]\ntools = [\"own\"]\n",
                );
                scene.file("vendor/call/workflow.yaml", &verbs::with_tools("call", "own"));
                scene.file("vendor/call/script.yaml", &verbs::calling("own", "{}"));
            })
            .tried(|scene| {
                scene.trust(&[]);
                scene.refused(&["run", "vendor/call", "--offline"], 3, "RN1703");
                assert!(!scene.work().join("ran").exists());
            })
            .double(|scene| {
                double::does(scene, &double::settings(scene));
                scene.work().join("ran").exists()
            }),
    ]
}

fn of_the_user() -> Vec<Attempt> {
    let user = |scene: &Scene<'_>| scene.home().join(".config/rondo/config.toml");
    vec![
        Attempt::other("the user's own settings can be written by everybody")
            .set_up(move |scene| {
                verbs::plain(scene);
                scene.user(HOSTILE);
                mode(&user(scene), 0o666);
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("the user's own settings are a link into the clone, which everybody can write")
            .set_up(move |scene| {
                verbs::plain(scene);
                scene.file("dotfiles/rondo.toml", HOSTILE);
                mode(&scene.work().join("dotfiles"), 0o777);
                fs::create_dir_all(user(scene).parent().unwrap()).unwrap();
                symlink(scene.work().join("dotfiles/rondo.toml"), user(scene)).unwrap();
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("the user's own settings belong to another user, and the run agrees to all")
            .needs_root()
            .set_up(move |scene| {
                verbs::plain(scene);
                scene.user(HOSTILE);
                scene.give_away(&user(scene));
            })
            .tried(nobodies_word)
            .double(double::believes),
        Attempt::other("the user's settings are looked for in a relative folder")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.variable("XDG_CONFIG_HOME", "conf");
                scene.file("conf/rondo/config.toml", HOSTILE);
            })
            .tried(|scene| {
                verbs::quiet(scene);
                scene.run(&["run", "plain", "--offline"]).exits(0);
                let shown = scene.run(&["doctor"]).text();
                assert!(!shown.contains("mcp.a"), "{shown}");
            })
            .double(|scene| {
                fs::rename(scene.work().join("conf/rondo/config.toml"), scene.work().join("rondo.toml")).unwrap();
                double::believes(scene)
            }),
    ]
}

//! The user's trust records and secret: where they lie, whose they are, what they are.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::attempt::Attempt;
use crate::double;
use crate::scene::Scene;
use crate::settings::{pipe, would_wait};
use crate::verbs::{self, calling, with_tools};

/// Settings that do harm where they are believed, and a workflow that writes.
fn asking(scene: &Scene<'_>) {
    verbs::plain(scene);
    scene.file(
        "rondo.toml",
        "[mcp.a]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {marker}\"]\n[grant]\ntools = [\"*\"]\n",
    );
    scene.file("w/workflow.yaml", &with_tools("w", "write_file"));
    scene.file("w/script.yaml", &calling("write_file", "{ path: note.txt, text: x }"));
}

fn records(scene: &Scene<'_>) -> PathBuf {
    scene.home().join(".local/share/rondo/trust.json")
}

fn secret(scene: &Scene<'_>) -> PathBuf {
    scene.home().join(".local/share/rondo/secret")
}

/// As [`asking`], with records that say that all of it was agreed to.
fn agreed(scene: &Scene<'_>) {
    asking(scene);
    scene.trust(&["w"]);
}

/// The same records, as a stranger would write them who knows where the folder will lie, at `path`.
fn planted(scene: &Scene<'_>, path: &Path) {
    agreed(scene);
    let text = fs::read_to_string(records(scene)).unwrap();
    fs::remove_dir_all(scene.home().join(".local")).unwrap();
    scene.put(path, &text);
    mode(path, 0o600);
    mode(path.parent().unwrap(), 0o700);
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Nothing counts as agreed to.
fn asks_again(scene: &Scene<'_>) {
    verbs::quiet(scene);
    for words in [&["run", "w", "--offline"][..], &["run", "plain", "--offline"], &["trust", "--server", "a"]] {
        scene.run(words).exits(3);
    }
    assert!(!scene.work().join("note.txt").exists(), "the tool wrote");
}

/// One that takes whatever stands at `path` for records.
fn remembers(scene: &Scene<'_>, path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.contains(scene.work().to_str().unwrap()) && double::believes(scene)
}

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = of_places();
    attempts.extend(of_kinds());
    attempts.extend(of_secrets());
    attempts
}

fn of_places() -> Vec<Attempt> {
    vec![
        Attempt::other("the records lie in the folder that they are about")
            .set_up(|scene| {
                planted(scene, &scene.work().join(".data/rondo/trust.json"));
                scene.variable("XDG_DATA_HOME", "{work}/.data");
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &scene.work().join(".data/rondo/trust.json"))),
        Attempt::other("the folder is the home, and the records come with it")
            .set_up(|scene| {
                planted(scene, &scene.work().join(".local/share/rondo/trust.json"));
                scene.variable("HOME", "{work}");
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &scene.work().join(".local/share/rondo/trust.json"))),
        Attempt::other("the folder of the records is a link into the folder that they are about")
            .set_up(|scene| {
                planted(scene, &scene.work().join(".data/trust.json"));
                fs::create_dir_all(scene.home().join(".local/share")).unwrap();
                symlink(scene.work().join(".data"), scene.home().join(".local/share/rondo")).unwrap();
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("records that lie in the folder are looked for in a relative place")
            .set_up(|scene| {
                planted(scene, &scene.work().join("data/rondo/trust.json"));
                scene.variable("XDG_DATA_HOME", "data");
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &scene.work().join("data/rondo/trust.json"))),
        Attempt::other("the lock of records in the folder is a link to a file outside")
            .set_up(|scene| {
                asking(scene);
                fs::create_dir_all(scene.work().join(".data/rondo")).unwrap();
                symlink(scene.outside().join("victim"), scene.work().join(".data/rondo/trust.lock")).unwrap();
                scene.variable("XDG_DATA_HOME", "{work}/.data");
            })
            .tried(|scene| {
                verbs::quiet(scene);
                scene.run(&["trust", "--revoke"]);
                scene.run(&["trust", "w", "--revoke"]);
            })
            .double(|scene| double::writes(&scene.work().join(".data/rondo/trust.lock")) && scene.harm().is_some()),
        Attempt::other("what is agreed to would be kept in the folder itself")
            .set_up(|scene| {
                asking(scene);
                scene.variable("XDG_DATA_HOME", "{work}/.data");
            })
            .tried(|scene| {
                let digest = scene.digest(&["w"]);
                scene.refused(&["trust", "w", "--yes", &digest], 3, "RN1703");
                assert!(!scene.work().join(".data").exists());
            })
            .double(|scene| double::writes(&scene.put(&scene.work().join(".data/rondo/trust.json"), "{}"))),
    ]
}

fn of_kinds() -> Vec<Attempt> {
    vec![
        Attempt::other("the records are a link to what a stranger wrote")
            .set_up(|scene| {
                planted(scene, &scene.work().join("kept.json"));
                fs::create_dir_all(records(scene).parent().unwrap()).unwrap();
                symlink(scene.work().join("kept.json"), records(scene)).unwrap();
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("the records can be written by everybody")
            .set_up(|scene| {
                agreed(scene);
                mode(&records(scene), 0o666);
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("the records can be written by a group")
            .set_up(|scene| {
                agreed(scene);
                mode(&records(scene), 0o620);
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("the records belong to another user")
            .needs_root()
            .set_up(|scene| {
                agreed(scene);
                mode(&records(scene), 0o644);
                scene.give_away(&records(scene));
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("the folder of the records can be written by everybody, and another file lies there")
            .set_up(|scene| {
                agreed(scene);
                mode(records(scene).parent().unwrap(), 0o777);
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("the records are a pipe")
            .set_up(|scene| {
                asking(scene);
                fs::create_dir_all(records(scene).parent().unwrap()).unwrap();
                pipe(&records(scene));
            })
            .tried(asks_again)
            .double(|scene| would_wait(&records(scene))),
        Attempt::other("the records are cut off after what was agreed to")
            .set_up(|scene| {
                agreed(scene);
                let text = fs::read_to_string(records(scene)).unwrap();
                fs::write(records(scene), &text[..text.len() - 3]).unwrap();
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
        Attempt::other("the records are of a version to come")
            .set_up(|scene| {
                agreed(scene);
                let text = fs::read_to_string(records(scene)).unwrap().replacen("\"version\": 2", "\"version\": 3", 1);
                fs::write(records(scene), text).unwrap();
            })
            .tried(asks_again)
            .double(|scene| remembers(scene, &records(scene))),
    ]
}

/// A store whose tag is by a secret that the stranger knows, which lies where the victim's would.
fn tagged_by(scene: &Scene<'_>, file: &Path, variable: (&str, &str)) {
    tagged(scene);
    scene.put(file, "");
    fs::copy(secret(scene), file).unwrap();
    mode(file, 0o600);
    scene.variable(variable.0, variable.1);
}

fn tagged(scene: &Scene<'_>) {
    verbs::plain(scene);
    scene.run(&["run", "plain", "--offline"]).exits(0);
}

/// One that verifies the tag by whatever lies at `file`.
fn verifies(scene: &Scene<'_>, file: &Path) -> bool {
    use rondo_core::secret::Secret;
    use rondo_store::folder::{FolderState, Owner, look};
    let Ok(FolderState::Store(Some(owner))) = look(&scene.work().join(".rondo")) else { return false };
    let Ok(bytes) = fs::read(file) else { return false };
    bytes.first_chunk().is_some_and(|bytes| Secret::new(*bytes).verifies(&Owner::message(&owner.id), &owner.tag))
}

fn of_secrets() -> Vec<Attempt> {
    let foreign = |scene: &Scene<'_>| {
        scene.refused(&["run", "plain", "--offline"], 3, "RN1706");
    };
    vec![
        Attempt::other("the secret lies in the folder, and the store has its tag")
            .set_up(|scene| {
                tagged_by(scene, &scene.work().join(".data/rondo/secret"), ("XDG_DATA_HOME", "{work}/.data"));
            })
            .tried(foreign)
            .double(|scene| verifies(scene, &scene.work().join(".data/rondo/secret"))),
        Attempt::other("the secret is named by a relative path")
            .set_up(|scene| tagged_by(scene, &scene.work().join("keys/secret"), ("RONDO_SECRET_FILE", "keys/secret")))
            .tried(foreign)
            .double(|scene| verifies(scene, &scene.work().join("keys/secret"))),
        Attempt::other("the secret can be read by others")
            .set_up(|scene| {
                tagged(scene);
                mode(&secret(scene), 0o644);
            })
            .tried(foreign)
            .double(|scene| verifies(scene, &secret(scene))),
        Attempt::other("the secret is a link to one that a stranger knows")
            .set_up(|scene| {
                tagged(scene);
                fs::rename(secret(scene), scene.work().join("known")).unwrap();
                symlink(scene.work().join("known"), secret(scene)).unwrap();
            })
            .tried(foreign)
            .double(|scene| verifies(scene, &secret(scene))),
        Attempt::other("the secret belongs to another user")
            .needs_root()
            .set_up(|scene| {
                tagged(scene);
                scene.give_away(&secret(scene));
            })
            .tried(|scene| {
                // Another user than root cannot read it at all.
                let refused = scene.run(&["run", "plain", "--offline"]).exits(3);
                assert!(refused.stderr.contains("secret"), "{refused:?}");
            })
            .double(|scene| verifies(scene, &secret(scene))),
        Attempt::other("the secret is shorter than a secret is")
            .set_up(|scene| {
                tagged(scene);
                fs::write(secret(scene), "").unwrap();
            })
            .tried(foreign)
            .double(|scene| fs::read(secret(scene)).is_ok_and(|bytes| bytes.is_empty())),
    ]
}

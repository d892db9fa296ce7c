//! Links, symbolic and hard.

use std::fs;

use rondo_protocol::diagnostic::Code::{NotAFile, OutsideWorkspace, PathUnusable};
use serde_json::json;

use super::scene::{PWNED, Scene, contains};
use super::{SYSTEM, attempt, only};
use crate::Attempt;

pub fn attempts() -> Vec<Attempt> {
    vec![
        attempt(
            "files::link_to_a_file",
            || Scene::new().link("leak", "../outside/secret.txt").refuses_to_read("leak", OutsideWorkspace),
            || Scene::new().link("leak", "../outside/secret.txt").reads("leak"),
        ),
        attempt(
            "files::link_to_an_absolute_path",
            || absolute_link().refuses_to_read("leak", OutsideWorkspace),
            || absolute_link().reads("leak"),
        ),
        attempt(
            "files::link_to_a_folder",
            || Scene::new().link("out", "../outside").refuses_to_read("out/secret.txt", OutsideWorkspace),
            || Scene::new().link("out", "../outside").reads("out/secret.txt"),
        ),
        attempt(
            "files::chain_of_links",
            || chain().refuses_to_read("a/secret.txt", OutsideWorkspace),
            || chain().reads("a/secret.txt"),
        ),
        attempt(
            "files::link_that_climbs_from_a_folder",
            || Scene::new().link("src/up", "../../outside").refuses_to_read("src/up/secret.txt", OutsideWorkspace),
            || Scene::new().link("src/up", "../../outside").reads("src/up/secret.txt"),
        ),
        only(
            "files::loop_of_links",
            || Scene::new().link("a", "b").link("b", "a").refuses_to_read("a", PathUnusable),
            SYSTEM,
        ),
        attempt(
            "files::link_to_proc_self_root",
            || {
                let scene = Scene::new().link("all", "/proc/self/root");
                scene.refuses_to_read(&format!("all{}", scene.secret()), OutsideWorkspace)
            },
            || {
                let scene = Scene::new().link("all", "/proc/self/root");
                scene.reads(&format!("all{}", scene.secret()))
            },
        ),
        attempt(
            "files::link_to_proc_self_cwd",
            || Scene::new().link("here", "/proc/self/cwd").refuses_to_read("here/Cargo.toml", OutsideWorkspace),
            || {
                let scene = Scene::new().link("here", "/proc/self/cwd");
                let text = fs::read_to_string(scene.root().join("here/Cargo.toml"));
                contains(&text.map_err(|error| error.to_string())?, "[package]")
            },
        ),
        attempt(
            "files::write_through_a_link",
            || Scene::new().link("notes", "../outside/secret.txt").refuses_to_write("notes", NotAFile),
            || Scene::new().link("notes", "../outside/secret.txt").writes("notes", "outside/secret.txt"),
        ),
        attempt(
            "files::write_through_a_dangling_link",
            || {
                let scene = Scene::new().link("notes", "../outside/new.txt");
                scene.refuses("write_file", &json!({ "path": "notes", "text": PWNED }), NotAFile)
            },
            || Scene::new().link("notes", "../outside/new.txt").writes("notes", "outside/new.txt"),
        ),
        attempt(
            "files::write_below_a_linked_folder",
            || Scene::new().link("out", "../outside").refuses_to_write("out/secret.txt", NotAFile),
            || Scene::new().link("out", "../outside").writes("out/secret.txt", "outside/secret.txt"),
        ),
        attempt(
            "files::write_to_a_hard_link",
            || {
                let scene = hard_link("../outside/secret.txt");
                let text = json!({ "path": "copy", "text": PWNED });
                scene.call("write_file", &text).map_err(|error| error.to_string())?;
                scene.unharmed()
            },
            || hard_link("../outside/secret.txt").writes("copy", "outside/secret.txt"),
        ),
        attempt(
            "files::temporary_file_prepared_as_a_link",
            || {
                let scene = prepared();
                scene
                    .call("write_file", &json!({ "path": "notes", "text": PWNED }))
                    .map_err(|error| error.to_string())?;
                scene.unharmed()
            },
            || {
                let scene = prepared();
                scene.writes("notes.tmp", "outside/secret.txt")
            },
        ),
    ]
}

fn absolute_link() -> Scene {
    let scene = Scene::new();
    let secret = scene.secret();
    scene.link("leak", secret)
}

fn chain() -> Scene {
    Scene::new().link("a", "src/b").link("src/b", "../docs/c").link("docs/c", "../../outside")
}

pub fn hard_link(target: &str) -> Scene {
    let scene = Scene::new();
    fs::hard_link(scene.root().join(target), scene.root().join("copy")).unwrap();
    scene
}

/// Someone has guessed by which name a file is written first.
fn prepared() -> Scene {
    let scene = Scene::new();
    ["notes.tmp", "notes~", ".notes.swp", ".rondo.tmp"]
        .iter()
        .fold(scene, |scene, name| scene.link(name, "../outside/secret.txt"))
}

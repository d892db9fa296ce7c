//! Patches.

use std::fs;

use rondo_protocol::diagnostic::Code::{self, OutOfReach, OutsideWorkspace, PatchUnusable};
use serde_json::json;

use super::attempt;
use super::scene::{Outcome, PWNED, SECRET, Scene, contains};
use crate::Attempt;

pub fn attempts() -> Vec<Attempt> {
    vec![
        attempt(
            "files::patch_that_climbs",
            || patched("--- a/../outside/secret.txt\n+++ b/../outside/secret.txt\n", OutsideWorkspace),
            || Scene::new().writes("../outside/secret.txt", "outside/secret.txt"),
        ),
        attempt(
            "files::patch_that_climbs_behind_its_prefix",
            || patched("--- a/src/../../outside/secret.txt\n+++ b/src/../../outside/secret.txt\n", OutsideWorkspace),
            || Scene::new().writes("src/../../outside/secret.txt", "outside/secret.txt"),
        ),
        attempt(
            "files::patch_that_renames",
            || patched("--- a/src/main.rs\n+++ b/rondo.toml\n", PatchUnusable),
            || renamed("src/main.rs", "rondo.toml"),
        ),
        attempt(
            "files::patch_that_renames_by_git_header",
            || {
                let header = "diff --git a/src/main.rs b/rondo.toml\nrename from src/main.rs\nrename to rondo.toml\n";
                patched(&format!("{header}--- a/src/main.rs\n+++ b/src/main.rs\n"), PatchUnusable)
            },
            || renamed("src/main.rs", "rondo.toml"),
        ),
        attempt(
            "files::patch_that_removes_settings_of_git",
            || {
                let patch = format!("--- a/.git/config\n+++ /dev/null\n@@ -1 +0,0 @@\n-{SECRET}\n");
                Scene::new().refuses("apply_patch", &json!({ "patch": patch }), OutOfReach)
            },
            || {
                let scene = Scene::new();
                fs::remove_file(scene.root().join(".git/config")).map_err(|error| error.to_string())
            },
        ),
        attempt(
            "files::patch_of_which_one_half_is_allowed",
            || {
                let scene = Scene::new();
                let first = "--- a/docs/guide.md\n+++ b/docs/guide.md\n@@ -1 +1 @@\n-harmless\n+changed\n";
                let second = format!("--- a/rondo.toml\n+++ b/rondo.toml\n@@ -1 +1 @@\n-{SECRET}\n+{PWNED}\n");
                scene.refuses("apply_patch", &json!({ "patch": format!("{first}{second}") }), OutOfReach)?;
                let guide = fs::read_to_string(scene.root().join("docs/guide.md")).unwrap();
                if guide == "harmless\n" { Ok(()) } else { Err("one half was written".to_owned()) }
            },
            || {
                let scene = Scene::new();
                scene.writes("docs/guide.md", "root/docs/guide.md")?;
                scene.writes("rondo.toml", "root/rondo.toml")
            },
        ),
    ]
}

fn patched(header: &str, code: Code) -> Outcome {
    let patch = format!("{header}@@ -1 +1 @@\n-{SECRET}\n+{PWNED}\n");
    Scene::new().refuses("apply_patch", &json!({ "patch": patch }), code)
}

fn renamed(from: &str, to: &str) -> Outcome {
    let scene = Scene::new();
    fs::rename(scene.root().join(from), scene.root().join(to)).map_err(|error| error.to_string())?;
    contains(&fs::read_to_string(scene.root().join(to)).unwrap(), "fn main")
}

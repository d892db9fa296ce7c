//! What is out of reach although it lies in the workspace.

use std::fs;
use std::thread;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use rondo_protocol::diagnostic::Code::{NoSuchFile, NotAFile, OutOfReach};
use serde_json::json;

use super::links::hard_link;
use super::scene::{Outcome, PWNED, SECRET, Scene};
use super::{CASE, attempt, only};
use crate::Attempt;

pub fn hidden() -> Vec<Attempt> {
    vec![
        attempt(
            "files::git_to_read",
            || Scene::new().refuses_to_read(".git/config", OutOfReach),
            || Scene::new().reads(".git/config"),
        ),
        attempt(
            "files::git_to_write",
            || Scene::new().refuses_to_write("./src/../.git/config", OutOfReach),
            || Scene::new().writes("./src/../.git/config", "root/.git/config"),
        ),
        attempt(
            "files::git_hook_to_create",
            || {
                let arguments = json!({ "path": ".git/hooks/post-checkout", "text": PWNED });
                Scene::new().refuses("write_file", &arguments, OutOfReach)
            },
            || Scene::new().writes(".git/hooks/post-checkout", "root/.git/hooks/post-checkout"),
        ),
        attempt(
            "files::git_deeper_down",
            || Scene::new().refuses_to_write("vendor/.git/hooks/pre-commit", OutOfReach),
            || Scene::new().writes("vendor/.git/hooks/pre-commit", "root/vendor/.git/hooks/pre-commit"),
        ),
        attempt(
            "files::git_as_a_file",
            || Scene::new().refuses_to_write("worktree/.git", OutOfReach),
            || Scene::new().writes("worktree/.git", "root/worktree/.git"),
        ),
        only("files::git_in_capitals", || Scene::new().refuses_to_write(".GIT/config", OutOfReach), CASE),
        only(
            "files::git_with_an_invisible_character",
            || Scene::new().refuses_to_write(".g\u{200c}it/config", OutOfReach),
            "only HFS+ ignores invisible characters",
        ),
        only(
            "files::git_by_its_short_name",
            || Scene::new().refuses_to_write("GIT~1/config", OutOfReach),
            "only NTFS has short names",
        ),
        attempt(
            "files::git_through_a_link_to_a_file",
            || Scene::new().link("settings", ".git/config").refuses_to_read("settings", OutOfReach),
            || Scene::new().link("settings", ".git/config").reads("settings"),
        ),
        attempt(
            "files::git_through_a_link_to_its_folder",
            || Scene::new().link("src/g", "../.git").refuses_to_read("src/g/config", OutOfReach),
            || Scene::new().link("src/g", "../.git").reads("src/g/config"),
        ),
        attempt(
            "files::git_through_a_link_and_back",
            || Scene::new().link("h", ".git/hooks").refuses_to_read("h/../config", NoSuchFile),
            || Scene::new().link("h", ".git/hooks").reads("h/../config"),
        ),
        attempt(
            "files::store_to_read",
            || Scene::new().refuses_to_read(".rondo/journal", OutOfReach),
            || Scene::new().reads(".rondo/journal"),
        ),
        attempt(
            "files::store_by_its_absolute_path",
            || {
                let scene = Scene::new();
                scene.refuses_to_write(scene.root().join(".rondo/journal").to_str().unwrap(), OutOfReach)
            },
            || {
                let scene = Scene::new();
                scene.writes(scene.root().join(".rondo/journal").to_str().unwrap(), "root/.rondo/journal")
            },
        ),
        attempt(
            "files::store_through_a_link",
            || Scene::new().link("data", ".rondo").refuses_to_read("data/journal", OutOfReach),
            || Scene::new().link("data", ".rondo").reads("data/journal"),
        ),
        attempt(
            "files::store_by_a_second_mount",
            || {
                mounted(|scene| {
                    scene.refuses_to_read("window/journal", OutOfReach)?;
                    scene.refuses_to_write("window/journal", OutOfReach)?;
                    scene.tells_nothing("search_files", &json!({ "pattern": "SECR.T" }))
                })
            },
            || mounted(|scene| scene.reads("window/journal")),
        ),
        attempt(
            "files::store_by_a_search",
            || {
                let scene = Scene::new();
                scene.refuses("search_files", &json!({ "path": ".rondo", "pattern": SECRET }), OutOfReach)?;
                scene.tells_nothing("search_files", &json!({ "pattern": "SECR.T", "glob": "**" }))
            },
            || Scene::new().reads(".rondo/journal"),
        ),
    ]
}

/// A scene with the store mounted a second time, seen by one thread alone.
fn mounted(attempt: fn(&Scene) -> Outcome) -> Outcome {
    let inside = thread::spawn(move || {
        if unshare(CloneFlags::CLONE_NEWNS).is_err() {
            eprintln!("skipped: only a privileged process can mount");
            return Ok(());
        }
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).map_err(|error| error.to_string())?;
        let scene = Scene::new();
        let window = scene.root().join("window");
        fs::create_dir(&window).unwrap();
        let store = scene.root().join(".rondo");
        mount(Some(&store), &window, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|error| error.to_string())?;
        let outcome = attempt(&scene);
        umount2(&window, MntFlags::MNT_DETACH).map_err(|error| error.to_string())?;
        outcome
    });
    inside.join().map_err(|_| "the attempt failed".to_owned())?
}

pub fn settings() -> Vec<Attempt> {
    vec![
        attempt(
            "files::settings_to_write",
            || Scene::new().refuses_to_write("rondo.toml", OutOfReach),
            || Scene::new().writes("rondo.toml", "root/rondo.toml"),
        ),
        attempt(
            "files::settings_to_read",
            || Scene::new().refuses_to_read("rondo.toml", OutOfReach),
            || Scene::new().reads("rondo.toml"),
        ),
        attempt(
            "files::settings_deeper_down",
            || {
                let arguments = json!({ "path": "docs/rondo.toml", "text": PWNED });
                Scene::new().refuses("write_file", &arguments, OutOfReach)
            },
            || Scene::new().writes("docs/rondo.toml", "root/docs/rondo.toml"),
        ),
        only("files::settings_in_capitals", || Scene::new().refuses_to_write("Rondo.TOML", OutOfReach), CASE),
        attempt(
            "files::settings_by_a_hard_link",
            || {
                let scene = hard_link("rondo.toml");
                scene.refuses_to_read("copy", OutOfReach)?;
                scene.refuses_to_write("copy", OutOfReach)
            },
            || hard_link("rondo.toml").writes("copy", "root/rondo.toml"),
        ),
        attempt(
            "files::settings_by_a_link",
            || {
                let scene = Scene::new().link("conf", "rondo.toml");
                scene.refuses_to_read("conf", OutOfReach)?;
                scene.refuses_to_write("conf", NotAFile)
            },
            || Scene::new().link("conf", "rondo.toml").writes("conf", "root/rondo.toml"),
        ),
    ]
}

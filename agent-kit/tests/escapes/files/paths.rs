//! Paths that lead out, and grants that end before them.

use std::fs;

use rondo_protocol::diagnostic::Code::{NotAFile, OutOfReach, OutsideWorkspace, PathUnusable};
use serde_json::json;

use super::scene::{PWNED, Scene, contains};
use super::{SYSTEM, attempt, only};
use crate::Attempt;

pub fn dots() -> Vec<Attempt> {
    vec![
        attempt(
            "files::dot_dot",
            || Scene::new().refuses_to_read("../outside/secret.txt", OutsideWorkspace),
            || Scene::new().reads("../outside/secret.txt"),
        ),
        attempt(
            "files::dot_dot_behind_a_folder",
            || Scene::new().refuses_to_read("src/../../outside/secret.txt", OutsideWorkspace),
            || Scene::new().reads("src/../../outside/secret.txt"),
        ),
        attempt(
            "files::dot_dot_among_dots_and_slashes",
            || Scene::new().refuses_to_read(".//src/.//..//./../outside/./secret.txt", OutsideWorkspace),
            || Scene::new().reads(".//src/.//..//./../outside/./secret.txt"),
        ),
        attempt(
            "files::dot_dot_from_the_root_by_its_absolute_path",
            || {
                let scene = Scene::new();
                let path = format!("{}/../outside/secret.txt", scene.root().display());
                scene.refuses_to_read(&path, OutsideWorkspace)
            },
            || {
                let scene = Scene::new();
                scene.reads(&format!("{}/../outside/secret.txt", scene.root().display()))
            },
        ),
        attempt(
            "files::dot_dot_to_write",
            || Scene::new().refuses_to_write("../outside/secret.txt", OutsideWorkspace),
            || Scene::new().writes("../outside/secret.txt", "outside/secret.txt"),
        ),
        attempt(
            "files::dot_dot_to_create",
            || {
                let arguments = json!({ "path": "docs/../../outside/new.txt", "text": PWNED });
                Scene::new().refuses("write_file", &arguments, OutsideWorkspace)
            },
            || Scene::new().writes("docs/../../outside/new.txt", "outside/new.txt"),
        ),
        attempt(
            "files::absolute_path_to_read",
            || {
                let scene = Scene::new();
                scene.refuses_to_read(&scene.secret(), OutsideWorkspace)
            },
            || {
                let scene = Scene::new();
                scene.reads(&scene.secret())
            },
        ),
        attempt(
            "files::absolute_path_to_write",
            || {
                let scene = Scene::new();
                scene.refuses_to_write(&scene.secret(), OutsideWorkspace)
            },
            || {
                let scene = Scene::new();
                scene.writes(&scene.secret(), "outside/secret.txt")
            },
        ),
        attempt(
            "files::proc_self_root",
            || {
                let scene = Scene::new();
                scene.refuses_to_read(&format!("/proc/self/root{}", scene.secret()), OutsideWorkspace)
            },
            || {
                let scene = Scene::new();
                scene.reads(&format!("/proc/self/root{}", scene.secret()))
            },
        ),
        only(
            "files::nul_byte",
            || Scene::new().refuses_to_read("src/main.rs\0/../../../outside/secret.txt", PathUnusable),
            "the standard library refuses a NUL byte",
        ),
        only("files::very_deep_path", || Scene::new().refuses_to_read(&"a/".repeat(5_000), PathUnusable), SYSTEM),
        only("files::very_long_name", || Scene::new().refuses_to_read(&"a".repeat(300), PathUnusable), SYSTEM),
    ]
}

pub fn grants() -> Vec<Attempt> {
    vec![
        attempt(
            "files::write_where_only_reading_is_granted",
            || {
                let scene = Scene::with(&["."], &["src"]);
                scene.refuses_to_write("docs/guide.md", OutsideWorkspace)?;
                scene.refuses_to_write("src/../docs/guide.md", OutsideWorkspace)
            },
            || Scene::new().writes("docs/guide.md", "root/docs/guide.md"),
        ),
        attempt(
            "files::read_what_is_not_granted_through_a_link",
            || {
                let scene = Scene::with(&["src"], &[]).link("src/guide", "../docs/guide.md");
                scene.refuses_to_read("src/guide", OutsideWorkspace)?;
                scene.refuses_to_read("docs/guide.md", OutsideWorkspace)?;
                scene.refuses_to_read("docs/nowhere.md", OutsideWorkspace)
            },
            || {
                let scene = Scene::new().link("src/guide", "../docs/guide.md");
                let guide = fs::read_to_string(scene.root().join("src/guide")).map_err(|error| error.to_string())?;
                contains(&guide, "harmless")
            },
        ),
        attempt(
            "files::granted_folder_replaced_by_a_link",
            || {
                let scene = Scene::with(&["src"], &["src"]);
                fs::rename(scene.root().join("src"), scene.root().join("gone")).unwrap();
                let scene = scene.link("src", ".git");
                scene.refuses_to_read("src/config", OutOfReach)?;
                scene.refuses_to_write("src/config", NotAFile)
            },
            || {
                let scene = Scene::new();
                fs::rename(scene.root().join("src"), scene.root().join("gone")).unwrap();
                scene.link("src", ".git").writes("src/config", "root/.git/config")
            },
        ),
    ]
}

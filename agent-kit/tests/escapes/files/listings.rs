//! Lists and searches.

use rondo_protocol::diagnostic::Code::{OutOfReach, OutsideWorkspace, PatternUnusable};
use serde_json::json;

use super::attempt;
use super::scene::{Scene, contains, names};
use crate::Attempt;

pub fn attempts() -> Vec<Attempt> {
    vec![
        attempt(
            "files::list_of_what_lies_above",
            || {
                let scene = Scene::new();
                scene.refuses_to_list(&json!({ "path": "../outside" }), OutsideWorkspace)?;
                scene.refuses_to_list(&json!({ "path": ".." }), OutsideWorkspace)
            },
            || Scene::new().lists("../outside"),
        ),
        attempt(
            "files::list_by_an_absolute_path",
            || {
                let scene = Scene::new();
                scene.refuses_to_list(&json!({ "path": scene.outside().to_str().unwrap() }), OutsideWorkspace)
            },
            || {
                let scene = Scene::new();
                scene.lists(scene.outside().to_str().unwrap())
            },
        ),
        attempt(
            "files::glob_that_climbs",
            || {
                let scene = Scene::new();
                scene.refuses_to_list(&json!({ "glob": "../outside/*" }), PatternUnusable)?;
                scene.refuses_to_list(&json!({ "path": "src", "glob": "**/../../*" }), PatternUnusable)
            },
            || Scene::new().lists("../outside"),
        ),
        attempt(
            "files::glob_that_is_absolute",
            || {
                let scene = Scene::new();
                let glob = format!("{}/*", scene.outside().display());
                scene.refuses_to_list(&json!({ "glob": glob }), PatternUnusable)
            },
            || {
                let scene = Scene::new();
                scene.lists(scene.outside().to_str().unwrap())
            },
        ),
        attempt(
            "files::list_of_a_linked_folder",
            || {
                let scene = Scene::new().link("out", "../outside");
                scene.refuses_to_list(&json!({ "path": "out" }), OutsideWorkspace)
            },
            || Scene::new().link("out", "../outside").lists("out"),
        ),
        attempt(
            "files::list_of_git",
            || {
                let scene = Scene::new();
                scene.refuses_to_list(&json!({ "path": ".git/hooks" }), OutOfReach)?;
                let list = scene.call("list_files", &json!({ "path": "vendor", "glob": "**" }));
                let list = list.map_err(|error| error.to_string())?;
                if list.contains(".git") { Err(format!("it is listed: {list}")) } else { Ok(()) }
            },
            || {
                let scene = Scene::new();
                contains(&names(&scene.root().join("vendor")).join("\n"), ".git")
            },
        ),
        attempt(
            "files::search_of_a_linked_folder",
            || {
                let scene = Scene::new().link("out", "../outside");
                scene.refuses("search_files", &json!({ "path": "out", "pattern": "SECR.T" }), OutsideWorkspace)?;
                scene.tells_nothing("search_files", &json!({ "pattern": "SECR.T" }))
            },
            || Scene::new().link("out", "../outside").reads("out/secret.txt"),
        ),
    ]
}

//! Names that change between two looks.

use std::fs;

use serde_json::json;

use super::attempt;
use super::scene::{Outcome, PWNED, Scene};
use crate::Attempt;

pub fn attempts() -> Vec<Attempt> {
    vec![
        attempt(
            "files::folder_swapped_for_a_link_while_reading",
            || {
                let arguments = json!({ "path": "swap/secret.txt" });
                Scene::new().swappable().while_swapping(500, |scene| scene.tells_nothing("read_file", &arguments))
            },
            || {
                let scene = Scene::new().swappable();
                is_inside(&scene)?;
                scene.swap();
                scene.reads("swap/secret.txt")
            },
        ),
        attempt(
            "files::folder_swapped_for_a_link_while_writing",
            || {
                let arguments = json!({ "path": "swap/new.txt", "text": PWNED });
                let scene = Scene::new().swappable();
                scene.while_swapping(300, |scene| scene.tells_nothing("write_file", &arguments))
            },
            || {
                let scene = Scene::new().swappable();
                is_inside(&scene)?;
                scene.swap();
                scene.writes("swap/new.txt", "outside/new.txt")
            },
        ),
        attempt(
            "files::folder_swapped_for_a_link_while_searching",
            || {
                let arguments = json!({ "pattern": "SECR.T" });
                Scene::new().swappable().while_swapping(300, |scene| scene.tells_nothing("search_files", &arguments))
            },
            || {
                let scene = Scene::new().swappable();
                is_inside(&scene)?;
                scene.swap();
                scene.reads("swap/secret.txt")
            },
        ),
        attempt(
            "files::folder_swapped_for_a_link_while_listing",
            || {
                Scene::new().swappable().while_swapping(300, |scene| {
                    let list = scene.call("list_files", &json!({})).map_err(|error| error.to_string())?;
                    // The harmless file has nine bytes, the other one seven.
                    if list.contains("secret.txt\t7") { Err(format!("it is listed: {list}")) } else { Ok(()) }
                })
            },
            || {
                let scene = Scene::new().swappable();
                is_inside(&scene)?;
                scene.swap();
                scene.lists("swap")
            },
        ),
    ]
}

/// What a tool without a sandbox would make sure of before it uses a path.
fn is_inside(scene: &Scene) -> Outcome {
    let real = fs::canonicalize(scene.root().join("swap")).map_err(|error| error.to_string())?;
    let root = fs::canonicalize(scene.root()).map_err(|error| error.to_string())?;
    if real.starts_with(root) { Ok(()) } else { Err("it is outside before it is swapped".to_owned()) }
}

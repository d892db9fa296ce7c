//! What is protected by its name, its shape or its object, each tried again with a sandbox that lacks just that.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use rondo_agent_kit::sandbox::files::Access;
use rondo_protocol::diagnostic::Code::{NotAFile, OutOfReach};
use serde_json::json;

use super::attempt;
use super::scene::{Outcome, PWNED, SECRET, Scene, contains};
use crate::Attempt;

/// Files that somebody has made already, from the folder that holds the workspace.
const THERE: [&str; 12] = [
    "root/.github/workflows/ci.yml",
    "root/linked/.git",
    "root/meta/HEAD",
    "root/meta/commondir",
    "root/meta/config",
    "root/bare/HEAD",
    "root/bare/objects/x",
    "root/bare/refs/x",
    "root/bare/config",
    "outside/sub/.git/config",
    "outside/sub/.rondo/db",
    "outside/aws/credentials",
];

fn prepare(at: &Path) {
    for file in THERE {
        fs::create_dir_all(at.join(file).parent().unwrap()).unwrap();
        fs::write(at.join(file), format!("{SECRET}\n")).unwrap();
    }
    fs::write(at.join("root/linked/.git"), "gitdir: ../meta\n").unwrap();
    fs::write(at.join("root/flow.yaml"), format!("{SECRET}\n")).unwrap();
    fs::hard_link(at.join("root/flow.yaml"), at.join("root/copy.yaml")).unwrap();
    fs::create_dir(at.join("root/parts")).unwrap();
    fs::write(at.join("root/parts/a.yaml"), format!("{SECRET}\n")).unwrap();
    for folder in ["nohead/objects", "nohead/refs", "norefs/objects", "apart"] {
        fs::create_dir_all(at.join("root").join(folder)).unwrap();
    }
    for file in ["norefs/HEAD", "apart/HEAD"] {
        fs::write(at.join("root").join(file), "ref: refs/heads/main\n").unwrap();
    }
    // The user's keys are elsewhere, and some will be.
    let outside = at.canonicalize().unwrap().join("outside");
    symlink(outside.join("aws"), at.join("root/.aws")).unwrap();
    symlink(outside.join("later"), at.join("root/.kube")).unwrap();
}

fn access(at: &Path) -> Access {
    let granted = vec![PathBuf::from("."), at.join("outside")];
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
    Access {
        read: granted.clone(),
        write: granted,
        hidden: paths(&[".aws", ".kube"]),
        read_only: paths(&["flow.yaml", "parts", "missing.yaml"]),
        ..Access::default()
    }
}

fn scene() -> Scene {
    Scene::made(prepare, access)
}

/// The same with nothing protected, hidden or read-only.
fn open() -> Scene {
    let nothing = |at: &Path| Access { hidden: vec![], read_only: vec![], protected: vec![], ..access(at) };
    Scene::made(prepare, nothing)
}

/// A path of the scene as it is named to a tool: what is outside by its absolute path.
fn named(scene: &Scene, path: &str) -> String {
    match path.strip_prefix("outside/") {
        Some(rest) => scene.outside().canonicalize().unwrap().join(rest).to_str().unwrap().to_owned(),
        None => path.to_owned(),
    }
}

/// A tool is not let write there, be the file there already or not.
fn is_not_written(path: &str) -> Outcome {
    let scene = scene();
    let path = named(&scene, path);
    scene.refuses("write_file", &json!({ "path": path, "text": PWNED }), OutOfReach)?;
    // An absolute path is no name in a patch.
    if path.starts_with('/') {
        return Ok(());
    }
    let addition = format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{PWNED}\n");
    match scene.call("apply_patch", &json!({ "patch": addition })) {
        Err(_) => scene.unharmed(),
        Ok(result) => Err(format!("the patch was let through: {result}")),
    }
}

fn is_written(path: &str) -> Outcome {
    let scene = open();
    let path = named(&scene, path);
    scene.call("write_file", &json!({ "path": path, "text": PWNED })).map_err(|error| error.to_string())?;
    contains(&fs::read_to_string(scene.root().join(path)).unwrap(), PWNED)
}

fn is_not_read(path: &str) -> Outcome {
    let scene = scene();
    scene.refuses_to_read(&named(&scene, path), OutOfReach)?;
    let folder = if path.starts_with("outside/") { named(&scene, "outside/sub") } else { "bare".to_owned() };
    scene.tells_nothing("search_files", &json!({ "path": folder, "pattern": "SECR.T" }))
}

fn is_read(path: &str) -> Outcome {
    let scene = open();
    let read = scene.call("read_file", &json!({ "path": named(&scene, path) })).map_err(|error| error.to_string())?;
    contains(&read, SECRET)
}

macro_rules! paths {
    ($held:ident, $free:ident: $($name:literal $path:literal),* $(,)?) => {
        vec![$(attempt(concat!("files::", $name), || $held($path), || $free($path))),*]
    };
}

pub fn attempts() -> Vec<Attempt> {
    let written = paths![is_not_written, is_written:
        "envrc_to_create" ".envrc",
        "envrc_in_capitals" "docs/.ENVRC",
        "tasks_of_an_editor_in_a_missing_folder" "a/b/.vscode/tasks.json",
        "settings_of_cargo_in_a_missing_folder" "src/.cargo/config.toml",
        "settings_of_a_shell_deep_down" "a/.config/fish/config.fish",
        "servers_of_an_agent" "docs/.mcp.json",
        "jobs_that_are_there" ".github/workflows/ci.yml",
        "names_below_a_second_root" "outside/deep/.husky/pre-commit",
        "settings_below_a_second_root" "outside/deep/rondo.toml",
        "git_below_a_second_root" "outside/sub/.git/config",
        "bare_repository_settings" "bare/config",
        "bare_repository_hook_to_create" "bare/hooks/post-checkout",
        "bare_repository_by_its_head" "nohead/HEAD",
        "bare_repository_by_its_refs" "norefs/refs/heads/main",
        "bare_repository_by_its_refs_in_capitals" "norefs/REFS/x",
        "bare_repository_by_what_it_shares" "apart/commondir",
        "git_file_where_it_points_to" "meta/config.worktree",
        "keys_where_their_link_leads" "outside/aws/credentials",
        "keys_where_their_link_will_lead" "outside/later/config",
        "read_only_file" "flow.yaml",
        "read_only_file_in_capitals" "FLOW.yaml",
        "read_only_file_by_a_hard_link" "copy.yaml",
        "read_only_file_that_is_missing" "missing.yaml",
        "read_only_folder" "parts/new/b.yaml",
    ];
    let read = paths![is_not_read, is_read:
        "bare_repository_to_read" "bare/config",
        "git_file_where_it_points_to_for_reading" "meta/config",
        "git_below_a_second_root_to_read" "outside/sub/.git/config",
        "store_below_a_second_root" "outside/sub/.rondo/db",
        "keys_where_their_link_leads_for_reading" "outside/aws/credentials",
        "keys_by_their_link" ".aws/credentials",
    ];
    let others = vec![
        attempt(
            "files::read_only_folder_by_a_link",
            || scene().link("way", "parts").refuses_to_write("way/a.yaml", NotAFile),
            || open().link("way", "parts").writes("way/a.yaml", "root/parts/a.yaml"),
        ),
        attempt("files::bare_repository_made_by_many_at_once", || at_once(&scene(), false), || at_once(&open(), true)),
        attempt("files::bare_repository_made_by_one_patch", || by_patch(&scene(), false), || by_patch(&open(), true)),
    ];
    [written, read, others].into_iter().flatten().collect()
}

fn is_repository(folder: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|part| folder.join(part).exists())
}

/// Three tools make a part each at the same time.
fn at_once(scene: &Scene, is_made: bool) -> Outcome {
    for round in 0..50 {
        let folder = format!("many/{round}");
        thread::scope(|scope| {
            for part in ["HEAD", "objects/x", "refs/x"] {
                let path = format!("{folder}/{part}");
                scope.spawn(move || scene.call("write_file", &json!({ "path": path, "text": "x" })));
            }
        });
        if is_repository(&scene.root().join(&folder)) != is_made {
            return Err(format!("in round {round} a repository was made: {}", !is_made));
        }
    }
    Ok(())
}

fn by_patch(scene: &Scene, is_made: bool) -> Outcome {
    let part = |path: &str| format!("--- /dev/null\n+++ b/one/{path}\n@@ -0,0 +1 @@\n+x\n");
    let patch = ["HEAD", "objects/x", "refs/x"].map(part).concat();
    let said = scene.call("apply_patch", &json!({ "patch": patch }));
    if is_repository(&scene.root().join("one")) == is_made { Ok(()) } else { Err(format!("{said:?}")) }
}

//! What is protected by its name or its object. Each is tried again with a sandbox that does not hold it.

use std::fs;
use std::path::Path;

use rondo_agent_kit::sandbox::process::{Access, Command};
use rondo_protocol::diagnostic::Code;

use super::ground::{Ground, SECRET, shell};
use crate::{Attempt, Without};

/// An attempt by the name of a function that tells whether it got out.
macro_rules! held {
    ($($name:ident),* $(,)?) => {
        vec![$(Attempt {
            name: concat!("process::", stringify!($name)),
            with_sandbox: || super::ground::held($name),
            without: Without::Succeeds(|| super::ground::succeeds_without_hold($name)),
        }),*]
    };
}

pub fn attempts() -> Vec<Attempt> {
    held![
        make_missing_names,
        make_missing_names_in_missing_folders,
        make_missing_names_in_a_folder_that_is_there,
        make_missing_names_in_a_second_root,
        rename_a_folder_to_a_missing_name,
        write_a_name,
        write_a_name_in_other_case,
        replace_a_name,
        write_through_a_link_to_a_name,
        write_by_a_hard_link_to_a_name,
        write_a_name_in_a_second_root,
        read_git_in_a_second_root,
        read_hidden_keys_where_their_link_leads,
        write_a_read_only_file,
        make_a_missing_read_only_file,
        replace_a_read_only_link,
        write_where_a_name_will_lead,
        write_a_declared_path_of_a_protected_name,
    ]
}

/// Whether any of these, below the folder that holds the workspace, is there with something in it.
fn is_made(ground: &Ground, paths: &[&str]) -> bool {
    paths.iter().any(|path| fs::symlink_metadata(ground.root().join(path)).is_ok())
}

fn make_missing_names(ground: &Ground) -> Result<bool, String> {
    ground.script(
        "echo x > .envrc; mkdir .vscode; echo x > .vscode/tasks.json; echo x > .mcp.json; ln -s src .husky; \
         ln src/open .npmrc; cp src/open .gitlab-ci.yml",
    )?;
    let names = [".envrc", ".vscode", ".mcp.json", ".husky", ".npmrc", ".gitlab-ci.yml"];
    Ok(is_made(ground, &names.map(|name| format!("workspace/{name}")).each_ref().map(String::as_str)))
}

fn make_missing_names_in_missing_folders(ground: &Ground) -> Result<bool, String> {
    ground
        .script("mkdir -p .github/workflows .cargo; echo x > .github/workflows/ci.yml; echo x > .cargo/config.toml")?;
    Ok(is_made(ground, &["workspace/.github/workflows/ci.yml", "workspace/.cargo/config.toml"]))
}

fn make_missing_names_in_a_folder_that_is_there(ground: &Ground) -> Result<bool, String> {
    fs::create_dir(ground.workspace().join(".cargo")).unwrap();
    fs::write(ground.workspace().join(".cargo/audit.toml"), "x").unwrap();
    ground.script(
        "echo x > .cargo/config; echo x > .cargo/config.toml; mv .cargo old; mkdir .cargo; echo x > .cargo/config",
    )?;
    Ok(is_made(ground, &["workspace/.cargo/config.toml", "workspace/.cargo/config"]))
}

fn make_missing_names_in_a_second_root(ground: &Ground) -> Result<bool, String> {
    ground.script(
        "cd ../second && { echo x > .envrc; mkdir -p .git/hooks .rondo; echo x > .git/config; echo x > rondo.toml; }",
    )?;
    Ok(is_made(ground, &["second/.envrc", "second/.git", "second/.rondo", "second/rondo.toml"]))
}

fn rename_a_folder_to_a_missing_name(ground: &Ground) -> Result<bool, String> {
    ground.script("mkdir src/new; echo x > src/new/tasks.json; mv -T src/new .vscode; mv src/new .idea")?;
    Ok(is_made(ground, &["workspace/.vscode/tasks.json", "workspace/.idea/tasks.json", "workspace/.idea/new"]))
}

/// A file of the user with a name that is protected, and whether a script changes it.
fn changes(ground: &Ground, path: &str, script: &str) -> Result<bool, String> {
    let path = ground.root().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, SECRET).unwrap();
    let said = ground.script(&format!("cat {} && {{ {script}\n}}", path.display()))?;
    if !said.contains(SECRET) {
        return Err(format!("it cannot even be read: {said}"));
    }
    Ok(is_changed(&path))
}

fn is_changed(path: &Path) -> bool {
    fs::read_to_string(path).ok().as_deref() != Some(SECRET)
}

fn write_a_name(ground: &Ground) -> Result<bool, String> {
    changes(ground, "workspace/.envrc", "chmod 777 .envrc; echo x > .envrc; truncate -s 0 .envrc")
}

fn write_a_name_in_other_case(ground: &Ground) -> Result<bool, String> {
    changes(ground, "workspace/.Vscode/tasks.json", "echo x > .Vscode/tasks.json; mv .Vscode old; mkdir .Vscode")
}

fn replace_a_name(ground: &Ground) -> Result<bool, String> {
    changes(
        ground,
        "workspace/.github/ci.yml",
        "echo x > src/x; mv -f src/x .github/ci.yml; rm -rf .github; ln -s b .github",
    )
}

fn write_through_a_link_to_a_name(ground: &Ground) -> Result<bool, String> {
    changes(ground, "workspace/.claude/hooks.json", "ln -s .claude way; echo x > way/hooks.json")
}

fn write_by_a_hard_link_to_a_name(ground: &Ground) -> Result<bool, String> {
    changes(ground, "workspace/.npmrc", "ln .npmrc mine; echo x > mine")
}

fn write_a_name_in_a_second_root(ground: &Ground) -> Result<bool, String> {
    changes(ground, "second/.envrc", "cd ../second; echo x > .envrc; mv .envrc old; echo x > .envrc")
}

fn reads(ground: &Ground, script: &str) -> Result<bool, String> {
    Ok(ground.script(script)?.contains(SECRET))
}

fn read_git_in_a_second_root(ground: &Ground) -> Result<bool, String> {
    fs::create_dir(ground.root().join("second/.git")).unwrap();
    fs::write(ground.root().join("second/.git/config"), SECRET).unwrap();
    reads(ground, "cat ../second/.git/config")
}

fn read_hidden_keys_where_their_link_leads(ground: &Ground) -> Result<bool, String> {
    reads(ground, "cat ../second/keys/one; mv ../second/keys mine; cat mine/one")
}

fn write_a_read_only_file(ground: &Ground) -> Result<bool, String> {
    let is_changed = changes(
        ground,
        "workspace/parts/one/flow.yaml",
        "cd parts; echo x > one/flow.yaml; echo x > one/x; mv -f one/x one/flow.yaml; rm -f one/flow.yaml; \
         mv one old; mkdir one; echo x > one/flow.yaml; cd ..; echo x > flow/part.yaml; mv flow other",
    )?;
    Ok(is_changed || self::is_changed(&ground.workspace().join("flow/part.yaml")))
}

fn make_a_missing_read_only_file(ground: &Ground) -> Result<bool, String> {
    ground.script("echo x > later.yaml; mkdir later.yaml; echo x > later.yaml/x")?;
    Ok(is_made(ground, &["workspace/later.yaml"]))
}

/// Runs a program, which may be refused.
fn run_or_refused(ground: &Ground, command: Command) -> Result<(), String> {
    match ground.run(command) {
        Err(error) if ![Code::ProgramNotStarted, Code::SandboxMissing].contains(&error.code) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// A program is not started where it could put another file in a link's place.
fn replace_a_read_only_link(ground: &Ground) -> Result<bool, String> {
    let link = ground.workspace().join("later.yaml");
    std::os::unix::fs::symlink("src/open", &link).unwrap();
    run_or_refused(ground, shell("rm later.yaml; echo x > later.yaml"))?;
    Ok(!link.is_symlink())
}

fn write_where_a_name_will_lead(ground: &Ground) -> Result<bool, String> {
    std::os::unix::fs::symlink("src/later", ground.workspace().join(".envrc")).unwrap();
    ground.script("echo x > src/later; mkdir src/later; echo x > src/later/x; echo x > .envrc")?;
    Ok(is_made(ground, &["workspace/src/later"]))
}

fn write_a_declared_path_of_a_protected_name(ground: &Ground) -> Result<bool, String> {
    let access = Access::Paths(vec!["src/.vscode/tasks.json".into()]);
    run_or_refused(ground, Command { access, ..shell("echo x > src/.vscode/tasks.json") })?;
    Ok(is_made(ground, &["workspace/src/.vscode/tasks.json"]))
}

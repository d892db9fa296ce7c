//! What a stranger's folder can do before and after consent, sentence by sentence of `engine/docs/trust.md`, and the places
//! in which consent has to work: containers, continuous integration, shared groups.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::binary::{Finished, Place, Running, binary};

const WORKFLOW: &str = r"
rondo: 1
name: clerk
roles:
  clerk: { system: You file notes., tools: [read_file, note] }
graph:
  start: { to: clerk, prompt: File it. }
  clerk: { done: { to: end } }
";

const SCRIPT: &str = "clerk:\n  - tools: [ { name: note } ]\n    then: { body: filed }\n";

/// Everything that a project's settings can start or reach, each leaving a mark.
const SETTINGS: &str = r#"
[store]
path = "elsewhere"
durability = "log"
[provider.openai]
base_url = "http://127.0.0.1:9/v1"
[model.default]
model = "theirs"
[mcp.docs]
command = "sh"
args = ["other.sh", "server"]
cwd = "workspace"
[tool.note]
argv = ["sh", "mark.sh", "tool"]
[hook.guard]
argv = ["sh", "other.sh", "hook"]
cwd = "workspace"
[grant]
tools = ["note", "read_file", "docs.*"]
[limits]
steps = 7
"#;

/// A folder as a stranger hands it over.
fn clone() -> Place {
    let place = Place::new();
    place.file("clerk/workflow.yaml", WORKFLOW);
    place.file("clerk/script.yaml", SCRIPT);
    place.file("clerk/tests/one.yaml", "answers: { clerk: [ { body: filed } ] }\n");
    // What servers and hooks are made of is out of the reach of tools, and so is not shared with one.
    for script in ["mark.sh", "other.sh"] {
        place.file(script, "echo \"$1\" >> marks.txt\n");
    }
    place.file("rondo.toml", SETTINGS);
    place
}

fn marks(place: &Place) -> String {
    std::fs::read_to_string(place.path().join("marks.txt")).unwrap_or_default()
}

/// Every file below a folder, with its size.
fn listing(folder: &Path) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                folders.push(entry.path());
            }
            files.push((entry.path().to_string_lossy().into_owned(), about.len()));
        }
    }
    files.sort();
    files
}

fn with_path(place: &Place, words: &[&str]) -> Finished {
    let mut command = place.command(words);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    Running::of(command).finish()
}

/// The user's own settings.
fn user_settings(place: &Place, text: &str) {
    let folder = place.home().join(".config/rondo");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

#[test]
fn verbs_that_look_work_in_a_cloned_folder_and_start_and_write_nothing() {
    let place = clone();
    let before = listing(&place.path());
    for words in [
        &["validate", "clerk"][..],
        &["validate", "--prefix", "clerk"],
        &["graph", "clerk"],
        &["simulate", "clerk"],
        &["test", "--check", "clerk"],
        &["doctor"],
        &["tools", "clerk"],
        &["tools"],
        &["threads"],
        &["show", "last"],
        &["messages", "last", "--role", "clerk", "--visit", "1"],
        &["trust", "clerk"],
        &["run", "clerk", "--offline"],
        &["run", "clerk"],
        &["resume"],
    ] {
        let looked = with_path(&place, words);
        assert!(looked.code.is_some_and(|code| code < 10), "{words:?}: {looked:?}");
    }
    assert_eq!(marks(&place), "");
    assert_eq!(listing(&place.path()), before);
}

#[test]
fn of_a_projects_settings_only_what_cannot_harm_counts_before_consent() {
    let place = clone();
    let found = place.run(["doctor", "--json"]).exits(0).json();
    let of = |subject: &str| {
        let finding = found.iter().find(|line| line["subject"] == subject).cloned().unwrap_or_default();
        finding["value"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(of("model.default.model"), "theirs");
    assert_eq!(of("limits.steps"), "7");
    assert!(of("provider.openai.base_url").contains("api.openai.com"), "{found:?}");
    assert!(of("durability").starts_with("sync"));
    assert!(of("store").ends_with("work/.rondo"), "{}", of("store"));
    assert!(of("trust of rondo.toml").contains("ignored: ") && of("trust of rondo.toml").contains("server docs"));

    place.trust(&[]);
    let found = place.run(["doctor"]).exits(0).text();
    assert!(found.contains("127.0.0.1:9") && found.contains("you agreed to it as it is"), "{found}");
}

#[test]
fn an_unattended_run_ends_with_the_command_to_type_and_trust_agrees_for_one_run() {
    let place = clone();
    let refused = with_path(&place, &["run", "clerk", "--offline", "--json"]).exits(3);
    let message = refused.event("error")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("rondo trust clerk") && message.contains("--trust"), "{message}");
    with_path(&place, &["run", "clerk", "--offline", "--trust"]).exits(0);
    assert_eq!(marks(&place), "tool\n", "what is not called is not started");
    assert!(!place.home().join(".local/share/rondo/trust.json").exists(), "nothing is recorded");
    with_path(&place, &["run", "clerk", "--offline"]).exits(3);
}

#[test]
fn over_another_store_consent_is_given_by_the_command_that_was_told() {
    let place = clone();
    let refused = with_path(&place, &["run", "clerk", "--offline", "--store", "other"]).exits(3);
    assert!(refused.stderr.contains("`rondo trust clerk`"), "a workflow is agreed to whatever the store: {refused:?}");
    place.trust(&["clerk"]);
    with_path(&place, &["run", "clerk", "--offline", "--store", "other"]).exits(0);
    std::fs::remove_file(place.path().join("other/owner")).unwrap();
    let refused = with_path(&place, &["run", "clerk", "--offline", "--store", "other"]).exits(3);
    assert!(refused.stderr.contains("`rondo trust --store other`"), "{refused:?}");
    let shown = place.run(["trust", "--store", "other", "--json"]).exits(3).event("trust");
    place.run(["trust", "--store", "other", "--yes", shown["digest"].as_str().unwrap()]).exits(0);
    with_path(&place, &["run", "clerk", "--offline", "--store", "other"]).exits(0);
}

#[test]
fn a_project_of_ones_own_is_asked_about_once() {
    let place = clone();
    place.trust(&["clerk"]);
    for _ in 0..2 {
        with_path(&place, &["run", "clerk", "--offline"]).exits(0);
    }
    place.run(["init", "demo"]).exits(0);
    for _ in 0..2 {
        place.run(["run", "demo", "--offline"]).exits(0);
    }
}

#[test]
fn what_is_written_by_init_asks_nothing_until_it_asks_for_more() {
    let place = Place::new();
    place.run(["init", "demo"]).exits(0);
    place.run(["run", "demo", "--offline"]).exits(0);
    let file = place.path().join("demo/workflow.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("two sentences", "three sentences").replace("steps: 20", "steps: 30")).unwrap();
    place.run(["run", "demo", "--offline"]).exits(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let more =
        text.replace("system: { file: prompts/editor.md }", "system: { file: prompts/editor.md }\n    tools: [shell]");
    std::fs::write(&file, more).unwrap();
    let refused = place.run(["run", "demo", "--offline"]).exits(3);
    assert!(refused.stderr.contains("shell"), "{refused:?}");
}

#[test]
fn each_change_of_what_was_agreed_to_asks_again() {
    type Change<'c> = (&'c str, &'c dyn Fn(&Place));
    let changes: [Change<'_>; 6] = [
        ("a script", &|place| drop(place.file("mark.sh", "echo more >> marks.txt\n"))),
        ("a script that became a link", &|place| {
            std::fs::rename(place.path().join("mark.sh"), place.path().join("old.sh")).unwrap();
            std::fs::write(place.path().join("evil.sh"), "echo evil >> marks.txt\n").unwrap();
            symlink("evil.sh", place.path().join("mark.sh")).unwrap();
        }),
        ("an argument", &|place| drop(place.file("rondo.toml", SETTINGS.replace("\"tool\"", "\"more\"")))),
        ("an address", &|place| drop(place.file("rondo.toml", SETTINGS.replace(":9/v1", ":10/v1")))),
        ("a prompt", &|place| drop(place.file("clerk/workflow.yaml", WORKFLOW.replace("File it.", "File all.")))),
        ("a retry", &|place| {
            let more =
                WORKFLOW.replace("tools: [read_file, note] }", "tools: [read_file, note], retry: { attempts: 2 } }");
            place.file("clerk/workflow.yaml", more);
        }),
    ];
    for (what, change) in changes {
        let place = clone();
        place.trust(&["clerk"]);
        with_path(&place, &["run", "clerk", "--offline"]).exits(0);
        change(&place);
        let refused = with_path(&place, &["run", "clerk", "--offline"]);
        assert_eq!(refused.code, Some(3), "{what}: {refused:?}");
        assert_eq!(marks(&place), "tool\n", "{what}");
    }
}

#[test]
fn a_copy_of_a_trusted_folder_was_not_agreed_to() {
    let place = clone();
    place.trust(&["clerk"]);
    let copy = Place::new();
    assert!(Command::new("cp").args(["-r"]).arg(place.path().join(".")).arg(copy.path()).status().unwrap().success());
    let mut command = copy.command(["run", "clerk", "--offline"]);
    command.env("HOME", place.home()).env("PATH", "/usr/bin:/bin");
    Running::of(command).finish().exits(3);
    assert_eq!(marks(&copy), "");
}

#[test]
fn settings_that_others_can_change_are_refused_whatever_is_agreed_to() {
    for (mode, is_folder) in [(0o666, false), (0o777, true)] {
        let place = clone();
        let open = if is_folder { place.path() } else { place.path().join("rondo.toml") };
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = with_path(&place, &["run", "clerk", "--offline", "--trust"]).exits(3);
        assert!(refused.stderr.contains("RN1705") && refused.stderr.contains("chmod o-w"), "{refused:?}");
        with_path(&place, &["trust"]).exits(3);
        with_path(&place, &["validate", "clerk"]).exits(0);
        assert_eq!(marks(&place), "");
    }
}

#[test]
fn a_group_of_ones_own_may_write_as_with_umask_002() {
    let place = clone();
    for path in [place.path(), place.path().join("rondo.toml")] {
        let mode = if path.is_dir() { 0o775 } else { 0o664 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    with_path(&place, &["run", "clerk", "--offline", "--trust"]).exits(0);
}

#[test]
fn root_in_a_container_works_on_a_checkout_of_another_user_with_one_flag() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a file to another user");
        return;
    }
    let place = clone();
    for path in [place.path(), place.path().join("rondo.toml"), place.path().join("clerk/workflow.yaml")] {
        std::os::unix::fs::chown(path, Some(1000), Some(1000)).unwrap();
    }
    let refused = with_path(&place, &["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("owner "), "{refused:?}");
    with_path(&place, &["run", "clerk", "--offline", "--trust"]).exits(0);
    place.trust(&["clerk"]);
    with_path(&place, &["run", "clerk", "--offline"]).exits(0);
}

/// Runs the binary as a user without a home, in a folder of theirs.
fn as_nobody(place: &Place, words: &[&str]) -> Option<Finished> {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !rustix::process::geteuid().is_root() || !setpriv.is_file() {
        println!("skipped: only root can take the place of another user, and needs setpriv");
        return None;
    }
    let root = place.path().parent().unwrap().to_owned();
    let copy = root.join("rondo");
    if !copy.exists() {
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::copy(binary(), &copy).unwrap();
        for (path, _) in listing(&place.path()).into_iter().chain([(place.path().to_string_lossy().into_owned(), 0)]) {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
    }
    let mut command = Command::new(setpriv);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy).args(words);
    command.current_dir(place.path()).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    Some(Running::of(command).finish())
}

#[test]
fn continuous_integration_without_a_home_runs_with_trust() {
    let place = clone();
    let Some(refused) = as_nobody(&place, &["run", "clerk", "--offline"]) else { return };
    refused.exits(3);
    for _ in 0..2 {
        let ran = as_nobody(&place, &["run", "clerk", "--offline", "--trust", "--json"]).unwrap().exits(0);
        assert_eq!(ran.event("thread_finished")["outcome"], "done");
    }
    assert_eq!(std::fs::metadata(place.path().join("elsewhere")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_store_that_came_with_a_folder_is_read_and_nothing_runs_over_it() {
    let place = Place::new();
    place.run(["init", "demo"]).exits(0);
    place.run(["run", "demo", "--offline"]).exits(0);
    // As if another user had made it.
    let owner = place.store().join("owner");
    let own = std::fs::read_to_string(&owner).unwrap();
    for foreign in [None, Some(own.replace(|c: char| c.is_ascii_digit(), "0")), Some("nonsense".to_owned())] {
        match &foreign {
            None => std::fs::remove_file(&owner).unwrap(),
            Some(text) => std::fs::write(&owner, text).unwrap(),
        }
        for words in [&["threads"][..], &["show", "last"], &["verify", "last"]] {
            place.run(words).exits(0);
        }
        let writing = [
            &["run", "demo", "--offline"][..],
            &["resume", "last"],
            &["cancel", "last"],
            #[cfg(feature = "caches")]
            &["cache", "clear"],
        ];
        for words in writing {
            let refused = place.run(words);
            assert_eq!(refused.code, Some(3), "{words:?}: {refused:?}");
            assert!(refused.stderr.contains("RN1706") && refused.stderr.contains("trust --store"), "{refused:?}");
        }
        place.run(["run", "demo", "--offline", "--trust"]).exits(0);
    }
    let shown = place.run(["trust", "--store", "--json"]).exits(3).event("trust");
    place.run(["trust", "--store", "--yes", shown["digest"].as_str().unwrap()]).exits(0);
    place.run(["run", "demo", "--offline"]).exits(0);
    place.run(["trust", "--store", "--revoke"]).exits(0);
    place.run(["run", "demo", "--offline"]).exits(3);
}

#[test]
fn a_store_is_known_wherever_it_lies_and_by_its_users_secret_alone() {
    let place = Place::new();
    place.run(["init", "demo"]).exits(0);
    place.run(["run", "demo", "--offline"]).exits(0);
    std::fs::rename(place.store(), place.path().join("moved")).unwrap();
    place.run(["run", "demo", "--offline", "--store", "moved"]).exits(0);
    let mut command = place.command(["run", "demo", "--offline", "--store", "moved"]);
    command.env("RONDO_SECRET_FILE", place.home().join("another"));
    Running::of(command).finish().exits(3);
    std::fs::remove_file(place.home().join(".local/share/rondo/secret")).unwrap();
    place.run(["run", "demo", "--offline", "--store", "moved"]).exits(3);
    place.run(["show", "last", "--store", "moved"]).exits(0);
}

#[test]
fn links_in_a_store_are_refused_and_nothing_behind_them_is_changed() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    for name in ["lock", "anchor", "owner", "socket", "db"] {
        let place = Place::new();
        place.run(["init", "demo"]).exits(0);
        std::fs::create_dir(place.store()).unwrap();
        symlink(&victim, place.store().join(name)).unwrap();
        for words in [&["run", "demo", "--offline"][..], &["run", "demo", "--offline", "--trust"], &["threads"]] {
            let refused = place.run(words);
            assert_eq!(refused.code, Some(3), "{name} {words:?}: {refused:?}");
            assert!(refused.stderr.contains("RN1309"), "{refused:?}");
        }
    }
    for target in [outside.path(), Path::new("/nowhere")] {
        let place = Place::new();
        place.run(["init", "demo"]).exits(0);
        symlink(target, place.store()).unwrap();
        place.run(["run", "demo", "--offline", "--trust"]).exits(3);
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_store_is_closed_to_others_and_to_version_control() {
    let place = Place::new();
    place.run(["init", "demo"]).exits(0);
    place.run(["run", "demo", "--offline"]).exits(0);
    std::fs::set_permissions(place.store(), std::fs::Permissions::from_mode(0o755)).unwrap();
    place.run(["run", "demo", "--offline"]).exits(0);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&place.store()), 0o700);
    for (path, _) in listing(&place.store()) {
        let path = Path::new(&path);
        assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    assert_eq!(std::fs::read_to_string(place.store().join(".gitignore")).unwrap(), "*\n");
}

#[test]
fn nothing_above_the_working_folder_is_looked_into_but_the_nearest_settings_below_the_home() {
    let place = Place::new();
    place.file("workflows/clerk/workflow.yaml", WORKFLOW);
    place.file("sub/empty", "");
    let mut command = place.command(["run", "clerk", "--offline"]);
    command.current_dir(place.path().join("sub"));
    Running::of(command).finish().exits(2);

    std::fs::write(place.home().join("rondo.toml"), SETTINGS).unwrap();
    std::fs::create_dir_all(place.home().join("project")).unwrap();
    let mut command = place.command(["run", "review-loop", "--offline"]);
    command.current_dir(place.home().join("project"));
    Running::of(command).finish().exits(0);
    assert!(place.home().join("project/.rondo").is_dir(), "the settings of the home are nobody's project");
}

#[test]
fn workflows_inside_the_binary_run_from_any_folder_without_consent() {
    let place = Place::new();
    let run = place.run(["run", "review-loop", "--offline", "--json"]).exits(0);
    assert_eq!(run.event("thread_finished")["outcome"], "done");
    place.run(["resume", "last"]).exits(0);
    place.run(["validate", "debate"]).exits(0);
}

#[test]
fn a_project_never_replaces_a_table_of_the_user() {
    let place = clone();
    user_settings(&place, "[tool.note]\nargv = [\"true\"]\n");
    let refused = with_path(&place, &["run", "clerk", "--offline", "--trust"]).exits(2);
    let told = &refused.stderr;
    assert!(told.contains("RN0806") && told.contains("rondo.toml:") && told.contains("config.toml:2"), "{told}");
}

#[test]
fn the_users_own_settings_need_no_consent_and_a_workflow_does_whoever_grants_its_tools() {
    let place = clone();
    std::fs::remove_file(place.path().join("rondo.toml")).unwrap();
    let note = "[tool.note]\nargv = [\"sh\", \"mark.sh\", \"own\"]\n[grant]\ntools = [\"note\", \"read_file\"]\n";
    user_settings(&place, note);
    let refused = with_path(&place, &["run", "clerk", "--offline"]).exits(3);
    assert!(refused.stderr.contains("note (for clerk)"), "{refused:?}");
    place.trust(&["clerk"]);
    with_path(&place, &["run", "clerk", "--offline"]).exits(0);
    assert_eq!(marks(&place), "own\n");
}

#[test]
fn denied_and_imposed_stand_above_what_a_project_says() {
    let place = clone();
    user_settings(&place, "[grant]\ndeny = [\"note\"]\n");
    let denied = with_path(&place, &["run", "clerk", "--offline", "--trust", "--json"]).exits(3);
    assert!(denied.event("error")["message"].as_str().unwrap().contains("deny"), "{denied:?}");

    let guard = place.home().join("guard.sh");
    std::fs::write(&guard, "echo no note today >&2; exit 2\n").unwrap();
    let imposed = format!(
        "[hook.own]\nargv = [\"sh\", \"{}\"]\n[[impose]]\nuse = \"command\"\nname = \"own\"\nat = \"tool\"\n[grant]\nread = [\".\", \"{}\"]\n",
        guard.display(),
        place.home().display(),
    );
    user_settings(&place, &imposed);
    let told = with_path(&place, &["run", "clerk", "--offline", "--trust", "--json"]).exits(0);
    let finished = told.event("tool_finished");
    assert_eq!((finished["failed"].as_bool(), marks(&place).as_str()), (Some(true), ""), "{finished}");
    let drawn = place.run(["graph", "clerk"]).exits(0).text();
    assert!(drawn.contains("imposed_1_command"), "{drawn}");
}

#[test]
fn records_inside_the_folder_that_is_asked_about_are_refused() {
    let place = clone();
    let mut command = place.command(["trust", "--json"]);
    command.env("XDG_DATA_HOME", place.path().join("data"));
    let shown = Running::of(command).finish().exits(3);
    let digest = shown.event("trust")["digest"].as_str().unwrap().to_owned();
    let mut command = place.command(["trust", "--yes", &digest]);
    command.env("XDG_DATA_HOME", place.path().join("data"));
    let refused = Running::of(command).finish().exits(3);
    assert!(refused.stderr.contains("in the folder that is asked about"), "{refused:?}");
}

#[test]
fn a_key_in_a_file_that_is_shared_is_told_with_its_place() {
    let place = Place::new();
    let key = "sk-0123456789abcdef";
    place.file("leak/workflow.yaml", WORKFLOW.replace("File it.", key).replace(", note", ""));
    for verb in ["run", "validate"] {
        let mut command = place.command([verb, "leak"]);
        command.env("OPENAI_API_KEY", key);
        let refused = Running::of(command).finish().exits(2);
        let told = format!("{}{}", refused.text(), refused.stderr);
        assert!(told.contains("RN0219") && told.contains("leak/workflow.yaml:7:"), "{told}");
        assert!(!told.contains(key), "{told}");
    }
}

#[test]
fn a_key_that_a_program_prints_is_used_and_shown_nowhere() {
    let place = Place::new();
    place.run(["init", "demo"]).exits(0);
    user_settings(
        &place,
        "[provider.openai]\nbase_url = \"http://127.0.0.1:9/v1\"\ntotal_timeout = \"200ms\"\nkey_command = [\"sh\", \"-c\", \"echo asked >> asked; cat key.txt\"]\n",
    );
    std::fs::write(place.home().join(".config/rondo/key.txt"), "sk-printed-0123456789\n").unwrap();
    let asked = place.home().join(".config/rondo/asked");
    with_path(&place, &["run", "demo", "--offline"]).exits(0);
    assert!(!asked.exists(), "no provider is asked");
    let failed = with_path(&place, &["run", "demo", "--json"]).exits(5);
    assert!(asked.exists() && !failed.text().contains("sk-printed"), "{failed:?}");
    assert!(!with_path(&place, &["doctor"]).exits(0).text().contains("sk-printed"));
}

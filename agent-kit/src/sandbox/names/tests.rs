use super::*;
use crate::sandbox::protected::protected;

fn names(patterns: &[&str]) -> Names {
    Names::new(&patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>())
}

#[test]
fn names_count_at_any_depth_and_below() {
    let names = Names::new(&protected());
    let of = |path: &str| names.protection(Path::new(path), 2);
    let closed = ["/w/.git", "/w/a/.GIT/config", "/w/.g\u{200c}it/x", "/w/a/GIT~1", "/w/b/.rondo/db", "/.git/w"];
    for path in closed {
        assert_eq!(of(path), Some(Protection::Closed), "{path}");
        assert!(names.closes(Path::new(path)), "{path}");
    }
    let held = [
        "/w/rondo.toml",
        "/w/a/b/.ENVRC",
        "/w/.vscode/tasks.json",
        "/w/a/.cargo/config.toml",
        "/w/.cargo/Config",
        "/w/x/.config/fish/config.fish",
    ];
    for path in held {
        assert_eq!(of(path), Some(Protection::ReadOnly), "{path}");
        assert!(!names.closes(Path::new(path)), "{path}");
    }
    for path in ["/w/Makefile", "/w/.gitignore", "/w/.cargo/audit.toml", "/w/config.toml", "/w/git/x", "/w"] {
        assert_eq!(of(path), None, "{path}");
    }
    // A granted folder of such a name was meant, but for what is closed.
    assert_eq!(names.protection(Path::new("/home/.claude/notes"), 3), None);
    assert_eq!(names.protection(Path::new("/home/.config/fish/x"), 3), Some(Protection::ReadOnly));
}

#[test]
fn an_operator_has_a_list_of_his_own() {
    let own = names(&["Makefile", "*.SH", "ops/*/deploy-*", "./.git/", ""]);
    let of = |path: &str| own.protection(Path::new(path), 1);
    for path in ["/w/a/makefile", "/w/run.sh", "/w/ops/eu/deploy-all/now"] {
        assert_eq!(of(path), Some(Protection::ReadOnly), "{path}");
    }
    for path in ["/w/.envrc", "/w/run.shx", "/w/ops/deploy-all", "/w/ops/eu/x/deploy-all"] {
        assert_eq!(of(path), None, "{path}");
    }
    assert_eq!(of("/w/.git"), Some(Protection::Closed));
    assert!(own.close_repositories() && !names(&["Makefile"]).close_repositories());
}

#[test]
fn what_a_folder_holds_is_found_by_each_pattern_and_no_deeper() {
    let folder = tempfile::tempdir().unwrap();
    for path in [".GIT", "src/.git", ".cargo/config.toml", "ops/eu/deploy-all", "ops/eu/other", "Makefile"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    let names = names(&[".git", ".cargo/config.toml", "ops/*/deploy-*", "make*", ".envrc"]);
    let found = names.found_in(folder.path());
    let expected = [".GIT", ".cargo/config.toml", "ops/eu/deploy-all", "Makefile"].map(|path| folder.path().join(path));
    assert!(found.iter().map(|(path, _)| path).eq(&expected), "{found:?}");
    assert_eq!(found.iter().filter(|(_, protection)| *protection == Protection::Closed).count(), 1);
}

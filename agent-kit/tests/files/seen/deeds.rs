//! Whatever is done to a folder: what still stands gives the same result again.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use rondo_agent_kit::sandbox::files::ReadSetValidity;
use serde_json::{Value, json};

use super::{aged, keeping_times, project, soon, tick};

/// One thing that somebody does to a folder.
#[derive(Debug, Clone)]
enum Deed {
    Write(&'static str, &'static str),
    WriteKeepingTimes(&'static str, &'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    Link(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Folder(&'static str),
    Mode(&'static str, u32),
}

impl Deed {
    /// The paths that it changes.
    fn paths(&self) -> Vec<&'static str> {
        match self {
            Self::Rename(from, to) | Self::HardLink(from, to) => vec![from, to],
            Self::Write(path, _)
            | Self::WriteKeepingTimes(path, _)
            | Self::Remove(path)
            | Self::Link(_, path)
            | Self::Folder(path)
            | Self::Mode(path, _) => vec![path],
        }
    }

    /// Does it, as far as it can be done, and never outside: links lead to `..` and `/etc`.
    fn on(&self, at: &Path) {
        let ground = fs::canonicalize(at).unwrap();
        let is_within = |path: &&str| {
            let parent = at.join(path).parent().and_then(|parent| fs::canonicalize(parent).ok());
            parent.is_some_and(|parent| parent.starts_with(&ground))
        };
        if !self.paths().iter().all(is_within) {
            return;
        }
        let gone = |path: &Path| drop(fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)));
        match self {
            Self::Write(path, text) => drop(fs::write(at.join(path), text)),
            Self::WriteKeepingTimes(path, text) => {
                if at.join(path).is_file() {
                    keeping_times(&at.join(path), |path| fs::write(path, text).unwrap());
                }
            }
            Self::Rename(from, to) => drop(fs::rename(at.join(from), at.join(to))),
            Self::Remove(path) => gone(&at.join(path)),
            Self::Link(target, path) => {
                gone(&at.join(path));
                drop(symlink(target, at.join(path)));
            }
            Self::HardLink(from, path) => {
                gone(&at.join(path));
                drop(fs::hard_link(at.join(from), at.join(path)));
            }
            Self::Folder(path) => drop(fs::create_dir(at.join(path))),
            Self::Mode(path, _) if at.join(path).is_symlink() => {}
            Self::Mode(path, mode) => drop(fs::set_permissions(at.join(path), Permissions::from_mode(*mode))),
        }
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let path = || {
        prop::sample::select(vec![
            "a.txt",
            "b.txt",
            "c.txt",
            "link",
            "folder",
            "src",
            "src/lib.rs",
            "src/deep",
            "src/deep/mod.rs",
            "src/deep/.ignore",
            "src/.gitignore",
            ".ignore",
            ".gitignore",
            "src/new",
        ])
    };
    let text = || prop::sample::select(vec!["alpha\n", "omega\n", "*.rs\n", "", "alpha\nalpha\n", "!left_out\n"]);
    let target = prop::sample::select(vec!["a.txt", "b.txt", "src", "deep", "src/deep", "nowhere", "..", "/etc"]);
    let deed = prop_oneof![
        4 => (path(), text()).prop_map(|(path, text)| Deed::Write(path, text)),
        2 => (path(), text()).prop_map(|(path, text)| Deed::WriteKeepingTimes(path, text)),
        2 => (path(), path()).prop_map(|(from, to)| Deed::Rename(from, to)),
        2 => path().prop_map(Deed::Remove),
        2 => (target, path()).prop_map(|(target, path)| Deed::Link(target, path)),
        1 => (path(), path()).prop_map(|(from, path)| Deed::HardLink(from, path)),
        1 => path().prop_map(Deed::Folder),
        1 => (path(), prop::sample::select(vec![0o644, 0o600, 0o755])).prop_map(|(path, mode)| Deed::Mode(path, mode)),
    ];
    prop::collection::vec(deed, 0..4)
}

fn calls() -> Vec<(&'static str, Value)> {
    let paths = ["a.txt", "link", "folder/lib.rs", "src/deep/mod.rs"];
    let mut calls: Vec<_> = paths.iter().map(|path| ("read_file", json!({ "path": path }))).collect();
    for path in [".", "src", "folder", "src/deep", "folder/deep"] {
        calls.push(("list_files", json!({ "path": path })));
        calls.push(("search_files", json!({ "path": path, "pattern": "alpha|omega" })));
    }
    calls
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// What still holds gives the same result again, whatever was done in between and however fast.
    #[test]
    fn what_still_holds_gives_the_same_result(before in deeds(), after in deeds(), has_ticked in any::<bool>()) {
        let scene = project();
        for deed in &before {
            deed.on(scene.path());
        }
        let mut kept = Vec::new();
        for (tool, arguments) in calls() {
            if let (Ok(text), Some(seen)) = scene.watched(tool, &arguments) {
                prop_assert_eq!(scene.workspace.validity(&seen, soon()), ReadSetValidity::Holds, "{} {}", tool, arguments);
                kept.push((tool, arguments, text, if has_ticked { aged(seen) } else { seen }));
            }
        }
        if has_ticked {
            tick(&scene);
        }
        for deed in &after {
            deed.on(scene.path());
        }
        for (tool, arguments, text, seen) in kept {
            if scene.workspace.validity(&seen, soon()) == ReadSetValidity::Holds {
                prop_assert_eq!(scene.says(tool, &arguments), text, "{} {} of {:?}", tool, arguments, seen);
            }
        }
    }
}

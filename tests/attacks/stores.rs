//! Stores that came with a folder, or in which something lies that is none of theirs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rondo_store::{Read as _, RocksReader};

use crate::attempt::Attempt;
use crate::double;
use crate::scene::{MINE, Scene};
use crate::settings::{pipe, would_wait};
use crate::verbs::{self, calling, with_tools};

/// The verbs that open a store, each with the words of an attempt.
const OPENING: &[&[&str]] = &[
    &["run", "plain", "--offline"],
    &["run", "plain", "--offline", "--trust"],
    &["resume", "last"],
    &["cancel", "last"],
    &["threads"],
    &["show", "last"],
    &["messages", "last", "--role", "a", "--visit", "1"],
    &["prefix", "last"],
    &["verify", "last"],
    &["trust", "--store"],
    &["test", "--from", "last", "--name", "x", "plain"],
    #[cfg(feature = "caches")]
    &["cache", "stats"],
    #[cfg(feature = "caches")]
    &["cache", "clear"],
];

/// Of them, those that write over it.
const WRITING: &[&[&str]] = &[
    &["run", "plain", "--offline"],
    &["record", "plain", "--offline", "--to", "r.jsonl"],
    &["resume", "last"],
    &["cancel", "last"],
    #[cfg(feature = "caches")]
    &["cache", "clear"],
];

fn store(scene: &Scene<'_>) -> PathBuf {
    scene.work().join(".rondo")
}

/// A store of the victim's own.
fn own(scene: &Scene<'_>) {
    verbs::plain(scene);
    scene.run(&["run", "plain", "--offline"]).exits(0);
}

/// A store that somebody else made of a run of `words`.
fn foreign_of(scene: &Scene<'_>, words: &[&str], exit: i32) {
    let home = scene.home().join("stranger");
    fs::create_dir_all(&home).unwrap();
    let mut command = scene.command_in(&scene.work(), words);
    command.env("HOME", &home);
    scene.settle();
    crate::binary::Running::of(command).finish().exits(exit);
    fs::remove_dir_all(home).unwrap();
}

fn foreign(scene: &Scene<'_>) {
    verbs::plain(scene);
    foreign_of(scene, &["run", "plain", "--offline"], 0);
}

/// Everything below a folder.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            found.insert(path, Vec::new());
        } else if about.is_file() {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

/// Every verb refuses it.
fn refused_by_all(scene: &Scene<'_>) {
    for words in OPENING {
        scene.refused(words, 3, "RN1309");
    }
    scene.run(&["doctor"]).exits(0);
}

/// No verb writes over it, and those that read leave it as it is.
fn unused(scene: &Scene<'_>) {
    scene.settle();
    let before = tree(&store(scene));
    for words in WRITING {
        scene.refused(words, 3, "RN1706");
    }
    verbs::quiet(scene);
    assert!(tree(&store(scene)) == before, "something in the store was changed");
}

pub fn attempts() -> Vec<Attempt> {
    let mut attempts = of_links();
    attempts.extend(of_kinds());
    attempts.extend(of_tags());
    attempts.extend(of_content());
    attempts
}

fn linked(is_named: bool, name: &'static str, file: &'static str) -> Attempt {
    let attempt = Attempt::of(name, is_named);
    attempt
        .set_up(move |scene| {
            own(scene);
            let path = store(scene).join(file);
            let _ = fs::remove_file(&path);
            symlink(scene.outside().join("victim"), path).unwrap();
        })
        .tried(refused_by_all)
        .double(move |scene| double::writes(&store(scene).join(file)) && scene.harm().is_some())
}

fn of_links() -> Vec<Attempt> {
    vec![
        Attempt::named("the store is a link to another store")
            .set_up(|scene| {
                own(scene);
                fs::rename(store(scene), scene.home().join("theirs")).unwrap();
                symlink(scene.home().join("theirs"), store(scene)).unwrap();
            })
            .tried(|scene| {
                scene.settle();
                let before = tree(&scene.home().join("theirs"));
                refused_by_all(scene);
                assert!(tree(&scene.home().join("theirs")) == before);
            })
            .double(|scene| {
                double::writes(&store(scene).join("lock"))
                    && fs::read_to_string(scene.home().join("theirs/lock")).unwrap().contains("careless")
            }),
        Attempt::named("the store is a link that leads nowhere")
            .set_up(|scene| {
                verbs::plain(scene);
                symlink(scene.outside().join("made"), store(scene)).unwrap();
            })
            .tried(refused_by_all)
            .double(|scene| {
                // One that makes what a link leads to.
                fs::create_dir_all(fs::read_link(store(scene)).unwrap()).is_ok() && scene.harm().is_some()
            }),
        Attempt::other("the store is a link to an empty folder")
            .set_up(|scene| {
                verbs::plain(scene);
                fs::create_dir(scene.home().join("empty")).unwrap();
                symlink(scene.home().join("empty"), store(scene)).unwrap();
            })
            .tried(|scene| {
                refused_by_all(scene);
                assert_eq!(fs::read_dir(scene.home().join("empty")).unwrap().count(), 0);
            })
            .double(|scene| double::writes(&store(scene).join("lock")) && scene.home().join("empty/lock").exists()),
        Attempt::named("the database is a link")
            .set_up(|scene| {
                own(scene);
                fs::rename(store(scene).join("db"), scene.home().join("db")).unwrap();
                symlink(scene.home().join("db"), store(scene).join("db")).unwrap();
            })
            .tried(refused_by_all)
            .double(|scene| double::writes(&store(scene).join("db/x")) && scene.home().join("db/x").exists()),
        linked(true, "the lock is a link", "lock"),
        linked(true, "the anchor is a link", "anchor"),
        linked(false, "what says whose the store is is a link", "owner"),
        linked(true, "a file of the database is a link", "db/CURRENT"),
        linked(false, "the log of the database is a link", "db/LOG"),
        linked(false, "the socket is a link", "socket"),
        linked(false, "what keeps the store out of version control is a link", ".gitignore"),
        linked(false, "the file that becomes the owner's is a link", "owner.new"),
        linked(false, "a table that nothing names is a link", "db/000777.sst"),
        Attempt::other("an older copy of the database is a link to a folder")
            .set_up(|scene| {
                own(scene);
                fs::create_dir(scene.home().join("precious")).unwrap();
                scene.put(&scene.home().join("precious/file"), MINE);
                symlink(scene.home().join("precious"), store(scene).join("recovery-1")).unwrap();
            })
            .tried(|scene| {
                refused_by_all(scene);
                assert_eq!(fs::read_to_string(scene.home().join("precious/file")).unwrap(), MINE);
            })
            .double(|scene| {
                // One that clears away what lies where such a copy would.
                let leads_to = store(scene).join("recovery-1").canonicalize().unwrap();
                fs::remove_dir_all(leads_to).is_ok() && !scene.home().join("precious/file").exists()
            }),
    ]
}

fn hard(name: &'static str, file: &'static str) -> Attempt {
    Attempt::other(name)
        .set_up(move |scene| {
            own(scene);
            let path = store(scene).join(file);
            let _ = fs::remove_file(&path);
            fs::hard_link(scene.outside().join("victim"), path).unwrap();
        })
        .tried(refused_by_all)
        .double(move |scene| double::writes(&store(scene).join(file)) && scene.harm().is_some())
}

fn piped(name: &'static str, file: &'static str) -> Attempt {
    Attempt::other(name)
        .set_up(move |scene| {
            own(scene);
            let path = store(scene).join(file);
            let _ = fs::remove_file(&path);
            pipe(&path);
        })
        .tried(refused_by_all)
        .double(move |scene| would_wait(&store(scene).join(file)))
}

fn of_another(name: &'static str, file: &'static str) -> Attempt {
    Attempt::named(name)
        .needs_root()
        .set_up(move |scene| {
            own(scene);
            scene.give_away(&store(scene).join(file));
        })
        .tried(|scene| {
            for words in OPENING {
                let refused = scene.run(words);
                // Another user than root cannot even look.
                let is_told = refused.code == Some(3) && format!("{refused:?}").contains("RN1309")
                    || refused.code == Some(9) && refused.stderr.contains("ermission denied");
                assert!(is_told, "{words:?}: {refused:?}");
            }
        })
        .double(move |scene| {
            fs::metadata(store(scene).join(file)).is_ok_and(|about| about.uid() == crate::scene::STRANGER)
        })
}

fn of_kinds() -> Vec<Attempt> {
    vec![
        hard("the anchor is a second name of a file outside", "anchor"),
        hard("the lock is a second name of a file outside", "lock"),
        hard("a log of the database is a second name of a file outside", "db/000999.log"),
        Attempt::other("a table is a second name of a file outside, whose mode would be mended")
            .set_up(|scene| {
                own(scene);
                fs::hard_link(scene.outside().join("victim"), store(scene).join("db/000999.sst")).unwrap();
            })
            .tried(|scene| {
                for words in OPENING {
                    scene.run(words);
                }
            })
            .double(|scene| {
                let table = store(scene).join("db/000999.sst");
                fs::set_permissions(table, fs::Permissions::from_mode(0o600)).unwrap();
                scene.harm().is_some()
            }),
        piped("the lock is a pipe", "lock"),
        piped("the anchor is a pipe", "anchor"),
        piped("a file of the database is a pipe", "db/CURRENT"),
        piped("what says whose the store is is a pipe", "owner"),
        of_another("the folder of the store belongs to another user", ""),
        of_another("the database belongs to another user", "db"),
        of_another("the anchor belongs to another user", "anchor"),
        of_another("the lock belongs to another user", "lock"),
        Attempt::other("somebody else listens at the socket")
            .needs_root()
            .set_up(|scene| {
                own(scene);
                let socket = store(scene).join("socket");
                let _ = fs::remove_file(&socket);
                // It lies there after its listener is gone as well.
                drop(UnixListener::bind(&socket).unwrap());
                scene.give_away(&socket);
            })
            .tried(refused_by_all)
            .double(|scene| {
                fs::metadata(store(scene).join("socket")).is_ok_and(|about| about.uid() == crate::scene::STRANGER)
            }),
        Attempt::other("folders nest deeper in it than a store's do")
            .set_up(|scene| {
                own(scene);
                symlink(scene.outside(), scene.put(&store(scene).join("db/deep/file"), "").with_file_name("link"))
                    .unwrap();
            })
            .tried(refused_by_all)
            .double(|scene| double::writes(&store(scene).join("db/deep/link/marker")) && scene.harm().is_some()),
        Attempt::named("everybody can write the store")
            .set_up(|scene| {
                own(scene);
                fs::set_permissions(store(scene), fs::Permissions::from_mode(0o777)).unwrap();
                fs::set_permissions(store(scene).join("anchor"), fs::Permissions::from_mode(0o666)).unwrap();
            })
            .tried(|scene| {
                scene.run(&["run", "plain", "--offline"]);
                let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
                assert_eq!((mode(&store(scene)), mode(&store(scene).join("anchor"))), (0o700, 0o600));
            })
            .double(|scene| fs::metadata(store(scene)).unwrap().mode() & 0o002 != 0),
    ]
}

fn tag_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn of_tags() -> Vec<Attempt> {
    let is_opened = |scene: &Scene<'_>| RocksReader::open(&store(scene)).is_ok();
    let spoilt = |name: &'static str, spoil: fn(&str) -> String| {
        Attempt::other(name)
            .set_up(move |scene| {
                own(scene);
                let owner = store(scene).join("owner");
                let text = fs::read_to_string(&owner).unwrap();
                fs::write(owner, spoil(&text)).unwrap();
            })
            .tried(unused)
            .double(move |scene| is_opened(scene))
    };
    vec![
        Attempt::named("the store has the tag of somebody else").set_up(foreign).tried(unused).double(is_opened),
        Attempt::other("the store has no tag")
            .set_up(|scene| {
                own(scene);
                fs::remove_file(store(scene).join("owner")).unwrap();
            })
            .tried(unused)
            .double(is_opened),
        Attempt::other("the id is that of one store and the tag that of another")
            .set_up(|scene| {
                own(scene);
                let first = fs::read_to_string(store(scene).join("owner")).unwrap();
                fs::remove_dir_all(store(scene)).unwrap();
                own(scene);
                let second = fs::read_to_string(store(scene).join("owner")).unwrap();
                let mixed = format!("{}\n{}\n", tag_of(&first)[0], tag_of(&second)[1]);
                fs::write(store(scene).join("owner"), mixed).unwrap();
            })
            .tried(unused)
            .double(is_opened),
        spoilt("the tag is cut off", |text| text[..text.len() - 3].to_owned()),
        spoilt("the tag is empty", |text| format!("{}\n\n", tag_of(text)[0])),
        spoilt("one bit of the tag is another", |text| {
            let last = text.trim_end().chars().next_back().unwrap();
            let other = if last == '0' { '1' } else { '0' };
            format!("{}{other}\n", &text.trim_end()[..text.trim_end().len() - 1])
        }),
        Attempt::other("a store is agreed to by the digest of what it held before")
            .set_up(foreign)
            .tried(|scene| {
                let digest = scene.digest(&["--store"]);
                foreign_of(scene, &["run", "plain", "--offline", "--trust"], 0);
                scene.refused(&["trust", "--store", "--yes", &digest], 3, "RN1706");
                scene.refused(&["run", "plain", "--offline"], 3, "RN1706");
            })
            .double(|scene| {
                // One that knows a store by its folder.
                let before = store(scene);
                foreign_of(scene, &["run", "plain", "--offline", "--trust"], 0);
                before == store(scene) && RocksReader::open(&before).is_ok()
            }),
    ]
}

/// A workflow whose answers are kept for every run over the store.
#[cfg(feature = "caches")]
const CACHED: &str = "rondo: 1\nname: cached\nroles:\n  a: { system: x }\ngraph:\n  start: { to: a, prompt: go }\n  \
    a: { done: { to: end } }\nhooks:\n  - { use: response_cache, scope: store, entries: 10 }\n";

fn of_content() -> Vec<Attempt> {
    vec![
        #[cfg(feature = "caches")]
        Attempt::named("the store answers in a model's place")
            .set_up(|scene| {
                scene.file("cached/workflow.yaml", CACHED);
                scene.file("cached/script.yaml", "a: [ { body: planted }, { body: asked } ]\n");
                foreign_of(scene, &["run", "cached", "--offline"], 0);
            })
            .tried(|scene| {
                let refused = scene.refused(&["run", "cached", "--offline", "--json"], 3, "RN1706");
                assert!(crate::scene::events(&refused, "hook_answered").is_empty(), "{refused:?}");
                scene.refused(&["cache", "warm", "last"], 3, "RN1706");
            })
            .double(|scene| {
                let (reader, _) = RocksReader::open(&store(scene)).unwrap();
                !reader.hook_values("response_cache", b"", 10).unwrap().is_empty()
            }),
        Attempt::named("a thread of the store waits to go on with its tools")
            .set_up(|scene| {
                scene.user("[grant]\ntools = [\"write_file\"]\n");
                scene.file("w/workflow.yaml", &with_tools("w", "write_file"));
                scene.file("w/script.yaml", "a: [ { error: { http: 401 } } ]\n");
                foreign_of(scene, &["run", "w", "--offline", "--trust"], 5);
                scene.file(
                    "w/script.yaml",
                    &format!(
                        "a:\n  - {{ error: {{ http: 401 }} }}\n{}",
                        &calling("write_file", "{ path: note.txt, text: x }")[3..]
                    ),
                );
            })
            .tried(|scene| {
                for words in [&["resume"][..], &["resume", "last"], &["resume", "last", "--offline"]] {
                    scene.refused(words, 3, "RN1706");
                }
                assert!(!scene.work().join("note.txt").exists());
            })
            .double(|scene| {
                let (reader, _) = RocksReader::open(&store(scene)).unwrap();
                reader.rows(None, usize::MAX).unwrap().len() == 1 && double::writes(&scene.work().join("note.txt"))
            }),
        Attempt::other("a foreign store is named on the command line")
            .set_up(|scene| {
                foreign(scene);
                fs::rename(store(scene), scene.work().join("kept")).unwrap();
            })
            .tried(|scene| {
                scene.refused(&["run", "plain", "--offline", "--store", "kept"], 3, "RN1706");
                scene.variable("RONDO_STORE", "kept");
                scene.refused(&["run", "plain", "--offline"], 3, "RN1706");
            })
            .double(|scene| RocksReader::open(&scene.work().join("kept")).is_ok()),
        Attempt::other("a store is half made, with an exchange of databases that was cut short")
            .set_up(|scene| {
                foreign(scene);
                fs::rename(store(scene).join("db"), store(scene).join("damaged-1")).unwrap();
                fs::create_dir(store(scene).join("recovery-1")).unwrap();
                scene.put(&store(scene).join("recovery-1/000001.sst"), "x");
            })
            .tried(|scene| {
                scene.settle();
                let before = tree(&store(scene));
                for words in WRITING {
                    assert!(scene.run(words).code != Some(0), "{words:?}");
                }
                verbs::quiet(scene);
                assert!(tree(&store(scene)) == before, "something in the store was changed");
            })
            .double(|scene| fs::rename(store(scene).join("damaged-1"), store(scene).join("db")).is_ok()),
        Attempt::other("the store holds an anchor and nothing else")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.put(&store(scene).join("anchor"), "x");
            })
            .tried(|scene| {
                scene.refused(&["run", "plain", "--offline"], 3, "RN1706");
                verbs::quiet(scene);
                assert_eq!(fs::read_dir(store(scene)).unwrap().count(), 1);
            })
            .double(|scene| double::writes(&store(scene).join("lock"))),
        Attempt::other("the store is a file")
            .set_up(|scene| {
                verbs::plain(scene);
                scene.put(&store(scene), "mine");
            })
            .tried(|scene| {
                verbs::quiet(scene);
                for words in WRITING {
                    assert!(scene.run(words).code != Some(0), "{words:?}");
                }
                assert_eq!(fs::read_to_string(store(scene)).unwrap(), "mine");
            })
            .double(|scene| double::writes(&store(scene))),
    ]
}

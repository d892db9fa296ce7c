//! Laws of keys, entries and dependencies, over many of them.

use std::path::Path;

use proptest::prelude::*;
use rondo_protocol::Digest;
use rondo_protocol::read_set::{FileStamp, ReadEntry, ReadKind, ReadSet};

use super::*;
use crate::cache::Scope;
use crate::cache::tool_cache::dependencies::{Dependencies, WriteSet};
use crate::cache::tool_cache::dependents::Dependents;
use crate::cache::tool_cache::entry::ToolResult;
use crate::cache::tool_cache::key::{About, Fixed, key};
use crate::cache::{CacheValue, Key, SecondaryIndex as _};

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![Just("a"), Just("b"), Just("c")];
    prop_oneof![
        1 => Just(".".to_owned()),
        8 => prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/")),
    ]
}

fn kind() -> impl Strategy<Value = ReadKind> {
    prop_oneof![Just(ReadKind::File), Just(ReadKind::Folder), Just(ReadKind::Listing), Just(ReadKind::Absent)]
}

fn read_entry(path: String, kind: ReadKind) -> ReadEntry {
    let mark = FileStamp { size_bytes: 3, modified: (1, 2), changed: (3, 4), device: 5, inode: 6 };
    ReadEntry { path, kind, mark: Some(mark), digest: None, read_bytes: 0 }
}

fn seen() -> impl Strategy<Value = ReadSet> {
    let one = (path(), kind()).prop_map(|(path, kind)| read_entry(path, kind));
    prop::collection::vec(one, 0..8).prop_map(|mut read_entries| {
        read_entries.sort();
        ReadSet { read_entries }
    })
}

fn fixed(tool: &str) -> Fixed {
    let tool = ToolView {
        name: tool.to_owned(),
        wire_name: String::new(),
        is_granted: true,
        needs_approval: false,
        origin: Origin::BuiltIn,
        definition: Digest::sha256(b""),
    };
    Fixed::of(&tool, Scope::Store, "/root".to_owned())
}

fn about(dependencies: Option<Dependencies>, arguments: &str) -> About {
    let (excerpt, digest) = About::arguments(arguments);
    About {
        fixed: fixed("look"),
        within: String::new(),
        effect: "reads".to_owned(),
        excerpt,
        arguments: digest,
        thread: "t".to_owned(),
        role: "a".to_owned(),
        visit: 1,
        dependencies,
    }
}

/// Law: dependencies are touched by exactly the writes that touch what they are made of, also once they have been stored.
#[test]
fn dependencies_are_touched_by_what_touches_what_was_seen() {
    let fixture = Fixture::new(Vec::new());
    let root = fixture.files.path();
    proptest!(ProptestConfig::with_cases(2000), |(seen in seen(), written in prop::collection::vec(path(), 0..3))| {
        let dependencies = Dependencies::of(&seen, root);
        let write_set = WriteSet::of(&written, &fixture.files);
        let expected = fixture.files.reach(&written).touches(&seen);
        prop_assert_eq!(write_set.touches(&dependencies), expected, "{:?}", dependencies);
        let kept = About::dependencies(&about(Some(dependencies), "{}").to_bytes()).unwrap();
        prop_assert_eq!(write_set.touches(&kept), expected);
    });
}

/// Law: the index finds exactly the entries that a write touches, whatever has come and gone before.
#[test]
fn what_a_write_touches_is_found_without_looking_at_all_entries() {
    let fixture = Fixture::new(Vec::new());
    let root = fixture.files.path();
    let entry = prop_oneof![8 => seen().prop_map(Some), 1 => Just(None)];
    let entries = prop::collection::vec((entry, any::<bool>()), 1..12);
    proptest!(ProptestConfig::with_cases(2000), |(entries in entries, written in prop::collection::vec(path(), 0..3))| {
        let mut dependents = Dependents::default();
        let keys = (0..12).map(|n| Key([n; 32]));
        let entries: Vec<(Key, Vec<u8>, bool)> = keys
            .zip(&entries)
            .map(|(key, (seen, stays))| {
                let dependencies = seen.as_ref().map(|seen| Dependencies::of(seen, root));
                (key, about(dependencies, "{}").to_bytes(), *stays)
            })
            .collect();
        for (key, about, _) in &entries {
            dependents.inserted(key, about);
        }
        entries.iter().filter(|(.., stays)| !stays).for_each(|(key, ..)| dependents.removed(key));
        for write_set in [WriteSet::of(&written, &fixture.files), WriteSet::anything()] {
            let touches =
                // Of a write that may reach anything, all are found: those too that saw nothing.
                |about: &Vec<u8>| About::dependencies(about).is_some_and(|dependencies| write_set.paths().is_none() || write_set.touches(&dependencies));
            let expected: Vec<Key> =
                entries.iter().filter(|(_, about, stays)| *stays && touches(about)).map(|(key, ..)| *key).collect();
            let mut found = dependents.touched(&write_set);
            found.sort();
            prop_assert_eq!(found, expected);
        }
        for (key, ..) in &entries {
            dependents.removed(key);
        }
        prop_assert_eq!(dependents.touched(&WriteSet::anything()), Vec::<Key>::new());
    });
}

/// A entry holds what it can; what does not fit is touched by any write.
#[test]
fn a_entry_is_bounded_and_never_claims_to_stand_on_less() {
    let fixture = Fixture::new(Vec::new());
    let touch = |path: &str| WriteSet::of(&[path.to_owned()], &fixture.files);
    for count in [1, 10, 100, 1000] {
        let read_entries =
            (0..count).map(|at| read_entry(format!("folder/with/a/name/{at:05}"), ReadKind::File)).collect();
        let dependencies = Dependencies::of(&ReadSet { read_entries }, fixture.files.path());
        let bytes = about(Some(dependencies), &"\u{1}".repeat(2000)).to_bytes();
        assert!(bytes.len() <= 4096, "{count}: {}", bytes.len());
        let kept = About::dependencies(&bytes).unwrap();
        assert!(touch("folder/with/a/name/00000").touches(&kept), "{count}");
        assert_eq!(touch("elsewhere").touches(&kept), count > 10, "{count}");
    }
    assert_eq!(About::dependencies(&about(None, "{}").to_bytes()), None);
    for unreadable in [&b""[..], b"l", b"l{", b"x{}", &[0xff; 40]] {
        assert_eq!(About::dependencies(unreadable), Some(Dependencies::any()), "{unreadable:?}");
    }
    // A search that listed a folder stands on that listing, however many files were in it.
    let mut read_entries: Vec<ReadEntry> =
        (0..1000).map(|at| read_entry(format!("deep/{at}"), ReadKind::File)).collect();
    read_entries.push(read_entry("deep".to_owned(), ReadKind::Listing));
    let kept = About::dependencies(
        &about(Some(Dependencies::of(&ReadSet { read_entries }, fixture.files.path())), "{}").to_bytes(),
    )
    .unwrap();
    assert!(touch("deep/999").touches(&kept) && touch("deep/new").touches(&kept) && !touch("else").touches(&kept));
}

/// A write in one workspace touches what was seen in another, by where it really is.
#[test]
fn folders_of_two_workspaces_are_told_apart() {
    let (one, other) = (Fixture::new(Vec::new()), Fixture::new(Vec::new()));
    let seen = ReadSet { read_entries: vec![read_entry("x".to_owned(), ReadKind::File)] };
    let write_set = WriteSet::of(&["x".to_owned()], &one.files);
    assert!(write_set.touches(&Dependencies::of(&seen, one.files.path())));
    assert!(!write_set.touches(&Dependencies::of(&seen, other.files.path())));
    let unnamed = std::ffi::OsStr::new("\u{fffd}");
    assert!(!write_set.touches(&Dependencies::of(&seen, Path::new(unnamed))));
}

/// A program with another argv or schema, or a server with another command or address, is another tool.
#[test]
fn what_runs_behind_a_tool_and_its_schema_are_part_of_its_definition() {
    let backend = |table: &str, what: &[u8]| HookResources {
        backends: BTreeMap::from([(table.to_owned(), Digest::sha256(what))]),
        ..HookResources::default()
    };
    for (origin, table) in [(Origin::Program, "tool.look"), (server("s"), "mcp.s")] {
        let tool = counting("look", origin, Effect::Pure);
        let other_schema = Spec { parameters: r#"{"type":"object"}"#.to_owned(), ..tool.spec().clone() };
        let definitions = [
            backend(table, b"a").definition(tool.spec()),
            backend(table, b"b").definition(tool.spec()),
            backend("tool.other", b"b").definition(tool.spec()),
            backend(table, b"a").definition(&other_schema),
        ];
        assert_eq!(definitions.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!(backend(table, b"a").definition(tool.spec()), definitions[0]);
    }
}

/// Keys: what differs in one part has another one.
#[test]
fn each_part_of_a_key_counts() {
    let base = fixed("look");
    let of = |fixed: &Fixed, within: &str, effect: &str, arguments: &str| {
        key(&fixed.digest().unwrap(), within, effect, arguments)
    };
    let mut keys = vec![of(&base, "w", "pure", "{}")];
    let change = |change: &dyn Fn(&mut Fixed)| {
        let mut fixed = base.clone();
        change(&mut fixed);
        of(&fixed, "w", "pure", "{}")
    };
    keys.push(change(&|fixed| fixed.version += 1));
    keys.push(change(&|fixed| "thread".clone_into(&mut fixed.scope)));
    keys.push(change(&|fixed| "look2".clone_into(&mut fixed.tool)));
    keys.push(change(&|fixed| "program".clone_into(&mut fixed.origin)));
    keys.push(change(&|fixed| "s".clone_into(&mut fixed.server)));
    keys.push(change(&|fixed| fixed.definition = Digest::sha256(b"x")));
    keys.push(change(&|fixed| "/other".clone_into(&mut fixed.root)));
    keys.push(of(&base, "v", "pure", "{}"));
    keys.push(of(&base, "", "pure", "{}"));
    keys.push(of(&base, "w", "reads", "{}"));
    keys.push(of(&base, "w", "pure", r#"{"a":1}"#));
    // A name with a line break moves nothing from one part to the next.
    keys.push(of(&base, "w\npure", "pure", "{}"));
    keys.push(of(&base, "w\npure\n{}", "pure", "{}"));
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
}

proptest! {
    /// What is read back is what was kept, and no bytes make reading panic.
    #[test]
    fn an_entry_is_read_back_as_it_was(text in ".*", seen in prop::option::of(seen()), cut in 0_usize..64) {
        let kept = ToolResult { text, seen };
        let bytes = kept.encode().unwrap();
        prop_assert_eq!(ToolResult::decode(&bytes), Ok(kept));
        let _ = ToolResult::decode(&bytes[..bytes.len().saturating_sub(cut)]);
        let _ = ToolResult::decode(&bytes[bytes.len().min(cut)..]);
    }
}

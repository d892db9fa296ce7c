//! The faults of `make mutants-durability` can be put into the sources as they are.

use std::fs;
use std::path::Path;

#[test]
fn every_mutant_still_fits_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut hunks = 0;
    for entry in fs::read_dir(root.join("tests/sim/mutants")).unwrap() {
        let patch = entry.unwrap().path();
        let text = fs::read_to_string(&patch).unwrap();
        let named: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Caught by: ")).collect();
        assert!(!named.is_empty(), "{} names no test", patch.display());
        for test in named {
            let (target, at) = test.split_once(' ').unwrap();
            let folders: &[&str] = match target {
                "lib" => &["protocol/src", "agent-kit/src", "engine/core/src", "engine/hooks/src", "engine/store/src"],
                _ => &["tests/sim"],
            };
            assert!(folders.iter().any(|folder| holds(&root.join(folder), at)), "{}: no {test}", patch.display());
        }
        for file in text.split("\n+++ b/").skip(1) {
            let (name, rest) = file.split_once('\n').unwrap();
            let source = fs::read_to_string(root.join(name)).unwrap();
            for hunk in rest.split("diff --git").next().unwrap().split("@@ ").skip(1).filter(|hunk| hunk.contains('\n'))
            {
                let before = hunk.lines().skip(1).filter_map(|line| line.strip_prefix([' ', '-']));
                let before = before.collect::<Vec<_>>().join("\n");
                assert!(source.contains(&before), "{}: this is not in {name}:\n{before}", patch.display());
                hunks += 1;
            }
        }
    }
    assert!(hunks > 6, "{hunks}");
}

/// Whether a test stands at a path of modules below a folder, in a file that the path names or in a module of it.
fn holds(folder: &Path, at: &str) -> bool {
    let names: Vec<&str> = at.split("::").collect();
    let (name, modules) = names.split_last().unwrap();
    (1..=modules.len()).any(|depth| {
        let (files, inside) = modules.split_at(depth);
        let file = folder.join(files.join("/"));
        let source = fs::read_to_string(file.with_extension("rs")).or_else(|_| fs::read_to_string(file.join("mod.rs")));
        source.is_ok_and(|source| {
            inside.iter().all(|module| source.contains(&format!("mod {module} {{")))
                && source.contains(&format!("fn {name}("))
        })
    })
}

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
        assert!(text.contains("\nCaught by: "), "{} names no test", patch.display());
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

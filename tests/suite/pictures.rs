//! Pictures of a workflow that are files.

use std::os::unix::fs::MetadataExt as _;

use crate::binary::{Place, fixture};

#[test]
fn a_picture_is_a_file_as_a_whole_in_the_format_of_its_ending() {
    let place = Place::new();
    let graph = |more: &[&str]| place.run([&["graph", &fixture("children")], more].concat());
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    let beginnings: [(&str, &[u8]); 5] = [
        ("p.svg", b"<svg "),
        ("p.dot", b"digraph "),
        ("p.json", b"{\"edges\":"),
        ("p.mmd", b"flowchart TD\n"),
        ("p", b"flowchart TD\n"),
    ];
    for (name, beginning) in beginnings {
        assert_eq!(graph(&["-o", name]).exits(0).text(), "", "{name}");
        assert!(read(name).starts_with(beginning), "{name}");
    }
    let shown = graph(&["--format", "svg"]).exits(0).text();
    assert!(String::from_utf8(read("p.svg")).unwrap().trim_end() == shown.trim_end(), "{shown}");
    graph(&["--format", "dot", "-o", "p.svg"]).exits(0);
    assert!(read("p.svg") == read("p.dot"), "what is said counts more than an ending");

    // A file that is written in place keeps its number, and whoever reads it meanwhile gets half of a picture.
    let number = |name: &str| std::fs::metadata(place.path().join(name)).unwrap().ino();
    std::fs::hard_link(place.path().join("p.mmd"), place.path().join("old.mmd")).unwrap();
    graph(&["-o", "p.mmd", "--hooks", "full"]).exits(0);
    assert_ne!(number("p.mmd"), number("old.mmd"));
    let lost = graph(&["-o", "no/such/folder.svg"]).exits(9);
    assert!(lost.stderr.contains("no/such/folder.svg"), "{}", lost.stderr);
    let mut left: Vec<_> = std::fs::read_dir(place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.retain(|name| name.starts_with(['.', 'p']));
    left.sort();
    assert_eq!(left, ["p", "p.dot", "p.json", "p.mmd", "p.svg"], "and nothing half-written");
}

#[test]
fn pixels_are_not_drawn_and_the_way_to_them_is_told() {
    let place = Place::new();
    let refused = place.run(["graph", &fixture("children"), "-o", "a b/p.PNG"]).exits(2);
    assert!(refused.stderr.contains("a b/p.svg") && refused.stderr.contains("SVG"), "{}", refused.stderr);
    assert!(!place.path().join("a b").exists());
    place.run(["graph", &fixture("children"), "-o", "p.png", "--format", "svg"]).exits(0);
}

#[test]
fn a_picture_that_would_take_minutes_is_refused_with_another_way() {
    let place = Place::new();
    let roles = (0..300).map(|role| format!("  r{role}: {{ system: x }}\n")).collect::<Vec<_>>().concat();
    let edge = |role| format!("  r{role}: {{ done: {{ to: r{}, prompt: x }} }}\n", role + 1);
    let edges = (0..300).map(edge).collect::<Vec<_>>().concat();
    let file = place.file(
        "long.yaml",
        format!("rondo: 1\nname: long\nroles:\n{roles}  r300: {{ system: x }}\ngraph:\n  start: {{ to: r0, prompt: x }}\n{edges}  r300: {{ done: {{ to: end }} }}\n"),
    );
    let refused = place.run(["graph", &file, "-o", "long.svg"]).exits(2);
    for word in ["RN0103", "605", "600", "--format dot"] {
        assert!(refused.stderr.contains(word), "{word} in {}", refused.stderr);
    }
    assert!(!place.path().join("long.svg").exists());
    place.run(["graph", &file, "-o", "long.dot"]).exits(0);
}

use std::fs;
use std::os::unix::fs::symlink;

use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::file::File;
use serde_json::json;

use crate::scene::Scene;

fn lines(words: &str, count: usize) -> String {
    (1..=count).map(|line| format!("{words} {line}")).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn lines_are_numbered() {
    let scene = Scene::of(&[("a.txt", "one\r\ntwo\n\nfour")]);
    let whole = "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n";
    assert_eq!(scene.says("read_file", &json!({ "path": "a.txt" })), whole);
    let absolute = scene.path().join("a.txt");
    assert_eq!(scene.says("read_file", &json!({ "path": absolute })), whole);
}

#[test]
fn a_part_says_that_it_is_one() {
    let text = lines("line", 1_234);
    let scene = Scene::of(&[("a.txt", &text)]);
    let part = scene.says("read_file", &json!({ "path": "a.txt", "from_line": 2, "to_line": 3 }));
    assert_eq!(part, "     2\tline 2\n     3\tline 3\n[lines 2-3 of 1,234]\n");
    let beyond = scene.call("read_file", &json!({ "path": "a.txt", "from_line": 1_235 })).unwrap_err();
    assert_eq!(beyond.code, Code::ToolArguments);
    assert_eq!(beyond.message, "\"a.txt\" has 1,234 lines; there is no line 1,235");
    let turned = scene.call("read_file", &json!({ "path": "a.txt", "from_line": 3, "to_line": 2 })).unwrap_err();
    assert_eq!(turned.code, Code::ToolArguments);
}

#[test]
fn a_long_file_is_read_on_where_it_was_cut_and_nothing_is_lost() {
    let text = lines("this is line", 40_000);
    let scene = Scene::of(&[("a.txt", &text)]);
    let (mut from, mut read) = (1, String::new());
    loop {
        let part = scene.says("read_file", &json!({ "path": "a.txt", "from_line": from }));
        assert!(part.len() <= (256 << 10) + 200, "{}", part.len());
        let lines = part.lines().filter_map(|line| line.split_once('\t'));
        read.extend(lines.map(|(_, line)| format!("{line}\n")));
        let Some((_, next)) = part.trim_end().trim_end_matches(']').rsplit_once("from_line ") else { break };
        from = next.parse().unwrap();
    }
    assert_eq!(read, text);
}

#[test]
fn an_endless_line_is_cut() {
    let scene = Scene::of(&[("a.txt", &format!("{}\nend\n", "ä".repeat(1 << 20)))]);
    let cut = scene.says("read_file", &json!({ "path": "a.txt" }));
    assert!(cut.len() < 300 << 10);
    assert!(cut.ends_with(
        "[line 1 is cut after 262,136 bytes; its rest cannot be shown]\n[lines 1-1 of 2; read on with from_line 2]\n"
    ));
    assert_eq!(scene.says("read_file", &json!({ "path": "a.txt", "from_line": 2 })), "     2\tend\n[lines 2-2 of 2]\n");
}

#[test]
fn what_is_not_text_is_told_apart() {
    let scene = Scene::of(&[("empty", "")]);
    fs::write(scene.path().join("binary"), b"BM\0\0\0\0").unwrap();
    fs::write(scene.path().join("latin"), b"caf\xe9\n").unwrap();
    let binary = scene.call("read_file", &json!({ "path": "binary" })).unwrap_err();
    assert_eq!(
        (binary.code, binary.message.as_str()),
        (Code::NotText, "\"binary\" is binary (6 bytes); only text can be read and changed")
    );
    assert_eq!(
        scene.says("read_file", &json!({ "path": "latin" })),
        "     1\tcaf\u{fffd}\n[not UTF-8 from line 1 on: bytes that are not are shown as \u{fffd}]\n"
    );
    assert_eq!(scene.says("read_file", &json!({ "path": "empty" })), "[the file is empty]\n");
    let folder = scene.call("read_file", &json!({ "path": "." })).unwrap_err();
    assert_eq!(folder.code, Code::NotAFile);
    let missing = scene.call("read_file", &json!({ "path": "nowhere" })).unwrap_err();
    assert_eq!(missing.code, Code::NoSuchFile);
}

#[test]
fn a_picture_is_shown() {
    let scene = Scene::of(&[("GIF89a", "GIF89a is how a picture begins, and this is a text.\n")]);
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    fs::create_dir(scene.path().join("shots")).unwrap();
    fs::write(scene.path().join("shots/a.txt"), png).unwrap();
    let path = json!({ "path": "shots/a.txt" });
    assert_eq!(scene.says("read_file", &path), "[a.txt (image/png), 10 bytes]");
    let shown = File { bytes: png.as_slice().into(), media_type: "image/png".to_owned(), name: "a.txt".to_owned() };
    assert_eq!(scene.files("read_file", &path), [shown]);
    assert!(scene.says("read_file", &json!({ "path": "GIF89a" })).contains("this is a text"));

    // Sparse, and read no further than it may be shown.
    let large = fs::File::create(scene.path().join("large.png")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&large, png, 0).unwrap();
    large.set_len(1 << 40).unwrap();
    let refused = scene.call("read_file", &json!({ "path": "large.png" })).unwrap_err();
    assert_eq!(
        refused.message,
        "\"large.png\" is a picture of 1,099,511,627,776 bytes; one of at most 20,971,520 can be shown"
    );
}

#[test]
fn links_that_stay_inside_are_followed() {
    let scene = Scene::of(&[("docs/guide.md", "text\n"), ("src/a.rs", "")]);
    symlink("../docs", scene.path().join("src/docs")).unwrap();
    symlink(scene.path().join("src/docs/guide.md"), scene.path().join("absolute")).unwrap();
    assert_eq!(scene.says("read_file", &json!({ "path": "src/docs/guide.md" })), "     1\ttext\n");
    assert_eq!(scene.says("read_file", &json!({ "path": "absolute" })), "     1\ttext\n");
}

#[test]
fn effects_name_what_is_read() {
    let scene = Scene::of(&[]);
    let reads = |path: &str| Effect::Reads(vec![path.to_owned()]);
    assert_eq!(scene.effect("read_file", &json!({ "path": "./src/../a.txt" })), reads("a.txt"));
    assert_eq!(scene.effect("read_file", &json!({ "path": scene.path().join("a") })), reads("a"));
    assert_eq!(scene.effect("list_files", &json!({})), reads("./"));
    assert_eq!(scene.effect("search_files", &json!({ "path": "src/", "pattern": "x" })), reads("src/"));
    let writes = Effect::Writes(vec!["a".to_owned(), "b".to_owned()]);
    let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n--- /dev/null\n+++ b/./b\n@@ -0,0 +1 @@\n+y\n";
    assert_eq!(scene.effect("apply_patch", &json!({ "patch": patch })), writes);
}

#[test]
fn schemas_are_what_a_provider_takes() {
    let specs = Scene::of(&[]).specs();
    let names: Vec<&str> = specs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["apply_patch", "edit_file", "list_files", "read_file", "search_files", "write_file"]);
    for (name, parameters) in specs {
        let schema: serde_json::Value = serde_json::from_str(&parameters).unwrap();
        assert_eq!(schema["type"], "object", "{name}");
        assert_eq!(schema["additionalProperties"], false, "{name}");
    }
}

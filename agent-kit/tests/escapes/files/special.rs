//! What is no regular file.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::thread;

use rondo_protocol::diagnostic::Code::{NotAFile, NotText, OutsideWorkspace};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use serde_json::json;

use super::scene::{Outcome, PWNED, SECRET, Scene, contains, in_time};
use super::{SYSTEM, attempt, only};
use crate::Attempt;

pub fn attempts() -> Vec<Attempt> {
    vec![
        attempt(
            "files::pipe_to_read",
            || in_time(|| Scene::new().pipe("pipe").refuses_to_read("pipe", NotAFile)),
            || in_time(a_reader_waits),
        ),
        attempt(
            "files::pipe_met_by_a_search",
            || in_time(|| Scene::new().pipe("pipe").tells_nothing("search_files", &json!({ "pattern": "x" }))),
            || in_time(a_reader_waits),
        ),
        attempt(
            "files::pipe_to_write",
            || {
                in_time(|| {
                    let scene = Scene::new().pipe("pipe");
                    let mut reader = reading_end(&scene);
                    scene.refuses_to_write("pipe", NotAFile)?;
                    let mut text = String::new();
                    reader.read_to_string(&mut text).map_err(|error| error.to_string())?;
                    if text.is_empty() { Ok(()) } else { Err(format!("{text} came through")) }
                })
            },
            || {
                in_time(|| {
                    let scene = Scene::new().pipe("pipe");
                    let mut reader = reading_end(&scene);
                    fs::write(scene.root().join("pipe"), PWNED).map_err(|error| error.to_string())?;
                    let mut text = String::new();
                    reader.read_to_string(&mut text).map_err(|error| error.to_string())?;
                    contains(&text, PWNED)
                })
            },
        ),
        attempt(
            "files::device_through_a_link",
            || in_time(|| Scene::new().link("zero", "/dev/zero").refuses_to_read("zero", OutsideWorkspace)),
            || {
                let path = Scene::new().link("zero", "/dev/zero");
                let mut bytes = [1; 16];
                let read = fs::File::open(path.root().join("zero")).and_then(|mut zero| zero.read_exact(&mut bytes));
                read.map_err(|error| error.to_string())?;
                if bytes == [0; 16] { Ok(()) } else { Err("not reached".to_owned()) }
            },
        ),
        only(
            "files::device_in_the_workspace",
            || {
                in_time(|| {
                    let scene = Scene::new();
                    let zero = rustix::fs::makedev(1, 5);
                    let path = scene.root().join("zero");
                    if rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR, zero).is_err() {
                        eprintln!("skipped: only a privileged process can make a device");
                        return Ok(());
                    }
                    scene.refuses_to_read("zero", NotAFile)?;
                    scene.refuses_to_write("zero", NotAFile)
                })
            },
            "containers forbid to open a device that was made in them",
        ),
        only(
            "files::socket",
            || {
                let scene = Scene::new();
                let _listener = UnixListener::bind(scene.root().join("socket")).map_err(|error| error.to_string())?;
                scene.refuses_to_read("socket", NotAFile)?;
                scene.refuses_to_write("socket", NotAFile)
            },
            SYSTEM,
        ),
        only(
            "files::sparse_giant",
            || {
                in_time(|| {
                    let scene = Scene::new();
                    let giant = fs::File::create(scene.root().join("giant")).map_err(|error| error.to_string())?;
                    giant.set_len(1 << 40).map_err(|error| error.to_string())?;
                    scene.refuses("read_file", &json!({ "path": "giant" }), NotText)?;
                    (&giant).write_all(b"text\n").map_err(|error| error.to_string())?;
                    let text = "text\n".repeat(2_000);
                    (&giant).write_all(text.as_bytes()).map_err(|error| error.to_string())?;
                    scene.tells_nothing("read_file", &json!({ "path": "giant" }))?;
                    scene.refuses("read_file", &json!({ "path": "giant", "from_line": 2_002 }), NotText)?;
                    scene.tells_nothing("search_files", &json!({ "pattern": "nowhere" }))?;
                    scene.refuses("edit_file", &json!({ "path": "giant", "old": "a", "new": "b" }), NotText)
                })
            },
            "a terabyte read at once ends the test itself",
        ),
        only("files::folder_to_write", || Scene::new().refuses_to_write("src", NotAFile), SYSTEM),
    ]
}

/// A pipe that is opened to read makes whoever opens it wait: it can be opened to write without waiting only then.
fn a_reader_waits() -> Outcome {
    let scene = Scene::new().pipe("pipe");
    let path = scene.root().join("pipe");
    let reader = thread::spawn(move || scene.reads("pipe"));
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let mut writer = loop {
        if let Ok(writer) = fs::OpenOptions::new().write(true).custom_flags(flags).open(&path) {
            break writer;
        }
        thread::yield_now();
    };
    writer.write_all(SECRET.as_bytes()).map_err(|error| error.to_string())?;
    drop(writer);
    reader.join().map_err(|_| "the reader failed".to_owned())?
}

fn reading_end(scene: &Scene) -> fs::File {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    fs::OpenOptions::new().read(true).custom_flags(flags).open(scene.root().join("pipe")).unwrap()
}

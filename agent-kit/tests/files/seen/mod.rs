//! What a call saw, and whether it still stands.

mod changes;
mod deeds;
mod notes;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rondo_agent_kit::sandbox::files::ReadSetValidity;
use rondo_protocol::read_set::{ReadKind, ReadSet};
use serde_json::Value;

use crate::scene::Scene;

fn soon() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

fn project() -> Scene {
    let scene = Scene::of(&[
        ("a.txt", "alpha\n"),
        ("b.txt", "bravo\n"),
        ("src/lib.rs", "fn alpha() {}\n"),
        ("src/deep/.ignore", "left_out\n"),
        ("src/deep/mod.rs", "fn bravo() {}\n"),
        ("src/deep/left_out", "alpha\n"),
    ]);
    fs::hard_link(scene.path().join("a.txt"), scene.path().join("twin")).unwrap();
    symlink("a.txt", scene.path().join("link")).unwrap();
    symlink("src", scene.path().join("folder")).unwrap();
    scene
}

/// What a call says and saw, which still stands.
fn seen(scene: &Scene, tool: &str, arguments: &Value) -> (String, ReadSet) {
    let (text, seen) = scene.watched(tool, arguments);
    let seen = seen.unwrap();
    assert_eq!(scene.workspace.validity(&seen, soon()), ReadSetValidity::Holds, "{tool} {arguments}");
    (text.unwrap(), seen)
}

/// As it would have been noted had every file been old: by its mark alone.
fn aged(mut seen: ReadSet) -> ReadSet {
    for read_entry in &mut seen.read_entries {
        if read_entry.kind == ReadKind::File && read_entry.read_bytes > 0 {
            (read_entry.digest, read_entry.read_bytes) = (None, 0);
        }
    }
    seen
}

/// Waits until the file system's clock has gone on, which takes some milliseconds.
fn tick(scene: &Scene) {
    let probe = tempfile::tempdir_in(scene.path().parent().unwrap()).unwrap();
    let now = || {
        fs::write(probe.path().join("probe"), "x").unwrap();
        let metadata = fs::metadata(probe.path().join("probe")).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = now();
    while now() == before {
        std::thread::yield_now();
    }
}

/// Writes a file that is young however long a test takes: its time is to come.
fn write_young(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    fs::write(&path, content).unwrap();
    let later = SystemTime::now() + Duration::from_hours(1);
    File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
}

/// Changes what stands below a folder.
type Change = fn(&Path);

fn keeping_times(path: &Path, change: impl FnOnce(&Path)) {
    let metadata = fs::metadata(path).unwrap();
    change(path);
    let times = FileTimes::new().set_modified(metadata.modified().unwrap()).set_accessed(metadata.accessed().unwrap());
    File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

fn relinked(path: &Path, target: &str) {
    fs::remove_file(path).unwrap();
    symlink(target, path).unwrap();
}

//! The wrapper around the C++ compiler, `.cargo/cxx`: groups are compiled as one, and what is kept is used for the same
//! sources, flags and compiler alone.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Sources laid out as those of RocksDB's crate, in a folder with a blank in its name.
struct Crate {
    root: TempDir,
    sources: PathBuf,
}

/// One more than a group.
const FILES: usize = 25;

impl Crate {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let sources = root.path().join("a folder");
        fs::create_dir_all(sources.join("rocksdb/db")).unwrap();
        fs::create_dir_all(sources.join("rocksdb/utilities/blob_db")).unwrap();
        let list: String = (0..FILES).fold(String::new(), |list, number| list + "db/f" + &number.to_string() + ".cc\n");
        for number in 0..FILES {
            let text = format!("#include \"db/common.h\"\nint f{number}() {{ return shared() + {number}; }}\n");
            fs::write(sources.join(format!("rocksdb/db/f{number}.cc")), text).unwrap();
        }
        fs::write(sources.join("rocksdb/db/common.h"), "#pragma once\nstatic int shared() { return 1; }\n").unwrap();
        fs::write(sources.join("rocksdb/utilities/blob_db/b.cc"), "int unreached() { return 1; }\n").unwrap();
        fs::write(sources.join("rocksdb_lib_sources.txt"), list + "utilities/blob_db/b.cc\n").unwrap();
        Self { root, sources }
    }

    fn cache(&self) -> PathBuf {
        self.root.path().join("kept objects/rondo/cxx")
    }

    fn object(&self, source: &str) -> PathBuf {
        self.sources.join(source.replace('/', "_")).with_extension("o")
    }

    /// Compiles a source as `cc` does.
    fn compile(&self, source: &str, flags: &[&str], environment: &[(&str, &Path)]) -> Output {
        let wrapper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cargo/cxx");
        let mut command = Command::new(wrapper);
        command
            .current_dir(&self.sources)
            .env_remove("CXX")
            .env("XDG_CACHE_HOME", self.root.path().join("kept objects"));
        command.args(["-O3", "-g", "-Wall"]).args(flags).args(["-I", "rocksdb/", "-I", "."]);
        command.arg("-o").arg(self.object(source)).args(["-c", source]).envs(environment.iter().copied());
        command.output().unwrap()
    }

    /// The functions that the object of a source defines.
    fn functions(&self, source: &str) -> usize {
        let told = Command::new("nm").arg("--defined-only").arg(self.object(source)).output().unwrap();
        String::from_utf8(told.stdout).unwrap().lines().filter(|line| line.contains(" T ")).count()
    }

    fn kept(&self) -> usize {
        fs::read_dir(self.cache()).map_or(0, |entries| {
            entries
                .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "o"))
                .count()
        })
    }

    /// A program that counts how often it compiles, in `calls`, and says that it is a compiler of this version.
    fn compiler(&self, version: &str) -> (PathBuf, PathBuf) {
        let (program, calls) = (self.root.path().join(version), self.root.path().join(format!("{version}.calls")));
        let counted = format!("case \"$*\" in *' -c '*) echo >> '{}' ;; esac", calls.display());
        let text =
            format!("#!/bin/sh\n[ \"$1\" = --version ] && {{ echo {version}; exit; }}\n{counted}\nexec c++ \"$@\"\n");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (program, calls)
    }
}

fn is_done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_first_of_a_group_holds_all_and_what_nothing_reaches_is_empty() {
    let it = Crate::new();
    for (source, functions) in [
        ("rocksdb/db/f0.cc", 24),
        ("rocksdb/db/f1.cc", 0),
        ("rocksdb/db/f23.cc", 0),
        ("rocksdb/db/f24.cc", 1),
        ("rocksdb/utilities/blob_db/b.cc", 0),
    ] {
        is_done(&it.compile(source, &[], &[]));
        assert_eq!(it.functions(source), functions, "{source}");
    }
    // All empty objects are one.
    assert_eq!(it.kept(), 3);
    // Any other source is the compiler's alone.
    fs::write(it.sources.join("own.cc"), "int own() { return 1; }\n").unwrap();
    is_done(&it.compile("own.cc", &[], &[]));
    assert_eq!((it.functions("own.cc"), it.kept()), (1, 3));
}

#[test]
fn what_is_kept_is_used_for_the_same_sources_flags_and_compiler_alone() {
    let it = Crate::new();
    let ((first, calls), (second, others)) = (it.compiler("one"), it.compiler("two"));
    let count = |calls: &Path| fs::read_to_string(calls).unwrap_or_default().lines().count();
    let source = "rocksdb/db/f0.cc";
    let compile = |compiler: &Path, flags: &[&str]| is_done(&it.compile(source, flags, &[("CXX", compiler)]));
    compile(&first, &[]);
    let bytes = fs::read(it.object(source)).unwrap();
    fs::remove_file(it.object(source)).unwrap();
    compile(&first, &[]);
    assert_eq!(fs::read(it.object(source)).unwrap(), bytes);
    // Another profile has the same objects.
    compile(&first, &["-O0", "-g2"]);
    assert_eq!(count(&calls), 1);
    compile(&first, &["-DOTHER=1"]);
    assert_eq!(count(&calls), 2);
    compile(&second, &[]);
    assert_eq!((count(&calls), count(&others)), (2, 1));
    fs::write(it.sources.join("rocksdb/db/common.h"), "#pragma once\nstatic int shared() { return 2; }\n").unwrap();
    compile(&first, &[]);
    assert_eq!(count(&calls), 3);
    // One that was cut is compiled again.
    for entry in fs::read_dir(it.cache()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "o") {
            fs::write(path, "cut").unwrap();
        }
    }
    compile(&first, &[]);
    assert_eq!((count(&calls), it.functions(source)), (4, 24));
}

#[test]
fn where_nothing_can_be_kept_it_is_compiled_and_a_fault_says_what_to_do() {
    let it = Crate::new();
    fs::write(it.root.path().join("kept objects"), "a file").unwrap();
    is_done(&it.compile("rocksdb/db/f0.cc", &[], &[]));
    assert_eq!(it.functions("rocksdb/db/f0.cc"), 24);
    // A full device.
    is_done(&it.compile("rocksdb/db/f24.cc", &[], &[("RONDO_CXX_CACHE", Path::new("/dev/full"))]));
    fs::write(it.sources.join("rocksdb/db/f3.cc"), "int f3() { return no; }\n").unwrap();
    let faulty = it.compile("rocksdb/db/f0.cc", &[], &[]);
    let told = String::from_utf8_lossy(&faulty.stderr).into_owned();
    assert!(!faulty.status.success() && told.contains("f3.cc") && told.contains("the ordinary way"), "{told}");
}

#[test]
fn builds_at_once_keep_one_object() {
    let all: [Crate; 4] = std::array::from_fn(|_| Crate::new());
    let shared = all[0].root.path().join("kept objects");
    std::thread::scope(|scope| {
        for it in &all {
            let shared = &shared;
            scope.spawn(move || is_done(&it.compile("rocksdb/db/f0.cc", &[], &[("XDG_CACHE_HOME", shared)])));
        }
    });
    let bytes = fs::read(all[0].object("rocksdb/db/f0.cc")).unwrap();
    for it in &all {
        assert!(fs::read(it.object("rocksdb/db/f0.cc")).unwrap() == bytes);
    }
    assert_eq!((all[0].kept(), all[0].functions("rocksdb/db/f0.cc")), (1, 24));
    let left = fs::read_dir(all[0].cache()).unwrap().count();
    assert_eq!(left, 2, "the object and its digest");
}

//! Faults at the system calls of a run: `inject.c`, which stands between a program and the kernel.
//!
//! `strace` counts the calls of each thread on its own, so that no number means one call of a run, and a library that is
//! loaded before others misses what does not go through libc. So this is a small program, which the tests compile with the
//! compiler that RocksDB needs too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::trace;

/// What happens in place of a call.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub name: &'static str,
    /// The kinds of calls that are counted, in the words of `inject.c`.
    kinds: &'static str,
    /// In its words too.
    what: &'static str,
}

/// The kinds that change files.
const CHANGES: &str = "write,sync,size,rename,unlink,link,mkdir,mode,create";

impl Fault {
    pub const KILL: Self = Self { name: "killed", kinds: CHANGES, what: "kill" };
    pub const EIO: Self = Self { name: "EIO", kinds: CHANGES, what: "5" };
    /// From a call on there is no more room.
    pub const ENOSPC: Self = Self { name: "ENOSPC", kinds: CHANGES, what: "28+" };
    pub const EIO_ON_READ: Self = Self { name: "EIO on read", kinds: "open,read,stat,lock", what: "5" };
    pub const EMFILE: Self = Self { name: "EMFILE", kinds: "open,create", what: "24" };

    pub const ALL: [Self; 5] = [Self::KILL, Self::EIO, Self::ENOSPC, Self::EIO_ON_READ, Self::EMFILE];

    pub fn is_kill(self) -> bool {
        self.what == Self::KILL.what
    }
}

/// The call that a fault met.
#[derive(Debug)]
pub struct Met {
    pub kind: String,
    pub path: PathBuf,
}

/// The compiled program.
#[derive(Debug, Clone)]
pub struct Injector(PathBuf);

impl Injector {
    /// `None` where the system does not let a process stand between another and the kernel.
    pub fn new() -> Option<Self> {
        static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
        COMPILED.get_or_init(compiled).clone().map(Self)
    }

    /// `command` with a fault at its `number`-th call to the files below `folder`, from 1. `report` gets what it met.
    pub fn command(&self, command: &Command, folder: &Path, report: &Path, fault: Fault, number: usize) -> Command {
        let mut program = Command::new(&self.0);
        program.arg(report).arg(folder).args([fault.kinds, fault.what, &number.to_string()]);
        trace::started_by(program, command)
    }
}

/// The call of that number in a report; `None` if the run made fewer.
pub fn met(report: &Path, number: usize) -> Option<Met> {
    let text = std::fs::read_to_string(report).unwrap();
    let (kind, path) = text.lines().nth(number.checked_sub(1)?)?.split_once(' ')?.1.split_once(' ')?;
    Some(Met { kind: kind.to_owned(), path: PathBuf::from(path) })
}

fn compiled() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("sim/inject.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = folder.join(format!("inject-{}", std::process::id()));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let said = Command::new(compiler).args(["-O1", "-Wall", "-Werror", "-o"]).arg(&own).arg(source).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    // Other tests may be running the same program.
    let program = folder.join("inject");
    std::fs::rename(own, &program).unwrap();
    let probe = tempfile::tempdir().unwrap();
    let (folder, report) = (probe.path(), probe.path().join("report"));
    let mut command = Command::new("/bin/cat");
    command.arg(folder.join("none"));
    let _ = Injector(program.clone()).command(&command, folder, &report, Fault::EIO_ON_READ, 0).output();
    let is_counted = std::fs::read_to_string(&report).is_ok_and(|text| !text.is_empty());
    if !is_counted {
        println!("left out: the kernel does not let a test stand between a program and its calls (seccomp_unotify(2))");
    }
    is_counted.then_some(program)
}

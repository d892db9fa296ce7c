//! The system calls of a run that change files below a folder, as `strace` records them.
//!
//! The program is the real one and knows nothing of it. Only its main process is followed file by file: the runs that are
//! recorded start no other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A call that has succeeded.
#[derive(Debug)]
pub struct SystemCall {
    /// The line of the record at which it began.
    pub begun: usize,
    /// The line at which it returned.
    pub ended: usize,
    pub name: String,
    /// Its arguments, in the notation of `strace`.
    pub arguments: Vec<String>,
    pub returned: usize,
    /// The path behind the descriptor that it returned, if it did.
    pub opened: Option<PathBuf>,
}

/// What is recorded. A name with `?` does not exist on every architecture.
const CALLS: &str = "openat,?open,?creat,write,pwrite64,writev,pwritev,?pwritev2,lseek,fsync,fdatasync,ftruncate,truncate,\
     fallocate,?rename,renameat,renameat2,?unlink,unlinkat,?link,linkat,?symlink,symlinkat,?mkdir,mkdirat,?rmdir,\
     copy_file_range,sendfile";

/// The most bytes of a write that are recorded.
const STRING_BYTES: &str = "67108864";

/// `command` with its system calls recorded in `file`; `None` where `strace` is missing or may not follow a process.
pub fn recorded(command: &Command, file: &Path) -> Option<Command> {
    let is_there = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        println!("left out: strace is missing or may not follow a process; `.ci/prepare tests` installs it");
        return None;
    }
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-y", "-xx", "-s", STRING_BYTES, "-e", "signal=none", "-e"]);
    traced.arg(format!("trace={CALLS}")).arg("-o").arg(file).arg("--");
    let mut traced = started_by(traced, command);
    // The recorder itself is found by the tests' own path; the run has none, as without it.
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    traced.env("PATH", path);
    Some(traced)
}

/// `command`, started by another program, which gets its words last, with pipes.
pub fn started_by(mut program: Command, command: &Command) -> Command {
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program.arg(command.get_program()).args(command.get_args()).env_clear();
    program.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        program.current_dir(folder);
    }
    program
}

/// The calls of a record in the order in which they returned.
pub fn read(text: &str) -> Vec<SystemCall> {
    let mut begun: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut calls = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(first) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(process, (at, first));
        } else if let Some((_, second)) = rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            let Some((since, first)) = begun.remove(process) else { continue };
            calls.extend(call(&format!("{first}{second}"), since, at));
        } else {
            calls.extend(call(rest, at, at));
        }
    }
    calls
}

fn call(text: &str, begun: usize, ended: usize) -> Option<SystemCall> {
    let (made, returned) = text.rsplit_once(" = ")?;
    let (name, rest) = made.split_once('(')?;
    let (arguments, _) = rest.rsplit_once(')')?;
    let digits = returned.split(|symbol: char| !symbol.is_ascii_digit()).next()?;
    let opened = returned.contains('<').then(|| path_of(returned)).flatten();
    // A failed call returns -1, which has no digit in front.
    let returned = digits.parse().ok()?;
    Some(SystemCall { begun, ended, name: name.to_owned(), arguments: split(arguments), returned, opened })
}

/// The arguments at the commas that stand in no bracket. Strings are hexadecimal, so they hold none of these.
fn split(text: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0_usize, vec![String::new()]);
    for symbol in text.chars() {
        match symbol {
            '[' | '{' | '<' => depth += 1,
            ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if symbol == ',' && depth == 0 {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(symbol);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// All quoted bytes of an argument, one string after the other.
pub fn bytes(argument: &str) -> Vec<u8> {
    argument.split('"').skip(1).step_by(2).flat_map(hexadecimal).collect()
}

fn hexadecimal(text: &str) -> impl Iterator<Item = u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap())
}

/// The descriptor that an argument names.
pub fn descriptor(argument: &str) -> usize {
    argument.split('<').next().and_then(|digits| digits.parse().ok()).unwrap()
}

/// The path in angle brackets.
pub fn path_of(argument: &str) -> Option<PathBuf> {
    let (_, rest) = argument.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    path.starts_with("\\x").then(|| text_path(&hexadecimal(path).collect::<Vec<u8>>()))
}

/// The path that a quoted argument names, below the folder of `at` unless it is absolute.
pub fn path_at(at: Option<&str>, argument: &str) -> PathBuf {
    let path = text_path(&bytes(argument));
    at.and_then(path_of).map_or(path.clone(), |folder| folder.join(path))
}

fn text_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8(bytes.to_vec()).unwrap())
}

//! The launcher of programs: this program, started a second time, which confines itself before it becomes what is to be
//! started.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use rondo_agent_kit::{mcp, sandbox};

/// Whether this program begins as a launcher where it is started as one.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// If this process was started as a launcher: its exit code, once what it started has ended.
pub fn entered() -> Option<ExitCode> {
    let exit = sandbox::process::entered().or_else(mcp::entered);
    IS_PREPARED.store(true, Ordering::Relaxed);
    exit
}

/// The file of the launcher; `None` if this program does not begin as one, or its file is not known.
pub(super) fn file() -> Option<PathBuf> {
    if IS_PREPARED.load(Ordering::Relaxed) { std::env::current_exe().ok() } else { None }
}

//! Namespaces made by bubblewrap, where installed: some systems allow it to make them and not us
//! (<https://github.com/containers/bubblewrap>).

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{getgid, getuid};

use super::super::plan::Plan;
use super::{hidden, mounts, namespaces};

/// Where it is searched for. Not in `PATH`, which may contain folders of the workspace.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

pub(in super::super) fn program() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// The bubblewrap command that does what `namespaces::enter` does and starts the launcher.
pub(super) fn command(plan: &Plan) -> io::Result<Command> {
    let program = program().ok_or_else(|| io::Error::other("bubblewrap is not installed"))?;
    let (folder, file) = hidden::make_masks(&plan.void())?;
    let mut command = Command::new(program);
    command.args(["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL"]);
    command.args(["--uid", &namespaces::number_inside(getuid().as_raw()).to_string()]);
    command.args(["--gid", &namespaces::number_inside(getgid().as_raw()).to_string()]);
    command.args(["--as-pid-1", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    let mut bind = |verb: &str, from: &Path, to: &Path| {
        command.arg(verb).arg(from).arg(to);
    };
    // The new /dev covers them.
    let read = plan.read.iter().chain([&plan.workspace]).filter_map(|path| path.canonicalize().ok());
    for path in read.filter(|path| path.starts_with("/dev/shm")) {
        bind("--ro-bind", &path, &path);
    }
    for path in mounts::writable(plan) {
        bind("--bind", &path, &path);
    }
    for path in hidden::pinned(plan) {
        bind("--bind", &path, &path);
    }
    for path in hidden::held(plan) {
        bind("--ro-bind", path, path);
    }
    for path in hidden::masked(plan) {
        bind("--ro-bind", if path.is_dir() { &folder } else { &file }, path);
    }
    command.arg("--").arg(&plan.launcher);
    Ok(command)
}

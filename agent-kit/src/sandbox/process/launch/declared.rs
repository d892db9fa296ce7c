//! The declared writable paths of a program, in a workspace that it otherwise only reads.
//!
//! A missing declared path is created before the sandbox is set up, with its parents: granting the nearest existing
//! folder would grant everything in it. A name with an extension becomes a file, any other a folder. Everything happens
//! beneath the open workspace, so that the kernel refuses a link that leads out, also one created meanwhile.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use super::super::plan::Plan;
use super::landlock;

pub(super) fn make_missing(plan: &Plan) -> io::Result<()> {
    if plan.declared.is_empty() {
        return Ok(());
    }
    let workspace = landlock::open(&plan.workspace, 0)?;
    plan.declared.iter().try_for_each(|path| make(plan, &workspace, path))
}

fn make(plan: &Plan, workspace: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut at = PathBuf::from(".");
    let mut reached = opened(workspace, &at, path)?;
    for part in path.components() {
        let name = match part {
            Component::CurDir => continue,
            Component::Normal(name) => name,
            _ => return Err(refused(path, "it is not given relative to the workspace and without ..")),
        };
        at.push(name);
        if let Some(file) = opened(workspace, &at, path)? {
            reached = Some(file);
            continue;
        }
        let folder = reached.ok_or_else(|| refused(path, "the workspace is gone"))?;
        check(plan, &real(&folder)?.join(name), path)?;
        let is_file = path.extension().is_some() && at.ends_with(path.strip_prefix(".").unwrap_or(path));
        let made = if is_file {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let everybody = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
            openat(&folder, name, flags, everybody).map(drop)
        } else {
            mkdirat(&folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(refused(path, &format!("it does not exist and cannot be made ({error})"))),
        }
        let made = opened(workspace, &at, path)?;
        reached = Some(made.ok_or_else(|| refused(path, "a link on the way leads nowhere"))?);
    }
    reached.map_or(Ok(()), |file| check(plan, &real(&file)?, path))
}

pub(super) fn open(plan: &Plan, path: &Path) -> io::Result<OwnedFd> {
    let workspace = landlock::open(&plan.workspace, 0)?;
    let at = Path::new(".").join(path);
    opened(&workspace, &at, path)?.ok_or_else(|| refused(path, "it was removed this moment"))
}

pub(super) fn real(file: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Opens the path `at` beneath the workspace.
fn opened(workspace: &OwnedFd, at: &Path, path: &Path) -> io::Result<Option<OwnedFd>> {
    match openat2(workspace, at, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::XDEV) => Err(refused(path, "it leads out of the workspace")),
        Err(error) => Err(refused(path, &error.to_string())),
    }
}

fn check(plan: &Plan, real: &Path, path: &Path) -> io::Result<()> {
    let is_hidden = plan.hidden.iter().any(|hidden| real.starts_with(hidden));
    if is_hidden {
        return Err(refused(path, "it is out of reach"));
    }
    let is_held = plan.read_only.iter().chain(&plan.kept).any(|held| real.starts_with(held));
    if is_held { Err(refused(path, "it may be read but not written")) } else { Ok(()) }
}

/// The error for a path that is not granted. Its kind shows that the sandbox itself is fine.
pub(super) fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} cannot be written: {why}", path.display()))
}

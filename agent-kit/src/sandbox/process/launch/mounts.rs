//! Makes everything read-only except what a program may write, in our mount namespace.
//!
//! Landlock does not restrict changes of permissions, owners and times.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::super::plan::Plan;

pub(super) const NONE: Option<&str> = None;

/// The writable folders and files, without links.
pub(super) fn writable(plan: &Plan) -> Vec<PathBuf> {
    let granted = plan.write.iter().filter_map(|path| path.canonicalize().ok());
    // Landlock refuses links created meanwhile, with a reason.
    let declared = plan.declared.iter().filter_map(|path| plan.workspace.join(path).canonicalize().ok());
    let declared = declared.filter(|path| path.starts_with(&plan.workspace));
    let mut writable: Vec<PathBuf> = granted.chain(declared).chain([plan.home()]).collect();
    // Outermost first, so that no mount covers an earlier one.
    writable.sort_by_key(|path| path.components().count());
    writable.dedup();
    writable
}

/// Makes each writable path a mount, and every other mount read-only.
pub(super) fn make_read_only(plan: &Plan) -> io::Result<()> {
    let writable = writable(plan);
    for root in &writable {
        mount(Some(root), root, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    }
    for (point, flags) in mounts()? {
        if writable.iter().any(|root| point.starts_with(root)) {
            continue;
        }
        match remount(&point, flags | MsFlags::MS_RDONLY) {
            // Mounts that we cannot access, or that are covered, the program cannot access either.
            Ok(()) | Err(Errno::ENOENT | Errno::EACCES | Errno::EINVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn make_read_only_below(paths: &[&Path]) -> io::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let paths: BTreeSet<&Path> = paths.iter().copied().collect();
    for (point, flags) in mounts()? {
        if point.ancestors().any(|above| paths.contains(above)) {
            remount(&point, flags | MsFlags::MS_RDONLY)?;
        }
    }
    Ok(())
}

fn remount(point: &PathBuf, flags: MsFlags) -> nix::Result<()> {
    mount(NONE, point, NONE, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags, NONE)
}

/// Every mount with its flags, which every remount must repeat, in the order of mounting
/// (<https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html>).
fn mounts() -> io::Result<Vec<(PathBuf, MsFlags)>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        let flags = options.split(|byte| *byte == b',').map(|option| match option {
            b"ro" => MsFlags::MS_RDONLY,
            b"nosuid" => MsFlags::MS_NOSUID,
            b"nodev" => MsFlags::MS_NODEV,
            b"noexec" => MsFlags::MS_NOEXEC,
            b"noatime" => MsFlags::MS_NOATIME,
            b"nodiratime" => MsFlags::MS_NODIRATIME,
            b"relatime" => MsFlags::MS_RELATIME,
            _ => MsFlags::empty(),
        });
        Some((unescaped(point), flags.collect()))
    };
    Ok(table.split(|byte| *byte == b'\n').filter_map(mount).collect())
}

/// Unescapes the path of a field, in which blanks are octal: `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut parts = field.split(|byte| *byte == b'\\');
    let mut path = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let octal = part.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                path.extend_from_slice(part.get(3..).unwrap_or_default());
            }
            None => path.extend_from_slice(part),
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

//! Masks hidden paths and holds read-only paths in a program's mount namespace, and reserves missing ones.
//!
//! Only an existing path can be masked. A missing hidden path that the program could create is reserved by an empty
//! folder while a program runs, so that no program can create a `rondo.toml` that the next run would use. Each run
//! holds a shared lock on the folder; the last one removes it, if it is still empty.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use rustix::fs::{FlockOperation, flock};

use super::super::is_empty;
use super::super::plan::{Plan, Report};
use super::mounts::{self, NONE};

/// How often to retry when another run removes the folder meanwhile.
const ATTEMPTS: u32 = 100;

pub(super) struct Places(Vec<(PathBuf, File)>);

impl Places {
    /// Reserves each path that is missing and could be created, or that another run reserves.
    pub fn keep(plan: &Plan) -> Result<Self, Report> {
        let mut places = Vec::new();
        let writable = mounts::writable(plan);
        let is_writable = |path: &Path| writable.iter().any(|root| path.starts_with(root) && path != root);
        for path in plan.hidden.iter().chain(&plan.kept).chain(&plan.read_only) {
            let refused = |error: &dyn std::fmt::Display| {
                Report::NoSandbox(format!("{} cannot be kept from programs: {error}", path.display()))
            };
            if path.is_symlink() {
                if is_writable(path) {
                    return Err(refused(&"it is a symbolic link; put what it leads to in its place"));
                }
                continue;
            }
            // One empty folder reserves everything below it.
            if places.iter().any(|(place, _): &(PathBuf, File)| path.starts_with(place)) {
                continue;
            }
            match keep(path, is_writable(path)) {
                Ok(place) => places.extend(place),
                // What we cannot create, the program cannot either.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS)) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        Ok(Self(places))
    }

    /// Releases the paths that no other run reserves.
    pub fn clear(self) {
        for (path, place) in self.0.into_iter().rev() {
            if flock(&place, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::remove_dir(&path);
            }
        }
    }
}

/// Reserves one path: the first missing component of it.
fn keep(path: &Path, is_writable: bool) -> io::Result<Option<(PathBuf, File)>> {
    for _ in 0..ATTEMPTS {
        let missing = path.ancestors().take_while(|part| !part.exists()).last();
        let place = missing.unwrap_or(path);
        let cannot_be_made = missing.is_some() && !is_writable;
        if cannot_be_made || missing.is_none() && !is_empty(place) {
            return Ok(None);
        }
        if missing.is_some()
            && let Err(error) = DirBuilder::new().mode(0o700).create(place)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let Ok(folder) = File::open(place) else { continue };
        flock(&folder, FlockOperation::LockShared)?;
        let is_still_there =
            fs::metadata(place).is_ok_and(|now| folder.metadata().is_ok_and(|was| was.ino() == now.ino()));
        if is_still_there {
            return Ok(Some((place.to_path_buf(), folder)));
        }
    }
    Err(io::Error::other("others make and remove it all the time"))
}

/// The folders between a writable root and a hidden or held path in it. Each becomes a mount, so that it cannot be
/// moved away together with the mask inside.
pub(super) fn pinned(plan: &Plan) -> Vec<PathBuf> {
    let mut pinned: Vec<PathBuf> = Vec::new();
    for root in mounts::writable(plan) {
        let paths = plan.hidden.iter().chain(&plan.read_only).chain(&plan.kept);
        for path in paths.filter(|path| path.starts_with(&root)) {
            let between = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&root) && **folder != root);
            pinned.extend(between.filter(|folder| folder.exists()).map(Path::to_path_buf));
        }
    }
    // Outermost first, so that no mount covers an earlier one.
    pinned.sort_by_key(|folder| folder.components().count());
    pinned.dedup();
    pinned
}

/// The paths to mask: hidden ones, and the folders that reserve missing ones.
pub(super) fn masked(plan: &Plan) -> Vec<&Path> {
    there(plan.hidden.iter())
}

/// The paths to hold read-only: those that are writable and not masked.
pub(super) fn held(plan: &Plan) -> Vec<&Path> {
    let (writable, masked) = (mounts::writable(plan), masked(plan));
    let mut held = there(plan.read_only.iter().chain(&plan.kept));
    held.retain(|path| writable.iter().any(|root| path.starts_with(root)));
    held.retain(|path| !masked.iter().any(|masked| path.starts_with(masked)));
    held
}

fn there<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Vec<&'p Path> {
    // The path, or the empty folder that reserves it.
    let there = |path: &'p PathBuf| path.ancestors().find(|part| part.exists() && (part == path || is_empty(part)));
    // The target of a link is listed separately.
    let mut there: Vec<&Path> = paths.filter(|path| !path.is_symlink()).filter_map(there).collect();
    there.sort_unstable();
    there.dedup();
    there
}

/// Creates an inaccessible empty folder and file in `void`.
pub(super) fn make_masks(void: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let (folder, file) = (void.join("folder"), void.join("file"));
    DirBuilder::new().mode(0o000).create(&folder)?;
    File::create(&file)?.set_permissions(Permissions::from_mode(0o000))?;
    Ok((folder, file))
}

/// Masks hidden paths and makes held ones read-only, in our mount namespace.
pub(super) fn mask(plan: &Plan, void: &Path) -> io::Result<()> {
    let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("void"), void, Some("tmpfs"), harmless, Some("size=64k,mode=0755"))?;
    let (folder, file) = make_masks(void)?;
    for path in pinned(plan) {
        mount(Some(&path), &path, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    }
    let held = held(plan);
    for path in &held {
        mount(Some(*path), *path, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    }
    mounts::make_read_only_below(&held)?;
    for path in masked(plan) {
        let over = if path.is_dir() { &folder } else { &file };
        mount(Some(over), path, NONE, MsFlags::MS_BIND, NONE)?;
        mount(NONE, path, NONE, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | harmless, NONE)?;
    }
    Ok(())
}

//! Hidden and read-only paths in a program's own mount namespace: how their places are kept, and how they are masked or
//! held.
//!
//! A mask can only lie on what exists. Where such a path does not exist and the program could make it, an empty folder
//! keeps its place for as long as a program runs, so that no program can make a `rondo.toml` that the next run would
//! believe. Each run holds a shared lock on the folder; the last one removes it, and removes nothing but an empty folder.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::mount::{MsFlags, mount};
use rustix::fs::{FlockOperation, flock};

use super::super::plan::{Plan, Report};
use super::mounts;

/// How often the place is taken again when another run removes it meanwhile.
const ATTEMPTS: u32 = 100;

/// The places of hidden paths that did not exist.
pub(super) struct Places(Vec<(PathBuf, File)>);

impl Places {
    /// Keeps the place of each path that does not exist and could be made, or that another run keeps.
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
            // One empty folder keeps the places of all that would be below it.
            if places.iter().any(|(place, _): &(PathBuf, File)| path.starts_with(place)) {
                continue;
            }
            match keep(path, is_writable(path)) {
                Ok(place) => places.extend(place),
                // Where we cannot create anything, the program cannot either.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS)) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        Ok(Self(places))
    }

    /// Gives the places free, if nobody else keeps them.
    pub fn clear(self) {
        for (path, place) in self.0.into_iter().rev() {
            if flock(&place, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::remove_dir(&path);
            }
        }
    }
}

/// Keeps the place of one path: of the first part of it that is missing.
fn keep(path: &Path, is_writable: bool) -> io::Result<Option<(PathBuf, File)>> {
    for _ in 0..ATTEMPTS {
        let missing = path.ancestors().take_while(|part| !part.exists()).last();
        let place = missing.unwrap_or(path);
        if missing.is_some() && !is_writable {
            return Ok(None);
        }
        if missing.is_some() {
            match DirBuilder::new().mode(0o700).create(place) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        } else if !is_empty_folder(place) {
            return Ok(None);
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

fn is_empty_folder(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// The folders between a writable root and what is hidden or held in it. Each is to be a mount of its own: what is one
/// cannot be moved away together with the mask that lies in it.
pub(super) fn pinned(plan: &Plan) -> Vec<PathBuf> {
    let mut pinned: Vec<PathBuf> = Vec::new();
    for root in mounts::writable(plan) {
        let paths = plan.hidden.iter().chain(&plan.read_only).chain(&plan.kept);
        for path in paths.filter(|path| path.starts_with(&root)) {
            let between = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&root) && **folder != root);
            pinned.extend(between.filter(|folder| folder.exists()).map(Path::to_path_buf));
        }
    }
    // From the outside in, so that no mount covers an earlier one.
    pinned.sort_by_key(|folder| folder.components().count());
    pinned.dedup();
    pinned
}

/// What there is to mask: the hidden paths, and where one does not exist, what keeps its place.
pub(super) fn masked(plan: &Plan) -> Vec<&Path> {
    there(plan.hidden.iter())
}

/// What is held: what is read-only or kept, as far as it could be written and is not masked.
pub(super) fn held(plan: &Plan) -> Vec<&Path> {
    let (writable, masked) = (mounts::writable(plan), masked(plan));
    let mut held = there(plan.read_only.iter().chain(&plan.kept));
    held.retain(|path| writable.iter().any(|root| path.starts_with(root)));
    held.retain(|path| !masked.iter().any(|masked| path.starts_with(masked)));
    held
}

fn there<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Vec<&'p Path> {
    let there = |path: &'p PathBuf| path.ancestors().find(|part| part.exists() && keeps(part, path));
    // What a link leads to is listed by its own name.
    let mut there: Vec<&Path> = paths.filter(|path| !path.is_symlink()).filter_map(there).collect();
    there.sort_unstable();
    there.dedup();
    there
}

/// What masks lie on, as it was before they were made. A mask falls off when somebody outside renames a file over what
/// it lies on, as an editor does that saves, and cannot be put back from here.
pub(super) struct Watched(Vec<(PathBuf, Option<Identity>)>);

/// A file or folder, told from one that has its name or its number later.
type Identity = (u64, u64, Option<SystemTime>);

impl Watched {
    /// Watches what is masked or held of what programs reach, and what is hidden and missing. The places of missing
    /// paths that could be made are kept by then.
    pub fn new(plan: &Plan) -> Self {
        let granted = plan.read.iter().chain(&plan.write).filter_map(|path| path.canonicalize().ok());
        let roots: Vec<PathBuf> = granted.chain([plan.workspace.clone()]).collect();
        let missing = plan.hidden.iter().map(PathBuf::as_path).filter(|path| !path.exists() && !path.is_symlink());
        let missing = missing.filter(|path| identity(path).is_none());
        let watched = masked(plan).into_iter().chain(held(plan)).chain(missing);
        let watched = watched.filter(|path| roots.iter().any(|root| path.starts_with(root)));
        Self(watched.map(|path| (path.to_path_buf(), identity(path))).collect())
    }

    /// One that is not what it was.
    pub fn replaced(&self) -> Option<&Path> {
        let is_other = |path: &Path, before: &Option<Identity>| {
            // An empty folder where nothing was keeps the place for another program.
            identity(path) != *before && !(before.is_none() && is_empty_folder(path))
        };
        self.0.iter().find(|(path, before)| is_other(path, before)).map(|(path, _)| path.as_path())
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.created().ok()))
}

/// Whether `part` is the hidden path or the empty folder that keeps its place.
fn keeps(part: &Path, path: &Path) -> bool {
    part == path || is_empty_folder(part)
}

/// An empty folder and an empty file that nobody may open, in `void`.
pub(super) fn make_masks(void: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let (folder, file) = (void.join("folder"), void.join("file"));
    DirBuilder::new().mode(0o000).create(&folder)?;
    File::create(&file)?.set_permissions(Permissions::from_mode(0o000))?;
    Ok((folder, file))
}

/// Masks what is hidden, and makes what is held read-only, in a mount namespace of our own.
pub(super) fn mask(plan: &Plan, void: &Path) -> io::Result<()> {
    const NONE: Option<&str> = None;
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

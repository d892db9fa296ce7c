//! Who can change a file: checks its owner and mode, and those of every folder above it.
//!
//! A settings file names programs to start, so a file that another user can write is not the operator's word. This
//! module does not read the contents of files.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::text::shell_argument;

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
/// In such a folder only a file's owner can replace it.
const STICKY: u32 = 0o1000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    #[error("everybody can write {}", path.display())]
    Everybody { path: PathBuf },
    /// A group other than the user's primary one can write or replace it.
    #[error("group {gid} can write {}", path.display())]
    Group { path: PathBuf, gid: u32 },
    /// It belongs to another user. A person can agree to that.
    #[error("{} belongs to user {uid}", path.display())]
    Owner { path: PathBuf, uid: u32 },
    #[error("{}: {what}", path.display())]
    Unreadable { path: PathBuf, what: String },
}

impl Unsafe {
    pub fn can_be_agreed_to(&self) -> bool {
        matches!(self, Self::Owner { .. })
    }

    pub fn hint(&self) -> Hint {
        match self {
            Self::Everybody { path } => {
                format!("`chmod o-w {}` closes it", shell_argument(&path.to_string_lossy())).into()
            }
            Self::Group { path, .. } => {
                format!("`chmod g-w {}` closes it", shell_argument(&path.to_string_lossy())).into()
            }
            Self::Owner { .. } => Hint::from(Operation::new(Verb::Trust))
                .words(" shows it and agrees, ")
                .operation(Operation::new(Verb::Again).choosing("trust"))
                .words(" agrees for one run"),
            Self::Unreadable { .. } => "it must be readable".into(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    /// The effective group, which is the primary one.
    pub gid: u32,
}

impl User {
    pub fn own() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

/// Everything that lets a user other than `user` and root change the file at `path`: the file at its real location,
/// and each folder above both of its names. Faults that cannot be agreed to come first.
pub fn faults(path: &Path, user: User) -> Vec<Unsafe> {
    let mut faults = Vec::new();
    let mut names: Vec<PathBuf> = vec![path.to_owned()];
    match path.canonicalize() {
        Ok(real) if real != path => names.push(real),
        Ok(_) => {}
        Err(error) => faults.push(Unsafe::Unreadable { path: path.to_owned(), what: error.to_string() }),
    }
    for name in names.iter().flat_map(|name| name.ancestors()).filter(|name| !name.as_os_str().is_empty()) {
        let fault = match std::fs::symlink_metadata(name) {
            // The mode of a link is meaningless, and its target is checked under its own name.
            Ok(about) if about.is_symlink() => owned_by_another(name, &about, user),
            Ok(about) => writable_by_others(name, &about, user).or_else(|| owned_by_another(name, &about, user)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Unsafe::Unreadable { path: name.to_owned(), what: error.to_string() }),
        };
        if let Some(fault) = fault.filter(|fault| !faults.contains(fault)) {
            faults.push(fault);
        }
    }
    faults.sort_by_key(Unsafe::can_be_agreed_to);
    faults
}

fn writable_by_others(path: &Path, about: &Metadata, user: User) -> Option<Unsafe> {
    let mode = about.mode();
    if about.is_dir() && mode & STICKY != 0 && about.uid() == 0 {
        return None;
    }
    if mode & OTHERS_WRITE != 0 {
        return Some(Unsafe::Everybody { path: path.to_owned() });
    }
    let gid = about.gid();
    (mode & GROUP_WRITES != 0 && gid != user.gid).then(|| Unsafe::Group { path: path.to_owned(), gid })
}

fn owned_by_another(path: &Path, about: &Metadata, user: User) -> Option<Unsafe> {
    let uid = about.uid();
    (uid != user.uid && uid != 0).then(|| Unsafe::Owner { path: path.to_owned(), uid })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::create_dir(path.join("project")).unwrap();
        fs::write(path.join("project/rondo.toml"), "").unwrap();
        (folder, path)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_write_is_not_believed_wherever_it_stands_above_the_file() {
        let (_folder, path) = place();
        let (project, file) = (path.join("project"), path.join("project/rondo.toml"));
        assert_eq!(faults(&file, User::own()), [], "as it is made, below a sticky folder");
        for open in [&file, &project, &path] {
            let before = fs::metadata(open).unwrap().mode();
            mode(open, 0o777);
            assert_eq!(faults(&file, User::own()), [Unsafe::Everybody { path: open.clone() }]);
            mode(open, 0o770);
            assert_eq!(faults(&file, User::own()), [], "the user's own group");
            let gid = fs::metadata(open).unwrap().gid();
            let other = User { gid: gid + 1, ..User::own() };
            assert_eq!(faults(&file, other), [Unsafe::Group { path: open.clone(), gid }]);
            mode(open, before & 0o7777);
        }
    }

    #[test]
    fn another_owner_can_be_agreed_to_and_a_link_is_looked_at_under_both_names() {
        let (_folder, path) = place();
        let file = path.join("project/rondo.toml");
        let stranger = User { uid: 4_000_000, gid: User::own().gid };
        let found = faults(&file, stranger);
        assert!(User::own().uid == 0 || !found.is_empty() && found.iter().all(Unsafe::can_be_agreed_to), "{found:?}");

        fs::create_dir(path.join("open")).unwrap();
        fs::write(path.join("open/real.toml"), "").unwrap();
        mode(&path.join("open"), 0o777);
        let link = path.join("project/link.toml");
        std::os::unix::fs::symlink(path.join("open/real.toml"), &link).unwrap();
        assert_eq!(faults(&link, User::own()), [Unsafe::Everybody { path: path.join("open") }]);
    }
}

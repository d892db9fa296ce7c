//! All names of a file or folder: as written, each link on the way, and the real path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LINKS_MAX: usize = 40;

/// The name itself, the links that it leads through, and their targets, whether or not they exist; with real parent
/// folders.
pub(crate) fn names_of(path: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let in_real_folder = |path: &Path| in_real_folder(path).unwrap_or_else(|| real(path));
    let mut at = in_real_folder(path);
    while names.len() <= LINKS_MAX && !names.contains(&at) {
        names.push(at.clone());
        let Ok(target) = at.read_link() else { break };
        at = in_real_folder(&at.parent().unwrap_or(Path::new("")).join(target));
    }
    names
}

fn in_real_folder(path: &Path) -> Option<PathBuf> {
    Some(real(path.parent()?).join(path.file_name()?))
}

/// The real path, also of a missing one.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().ok().or_else(|| in_real_folder(path)).unwrap_or_else(|| path.to_owned())
}

/// [`Path::starts_with`] ignoring case: an inaccessible path may not exist yet, so that its inode is unknown.
pub(crate) fn starts_with_any_case(path: &Path, prefix: &Path) -> bool {
    let mut names = path.iter();
    prefix.iter().all(|wanted| names.next().is_some_and(|name| is_same(name, wanted)))
}

fn is_same(name: &OsStr, wanted: &OsStr) -> bool {
    if name.eq_ignore_ascii_case(wanted) {
        return true;
    }
    // Few file systems fold case beyond ASCII, and few names need it.
    !wanted.as_bytes().is_ascii()
        && name.to_str().zip(wanted.to_str()).is_some_and(|(name, wanted)| name.to_lowercase() == wanted.to_lowercase())
}

/// Selects the paths that are, by any name, inside what is granted or around it. Others cannot be accessed anyway, and
/// each hidden path slows down the start of a program.
pub fn reached(paths: impl Iterator<Item = PathBuf>, granted: &[PathBuf]) -> Vec<PathBuf> {
    let granted: Vec<PathBuf> = granted.iter().map(|path| real(path)).collect();
    let is_granted = |name: &PathBuf| {
        granted.iter().any(|folder| starts_with_any_case(name, folder) || starts_with_any_case(folder, name))
    };
    paths.filter(|path| names_of(path).iter().any(is_granted)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_name_of_a_linked_folder_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        fs::create_dir_all(at.join("home")).unwrap();
        fs::create_dir_all(at.join("data/aws")).unwrap();
        symlink("../second", at.join("home/.aws")).unwrap();
        symlink(at.join("data/aws"), at.join("second")).unwrap();
        symlink(at.join("data/later"), at.join("home/.kube")).unwrap();
        symlink("circle", at.join("home/circle")).unwrap();
        let names = |path: &str| names_of(&at.join(path));
        assert_eq!(names("home/.aws"), [at.join("home/.aws"), at.join("second"), at.join("data/aws")]);
        assert_eq!(names("home/.kube"), [at.join("home/.kube"), at.join("data/later")]);
        assert_eq!(names("home/circle"), [at.join("home/circle")]);
        assert_eq!(names("home/nowhere/x"), [at.join("home/nowhere/x")]);

        // What is granted is met by the name that lies in it, be it there yet or not.
        let keys = [at.join("home/.aws"), at.join("home/.kube"), at.join("home/.ssh")];
        let reached = |granted: &str| reached(keys.iter().cloned(), &[at.join(granted)]);
        assert_eq!(reached("data"), keys[..2]);
        assert_eq!(reached("data/aws/sub"), keys[..1]);
        assert_eq!(reached("elsewhere"), Vec::<PathBuf>::new());
        assert_eq!(reached("home"), keys);
    }
}
